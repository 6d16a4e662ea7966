//! Calibration on the models: honest counters, and every way to be wrong.

use std::cell::Cell;

use drivers::acpi_timer::{AcpiTimer, Register};
use drivers::bus::{OrderedRead, TscRead};
use drivers::calibrate::{self, Calibration, CalibrationError, Limits};
use drivers::hpet::Hpet;
use drivers::i8254::I8254;
use drivers::sim::{
    AcpiTimerModel, Clock, CpuidTable, HpetModel, I8254Model, PortsModel, ProcessorModel,
};
use drivers::step;
use timecounter::Timecounter;

const TSC_HZ: u64 = 2_596_104_000;

struct Machine {
    clock: Clock,
    processor: ProcessorModel,
    hpet: HpetModel,
    acpi: AcpiTimerModel,
    i8254: I8254Model,
}

impl Machine {
    fn with_tsc(tsc_hz: u64) -> Self {
        let clock = Clock::new();
        Self {
            processor: ProcessorModel::new(&clock, tsc_hz, CpuidTable::intel()),
            hpet: HpetModel::new(&clock, 10_000_000),
            acpi: AcpiTimerModel::new(&clock, 24),
            i8254: I8254Model::new(&clock),
            clock,
        }
    }

    fn new() -> Self {
        Self::with_tsc(TSC_HZ)
    }

    fn hpet(&self) -> Hpet<HpetModel> {
        Hpet::attach(self.hpet.clone(), &self.processor).expect("attaches")
    }

    fn acpi(&self) -> AcpiTimer<PortsModel, HpetModel> {
        let register = Register::Port {
            ports: PortsModel::new().with_acpi_timer(0x608, &self.acpi),
            port: 0x608,
        };
        AcpiTimer::attach(register, 24, true, &self.processor).expect("attaches")
    }

    fn i8254(&self) -> I8254<PortsModel> {
        let ports = PortsModel::new().with_i8254(&self.i8254);
        I8254::attach(ports, &self.processor).expect("attaches")
    }

    fn tsc(&self) -> u64 {
        self.processor.read(OrderedRead::LfenceRdtsc)
    }

    fn measure(
        &self,
        reference: &dyn Timecounter,
        limits: &Limits,
    ) -> Result<Calibration, CalibrationError> {
        calibrate::measure(|| self.tsc(), u64::MAX, reference, &self.processor, limits)
    }
}

fn error_ppb(measured: u64, truth: u64) -> u64 {
    let ppb = u128::from(measured.abs_diff(truth)) * 1_000_000_000 / u128::from(truth);
    u64::try_from(ppb).expect("small")
}

#[test]
fn each_reference_gives_the_rate_within_its_bound() {
    for tsc_hz in [999_999_999, 1_000_000_000, TSC_HZ, 5_800_000_001] {
        let machine = Machine::with_tsc(tsc_hz);
        let hpet = machine.hpet();
        let acpi = machine.acpi();
        let i8254 = machine.i8254();
        let references: [&dyn Timecounter; 3] = [&hpet, &acpi, &i8254];
        for reference in references {
            let name = reference.name();
            let found = machine
                .measure(reference, &Limits::PRECISE)
                .expect("measurable");
            let error = error_ppb(found.frequency, tsc_hz);
            assert!(
                error <= found.error_ppb,
                "{tsc_hz} Hz by {name}: off {error}, {found:?}"
            );
            assert!(
                found.error_ppb <= 30_000,
                "{tsc_hz} Hz by {name}: {found:?}"
            );
            assert!(found.reads <= 1_024, "{tsc_hz} Hz by {name}: {found:?}");
        }
    }
}

#[test]
fn the_bound_is_at_most_two_reads_over_the_window() {
    for (access_ns, window_ns) in [(3_000, 1_000_000), (3_000, 50_000_000), (9_000, 10_000_000)] {
        let machine = Machine::new();
        machine.hpet.set_access_ns(access_ns);
        let limits = Limits {
            window_ns,
            good_enough_ppb: 0,
            ..Limits::PRECISE
        };
        let found = machine
            .measure(&machine.hpet(), &limits)
            .expect("measurable");
        let allowed = 2 * access_ns * 1_000_000_000 / window_ns;
        assert!(found.window_ns >= window_ns, "the whole window: {found:?}");
        assert!(
            found.error_ppb <= allowed,
            "{access_ns} ns a read: {found:?}, not {allowed}"
        );
        let error = error_ppb(found.frequency, TSC_HZ);
        assert!(error <= found.error_ppb, "off {error}: {found:?}");
    }
}

#[test]
fn a_good_enough_bound_ends_the_measurement_early() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    let start = machine.clock.now_ps();
    let found = machine.measure(&hpet, &Limits::QUICK).expect("measurable");
    assert!(found.error_ppb <= 100_000, "what was asked for: {found:?}");
    let took_ns = (machine.clock.now_ps() - start) / 1_000;
    assert!(
        took_ns < 5_000_000,
        "{took_ns} ns, less than half of the 10 ms allowed"
    );
}

#[test]
fn stalls_widen_the_bound_and_never_falsify_the_rate() {
    // A virtual CPU stopped for 200 us every so many accesses; in some rows
    // in every bracket.
    for every in [3, 5, 7, 50, 333] {
        let machine = Machine::new();
        let hpet = machine.hpet();
        machine.clock.stall_every(every, 200_000);
        let found = machine
            .measure(&hpet, &Limits::PRECISE)
            .expect("measurable");
        let error = error_ppb(found.frequency, TSC_HZ);
        assert!(
            error <= found.error_ppb,
            "every {every}: off {error}, {found:?}"
        );
    }
}

#[test]
fn outliers_among_the_brackets_are_dropped() {
    // A stall of 1 ms in one or two of each eight brackets, at every place.
    for every in 29..60 {
        let machine = Machine::new();
        let hpet = machine.hpet();
        machine.clock.stall_every(every, 1_000_000);
        let found = machine
            .measure(&hpet, &Limits::PRECISE)
            .expect("measurable");
        assert!(found.error_ppb < 10_000, "every {every}: {found:?}");
    }
}

#[test]
fn a_reference_that_stops_is_given_up_on() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    machine.hpet.oscillator.set_running(false);
    let start = machine.clock.now_ps();
    let found = machine.measure(&hpet, &Limits::PRECISE);
    assert_eq!(found, Err(CalibrationError::ReferenceStuck), "stopped");
    let took_ms = (machine.clock.now_ps() - start) / 1_000_000_000;
    assert!(took_ms < 100, "given up after {took_ms} ms");
}

#[test]
fn a_reference_that_crawls_is_given_up_on_in_bounded_time() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    machine.hpet.oscillator.scale(1, 10_000);
    let start = machine.clock.now_ps();
    let found = machine.measure(&hpet, &Limits::PRECISE);
    assert_eq!(
        found,
        Err(CalibrationError::ReferenceSlow),
        "100 ms would last 1,000 s"
    );
    let took_ms = (machine.clock.now_ps() - start) / 1_000_000_000;
    assert!(took_ms < 5_000, "given up after {took_ms} ms");
}

#[test]
fn a_reference_and_a_target_that_both_crawl_are_bounded_by_reads() {
    let machine = Machine::with_tsc(1_000_000);
    let hpet = machine.hpet();
    machine.hpet.oscillator.scale(1, 10_000);
    let found = machine.measure(&hpet, &Limits::PRECISE);
    assert_eq!(
        found,
        Err(CalibrationError::ReferenceSlow),
        "no end in sight"
    );
}

#[test]
fn a_target_that_stands_still_is_reported() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    machine.processor.tsc.set_running(false);
    let found = machine.measure(&hpet, &Limits::QUICK);
    assert_eq!(found, Err(CalibrationError::TargetStuck), "the TSC stopped");
}

#[test]
fn both_standing_still_ends_too() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    machine.processor.tsc.set_running(false);
    machine.hpet.oscillator.set_running(false);
    let found = machine.measure(&hpet, &Limits::PRECISE);
    assert_eq!(
        found,
        Err(CalibrationError::ReferenceStuck),
        "nothing moves"
    );
}

#[test]
fn a_reference_without_a_rate_is_refused() {
    struct NoRate;
    impl Timecounter for NoRate {
        fn name(&self) -> &'static str {
            "none"
        }
        fn frequency(&self) -> u64 {
            0
        }
        fn mask(&self) -> u64 {
            u64::MAX
        }
        fn quality(&self) -> i32 {
            0
        }
        fn read(&self) -> u64 {
            0
        }
    }
    let found = Machine::new().measure(&NoRate, &Limits::PRECISE);
    assert_eq!(found, Err(CalibrationError::NoReferenceRate), "0 Hz");
}

#[test]
fn one_jump_of_a_counter_is_measured_around() {
    for jump in [-2_000_000, 2_000_000] {
        let machine = Machine::new();
        let hpet = machine.hpet();
        let reads = Cell::new(0);
        let target = || {
            reads.set(reads.get() + 1);
            // Between the first and the second bracket of the first attempt.
            if reads.get() == 30 {
                machine.processor.tsc.jump(jump);
            }
            machine.tsc()
        };
        let limits = Limits::PRECISE;
        let found = calibrate::measure(target, u64::MAX, &hpet, &machine.processor, &limits);
        let found = found.expect("the next attempt is good");
        let error = error_ppb(found.frequency, TSC_HZ);
        assert!(
            error <= found.error_ppb,
            "jump {jump}: off {error}, {found:?}"
        );
    }
}

#[test]
fn a_counter_that_keeps_jumping_has_no_rate() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    let reads = Cell::new(0_u64);
    let target = || {
        reads.set(reads.get() + 1);
        // More each time, so that no two stretches are alike.
        machine.processor.tsc.jump(reads.get() as i64 * 5_000);
        machine.tsc()
    };
    let found = calibrate::measure(
        target,
        u64::MAX,
        &hpet,
        &machine.processor,
        &Limits::PRECISE,
    );
    assert_eq!(found, Err(CalibrationError::Unsteady), "three attempts");
}

#[test]
fn a_counter_that_keeps_stepping_back_has_no_rate() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    let (last_ps, close) = (Cell::new(0), Cell::new(0_u64));
    let target = || {
        // Little steps, and only within a bracket: what is lost there is too
        // little to tell the halves of the window apart.
        let now_ps = machine.clock.now_ps();
        if now_ps - last_ps.replace(now_ps) < 200_000 {
            close.set(close.get() + 1);
            if close.get().is_multiple_of(20) {
                machine.processor.tsc.jump(-1_000);
            }
        }
        machine.tsc()
    };
    let limits = Limits::PRECISE;
    let found = calibrate::measure(target, u64::MAX, &hpet, &machine.processor, &limits);
    assert_eq!(found, Err(CalibrationError::Unsteady), "three attempts");
}

#[test]
fn the_wraps_of_narrow_references_are_followed() {
    let machine = Machine::new();
    let i8254 = machine.i8254();
    // 100 ms are two wraps of the i8254.
    let limits = Limits {
        good_enough_ppb: 0,
        ..Limits::PRECISE
    };
    let found = machine.measure(&i8254, &limits).expect("measurable");
    assert!(found.window_ns >= 100_000_000, "{found:?}");
    let error = error_ppb(found.frequency, TSC_HZ);
    assert!(error <= found.error_ppb, "off {error}: {found:?}");

    let acpi = machine.acpi();
    let here = i64::from(machine.acpi.true_count());
    machine.acpi.oscillator.jump(0xFF_FFFF - 1_000 - here);
    let found = machine
        .measure(&acpi, &Limits::PRECISE)
        .expect("measurable");
    let error = error_ppb(found.frequency, TSC_HZ);
    assert!(
        error <= found.error_ppb,
        "over the 24-bit wrap, off {error}: {found:?}"
    );
}

#[test]
fn the_wrap_of_the_target_is_followed() {
    let machine = Machine::new();
    let hpet = machine.hpet();
    let here = machine.processor.tsc.count();
    machine
        .processor
        .tsc
        .jump((u64::MAX - 1_000_000 - here) as i64);
    let found = machine
        .measure(&hpet, &Limits::PRECISE)
        .expect("measurable");
    let error = error_ppb(found.frequency, TSC_HZ);
    assert!(error <= found.error_ppb, "off {error}: {found:?}");
}

#[test]
fn a_bad_latch_during_the_measurement_is_measured_around() {
    for latch in [5, 20, 40, 60] {
        let machine = Machine::new();
        let i8254 = machine.i8254();
        machine.i8254.clobber_latch(latch, 0);
        let found = machine
            .measure(&i8254, &Limits::PRECISE)
            .expect("measurable");
        let error = error_ppb(found.frequency, TSC_HZ);
        assert!(
            error <= found.error_ppb,
            "latch {latch}: off {error}, {found:?}"
        );
    }
}

#[test]
fn a_slow_reference_costs_few_reads() {
    let machine = Machine::new();
    // A hypervisor that emulates ring 0 one instruction at a time.
    machine.hpet.set_access_ns(9_000);
    machine.processor.set_read_ps(2_300_000, 2_300_000);
    let found = machine
        .measure(&machine.hpet(), &Limits::PRECISE)
        .expect("measurable");
    assert!(found.reads < 500, "{found:?}");
    let error = error_ppb(found.frequency, TSC_HZ);
    assert!(error <= found.error_ppb, "off {error}: {found:?}");
}

#[test]
fn the_smallest_step_is_found() {
    for step in [1, 26, 1_000] {
        let machine = Machine::new();
        machine.processor.set_step(step);
        let found = step::smallest_step(|| machine.tsc(), u64::MAX, 1_000);
        assert_eq!(found, step, "a TSC that moves by {step}");
    }
}

#[test]
fn the_step_of_a_counter_that_stands_still_or_steps_back_is_still_positive() {
    assert_eq!(step::smallest_step(|| 7, u64::MAX, 100), 1, "never moved");
    let next = Cell::new(0);
    let other_cpu = || {
        let value = [100, 126, 90, 142][next.get() % 4];
        next.set(next.get() + 1);
        value
    };
    let step = step::smallest_step(other_cpu, u64::MAX, 4);
    assert_eq!(step, 26, "the step back of 36 is left out");
}
