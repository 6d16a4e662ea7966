use super::{Around, ClockSystem};
use crate::cpuset::MAX_CPUS;
use crate::shell::fake::FakeMachine;
use crate::shell::{Outcome, execute};
use crate::sysctl::{Chip, Errno, System};
use crate::tunables::Tunables;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use timecounter::Timecounter;
use timecounter::clock::Clock;
use timecounter::page::TimehandsPage;
use timecounter::role::Role;

/// A counter on a time that all counters of one test share and that every
/// read moves on by 10 us.
struct Shared {
    now_ns: &'static AtomicU64,
    name: &'static str,
    quality: i32,
    frequency: u64,
    /// Rate as counted, against the one declared.
    real: u64,
}

impl Timecounter for Shared {
    fn name(&self) -> &'static str {
        self.name
    }
    fn frequency(&self) -> u64 {
        self.frequency
    }
    fn mask(&self) -> u64 {
        u64::from(u32::MAX)
    }
    fn quality(&self) -> i32 {
        self.quality
    }
    fn read(&self) -> u64 {
        let now = self.now_ns.fetch_add(10_000, Ordering::Relaxed);
        now * self.real / 1_000_000_000
    }
    fn explain(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("made for a test")
    }
}

/// A clock on three counters, the last of which runs at half its rate.
fn system(tunables: &Tunables) -> ClockSystem {
    let now_ns: &'static AtomicU64 = Box::leak(Box::default());
    let page: &'static TimehandsPage = Box::leak(Box::new(TimehandsPage::new()));
    let clock: &'static Clock = Box::leak(Box::new(Clock::new(page)));
    clock.start();
    for (name, quality, frequency, real) in [
        ("TSC", 800, 2_000_000_000, 2_000_000_000),
        ("HPET", 950, 100_000_000, 100_000_000),
        ("ACPI-safe", -10, 3_579_545, 3_579_545 / 2),
    ] {
        let counter = Box::leak(Box::new(Shared {
            now_ns,
            name,
            quality,
            frequency,
            real,
        }));
        clock.register(counter).expect("a sound counter");
    }
    clock.settle(&mut || {}).expect("the HPET is fit");
    let around = Around {
        hz: || 2_000,
        syscalls: || 7,
        free_pages: || 60_000,
        cpus: || 3,
        tsc_invariant: || false,
        tsc_in_step: || true,
        tsc_skew: Vec::new,
        tsc_resync: || Err(Errno::Busy),
        watchdog: |_| {},
        role: || {
            static ROLE: Role<MAX_CPUS> = Role::new();
            &ROLE
        },
        relax: || {},
    };
    ClockSystem::new(clock, tunables, around)
}

fn run(system: ClockSystem, lines: &[&str]) -> Vec<String> {
    let machine = FakeMachine::on(system);
    let run = |line: &&str| {
        let mut out = String::new();
        let _: Outcome = execute(line, &machine, &mut out);
        out
    };
    lines.iter().map(run).collect()
}

#[test]
fn the_counters_are_listed_newest_first() {
    let lines = [
        "sysctl -n kern.timecounter.choice",
        "sysctl -N kern.timecounter.tc",
    ];
    let out = run(system(&Tunables::default()), &lines);
    assert_eq!(
        out[0], "ACPI-safe(-10) HPET(950) TSC(800) dummy(-1000000)\n",
        "choice"
    );
    assert_eq!(
        out[1].lines().count(),
        20,
        "six leaves each and two more of the TSC, none for the dummy"
    );
    assert!(
        out[1].starts_with("kern.timecounter.tc.ACPI-safe.quality\n"),
        "{}",
        out[1]
    );
}

#[test]
fn a_write_switches_and_auto_gives_the_choice_back() {
    let out = run(
        system(&Tunables::default()),
        &[
            "sysctl kern.timecounter.hardware=TSC",
            "sysctl kern.timecounter.hardware=auto",
            "sysctl kern.timecounter.hardware=tsc",
        ],
    );
    assert_eq!(
        out,
        [
            "kern.timecounter.hardware: HPET -> TSC\n",
            "kern.timecounter.hardware: TSC -> HPET\n",
            "sysctl: kern.timecounter.hardware=tsc: Invalid argument\n",
        ],
        "the clock has changed when the write returns"
    );
}

#[test]
fn a_counter_that_lies_about_its_rate_is_refused() {
    let out = run(
        system(&Tunables::default()),
        &[
            "sysctl kern.timecounter.hardware=ACPI-safe",
            "sysctl kern.timecounter.hardware",
        ],
    );
    assert_eq!(
        out,
        [
            "sysctl: kern.timecounter.hardware=ACPI-safe: Invalid argument\n",
            "kern.timecounter.hardware: HPET\n",
        ],
        "the old counter stays"
    );
}

#[test]
fn rates_are_those_of_the_chips_counters() {
    let system = system(&Tunables::default());
    assert_eq!(system.frequency(Chip::Tsc), Some(2_000_000_000), "the TSC");
    assert_eq!(
        system.frequency(Chip::I8254),
        None,
        "no i8254 is registered"
    );
    assert_eq!(
        system.frequency(Chip::AcpiTimer),
        Some(3_579_545),
        "either name"
    );
    assert_eq!(
        system.set_frequency(Chip::I8254, 1_193_182),
        Err(Errno::Unsupported),
        "what is not there has no rate"
    );
    system.select(Some("TSC")).expect("the TSC is fit");
    assert_eq!(
        system.set_frequency(Chip::Tsc, 2_000_400_000),
        Ok(()),
        "200 ppm"
    );
    assert_eq!(
        system.frequency(Chip::Tsc),
        Some(2_000_400_000),
        "it is in force"
    );
    for hz in [0, 1, 1_000_000_000, 2_010_000_000, u64::MAX] {
        assert_eq!(
            system.set_frequency(Chip::Tsc, hz),
            Err(Errno::Invalid),
            "{hz} Hz is beyond what the clock can follow"
        );
        assert_eq!(
            system.frequency(Chip::Tsc),
            Some(2_000_400_000),
            "unchanged"
        );
    }
}

#[test]
fn tunables_are_the_first_values() {
    let tunables = Tunables {
        fast_gettime: 0,
        allowed_deviation: 20,
        step_warnings: 1,
        smp_tsc_adjust: 3,
        disable_tsc: true,
        ..Tunables::default()
    };
    let system = system(&tunables);
    let clock = system.clock;
    assert!(
        !clock.user_enabled(),
        "programs are sent to the system call"
    );
    let out = run(
        system,
        &[
            "sysctl -n kern.timecounter.fast_gettime kern.timecounter.alloweddeviation \
             kern.timecounter.stepwarnings kern.timecounter.smp_tsc_adjust \
             machdep.disable_tsc kern.timecounter.syscalls kern.hz kern.timecounter.tick",
            "sysctl kern.timecounter.fast_gettime=-5",
        ],
    );
    assert_eq!(out[0], "0\n20\n1\n3\n1\n7\n2000\n2\n", "as they were given");
    assert_eq!(
        out[1], "kern.timecounter.fast_gettime: 0 -> -5\n",
        "any int"
    );
    assert!(clock.user_enabled(), "and any but zero enables");
}
