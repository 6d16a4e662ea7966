//! A whole machine probed: what is found, what is absent, and with which words.

mod board;

use board::{Board, HPET_ADDRESS, TSC_HZ, choice, complaints, hpet_table, no_invariance};
use drivers::hpet::HpetError;
use drivers::report::Line;
use drivers::sim::CpuidTable;
use timecounter::Timecounter;

#[test]
fn everything_is_found_on_a_good_machine() {
    let board = Board::new(no_invariance());
    board.processor.set_step(26);
    let (found, lines) = board.probe();
    assert_eq!(
        choice(&found),
        "i8254(0) ACPI-fast(900) HPET(950) TSC(800)",
        "{lines:?}"
    );
    assert_eq!(complaints(&lines), [""; 0], "nothing to complain about");
    assert_eq!(
        found.best().map(Timecounter::name),
        Some("HPET"),
        "the best"
    );
    assert_eq!(found.hpet_address, Some(HPET_ADDRESS), "for user mappings");
    let tsc = found.tsc.as_ref().expect("found");
    assert_eq!(tsc.step(), 26, "its step is measured");
    let calibration = found.tsc_calibration.expect("measured");
    assert_eq!(tsc.frequency(), calibration.frequency, "as measured");
    let error = tsc.frequency().abs_diff(TSC_HZ);
    assert!(error < 26_000, "within 10 ppm: off {error} Hz");
}

#[test]
fn an_invariant_tsc_is_the_best() {
    let (found, lines) = Board::new(CpuidTable::intel()).probe();
    assert_eq!(
        choice(&found),
        "i8254(0) ACPI-fast(900) HPET(950) TSC(1000)",
        "{lines:?}"
    );
    assert_eq!(found.best().map(Timecounter::name), Some("TSC"), "the best");
}

#[test]
fn absent_chips_are_one_line_each() {
    let mut board = Board::new(no_invariance());
    board.hpet_table = None;
    board.fadt = None;
    board.i8254.set_missing();
    let (found, lines) = board.probe();
    assert_eq!(choice(&found), "", "no rate for the TSC either");
    assert_eq!(
        complaints(&lines),
        [
            "i8254: counter does not advance",
            "ACPI timer: not in the ACPI tables",
            "HPET: not in the ACPI tables",
            "TSC: no rate stated and no counter to measure it by",
        ],
        "one line each"
    );
}

#[test]
fn with_nothing_to_measure_by_a_stated_rate_is_used_and_said_so() {
    let table = CpuidTable::intel().with(0x15, [2, 250, 24_000_000, 0]);
    let mut board = Board::new(table);
    board.hpet_table = None;
    board.fadt = None;
    board.i8254.set_missing();
    let (found, lines) = board.probe();
    let tsc = found.tsc.as_ref().expect("found");
    assert_eq!(tsc.frequency(), 3_000_000_000, "as stated");
    assert_eq!(found.tsc_calibration, None, "not measured");
    let said = complaints(&lines);
    let expected = "TSC: 3000000000 Hz stated by CPUID, not measured".to_string();
    assert!(said.contains(&expected), "{said:?}");
}

#[test]
fn each_chip_alone_is_enough_to_measure_the_tsc() {
    for keep in ["HPET", "ACPI-fast", "i8254"] {
        let mut board = Board::new(no_invariance());
        if keep != "HPET" {
            board.hpet.set_dead();
        }
        if keep != "ACPI-fast" {
            board.fadt = None;
        }
        if keep != "i8254" {
            board.i8254.oscillator.set_running(false);
        }
        let (found, lines) = board.probe();
        let tsc = found.tsc.as_ref().expect("found");
        let error = tsc.frequency().abs_diff(TSC_HZ);
        assert!(error < 80_000, "by {keep}, within 30 ppm: off {error} Hz");
        assert_eq!(
            complaints(&lines).len(),
            2,
            "two chips are missing: {lines:?}"
        );
    }
}

#[test]
fn an_unmappable_hpet_is_refused_with_its_address() {
    let mut board = Board::new(no_invariance());
    let mut table = hpet_table();
    table[44..52].copy_from_slice(&0x1234_5000_u64.to_le_bytes());
    board.hpet_table = Some(table);
    let (found, lines) = board.probe();
    assert!(
        found.hpet.is_none() && found.hpet_address.is_none(),
        "no HPET"
    );
    let expected = Line::Hpet(HpetError::NoRegisters(0x1234_5000));
    assert!(lines.contains(&expected), "{lines:?}");
}

#[test]
fn a_badly_latched_acpi_timer_is_found_with_the_careful_reader() {
    let board = Board::new(no_invariance());
    board.acpi.set_garbage(23, 0xFF_FFFF);
    let (found, lines) = board.probe();
    assert_eq!(
        choice(&found),
        "i8254(0) ACPI-safe(850) HPET(950) TSC(800)",
        "{lines:?}"
    );
    assert_eq!(complaints(&lines), [""; 0], "and it agrees with the others");
}

#[test]
fn the_tunable_leaves_the_tsc_alone() {
    let mut board = Board::new(CpuidTable::intel());
    board.options.disable_tsc = true;
    let (found, lines) = board.probe();
    assert!(found.tsc.is_none(), "disabled");
    assert_eq!(board.processor.reads(), 0, "not even read");
    assert_eq!(
        complaints(&lines),
        ["TSC: disabled by machdep.disable_tsc"],
        "the reason"
    );
}

#[test]
fn without_calibration_the_tsc_runs_at_the_stated_rate_or_not_at_all() {
    let stated = CpuidTable::intel().with(0x15, [2, 250, 24_000_000, 0]);
    let mut board = Board::new(stated);
    board.options.disable_tsc_calibration = true;
    let (found, lines) = board.probe();
    let tsc = found.tsc.as_ref().expect("found");
    assert_eq!(tsc.frequency(), 3_000_000_000, "as stated");
    assert_eq!(found.tsc_calibration, None, "not measured");
    let expected = "TSC: 3000000000 Hz stated by CPUID, not measured";
    assert_eq!(complaints(&lines), [expected], "and says so");

    let mut board = Board::new(no_invariance());
    board.options.disable_tsc_calibration = true;
    let (found, lines) = board.probe();
    assert!(found.tsc.is_none(), "nothing is stated");
    let expected = "TSC: no rate stated, and machdep.disable_tsc_calibration forbids to measure it";
    assert_eq!(complaints(&lines), [expected], "the reason");
}

#[test]
fn the_operator_has_the_last_word_on_invariance() {
    for (table, invariant, quality) in [
        (no_invariance(), true, 1000),
        (CpuidTable::intel(), false, 800),
    ] {
        let mut board = Board::new(table);
        board.options.invariant_tsc = Some(invariant);
        let (found, lines) = board.probe();
        assert_eq!(
            found.tsc.as_ref().map(Timecounter::quality),
            Some(quality),
            "told {invariant}: {lines:?}"
        );
    }
}

#[test]
fn an_acpi_timer_that_is_not_tested_is_read_at_one_go() {
    let mut board = Board::new(no_invariance());
    board.acpi.set_garbage(23, 0x3F);
    board.options.acpi_timer_test = false;
    let (found, lines) = board.probe();
    assert!(found.acpi_timer.is_none(), "the measurement finds it out");
    let said = complaints(&lines);
    let [line] = said.as_slice() else {
        panic!("one line, not {said:?}");
    };
    assert!(line.starts_with("ACPI-fast: cannot measure"), "{line}");
}

#[test]
fn a_processor_without_or_with_a_stopped_tsc_says_so() {
    let (found, lines) = Board::new(CpuidTable::default()).probe();
    assert!(found.tsc.is_none(), "absent");
    assert_eq!(
        complaints(&lines),
        ["TSC: not in this processor"],
        "the reason"
    );
    let board = Board::new(CpuidTable::intel());
    board.processor.tsc.set_running(false);
    let (found, lines) = board.probe();
    assert!(found.tsc.is_none(), "stopped");
    assert_eq!(
        complaints(&lines),
        ["TSC: counter does not advance"],
        "the reason"
    );
}

#[test]
fn several_cpus_lower_a_tsc_that_is_not_known_to_be_in_step() {
    let mut board = Board::new(CpuidTable::intel());
    board.options.cpus = 2;
    let (found, lines) = board.probe();
    assert_eq!(
        found.tsc.as_ref().map(Timecounter::quality),
        Some(-100),
        "{lines:?}"
    );
    board.options.tsc_in_step = true;
    let (found, lines) = board.probe();
    assert_eq!(
        found.tsc.as_ref().map(Timecounter::quality),
        Some(1000),
        "{lines:?}"
    );
}

#[test]
fn a_hypervisor_that_emulates_ring_0_slowly_is_probed_in_a_moment() {
    let board = Board::new(no_invariance());
    board.hpet.set_access_ns(9_000);
    board.acpi.set_access_ns(9_300);
    board.i8254.set_access_ns(2_400);
    board.processor.set_read_ps(2_300_000, 2_800_000);
    let (found, lines) = board.probe();
    assert_eq!(
        choice(&found),
        "i8254(0) ACPI-fast(900) HPET(950) TSC(800)",
        "{lines:?}"
    );
    let took_ms = board.clock.now_ps() / 1_000_000_000;
    assert!(took_ms < 300, "{took_ms} ms");
}
