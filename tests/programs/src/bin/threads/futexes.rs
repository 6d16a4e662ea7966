//! Futexes: errors, timeouts, who is woken, and that no wake-up is lost.

use core::sync::atomic::{AtomicU32, Ordering};

use user::abi::{ClockId, Errno, Timespec};
use user::sys;
use user::sys::clone::{self, Words, futex, futex_at};

use crate::op::{PRIVATE, REALTIME, WAIT, WAIT_BITSET, WAKE, WAKE_BITSET};
use crate::{AGAIN, Checks, TIMED_OUT, await_value, join, post};

pub(crate) fn run(checks: &mut Checks) {
    errors(checks);
    timeouts(checks);
    order(checks);
    handing_over(checks);
    mutex(checks);
}

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;

const fn time(sec: i64, nsec: i64) -> Timespec {
    Timespec { sec, nsec }
}

fn errors(checks: &mut Checks) {
    let word = AtomicU32::new(1);
    let address = word.as_ptr().expose_provenance();
    let short = time(0, MILLISECOND);
    for (what, operation, value, timeout, bits, expected) in [
        ("a word that differs", WAIT, 2, None, 0, AGAIN),
        ("one that differs, by bits", WAIT_BITSET, 2, None, 1, AGAIN),
        ("no bits", WAIT_BITSET, 1, None, 0, Errno::INVAL),
        ("waking no bits", WAKE_BITSET, 1, None, 0, Errno::INVAL),
        ("an unknown operation", 127, 1, None, 0, Errno::NOSYS),
        (
            "waking by the calendar",
            WAKE | REALTIME,
            1,
            None,
            0,
            Errno::NOSYS,
        ),
        (
            "a billion nanoseconds",
            WAIT,
            1,
            Some(time(0, 1_000_000_000)),
            0,
            Errno::INVAL,
        ),
        (
            "a negative time",
            WAIT,
            1,
            Some(time(-1, 0)),
            0,
            Errno::INVAL,
        ),
        (
            "negative nanoseconds",
            WAIT,
            1,
            Some(time(0, -1)),
            0,
            Errno::INVAL,
        ),
        (
            "a word that differs, with a time",
            WAIT,
            2,
            Some(short),
            0,
            AGAIN,
        ),
    ] {
        for private in [0, PRIVATE] {
            let found = futex(&word, operation | private, value, timeout.as_ref(), bits);
            checks.equal(what, found, Err(expected));
        }
    }
    for (what, address, operation, timeout, expected) in [
        (
            "an address between words",
            address + 2,
            WAIT,
            0,
            Errno::INVAL,
        ),
        ("waking between words", address + 1, WAKE, 0, Errno::INVAL),
        ("a null pointer", 0, WAIT, 0, Errno::FAULT),
        (
            "an address of the kernel",
            0xffff_8000_0000_0000,
            WAIT,
            0,
            Errno::FAULT,
        ),
        (
            "waking at one of the kernel",
            0xffff_8000_0000_0000,
            WAKE,
            0,
            Errno::FAULT,
        ),
        ("a time at a null page", address, WAIT, 8, Errno::FAULT),
    ] {
        let found = futex_at(address, operation | PRIVATE, 1, timeout, 0);
        checks.equal(what, found, Err(expected));
    }
    checks.equal("waking nobody", futex(&word, WAKE, 1, None, 0), Ok(0));
    checks.equal(
        "waking nobody at a null pointer",
        futex_at(0, WAKE | PRIVATE, 1, 0, 0),
        Ok(0),
    );
}

fn now(clock: ClockId) -> i64 {
    sys::clock_gettime(clock).map_or(0, |time| time.sec * SECOND + time.nsec)
}

fn timeouts(checks: &mut Checks) {
    const LENGTH: i64 = 20 * MILLISECOND;
    let word = AtomicU32::new(0);
    let cases = [
        ("a length of time", WAIT, ClockId::MONOTONIC),
        ("an instant since boot", WAIT_BITSET, ClockId::MONOTONIC),
        (
            "an instant of the calendar",
            WAIT_BITSET | REALTIME,
            ClockId::REALTIME,
        ),
    ];
    for (what, operation, clock) in cases {
        let start = now(clock);
        let end = if operation == WAIT {
            LENGTH
        } else {
            start + LENGTH
        };
        let end = time(end / SECOND, end % SECOND);
        let found = futex(&word, operation | PRIVATE, 0, Some(&end), u32::MAX);
        checks.equal(what, found, Err(TIMED_OUT));
        checks.check(
            "a wait lasts as long as it should",
            now(clock) - start >= LENGTH,
        );
    }
    let past = time(0, 1);
    let found = futex(&word, WAIT_BITSET | PRIVATE, 0, Some(&past), u32::MAX);
    checks.equal("an instant that has passed", found, Err(TIMED_OUT));
}

const WAITERS: usize = 4;
static WORDS: [Words; WAITERS] = [const { Words::new() }; WAITERS];
static BELL: AtomicU32 = AtomicU32::new(0);
static READY: AtomicU32 = AtomicU32::new(0);
static WOKEN: AtomicU32 = AtomicU32::new(0);

/// Waits once, for the bit of its number.
extern "C" fn wait_for_bit(index: usize) {
    READY.fetch_add(1, Ordering::Release);
    let bit = 1 << index;
    let result = futex(&BELL, WAIT_BITSET | PRIVATE, 0, None, bit);
    if result == Ok(0) {
        WOKEN.fetch_or(bit, Ordering::Release);
    }
}

fn order(checks: &mut Checks) {
    for (index, words) in WORDS.iter().enumerate() {
        if clone::spawn(wait_for_bit, index, words).is_err() {
            checks.check("clone for a thread that waits", false);
            return;
        }
    }
    while READY.load(Ordering::Acquire) < WAITERS as u32 {
        let _: Result<usize, Errno> = sys::yield_now();
    }
    // A thread that is ready may not be in its wait yet: wake until it was.
    let wake = |operation, most, bits| loop {
        match futex(&BELL, operation | PRIVATE, most, None, bits) {
            Ok(0) => drop(sys::yield_now()),
            other => return other,
        }
    };
    checks.equal(
        "waking the third by its bit",
        wake(WAKE_BITSET, 9, 0b100),
        Ok(1),
    );
    join(&WORDS[2]);
    checks.equal("who was woken", WOKEN.load(Ordering::Acquire), 0b100);
    checks.equal(
        "a bit that nobody has",
        futex(&BELL, WAKE_BITSET | PRIVATE, 9, None, 0b10100),
        Ok(0),
    );
    let mut left = 3;
    checks.equal("waking one of three", wake(WAKE, 1, 0), Ok(1));
    left -= 1;
    while left > 0 {
        match wake(WAKE, 9, 0) {
            Ok(woken) if woken <= left => left -= woken,
            other => {
                checks.equal("waking the others", other, Ok(left));
                return;
            }
        }
    }
    WORDS.iter().for_each(join);
    checks.equal("all were woken", WOKEN.load(Ordering::Acquire), 0b1111);
}

const ROUNDS: u32 = 2_000;
static BALL: AtomicU32 = AtomicU32::new(0);

extern "C" fn play_odd(_: usize) {
    for round in (1..ROUNDS).step_by(2) {
        await_value(&BALL, round);
        post(&BALL, round + 1);
    }
}

/// A ball goes to and fro between two threads: one lost wake-up and it rests
/// for ever.
fn handing_over(checks: &mut Checks) {
    if clone::spawn(play_odd, 0, &WORDS[0]).is_err() {
        checks.check("clone for a thread that plays", false);
        return;
    }
    for round in (0..ROUNDS).step_by(2) {
        await_value(&BALL, round);
        post(&BALL, round + 1);
    }
    join(&WORDS[0]);
    checks.equal("the ball came back", BALL.load(Ordering::Acquire), ROUNDS);
}

const TURNS: u32 = 2_000;
/// 0 free, 1 taken, 2 taken and somebody waits.
static LOCK: AtomicU32 = AtomicU32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_under_lock(_: usize) {
    for turn in 0..TURNS {
        if LOCK
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while LOCK.swap(2, Ordering::Acquire) != 0 {
                let _: Result<usize, Errno> = futex(&LOCK, WAIT | PRIVATE, 2, None, 0);
            }
        }
        // Not one step: two in here at once lose a count.
        let count = COUNT.load(Ordering::Relaxed);
        if turn % 64 == 0 {
            let _: Result<usize, Errno> = sys::yield_now();
        }
        COUNT.store(count + 1, Ordering::Relaxed);
        if LOCK.swap(0, Ordering::Release) == 2 {
            let _: Result<usize, Errno> = futex(&LOCK, WAKE | PRIVATE, 1, None, 0);
        }
    }
}

fn mutex(checks: &mut Checks) {
    for (index, words) in WORDS.iter().enumerate() {
        let started = clone::spawn(count_under_lock, index, words);
        checks.check("clone for a thread that counts", started.is_ok());
    }
    WORDS.iter().for_each(join);
    let all = TURNS * WAITERS as u32;
    checks.equal("nobody counted at once", COUNT.load(Ordering::Relaxed), all);
}
