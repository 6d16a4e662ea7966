//! A counter's rate, converted once for all who go by it.
//!
//! # Background
//!
//! The writer advances its base by seconds a count in units of 2^-64, so that
//! nothing adds up over the years; readers multiply by nanoseconds a count, which
//! is shorter; and past an announced end both go by the floor slope. Each
//! conversion takes a division of wide numbers.
//!
//! # Method
//!
//! [`Rate::new`] makes all three forms together, rounded down, and refuses what
//! any of them cannot hold. They come from one frequency and one adjustment, so
//! no segment has parts of two rates.

use crate::clock::MAX_ADJUSTMENT;
use crate::kind::Kind;
use crate::page::Timehands;
use crate::scale::{Multiplier, Scale, ScaleError};

/// A counter's rate in all the forms that a segment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Seconds a count.
    pub scale: Scale,
    /// Nanoseconds a count.
    pub multiplier: Multiplier,
    /// Multiplier of the floor slope, with the same shift.
    pub floor: u64,
}

impl Rate {
    /// The rate of a counter of `frequency` Hz under `adjustment` ns per second
    /// in 32.32, which the caller has limited to +-500 ppm.
    ///
    /// The floor slope is that of `reference` Hz: the counter's rate when it
    /// became the active one. It stays as long as the counter does, whatever
    /// corrections follow, for a state whose tail is less steep than that of
    /// the state before it would in the end sink below it.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] where a frequency or the adjustment is out of range.
    pub fn new(frequency: u64, adjustment: i64, reference: u64) -> Result<Self, ScaleError> {
        let scale = Scale::new(frequency, adjustment)?;
        let multiplier = Multiplier::from_scale(scale);
        let nominal = Scale::nominal(reference)?;
        let floor = Multiplier::floor_with(nominal, multiplier.shift)
            .ok_or(ScaleError::AdjustmentOutOfRange)?;
        Ok(Self {
            scale,
            multiplier,
            floor: floor.mult,
        })
    }

    /// Whether a clock can run on `frequency` Hz under every adjustment.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] if it cannot.
    pub fn check(frequency: u64) -> Result<(), ScaleError> {
        for adjustment in [0, -MAX_ADJUSTMENT, MAX_ADJUSTMENT] {
            Self::new(frequency, adjustment, frequency)?;
        }
        Ok(())
    }

    /// The rate of a published segment.
    pub(crate) fn of(hands: &Timehands, kind: Kind) -> Self {
        Self {
            scale: Scale::from_units(hands.scale),
            multiplier: hands.multiplier(kind),
            floor: hands.floor,
        }
    }
}
