//! Every interleaving of the production guard line under readers on CPUs that
//! disagree.
//!
//! Run with `RUSTFLAGS="--cfg loom"`; empty otherwise.
//!
//! The counter is a relaxed read-modify-write; one CPU is ahead of the others by
//! less than the bound, and time may leap between any two steps of a reader, as
//! it does for one that is put aside. Each reader has heard what another was
//! told, and must not be told less. The line's own accesses are all relaxed: the
//! guard needs the order of one word alone, and the rule that the look comes
//! before the count. The models without one of its rules fail.

#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use timecounter::guard::GuardLine;

const BOUND: u64 = 2;
/// More than the bound: what passes while a reader is put aside.
const LEAP: u64 = 10;

struct World {
    count: AtomicU64,
    line: GuardLine,
    /// The latest time that somebody passed on.
    heard: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            count: AtomicU64::new(100),
            line: GuardLine::new(),
            heard: AtomicU64::new(0),
        })
    }

    fn count(&self, ahead: u64) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + ahead
    }

    /// A read that must not be told less than `heard`.
    fn checked(&self, read: impl FnOnce() -> u64) {
        let before = self.heard.load(Ordering::Acquire);
        let now = read();
        assert!(now >= before, "{before} was heard of before {now}");
        self.heard.fetch_max(now, Ordering::AcqRel);
    }

    fn fair(&self, ahead: u64) -> u64 {
        let saw = self.line.look();
        let own = self.count(ahead);
        thread::yield_now();
        self.line.pass(saw, own, BOUND)
    }

    fn looks_too_late(&self, ahead: u64) -> u64 {
        let own = self.count(ahead);
        // Loom puts a reader aside here for certain only where it is told to.
        thread::yield_now();
        self.line.pass(self.line.look(), own, BOUND)
    }

    fn leap(&self) {
        self.count.fetch_add(LEAP, Ordering::Relaxed);
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn fails(check: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| model(check))).is_err()
}

/// Two CPUs, one of them ahead, and time that leaps in between; then the one that
/// is behind once more.
fn readers(read: fn(&World, u64) -> u64) -> impl Fn() + Sync + Send + 'static {
    move || {
        let world = World::new();
        let behind = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.checked(|| read(&world, 0)))
        };
        let ahead = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.leap();
                world.checked(|| read(&world, BOUND));
            })
        };
        behind.join().expect("told no less than it heard");
        ahead.join().expect("told no less than it heard");
        world.checked(|| read(&world, 0));
    }
}

/// A reader that is put aside while another is told of a time beyond its bound:
/// the line must keep that.
fn put_aside(read: fn(&World, u64) -> u64) -> impl Fn() + Sync + Send + 'static {
    move || {
        let world = World::new();
        let slow = {
            let world = Arc::clone(&world);
            thread::spawn(move || read(&world, 0))
        };
        let ahead = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.leap();
                let saw = world.line.look();
                world.line.pass(saw, world.count(BOUND), BOUND)
            })
        };
        slow.join().expect("a read");
        let told = ahead.join().expect("a read");
        let left = world.line.look();
        assert!(left >= told, "{told} was told, {left} is left");
    }
}

#[test]
fn nobody_is_told_less_than_another_was_before() {
    model(readers(World::fair));
}

#[test]
fn the_line_keeps_what_was_told_although_a_reader_was_put_aside() {
    model(put_aside(World::fair));
}

#[test]
fn a_look_behind_the_count_takes_a_fair_time_for_junk() {
    assert!(
        fails(put_aside(World::looks_too_late)),
        "a reader that was put aside lowers the line"
    );
}

#[test]
fn without_the_guard_the_cpu_behind_goes_back() {
    assert!(fails(readers(World::count)), "the disagreement shows");
}

#[test]
fn junk_in_the_line_moves_a_reader_by_at_most_the_bound() {
    model(|| {
        let world = World::new();
        let hostile = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.line.write(1 << 63);
                world.line.write(101);
            })
        };
        let saw = world.line.look();
        let own = world.count(0);
        let told = world.line.pass(saw, own, BOUND);
        assert!(told >= own && told <= own + BOUND, "{told} at {own}");
        hostile.join().expect("it only stores");
    });
}
