//! Tunables: each has its effect or one line that says why not, and the clock
//! and the programs that read it work under all of them.
//!
//! A boot takes as many tunables as do not disturb each other.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::shown::{Row, values};
use timehands_tests::{machine, output, trial};
use xtask::opt::{Accel, Machine};

fn main() -> ExitCode {
    let trials = vec![
        trial("the_narrowest_counter_works_with_a_slow_tick", slow_tick),
        trial("an_hpet_that_may_not_be_mapped_is_asked_for", not_mapped),
        trial("a_fast_tick_and_no_reads_in_user_space", fast_tick),
        trial("a_tsc_that_is_declared_invariant_is_the_best", invariant),
        trial("a_counter_too_narrow_for_the_tick_is_refused", too_narrow),
        trial("tunables_that_mean_nothing_are_named_and_ignored", bad_ones),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What a boot printed.
struct Boot {
    /// `sysctl -a`, and what programs printed.
    output: String,
    log: String,
    /// Whether any of the programs' reads, which may all go without one, made a
    /// system call.
    asked_the_kernel: bool,
}

impl Boot {
    /// Boots with `tunables` and lets programs read the clock, which must find
    /// nothing wrong.
    fn with(tunables: &str) -> Result<Self> {
        const COMMANDS: [&str; 6] = [
            "sysctl -a",
            "syscall_timing -l 2 -i 1000 clock_gettime gettimeofday",
            "sysctl kern.timecounter.syscalls",
            "clockloop -n 20000",
            // What this prints stands above the log.
            "help dmesg",
            "dmesg",
        ];
        const CLEAN: &str = " 0 steps back, worst 0 ns, 0 coarse ahead, 0 realtime jumps";

        let machine = Machine {
            append: tunables.to_owned(),
            no_hpet: false,
            smp: 1,
            // What CPUID states of the TSC depends on these.
            accel: Accel::Tcg,
            cpu: None,
            ..machine()?
        };
        let text = output(&machine, &COMMANDS)?;
        let (output, log) = text.split_once("\ndmesg").context("no log")?;
        ensure!(
            output.lines().any(|line| line.ends_with(CLEAN)),
            "clockloop found something:\n{output}"
        );
        let rows = Row::all(output).len();
        ensure!(rows == 4, "{rows} rows of syscall_timing:\n{output}");
        let calls = values(output, "kern.timecounter.syscalls");
        let [before, after] = calls[..] else {
            anyhow::bail!("no two counts of system calls:\n{output}");
        };
        Ok(Self {
            output: output.to_owned(),
            log: log.to_owned(),
            asked_the_kernel: before != after,
        })
    }

    /// Checks that `sysctl` printed these lines.
    fn shows(&self, lines: &[&str]) -> Result<()> {
        for line in lines {
            ensure!(
                self.output.lines().any(|shown| shown == *line),
                "no '{line}' in:\n{}",
                self.output
            );
        }
        Ok(())
    }

    /// Checks that the log has each of these lines once.
    fn says(&self, lines: &[&str]) -> Result<()> {
        for line in lines {
            let said = self.log.lines().filter(|said| said == line).count();
            ensure!(said == 1, "'{line}' {said} times in:\n{}", self.log);
        }
        Ok(())
    }

    /// Checks that the log complains about so many tunables.
    fn complains(&self, times: usize) -> Result<()> {
        let complaints = self.log.lines().filter(|line| line.starts_with("tunable "));
        let found = complaints.count();
        ensure!(
            found == times,
            "{found} complaints, not {times}, in:\n{}",
            self.log
        );
        Ok(())
    }
}

/// Programs would see time go back by a wrap.
fn too_narrow() -> Result<()> {
    let boot = Boot::with("kern.hz=20 kern.timecounter.hardware=i8254")?;
    boot.shows(&["kern.hz: 20", "kern.timecounter.hardware: HPET"])?;
    boot.says(&[
        "tunable kern.timecounter.hardware=i8254: needs 37 windups a second, there are 20, ignored",
    ])?;
    boot.complains(1)
}

/// Fewer than three windups to each wrap of the i8254: it is not chosen by
/// itself, and works when it is asked for.
fn slow_tick() -> Result<()> {
    let boot = Boot::with("kern.hz=53 kern.timecounter.hardware=i8254 kern.smp.disabled=1")?;
    boot.shows(&[
        "kern.hz: 53",
        "kern.timecounter.tick: 1",
        "kern.timecounter.hardware: i8254",
        "kern.timecounter.tc.i8254.quality: -2000",
    ])?;
    ensure!(boot.asked_the_kernel, "a program read the i8254");
    boot.complains(0)
}

fn not_mapped() -> Result<()> {
    let boot = Boot::with(
        "kern.hz=100 hw.acpi.hpet.mmap_allow=0 machdep.disable_tsc=1 \
         kern.timecounter.alloweddeviation=20 kern.timecounter.stepwarnings=1",
    )?;
    boot.shows(&[
        "kern.hz: 100",
        "kern.timecounter.tick: 1",
        "kern.timecounter.hardware: HPET",
        "kern.timecounter.choice: i8254(0) ACPI-fast(900) HPET(950) dummy(-1000000)",
        "kern.timecounter.alloweddeviation: 20",
        "kern.timecounter.stepwarnings: 1",
        "machdep.disable_tsc: 1",
    ])?;
    boot.says(&["TSC: disabled by machdep.disable_tsc"])?;
    ensure!(boot.asked_the_kernel, "a program read the HPET");
    boot.complains(0)
}

fn fast_tick() -> Result<()> {
    let boot = Boot::with(
        "kern.hz=4000 kern.timecounter.hardware=HPET kern.timecounter.fast_gettime=0 \
         hw.acpi.timer_test_enabled=0 hw.i8254.freq=1193000 machdep.disable_tsc_calibration=1",
    )?;
    boot.shows(&[
        "kern.hz: 4000",
        "kern.timecounter.tick: 4",
        "kern.timecounter.hardware: HPET",
        "kern.timecounter.fast_gettime: 0",
        "kern.timecounter.tc.i8254.frequency: 1193000",
        "kern.timecounter.tc.ACPI-fast.reason: not tested: hw.acpi.timer_test_enabled is 0",
        "machdep.disable_tsc_calibration: 1",
        "machdep.i8254_freq: 1193000",
    ])?;
    boot.says(&["TSC: no rate stated, and machdep.disable_tsc_calibration forbids to measure it"])?;
    ensure!(boot.asked_the_kernel, "a program read the HPET");
    boot.complains(0)
}

fn invariant() -> Result<()> {
    let boot = Boot::with(
        "kern.hz=1000 kern.timecounter.invariant_tsc=1 kern.timecounter.smp_tsc=1 \
         kern.timecounter.smp_tsc_adjust=3",
    )?;
    boot.shows(&[
        "kern.hz: 1000",
        "kern.timecounter.tick: 1",
        "kern.timecounter.hardware: TSC",
        "kern.timecounter.tc.TSC.quality: 1000",
        "kern.timecounter.invariant_tsc: 1",
        "kern.timecounter.smp_tsc: 1",
        "kern.timecounter.smp_tsc_adjust: 3",
    ])?;
    ensure!(!boot.asked_the_kernel, "no program should need the kernel");
    boot.complains(0)
}

fn bad_ones() -> Result<()> {
    let boot = Boot::with(
        "kern.hz=250 nosuch=1 novalue kern.hz=abc kern.hz=7 kern.hz=10001 \
         kern.timecounter.hardware=nosuch kern.timecounter.alloweddeviation=4294967296 \
         kern.timecounter.timehands_count=4 kern.timecounter.tsc_shift=2 \
         hw.i8254.freq=1 machdep.disable_tsc=yes",
    )?;
    boot.shows(&[
        "kern.hz: 250",
        "kern.timecounter.hardware: HPET",
        "kern.timecounter.alloweddeviation: 5",
        "kern.timecounter.timehands_count: 8",
        "kern.timecounter.tsc_shift: 0",
        "machdep.disable_tsc: 0",
        "machdep.i8254_freq: 1193182",
    ])?;
    boot.says(&[
        "tunable nosuch=1: unknown, ignored",
        "tunable novalue: no value, ignored",
        "tunable kern.hz=abc: not a number, ignored",
        "tunable kern.hz=7: not within 8 to 10000, ignored",
        "tunable kern.hz=10001: not within 8 to 10000, ignored",
        "tunable machdep.disable_tsc=yes: not a number, ignored",
    ])?;
    ensure!(!boot.asked_the_kernel, "no program should need the kernel");
    boot.complains(11)
}
