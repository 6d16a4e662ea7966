//! Counters against each other.

use timecounter::delta;
use timecounter::watchdog::{self, Span, Verdict};

use super::{Failure, Fields, Kind, Outputs, case::outputs};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "watchdog",
        inputs: &[
            "ref_width",
            "ref_hz",
            "ref_last",
            "ref_now",
            "tsc_hz",
            "tsc_last",
            "tsc_now",
            "threshold_ns",
        ],
        outputs: &[
            "ref_delta",
            "ref_ns",
            "tsc_delta",
            "tsc_ns",
            "skew_ns",
            "verdict",
        ],
        run: watchdog,
    },
    Kind {
        name: "drift",
        inputs: &["t0", "t1"],
        outputs: &["ppb_floor"],
        run: drift,
    },
];

fn watchdog(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let width = inputs.u32("ref_width")?;
    let mask = 64_u32
        .checked_sub(width)
        .and_then(|unused| u64::MAX.checked_shr(unused))
        .ok_or_else(|| Failure::Impossible(format!("no counter has {width} bits")))?;
    let reference = Span {
        counts: delta::masked(inputs.u64("ref_now")?, inputs.u64("ref_last")?, mask),
        hz: inputs.u64("ref_hz")?,
    };
    let tsc = Span {
        counts: delta::clamped(inputs.u64("tsc_now")?, inputs.u64("tsc_last")?),
        hz: inputs.u64("tsc_hz")?,
    };
    let wrap =
        delta::wrap_ns(reference.hz, mask).map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX));
    let threshold = inputs.u64("threshold_ns")?;
    let (skew, verdict) = watchdog::compare(tsc, reference, wrap, threshold);
    outputs([
        ("ref_delta", reference.counts.into()),
        ("ref_ns", reference.ns().into()),
        ("tsc_delta", tsc.counts.into()),
        ("tsc_ns", tsc.ns().into()),
        ("skew_ns", skew.into()),
        (
            "verdict",
            match verdict {
                Verdict::Stable => "stable",
                Verdict::Unstable => "unstable",
                Verdict::Unusable => "unusable",
            }
            .into(),
        ),
    ])
}

fn drift(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let sample = |name| {
        let fields = inputs.object(name)?;
        fields.only(&["elapsed_ns", "drift_ns"])?;
        Ok((fields.i64("elapsed_ns")?, fields.i64("drift_ns")?))
    };
    let ppb = watchdog::drift_ppb(sample("t0")?, sample("t1")?)
        .ok_or_else(|| Failure::Impossible("'t1' is not later than 't0'".to_owned()))?;
    outputs([("ppb_floor", ppb.into())])
}
