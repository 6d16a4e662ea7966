//! CPU-time clocks: what they count, whose they are, and that none goes back
//! while its thread moves from processor to processor.

use core::sync::atomic::{AtomicU32, Ordering};

use user::abi::{ClockId, Errno, Timespec};
use user::sys;
use user::sys::clone::{self, Words, set_affinity};

use crate::affinity::{members, own, single};
use crate::{Checks, await_value, join, post};

const PROCESS: ClockId = ClockId(2);
const THREAD: ClockId = ClockId(3);

/// Linux's encoding of a process's or a thread's clock.
fn encoded(number: usize, kind: i32, thread: bool) -> ClockId {
    let thread = if thread { 4 } else { 0 };
    ClockId((!(number as i32) << 3) | kind | thread)
}

fn read(clock: ClockId) -> i128 {
    sys::clock_gettime(clock).map_or(-1, Timespec::nanoseconds)
}

static WORDS: Words = Words::new();
static STOP: AtomicU32 = AtomicU32::new(0);
static STARTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn spin(_: usize) {
    STARTED.store(1, Ordering::Release);
    while STOP.load(Ordering::Relaxed) == 0 {
        core::hint::spin_loop();
    }
}

extern "C" fn sleep(_: usize) {
    STARTED.store(1, Ordering::Release);
    await_value(&STOP, 1);
}

/// Keeps the processor for so many nanoseconds of the thread's own time.
fn work(ns: i128) {
    let end = read(THREAD) + ns;
    while read(THREAD) < end {
        core::hint::spin_loop();
    }
}

pub(crate) fn run(checks: &mut Checks) {
    errors(checks);
    let wall = read(ClockId::MONOTONIC);
    let (process, thread) = (read(PROCESS), read(THREAD));
    checks.check("time was used", process > 0 && thread > 0);
    checks.check("a process uses what its threads do", process >= thread / 2);
    work(20_000_000);
    let used = read(THREAD) - thread;
    checks.check("work uses time", used >= 20_000_000);
    checks.check(
        "no more than passes",
        used <= read(ClockId::MONOTONIC) - wall,
    );
    checks.check(
        "the process uses it too",
        read(PROCESS) - process >= 20_000_000,
    );
    other(checks);
    asleep(checks);
}

fn errors(checks: &mut Checks) {
    let pid = sys::getpid().unwrap_or(0);
    for kind in 0..3 {
        for clock in [
            encoded(0, kind, false),
            encoded(0, kind, true),
            encoded(pid, kind, false),
            encoded(pid, kind, true),
        ] {
            let times = [sys::clock_gettime(clock), sys::clock_getres(clock)];
            checks.check("an encoded clock", times.iter().all(Result::is_ok));
        }
    }
    for clock in [PROCESS, THREAD] {
        let step = sys::clock_getres(clock).map(Timespec::nanoseconds);
        checks.equal("the step of CPU time", step, Ok(1));
    }
    for clock in [
        encoded(pid, 3, false),
        encoded(pid, 3, true),
        encoded(0xfff_fff0, 2, false),
        encoded(0xfff_fff0, 2, true),
    ] {
        let time = sys::clock_gettime(clock);
        checks.equal("a clock of nobody", time, Err(Errno::INVAL));
        let step = sys::clock_getres(clock);
        checks.equal("its step", step, Err(Errno::INVAL));
    }
}

/// Another thread's clock, while that thread is moved about.
fn other(checks: &mut Checks) {
    STOP.store(0, Ordering::Relaxed);
    STARTED.store(0, Ordering::Relaxed);
    let Ok(tid) = clone::spawn(spin, 0, &WORDS) else {
        return checks.check("clone for a thread that works", false);
    };
    while STARTED.load(Ordering::Acquire) == 0 {
        let _: Result<usize, Errno> = sys::yield_now();
    }
    let clock = encoded(tid, 2, true);
    let all = own();
    let wall = read(ClockId::MONOTONIC);
    let start = read(clock);
    let mut last = [start, read(PROCESS)];
    let mut back = 0;
    for _ in 0..10 {
        for cpu in members(&all) {
            checks.equal("moving it", set_affinity(tid, &single(cpu)), Ok(0));
            for _ in 0..200 {
                let now = [read(clock), read(PROCESS)];
                back += now
                    .iter()
                    .zip(&last)
                    .filter(|(now, last)| now < last)
                    .count();
                last = now;
            }
            let _: Result<usize, Errno> = sys::yield_now();
        }
    }
    checks.equal("steps back", back, 0);
    let (used, passed) = (read(clock) - start, read(ClockId::MONOTONIC) - wall);
    checks.check("one thread uses no more than passes", used <= passed);
    // Until its share has come, however busy the machine is.
    let end = read(ClockId::MONOTONIC) + 10_000_000_000;
    while read(clock) < start + 10_000_000 && read(ClockId::MONOTONIC) < end {
        let _: Result<usize, Errno> = sys::yield_now();
    }
    checks.check(
        "a thread that works uses time",
        read(clock) >= start + 10_000_000,
    );
    checks.check("its process does too", read(PROCESS) > read(clock) / 2);
    STOP.store(1, Ordering::Relaxed);
    join(&WORDS);
    // Its word is cleared a little before it is gone.
    let end = read(ClockId::MONOTONIC) + 10_000_000_000;
    while sys::clock_gettime(clock).is_ok() && read(ClockId::MONOTONIC) < end {
        let _: Result<usize, Errno> = sys::yield_now();
    }
    let time = sys::clock_gettime(clock);
    checks.equal(
        "the clock of a thread that has ended",
        time,
        Err(Errno::INVAL),
    );
}

fn asleep(checks: &mut Checks) {
    STOP.store(0, Ordering::Relaxed);
    STARTED.store(0, Ordering::Relaxed);
    let Ok(tid) = clone::spawn(sleep, 0, &WORDS) else {
        return checks.check("clone for a thread that sleeps", false);
    };
    while STARTED.load(Ordering::Acquire) == 0 {
        let _: Result<usize, Errno> = sys::yield_now();
    }
    let clock = encoded(tid, 2, true);
    work(10_000_000);
    let start = read(clock);
    work(50_000_000);
    checks.check(
        "a thread that sleeps uses no time",
        read(clock) - start < 10_000_000,
    );
    post(&STOP, 1);
    join(&WORDS);
}
