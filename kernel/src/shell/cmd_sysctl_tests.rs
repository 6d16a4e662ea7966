use crate::shell::fake::FakeMachine;
use crate::shell::{Outcome, execute};
use crate::sysctl::fake::Fake;
use crate::sysctl::{Chip, walk};
use alloc::format;
use alloc::string::String;

fn run(machine: &FakeMachine, line: &str) -> (Outcome, String) {
    let mut out = String::new();
    let outcome = execute(line, machine, &mut out);
    (outcome, out)
}

#[track_caller]
fn prints(line: &str, expected: &str) {
    let (outcome, out) = run(&FakeMachine::default(), line);
    assert_eq!(out, expected, "output of {line}");
    assert_eq!(outcome, Outcome::Success, "status of {line}");
}

/// The line fails with this output and leaves the system as it was.
#[track_caller]
fn fails(line: &str, expected: &str) {
    let machine = FakeMachine::default();
    let before = machine.system.state();
    let (outcome, out) = run(&machine, line);
    assert_eq!(out, expected, "output of {line}");
    assert_eq!(outcome, Outcome::Failure, "status of {line}");
    assert_eq!(machine.system.state(), before, "{line} must change nothing");
}

#[test]
fn a_subtree_is_printed_in_the_order_of_freebsd() {
    prints(
        "sysctl kern.timecounter",
        "\
kern.timecounter.tsc_shift: 0
kern.timecounter.smp_tsc_adjust: 0
kern.timecounter.smp_tsc: 0
kern.timecounter.invariant_tsc: 0
kern.timecounter.fast_gettime: 1
kern.timecounter.tick: 1
kern.timecounter.choice: i8254(0) ACPI-fast(900) HPET(950) TSC(800) dummy(-1000000)
kern.timecounter.hardware: HPET
kern.timecounter.alloweddeviation: 5
kern.timecounter.timehands_count: 4
kern.timecounter.stepwarnings: 0
kern.timecounter.nojitter: 0
kern.timecounter.guard: 0
kern.timecounter.watchdog: 1
kern.timecounter.syscalls: 17
kern.timecounter.late_publications: 3
kern.timecounter.take_overs: 0
kern.timecounter.busy_windups: 0
kern.timecounter.held_windups: 0
kern.timecounter.backward_samples: 0
kern.timecounter.missed_wraps: 0
kern.timecounter.rebased: 0
kern.timecounter.tc.i8254.quality: 0
kern.timecounter.tc.i8254.frequency: 1193182
kern.timecounter.tc.i8254.counter: 4242
kern.timecounter.tc.i8254.mask: 65535
kern.timecounter.tc.i8254.reason: as registered
kern.timecounter.tc.ACPI-fast.quality: 900
kern.timecounter.tc.ACPI-fast.frequency: 3579545
kern.timecounter.tc.ACPI-fast.counter: 4242
kern.timecounter.tc.ACPI-fast.mask: 16777215
kern.timecounter.tc.ACPI-fast.reason: as registered
kern.timecounter.tc.HPET.quality: 950
kern.timecounter.tc.HPET.frequency: 100000000
kern.timecounter.tc.HPET.counter: 4242
kern.timecounter.tc.HPET.mask: 4294967295
kern.timecounter.tc.HPET.reason: as registered
kern.timecounter.tc.HPET.skew_ppb: -1250
kern.timecounter.tc.TSC.quality: 800
kern.timecounter.tc.TSC.frequency: 2100000000
kern.timecounter.tc.TSC.counter: 4242
kern.timecounter.tc.TSC.mask: 18446744073709551615
kern.timecounter.tc.TSC.reason: as registered
kern.timecounter.tc.TSC.skew: CPU 0: +0 ns +-0, +0 counts +-0
CPU 1: +10 ns +-30, +21 counts +-63
kern.timecounter.tc.TSC.resync: 0
",
    );
}

#[test]
fn options_choose_what_is_shown() {
    prints("sysctl kern.hz", "kern.hz: 1000\n");
    prints("sysctl -n kern.hz", "1000\n");
    prints("sysctl -N kern.hz", "kern.hz\n");
    prints(
        "sysctl -d kern.hz",
        "kern.hz: Number of clock ticks per second\n",
    );
    prints("sysctl -nd kern.hz", "Number of clock ticks per second\n");
    prints("sysctl -n -d kern.hz", "Number of clock ticks per second\n");
    prints("sysctl -Nd kern.hz", "kern.hz\n");
    prints("sysctl -- kern.hz", "kern.hz: 1000\n");
    prints("sysctl -an kern.hz", "1000\n");
    prints(
        "sysctl kern.timecounter.tc.HPET.",
        "kern.timecounter.tc.HPET.quality: 950\n\
         kern.timecounter.tc.HPET.frequency: 100000000\n\
         kern.timecounter.tc.HPET.counter: 4242\n\
         kern.timecounter.tc.HPET.mask: 4294967295\n\
         kern.timecounter.tc.HPET.reason: as registered\n\
         kern.timecounter.tc.HPET.skew_ppb: -1250\n",
    );
    prints("sysctl -n machdep.tsc_freq kern.hz", "2100000000\n1000\n");
    prints(
        "sysctl kern.boottime",
        "kern.boottime: { sec = 1600000000, usec = 5 } Sun Sep 13 12:26:40 2020\n",
    );
}

#[test]
fn the_whole_tree_is_kern_then_machdep() {
    let machine = FakeMachine::default();
    let (outcome, names) = run(&machine, "sysctl -aN");
    assert_eq!(outcome, Outcome::Success, "-a needs no name");
    let mut listed = names.lines();
    for oid in walk(&machine.system) {
        assert_eq!(listed.next(), Some(oid.name()), "in the tree's order");
        assert!(!oid.description().is_empty(), "{} is described", oid.name());
    }
    assert_eq!(listed.next(), None, "nothing else is listed");
    assert!(
        names
            .lines()
            .is_sorted_by_key(|name| name.starts_with("machdep.")),
        "kern and machdep do not mix: {names}"
    );
}

#[test]
fn a_write_prints_old_and_new() {
    prints(
        "sysctl kern.timecounter.hardware=TSC",
        "kern.timecounter.hardware: HPET -> TSC\n",
    );
    prints(
        "sysctl kern.timecounter.hardware=TSC kern.timecounter.hardware=auto",
        "kern.timecounter.hardware: HPET -> TSC\nkern.timecounter.hardware: TSC -> HPET\n",
    );
    prints("sysctl -n kern.timecounter.fast_gettime=0", "1 -> 0\n");
    prints(
        "sysctl -N kern.timecounter.fast_gettime=0",
        "kern.timecounter.fast_gettime\n",
    );
    prints(
        "sysctl machdep.tsc_freq=2100000100",
        "machdep.tsc_freq: 2100000000 -> 2100000100\n",
    );
}

#[test]
fn a_selection_stays_until_it_is_given_back() {
    let machine = FakeMachine::default();
    let (_, _) = run(&machine, "sysctl kern.timecounter.hardware=TSC");
    assert!(machine.system.state().pinned, "a choice by name is kept");
    let (_, _) = run(&machine, "sysctl kern.timecounter.hardware=auto");
    assert!(!machine.system.state().pinned, "auto gives it back");
}

#[test]
fn a_description_writes_nothing() {
    let machine = FakeMachine::default();
    let before = machine.system.state();
    let (outcome, out) = run(&machine, "sysctl -d kern.timecounter.stepwarnings=1");
    assert_eq!(
        out, "kern.timecounter.stepwarnings: Log time steps\n",
        "-d describes"
    );
    assert_eq!(outcome, Outcome::Success, "and succeeds");
    assert_eq!(machine.system.state(), before, "-d never writes");
}

#[test]
fn errors_are_those_of_sysctl() {
    fails(
        "sysctl kern.nothing",
        "sysctl: unknown oid 'kern.nothing'\n",
    );
    fails(
        "sysctl kern.nothing=1",
        "sysctl: unknown oid 'kern.nothing'\n",
    );
    fails(
        "sysctl kern.timecounter..",
        "sysctl: unknown oid 'kern.timecounter..'\n",
    );
    fails("sysctl kern.time", "sysctl: unknown oid 'kern.time'\n");
    fails("sysctl ''", "sysctl: unknown oid ''\n");
    fails("sysctl .", "sysctl: unknown oid '.'\n");
    fails("sysctl =", "sysctl: unknown oid ''\n");
    fails(
        "sysctl kern.timecounter.hardware=foo",
        "sysctl: kern.timecounter.hardware=foo: Invalid argument\n",
    );
    fails(
        "sysctl kern.timecounter.hardware=hpet",
        "sysctl: kern.timecounter.hardware=hpet: Invalid argument\n",
    );
    fails(
        "sysctl kern.timecounter.choice=HPET",
        "sysctl: oid 'kern.timecounter.choice' is read only\n",
    );
    fails(
        "sysctl kern.timecounter.tc.HPET.quality=1",
        "sysctl: oid 'kern.timecounter.tc.HPET.quality' is read only\n",
    );
    fails(
        "sysctl kern.timecounter=1",
        "sysctl: oid 'kern.timecounter' isn't a leaf node\n",
    );
    fails(
        "sysctl -x kern.hz",
        "sysctl: illegal option -- x\nusage: sysctl [-adNn] name[=value] ...\n",
    );
    for line in ["sysctl", "sysctl -n", "sysctl --", "sysctl -nN kern.hz"] {
        fails(line, "usage: sysctl [-adNn] name[=value] ...\n");
    }
}

#[test]
fn one_bad_operand_does_not_stop_the_others() {
    let (outcome, out) = run(
        &FakeMachine::default(),
        "sysctl kern.hz nothing kern.timecounter.tick",
    );
    assert_eq!(
        out, "kern.hz: 1000\nsysctl: unknown oid 'nothing'\nkern.timecounter.tick: 1\n",
        "all three are answered in their order"
    );
    assert_eq!(outcome, Outcome::Failure, "and the command fails");
}

#[test]
fn a_number_must_fit_its_type() {
    let int = "kern.timecounter.alloweddeviation";
    for (value, shown) in [
        ("2147483647", "2147483647"),
        ("-2147483648", "-2147483648"),
        ("0x10", "16"),
        ("010", "8"),
        ("-0", "0"),
    ] {
        prints(
            &format!("sysctl {int}={value}"),
            &format!("{int}: 5 -> {shown}\n"),
        );
    }
    for value in [
        "2147483648",
        "-2147483649",
        "4294967296",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "",
        "1x",
        "0x",
        "1.5",
        "--1",
    ] {
        fails(
            &format!("sysctl {int}={value}"),
            &format!("sysctl: {int}={value}: Invalid argument\n"),
        );
    }
}

#[test]
fn a_rate_that_a_clock_cannot_follow_is_refused() {
    for (name, nominal) in [
        ("machdep.tsc_freq", 2_100_000_000_u64),
        ("machdep.i8254_freq", 1_193_182),
        ("machdep.acpi_timer_freq", 3_579_545),
    ] {
        let margin = nominal / 1024;
        for hz in [nominal - margin, nominal, nominal + margin] {
            prints(
                &format!("sysctl {name}={hz}"),
                &format!("{name}: {nominal} -> {hz}\n"),
            );
        }
        for hz in [
            "0",
            "1",
            "-1",
            "4294967296",
            "18446744073709551615",
            "18446744073709551616",
            &format!("{}", nominal - margin - 1),
            &format!("{}", nominal + margin + 1),
        ] {
            fails(
                &format!("sysctl {name}={hz}"),
                &format!("sysctl: {name}={hz}: Invalid argument\n"),
            );
        }
    }
}

#[test]
fn a_chip_that_is_missing_has_no_rate() {
    let machine = FakeMachine::on(Fake::default().without(Chip::AcpiTimer));
    for operand in ["machdep.acpi_timer_freq", "machdep.acpi_timer_freq=3579545"] {
        let (outcome, out) = run(&machine, &format!("sysctl {operand}"));
        assert_eq!(
            out,
            format!("sysctl: {operand}: Operation not supported\n"),
            "it says so"
        );
        assert_eq!(outcome, Outcome::Failure, "and fails");
    }
    let (outcome, out) = run(&machine, "sysctl -n machdep");
    assert_eq!(
        out, "0\n0\n2100000000\n1193182\n",
        "a listing passes it over"
    );
    assert_eq!(outcome, Outcome::Success, "which is no failure");
}

#[test]
fn the_longest_name_fits_and_one_more_byte_does_not() {
    for length in [0, 31, 32, 900] {
        let name = "x".repeat(length);
        fails(
            &format!("sysctl kern.timecounter.hardware={name}"),
            &format!("sysctl: kern.timecounter.hardware={name}: Invalid argument\n"),
        );
    }
}

#[test]
fn a_switch_takes_its_own_values_alone() {
    for (name, old, last) in [
        ("kern.timecounter.nojitter", 0, 2),
        ("kern.timecounter.watchdog", 1, 60),
    ] {
        for value in 0..=last {
            prints(
                &format!("sysctl {name}={value}"),
                &format!("{name}: {old} -> {value}\n"),
            );
        }
        for value in ["-1", &format!("{}", last + 1), "4294967296", "", "x"] {
            fails(
                &format!("sysctl {name}={value}"),
                &format!("sysctl: {name}={value}: Invalid argument\n"),
            );
        }
    }
    prints(
        "sysctl kern.timecounter.nojitter=2 kern.timecounter.guard",
        "kern.timecounter.nojitter: 0 -> 2\nkern.timecounter.guard: 100\n",
    );
    fails(
        "sysctl kern.timecounter.guard=1",
        "sysctl: oid 'kern.timecounter.guard' is read only\n",
    );
}

#[test]
fn a_one_compares_the_counters_of_all_cpus_anew() {
    let machine = FakeMachine::default();
    let (outcome, out) = run(&machine, "sysctl kern.timecounter.tc.TSC.resync=1");
    assert_eq!(
        out, "kern.timecounter.tc.TSC.resync: 0 -> 0\n",
        "it is done"
    );
    assert_eq!(outcome, Outcome::Success, "and no failure");
    assert_eq!(machine.system.state().comparisons, 2, "once");
    for value in ["0", "2", "-1", "yes"] {
        let operand = format!("kern.timecounter.tc.TSC.resync={value}");
        fails(
            &format!("sysctl {operand}"),
            &format!("sysctl: {operand}: Invalid argument\n"),
        );
    }
    fails(
        "sysctl kern.timecounter.tc.HPET.resync=1",
        "sysctl: unknown oid 'kern.timecounter.tc.HPET.resync'\n",
    );
}
