//! Counts, scales, bintimes and timespecs.

use serde_json::Value;
use timecounter::timespec::NSEC_PER_SEC;
use timecounter::{Bintime, Scale, Timespec, delta};

use super::case::{number, outputs, rejected};
use super::{Failure, Fields, Kind, Outputs};

/// 10^9, as wide as any product here.
const GIGA: u128 = NSEC_PER_SEC as u128;
/// Nanoseconds to 2^-64 s as in FreeBSD's old header: floor(2^64 / 10^9).
const LEGACY_UNITS_PER_NSEC: u64 = 18_446_744_073;
/// `SBT_1NS`: floor(2^32 / 10^9), seven percent short.
const SBT_1NS: u64 = 4;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "counter_delta",
        inputs: &["width", "last", "now"],
        outputs: &["delta"],
        run: counter_delta,
    },
    Kind {
        name: "counter_delta_clamped",
        inputs: &["width", "last", "now"],
        outputs: &["raw_delta", "clamped_delta"],
        run: counter_delta_clamped,
    },
    Kind {
        name: "wrap_period",
        inputs: &["freq", "width"],
        outputs: &["wrap_ns_floor", "result"],
        run: wrap_period,
    },
    Kind {
        name: "scale",
        inputs: &["freq", "adjustment"],
        outputs: &["scale", "large_delta", "result"],
        run: scale,
    },
    Kind {
        name: "tick_conv",
        inputs: &["freq", "delta"],
        outputs: &[
            "sec",
            "frac",
            "nsec",
            "uses_large_path",
            "exact_ns_floor",
            "naive_64bit_nsec_total",
            "result",
        ],
        run: tick_conv,
    },
    Kind {
        name: "bintime_to_timespec",
        inputs: &["frac"],
        outputs: &["nsec", "nsec_legacy"],
        run: bintime_to_timespec,
    },
    Kind {
        name: "timespec_to_bintime",
        inputs: &["nsec"],
        outputs: &[
            "frac_floor",
            "back_from_floor",
            "frac_ceil",
            "back_from_ceil",
            "frac_legacy",
        ],
        run: timespec_to_bintime,
    },
    Kind {
        name: "bintime_add",
        inputs: &["a", "b"],
        outputs: &["sec", "frac", "result"],
        run: |inputs| bintime_pair(inputs, Bintime::checked_add),
    },
    Kind {
        name: "bintime_sub",
        inputs: &["a", "b"],
        outputs: &["sec", "frac", "result"],
        run: |inputs| bintime_pair(inputs, Bintime::checked_sub),
    },
    Kind {
        name: "sbintime",
        inputs: &["ns"],
        outputs: &["nstosbt", "sbt_via_SBT_1NS", "ns_slept_if_SBT_1NS_used"],
        run: sbintime,
    },
    Kind {
        name: "timespec_norm",
        inputs: &["sec", "nsec"],
        outputs: &["sec", "nsec", "result"],
        run: |inputs| timespec_outputs(normalized(inputs)?),
    },
    Kind {
        name: "timespec_add",
        inputs: &["a", "b"],
        outputs: &["sec", "nsec", "result"],
        run: |inputs| timespec_pair(inputs, Timespec::checked_add),
    },
    Kind {
        name: "timespec_sub",
        inputs: &["a", "b"],
        outputs: &["sec", "nsec", "result"],
        run: |inputs| timespec_pair(inputs, Timespec::checked_sub),
    },
];

/// The width of a counter in bits.
pub(super) fn width(inputs: &Fields<'_>) -> Result<u32, Failure> {
    match inputs.u32("width")? {
        width @ 1..=64 => Ok(width),
        width => Err(Failure::Impossible(format!(
            "input 'width' is {width}: no counter has it"
        ))),
    }
}

fn counter_delta(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let mask = delta::mask(width(inputs)?);
    let delta = delta::masked(inputs.u64("now")?, inputs.u64("last")?, mask);
    outputs([("delta", delta.into())])
}

fn counter_delta_clamped(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let width = width(inputs)?;
    if width != 64 {
        return Err(Failure::Impossible(format!(
            "input 'width' is {width}: only a difference of 64 bits has a sign"
        )));
    }
    let (now, last) = (inputs.u64("now")?, inputs.u64("last")?);
    outputs([
        (
            "raw_delta",
            delta::masked(now, last, delta::mask(width)).into(),
        ),
        ("clamped_delta", delta::clamped(now, last).into()),
    ])
}

fn wrap_period(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    match delta::wrap_ns(inputs.u64("freq")?, delta::mask(width(inputs)?)) {
        Some(wrap) => outputs([("wrap_ns_floor", number(wrap)?)]),
        None => rejected(),
    }
}

fn scale(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    match Scale::new(inputs.u64("freq")?, inputs.i64("adjustment")?) {
        Ok(scale) => outputs([
            ("scale", scale.units().into()),
            ("large_delta", scale.large_delta().into()),
        ]),
        Err(_) => rejected(),
    }
}

fn tick_conv(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let (frequency, delta) = (inputs.u64("freq")?, inputs.u64("delta")?);
    let Ok(scale) = Scale::nominal(frequency) else {
        return rejected();
    };
    let time = scale.bintime(delta);
    let exact = u128::from(delta) * GIGA / u128::from(frequency);
    // All seconds are lost where the product is kept in 64 bits.
    let naive = Bintime::new(0, scale.units().wrapping_mul(delta));
    outputs([
        ("sec", time.sec.into()),
        ("frac", time.frac.into()),
        ("nsec", time.nsec().into()),
        (
            "uses_large_path",
            (delta >= u64::from(scale.large_delta())).into(),
        ),
        ("exact_ns_floor", number(exact)?),
        ("naive_64bit_nsec_total", naive.nsec().into()),
    ])
}

fn bintime_to_timespec(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let frac = inputs.u64("frac")?;
    let legacy = (u64::from(NSEC_PER_SEC) * (frac >> 32)) >> 32;
    outputs([
        ("nsec", Timespec::from(Bintime::new(0, frac)).nsec.into()),
        ("nsec_legacy", legacy.into()),
    ])
}

fn timespec_to_bintime(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let nsec = inputs.u32("nsec")?;
    if nsec >= NSEC_PER_SEC {
        return Err(Failure::Impossible(format!(
            "input 'nsec' is {nsec}: a second and more"
        )));
    }
    let ceil = Bintime::from(Timespec { sec: 0, nsec });
    let floor = Bintime::from_units(((i128::from(nsec)) << 64) / i128::from(NSEC_PER_SEC));
    outputs([
        ("frac_floor", floor.frac.into()),
        ("back_from_floor", floor.nsec().into()),
        ("frac_ceil", ceil.frac.into()),
        ("back_from_ceil", ceil.nsec().into()),
        (
            "frac_legacy",
            (u64::from(nsec) * LEGACY_UNITS_PER_NSEC).into(),
        ),
    ])
}

fn bintime_pair(
    inputs: &Fields<'_>,
    operation: fn(Bintime, Bintime) -> Option<Bintime>,
) -> Result<Outputs, Failure> {
    let operand = |name| {
        let fields = inputs.object(name)?;
        fields.only(&["sec", "frac"])?;
        Ok(Bintime::new(fields.i64("sec")?, fields.u64("frac")?))
    };
    match operation(operand("a")?, operand("b")?) {
        Some(time) => outputs([("sec", time.sec.into()), ("frac", time.frac.into())]),
        None => rejected(),
    }
}

/// A `sbintime_t` is a bintime with 32 bits of fraction.
fn sbintime(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let ns = inputs.u64("ns")?;
    let up = Bintime::from_ns(ns).units() + i128::from(u32::MAX);
    let short = u128::from(ns) * u128::from(SBT_1NS);
    outputs([
        ("nstosbt", number(up >> 32)?),
        ("sbt_via_SBT_1NS", number(short)?),
        ("ns_slept_if_SBT_1NS_used", number((short * GIGA) >> 32)?),
    ])
}

/// The timespec of the fields `sec` and `nsec`, the latter in or out of range.
fn normalized(fields: &Fields<'_>) -> Result<Option<Timespec>, Failure> {
    Ok(Timespec::normalized(
        fields.i64("sec")?,
        fields.i64("nsec")?,
    ))
}

/// The timespec in the field `name`.
fn timespec(fields: &Fields<'_>, name: &str) -> Result<Timespec, Failure> {
    let fields = fields.object(name)?;
    fields.only(&["sec", "nsec"])?;
    normalized(&fields)?
        .ok_or_else(|| Failure::Impossible(format!("'{name}' exceeds the range of a timespec")))
}

/// A timespec as one output.
pub(super) fn timespec_value(time: Timespec) -> Value {
    serde_json::json!({"sec": time.sec, "nsec": time.nsec})
}

fn timespec_outputs(time: Option<Timespec>) -> Result<Outputs, Failure> {
    match time {
        Some(time) => outputs([("sec", time.sec.into()), ("nsec", time.nsec.into())]),
        None => rejected(),
    }
}

fn timespec_pair(
    inputs: &Fields<'_>,
    operation: fn(Timespec, Timespec) -> Option<Timespec>,
) -> Result<Outputs, Failure> {
    timespec_outputs(operation(timespec(inputs, "a")?, timespec(inputs, "b")?))
}
