//! The local APIC against its model, and the i8259 pair's commands.

use std::sync::Mutex;

use drivers::bus::{Mmio, Msr};
use drivers::calibrate::{CalibrationError, Limits};
use drivers::hpet::Hpet;
use drivers::i8259::{self, BadVector};
use drivers::lapic::{self, Lapic, Location, Message, Register, Registers, X2Apic};
use drivers::sim::{Clock, CpuidTable, HpetModel, LapicModel, PortsModel, ProcessorModel};

fn machine(bus_hz: u64) -> (Clock, LapicModel, Hpet<HpetModel>, ProcessorModel) {
    let clock = Clock::new();
    let processor = ProcessorModel::new(&clock, 2_000_000_000, CpuidTable::intel());
    let hpet = Hpet::attach(HpetModel::new(&clock, 10_000_000), &processor).expect("attaches");
    (
        clock.clone(),
        LapicModel::new(&clock, bus_hz, 3),
        hpet,
        processor,
    )
}

#[test]
fn the_base_register_tells_memory_from_x2apic_from_off() {
    assert_eq!(
        lapic::location(0xFEE0_0900),
        Location::Memory(0xFEE0_0000),
        "boot processor"
    );
    assert_eq!(
        lapic::location(0xFEE0_0D00),
        Location::X2Apic,
        "both enable bits"
    );
    assert_eq!(
        lapic::location(0xFEE0_0100),
        Location::Disabled,
        "no enable bit"
    );
    let high = lapic::location(0x000F_FFFF_FFFF_F800);
    assert_eq!(
        high,
        Location::Memory(0x000F_FFFF_FFFF_F000),
        "52 bits of address"
    );
}

#[test]
fn enabling_masks_everything_but_nmi_before_it_turns_on() {
    let (_, chip, ..) = machine(1_000_000_000);
    let lapic = Lapic::new(chip.clone());
    lapic.enable(0xFF);
    assert_eq!(lapic.id(), 3, "bits 31:24");
    assert_eq!(chip.register(Register::LvtTimer), 1 << 16, "timer masked");
    assert_eq!(chip.register(Register::LvtLint0), 1 << 16, "i8259 masked");
    assert_eq!(chip.register(Register::LvtLint1), 0x400, "NMI delivered");
    assert_eq!(
        chip.register(Register::SpuriousVector),
        0x1FF,
        "on, vector 255"
    );
    let offsets: Vec<_> = chip.writes().iter().map(|&(offset, _)| offset).collect();
    let place = |register| offsets.iter().position(|&offset| offset == register as u16);
    assert!(
        place(Register::LvtTimer) < place(Register::SpuriousVector),
        "masked first: {offsets:x?}"
    );
}

/// Registers that keep what is written to them, and the writes in order.
#[derive(Default)]
struct MsrTable(Mutex<Vec<(u32, u64)>>);

impl Msr for &MsrTable {
    fn read(&self, number: u32) -> u64 {
        let writes = self.0.lock().expect("not poisoned");
        let last = writes.iter().rev().find(|write| write.0 == number);
        last.map_or(0, |write| write.1)
    }

    fn write(&self, number: u32, value: u64) {
        let mut writes = self.0.lock().expect("not poisoned");
        writes.push((number, value));
    }
}

#[test]
fn a_message_is_stored_with_its_destination_first() {
    let (_, chip, ..) = machine(1_000_000_000);
    let lapic = Lapic::new(chip.clone());
    let cases = [
        (Message::Interrupt(0xED), 0x40ED),
        (Message::Nmi, 0x4400),
        (Message::Init, 0x4500),
        (Message::StartUp(0x9A), 0x469A),
    ];
    for (message, command) in cases {
        let before = chip.writes().len();
        lapic.send(5, message);
        let expected = [
            (Register::CommandHigh as u16, 5 << 24),
            (Register::CommandLow as u16, command),
        ];
        assert_eq!(
            chip.writes().get(before..),
            Some(&expected[..]),
            "{message:?}: the low half sends"
        );
    }
}

#[test]
fn a_command_that_never_leaves_does_not_hold_up_the_next_for_ever() {
    let (_, chip, ..) = machine(1_000_000_000);
    chip.write(Register::CommandLow as u16, 1 << 12);
    Lapic::new(chip.clone()).send(1, Message::Nmi);
    assert_eq!(
        chip.register(Register::CommandLow),
        0x4400,
        "stored in the end"
    );
}

#[test]
fn in_x2apic_mode_the_registers_are_msrs_and_a_message_is_one_store() {
    let table = MsrTable::default();
    (&table).write(0x802, 0x1_2345);
    let registers: Registers<LapicModel, &MsrTable> = Registers::Msrs(X2Apic(&table));
    let lapic = Lapic::new(registers);
    assert_eq!(lapic.id(), 0x1_2345, "all 32 bits");

    lapic.enable(0xFF);
    let kept = |number| (&table).read(number);
    assert_eq!(kept(0x80F), 0x1FF, "spurious vector: on, vector 255");
    assert_eq!(kept(0x832), 1 << 16, "timer masked");
    lapic.start_periodic(0x30, 1000);
    assert_eq!(kept(0x838), 1000, "initial count");

    let before = table.0.lock().expect("not poisoned").len();
    lapic.send(0x1_0001, Message::Interrupt(0xED));
    let writes = table.0.lock().expect("not poisoned").clone();
    assert_eq!(
        writes.get(before..),
        Some(&[(0x830, 0x1_0001_0000_40ED)][..]),
        "destination above, command below"
    );
}

#[test]
fn x2apic_mode_is_entered_with_the_address_kept() {
    let table = MsrTable::default();
    (&table).write(0x1B, 0xFEE0_0900);
    lapic::enter_x2apic(&&table);
    assert_eq!((&table).read(0x1B), 0xFEE0_0D00, "one bit more");
    assert_eq!(lapic::locate(&&table), Location::X2Apic, "and it is");
}

#[test]
fn the_timer_is_measured_and_periodic_at_the_rate_asked_for() {
    let (clock, chip, hpet, pace) = machine(1_000_000_000);
    let lapic = Lapic::new(chip.clone());
    let measured = lapic
        .measure_timer(&hpet, &pace, &Limits::PRECISE)
        .expect("measurable");
    let truth = 1_000_000_000 / 16;
    let error_ppb = measured.frequency.abs_diff(truth) * 1_000_000_000 / truth;
    assert!(error_ppb <= measured.error_ppb, "{measured:?}");
    assert!(
        measured.error_ppb < 10_000,
        "10 ppm are reached: {measured:?}"
    );
    assert_eq!(lapic.current_count(), 0, "stopped after the measurement");

    let count = lapic::initial_count(measured.frequency, 1_000).expect("fits");
    lapic.start_periodic(0x30, count);
    assert_eq!(
        chip.register(Register::LvtTimer),
        1 << 17 | 0x30,
        "periodic, not masked"
    );
    let mut periods = 0;
    let mut last = lapic.current_count();
    for _ in 0..10_000 {
        clock.advance_ns(10_000);
        let now = lapic.current_count();
        periods += u32::from(now > last);
        last = now;
    }
    assert!(
        (100..=101).contains(&periods),
        "{periods} periods in 100.6 ms"
    );
}

#[test]
fn a_timer_that_stands_still_is_not_measured() {
    let (_, chip, hpet, pace) = machine(1_000_000_000);
    chip.oscillator.set_running(false);
    let error = Lapic::new(chip).measure_timer(&hpet, &pace, &Limits::PRECISE);
    assert_eq!(error, Err(CalibrationError::TargetStuck), "it never counts");
}

#[test]
fn an_initial_count_is_to_the_nearest_and_fits() {
    assert_eq!(
        lapic::initial_count(62_500_000, 1_000),
        Some(62_500),
        "exact"
    );
    assert_eq!(lapic::initial_count(1_499, 1_000), Some(1), "rounded down");
    assert_eq!(lapic::initial_count(1_500, 1_000), Some(2), "rounded up");
    assert_eq!(lapic::initial_count(499, 1_000), None, "0 stops the timer");
    assert_eq!(lapic::initial_count(1 << 32, 1), None, "33 bits");
    assert_eq!(
        lapic::initial_count(u64::MAX, 1),
        None,
        "no overflow on the way"
    );
    assert_eq!(lapic::initial_count(1_000, 0), None, "no rate");
}

#[test]
fn the_model_divides_as_the_register_says() {
    let (clock, chip, ..) = machine(1_024_000_000);
    for (bits, divisor) in [(0b1011, 1), (0b0000, 2), (0b0011, 16), (0b1010, 128)] {
        chip.write(Register::DivideConfiguration as u16, bits);
        chip.write(Register::InitialCount as u16, 1_000_000_000);
        let before = chip.read(Register::CurrentCount as u16);
        clock.advance_ns(1_000_000);
        let moved = before - chip.read(Register::CurrentCount as u16);
        let expected = 1_024_000 / divisor;
        assert!(
            moved.abs_diff(expected) <= 60 / divisor + 1,
            "divide by {divisor}: {moved} in 1 ms"
        );
    }
}

#[test]
fn the_i8259_pair_is_moved_and_ends_masked() {
    let ports = PortsModel::new();
    i8259::remap_and_mask(&ports, 0x20).expect("32 is free");
    let to = |port| -> Vec<u8> {
        let writes = ports.writes();
        writes
            .iter()
            .filter(|write| write.0 == port)
            .map(|write| write.1)
            .collect()
    };
    assert_eq!(to(0x20), [0x11], "master: one command word");
    assert_eq!(
        to(0x21),
        [0xFF, 0x20, 0x04, 0x01, 0xFF],
        "master: vectors, wiring, mode, mask"
    );
    assert_eq!(to(0xA0), [0x11], "slave: one command word");
    assert_eq!(
        to(0xA1),
        [0xFF, 0x28, 0x02, 0x01, 0xFF],
        "slave: vectors, wiring, mode, mask"
    );
}

#[test]
fn vectors_that_the_i8259_cannot_use_are_refused_before_any_write() {
    for vector in [0, 8, 24, 33, 247, 248, 255] {
        let ports = PortsModel::new();
        assert_eq!(
            i8259::remap_and_mask(&ports, vector),
            Err(BadVector(vector)),
            "{vector}"
        );
        assert!(
            ports.writes().is_empty(),
            "nothing was written for {vector}"
        );
    }
    assert_eq!(
        i8259::remap_and_mask(&PortsModel::new(), 240),
        Ok(()),
        "240 to 255"
    );
}
