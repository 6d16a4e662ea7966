//! HPET, ACPI timer, i8254 and the TSC's CPUID leaf, on the drivers' decoders.

use std::cell::Cell;

use drivers::i8254_periodic::Periodic;
use drivers::{acpi_timer, cpuid, hpet, i8254};
use serde_json::Value;
use timecounter::delta;

use super::arithmetic::width;
use super::case::{number, outputs, rejected};
use super::{Failure, Fields, Kind, Outputs};

/// Femtoseconds in a second.
const FEMTO: u64 = 1_000_000_000_000_000;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "hpet_period",
        inputs: &["period_fs"],
        outputs: &["freq", "freq_if_truncated", "result"],
        run: hpet_period,
    },
    Kind {
        name: "hpet_caps",
        inputs: &["caps"],
        outputs: &[
            "rev",
            "num_timers",
            "count_64bit",
            "legacy_route",
            "vendor",
            "period_fs",
            "freq",
            "mask_bits",
            "result",
        ],
        run: hpet_caps,
    },
    Kind {
        name: "fs_to_ns",
        inputs: &["ticks", "period_fs"],
        outputs: &["ns", "wrong_by_1000", "result"],
        run: fs_to_ns,
    },
    Kind {
        name: "acpi_pm_width",
        inputs: &["fadt_flags"],
        outputs: &["width"],
        run: acpi_pm_width,
    },
    Kind {
        name: "acpi_pm_present",
        inputs: &["pm_tmr_len"],
        outputs: &["present"],
        run: acpi_pm_present,
    },
    Kind {
        name: "acpi_pm_safe",
        inputs: &["samples"],
        outputs: &["value", "samples_used"],
        run: acpi_pm_safe,
    },
    Kind {
        name: "acpi_pm_overrun",
        inputs: &["true_ticks", "width"],
        outputs: &["observed_delta", "ticks_lost"],
        run: acpi_pm_overrun,
    },
    Kind {
        name: "i8254_seq",
        inputs: &["max_count", "initial", "events"],
        outputs: &["results", "monotonic"],
        run: i8254_seq,
    },
    Kind {
        name: "i8254_latch",
        inputs: &["true_before", "true_after", "read_order"],
        outputs: &["latched", "unlatched_torn", "error_ticks"],
        run: i8254_latch,
    },
    Kind {
        name: "pit_divisor",
        inputs: &["hz"],
        outputs: &["divisor", "fits_16_bit", "result"],
        run: pit_divisor,
    },
    Kind {
        name: "tsc_cpuid15",
        inputs: &["eax", "ebx", "ecx"],
        outputs: &["tsc_hz", "if_multiplied_in_32_bits", "result"],
        run: tsc_cpuid15,
    },
];

fn hpet_period(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let period = inputs.u32("period_fs")?;
    match hpet::frequency(period) {
        Ok(frequency) => outputs([
            ("freq", frequency.into()),
            ("freq_if_truncated", (FEMTO / u64::from(period)).into()),
        ]),
        Err(_) => rejected(),
    }
}

fn hpet_caps(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let caps = hpet::Capabilities::decode(inputs.u64("caps")?);
    let Ok(frequency) = hpet::frequency(caps.period_fs) else {
        return rejected();
    };
    outputs([
        ("rev", caps.revision.into()),
        ("num_timers", caps.timers.into()),
        ("count_64bit", caps.counter_is_64_bit.into()),
        ("legacy_route", caps.legacy_replacement.into()),
        ("vendor", caps.vendor.into()),
        ("period_fs", caps.period_fs.into()),
        ("freq", frequency.into()),
        ("mask_bits", caps.counter_bits().into()),
    ])
}

fn fs_to_ns(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let (ticks, period) = (inputs.u64("ticks")?, inputs.u32("period_fs")?);
    let slip = u128::from(ticks) * u128::from(period) / 1_000;
    match hpet::ticks_to_ns(ticks, period) {
        Some(ns) => outputs([("ns", ns.into()), ("wrong_by_1000", number(slip)?)]),
        None => rejected(),
    }
}

fn acpi_pm_width(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let width = acpi_timer::width(inputs.u32("fadt_flags")?);
    outputs([("width", width.into())])
}

fn acpi_pm_present(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let length = inputs.u32("pm_tmr_len")?;
    let present = u8::try_from(length).is_ok_and(acpi_timer::present);
    outputs([("present", present.into())])
}

fn acpi_pm_safe(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let samples = inputs.list("samples", "list of u32", |value| {
        u32::try_from(value.as_u64()?).ok()
    })?;
    let mut left = samples.iter();
    let exhausted = Cell::new(false);
    let read = acpi_timer::safe_read(|| {
        left.next().copied().unwrap_or_else(|| {
            exhausted.set(true);
            u32::MAX
        })
    });
    if exhausted.get() {
        return Err(Failure::Impossible(format!(
            "the reader wants more than {} samples",
            samples.len()
        )));
    }
    outputs([
        ("value", read.value.into()),
        ("samples_used", read.reads.into()),
    ])
}

fn acpi_pm_overrun(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let ticks = inputs.u64("true_ticks")?;
    let observed = delta::masked(ticks, 0, delta::mask(width(inputs)?));
    outputs([
        ("observed_delta", observed.into()),
        ("ticks_lost", (ticks - observed).into()),
    ])
}

/// A channel that may have run before the first event: `last` is the count up
/// that was read last, `offset` the ticks before this period.
fn i8254_seq(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let max_count = inputs.u32("max_count")?;
    let initial = inputs.object("initial")?;
    initial.only(&["last", "offset"])?;
    let mut channel = Periodic::new(max_count);
    if initial.has("last") {
        let raw = max_count
            .checked_sub(initial.u32("last")?)
            .and_then(|raw| u16::try_from(raw % 0x1_0000).ok())
            .ok_or_else(|| Failure::Impossible("input 'last' exceeds 'max_count'".to_owned()))?;
        channel.read(raw, false);
    }
    let offset = if initial.has("offset") {
        initial.u64("offset")?
    } else {
        0
    };

    let mut results = Vec::new();
    for event in inputs.objects("events")? {
        results.push(match event.text("op")? {
            "read" => {
                event.only(&["op", "raw", "pending"])?;
                let pending = event.optional_bool("pending")?.unwrap_or(false);
                Some(offset + channel.read(event.u16("raw")?, pending))
            }
            "intr" => {
                event.only(&["op"])?;
                channel.interrupt();
                None
            }
            other => {
                return Err(Failure::Impossible(format!("unknown event '{other}'")));
            }
        });
    }
    let monotonic = results.iter().flatten().is_sorted();
    outputs([
        ("results", Value::from(results)),
        ("monotonic", monotonic.into()),
    ])
}

/// The count moves on between the two bytes; the latch holds the first.
fn i8254_latch(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let before = inputs.u16("true_before")?;
    let [low_before, high_before] = before.to_le_bytes();
    let [low_after, high_after] = inputs.u16("true_after")?.to_le_bytes();
    let order = inputs.list("read_order", "list of 'lo' and 'hi'", Value::as_str)?;
    let torn = match order[..] {
        ["lo", "hi"] => i8254::from_bytes(low_before, high_after),
        ["hi", "lo"] => i8254::from_bytes(low_after, high_before),
        _ => {
            return Err(Failure::Impossible(format!(
                "input 'read_order' is {order:?}: each byte has to be read once"
            )));
        }
    };
    let latched = i8254::from_bytes(low_before, high_before);
    outputs([
        ("latched", latched.into()),
        ("unlatched_torn", torn.into()),
        ("error_ticks", latched.abs_diff(torn).into()),
    ])
}

fn pit_divisor(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let Some(divisor) = i8254::divisor(inputs.u32("hz")?) else {
        return rejected();
    };
    // The chip refuses 1 for another reason: its mode 2 has no such period.
    let fits = divisor == 1 || i8254::reload(divisor).is_some();
    outputs([("divisor", divisor.into()), ("fits_16_bit", fits.into())])
}

fn tsc_cpuid15(inputs: &Fields<'_>) -> Result<Outputs, Failure> {
    let (eax, ebx, ecx) = (inputs.u32("eax")?, inputs.u32("ebx")?, inputs.u32("ecx")?);
    match cpuid::tsc_ratio_frequency(eax, ebx, ecx) {
        Some(hz) => outputs([
            ("tsc_hz", hz.into()),
            (
                "if_multiplied_in_32_bits",
                (ecx.wrapping_mul(ebx) / eax).into(),
            ),
        ]),
        None => outputs([("result", "not_enumerated".into())]),
    }
}
