//! Selection, resolution, generations, settable times.

use timecounter::quality::{self, Rank};
use timecounter::timespec::NSEC_PER_SEC;
use timecounter::{Bintime, Timespec, delta, generation, getres, validate};

use super::arithmetic::timespec_value;
use super::case::{number, outputs, rejected};
use super::{Failure, Fields, Kind, Outputs};

/// The rule of a time near the end of a range, as the files word it.
const KEPT_OR_REFUSED: &str = "refuse or keep exact; never wrap";
/// The last second whose nanoseconds fit an `i64`.
const I64_NS_LIMIT_SEC: i64 = i64::MAX / NSEC_PER_SEC as i64;
/// Linux keeps 30 years of 365 days free below that.
const LINUX_HEADROOM_SEC: i64 = 30 * 365 * 86_400;
/// What is chosen before any hardware is registered.
const DUMMY: (&str, Rank) = (
    "dummy",
    Rank {
        quality: quality::DUMMY,
        frequency: 1_000_000,
    },
);

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "selection",
        inputs: &["hz", "registered", "chosen", "tunable"],
        outputs: &["chosen"],
        run: selection,
    },
    Kind {
        name: "tc_quality",
        inputs: &["freq", "mask", "hz", "quality"],
        outputs: &["quality"],
        run: tc_quality,
    },
    Kind {
        name: "min_windup_rate",
        inputs: &["freq", "mask"],
        outputs: &["hz"],
        run: min_windup_rate,
    },
    Kind {
        name: "generation_next",
        inputs: &["generation"],
        outputs: &["next"],
        run: generation_next,
    },
    Kind {
        name: "clock_getres",
        inputs: &["freq"],
        outputs: &["nsec", "exact_ceil_nsec", "result"],
        run: clock_getres,
    },
    Kind {
        name: "clock_getres_coarse",
        inputs: &["hz"],
        outputs: &["nsec", "result"],
        run: clock_getres_coarse,
    },
    Kind {
        name: "settime_validate",
        inputs: &["sec", "nsec"],
        outputs: &["accept"],
        run: settime_validate,
    },
    Kind {
        name: "settime_bound",
        inputs: &["sec"],
        outputs: &["policy", "linux_limit_sec", "i64_ns_limit_sec"],
        run: settime_bound,
    },
    Kind {
        name: "settime_base",
        inputs: &["uptime_ns", "set_to", "uptime_between_ns"],
        outputs: &["boottime_sec", "boottime_nsec", "realtime_after_second_set"],
        run: settime_base,
    },
];

/// Registers counters one by one, as FreeBSD's `tc_init` does: an operator's
/// choice stays, a tunable picks and pins by name, else the rules decide.
fn selection(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let hz = inputs.u32("hz")?;
    let operator = inputs.optional_text("chosen")?;
    let tunable = inputs.optional_text("tunable")?;
    let mut pinned = operator.is_some();
    let mut current = DUMMY;
    for counter in inputs.objects("registered")? {
        counter.only(&["name", "quality", "freq", "mask"])?;
        let name = counter.text("name")?;
        let frequency = counter.u64("freq")?;
        let rank = Rank {
            quality: quality::after_rate_test(
                counter.i32("quality")?,
                frequency,
                counter.u64("mask")?,
                hz,
            ),
            frequency,
        };
        if pinned || !rank.is_eligible() {
            continue;
        }
        pinned = tunable == Some(name);
        if pinned || quality::prefers(current.1, rank) {
            current = (name, rank);
        }
    }
    outputs([("chosen", operator.unwrap_or(current.0).into())])
}

fn tc_quality(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let quality = quality::after_rate_test(
        inputs.i32("quality")?,
        inputs.u64("freq")?,
        inputs.u64("mask")?,
        inputs.u32("hz")?,
    );
    outputs([("quality", quality.into())])
}

fn min_windup_rate(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let rate = delta::min_windup_rate(inputs.u64("freq")?, inputs.u64("mask")?);
    outputs([("hz", rate.into())])
}

fn generation_next(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let next = generation::next(inputs.u32("generation")?);
    outputs([("next", next.into())])
}

/// The counter's measured step is one count: the formula's first term alone.
fn clock_getres(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let frequency = inputs.u64("freq")?;
    match getres::precise(frequency, 1) {
        Some(resolution) => outputs([
            ("nsec", number(resolution.to_ns())?),
            (
                "exact_ceil_nsec",
                u64::from(NSEC_PER_SEC).div_ceil(frequency).into(),
            ),
        ]),
        None => rejected(),
    }
}

fn clock_getres_coarse(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    match getres::coarse(inputs.u32("hz")?) {
        Some(resolution) => outputs([("nsec", number(resolution.to_ns())?)]),
        None => rejected(),
    }
}

fn settime_validate(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let accept = validate::settime(inputs.i64("sec")?, inputs.i64("nsec")?).is_ok();
    outputs([("accept", accept.into())])
}

/// Sets a clock at several uptimes and reads it back.
fn settime_bound(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let kept = match validate::settime(inputs.i64("sec")?, i64::from(NSEC_PER_SEC) - 1) {
        Err(_) => true,
        Ok(time) => [1, 50_900_000_001, u64::MAX].into_iter().all(|uptime| {
            let uptime = Bintime::from_ns(uptime);
            Bintime::from(time)
                .checked_sub(uptime)
                .and_then(|boottime| boottime.checked_add(uptime))
                .is_some_and(|realtime| Timespec::from(realtime) == time)
        }),
    };
    let policy = if kept { KEPT_OR_REFUSED } else { "wraps" };
    outputs([
        ("policy", policy.into()),
        (
            "linux_limit_sec",
            (I64_NS_LIMIT_SEC - LINUX_HEADROOM_SEC).into(),
        ),
        ("i64_ns_limit_sec", I64_NS_LIMIT_SEC.into()),
    ])
}

/// Sets the clock once for each element of `set_to`, an interval apart; all
/// outputs are those after the last.
fn settime_base(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let overflow = || Failure::Impossible("a time leaves the range of a timespec".to_owned());
    let between = Timespec::from_ns(inputs.u64("uptime_between_ns")?);
    let mut uptime = Timespec::from_ns(inputs.u64("uptime_ns")?);
    let mut boottime = None;
    for fields in inputs.objects("set_to")? {
        fields.only(&["sec", "nsec"])?;
        let set = validate::settime(fields.i64("sec")?, fields.i64("nsec")?)
            .map_err(|error| Failure::Impossible(error.to_string()))?;
        if boottime.is_some() {
            uptime = uptime.checked_add(between).ok_or_else(overflow)?;
        }
        boottime = Some(set.checked_sub(uptime).ok_or_else(overflow)?);
    }
    let boottime =
        boottime.ok_or_else(|| Failure::Impossible("input 'set_to' is empty".to_owned()))?;
    let realtime = boottime.checked_add(uptime).ok_or_else(overflow)?;
    outputs([
        ("boottime_sec", boottime.sec.into()),
        ("boottime_nsec", boottime.nsec.into()),
        ("realtime_after_second_set", timespec_value(realtime)),
    ])
}
