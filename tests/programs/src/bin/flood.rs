//! Writes so many MiB to standard output in one system call, and says how many
//! bytes the call took.
//!
//! Exit status 1 if there is no memory for them, 255 for wrong usage.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use user::print::STDOUT;
use user::sys::{self, Memory, Process};
use user::{eprintln, println};

/// Characters of a line, its end included.
const LINE: usize = 64;

fn size(process: &Process) -> Option<usize> {
    let mut arguments = process.arguments().skip(1);
    let mebibytes: usize = arguments.next()?.parse().ok()?;
    arguments
        .next()
        .is_none()
        .then(|| mebibytes.checked_mul(1 << 20))?
}

fn main(process: &Process) -> i32 {
    let Some(size) = size(process) else {
        eprintln!("usage: flood mebibytes");
        return 255;
    };
    let mut memory = match Memory::map(size) {
        Ok(memory) => memory,
        Err(error) => {
            eprintln!("flood: {error}");
            return 1;
        }
    };
    for line in memory.bytes().chunks_mut(LINE) {
        line.fill(b'~');
        if let Some(end) = line.last_mut() {
            *end = b'\n';
        }
    }
    match sys::write(STDOUT, memory.bytes()) {
        Ok(taken) => println!("flood: {taken}"),
        Err(error) => println!("flood: {error}"),
    }
    0
}

user::program!(main);
