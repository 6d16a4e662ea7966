//! What the tree reads and writes: the one door between sysctl and the kernel.
//!
//! The tree knows names, types, ranges, access and order; everything behind a
//! node is asked for here. The kernel implements [`System`] on its clock, the
//! tests on a table.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A registered timecounter as `kern.timecounter.tc.NAME` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// `HPET`, `ACPI-fast`, ...; no dots.
    pub name: String,
    /// Rank as it stands now; negative ones are never chosen automatically.
    pub quality: i32,
    /// Rate in Hz that time is told by.
    pub frequency: u64,
    /// 2^width - 1.
    pub mask: u64,
    /// Why the counter has that quality, in words.
    pub reason: String,
    /// Deviation of its rate as the watchdog last measured it, in 10^-9,
    /// positive for a counter that is too fast. `None`: not measured yet.
    pub skew_ppb: Option<i64>,
}

/// A CPU's time-stamp counter beside that of CPU 0, in counts: what is to be
/// added to CPU 0's count lies from `low` to `high`, whatever the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The CPU's number.
    pub cpu: usize,
    /// Least offset that the samples leave possible.
    pub low: i64,
    /// Largest one, at least `low`.
    pub high: i64,
}

/// A count that only the kernel changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Clock system calls made since boot.
    Syscalls,
    /// Windups that published a segment after its start had passed.
    LatePublications,
    /// Times another CPU took the windups over, since theirs missed its ticks.
    TakeOvers,
    /// Windups that found another CPU inside one and left it to that.
    BusyWindups,
    /// Take-overs that failed, since the CPU was stopped inside a windup.
    HeldWindups,
    /// Samples of the active counter below the one before.
    BackwardSamples,
    /// Wraps of a narrow counter that went unseen and were added.
    MissedWraps,
    /// Times the clock went on without a counter that had stepped back.
    Rebased,
    /// Pages of memory not in use.
    FreePages,
}

/// An integer that the kernel fixed while it came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Ticks a second, as the timer really runs.
    Hz,
    /// CPUs that run.
    SmpCpus,
    /// The tunable `kern.smp.disabled`.
    SmpDisabled,
    /// CPUs that the kernel has room for.
    SmpMaxCpus,
    /// Hardclock ticks between two windups.
    Tick,
    /// Slots in the ring of timehands.
    TimehandsCount,
    /// Whether the TSC's rate is independent of the CPU's power state.
    InvariantTsc,
    /// Whether the TSCs of all CPUs are usable as one counter.
    SmpTsc,
    /// Attempts to bring the TSCs of the CPUs together.
    SmpTscAdjust,
    /// Low bits of the TSC that are dropped.
    TscShift,
    /// The tunable `machdep.disable_tsc`.
    DisableTsc,
    /// The tunable `machdep.disable_tsc_calibration`.
    DisableTscCalibration,
}

/// An integer that can be written at any time, within the range that its node
/// allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Percent by which a sleep may be longer than asked for.
    AllowedDeviation,
    /// Non-zero: every step of the realtime clock is logged.
    StepWarnings,
    /// Non-zero: programs read the clock without a system call where they can.
    FastGettime,
    /// Whether reads are guarded against CPUs that disagree: 0 where that was
    /// measured, 1 never, 2 always.
    NoJitter,
    /// Seconds between two checks of the active counter, 0 for none.
    Watchdog,
}

/// A chip whose rate can be corrected at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// The time-stamp counter.
    Tsc,
    /// The i8254 interval timer.
    I8254,
    /// The ACPI power-management timer.
    AcpiTimer,
}

/// Why a node's value could not be read or written; named after the `errno`
/// that FreeBSD reports and shown in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// The value is of the wrong form, out of range or unknown (`EINVAL`).
    Invalid,
    /// The machine has nothing behind this node (`EOPNOTSUPP`).
    Unsupported,
    /// Another switch or change is still under way (`EBUSY`).
    Busy,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "Invalid argument",
            Self::Unsupported => "Operation not supported",
            Self::Busy => "Device busy",
        })
    }
}

/// The kernel as the sysctl tree sees it.
///
/// Every setter either does all of what it was asked for or changes nothing
/// and returns an [`Errno`].
pub trait System {
    /// The timecounters in the order of `kern.timecounter.choice`: newest
    /// registration first, the dummy last.
    fn counters(&self) -> Vec<CounterInfo>;
    /// One sample of the named counter, as the hardware gives it, not masked.
    fn sample(&self, counter: &str) -> Option<u64>;
    /// Name of the counter that tells time now.
    fn hardware(&self) -> String;
    /// Switches to the named counter and stays with it whatever is registered
    /// later; `None` gives the choice back to the kernel. Returns once time is
    /// told by the new counter. [`Errno::Invalid`] for an unknown name and for
    /// a counter that cannot be used.
    fn select(&self, counter: Option<&str>) -> Result<(), Errno>;
    /// The rate of a chip in Hz, `None` where the machine has none.
    fn frequency(&self, chip: Chip) -> Option<u64>;
    /// Corrects the rate of a chip, in Hz, without a step in any clock.
    /// [`Errno::Invalid`] when `hz` is further from the present rate than a
    /// running clock can follow.
    fn set_frequency(&self, chip: Chip, hz: u64) -> Result<(), Errno>;
    /// A count.
    fn statistic(&self, statistic: Statistic) -> u64;
    /// An integer fixed at boot.
    fn constant(&self, constant: Constant) -> i32;
    /// The present value of a setting.
    fn setting(&self, setting: Setting) -> i32;
    /// Changes a setting.
    fn set_setting(&self, setting: Setting, value: i32);
    /// By how much CPUs may disagree about the time that the guard makes them
    /// agree on, in ns; 0 while reads are not guarded.
    fn guard_ns(&self) -> u32;
    /// The time-stamp counters of all CPUs, as they were last compared.
    fn skew(&self) -> Vec<Skew>;
    /// Compares them anew.
    fn resync(&self) -> Result<(), Errno>;
    /// The UTC time at which the uptime was zero: seconds since 1970 and
    /// microseconds, 0 to 999999.
    fn boottime(&self) -> (i64, u32);
}
