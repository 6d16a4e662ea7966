//! Commits the fault that its argument names.
//!
//! A kernel ends it there; if it comes out on the other side it says so and
//! exits with status 1. Two names must not end it: `flags` makes system calls
//! under hostile flags, and `none` does nothing; both exit with status 0.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use user::sys::{Process, fault};
use user::{eprintln, println};

type Fault = fn(&Process);

const FAULTS: [(&str, Fault); 16] = [
    ("null", |_| fault::null_read()),
    ("text", |_| fault::text_write()),
    ("timehands", fault::timehands_write),
    ("hpet", fault::hpet_write),
    ("vdso", fault::vdso_write),
    ("jump", |_| fault::data_jump()),
    ("undefined", |_| fault::undefined()),
    ("divide", |_| fault::divide()),
    ("privileged", |_| fault::privileged()),
    ("port", |_| fault::port()),
    ("noncanonical", |_| fault::noncanonical_read()),
    ("noncanonical-jump", |_| fault::noncanonical_jump()),
    ("syscall-32", |_| fault::syscall_32()),
    ("kernel", |_| fault::kernel_read()),
    ("stack", |_| fault::stack_overflow()),
    ("panic", |_| panic!("as asked")),
];

fn main(process: &Process) -> i32 {
    let mut arguments = process.arguments().skip(1);
    let (Some(name), None) = (arguments.next(), arguments.next()) else {
        return usage();
    };
    match name {
        "none" => return 0,
        "flags" => {
            fault::hostile_flags("faulter: flags survived\n");
            return 0;
        }
        _ => {}
    }
    let Some((_, commit)) = FAULTS.iter().find(|(known, _)| *known == name) else {
        return usage();
    };
    println!("faulter: {name}");
    commit(process);
    println!("faulter: {name} went through");
    1
}

fn usage() -> i32 {
    eprintln!("usage: faulter name");
    for (name, _) in FAULTS {
        eprintln!("  {name}");
    }
    eprintln!("  flags\n  none");
    255
}

user::program!(main);
