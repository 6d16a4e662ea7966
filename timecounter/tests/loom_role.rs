//! Every interleaving of the choice of the CPU that winds up, and of the gate
//! that it goes through.
//!
//! Run with `RUSTFLAGS="--cfg loom"`; empty otherwise.
//!
//! Who holds the role is an estimate, and two CPUs may think that it is theirs for
//! a moment. That no two are inside a windup is the
//! gate's doing, and the model without the gate fails.

#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use timecounter::gate::Gate;
use timecounter::role::{Role, Turn};
use timecounter::sync::{Site, weaken};

/// Ticks without one of the holder's after which a CPU takes over.
const ENOUGH: u32 = 4;

struct World {
    role: Role<3>,
    gate: Gate,
    inside: AtomicU32,
}

impl World {
    /// CPU 0 has ticked, both others have seen it, and it stops.
    fn new() -> Arc<Self> {
        let world = Self {
            role: Role::new(),
            gate: Gate::new(),
            inside: AtomicU32::new(0),
        };
        world.role.tick(0, 1);
        for cpu in [1, 2] {
            assert_eq!(world.role.tick(cpu, 1), Turn::Not, "it sees the beat");
        }
        Arc::new(world)
    }

    fn windup(&self) {
        // A plain look and a plain store: two at once would both find 0.
        assert_eq!(self.inside.load(Ordering::Relaxed), 0, "two writers");
        self.inside.store(1, Ordering::Relaxed);
        thread::yield_now();
        self.inside.store(0, Ordering::Relaxed);
    }

    fn gated(&self, cpu: usize) -> Turn {
        let turn = self.role.tick(cpu, ENOUGH);
        if turn != Turn::Not
            && let Some(_inside) = self.gate.try_enter()
        {
            self.windup();
        }
        turn
    }

    fn bare(&self, cpu: usize) -> Turn {
        let turn = self.role.tick(cpu, ENOUGH);
        if turn != Turn::Not {
            self.windup();
        }
        turn
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

/// Two CPUs tick at once; what either was told.
fn at_once(world: &Arc<World>, tick: fn(&World, usize) -> Turn, cpus: [usize; 2]) -> [Turn; 2] {
    cpus.map(|cpu| {
        let world = Arc::clone(world);
        thread::spawn(move || tick(&world, cpu))
    })
    .map(|thread| thread.join().expect("one writer at a time"))
}

fn two_notice() {
    let world = World::new();
    let turns = at_once(&world, World::gated, [1, 2]);
    let taken = turns.iter().filter(|&&turn| turn == Turn::TakenOver);
    assert_eq!(taken.count(), 1, "{turns:?}");
    assert_eq!(world.role.take_overs(), 1, "it is counted once");
}

#[test]
fn of_two_that_notice_at_once_one_takes_over() {
    model(two_notice);
}

#[test]
fn without_their_order_the_second_takes_over_from_the_first() {
    for site in [Site::TakeOver, Site::Holder] {
        let failed = thread_with(site, || fails(two_notice));
        assert!(failed, "{site:?} is not needed");
    }
}

/// Runs `check` on a thread of its own, whose models go without `site`.
fn thread_with(site: Site, check: impl FnOnce() -> bool + Send + 'static) -> bool {
    let weakened = std::thread::spawn(move || {
        weaken(site);
        check()
    });
    weakened.join().expect("a verdict")
}

/// CPU 0 comes back at the moment at which another takes over.
fn comes_back(tick: fn(&World, usize) -> Turn) -> impl Fn() + Sync + Send + 'static {
    move || {
        let world = World::new();
        let [owner, _] = at_once(&world, tick, [0, 1]);
        // The other may take the role between the two steps of the owner's tick;
        // it then has it until the owner's next.
        assert!(
            owner == Turn::Mine || world.role.take_overs() == 1,
            "somebody winds up"
        );
        assert_eq!(world.role.tick(0, 1), Turn::Mine, "it has the role again");
        assert_eq!(world.role.tick(1, 1), Turn::Not, "and the other has not");
    }
}

#[test]
fn an_owner_that_comes_back_never_winds_up_beside_the_taker() {
    model(comes_back(World::gated));
}

#[test]
fn without_the_gate_two_wind_up_at_once() {
    assert!(fails(comes_back(World::bare)), "the role keeps nobody out");
}
