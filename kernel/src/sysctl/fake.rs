//! A system without hardware, for the tests of the tree and the shell.

use super::system::{Chip, Constant, CounterInfo, Errno, Setting, Skew, Statistic, System};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

/// All that a write can change, so that two states can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) hardware: &'static str,
    pub(crate) pinned: bool,
    pub(crate) frequencies: [Option<u64>; 3],
    pub(crate) settings: [i32; 5],
    /// How often the CPUs' counters were compared.
    pub(crate) comparisons: u32,
}

/// Nominal rates in the order of [`Chip`].
const NOMINAL: [u64; 3] = [2_100_000_000, 1_193_182, 3_579_545];

/// Name, quality, rate and mask; newest registration first.
const COUNTERS: [(&str, i32, u64, u64); 5] = [
    ("i8254", 0, 1_193_182, 0xffff),
    ("ACPI-fast", 900, 3_579_545, 0xff_ffff),
    ("HPET", 950, 100_000_000, 0xffff_ffff),
    ("TSC", 800, 2_100_000_000, u64::MAX),
    ("dummy", -1_000_000, 1_000_000, 0xffff_ffff),
];

/// A PC with four counters.
#[derive(Debug)]
pub(crate) struct Fake(RefCell<State>);

impl Default for Fake {
    fn default() -> Self {
        Self(RefCell::new(State {
            hardware: "HPET",
            pinned: false,
            frequencies: NOMINAL.map(Some),
            settings: [5, 0, 1, 0, 1],
            comparisons: 1,
        }))
    }
}

impl Fake {
    pub(crate) fn state(&self) -> State {
        self.0.borrow().clone()
    }

    /// Takes a chip out of the machine.
    pub(crate) fn without(self, chip: Chip) -> Self {
        self.0.borrow_mut().frequencies[chip as usize] = None;
        self
    }
}

impl System for Fake {
    fn counters(&self) -> Vec<CounterInfo> {
        let info = |(name, quality, frequency, mask)| CounterInfo {
            name: String::from(name),
            quality,
            frequency,
            mask,
            reason: String::from("as registered"),
            skew_ppb: (name == "HPET").then_some(-1_250),
        };
        COUNTERS.into_iter().map(info).collect()
    }

    fn sample(&self, counter: &str) -> Option<u64> {
        let known = COUNTERS.iter().any(|(name, ..)| *name == counter);
        known.then_some(4_242)
    }

    fn hardware(&self) -> String {
        String::from(self.state().hardware)
    }

    fn select(&self, counter: Option<&str>) -> Result<(), Errno> {
        let mut state = self.0.borrow_mut();
        let Some(wanted) = counter else {
            state.hardware = "HPET";
            state.pinned = false;
            return Ok(());
        };
        let mut fit = COUNTERS.iter().filter(|(name, ..)| *name != "dummy");
        let known = fit.find(|(name, ..)| *name == wanted);
        state.hardware = known.ok_or(Errno::Invalid)?.0;
        state.pinned = true;
        Ok(())
    }

    fn frequency(&self, chip: Chip) -> Option<u64> {
        self.state().frequencies[chip as usize]
    }

    fn set_frequency(&self, chip: Chip, hz: u64) -> Result<(), Errno> {
        let nominal = NOMINAL[chip as usize];
        if hz.abs_diff(nominal) > nominal / 1024 {
            return Err(Errno::Invalid);
        }
        self.0.borrow_mut().frequencies[chip as usize] = Some(hz);
        Ok(())
    }

    fn statistic(&self, statistic: Statistic) -> u64 {
        match statistic {
            Statistic::Syscalls => 17,
            Statistic::LatePublications => 3,
            Statistic::TakeOvers
            | Statistic::BusyWindups
            | Statistic::HeldWindups
            | Statistic::BackwardSamples
            | Statistic::MissedWraps
            | Statistic::Rebased => 0,
            Statistic::FreePages => 60_000,
        }
    }

    fn constant(&self, constant: Constant) -> i32 {
        match constant {
            Constant::Hz => 1000,
            Constant::Tick => 1,
            Constant::SmpCpus => 2,
            Constant::SmpMaxCpus => 256,
            Constant::TimehandsCount => 4,
            Constant::SmpDisabled
            | Constant::InvariantTsc
            | Constant::SmpTsc
            | Constant::SmpTscAdjust
            | Constant::TscShift
            | Constant::DisableTsc
            | Constant::DisableTscCalibration => 0,
        }
    }

    fn setting(&self, setting: Setting) -> i32 {
        self.state().settings[setting as usize]
    }

    fn set_setting(&self, setting: Setting, value: i32) {
        self.0.borrow_mut().settings[setting as usize] = value;
    }

    fn guard_ns(&self) -> u32 {
        match self.setting(Setting::NoJitter) {
            2 => 100,
            _ => 0,
        }
    }

    fn skew(&self) -> Vec<Skew> {
        let row = |(cpu, low, high)| Skew { cpu, low, high };
        [(0, 0, 0), (1, -42, 84)].map(row).into()
    }

    fn resync(&self) -> Result<(), Errno> {
        self.0.borrow_mut().comparisons += 1;
        Ok(())
    }

    fn boottime(&self) -> (i64, u32) {
        (1_600_000_000, 5)
    }
}
