//! Checks the results and the errors of the system calls, one line for each
//! that is wrong.
//!
//! Everything checked here holds on Linux as well, where this program runs as
//! it is. Exit status 1 if anything was wrong.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

use user::abi::{ClockId, Errno, auxiliary};
use user::print::{STDERR, STDOUT};
use user::sys::{self, BadPointer, Memory, Process};
use user::vdso::Clocks;
use user::{eprintln, println};

/// Counts checks and reports those that fail.
#[derive(Default)]
struct Checks {
    made: u32,
    failed: u32,
}

impl Checks {
    fn check(&mut self, what: &str, holds: bool) {
        self.made += 1;
        if !holds {
            self.failed += 1;
            eprintln!("calls: {what}");
        }
    }

    fn refused<T>(&mut self, what: &str, result: Result<T, Errno>, expected: Errno) {
        self.made += 1;
        match result {
            Err(error) if error == expected => {}
            Err(error) => {
                self.failed += 1;
                eprintln!("calls: {what}: {error} instead of {expected}");
            }
            Ok(_) => {
                self.failed += 1;
                eprintln!("calls: {what}: accepted instead of {expected}");
            }
        }
    }
}

const CLOCKS: [(&str, ClockId); 6] = [
    ("REALTIME", ClockId::REALTIME),
    ("MONOTONIC", ClockId::MONOTONIC),
    ("MONOTONIC_RAW", ClockId::MONOTONIC_RAW),
    ("REALTIME_COARSE", ClockId::REALTIME_COARSE),
    ("MONOTONIC_COARSE", ClockId::MONOTONIC_COARSE),
    ("BOOTTIME", ClockId::BOOTTIME),
];

fn clocks(checks: &mut Checks, vdso: &Clocks) {
    for (name, clock) in CLOCKS {
        let ranges = [
            sys::clock_gettime(clock),
            vdso.clock_gettime(clock),
            sys::clock_getres(clock),
            vdso.clock_getres(clock),
        ];
        for time in ranges {
            checks.check(
                name,
                time.is_ok_and(|time| time.sec >= 0 && (0..1_000_000_000).contains(&time.nsec)),
            );
        }
        checks.check(
            name,
            sys::clock_getres(clock) == vdso.clock_getres(clock)
                && sys::clock_getres(clock).is_ok_and(|step| step.nanoseconds() > 0),
        );
    }
    for unknown in [-1, 12, 63, 1_000_000, i32::MIN, i32::MAX] {
        let clock = ClockId(unknown);
        checks.refused("clock_gettime", sys::clock_gettime(clock), Errno::INVAL);
        checks.refused("clock_getres", sys::clock_getres(clock), Errno::INVAL);
        checks.refused("vDSO gettime", vdso.clock_gettime(clock), Errno::INVAL);
        checks.refused("vDSO getres", vdso.clock_getres(clock), Errno::INVAL);
    }
    let times = (
        sys::gettimeofday(),
        vdso.gettimeofday(),
        sys::gettimeofday(),
    );
    checks.check(
        "gettimeofday in order, microseconds in range",
        matches!(times, (Ok(before), Ok(between), Ok(after))
            if before <= between && between <= after && (0..1_000_000).contains(&between.usec)),
    );
    let (before, between) = (sys::time(), vdso.time());
    checks.check(
        "time",
        matches!((before, between), (Ok(a), Ok(b)) if b - a as i64 <= 1 && b >= a as i64),
    );
}

fn pointers(checks: &mut Checks) {
    for pointer in BadPointer::ALL {
        for (_, clock) in CLOCKS {
            let result = sys::clock_gettime_into(clock, pointer);
            checks.refused("clock_gettime to a bad pointer", result, Errno::FAULT);
            let result = sys::clock_getres_into(clock, pointer);
            checks.refused("clock_getres to a bad pointer", result, Errno::FAULT);
        }
        let result = sys::gettimeofday_into(pointer);
        checks.refused("gettimeofday to a bad pointer", result, Errno::FAULT);
        // Code is readable, so that one is not bad for `write`.
        if pointer != BadPointer::Text {
            let result = sys::write_from(STDERR, pointer);
            checks.refused("write from a bad pointer", result, Errno::FAULT);
        }
    }
}

fn memory(checks: &mut Checks) {
    checks.refused("mmap of nothing", Memory::map(0), Errno::INVAL);
    checks.refused("mmap of everything", Memory::map(1 << 46), Errno::NOMEM);
    // Far more pages than a kernel could look at one by one.
    checks.check(
        "addresses taken and given back",
        sys::reserve(1 << 45) == Ok(()),
    );
    for size in [1, 4096, 4097, 1 << 20] {
        match Memory::map(size) {
            Ok(mut memory) => {
                let bytes = memory.bytes();
                checks.check("mapped memory is zero", bytes.iter().all(|&byte| byte == 0));
                bytes.fill(0xa5);
                checks.check(
                    "mapped memory keeps what is written",
                    bytes.iter().all(|&byte| byte == 0xa5),
                );
            }
            Err(error) => {
                eprintln!("calls: mmap of {size}: {error}");
                checks.check("mmap", false);
            }
        }
    }
}

fn process_calls(checks: &mut Checks, process: &Process) {
    checks.check("getpid", sys::getpid().is_ok_and(|pid| pid > 0));
    checks.check("gettid is getpid", sys::gettid() == sys::getpid());
    checks.check("set_tid_address", sys::set_tid_address() == sys::gettid());
    checks.check(
        "getuid is AT_UID",
        sys::getuid().is_ok_and(|uid| process.auxiliary(auxiliary::UID) == Some(uid as u64)),
    );
    checks.check("sched_yield", sys::yield_now() == Ok(0));
    checks.check("write of nothing", sys::write(STDOUT, b"") == Ok(0));
    checks.refused("write to descriptor 99", sys::write(99, b"x"), Errno::BADF);
    checks.refused("unknown call", sys::unknown_call(), Errno::NOSYS);
    checks.check(
        "AT_PAGESZ",
        process.auxiliary(auxiliary::PAGESZ) == Some(4096),
    );
    checks.check(
        "AT_CLKTCK",
        process.auxiliary(auxiliary::CLKTCK) == Some(100),
    );
    checks.check("AT_PHENT", process.auxiliary(auxiliary::PHENT) == Some(56));
    for key in [
        auxiliary::PHDR,
        auxiliary::PHNUM,
        auxiliary::ENTRY,
        auxiliary::RANDOM,
    ] {
        checks.check(
            "auxiliary vector",
            process.auxiliary(key).is_some_and(|value| value > 0),
        );
    }
}

fn main(process: &Process) -> i32 {
    let mut checks = Checks::default();
    let vdso = Clocks::new(process);
    checks.check("the vDSO has its four clock functions", vdso.is_complete());
    clocks(&mut checks, &vdso);
    pointers(&mut checks);
    memory(&mut checks);
    process_calls(&mut checks, process);
    println!("calls: {} checks, {} failed", checks.made, checks.failed);
    i32::from(checks.failed > 0)
}

user::program!(main);
