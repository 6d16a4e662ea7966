//! The ACPI timer driver against the chip's model and its faults.

use drivers::acpi_timer::{self, AcpiTimer, AcpiTimerError, Register, safe_read};
use drivers::sim::{AcpiTimerModel, Clock, CpuidTable, PortsModel, ProcessorModel};
use timecounter::{Flags, Timecounter, UserCounter};

const PORT: u16 = 0x608;

type Driver = AcpiTimer<PortsModel, AcpiTimerModel>;

struct Machine {
    clock: Clock,
    chip: AcpiTimerModel,
    processor: ProcessorModel,
}

impl Machine {
    fn new(bits: u32) -> Self {
        let clock = Clock::new();
        Self {
            chip: AcpiTimerModel::new(&clock, bits),
            processor: ProcessorModel::new(&clock, 2_000_000_000, CpuidTable::intel()),
            clock,
        }
    }

    fn attach(&self, width: u32) -> Result<Driver, AcpiTimerError> {
        let register = Register::Port {
            ports: PortsModel::new().with_acpi_timer(PORT, &self.chip),
            port: PORT,
        };
        AcpiTimer::attach(register, width, true, &self.processor)
    }
}

#[test]
fn a_good_timer_is_read_fast() {
    let machine = Machine::new(24);
    let timer = machine.attach(24).expect("attaches");
    assert_eq!(timer.name(), "ACPI-fast", "name");
    assert_eq!(timer.quality(), 900, "rank");
    assert_eq!(timer.mask(), 0xFF_FFFF, "24 bits");
    assert_eq!(
        timer.user_counter(),
        UserCounter::None,
        "user space cannot read a port"
    );
    assert!(
        timer.flags().contains(Flags::SUSPEND_SAFE),
        "counts on in suspend"
    );
    let reads = machine.chip.reads();
    timer.read();
    assert_eq!(machine.chip.reads(), reads + 1, "one access a read");
}

#[test]
fn a_register_in_memory_works_as_a_port_does() {
    let machine = Machine::new(24);
    let register: Register<PortsModel, _> = Register::Memory {
        window: machine.chip.clone(),
        offset: 0,
    };
    let timer = AcpiTimer::attach(register, 24, true, &machine.processor).expect("attaches");
    assert_eq!(timer.name(), "ACPI-fast", "name");
    let before = timer.read();
    machine.clock.advance_ns(1_000_000);
    let moved = timer.read() - before;
    assert!(
        (3_579..=3_580).contains(&moved),
        "1 ms at 3.58 MHz, not {moved}"
    );
}

#[test]
fn a_part_with_garbage_in_every_nth_read_is_read_with_care_and_never_goes_back() {
    // The frequency of the erratum, and one ten times rarer.
    for (every, garbage) in [(23, 0x3F), (23, 0xFF_FFFF), (230, 0x80_0000)] {
        let machine = Machine::new(24);
        machine.chip.set_garbage(every, garbage);
        let timer = machine.attach(24).expect("attaches");
        assert_eq!(
            timer.name(),
            "ACPI-safe",
            "garbage every {every} reads was seen"
        );
        assert_eq!(timer.quality(), 850, "ranks lower");
        let mut last = timer.read();
        for read in 0..2_000 {
            let truth = u64::from(machine.chip.true_count());
            let now = timer.read();
            let delta = now.wrapping_sub(last) & timer.mask();
            assert!(delta < 100, "read {read}: {last:#x} to {now:#x}");
            let error = now.wrapping_sub(truth) & timer.mask();
            assert!(error < 100, "read {read}: {now:#x} for {truth:#x}");
            last = now;
        }
    }
}

#[test]
fn a_careful_read_over_the_wrap_is_right() {
    let machine = Machine::new(24);
    machine.chip.set_garbage(23, 0x3F);
    let timer = machine.attach(24).expect("attaches");
    for before_wrap in 0..20 {
        let here = i64::from(machine.chip.true_count());
        machine.chip.oscillator.jump(0xFF_FFFF - before_wrap - here);
        let first = timer.read();
        let second = timer.read();
        let delta = second.wrapping_sub(first) & timer.mask();
        assert!(
            delta < 100,
            "{before_wrap} before the wrap: {first:#x} to {second:#x}"
        );
    }
}

#[test]
fn a_timer_that_stands_still_is_refused() {
    let machine = Machine::new(24);
    machine.chip.oscillator.set_running(false);
    let refused = machine.attach(24).map(|_| ()).unwrap_err();
    assert_eq!(refused, AcpiTimerError::NotAdvancing, "it never moves");
    assert!(
        machine.chip.reads() < 100,
        "{} reads to find out",
        machine.chip.reads()
    );
}

#[test]
fn a_port_where_nothing_answers_is_refused() {
    let machine = Machine::new(24);
    machine.chip.set_missing();
    let refused = machine.attach(24).map(|_| ()).unwrap_err();
    assert_eq!(refused, AcpiTimerError::NotAdvancing, "all ones");
}

#[test]
fn thirty_two_bits_are_used_only_where_they_are_seen() {
    let wide = Machine::new(32);
    wide.chip.oscillator.jump(0x0100_0000);
    let timer = wide.attach(32).expect("attaches");
    assert_eq!(timer.mask(), 0xFFFF_FFFF, "announced and seen");
    let timer = wide.attach(24).expect("attaches");
    assert_eq!(timer.mask(), 0xFF_FFFF, "seen but not announced");

    let narrow = Machine::new(24);
    narrow.chip.oscillator.jump(0x0100_0000);
    let timer = narrow.attach(32).expect("attaches");
    assert_eq!(timer.mask(), 0xFF_FFFF, "announced but not there");
    // The wrap that a 32-bit mask would turn into 20 minutes.
    let here = i64::from(narrow.chip.true_count());
    narrow.chip.oscillator.jump(0xFF_FFFF - here);
    let before = timer.read();
    narrow.clock.advance_ns(10_000);
    let delta = timer.read().wrapping_sub(before) & timer.mask();
    assert!((35..=37).contains(&delta), "10 us, not {delta} counts");
}

#[test]
fn a_careful_read_is_bounded() {
    let mut count = 0_u32;
    let falling = safe_read(|| {
        count += 1;
        1_000 - count
    });
    assert_eq!(falling.reads, 64, "gives up");
    assert_eq!(
        falling.value,
        1_000 - 63,
        "with the middle of the last three"
    );
}

#[test]
fn width_and_presence_come_from_different_fields() {
    assert_eq!(acpi_timer::width(0x84A5), 24, "QEMU's q35");
    assert_eq!(acpi_timer::width(0x85A5), 32, "TMR_VAL_EXT set");
    for (length, present) in [(0, false), (3, false), (4, true), (5, false), (8, false)] {
        assert_eq!(acpi_timer::present(length), present, "PM_TMR_LEN {length}");
    }
}
