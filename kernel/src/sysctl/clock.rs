//! The tree on a real clock.

use super::system::{Chip, Constant, CounterInfo, Errno, Setting, Skew, Statistic, System};
use crate::cpuset::MAX_CPUS;
use crate::tunables::Tunables;
use crate::{klog, time};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use timecounter::clock::Clock;
use timecounter::clock::GuardPolicy;
use timecounter::page::SLOTS;
use timecounter::registry::Registered;
use timecounter::role::Role;
use timecounter::select::ChooseError;
use timecounter::tick::ticks_per_windup;

/// [`System`] on a [`Clock`].
#[derive(Debug)]
pub struct ClockSystem {
    clock: &'static Clock,
    smp_disabled: bool,
    smp_tsc_adjust: i32,
    disable_tsc: bool,
    disable_tsc_calibration: bool,
    allowed_deviation: AtomicI32,
    step_warnings: AtomicI32,
    fast_gettime: AtomicI32,
    nojitter: AtomicI32,
    watchdog: AtomicI32,
    around: Around,
}

/// What the kernel around the clock adds to it.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Ticks a second.
    pub hz: fn() -> u32,
    /// Clock system calls made since boot.
    pub syscalls: fn() -> u64,
    /// Pages of memory not in use.
    pub free_pages: fn() -> u64,
    /// CPUs that run.
    pub cpus: fn() -> usize,
    /// Whether the TSC's rate is independent of the CPU's power state.
    pub tsc_invariant: fn() -> bool,
    /// Whether the TSCs of all CPUs are one counter.
    pub tsc_in_step: fn() -> bool,
    /// The TSCs of all CPUs, as they were last compared.
    pub tsc_skew: fn() -> Vec<Skew>,
    /// Compares them anew.
    pub tsc_resync: fn() -> Result<(), Errno>,
    /// Sets the seconds between two checks of the active counter.
    pub watchdog: fn(u32),
    /// What the windups of all CPUs met with.
    pub role: fn() -> &'static Role<MAX_CPUS>,
    /// Called while a change of counter waits for the next tick.
    pub relax: fn(),
}

impl ClockSystem {
    /// A tree on `clock` that begins with the values of `tunables`.
    #[must_use]
    pub fn new(clock: &'static Clock, tunables: &Tunables, around: Around) -> Self {
        let system = Self {
            clock,
            smp_disabled: tunables.smp_disabled,
            smp_tsc_adjust: tunables.smp_tsc_adjust,
            disable_tsc: tunables.disable_tsc,
            disable_tsc_calibration: tunables.disable_tsc_calibration,
            allowed_deviation: AtomicI32::new(tunables.allowed_deviation),
            step_warnings: AtomicI32::new(tunables.step_warnings),
            fast_gettime: AtomicI32::new(1),
            nojitter: AtomicI32::new(0),
            watchdog: AtomicI32::new(0),
            around,
        };
        system.set_setting(Setting::FastGettime, tunables.fast_gettime);
        system.set_setting(Setting::NoJitter, tunables.nojitter);
        system.set_setting(Setting::Watchdog, tunables.watchdog);
        system
    }

    /// The counter that a chip was registered as.
    fn counter_of(&self, chip: Chip) -> Option<Registered<'_>> {
        let names: &[&str] = match chip {
            Chip::Tsc => &["TSC"],
            Chip::I8254 => &["i8254"],
            Chip::AcpiTimer => &["ACPI-fast", "ACPI-safe"],
        };
        let registry = self.clock.registry();
        names.iter().find_map(|name| registry.find(name))
    }

    fn cell(&self, setting: Setting) -> &AtomicI32 {
        match setting {
            Setting::AllowedDeviation => &self.allowed_deviation,
            Setting::StepWarnings => &self.step_warnings,
            Setting::FastGettime => &self.fast_gettime,
            Setting::NoJitter => &self.nojitter,
            Setting::Watchdog => &self.watchdog,
        }
    }
}

impl System for ClockSystem {
    fn counters(&self) -> Vec<CounterInfo> {
        let info = |counter: Registered<'_>| CounterInfo {
            name: counter.name().to_string(),
            quality: counter.quality(),
            frequency: counter.frequency(),
            mask: counter.mask(),
            reason: counter.reason().to_string(),
            skew_ppb: counter.skew_ppb(),
        };
        self.clock.registry().iter().rev().map(info).collect()
    }

    fn sample(&self, counter: &str) -> Option<u64> {
        let counter = self.clock.registry().find(counter)?;
        Some(counter.read())
    }

    fn hardware(&self) -> String {
        let active = self.clock.active();
        active.map_or_else(String::new, |counter| counter.name().to_string())
    }

    fn select(&self, counter: Option<&str>) -> Result<(), Errno> {
        let relax = &mut || (self.around.relax)();
        let chosen = match counter {
            Some(name) => self.clock.choose(name, relax),
            None => self.clock.choose_best(relax),
        };
        let chosen = chosen.inspect(|()| time::log_bearable_stall(self.clock));
        chosen.map_err(|error| {
            if error == ChooseError::Unknown {
                return Errno::Invalid;
            }
            // The errno cannot carry the figure, so the log does.
            klog!("timecounter {}: {error}", counter.unwrap_or("auto"));
            match error {
                ChooseError::Stuck => Errno::Busy,
                _ => Errno::Invalid,
            }
        })
    }

    fn frequency(&self, chip: Chip) -> Option<u64> {
        Some(self.counter_of(chip)?.frequency())
    }

    fn set_frequency(&self, chip: Chip, hz: u64) -> Result<(), Errno> {
        let counter = self.counter_of(chip).ok_or(Errno::Unsupported)?;
        match self.clock.set_frequency(&counter, hz) {
            true => Ok(()),
            false => Err(Errno::Invalid),
        }
    }

    fn statistic(&self, statistic: Statistic) -> u64 {
        let counted = self.clock.statistics();
        match statistic {
            Statistic::Syscalls => (self.around.syscalls)(),
            Statistic::LatePublications => counted.late_publications(),
            Statistic::TakeOvers => (self.around.role)().take_overs(),
            Statistic::BusyWindups => (self.around.role)().busy(),
            Statistic::HeldWindups => (self.around.role)().held(),
            Statistic::BackwardSamples => counted.backward_samples(),
            Statistic::MissedWraps => counted.missed_wraps(),
            Statistic::Rebased => counted.rebased(),
            Statistic::FreePages => (self.around.free_pages)(),
        }
    }

    fn constant(&self, constant: Constant) -> i32 {
        match constant {
            Constant::Hz => clamped((self.around.hz)()),
            Constant::SmpCpus => i32::try_from((self.around.cpus)()).unwrap_or(i32::MAX),
            Constant::SmpDisabled => i32::from(self.smp_disabled),
            Constant::SmpMaxCpus => const { MAX_CPUS as i32 },
            Constant::Tick => clamped(ticks_per_windup((self.around.hz)())),
            Constant::TimehandsCount => const { SLOTS as i32 },
            Constant::InvariantTsc => i32::from((self.around.tsc_invariant)()),
            Constant::SmpTsc => i32::from((self.around.tsc_in_step)()),
            Constant::SmpTscAdjust => self.smp_tsc_adjust,
            // All 64 bits are used.
            Constant::TscShift => 0,
            Constant::DisableTsc => i32::from(self.disable_tsc),
            Constant::DisableTscCalibration => i32::from(self.disable_tsc_calibration),
        }
    }

    fn setting(&self, setting: Setting) -> i32 {
        self.cell(setting).load(Ordering::Relaxed)
    }

    fn set_setting(&self, setting: Setting, value: i32) {
        self.cell(setting).store(value, Ordering::Relaxed);
        match setting {
            Setting::AllowedDeviation | Setting::StepWarnings => {}
            Setting::NoJitter => self.clock.set_guard(match value {
                1 => GuardPolicy::Never,
                2 => GuardPolicy::Always,
                _ => GuardPolicy::Measured,
            }),
            Setting::FastGettime => self.clock.set_user_enabled(value != 0),
            Setting::Watchdog => (self.around.watchdog)(u32::try_from(value).unwrap_or(0)),
        }
    }

    fn guard_ns(&self) -> u32 {
        self.clock.guard().unwrap_or(0)
    }

    fn skew(&self) -> Vec<Skew> {
        (self.around.tsc_skew)()
    }

    fn resync(&self) -> Result<(), Errno> {
        (self.around.tsc_resync)()
    }

    fn boottime(&self) -> (i64, u32) {
        let boottime = self.clock.boottime();
        (boottime.sec, boottime.nsec() / 1000)
    }
}

fn clamped(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
