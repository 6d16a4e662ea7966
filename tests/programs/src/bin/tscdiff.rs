//! How far the TSCs of two processors are apart, as programs can see it: the two
//! pass stamps to and fro through a shared cell, and each compares its own with
//! that which it got.
//!
//! A stamp that is lower than the one it answers is a step back. Each processor is
//! paired with the first, or every pair is tried with `-a`. Status 1 if there was
//! a step back: then a clock on this counter needs a guard.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use user::sys::Process;
use user::team::{self, Work};
use user::{eprintln, println};
use vdso::counter::{Lfence, OrderedTsc};

const USAGE: &str = "usage: tscdiff [-a] [-n STAMPS]";

/// Looks at the cell after which a partner counts as gone.
const PATIENCE: u32 = 1 << 28;

static STAMPS: AtomicU64 = AtomicU64::new(100_000);
/// Even: the first one's turn, odd: the second one's; a stamp each in `STAMP`.
static TURN: AtomicU64 = AtomicU64::new(0);
static STAMP: AtomicU64 = AtomicU64::new(0);

/// What one member of a pair saw, on a line of its own.
#[repr(C, align(128))]
struct Seen {
    worst: AtomicU64,
    shortest: AtomicU64,
    alone: AtomicU64,
}

static SEEN: [Seen; 2] = [const {
    Seen {
        worst: AtomicU64::new(0),
        shortest: AtomicU64::new(u64::MAX),
        alone: AtomicU64::new(0),
    }
}; 2];

fn stamp() -> u64 {
    Lfence.order();
    Lfence.tsc(&()).whole()
}

struct Pass;

impl Work for Pass {
    fn work(place: usize) {
        let Some(seen) = SEEN.get(place) else {
            return;
        };
        let (mut worst, mut shortest) = (0, u64::MAX);
        for round in 0..STAMPS.load(Ordering::Relaxed) {
            let mine = 2 * round + place as u64;
            let mut looks = 0;
            while TURN.load(Ordering::Acquire) != mine {
                looks += 1;
                if looks > PATIENCE {
                    seen.alone.store(1, Ordering::Relaxed);
                    return;
                }
                core::hint::spin_loop();
            }
            let theirs = STAMP.load(Ordering::Relaxed);
            let own = stamp();
            let ahead = own.wrapping_sub(theirs).cast_signed();
            if ahead < 0 {
                worst = ahead.unsigned_abs().max(worst);
            } else if mine > 0 {
                shortest = ahead.unsigned_abs().min(shortest);
            }
            STAMP.store(own, Ordering::Relaxed);
            TURN.store(mine + 1, Ordering::Release);
        }
        seen.worst.store(worst, Ordering::Relaxed);
        seen.shortest.store(shortest, Ordering::Relaxed);
    }
}

/// Whether all pairs are to be tried.
fn options(process: &Process) -> Option<bool> {
    let mut all = false;
    let mut arguments = process.arguments().skip(1);
    while let Some(option) = arguments.next() {
        match option {
            "-a" => all = true,
            "-n" => {
                let stamps = arguments
                    .next()?
                    .parse()
                    .ok()
                    .filter(|&stamps| stamps > 1)?;
                STAMPS.store(stamps, Ordering::Relaxed);
            }
            _ => return None,
        }
    }
    Some(all)
}

/// Lets two processors pass stamps; the worst step back, or nothing if they did
/// not come to it.
fn pair(first: usize, second: usize) -> Option<u64> {
    TURN.store(0, Ordering::Relaxed);
    STAMP.store(0, Ordering::Relaxed);
    for seen in &SEEN {
        seen.alone.store(0, Ordering::Relaxed);
    }
    if let Err(error) = team::run::<Pass>(&[first, second], || ()) {
        eprintln!("tscdiff: CPUs {first} and {second}: {error}");
        return None;
    }
    let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    let [one, other] = &SEEN;
    if read(&one.alone) + read(&other.alone) > 0 {
        eprintln!("tscdiff: CPUs {first} and {second}: one never answered");
        return None;
    }
    println!(
        "{first}\t{second}\t{}\t{}\t{}",
        read(&other.worst),
        read(&one.worst),
        read(&one.shortest).saturating_add(read(&other.shortest))
    );
    Some(read(&one.worst).max(read(&other.worst)))
}

fn main(process: &Process) -> i32 {
    let Some(all) = options(process) else {
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
            eprintln!("tscdiff: processors: {error}");
            return 1;
        }
    };
    if cpus.len() < 2 {
        println!("tscdiff: one CPU, nothing to compare");
        return 0;
    }
    println!("CPU\tCPU\tBACK ->\tBACK <-\tROUND TRIP");
    let (mut worst, mut failed) = (0, false);
    for (index, &first) in cpus.iter().enumerate() {
        if index > 0 && !all {
            break;
        }
        for &second in cpus.iter().skip(index + 1) {
            match pair(first, second) {
                Some(back) => worst = back.max(worst),
                None => failed = true,
            }
        }
    }
    println!("tscdiff: worst step back {worst} cycles");
    i32::from(failed || worst > 0)
}

user::program!(main);
