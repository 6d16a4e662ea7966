//! The HPET driver against the chip's model and its faults.

use drivers::bus::{Mmio, Pace};
use drivers::hpet::{self, BadPeriod, Capabilities, Hpet, HpetError, MAIN_COUNTER};
use drivers::sim::{Clock, CpuidTable, HpetModel, ProcessorModel};
use timecounter::{Timecounter, UserCounter};

const PERIOD_100_MHZ: u32 = 10_000_000;

fn machine(period_fs: u32) -> (Clock, HpetModel, ProcessorModel) {
    let clock = Clock::new();
    let chip = HpetModel::new(&clock, period_fs);
    let processor = ProcessorModel::new(&clock, 2_000_000_000, CpuidTable::intel());
    (clock, chip, processor)
}

#[test]
fn a_stopped_counter_is_started_and_the_other_configuration_bits_are_kept() {
    let (clock, chip, pace) = machine(PERIOD_100_MHZ);
    chip.set_configuration(0b10);
    let hpet = Hpet::attach(chip.clone(), &pace).expect("a good chip attaches");
    assert_eq!(
        chip.configuration(),
        0b11,
        "enable added, legacy bit as it was"
    );
    let before = hpet.read();
    clock.advance_ns(1_000_000);
    let moved = hpet.read() - before;
    // 1 ms and one access of 80 ns.
    assert_eq!(moved, 100_008, "100 MHz for 1 ms");
    assert_eq!(hpet.frequency(), 100_000_000, "rate from the period");
    assert_eq!(hpet.quality(), 950, "rank");
    assert_eq!(
        hpet.user_counter(),
        UserCounter::Hpet,
        "user space may read it"
    );
}

#[test]
fn a_chip_that_is_kept_from_programs_says_so() {
    let (_, chip, pace) = machine(PERIOD_100_MHZ);
    let mut hpet = Hpet::attach(chip, &pace).expect("a good chip attaches");
    hpet.keep_from_programs();
    assert_eq!(
        hpet.user_counter(),
        UserCounter::None,
        "they ask the kernel"
    );
}

#[test]
fn a_counter_that_stands_still_is_refused_after_a_bounded_wait() {
    let (clock, chip, pace) = machine(PERIOD_100_MHZ);
    chip.set_dead();
    let refused = Hpet::attach(chip, &pace).map(|_| ()).unwrap_err();
    assert_eq!(refused, HpetError::NotAdvancing, "it never moves");
    assert_eq!(
        refused.to_string(),
        "counter does not advance",
        "the reason"
    );
    assert!(clock.now_ps() < 1_000_000_000, "given up within 1 ms");
}

#[test]
fn a_missing_chip_is_refused_by_its_period_of_all_ones() {
    let (_, chip, pace) = machine(PERIOD_100_MHZ);
    chip.set_missing();
    let refused = Hpet::attach(chip, &pace).map(|_| ()).unwrap_err();
    let expected = HpetError::Period(BadPeriod::TooLong(u32::MAX));
    assert_eq!(refused, expected, "nothing answered");
}

#[test]
fn a_refused_period_leaves_the_chip_alone() {
    for (period, expected) in [
        (0, BadPeriod::Zero),
        (52_083, BadPeriod::TooShort(52_083)),
        (99_999, BadPeriod::TooShort(99_999)),
        (100_000_001, BadPeriod::TooLong(100_000_001)),
    ] {
        let (_, chip, pace) = machine(PERIOD_100_MHZ);
        chip.announce_period(period);
        let refused = Hpet::attach(chip.clone(), &pace).map(|_| ()).unwrap_err();
        assert_eq!(refused, HpetError::Period(expected), "period {period}");
        assert_eq!(chip.configuration(), 0, "not enabled with period {period}");
    }
}

#[test]
fn periods_at_the_limits_give_rates_to_the_nearest() {
    assert_eq!(hpet::frequency(100_000), Ok(10_000_000_000), "the shortest");
    assert_eq!(hpet::frequency(100_000_000), Ok(10_000_000), "the longest");
    assert_eq!(hpet::frequency(69_841_279), Ok(14_318_180), "rounded up");
    assert_eq!(
        hpet::frequency(41_666_667),
        Ok(24_000_000),
        "24 MHz of newer chipsets"
    );
}

#[test]
fn upper_halves_of_registers_are_never_touched() {
    let (_, chip, pace) = machine(69_841_279);
    chip.set_narrow();
    let hpet = Hpet::attach(chip.clone(), &pace).expect("32-bit parts are good");
    hpet.read();
    hpet.resume();
    assert_eq!(
        hpet.capabilities().counter_bits(),
        32,
        "width of a 32-bit part"
    );
    for offset in [0x014, 0x024, 0x0F4, 0x104, 0x10C] {
        assert!(
            !chip.touched(offset),
            "offset {offset:#x} does not exist on it"
        );
    }
    assert!(chip.touched(MAIN_COUNTER), "the low half is what is read");
}

#[test]
fn the_count_goes_on_over_the_32_bit_wrap_of_narrow_and_wide_parts() {
    for narrow in [false, true] {
        let (clock, chip, pace) = machine(100_000_000);
        if narrow {
            chip.set_narrow();
        }
        let hpet = Hpet::attach(chip.clone(), &pace).expect("attaches");
        chip.oscillator.jump(0xFFFF_FF00 - hpet.read() as i64);
        let before = hpet.read();
        clock.advance_ns(512 * 100);
        let after = hpet.read();
        assert!(after < before, "it wrapped: {before:#x} to {after:#x}");
        let delta = after.wrapping_sub(before) & hpet.mask();
        assert!((512..=513).contains(&delta), "512 counts on, not {delta}");
    }
}

#[test]
fn an_eight_byte_read_tears_where_a_four_byte_one_cannot() {
    let (_, chip, pace) = machine(PERIOD_100_MHZ);
    let hpet = Hpet::attach(chip.clone(), &pace).expect("attaches");
    // Four counts before the low half wraps: the access of 80 ns takes eight.
    chip.oscillator.jump(0xFFFF_FFFF - 8 - hpet.read() as i64);
    let torn = chip.read_u64(MAIN_COUNTER);
    assert!(
        torn >= 0x1_FFFF_FF00,
        "old low half, new high half: {torn:#x}"
    );
    assert!(hpet.read() < 0x100, "the 32-bit read is right");
}

#[test]
fn a_resumed_chip_counts_again() {
    let (clock, chip, pace) = machine(PERIOD_100_MHZ);
    let hpet = Hpet::attach(chip.clone(), &pace).expect("attaches");
    chip.set_configuration(0);
    let stopped = hpet.read();
    clock.advance_ns(1_000);
    assert_eq!(hpet.read(), stopped, "the firmware stopped it");
    hpet.resume();
    clock.advance_ns(1_000);
    assert!(hpet.read() > stopped, "started again");
}

#[test]
fn capabilities_of_qemu_decode() {
    let capabilities = Capabilities::decode(0x0098_9680_8086_A201);
    let expected = Capabilities {
        revision: 1,
        timers: 3,
        counter_is_64_bit: true,
        legacy_replacement: true,
        vendor: 0x8086,
        period_fs: PERIOD_100_MHZ,
    };
    assert_eq!(capabilities, expected, "as read from QEMU 7.2's q35");
    assert_eq!(
        Capabilities::decode(u64::MAX).timers,
        32,
        "the field's maximum"
    );
    assert_eq!(Capabilities::decode(0).timers, 1, "the field's minimum");
}

#[test]
fn femtoseconds_become_nanoseconds_by_a_million_and_never_overflow() {
    assert_eq!(
        hpet::ticks_to_ns(1_000_000, 69_841_279),
        Some(69_841_279),
        "a slip of 1000 shows"
    );
    assert_eq!(hpet::ticks_to_ns(1, 999_999), Some(0), "rounded down");
    assert_eq!(
        hpet::ticks_to_ns(u64::MAX, 1_000_000),
        Some(u64::MAX),
        "the largest that fits"
    );
    assert_eq!(hpet::ticks_to_ns(u64::MAX, 1_000_001), None, "just above");
}

#[test]
fn a_model_that_is_read_lets_its_time_pass() {
    let (clock, chip, pace) = machine(PERIOD_100_MHZ);
    chip.set_access_ns(3_000);
    let before = clock.now_ps();
    chip.read(MAIN_COUNTER);
    assert_eq!(clock.now_ps() - before, 3_000_000, "one access of 3 us");
    pace.relax(10);
    assert_eq!(clock.now_ps() - before, 3_200_000, "ten pauses of 20 ns");
}
