//! The fixed part of the tree.
//!
//! Names, types and descriptions are FreeBSD's; the order is that of its
//! `sysctl kern.timecounter`. What FreeBSD has no name for follows its own
//! nodes. There is no node for what this kernel does not do.

use super::node::{Node, Write};
use super::system::{Chip, Constant, Errno, Setting, Statistic, System};
use super::value::Value;
use alloc::format;
use alloc::string::String;

/// A node that reads one [`Constant`].
macro_rules! constant {
    ($name:literal, $constant:ident, $description:literal) => {
        Node {
            name: $name,
            description: $description,
            read: |system| Ok(Value::Int(system.constant(Constant::$constant))),
            write: None,
        }
    };
}

/// A node that reads and writes one [`Setting`], within bounds if given.
macro_rules! setting {
    ($name:literal, $setting:ident, $description:literal) => {
        setting!($name, $setting, $description, (i32::MIN, i32::MAX))
    };
    ($name:literal, $setting:ident, $description:literal, $bounds:expr) => {
        Node {
            name: $name,
            description: $description,
            read: |system| Ok(Value::Int(system.setting(Setting::$setting))),
            write: Some(Write::Within {
                bounds: $bounds,
                set: |system, value| {
                    system.set_setting(Setting::$setting, value);
                    Ok(())
                },
            }),
        }
    };
}

/// A node that reads one [`Statistic`].
macro_rules! statistic {
    ($name:literal, $statistic:ident, $description:literal) => {
        Node {
            name: $name,
            description: $description,
            read: |system| Ok(Value::U64(system.statistic(Statistic::$statistic))),
            write: None,
        }
    };
}

/// A node that reads and writes the rate of one [`Chip`].
macro_rules! frequency {
    ($name:literal, $chip:ident, $write:ident, $description:literal) => {
        Node {
            name: $name,
            description: $description,
            read: |system| {
                let hz = system.frequency(Chip::$chip);
                hz.map(Value::U64).ok_or(Errno::Unsupported)
            },
            write: Some(Write::$write(|system, hz| {
                if system.frequency(Chip::$chip).is_none() {
                    return Err(Errno::Unsupported);
                }
                system.set_frequency(Chip::$chip, u64::from(hz))
            })),
        }
    };
}

/// FreeBSD's buffer for a counter's name has 32 bytes, one of them for the NUL.
const NAME_LIMIT: usize = 31;

/// What `kern.timecounter.nojitter` takes.
pub(crate) const NO_JITTER: (i32, i32) = (0, 2);

/// Longest interval of the watchdog, and none. A drift of 500 ppm, beyond which
/// it convicts, is 30 ms in a minute; and half a wrap of the HPETs there are is
/// 20 s at the least, so that a longer one would never find anything to check.
pub(crate) const WATCHDOG_SECONDS: (i32, i32) = (0, 60);

/// What gives the choice of the counter back to the kernel.
const AUTOMATIC: &str = "auto";

/// `kern`, up to the fields of the counters.
pub(super) const KERN: &[Node] = &[
    Node {
        name: "kern.boottime",
        description: "Estimated system boottime",
        read: |system| {
            let (sec, usec) = system.boottime();
            Ok(Value::Timeval { sec, usec })
        },
        write: None,
    },
    constant!("kern.hz", Hz, "Number of clock ticks per second"),
    constant!("kern.smp.cpus", SmpCpus, "Number of CPUs online"),
    constant!(
        "kern.smp.disabled",
        SmpDisabled,
        "SMP has been disabled from the loader"
    ),
    constant!(
        "kern.smp.maxcpus",
        SmpMaxCpus,
        "Max number of CPUs that the system was compiled for"
    ),
    constant!(
        "kern.timecounter.tsc_shift",
        TscShift,
        "Shift to pre-apply for the maximum TSC frequency"
    ),
    constant!(
        "kern.timecounter.smp_tsc_adjust",
        SmpTscAdjust,
        "Try to adjust TSC on APs to match BSP"
    ),
    constant!(
        "kern.timecounter.smp_tsc",
        SmpTsc,
        "Indicates whether the TSC is safe to use in SMP mode"
    ),
    constant!(
        "kern.timecounter.invariant_tsc",
        InvariantTsc,
        "Indicates whether the TSC is P-state invariant"
    ),
    setting!(
        "kern.timecounter.fast_gettime",
        FastGettime,
        "Enable fast time of day"
    ),
    constant!(
        "kern.timecounter.tick",
        Tick,
        "Approximate number of hardclock ticks in a millisecond"
    ),
    Node {
        name: "kern.timecounter.choice",
        description: "Timecounter hardware detected",
        read: |system| Ok(Value::Text(choice(system))),
        write: None,
    },
    Node {
        name: "kern.timecounter.hardware",
        description: "Timecounter hardware selected; auto lets the kernel select",
        read: |system| Ok(Value::Text(system.hardware())),
        write: Some(Write::Text {
            limit: NAME_LIMIT,
            set: |system, name| system.select((name != AUTOMATIC).then_some(name)),
        }),
    },
    setting!(
        "kern.timecounter.alloweddeviation",
        AllowedDeviation,
        "Allowed time interval deviation in percents"
    ),
    constant!(
        "kern.timecounter.timehands_count",
        TimehandsCount,
        "Count of timehands in rotation"
    ),
    setting!(
        "kern.timecounter.stepwarnings",
        StepWarnings,
        "Log time steps"
    ),
    setting!(
        "kern.timecounter.nojitter",
        NoJitter,
        "Guard reads against CPUs that disagree: 0 as measured, 1 never, 2 always",
        NO_JITTER
    ),
    Node {
        name: "kern.timecounter.guard",
        description: "Nanoseconds by which CPUs may disagree under the guard; 0 while it is off",
        read: |system| Ok(Value::U64(u64::from(system.guard_ns()))),
        write: None,
    },
    setting!(
        "kern.timecounter.watchdog",
        Watchdog,
        "Seconds between checks of the active counter; 0 for none",
        WATCHDOG_SECONDS
    ),
    statistic!(
        "kern.timecounter.syscalls",
        Syscalls,
        "Clock system calls made since boot"
    ),
    statistic!(
        "kern.timecounter.late_publications",
        LatePublications,
        "Windups that came after the segment they announce had begun"
    ),
    statistic!(
        "kern.timecounter.take_overs",
        TakeOvers,
        "Times another CPU took over windups that missed their ticks"
    ),
    statistic!(
        "kern.timecounter.busy_windups",
        BusyWindups,
        "Windups that found another CPU inside one"
    ),
    statistic!(
        "kern.timecounter.held_windups",
        HeldWindups,
        "Take-overs that failed since a CPU was stopped inside a windup"
    ),
    statistic!(
        "kern.timecounter.backward_samples",
        BackwardSamples,
        "Samples of the active counter below the one before"
    ),
    statistic!(
        "kern.timecounter.missed_wraps",
        MissedWraps,
        "Wraps of a narrow counter that went unseen and were added"
    ),
    statistic!(
        "kern.timecounter.rebased",
        Rebased,
        "Times the clock went on without a counter that had stepped back"
    ),
];

/// Memory.
pub(super) const VM: &[Node] = &[statistic!(
    "vm.stats.vm.v_free_count",
    FreePages,
    "Free pages"
)];

/// What belongs to single chips.
pub(super) const MACHDEP: &[Node] = &[
    constant!(
        "machdep.disable_tsc",
        DisableTsc,
        "Disable x86 Time Stamp Counter"
    ),
    constant!(
        "machdep.disable_tsc_calibration",
        DisableTscCalibration,
        "Disable TSC frequency calibration"
    ),
    frequency!("machdep.tsc_freq", Tsc, U64, "Time Stamp Counter frequency"),
    frequency!("machdep.i8254_freq", I8254, U32, "i8254 timer frequency"),
    frequency!(
        "machdep.acpi_timer_freq",
        AcpiTimer,
        U32,
        "ACPI timer frequency"
    ),
];

/// `A(quality) B(quality) ...`, one space between.
fn choice(system: &dyn System) -> String {
    let mut list = String::new();
    for counter in system.counters() {
        if !list.is_empty() {
            list.push(' ');
        }
        list.push_str(&format!("{}({})", counter.name, counter.quality));
    }
    list
}
