//! What a call costs, in the manner of FreeBSD's `tools/tools/syscall_timing`:
//! the same options, tests, rows and columns.
//!
//! For each test named, one warm-up, then a row a loop with the time it took,
//! the calls made in it, and the truncated nanoseconds per call. As in the
//! original, `clock_gettime` and `gettimeofday` go the way that a libc goes:
//! through the vDSO where there is one; `getuid` is always a system call.
//!
//! The original ends a loop with SIGALRM. Here the loop reads the clock, but
//! only between batches, whose length follows the pace of the batches before
//! so that a loop takes about [`BATCHES`] of them: what the clock reads add
//! stays below one in a thousand wherever a loop makes a few ten thousand
//! calls.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use core::hint::black_box;

use user::abi::ClockId;
use user::sys::{self, Process};
use user::vdso::Clocks;
use user::{eprintln, print, println};

/// Batches that a timed loop is cut into.
const BATCHES: u64 = 20;

const NANOSECONDS: u64 = 1_000_000_000;

struct Test {
    name: &'static str,
    /// Makes so many calls.
    run: fn(&Clocks, u64),
}

const TESTS: [Test; 3] = [
    Test {
        name: "getuid",
        run: |_, count| {
            for _ in 0..count {
                let _ = black_box(sys::getuid());
            }
        },
    },
    Test {
        name: "clock_gettime",
        run: |clocks, count| {
            for _ in 0..count {
                let _ = black_box(clocks.clock_gettime(ClockId::REALTIME));
            }
        },
    },
    Test {
        name: "gettimeofday",
        run: |clocks, count| {
            for _ in 0..count {
                let _ = black_box(clocks.gettimeofday());
            }
        },
    },
];

/// What the options ask for.
struct Options {
    loops: u64,
    iterations: u64,
    seconds: u64,
}

/// The status of a usage error: -1, as the original's.
const USAGE: i32 = 255;

fn usage() -> i32 {
    eprintln!("usage: syscall_timing [-i iterations] [-l loops] [-p path] [-s seconds] test ...");
    eprintln!("  -i  end a loop after so many calls (default: only by time)");
    eprintln!("  -l  loops a test, 1 to 100000 (default 10)");
    eprintln!("  -p  accepted for compatibility: no test here opens a file");
    eprintln!("  -s  end a loop after so many seconds, 1 to 3600 (default 1)");
    for test in &TESTS {
        eprintln!("  {}", test.name);
    }
    USAGE
}

/// A decimal number in a range.
fn number(text: Option<&str>, least: u64, most: u64) -> Option<u64> {
    text?
        .parse()
        .ok()
        .filter(|value| (least..=most).contains(value))
}

/// Splits options from test names: the options, and how many arguments they
/// took. An option's value may follow it directly or as the next argument.
fn options(process: &Process) -> Option<(Options, usize)> {
    let mut options = Options {
        loops: 10,
        iterations: u64::MAX,
        seconds: 1,
    };
    let mut arguments = process.arguments().skip(1);
    let mut taken = 1;
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix('-') else {
            break;
        };
        taken += 1;
        if option == "-" {
            break;
        }
        let (letter, rest) = option.split_at_checked(1)?;
        let value = if rest.is_empty() {
            taken += 1;
            arguments.next()
        } else {
            Some(rest)
        };
        match letter {
            "i" => options.iterations = number(value, 1, u64::MAX)?,
            "l" => options.loops = number(value, 1, 100_000)?,
            "s" => options.seconds = number(value, 1, 3600)?,
            "p" => drop(value?),
            _ => return None,
        }
    }
    Some((options, taken))
}

/// Nanoseconds on the monotonic clock, which lasts 584 years in 64 bits.
fn now(clocks: &Clocks) -> u64 {
    clocks
        .clock_gettime(ClockId::MONOTONIC)
        .map_or(0, |time| u64::try_from(time.nanoseconds()).unwrap_or(0))
}

/// Runs a test once; gives the nanoseconds it took and the calls it made.
fn measure(test: &Test, clocks: &Clocks, options: &Options) -> (u64, u64) {
    let limit = options.seconds * NANOSECONDS;
    let start = now(clocks);
    let mut calls = 0;
    let mut batch = 1;
    loop {
        let count = batch.min(options.iterations - calls);
        (test.run)(clocks, count);
        calls += count;
        let elapsed = now(clocks).saturating_sub(start);
        if elapsed >= limit || calls >= options.iterations {
            return (elapsed, calls);
        }
        // At most twice as many as before, so that one odd batch at the start
        // cannot make the next one run for minutes.
        let pace = u128::from(calls) * u128::from(limit / BATCHES) / u128::from(elapsed.max(1));
        let left = u128::from(calls) * u128::from(limit - elapsed) / u128::from(elapsed.max(1)) + 1;
        batch = u64::try_from(pace.min(left))
            .unwrap_or(u64::MAX)
            .clamp(1, batch.saturating_mul(2));
    }
}

fn main(process: &Process) -> i32 {
    let Some((options, taken)) = options(process) else {
        return usage();
    };
    let chosen = || {
        process
            .arguments()
            .skip(taken)
            .map(|name| TESTS.iter().find(|test| test.name == name))
    };
    if chosen().next().is_none() || chosen().any(|test| test.is_none()) {
        return usage();
    }
    let clocks = Clocks::new(process);
    match clocks.clock_getres(ClockId::REALTIME) {
        Ok(step) => println!("Clock resolution: {step}"),
        Err(error) => {
            eprintln!("syscall_timing: clock_getres: {error}");
            return 1;
        }
    }
    println!("test\tloop\ttime\titerations\tperiteration");
    for test in chosen().flatten() {
        measure(test, &clocks, &options);
        for row in 0..options.loops {
            let (elapsed, calls) = measure(test, &clocks, &options);
            let each = elapsed / calls.max(1);
            print!(
                "{}\t{row}\t{}.{:09}\t{calls}\t{}.{:09}\n",
                test.name,
                elapsed / NANOSECONDS,
                elapsed % NANOSECONDS,
                each / NANOSECONDS,
                each % NANOSECONDS,
            );
        }
    }
    0
}

user::program!(main);
