//! A whole machine probed in which something lies about its rate.

mod board;

use board::{Board, TSC_HZ, choice, complaints, fadt, hpet_table, no_invariance};
use drivers::probe::{self, Machine};
use drivers::report::Line;
use drivers::sim::{CpuidTable, HpetModel, PortsModel, ProcessorModel};
use drivers::tsc::Reason;
use timecounter::Timecounter;

#[test]
fn a_counter_at_half_its_rate_is_outvoted_and_left_out() {
    for liar in ["HPET", "ACPI-fast", "i8254"] {
        let board = Board::new(no_invariance());
        let oscillator = match liar {
            "HPET" => &board.hpet.oscillator,
            "ACPI-fast" => &board.acpi.oscillator,
            _ => &board.i8254.oscillator,
        };
        oscillator.scale(1, 2);
        let (found, lines) = board.probe();
        assert!(
            !choice(&found).contains(liar),
            "{liar} stays out: {}",
            choice(&found)
        );
        let said = complaints(&lines);
        assert_eq!(said.len(), 1, "{liar}: {said:?}");
        assert!(
            said[0].starts_with(&format!("{liar}: runs at ")),
            "{said:?}"
        );
        let error = found
            .tsc
            .as_ref()
            .expect("found")
            .frequency()
            .abs_diff(TSC_HZ);
        assert!(
            error < 80_000,
            "the TSC is measured by another: off {error} Hz"
        );
    }
}

#[test]
fn a_liar_is_said_to_run_at_its_true_rate() {
    let board = Board::new(no_invariance());
    board.hpet.oscillator.scale(1, 2);
    let (_, lines) = board.probe();
    let actual = lines.iter().find_map(|line| match *line {
        Line::Lies {
            name: "HPET",
            nominal: 100_000_000,
            actual,
        } => Some(actual),
        _ => None,
    });
    let error = actual.expect("said").abs_diff(50_000_000);
    assert!(
        error < 10_000,
        "half of 100 MHz within 200 ppm: off {error} Hz"
    );
}

#[test]
fn a_reference_one_percent_off_is_outvoted_by_two_or_by_cpuid() {
    let by_two = Board::new(no_invariance());
    by_two.hpet.oscillator.scale(101, 100);
    let stated = no_invariance().with(0x15, [24_000, 2_596_104, 24_000_000, 0]);
    let by_cpuid = Board::new(stated);
    by_cpuid.hpet.oscillator.scale(101, 100);
    by_cpuid.i8254.set_missing();
    for (board, how) in [(by_two, "two others"), (by_cpuid, "one and CPUID")] {
        let (found, lines) = board.probe();
        assert!(found.hpet.is_none(), "outvoted by {how}: {lines:?}");
        let tsc = found.tsc.as_ref().expect("found");
        assert_eq!(tsc.quality(), 800, "the TSC is not to blame: {lines:?}");
    }
}

#[test]
fn one_against_one_is_decided_by_quality_and_flagged() {
    let board = Board::new(no_invariance());
    board.acpi.oscillator.scale(101, 100);
    board.i8254.set_missing();
    let (found, lines) = board.probe();
    assert!(found.acpi_timer.is_some(), "no majority against it");
    let said = complaints(&lines);
    assert!(
        said.iter()
            .any(|line| line.starts_with("ACPI-fast: disagrees about the TSC: ")),
        "{said:?}"
    );
}

#[test]
fn a_processor_that_states_another_rate_than_it_has_is_never_chosen() {
    // 3.5 GHz copied from a real machine, over a counter of 4 MHz.
    let table = CpuidTable::intel().with(0x15, [24, 3_500, 24_000_000, 0]);
    let mut board = Board::new(table);
    board.processor = ProcessorModel::new(
        &board.clock,
        4_000_000,
        CpuidTable::intel().with(0x15, [24, 3_500, 24_000_000, 0]),
    );
    let (found, lines) = board.probe();
    let tsc = found.tsc.as_ref().expect("found");
    assert_eq!(tsc.quality(), -100, "{lines:?}");
    assert_eq!(
        tsc.frequency().abs_diff(4_000_000) / 4_000,
        0,
        "measured: {}",
        tsc.frequency()
    );
    assert!(
        matches!(tsc.reason(), Reason::Misstated { .. }),
        "{}",
        tsc.reason()
    );
    assert_eq!(
        found.best().map(Timecounter::name),
        Some("HPET"),
        "the best of the rest"
    );
}

#[test]
fn the_base_clock_of_leaf_16h_never_condemns_the_tsc() {
    let table = no_invariance().with(0x16, [4_000, 0, 0, 0]);
    let (found, lines) = Board::new(table).probe();
    assert_eq!(
        found.tsc.as_ref().map(Timecounter::quality),
        Some(800),
        "{lines:?}"
    );
}

#[test]
fn a_counter_that_stops_after_it_was_found_is_left_out() {
    struct StopAfter(HpetModel, std::sync::atomic::AtomicU32);
    impl drivers::bus::Mmio for StopAfter {
        fn read(&self, offset: u16) -> u32 {
            // Enough reads to be found, not enough to measure by.
            if self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 8 {
                self.0.set_dead();
            }
            drivers::bus::Mmio::read(&self.0, offset)
        }
        fn write(&self, offset: u16, value: u32) {
            drivers::bus::Mmio::write(&self.0, offset, value);
        }
    }
    let board = Board::new(no_invariance());
    let hpet = board.hpet.clone();
    let fadt = fadt();
    let table = hpet_table();
    let machine = Machine {
        ports: PortsModel::new()
            .with_i8254(&board.i8254)
            .with_acpi_timer(0x608, &board.acpi),
        processor: board.processor.clone(),
        fadt: Some(fadt.as_slice()),
        hpet: Some(table.as_slice()),
        map: |_| Some(StopAfter(hpet.clone(), 0.into())),
    };
    let mut lines = Vec::new();
    let found = probe::attach(machine, &board.options, |line| lines.push(line));
    assert!(found.hpet.is_none(), "{lines:?}");
    let said = complaints(&lines);
    let expected = "HPET: cannot measure the TSC: the reference does not advance";
    assert_eq!(said, [expected], "the reason");
    assert!(found.tsc.is_some(), "measured by another");
}
