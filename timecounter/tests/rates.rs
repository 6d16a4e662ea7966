//! Scales and multipliers against exact rational arithmetic at every kind of
//! rate, and the reports of clocks whose arithmetic overflowed.

use proptest::prelude::*;
use timecounter::{Bintime, Multiplier, Scale, Timespec};

const GIGA: u128 = 1_000_000_000;
/// A part per million as an adjustment: 1000 ns a second, 32 fraction bits.
const PPM: i64 = 1000 << 32;
/// Rates at which something changes: the lowest, those of real chips, both
/// sides of the shift's boundary and of 2^32, the highest known.
const FREQUENCIES: [u64; 16] = [
    2,
    3,
    1_000,
    1_193_182,
    3_579_545,
    14_318_180,
    100_000_000,
    998_160_346,
    999_999_999,
    1_000_000_000,
    1_000_000_001,
    2_400_000_000,
    4_000_000_000,
    4_294_967_296,
    4_300_000_000,
    5_800_000_001,
];

fn frequency() -> impl Strategy<Value = u64> {
    prop_oneof![
        proptest::sample::select(&FREQUENCIES[..]),
        2..6_000_000_000_u64,
        (1..33_u32).prop_map(|bits| 1 << bits),
    ]
}

fn adjustment() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        Just(500 * PPM),
        Just(-500 * PPM),
        Just(1),
        Just(-1),
        -500 * PPM..=500 * PPM,
    ]
}

/// Count differences around every boundary of the arithmetic at `frequency`.
fn deltas(frequency: u64) -> Vec<u64> {
    let mut deltas = vec![0, 1, 2, (1 << 32) - 1];
    for around in [frequency, frequency.div_ceil(2), 1 << 31] {
        deltas.extend(around.saturating_sub(2)..=around + 2);
    }
    deltas.retain(|delta| *delta < 1 << 32);
    deltas
}

fn scale(frequency: u64, adjustment: i64) -> Scale {
    Scale::new(frequency, adjustment).expect("a legal rate")
}

/// `delta` counts as FreeBSD adds them: the high half of the scale gives
/// seconds and fraction, the low half a fraction.
fn freebsd(scale: Scale, delta: u32) -> Bintime {
    let delta = u64::from(delta);
    let high = (scale.units() >> 32) * delta;
    let low = (scale.units() & u64::from(u32::MAX)) * delta;
    let (frac, carry) = (high << 32).overflowing_add(low);
    Bintime::new((high >> 32) as i64 + i64::from(carry), frac)
}

/// The promise between the two forms of a clock at one count.
fn forms_agree(scale: Scale, delta: u64) -> Result<(), TestCaseError> {
    let ns = i128::from(Multiplier::from_scale(scale).ns(delta));
    let exact = scale.bintime(delta).to_ns();
    prop_assert!(
        (exact - 2..=exact).contains(&ns),
        "{scale:?}, {delta} counts: {ns} ns, bintime {exact} ns"
    );
    Ok(())
}

proptest! {
    #[test]
    fn an_unadjusted_scale_is_low_by_less_than_two_units(frequency in frequency()) {
        let second = u128::from(scale(frequency, 0).units()) * u128::from(frequency);
        prop_assert!(second <= 1 << 64, "{frequency} Hz: never fast");
        prop_assert!(
            second + 2 * u128::from(frequency) > 1 << 64,
            "{frequency} Hz: slow by less than two units a count"
        );
    }

    #[test]
    fn an_adjustment_is_applied_to_11_millionths_of_itself(
        frequency in frequency(),
        adjustment in adjustment(),
    ) {
        let second = i128::from(scale(frequency, adjustment).units()) * i128::from(frequency);
        // adjustment / (10^9 * 2^32) of 2^64 units.
        let wanted = (i128::from(adjustment) << 32) / 1_000_000_000;
        let error = (second - (1 << 64) - wanted).abs();
        // Truncations: of the quotient, and of the adjustment to 1024.
        let slack = 2 * i128::from(frequency) + 2 * 2199 + 2;
        prop_assert!(
            error <= wanted.abs() * 11 / 1_000_000 + slack,
            "{frequency} Hz adjusted by {adjustment}: off by {error} units of {wanted}"
        );
    }

    #[test]
    fn time_is_freebsds_at_every_32_bit_difference(
        frequency in frequency(),
        adjustment in adjustment(),
        delta in any::<u32>(),
    ) {
        let scale = scale(frequency, adjustment);
        let large = scale.large_delta();
        for delta in [delta, 0, 1, large - 1, large, u32::MAX] {
            prop_assert_eq!(scale.bintime(delta.into()), freebsd(scale, delta), "{} counts", delta);
        }
        prop_assert!(
            scale.bintime(u64::from(large) - 1) < Bintime::new(1, 0),
            "below large_delta ({large}) nothing overflows 64 bits"
        );
    }

    #[test]
    fn time_adds_up_over_64_bit_differences(
        frequency in frequency(),
        adjustment in adjustment(),
        first in any::<u64>(),
        second in any::<u64>(),
    ) {
        let scale = scale(frequency, adjustment);
        let (first, second) = (first / 4, second / 4);
        prop_assert_eq!(
            scale.bintime(first + second),
            scale.bintime(first).wrapping_add(scale.bintime(second)),
            "an interval is the sum of its parts"
        );
    }

    #[test]
    fn nanoseconds_are_at_most_two_below_bintime(
        frequency in frequency(),
        adjustment in adjustment(),
        delta in any::<u32>(),
    ) {
        let scale = scale(frequency, adjustment);
        forms_agree(scale, delta.into())?;
        for delta in deltas(frequency) {
            forms_agree(scale, delta)?;
        }
    }

    #[test]
    fn nanoseconds_are_never_ahead_of_the_exact_time_nor_far_behind(
        frequency in frequency(),
        delta in prop_oneof![any::<u64>(), 0..1_u64 << 40, Just(u64::MAX)],
    ) {
        let exact = u128::from(delta) * GIGA / u128::from(frequency);
        prop_assume!(exact < 1 << 63);
        let ns = u128::from(Multiplier::from_scale(scale(frequency, 0)).ns(delta));
        // The scale is low by up to 2 units a count, the multiplier by up to
        // 2^shift units of 2^-64 ns.
        let scale_error = (u128::from(delta) * 2 * GIGA) >> 64;
        let shift = Multiplier::from_scale(scale(frequency, 0)).shift;
        let multiplier_error = (u128::from(delta) << shift) >> 64;
        prop_assert!(ns <= exact, "{ns} ns of {exact}");
        prop_assert!(
            ns + scale_error + multiplier_error + 3 >= exact,
            "{ns} ns of {exact}"
        );
    }

    #[test]
    fn nanoseconds_never_decrease(
        frequency in frequency(),
        adjustment in adjustment(),
        first in any::<u64>(),
        second in any::<u64>(),
    ) {
        let multiplier = Multiplier::from_scale(scale(frequency, adjustment));
        let (low, high) = (first.min(second), first.max(second));
        prop_assert!(
            multiplier.ns(low) <= multiplier.ns(high),
            "{frequency} Hz: {low} counts against {high}"
        );
        prop_assert!(multiplier.ns(high) <= multiplier.ns(u64::MAX), "{high} counts");
    }

    #[test]
    fn the_floor_slope_is_below_every_legal_rate(
        frequency in frequency(),
        adjustment in adjustment(),
        delta in any::<u32>(),
    ) {
        let rate = Multiplier::from_scale(scale(frequency, adjustment));
        let floor = Multiplier::floor_with(scale(frequency, 0), rate.shift);
        let floor = floor.ok_or_else(|| TestCaseError::fail("the floor fits the shift"))?;
        let (slow, fast) = (floor.ns(delta.into()), rate.ns(delta.into()));
        prop_assert!(slow <= fast, "{frequency} Hz, {delta} counts");
        // 977 ppm below nominal, which is 500 ppm below the fastest.
        prop_assert!(
            u128::from(fast - slow) <= u128::from(fast) * 1_500 / 1_000_000 + 2,
            "{frequency} Hz, {delta} counts: {slow} ns against {fast} ns"
        );
    }
}

#[test]
fn a_windup_seconds_late_loses_none_of_them() {
    for (frequency, counts, sec, nsec) in [
        (1_000_000_000, 4_294_967_295, 4, 294_967_294),
        (2_400_000_000, 24_000_000_000, 9, 999_999_999),
        (2_400_000_000, 240_000_000_000, 99, 999_999_999),
        (3_200_000_000, 19_200_000_000, 5, 999_999_998),
    ] {
        assert_eq!(
            Timespec::from(scale(frequency, 0).bintime(counts)),
            Timespec { sec, nsec },
            "{counts} counts at {frequency} Hz"
        );
    }
}

#[test]
fn a_fraction_with_its_top_bit_set_is_not_negative() {
    let time = scale(1_000_000_000, 0).bintime(600_000_000);
    assert_eq!(
        time,
        Bintime::new(0, 11_068_046_443_200_000_000),
        "0.6 s at 1 GHz"
    );
    assert_eq!(time.nsec(), 599_999_999, "and its nanoseconds");
}

#[test]
fn time_rises_over_the_whole_range_of_a_32_bit_difference() {
    let scale = scale(1_000_000_000, 0);
    let multiplier = Multiplier::from_scale(scale);
    let (mut bintime, mut ns) = (Bintime::ZERO, 0);
    for delta in (0..1_u64 << 32).step_by(1 << 20) {
        assert!(scale.bintime(delta) >= bintime, "bintime at {delta}");
        assert!(multiplier.ns(delta) >= ns, "nanoseconds at {delta}");
        (bintime, ns) = (scale.bintime(delta), multiplier.ns(delta));
    }
}

#[test]
fn the_highest_scale_bears_the_highest_adjustment() {
    assert_eq!(
        scale(2, 500 * PPM).units(),
        9_227_983_674_102_775_808,
        "2 Hz, 500 ppm fast"
    );
}

#[test]
fn a_base_is_read_back_to_the_nanosecond() {
    let base = Timespec {
        sec: 5,
        nsec: 250_000_000,
    };
    let scale = scale(2_400_000_000, 0);
    let at = |delta| Timespec::from(Bintime::from(base).wrapping_add(scale.bintime(delta)));
    assert_eq!(at(0), base, "at the base itself");
    let late = Timespec {
        sec: 105,
        nsec: 249_999_999,
    };
    assert_eq!(at(240_000_000_000), late, "100 s later");
}

#[test]
fn rates_on_both_sides_of_1_ghz_and_of_2_to_the_32_fit() {
    for (frequency, units) in [
        (998_160_346, 18_480_742_244),
        (4_300_000_000, 4_289_940_482),
        (5_800_000_001, 3_180_473_114),
    ] {
        let scale = scale(frequency, 0);
        assert_eq!(scale.units(), units, "the scale at {frequency} Hz");
        assert_eq!(
            scale.bintime(frequency).to_ns(),
            999_999_999,
            "a second at {frequency} Hz, rounded down"
        );
    }
}

#[test]
fn a_second_of_counts_is_at_most_a_nanosecond_low_and_never_high() {
    for frequency in FREQUENCIES {
        let scale = scale(frequency, 0);
        let bintime = scale.bintime(frequency).to_ns();
        assert!(
            (999_999_999..=1_000_000_000).contains(&bintime),
            "{frequency} Hz: {bintime} ns"
        );
        let ns = Multiplier::from_scale(scale).ns(frequency);
        assert!(
            (999_999_997..=1_000_000_000).contains(&ns),
            "{frequency} Hz: {ns} ns by the multiplier"
        );
    }
}

#[test]
fn a_rate_change_counts_from_its_base_on_and_not_from_the_counters_zero() {
    const UP: u64 = 1_000_000_000_000_000;
    let (old, new) = (scale(2_400_000_000, 0), scale(2_400_000_000, PPM));
    let base = old.bintime(UP);
    // How far the new rate leads the old one `delta` counts after the change.
    let lead = |delta: u64| {
        base.wrapping_add(new.bintime(delta))
            .wrapping_sub(old.bintime(UP + delta))
            .to_ns()
    };
    assert_eq!(lead(0), 0, "the present does not move");
    let after = lead(2_400_000_000);
    assert!(
        (999..=1000).contains(&after),
        "1 ppm of one second is 1000 ns, not {after}"
    );
    let absolute = new.bintime(UP).wrapping_sub(base).to_ns();
    assert!(
        absolute > 400_000_000,
        "from the counter's zero 1 ppm is 0.4 s of these 4.8 days, not {absolute} ns"
    );
}
