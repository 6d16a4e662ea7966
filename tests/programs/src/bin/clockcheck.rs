//! Reads all clocks on all processors, through the vDSO and by system call, and
//! checks that none goes back: not for a thread, and not for one that has heard
//! from another what time it was there.
//!
//! Each processor's thread keeps what it was told last of each clock that all
//! threads share. Before a read it looks at that of another thread, each in turn,
//! and the read must not be below. No line is written by two threads, so the check
//! itself scales.
//!
//! A coarse clock must not be ahead of its precise one. CPU time is checked within
//! a thread. `-r` leaves CLOCK_REALTIME out, which may be set while this runs, and
//! `-s NS` allows for steps of up to so many nanoseconds. Status 1 if there was
//! anything else, 2 for wrong usage.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use spin::Once;
use user::abi::ClockId;
use user::sys::{self, Process};
use user::team::{self, Work};
use user::vdso::Clocks;
use user::{eprintln, println};

const USAGE: &str = "usage: clockcheck [-r] [-s NS] [SECONDS]";

/// A clock, and how it is checked.
struct Clock {
    name: &'static str,
    id: ClockId,
    /// Index of the precise clock that this one must not be ahead of.
    behind: Option<usize>,
    /// All threads read the same one.
    common: bool,
}

const fn clock(name: &'static str, id: ClockId, behind: Option<usize>, common: bool) -> Clock {
    Clock {
        name,
        id,
        behind,
        common,
    }
}

const CLOCKS: [Clock; 8] = [
    clock("REALTIME", ClockId::REALTIME, None, true),
    clock("MONOTONIC", ClockId::MONOTONIC, None, true),
    clock("MONOTONIC_RAW", ClockId::MONOTONIC_RAW, None, true),
    clock("BOOTTIME", ClockId::BOOTTIME, None, true),
    clock("REALTIME_COARSE", ClockId::REALTIME_COARSE, Some(0), true),
    clock("MONOTONIC_COARSE", ClockId::MONOTONIC_COARSE, Some(1), true),
    clock("PROCESS_CPUTIME", ClockId::PROCESS_CPUTIME, None, false),
    clock("THREAD_CPUTIME", ClockId::THREAD_CPUTIME, None, false),
];

/// What a thread was told last, on lines of its own.
#[repr(C, align(128))]
struct Told([AtomicU64; CLOCKS.len()]);

static TOLD: [Told; team::MAX] =
    [const { Told([const { AtomicU64::new(0) }; CLOCKS.len()]) }; team::MAX];

/// What all threads found of one clock.
struct Tally {
    reads: AtomicU64,
    back: AtomicU64,
    worst: AtomicU64,
    gap: AtomicU64,
    ahead: AtomicU64,
}

static TALLIES: [Tally; CLOCKS.len()] = [const {
    Tally {
        reads: AtomicU64::new(0),
        back: AtomicU64::new(0),
        worst: AtomicU64::new(0),
        gap: AtomicU64::new(0),
        ahead: AtomicU64::new(0),
    }
}; CLOCKS.len()];

struct Plan {
    clocks: Clocks,
    seconds: u64,
    allowed: u64,
    realtime: bool,
    cpus: usize,
}

static PLAN: Once<Plan> = Once::new();

impl Plan {
    fn read(&self, id: ClockId, by_call: bool) -> u64 {
        let time = if by_call {
            sys::clock_gettime(id)
        } else {
            self.clocks.clock_gettime(id)
        };
        // Every clock here is past 0 and before the year 2554.
        time.map_or(0, |time| time.nanoseconds() as u64)
    }

    /// Reads a clock after having looked at what `other` was told.
    fn check(&self, place: usize, other: usize, index: usize, by_call: bool, last: &mut u64) {
        let (Some(clock), Some(tally)) = (CLOCKS.get(index), TALLIES.get(index)) else {
            return;
        };
        let cell = |place: usize| TOLD.get(place).and_then(|told| told.0.get(index));
        let heard = cell(other)
            .filter(|_| clock.common)
            .map_or(0, |cell| cell.load(Ordering::Acquire));
        let now = self.read(clock.id, by_call);
        let back = heard.max(*last).saturating_sub(now);
        if back > self.allowed {
            tally.back.fetch_add(1, Ordering::Relaxed);
        }
        if back > 0 {
            tally.worst.fetch_max(back, Ordering::Relaxed);
        }
        if *last != 0 {
            let gap = now.saturating_sub(*last);
            if gap > tally.gap.load(Ordering::Relaxed) {
                tally.gap.fetch_max(gap, Ordering::Relaxed);
            }
        }
        *last = now;
        if let Some(cell) = cell(place) {
            cell.store(now, Ordering::Release);
        }
        if let Some(precise) = clock.behind.and_then(|precise| CLOCKS.get(precise)) {
            let ahead = self.read(precise.id, !by_call) < now;
            tally.ahead.fetch_add(ahead.into(), Ordering::Relaxed);
        }
    }
}

/// Checks the clocks until the time is up.
struct Checks;

impl Work for Checks {
    fn work(place: usize) {
        let Some(plan) = PLAN.get() else {
            return;
        };
        let mut last = [0; CLOCKS.len()];
        let now = || plan.read(ClockId::MONOTONIC, true);
        let end = now().saturating_add(plan.seconds.saturating_mul(1_000_000_000));
        let mut rounds = 0_u64;
        while now() < end {
            for turn in 0..64 {
                let other = (place + 1 + turn) % plan.cpus.max(1);
                for (index, last) in last.iter_mut().enumerate() {
                    let left_out = !plan.realtime && matches!(index, 0 | 4);
                    for by_call in [false, true] {
                        if !left_out {
                            plan.check(place, other, index, by_call, last);
                        }
                    }
                }
                rounds += 1;
            }
        }
        for (index, tally) in TALLIES.iter().enumerate() {
            if plan.realtime || !matches!(index, 0 | 4) {
                tally.reads.fetch_add(2 * rounds, Ordering::Relaxed);
            }
        }
    }
}

fn plan(process: &Process) -> Option<Plan> {
    let mut plan = Plan {
        clocks: Clocks::new(process),
        seconds: 5,
        allowed: 0,
        realtime: true,
        cpus: 0,
    };
    let mut arguments = process.arguments().skip(1);
    while let Some(argument) = arguments.next() {
        match argument {
            "-r" => plan.realtime = false,
            "-s" => plan.allowed = arguments.next()?.parse().ok()?,
            seconds => plan.seconds = seconds.parse().ok().filter(|&seconds| seconds > 0)?,
        }
    }
    Some(plan)
}

fn main(process: &Process) -> i32 {
    let Some(mut plan) = plan(process) else {
        if process.arguments().nth(1) == Some("--help") {
            println!("{USAGE}");
            return 0;
        }
        eprintln!("{USAGE}");
        return 2;
    };
    let mut room = [0; team::MAX];
    let cpus = match team::processors(&mut room) {
        Ok(cpus) => cpus,
        Err(error) => {
            eprintln!("clockcheck: processors: {error}");
            return 1;
        }
    };
    plan.cpus = cpus.len();
    let plan = PLAN.call_once(|| plan);
    if let Err(error) = team::run::<Checks>(cpus, || ()) {
        eprintln!("clockcheck: {} threads: {error}", cpus.len());
        return 1;
    }
    println!(
        "{:<18}{:>12}{:>8}{:>12}{:>14}{:>8}",
        "clock", "reads", "back", "worst ns", "largest gap", "ahead"
    );
    let (mut reads, mut back, mut worst, mut ahead) = (0, 0, 0, 0);
    for (clock, tally) in CLOCKS.iter().zip(&TALLIES) {
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let of = [
            &tally.reads,
            &tally.back,
            &tally.worst,
            &tally.gap,
            &tally.ahead,
        ]
        .map(value);
        let [these, steps, step, gap, before] = of;
        println!(
            "{:<18}{these:>12}{steps:>8}{step:>12}{gap:>14}{before:>8}",
            clock.name
        );
        reads += these;
        back += steps;
        worst = step.max(worst);
        ahead += before;
    }
    println!(
        "clockcheck: {} CPUs, {} s, {reads} reads, {back} steps back, worst {worst} ns, {ahead} coarse ahead",
        plan.cpus, plan.seconds
    );
    i32::from(back != 0 || ahead != 0)
}

user::program!(main);
