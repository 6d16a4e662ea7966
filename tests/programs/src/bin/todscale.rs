//! How reading the clock scales: a thread on each of 1, 2, 4, ... processors, a
//! fixed number of reads each.
//!
//! Where readers share nothing that is written, the wall time does not depend on
//! their number. With `-j` each read also goes through one shared last value by
//! compare-and-exchange, as a clock does whose counters disagree: what that costs
//! is the cache line that all processors write.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use spin::Once;
use timecounter::guard::GuardLine;
use user::abi::ClockId;
use user::sys::{self, Process};
use user::team::{self, Work};
use user::vdso::Clocks;
use user::{eprintln, println};

const USAGE: &str = "usage: todscale [-n READS] [-c realtime|monotonic|process|thread] \
[-w vdso|syscall] [-p MAXCPUS] [-j]";

/// More than any two processors disagree: all that is seen is believed.
const BOUND_NS: u64 = u64::MAX;

struct Plan {
    clocks: Clocks,
    clock: ClockId,
    reads: u64,
    by_call: bool,
    guarded: bool,
}

static PLAN: Once<Plan> = Once::new();
static LINE: GuardLine = GuardLine::new();
static START: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
static ERRORS: AtomicU64 = AtomicU64::new(0);

impl Plan {
    fn read(&self) -> u64 {
        let time = if self.by_call {
            sys::clock_gettime(self.clock)
        } else {
            self.clocks.clock_gettime(self.clock)
        };
        time.map_or(0, |time| time.nanoseconds() as u64)
    }

    fn now(&self) -> u64 {
        let time = self.clocks.clock_gettime(ClockId::MONOTONIC);
        time.map_or(0, |time| time.nanoseconds() as u64)
    }
}

/// Reads the clock as often as was asked.
struct Reads;

impl Work for Reads {
    fn work(_place: usize) {
        let Some(plan) = PLAN.get() else {
            return;
        };
        let mut zeros = 0;
        if plan.guarded {
            for _ in 0..plan.reads {
                let saw = LINE.look();
                zeros += u64::from(LINE.pass(saw, plan.read(), BOUND_NS) == 0);
            }
        } else {
            for _ in 0..plan.reads {
                zeros += u64::from(plan.read() == 0);
            }
        }
        ERRORS.fetch_add(zeros, Ordering::Relaxed);
        END.fetch_max(plan.now(), Ordering::Relaxed);
    }
}

/// The plan, and the most processors to use.
fn plan(process: &Process) -> Option<(Plan, usize)> {
    let mut plan = Plan {
        clocks: Clocks::new(process),
        clock: ClockId::MONOTONIC,
        reads: 1_000_000,
        by_call: false,
        guarded: false,
    };
    let mut most = team::MAX;
    let mut arguments = process.arguments().skip(1);
    while let Some(option) = arguments.next() {
        match option {
            "-j" => plan.guarded = true,
            "-n" => plan.reads = arguments.next()?.parse().ok().filter(|&reads| reads > 0)?,
            "-p" => most = arguments.next()?.parse().ok().filter(|&cpus| cpus > 0)?,
            "-w" => {
                plan.by_call = match arguments.next()? {
                    "vdso" => false,
                    "syscall" => true,
                    _ => return None,
                }
            }
            "-c" => {
                plan.clock = match arguments.next()? {
                    "realtime" => ClockId::REALTIME,
                    "monotonic" => ClockId::MONOTONIC,
                    "process" => ClockId::PROCESS_CPUTIME,
                    "thread" => ClockId::THREAD_CPUTIME,
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    Some((plan, most))
}

/// Nanoseconds as seconds with three decimals.
struct Seconds(u64);

impl core::fmt::Display for Seconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ms = self.0 / 1_000_000;
        write!(f, "{}.{:03}", ms / 1000, ms % 1000)
    }
}

fn main(process: &Process) -> i32 {
    let Some((plan, most)) = plan(process) else {
        if process.arguments().nth(1) == Some("--help") {
            println!("{USAGE}");
            return 0;
        }
        eprintln!("{USAGE}");
        return 2;
    };
    let plan = PLAN.call_once(|| plan);
    let mut room = [0; team::MAX];
    let cpus = match team::processors(&mut room) {
        Ok(cpus) => cpus.get(..most).unwrap_or(cpus),
        Err(error) => {
            eprintln!("todscale: processors: {error}");
            return 1;
        }
    };
    println!("{} reads a CPU", plan.reads);
    println!("CPUS\tWALL\tWALL/CPUS\tOF ONE");
    let mut one = 0;
    let mut count = 1;
    loop {
        let used = cpus.get(..count).unwrap_or(cpus);
        END.store(0, Ordering::Relaxed);
        let ran = team::run::<Reads>(used, || START.store(plan.now(), Ordering::Relaxed));
        if let Err(error) = ran {
            eprintln!("todscale: {count} threads: {error}");
            return 1;
        }
        let start = START.load(Ordering::Relaxed);
        let wall = END.load(Ordering::Relaxed).saturating_sub(start);
        if count == 1 {
            one = wall.max(1);
        }
        let hundredths = u128::from(wall) * 100 / u128::from(one);
        println!(
            "{count}\t{}\t{}\t\t{}.{:02}",
            Seconds(wall),
            Seconds(wall / used.len().max(1) as u64),
            hundredths / 100,
            hundredths % 100
        );
        if count == cpus.len() {
            break;
        }
        count = (count * 2).min(cpus.len());
    }
    match ERRORS.load(Ordering::Relaxed) {
        0 => 0,
        errors => {
            eprintln!("todscale: {errors} reads failed");
            1
        }
    }
}

user::program!(main);
