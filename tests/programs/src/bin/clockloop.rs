//! Reads the clocks through the vDSO and through the system call by turns and
//! checks that none ever goes back.
//!
//! Every round reads CLOCK_MONOTONIC both ways; each value must be at least
//! the one before, whichever way that came. Every [`SIDE`]th round also checks
//! that
//!
//! * a coarse clock is never ahead of its precise one, nor steps back itself,
//! * CLOCK_REALTIME is a constant ahead of CLOCK_MONOTONIC: each realtime read
//!   lies between two monotonic ones, which bounds the difference from both
//!   sides, and all bounds together must leave a value. Both clocks truncate
//!   to nanoseconds, so the bounds are [`SLACK`] wider. Setting the clock
//!   while this runs fails it, rightly.
//!
//! Exit status 1 if anything was found, 255 for wrong usage.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use user::abi::{ClockId, Errno};
use user::sys::{self, Process};
use user::vdso::Clocks;
use user::{eprintln, println};

/// Rounds between two checks of the other clocks.
const SIDE: u64 = 64;
/// One nanosecond for each of the two truncations.
const SLACK: i128 = 2;

const NANOSECONDS: i128 = 1_000_000_000;

enum Limit {
    Reads(u64),
    Seconds(u64),
}

/// `-n READS`, `-s SECONDS`, or one second.
fn limit(process: &Process) -> Option<Limit> {
    let mut arguments = process.arguments().skip(1);
    let limit = match arguments.next() {
        None => Limit::Seconds(1),
        Some("-n") => Limit::Reads(arguments.next()?.parse().ok()?),
        Some("-s") => Limit::Seconds(arguments.next()?.parse().ok()?),
        Some(_) => return None,
    };
    arguments.next().is_none().then_some(limit)
}

/// Values of one clock in the order in which they were read.
struct Track {
    last: i128,
    back: u64,
    worst: i128,
}

impl Track {
    fn new() -> Self {
        Self {
            last: i128::MIN,
            back: 0,
            worst: 0,
        }
    }

    /// Takes the next value in.
    fn follow(&mut self, value: i128) {
        if value < self.last {
            self.back += 1;
            self.worst = self.worst.max(self.last - value);
        }
        self.last = value;
    }
}

struct Loop {
    clocks: Clocks,
    reads: u64,
    monotonic: Track,
    monotonic_coarse: Track,
    realtime_coarse: Track,
    ahead: u64,
    least_offset: i128,
    most_offset: i128,
    jumps: u64,
}

impl Loop {
    fn vdso(&mut self, clock: ClockId) -> Result<i128, Errno> {
        self.reads += 1;
        Ok(self.clocks.clock_gettime(clock)?.nanoseconds())
    }

    fn system_call(&mut self, clock: ClockId) -> Result<i128, Errno> {
        self.reads += 1;
        Ok(sys::clock_gettime(clock)?.nanoseconds())
    }

    /// CLOCK_MONOTONIC both ways; gives the later value.
    fn round(&mut self) -> Result<i128, Errno> {
        let value = self.vdso(ClockId::MONOTONIC)?;
        self.monotonic.follow(value);
        let value = self.system_call(ClockId::MONOTONIC)?;
        self.monotonic.follow(value);
        Ok(value)
    }

    /// The other clocks.
    fn side(&mut self) -> Result<(), Errno> {
        let coarse = self.vdso(ClockId::MONOTONIC_COARSE)?;
        self.monotonic_coarse.follow(coarse);
        let before = self.vdso(ClockId::MONOTONIC)?;
        let coarse_realtime = self.system_call(ClockId::REALTIME_COARSE)?;
        self.realtime_coarse.follow(coarse_realtime);
        let realtime = self.vdso(ClockId::REALTIME)?;
        let after = self.system_call(ClockId::MONOTONIC)?;
        self.monotonic.follow(before);
        self.monotonic.follow(after);
        self.ahead += u64::from(coarse > before) + u64::from(coarse_realtime > realtime);
        let (least, most) = (realtime - after - SLACK, realtime - before + SLACK);
        if least > self.most_offset || most < self.least_offset {
            // From here on, compare with the new difference.
            self.jumps += 1;
            (self.least_offset, self.most_offset) = (least, most);
        } else {
            self.least_offset = self.least_offset.max(least);
            self.most_offset = self.most_offset.min(most);
        }
        Ok(())
    }

    fn run(&mut self, limit: &Limit) -> Result<(), Errno> {
        let start = self.round()?;
        for round in 0_u64.. {
            let now = self.round()?;
            if round % SIDE == 0 {
                self.side()?;
            }
            let done = match *limit {
                Limit::Reads(reads) => self.reads >= reads,
                Limit::Seconds(seconds) => now - start >= i128::from(seconds) * NANOSECONDS,
            };
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Prints what was seen; true if nothing was wrong.
    fn report(&self) -> bool {
        let tracks = [
            &self.monotonic,
            &self.monotonic_coarse,
            &self.realtime_coarse,
        ];
        let back: u64 = tracks.iter().map(|track| track.back).sum();
        let worst = tracks.iter().map(|track| track.worst).max().unwrap_or(0);
        println!(
            "clockloop: {} reads, {back} steps back, worst {worst} ns, {} coarse ahead, {} realtime jumps",
            self.reads, self.ahead, self.jumps
        );
        back == 0 && self.ahead == 0 && self.jumps == 0
    }
}

fn main(process: &Process) -> i32 {
    let Some(limit) = limit(process) else {
        eprintln!("usage: clockloop [-n reads | -s seconds]");
        return 255;
    };
    let mut state = Loop {
        clocks: Clocks::new(process),
        reads: 0,
        monotonic: Track::new(),
        monotonic_coarse: Track::new(),
        realtime_coarse: Track::new(),
        ahead: 0,
        least_offset: i128::MIN,
        most_offset: i128::MAX,
        jumps: 0,
    };
    if let Err(error) = state.run(&limit) {
        eprintln!("clockloop: {error}");
        return 1;
    }
    i32::from(!state.report())
}

user::program!(main);
