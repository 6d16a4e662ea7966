//! What the probe has to say, one line each.
//!
//! A counter that silently is not there costs its user a factor of ten in
//! clock reads and a day to find out. So whatever is left out or put low is
//! said with its reason, starting with the counter's name.

use core::fmt;

use crate::acpi_timer::AcpiTimerError;
use crate::calibrate::{Calibration, CalibrationError};
use crate::cpuid::Stated;
use crate::hpet::HpetError;
use crate::i8254::I8254Error;
use crate::tsc::{Rating, TscError};

/// One line of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// There is no `i8254`.
    I8254(I8254Error),
    /// There is no `ACPI-fast` or `ACPI-safe`.
    AcpiTimer(AcpiTimerError),
    /// There is no `HPET`.
    Hpet(HpetError),
    /// There is no `TSC`.
    Tsc(TscError),
    /// A counter could not measure the TSC, and is not used.
    CannotMeasure {
        /// The counter.
        name: &'static str,
        /// What went wrong.
        error: CalibrationError,
    },
    /// A counter does not run at its rate, as a majority shows; not used.
    Lies {
        /// The counter.
        name: &'static str,
        /// Its own idea of its rate, in Hz.
        nominal: u64,
        /// The rate it was seen to run at, in Hz.
        actual: u64,
    },
    /// A counter disagrees with the one believed, without a majority against
    /// it; it stays in the list.
    Disputed {
        /// The counter, or `CPUID`.
        name: &'static str,
        /// The rate of the TSC by it, in Hz.
        frequency: u64,
        /// The rate of the TSC by the one believed, in Hz.
        believed: u64,
    },
    /// The TSC was measured.
    Calibrated {
        /// By this counter.
        reference: &'static str,
        /// The result.
        calibration: Calibration,
    },
    /// The TSC's rate is only stated by CPUID.
    NotMeasured(Stated),
    /// The quality of the TSC.
    Rated(Rating),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I8254(error) => write!(f, "i8254: {error}"),
            Self::AcpiTimer(error) => write!(f, "ACPI timer: {error}"),
            Self::Hpet(error) => write!(f, "HPET: {error}"),
            Self::Tsc(error) => write!(f, "TSC: {error}"),
            Self::CannotMeasure { name, error } => {
                write!(f, "{name}: cannot measure the TSC: {error}")
            }
            Self::Lies {
                name,
                nominal,
                actual,
            } => write!(f, "{name}: runs at {actual} Hz, not at {nominal} Hz"),
            Self::Disputed {
                name,
                frequency,
                believed,
            } => write!(
                f,
                "{name}: disagrees about the TSC: {frequency} Hz, not {believed} Hz"
            ),
            Self::Calibrated {
                reference,
                calibration,
            } => write!(
                f,
                "TSC: {} Hz measured by {reference}, within {} ppb",
                calibration.frequency, calibration.error_ppb
            ),
            Self::NotMeasured(stated) => write!(
                f,
                "TSC: {} Hz stated by CPUID, not measured",
                stated.frequency
            ),
            Self::Rated(rating) => {
                write!(f, "TSC: quality {}: {}", rating.quality, rating.reason)
            }
        }
    }
}
