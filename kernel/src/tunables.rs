//! Tunables: what can be set before the kernel starts.
//!
//! They travel as the text of the archive's file `cmdline` (and of
//! `cmdline.boot`, the boot protocol's own command line): words `name=value`
//! between white space, FreeBSD's names, a value optionally in double quotes
//! as `loader.conf` writes it. A later word replaces an earlier one.
//!
//! Nothing in that text can stop the boot. A word that is not understood is
//! reported, one line each, and has no effect; in particular a bad value never
//! replaces a good one. Text that is not UTF-8 is just a word nobody knows.

use crate::sysctl::number::parse_integer;
use crate::sysctl::table::{NO_JITTER, WATCHDOG_SECONDS};
use core::fmt;
use heapless::String;

/// Longest name of a counter in bytes: FreeBSD's buffer of 32 less the NUL.
const NAME_LIMIT: usize = 31;

/// Slowest and fastest tick. Below 8 Hz no counter but the widest could be
/// wound up in time; above 10 kHz the tick would be most of the load.
const HZ_RANGE: (i128, i128) = (8, 10_000);

/// The i8254's input clock in Hz, and how far a crystal may be declared to be
/// from it: 1/1024, the margin to which a running clock can follow a counter.
const I8254_HZ: i128 = 1_193_182;
const I8254_MARGIN: i128 = I8254_HZ / 1024;

/// All tunables, with FreeBSD's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// `kern.hz`: ticks a second, 8 to 10000. `None`: the kernel's default,
    /// which it may lower where a tick costs too much.
    pub hz: Option<u32>,
    /// `kern.smp.disabled`: use the boot processor only.
    pub smp_disabled: bool,
    /// `kern.timecounter.hardware`: the counter to use, whatever its quality,
    /// once it is registered.
    pub hardware: Option<String<NAME_LIMIT>>,
    /// `kern.timecounter.alloweddeviation`, percent.
    pub allowed_deviation: i32,
    /// `kern.timecounter.stepwarnings`, non-zero enables.
    pub step_warnings: i32,
    /// `kern.timecounter.fast_gettime`, non-zero enables.
    pub fast_gettime: i32,
    /// `kern.timecounter.invariant_tsc`: overrides what CPUID says.
    pub invariant_tsc: Option<bool>,
    /// `kern.timecounter.smp_tsc`: overrides what the test of all CPUs says.
    pub smp_tsc: Option<bool>,
    /// `kern.timecounter.smp_tsc_adjust`: attempts to bring the CPUs' TSCs
    /// together.
    pub smp_tsc_adjust: i32,
    /// `kern.timecounter.nojitter`: guard reads against CPUs that disagree, 0 as
    /// measured, 1 never, 2 always.
    pub nojitter: i32,
    /// `kern.timecounter.watchdog`: seconds between checks of the active
    /// counter, 0 for none.
    pub watchdog: i32,
    /// `machdep.disable_tsc`: do not use the TSC at all.
    pub disable_tsc: bool,
    /// `machdep.disable_tsc_calibration`: trust what CPUID says about the rate.
    pub disable_tsc_calibration: bool,
    /// `hw.i8254.freq`: rate of the interval timer in Hz.
    pub i8254_freq: Option<u32>,
    /// `hw.acpi.timer_test_enabled`: test whether the ACPI timer can be read
    /// at one go.
    pub acpi_timer_test: bool,
    /// `hw.acpi.hpet.mmap_allow`: let programs map the HPET's registers.
    pub hpet_mmap_allow: bool,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            hz: None,
            smp_disabled: false,
            hardware: None,
            allowed_deviation: 5,
            step_warnings: 0,
            fast_gettime: 1,
            invariant_tsc: None,
            smp_tsc: None,
            smp_tsc_adjust: 0,
            nojitter: 0,
            watchdog: 1,
            disable_tsc: false,
            disable_tsc_calibration: false,
            i8254_freq: None,
            acpi_timer_test: true,
            hpet_mmap_allow: true,
        }
    }
}

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is not of the form `name=value`.
    NoValue,
    /// No tunable has that name.
    Unknown,
    /// The value is not a number.
    NotANumber,
    /// The value is a number outside the range, bounds included.
    OutOfRange(i128, i128),
    /// The value cannot be the name of a counter.
    NotAName,
    /// FreeBSD has this tunable, but here it has one value, for this reason.
    Fixed(&'static str),
}

/// A word that had no effect, shown as the line to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint<'a> {
    /// The word as it stood in the text.
    pub word: &'a [u8],
    /// What is wrong with it.
    pub problem: Problem,
}

impl fmt::Display for Complaint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunable {}: ", self.word.escape_ascii())?;
        match self.problem {
            Problem::NoValue => f.write_str("no value")?,
            Problem::Unknown => f.write_str("unknown")?,
            Problem::NotANumber => f.write_str("not a number")?,
            Problem::OutOfRange(low, high) => write!(f, "not within {low} to {high}")?,
            Problem::NotAName => f.write_str("not the name of a counter")?,
            Problem::Fixed(reason) => f.write_str(reason)?,
        }
        f.write_str(", ignored")
    }
}

impl Tunables {
    /// Applies all words of `text` in their order and hands every word that
    /// had no effect to `report`.
    pub fn apply<'a>(&mut self, text: &'a [u8], mut report: impl FnMut(Complaint<'a>)) {
        for word in text.split(u8::is_ascii_whitespace) {
            if word.is_empty() {
                continue;
            }
            if let Err(problem) = self.apply_word(word) {
                report(Complaint { word, problem });
            }
        }
    }

    fn apply_word(&mut self, word: &[u8]) -> Result<(), Problem> {
        let word = str::from_utf8(word).map_err(|_| Problem::Unknown)?;
        let (name, value) = word.split_once('=').ok_or(Problem::NoValue)?;
        let value = unquote(value);
        match name {
            "kern.hz" => self.hz = Some(number(value, HZ_RANGE)?),
            "kern.smp.disabled" => self.smp_disabled = flag(value)?,
            "kern.timecounter.hardware" => self.hardware = Some(counter_name(value)?),
            "kern.timecounter.alloweddeviation" => self.allowed_deviation = int(value)?,
            "kern.timecounter.stepwarnings" => self.step_warnings = int(value)?,
            "kern.timecounter.fast_gettime" => self.fast_gettime = int(value)?,
            "kern.timecounter.invariant_tsc" => self.invariant_tsc = Some(flag(value)?),
            "kern.timecounter.smp_tsc" => self.smp_tsc = Some(flag(value)?),
            "kern.timecounter.smp_tsc_adjust" => self.smp_tsc_adjust = int(value)?,
            "kern.timecounter.nojitter" => self.nojitter = within(value, NO_JITTER)?,
            "kern.timecounter.watchdog" => self.watchdog = within(value, WATCHDOG_SECONDS)?,
            "kern.timecounter.timehands_count" => {
                return Err(Problem::Fixed("the ring of timehands has one size"));
            }
            "kern.timecounter.tsc_shift" => {
                return Err(Problem::Fixed("the TSC is used with all its bits"));
            }
            "machdep.disable_tsc" => self.disable_tsc = flag(value)?,
            "machdep.disable_tsc_calibration" => self.disable_tsc_calibration = flag(value)?,
            "hw.i8254.freq" => {
                let range = (I8254_HZ - I8254_MARGIN, I8254_HZ + I8254_MARGIN);
                self.i8254_freq = Some(number(value, range)?);
            }
            "hw.acpi.timer_test_enabled" => self.acpi_timer_test = flag(value)?,
            "hw.acpi.hpet.mmap_allow" => self.hpet_mmap_allow = flag(value)?,
            _ => return Err(Problem::Unknown),
        }
        Ok(())
    }
}

/// Takes one pair of double quotes off.
fn unquote(value: &str) -> &str {
    let inner = value.strip_prefix('"');
    inner.and_then(|v| v.strip_suffix('"')).unwrap_or(value)
}

/// A number within `low` and `high`, bounds included; both fit `T`.
fn number<T: TryFrom<i128>>(value: &str, (low, high): (i128, i128)) -> Result<T, Problem> {
    let number = parse_integer(value).ok_or(Problem::NotANumber)?;
    if !(low..=high).contains(&number) {
        return Err(Problem::OutOfRange(low, high));
    }
    T::try_from(number).map_err(|_| Problem::OutOfRange(low, high))
}

/// An `int` within bounds.
fn within(value: &str, (low, high): (i32, i32)) -> Result<i32, Problem> {
    number(value, (i128::from(low), i128::from(high)))
}

/// FreeBSD's `int`.
fn int(value: &str) -> Result<i32, Problem> {
    within(value, (i32::MIN, i32::MAX))
}

/// An `int` of which only zero or not counts.
fn flag(value: &str) -> Result<bool, Problem> {
    Ok(int(value)? != 0)
}

/// A name that a counter could have.
fn counter_name(value: &str) -> Result<String<NAME_LIMIT>, Problem> {
    let plausible = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
    if !plausible {
        return Err(Problem::NotAName);
    }
    String::try_from(value).map_err(|_| Problem::NotAName)
}

#[cfg(test)]
#[path = "tunables_tests.rs"]
mod tests;
