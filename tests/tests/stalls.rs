//! A machine that its host stops for a while, again and again.
//!
//! Time goes on meanwhile, windups come late, and the counter is changed in
//! between. No program may see time go back: what a late windup publishes can
//! only raise the clock. The i8254 is left out, since it wraps in less time than
//! a stop lasts.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use libtest_mimic::Arguments;
use timehands_tests::typist::Typist;
use timehands_tests::{machine, trial};
use xtask::opt::Machine;

/// Any number; every failure names it.
const SEED: u64 = 0x57a1_1ed0;

/// How long the machine is stopped and changed.
const SPAN: Duration = Duration::from_secs(5);

/// Fewest stops that are a test.
const STOPS: u32 = 10;

fn main() -> ExitCode {
    let trials = vec![trial(
        "a_machine_that_is_stopped_for_a_while_never_steps_a_program_back",
        stops,
    )];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn stops() -> Result<()> {
    const CLEAN: &str = " 0 steps back, worst 0 ns, 0 coarse ahead, 0 realtime jumps";
    // Longer than the span, so that its line does not fall among what is typed.
    const PROGRAM: &str = "clockloop -s 10 &";

    let machine = Machine {
        no_hpet: false,
        smp: 1,
        icount: false,
        ..machine()?
    };
    let mut random = Rng::with_seed(SEED);
    let mut guest = Typist::boot(&machine)?;
    guest.line(PROGRAM.as_bytes())?;
    let start = Instant::now();
    let mut stops = 0;
    for counter in ["TSC", "ACPI-fast", "HPET"].iter().cycle() {
        guest.line(format!("sysctl kern.timecounter.hardware={counter}").as_bytes())?;
        for _ in 0..random.u32(1..4) {
            guest.stall(Duration::from_micros(random.u64(100..150_000)))?;
            std::thread::sleep(Duration::from_micros(random.u64(100..5_000)));
            stops += 1;
        }
        if start.elapsed() > SPAN {
            break;
        }
    }
    ensure!(stops >= STOPS, "only {stops} stops in {SPAN:?}");
    let text = guest.line(b"wait")?;
    let found = "the program found something";
    ensure!(text.contains(CLEAN), "seed {SEED:#x}: {found}:\n{text}");
    guest.shut_down()
}
