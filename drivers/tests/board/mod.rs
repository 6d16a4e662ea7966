//! A q35 made of models, and what the probe says about it.

use drivers::probe::{self, Counters, Machine, Options};
use drivers::report::Line;
use drivers::sim::{
    AcpiTimerModel, Clock, CpuidTable, HpetModel, I8254Model, PortsModel, ProcessorModel,
};
use timecounter::Timecounter;

pub(crate) const TSC_HZ: u64 = 2_596_104_000;
pub(crate) const HPET_ADDRESS: u64 = 0xFED0_0000;

pub(crate) fn fadt() -> Vec<u8> {
    let mut bytes = vec![0; 244];
    bytes[..4].copy_from_slice(b"FACP");
    bytes[4..8].copy_from_slice(&244_u32.to_le_bytes());
    bytes[76..80].copy_from_slice(&0x608_u32.to_le_bytes());
    bytes[91] = 4;
    bytes[112..116].copy_from_slice(&0x84A5_u32.to_le_bytes());
    bytes
}

pub(crate) fn hpet_table() -> Vec<u8> {
    let mut bytes = vec![0; 56];
    bytes[..4].copy_from_slice(b"HPET");
    bytes[4..8].copy_from_slice(&56_u32.to_le_bytes());
    bytes[44..52].copy_from_slice(&HPET_ADDRESS.to_le_bytes());
    bytes
}

/// A q35 with its tables; faults are set on the models.
pub(crate) struct Board {
    pub(crate) clock: Clock,
    pub(crate) processor: ProcessorModel,
    pub(crate) hpet: HpetModel,
    pub(crate) acpi: AcpiTimerModel,
    pub(crate) i8254: I8254Model,
    pub(crate) fadt: Option<Vec<u8>>,
    pub(crate) hpet_table: Option<Vec<u8>>,
    pub(crate) options: Options,
}

pub(crate) type Found = Counters<PortsModel, HpetModel, ProcessorModel>;

impl Board {
    pub(crate) fn new(cpuid: CpuidTable) -> Self {
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
                disable_tsc_calibration: false,
                invariant_tsc: None,
                acpi_timer_test: true,
                lfence_orders: true,
            },
        }
    }

    /// The counters and the lines about them.
    pub(crate) fn probe(&self) -> (Found, Vec<Line>) {
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
pub(crate) fn choice(found: &Found) -> String {
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
pub(crate) fn complaints(lines: &[Line]) -> Vec<String> {
    let routine = |line: &&Line| matches!(line, Line::Calibrated { .. } | Line::Rated(_));
    lines
        .iter()
        .filter(|line| !routine(line))
        .map(Line::to_string)
        .collect()
}

pub(crate) fn no_invariance() -> CpuidTable {
    CpuidTable::intel().with(0x8000_0007, [0; 4])
}
