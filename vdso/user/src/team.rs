//! A thread on each of some processors, started at one moment.
//!
//! Each thread moves to its processor, says that it is there, and sleeps until all
//! are: so the moment at which they start is that of one wake-up, and none has
//! begun before. Everything a thread touches is static, see
//! [`clone`](crate::sys::clone).

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::abi::Errno;
use crate::sys::clone::{self, Words};

/// The most processors that are used.
pub const MAX: usize = 256;

/// Bytes of the mask of 8,192 processors, the most that Linux is built for.
const MASK: usize = 1024;

const FUTEX_WAIT: u32 = 0;
const FUTEX_WAKE: u32 = 1;
const PRIVATE: u32 = 128;

static WORDS: [Words; MAX] = [const { Words::new() }; MAX];
static CPUS: [AtomicUsize; MAX] = [const { AtomicUsize::new(0) }; MAX];
/// Members that could not move to their processor.
static STRAYED: AtomicU32 = AtomicU32::new(0);
static READY: AtomicU32 = AtomicU32::new(0);
static GO: AtomicU32 = AtomicU32::new(0);

/// The processors that this process may run on, at most [`MAX`] of them.
///
/// # Errors
///
/// Those of sched_getaffinity(2).
pub fn processors(into: &mut [usize; MAX]) -> Result<&[usize], Errno> {
    let mut mask = [0; MASK];
    clone::get_affinity(0, &mut mask)?;
    let members = (0..MASK * 8).filter(|cpu| mask[cpu / 8] >> (cpu % 8) & 1 == 1);
    let mut count = 0;
    for (place, cpu) in into.iter_mut().zip(members) {
        *place = cpu;
        count += 1;
    }
    Ok(&into[..count])
}

fn pin(cpu: usize) -> Result<(), Errno> {
    let mut mask = [0; MASK];
    if let Some(byte) = mask.get_mut(cpu / 8) {
        *byte = 1 << (cpu % 8);
    }
    clone::set_affinity(0, &mask).map(|_| ())
}

/// What a member does, with its place in the team.
pub trait Work {
    /// Does it.
    fn work(place: usize);
}

extern "C" fn member<W: Work>(place: usize) {
    let cpu = CPUS.get(place).map_or(0, |cpu| cpu.load(Ordering::Relaxed));
    if pin(cpu).is_err() {
        STRAYED.fetch_add(1, Ordering::Relaxed);
    }
    let before = GO.load(Ordering::Acquire);
    READY.fetch_add(1, Ordering::Release);
    let _ = clone::futex(&READY, FUTEX_WAKE | PRIVATE, u32::MAX >> 1, None, 0);
    while GO.load(Ordering::Acquire) == before {
        let _ = clone::futex(&GO, FUTEX_WAIT | PRIVATE, before, None, 0);
    }
    W::work(place);
}

/// Runs `W` once on each of the processors; returns when all have ended. `go` is
/// called when all are there, right before they start.
///
/// # Errors
///
/// [`Errno`] of a thread that could not be started; those that were end first.
pub fn run<W: Work>(cpus: &[usize], go: impl FnOnce()) -> Result<(), Errno> {
    READY.store(0, Ordering::Relaxed);
    let mut started = 0;
    let mut failed = None;
    for ((&cpu, place), words) in cpus.iter().zip(&CPUS).zip(&WORDS) {
        place.store(cpu, Ordering::Relaxed);
        match clone::spawn(member::<W>, started, words) {
            Ok(_) => started += 1,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    loop {
        let ready = READY.load(Ordering::Acquire);
        if ready as usize == started {
            break;
        }
        let _ = clone::futex(&READY, FUTEX_WAIT | PRIVATE, ready, None, 0);
    }
    go();
    GO.fetch_add(1, Ordering::Release);
    let _ = clone::futex(&GO, FUTEX_WAKE | PRIVATE, u32::MAX >> 1, None, 0);
    for words in WORDS.iter().take(started) {
        loop {
            match words.child.load(Ordering::Acquire) {
                0 => break,
                // The kernel wakes as if the word were shared.
                tid => drop(clone::futex(&words.child, FUTEX_WAIT, tid, None, 0)),
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None if STRAYED.swap(0, Ordering::Relaxed) != 0 => Err(Errno::INVAL),
        None => Ok(()),
    }
}
