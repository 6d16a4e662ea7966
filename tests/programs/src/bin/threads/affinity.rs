//! Affinity: masks and their errors, and that a thread is where it should be.

use core::sync::atomic::{AtomicU32, Ordering};

use user::abi::Errno;
use user::sys;
use user::sys::clone::{self, Words, get_affinity, getcpu, set_affinity};

use crate::{Checks, join};

/// Room for the mask of 8,192 processors, the most that Linux is built for.
const MASK: usize = 1024;

type Mask = [u8; MASK];

/// The mask of one processor.
pub(crate) fn single(cpu: usize) -> Mask {
    let mut mask = [0; MASK];
    if let Some(byte) = mask.get_mut(cpu / 8) {
        *byte = 1 << (cpu % 8);
    }
    mask
}

/// The processors of a mask.
pub(crate) fn members(mask: &Mask) -> impl Iterator<Item = usize> {
    (0..MASK * 8).filter(|cpu| mask[cpu / 8] >> (cpu % 8) & 1 == 1)
}

/// The processors that the caller may run on; none if the call fails.
pub(crate) fn own() -> Mask {
    let mut mask = [0; MASK];
    match get_affinity(0, &mut mask) {
        Ok(_) => mask,
        Err(_) => [0; MASK],
    }
}

static WORDS: Words = Words::new();
static STOP: AtomicU32 = AtomicU32::new(0);
static SEEN: AtomicU32 = AtomicU32::new(u32::MAX);

/// Says all the time where it runs.
extern "C" fn look_around(_: usize) {
    while STOP.load(Ordering::Relaxed) == 0 {
        SEEN.store(getcpu().unwrap_or(u32::MAX), Ordering::Release);
    }
}

pub(crate) fn run(checks: &mut Checks) {
    let all = own();
    errors(checks, &all);
    for cpu in members(&all) {
        checks.equal("moving oneself", set_affinity(0, &single(cpu)), Ok(0));
        checks.equal("where one is", getcpu(), Ok(cpu as u32));
        checks.check("the mask comes back", own() == single(cpu));
    }
    let tid = match clone::spawn(look_around, 0, &WORDS) {
        Ok(tid) => tid,
        Err(error) => return checks.equal("clone", Err(error), Ok(())),
    };
    let mut inherited = [0; MASK];
    let stored = get_affinity(tid, &mut inherited);
    checks.check("another thread's mask", stored.is_ok());
    checks.check("a thread inherits its mask", inherited == own());
    for _ in 0..20 {
        for cpu in members(&all) {
            checks.equal("moving a thread", set_affinity(tid, &single(cpu)), Ok(0));
            // It may have looked just before it was moved: what it says from
            // its second look on is where it is.
            for _ in 0..2 {
                SEEN.store(u32::MAX, Ordering::Release);
                while SEEN.load(Ordering::Acquire) == u32::MAX {
                    let _: Result<usize, Errno> = sys::yield_now();
                }
            }
            checks.equal("where it is", SEEN.load(Ordering::Acquire), cpu as u32);
        }
    }
    STOP.store(1, Ordering::Relaxed);
    join(&WORDS);
    checks.equal("being everywhere again", set_affinity(0, &all), Ok(0));
    checks.check("that mask comes back", own() == all);
}

fn errors(checks: &mut Checks, all: &Mask) {
    let mut mask = [0; MASK];
    checks.equal("no processors", set_affinity(0, &mask), Err(Errno::INVAL));
    checks.equal("an empty mask", set_affinity(0, &[]), Err(Errno::INVAL));
    let beyond = single(MASK * 8 - 1);
    checks.equal(
        "none that is there",
        set_affinity(0, &beyond),
        Err(Errno::INVAL),
    );
    checks.check("a refused mask changes nothing", own() == *all);
    let nobody = 0x3fff_fff0;
    for thread in [nobody, usize::MAX] {
        checks.equal(
            "nobody's mask",
            get_affinity(thread, &mut mask),
            Err(Errno::SRCH),
        );
        checks.equal("moving nobody", set_affinity(thread, all), Err(Errno::SRCH));
    }
    for length in [0, 7, 12, 1023] {
        let short = mask.get_mut(..length).unwrap_or_default();
        checks.equal("a broken length", get_affinity(0, short), Err(Errno::INVAL));
    }
    let tid = sys::gettid().unwrap_or(0);
    checks.check(
        "one's own number gives whole words",
        get_affinity(tid, &mut mask).is_ok_and(|bytes| bytes > 0 && bytes % 8 == 0),
    );
    checks.check("is oneself", mask == *all);
}
