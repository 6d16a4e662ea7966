//! Holds values in the vector registers for so many seconds and checks that
//! they stay. Run several with different seeds at once: then a kernel that
//! does not keep each program's registers is found out.
//!
//! Exit status 1 if a value changed, 255 for wrong usage.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use user::abi::ClockId;
use user::sys::{self, Process, vectors};
use user::{eprintln, println};

/// Rounds held at a time: a few ticks, so that most holds see a switch.
const ROUNDS: u64 = 2_000_000;

const NANOSECONDS: i128 = 1_000_000_000;

fn numbers(process: &Process) -> Option<(u64, u64)> {
    let mut arguments = process.arguments().skip(1);
    let numbers = (
        arguments.next()?.parse().ok()?,
        arguments.next()?.parse().ok()?,
    );
    arguments.next().is_none().then_some(numbers)
}

fn now() -> i128 {
    sys::clock_gettime(ClockId::MONOTONIC).map_or(0, |time| time.nanoseconds())
}

fn main(process: &Process) -> i32 {
    let Some((seed, seconds)) = numbers(process) else {
        eprintln!("usage: vectors seed seconds");
        return 255;
    };
    let end = now() + i128::from(seconds) * NANOSECONDS;
    let mut held = 0_u64;
    while held == 0 || now() < end {
        // Far apart, so that no two programs hold equal values.
        if !vectors::keep(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), ROUNDS) {
            println!("vectors: {seed}: a register changed after {held} holds");
            return 1;
        }
        held += 1;
    }
    println!("vectors: {seed}: kept");
    0
}

user::program!(main);
