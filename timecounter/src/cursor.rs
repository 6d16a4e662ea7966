//! The arithmetic of a segment: where its line and its tail are, and the line
//! that the next one starts with.
//!
//! # Method
//!
//! There are two accounts of a published segment. A *reader* truncates to whole
//! nanoseconds; what it tells is what the coarse clocks are made of, so that none
//! of them is above a precise one. The *writer* goes by 2^-64 seconds and is never
//! below a reader; the next segment is made of that, so nothing is lost to
//! rounding from one to the other.
//!
//! A [`Cursor`] is the writer's end of the line while segments are being made. It
//! moves by counts; the seconds of the time of day that begin on its way are
//! handed to [`Seconds`], whose answer may move the time of day.
//!
//! # Limits
//!
//! Sums saturate: a counter that leaps by centuries makes a clock that stands at
//! the end of its range, not one that begins anew.

use crate::bintime::Bintime;
use crate::kind::Kind;
use crate::page::{Timehands, ns_of_uptime};
use crate::rate::Rate;
use crate::reader::carried;
use crate::scale::{Multiplier, Scale};
use crate::timespec::Timespec;
use crate::windup::{SecondChange, Seconds};

/// The line that a segment being made starts with.
pub(crate) struct Cursor {
    start: u64,
    pub(crate) monotonic: Bintime,
    pub(crate) realtime: Bintime,
    rate: Rate,
    pub(crate) tai: i32,
    pub(crate) leap: u32,
}

impl Cursor {
    pub(crate) fn advance(&mut self, counts: u64, mask: u64) {
        let elapsed = self.rate.scale.bintime(counts);
        self.start = self.start.wrapping_add(counts) & mask;
        self.monotonic = self.monotonic.saturating_add(elapsed);
        self.realtime = self.realtime.saturating_add(elapsed);
    }

    /// Advances over the past, unpublished.
    pub(crate) fn pass(&mut self, counts: u64, mask: u64, seconds: &mut impl Seconds) {
        let utc = self.realtime.sec;
        self.advance(counts, mask);
        self.begin_since(utc, seconds);
    }

    /// Has the seconds handled that began since the time of day was `utc`.
    pub(crate) fn begin_since(&mut self, utc: i64, seconds: &mut impl Seconds) {
        let begun = self.realtime.sec.saturating_sub(utc);
        if let Ok(count @ 1..) = u64::try_from(begun) {
            let change = seconds.begin(utc, count);
            self.change(change);
        }
    }

    pub(crate) fn change(&mut self, change: SecondChange) {
        self.realtime.sec = self.realtime.sec.saturating_add(change.step);
        self.tai = change.tai;
        self.leap = change.leap;
    }

    /// Counts until the time of day reaches `seconds` more whole seconds, at
    /// least 1.
    pub(crate) fn counts_to_second(&self, seconds: u64) -> u64 {
        let units = (u128::from(seconds) << 64) - u128::from(self.realtime.frac);
        let counts = units.div_ceil(u128::from(self.rate.scale.units()));
        u64::try_from(counts).unwrap_or(u64::MAX)
    }

    pub(crate) fn hands(&self, length: u64, coarse: Coarse) -> Timehands {
        Timehands {
            start: self.start,
            length,
            multiplier: self.rate.multiplier.mult,
            monotonic: self.monotonic,
            realtime: self.realtime,
            scale: self.rate.scale.units(),
            floor: self.rate.floor,
            coarse_monotonic_ns: coarse.monotonic_ns,
            coarse_realtime: coarse.realtime,
            tai: self.tai,
            leap: self.leap,
        }
    }

    pub(crate) fn kind(&self, kind: Kind) -> Kind {
        kind.with_shift(self.rate.multiplier.shift)
    }

    /// The time `delta` counts behind the start, as a reader would tell it.
    pub(crate) fn coarse(&self, delta: u64) -> Coarse {
        Coarse::at(
            self.monotonic,
            self.realtime,
            self.rate.multiplier.ns(delta),
        )
    }
}

/// The values of the coarse clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coarse {
    pub(crate) monotonic_ns: u64,
    pub(crate) realtime: Timespec,
}

impl Coarse {
    /// Both clocks `ns` behind their base, with the reader's own truncation, so
    /// that no coarse value is above a precise one.
    pub(crate) fn at(monotonic: Bintime, realtime: Bintime, ns: u64) -> Self {
        let realtime = Timespec::from(realtime);
        Self {
            monotonic_ns: ns_of_uptime(monotonic).saturating_add(ns),
            realtime: carried(realtime.sec as u64, realtime.nsec, ns),
        }
    }
}

impl Timehands {
    pub(crate) fn multiplier(&self, kind: Kind) -> Multiplier {
        Multiplier {
            mult: self.multiplier,
            shift: kind.shift(),
        }
    }

    fn floor(&self, kind: Kind) -> Multiplier {
        Multiplier {
            mult: self.floor,
            shift: kind.shift(),
        }
    }

    /// Nanoseconds that a reader adds to the base `elapsed` counts behind the
    /// start: on the line, and on the floor slope past the end.
    pub(crate) fn reader_ns(&self, kind: Kind, elapsed: u64) -> u64 {
        let line = self.multiplier(kind).ns(elapsed.min(self.length));
        let beyond = elapsed.saturating_sub(self.length);
        line.saturating_add(self.floor(kind).ns(beyond))
    }

    /// Uptime and time of day where the segment ends.
    pub(crate) fn end(&self) -> (Bintime, Bintime) {
        let length = Scale::from_units(self.scale).bintime(self.length);
        (
            self.monotonic.saturating_add(length),
            self.realtime.saturating_add(length),
        )
    }

    /// Uptime and time of day `elapsed` counts behind the start, on the floor
    /// slope past the end: never below what a reader tells there.
    pub(crate) fn tail(&self, kind: Kind, elapsed: u64) -> (Bintime, Bintime) {
        let line = Scale::from_units(self.scale).bintime(elapsed.min(self.length));
        let beyond = self.floor(kind).ns(elapsed.saturating_sub(self.length));
        let add = line.saturating_add(Bintime::from_ns(beyond));
        (
            self.monotonic.saturating_add(add),
            self.realtime.saturating_add(add),
        )
    }

    pub(crate) fn cursor(
        &self,
        start: u64,
        (monotonic, realtime): (Bintime, Bintime),
        rate: Rate,
    ) -> Cursor {
        Cursor {
            start,
            monotonic,
            realtime,
            rate,
            tai: self.tai,
            leap: self.leap,
        }
    }
}
