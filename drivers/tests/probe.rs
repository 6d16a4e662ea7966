//! A whole machine probed: what is found, what is refused, and with which
//! words.

use drivers::hpet::HpetError;
use drivers::probe::{self, Counters, Machine, Options};
use drivers::report::Line;
use drivers::sim::{
    AcpiTimerModel, Clock, CpuidTable, HpetModel, I8254Model, PortsModel, ProcessorModel,
};
use drivers::tsc::Reason;
use timecounter::Timecounter;

const TSC_HZ: u64 = 2_596_104_000;
const HPET_ADDRESS: u64 = 0xFED0_0000;

fn fadt() -> Vec<u8> {
    let mut bytes = vec![0; 244];
    bytes[..4].copy_from_slice(b"FACP");
    bytes[4..8].copy_from_slice(&244_u32.to_le_bytes());
    bytes[76..80].copy_from_slice(&0x608_u32.to_le_bytes());
    bytes[91] = 4;
    bytes[112..116].copy_from_slice(&0x84A5_u32.to_le_bytes());
    bytes
}

fn hpet_table() -> Vec<u8> {
    let mut bytes = vec![0; 56];
    bytes[..4].copy_from_slice(b"HPET");
    bytes[4..8].copy_from_slice(&56_u32.to_le_bytes());
    bytes[44..52].copy_from_slice(&HPET_ADDRESS.to_le_bytes());
    bytes
}

/// A q35 with its tables; faults are set on the models.
struct Board {
    clock: Clock,
    processor: ProcessorModel,
    hpet: HpetModel,
    acpi: AcpiTimerModel,
    i8254: I8254Model,
    fadt: Option<Vec<u8>>,
    hpet_table: Option<Vec<u8>>,
    options: Options,
}

type Found = Counters<PortsModel, HpetModel, ProcessorModel>;

impl Board {
    fn new(cpuid: CpuidTable) -> Self {
        let clock = Clock::new();
        Self {
            processor: ProcessorModel::new(&clock, TSC_HZ, cpuid),
            hpet: HpetModel::new(&clock, 10_000_000),
            acpi: AcpiTimerModel::new(&clock, 24),
            i8254: I8254Model::new(&clock),
            clock,
            fadt: Some(fadt()),
            hpet_table: Some(hpet_table()),
            options: Options {
                cpus: 1,
                tsc_in_step: false,
                disable_tsc: false,
                lfence_orders: true,
            },
        }
    }

    /// The counters and the lines about them.
    fn probe(&self) -> (Found, Vec<Line>) {
        let ports = PortsModel::new()
            .with_i8254(&self.i8254)
            .with_acpi_timer(0x608, &self.acpi);
        let machine = Machine {
            ports,
            processor: self.processor.clone(),
            fadt: self.fadt.as_deref(),
            hpet: self.hpet_table.as_deref(),
            map: |address| (address == HPET_ADDRESS).then(|| self.hpet.clone()),
        };
        let mut lines = Vec::new();
        let found = probe::attach(machine, &self.options, |line| lines.push(line));
        let took_ms = (self.clock.now_ps()) / 1_000_000_000;
        assert!(
            took_ms < 5_000,
            "probing ends in bounded time, {took_ms} ms"
        );
        (found, lines)
    }
}

/// Names and qualities, as `kern.timecounter.choice` shows them.
fn choice(found: &Found) -> String {
    let counters: [Option<&dyn Timecounter>; 4] = [
        found.i8254.as_ref().map(|chip| chip as _),
        found.acpi_timer.as_ref().map(|chip| chip as _),
        found.hpet.as_ref().map(|chip| chip as _),
        found.tsc.as_ref().map(|chip| chip as _),
    ];
    let shown: Vec<_> = counters
        .into_iter()
        .flatten()
        .map(|counter| format!("{}({})", counter.name(), counter.quality()))
        .collect();
    shown.join(" ")
}

/// All lines but those about the TSC's own rate and quality.
fn complaints(lines: &[Line]) -> Vec<String> {
    let routine = |line: &&Line| matches!(line, Line::Calibrated { .. } | Line::Rated(_));
    lines
        .iter()
        .filter(|line| !routine(line))
        .map(Line::to_string)
        .collect()
}

fn no_invariance() -> CpuidTable {
    CpuidTable::intel().with(0x8000_0007, [0; 4])
}

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
