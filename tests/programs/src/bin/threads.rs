//! Checks threads: their start and end, futexes, affinity and CPU time, one
//! line for each thing that is wrong.
//!
//! Everything checked here holds on Linux as well, where this program runs as
//! it is. Exit status 1 if anything was wrong.
//!
//! ```text
//! threads              all checks
//! threads exit|fault   ends itself that way while its threads spin and wait
//! threads unmap|protect
//!                      takes a page away that another thread writes to
//! threads spin         spins in several threads until it is ended
//! threads many N       starts N threads that wait, wakes them, and joins them
//! ```

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use user::abi::Errno;
use user::sys::clone::{self, Loss, Words};
use user::sys::{self, Process, fault};
use user::{eprintln, println};

#[path = "threads/affinity.rs"]
mod affinity;
#[path = "threads/cputime.rs"]
mod cputime;
#[path = "threads/futexes.rs"]
mod futexes;

/// Operations of futex(2).
mod op {
    pub(crate) const WAIT: u32 = 0;
    pub(crate) const WAKE: u32 = 1;
    pub(crate) const WAIT_BITSET: u32 = 9;
    pub(crate) const WAKE_BITSET: u32 = 10;
    pub(crate) const PRIVATE: u32 = 128;
    pub(crate) const REALTIME: u32 = 256;
}

/// Errors that only calls for threads have.
const AGAIN: Errno = Errno(11);
const TIMED_OUT: Errno = Errno(110);

/// Counts checks and reports those that fail.
#[derive(Default)]
struct Checks {
    made: u32,
    failed: u32,
}

impl Checks {
    fn check(&mut self, what: &str, holds: bool) {
        self.made += 1;
        if !holds {
            self.failed += 1;
            eprintln!("threads: {what}");
        }
    }

    fn equal<T: PartialEq + core::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        self.made += 1;
        if found != expected {
            self.failed += 1;
            eprintln!("threads: {what}: {found:?} instead of {expected:?}");
        }
    }
}

/// Waits until the thread of `words` has ended.
fn join(words: &Words) {
    loop {
        match words.child.load(Ordering::Acquire) {
            0 => return,
            // The kernel wakes as if the word were shared.
            tid => drop(clone::futex(&words.child, op::WAIT, tid, None, 0)),
        }
    }
}

/// Waits until `word` is `value`.
fn await_value(word: &AtomicU32, value: u32) {
    loop {
        match word.load(Ordering::Acquire) {
            found if found == value => return,
            found => drop(clone::futex(word, op::WAIT | op::PRIVATE, found, None, 0)),
        }
    }
}

/// Stores and wakes all.
fn post(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    let _: Result<usize, Errno> =
        clone::futex(word, op::WAKE | op::PRIVATE, i32::MAX as u32, None, 0);
}

static ONE: Words = Words::new();
static SEEN_TID: AtomicU32 = AtomicU32::new(0);
static SEEN_PID: AtomicU32 = AtomicU32::new(0);

extern "C" fn say_who(_: usize) {
    SEEN_TID.store(sys::gettid().unwrap_or(0) as u32, Ordering::Relaxed);
    SEEN_PID.store(sys::getpid().unwrap_or(0) as u32, Ordering::Relaxed);
}

extern "C" fn end_by_itself(_: usize) {
    clone::exit_thread();
}

fn life(checks: &mut Checks) {
    let pid = sys::getpid().unwrap_or(0) as u32;
    for round in 0..50 {
        match clone::spawn(say_who, round, &ONE) {
            Ok(tid) => {
                join(&ONE);
                let tid = tid as u32;
                checks.equal("the child's gettid", SEEN_TID.load(Ordering::Relaxed), tid);
                checks.equal("the child's getpid", SEEN_PID.load(Ordering::Relaxed), pid);
                checks.equal("PARENT_SETTID", ONE.parent.load(Ordering::Relaxed), tid);
                checks.check("a thread has a number of its own", tid != pid);
            }
            Err(error) => checks.equal("clone", Err(error), Ok(())),
        }
    }
    let started = clone::spawn(end_by_itself, 0, &ONE);
    checks.check("clone for a thread that calls exit", started.is_ok());
    join(&ONE);
    for vm in [true, false] {
        checks.equal(
            "clone with half the flags",
            clone::clone_without(vm),
            Err(Errno::INVAL),
        );
    }
    checks.equal("set_robust_list", clone::set_robust_list(24), Ok(0));
    checks.equal(
        "a short head",
        clone::set_robust_list(23),
        Err(Errno::INVAL),
    );
}

static SPINNING: AtomicU32 = AtomicU32::new(0);
static NEVER: AtomicU32 = AtomicU32::new(0);
static SEVERAL: [Words; 6] = [const { Words::new() }; 6];

extern "C" fn spin(_: usize) {
    SPINNING.fetch_add(1, Ordering::Release);
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn wait_for_ever(_: usize) {
    SPINNING.fetch_add(1, Ordering::Release);
    loop {
        await_value(&NEVER, 1);
    }
}

/// Starts three threads that spin and, if wanted, as many that wait.
fn start_several(waiters: bool) {
    let mut expected = 0;
    for (index, words) in SEVERAL.iter().enumerate() {
        let spins = index % 2 == 0;
        if spins || waiters {
            let run: extern "C" fn(usize) = if spins { spin } else { wait_for_ever };
            expected += u32::from(clone::spawn(run, index, words).is_ok());
        }
    }
    while SPINNING.load(Ordering::Acquire) < expected {
        let _: Result<usize, Errno> = sys::yield_now();
    }
}

static MANY: [Words; 1000] = [const { Words::new() }; 1000];
static GATE: AtomicU32 = AtomicU32::new(0);
static ARRIVED: AtomicU32 = AtomicU32::new(0);

extern "C" fn through_the_gate(_: usize) {
    ARRIVED.fetch_add(1, Ordering::Relaxed);
    await_value(&GATE, 1);
}

fn many(count: usize) -> i32 {
    let mut started = 0;
    for (index, words) in MANY.iter().take(count).enumerate() {
        match clone::spawn(through_the_gate, index, words) {
            Ok(_) => started += 1,
            Err(error) => {
                eprintln!("threads: thread {index}: {error}");
                break;
            }
        }
    }
    post(&GATE, 1);
    MANY.iter().take(started).for_each(join);
    let arrived = ARRIVED.load(Ordering::Relaxed);
    println!("threads: {arrived} of {count} came through");
    i32::from(arrived as usize != count)
}

/// A page that is gone is gone for threads on other processors too.
fn lose(loss: Loss) -> i32 {
    println!("threads: {loss:?}");
    clone::lose_page(loss, &ONE);
    println!("threads: still writing");
    1
}

fn all() -> i32 {
    let mut checks = Checks::default();
    life(&mut checks);
    futexes::run(&mut checks);
    affinity::run(&mut checks);
    cputime::run(&mut checks);
    println!("threads: {} checks, {} failed", checks.made, checks.failed);
    i32::from(checks.failed != 0)
}

fn main(process: &Process) -> i32 {
    let mut arguments = process.arguments().skip(1);
    let command = arguments.next();
    let number = arguments.next().and_then(|text| text.parse().ok());
    match (command, number) {
        (None, None) => all(),
        (Some("many"), Some(count)) => many(count),
        (Some("exit"), None) => {
            start_several(true);
            println!("threads: all are there");
            7
        }
        (Some("fault"), None) => {
            start_several(true);
            println!("threads: all are there");
            fault::undefined();
            0
        }
        (Some("unmap"), None) => lose(Loss::Unmapped),
        (Some("protect"), None) => lose(Loss::ReadOnly),
        (Some("spin"), None) => {
            // Nobody waits: with four processors no thread shares one, and none
            // is told anything until the end.
            start_several(false);
            println!("threads: spinning");
            spin(0);
            0
        }
        _ => {
            eprintln!("usage: threads [exit | fault | unmap | protect | spin | many count]");
            2
        }
    }
}

user::program!(main);
