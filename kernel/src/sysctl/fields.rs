//! The fields that the registered counters have.
//!
//! The first four and their order are FreeBSD's.

use super::node::{Field, Write};
use super::system::{Chip, CounterInfo, Errno, Skew, System};
use super::value::Value;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The counter of which every CPU has one of its own.
const PER_CPU: Option<&str> = Some("TSC");

/// The leaves of every `kern.timecounter.tc.NAME`.
pub(super) const FIELDS: &[Field] = &[
    Field {
        name: "quality",
        only: None,
        description: "Goodness of time counter",
        read: |system, name| Ok(Value::Int(info(system, name)?.quality)),
        write: None,
    },
    Field {
        name: "frequency",
        only: None,
        description: "Timecounter frequency",
        read: |system, name| Ok(Value::U64(info(system, name)?.frequency)),
        write: None,
    },
    Field {
        name: "counter",
        only: None,
        description: "Current timecounter value",
        read: |system, name| {
            let count = system.sample(name);
            count.map(Value::U64).ok_or(Errno::Unsupported)
        },
        write: None,
    },
    Field {
        name: "mask",
        only: None,
        description: "Mask for hardware bits",
        read: |system, name| Ok(Value::U64(info(system, name)?.mask)),
        write: None,
    },
    Field {
        name: "reason",
        only: None,
        description: "Why the timecounter has this quality",
        read: |system, name| Ok(Value::Text(info(system, name)?.reason)),
        write: None,
    },
    Field {
        name: "skew_ppb",
        only: None,
        description: "Deviation of its rate as last measured, in 10^-9",
        read: |system, name| {
            let skew = info(system, name)?.skew_ppb;
            skew.map(Value::I64).ok_or(Errno::Unsupported)
        },
        write: None,
    },
    Field {
        name: "skew",
        only: PER_CPU,
        description: "Offset of each CPU's counter from that of CPU 0, and its worst error",
        read: |system, _| {
            let hz = system.frequency(Chip::Tsc).ok_or(Errno::Unsupported)?;
            let rows: Vec<String> = system.skew().iter().map(|skew| row(skew, hz)).collect();
            match rows.is_empty() {
                true => Err(Errno::Unsupported),
                false => Ok(Value::Text(rows.join("\n"))),
            }
        },
        write: None,
    },
    Field {
        name: "resync",
        only: PER_CPU,
        description: "Write 1 to compare the counters of all CPUs anew",
        read: |_, _| Ok(Value::Int(0)),
        write: Some(|system, _, text| RESYNC.apply(system, text)),
    },
];

const RESYNC: Write = Write::Within {
    bounds: (1, 1),
    set: |system, _| system.resync(),
};

/// A CPU's row: the middle of what is possible, and half the width of it,
/// rounded up so that it never says too little.
fn row(skew: &Skew, hz: u64) -> String {
    let (low, high) = (i128::from(skew.low), i128::from(skew.high));
    let offset = (low + high).div_euclid(2);
    let worst = high - offset;
    let (per_second, hz) = (1_000_000_000, i128::from(hz.max(1)));
    let ns = (offset * per_second).div_euclid(hz);
    // The bound of the rounded offset, not the rounded bound of the offset.
    let worst_ns = ((high * per_second + hz - 1).div_euclid(hz) - ns)
        .max(ns - (low * per_second).div_euclid(hz));
    let cpu = skew.cpu;
    format!("CPU {cpu}: {ns:+} ns +-{worst_ns}, {offset:+} counts +-{worst}")
}

/// The counter of that name. It can be gone since the tree was walked.
fn info(system: &dyn System, name: &str) -> Result<CounterInfo, Errno> {
    let mut counters = system.counters().into_iter();
    counters
        .find(|counter| counter.name == name)
        .ok_or(Errno::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::row;
    use crate::sysctl::Skew;

    #[test]
    fn a_row_never_promises_more_than_was_measured() {
        for (low, high, hz, text) in [
            (0, 0, 1_000_000_000, "CPU 1: +0 ns +-0, +0 counts +-0"),
            (-10, 30, 2_000_000_000, "CPU 1: +5 ns +-10, +10 counts +-20"),
            (-3, 0, 1_000_000_000, "CPU 1: -2 ns +-2, -2 counts +-2"),
            (1, 1, 3_000_000_000, "CPU 1: +0 ns +-1, +1 counts +-0"),
            (
                -5000,
                -4800,
                2_500_000_000,
                "CPU 1: -1960 ns +-40, -4900 counts +-100",
            ),
        ] {
            let skew = Skew { cpu: 1, low, high };
            assert_eq!(row(&skew, hz), text, "{low} to {high} at {hz} Hz");
        }
    }
}
