//! What a read takes from a slot of the page, and the time it makes of it.
//!
//! A [`View`] copies the few words that one clock in one form needs while the
//! slot is stable and does its arithmetic afterwards, so that what lies between
//! the two looks at the generation is loads alone. A clock as seconds and
//! nanoseconds, as plain nanoseconds and as bintime each have their own: none
//! pays for a word of another, and those for programs need only the slot's first
//! line.
//!
//! Each has two ways. The *fast* one serves an ordinary read inside a segment
//! whose multiplier has a shift of 0; the *general* one any shift and the tail
//! past the segment's end. Both round down.

use crate::bintime::Bintime;
use crate::page::Words;
use crate::reader::{View, carried};
use crate::scale::{Multiplier, Scale};
use crate::sync::Ordering;
use crate::timespec::Timespec;

/// How steep a segment is.
#[derive(Clone, Copy, Debug)]
struct Slope(u64);

impl Slope {
    #[inline(always)]
    fn load(words: &Words) -> Self {
        Self(words.multiplier.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn fast_ns(&self, delta: u64) -> u64 {
        self.multiplier(0).ns_within_segment(delta)
    }

    fn ns(&self, delta: u64, shift: u8) -> u64 {
        self.multiplier(shift).ns(delta)
    }

    #[inline(always)]
    fn multiplier(&self, shift: u8) -> Multiplier {
        Multiplier {
            mult: self.0,
            shift,
        }
    }
}

/// View of a clock as seconds and nanoseconds; `REALTIME` tells which.
#[derive(Clone, Copy, Debug)]
pub struct TimespecView<const REALTIME: bool> {
    slope: Slope,
    sec: u64,
    nsec: u32,
}

/// CLOCK_MONOTONIC.
pub type MonotonicView = TimespecView<false>;
/// CLOCK_REALTIME.
pub type RealtimeView = TimespecView<true>;

impl<const REALTIME: bool> View<Words> for TimespecView<REALTIME> {
    type Time = Timespec;

    #[inline(always)]
    fn load(words: &Words) -> Self {
        let (sec, nsec) = if REALTIME {
            (&words.realtime_sec, &words.realtime_nsec)
        } else {
            (&words.monotonic_sec, &words.monotonic_nsec)
        };
        Self {
            slope: Slope::load(words),
            sec: sec.load(Ordering::Relaxed),
            nsec: nsec.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn fast(&self, delta: u64) -> Timespec {
        let ns = self.slope.fast_ns(delta);
        carried(self.sec, self.nsec, ns)
    }

    fn general(&self, delta: u64, shift: u8, tail_ns: u64) -> Timespec {
        let ns = self.slope.ns(delta, shift).saturating_add(tail_ns);
        carried(self.sec, self.nsec, ns)
    }

    fn coarse(words: &Words) -> Timespec {
        if REALTIME {
            Timespec {
                sec: words.coarse_realtime_sec.load(Ordering::Relaxed) as i64,
                nsec: words.coarse_realtime_nsec.load(Ordering::Relaxed),
            }
        } else {
            carried(0, 0, words.coarse_monotonic_ns.load(Ordering::Relaxed))
        }
    }
}

/// View of CLOCK_MONOTONIC as nanoseconds, the cheapest read there is.
#[derive(Clone, Copy, Debug)]
pub struct NanosecondsView {
    slope: Slope,
    base: u64,
}

impl View<Words> for NanosecondsView {
    type Time = u64;

    #[inline(always)]
    fn load(words: &Words) -> Self {
        Self {
            slope: Slope::load(words),
            base: words.monotonic_ns.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn fast(&self, delta: u64) -> u64 {
        self.base.wrapping_add(self.slope.fast_ns(delta))
    }

    fn general(&self, delta: u64, shift: u8, tail_ns: u64) -> u64 {
        self.base
            .saturating_add(self.slope.ns(delta, shift))
            .saturating_add(tail_ns)
    }

    fn coarse(words: &Words) -> u64 {
        words.coarse_monotonic_ns.load(Ordering::Relaxed)
    }
}

/// View of a clock as bintime, for arithmetic inside the kernel: never below
/// the nanosecond views, and less than 2 ns above them.
#[derive(Clone, Copy, Debug)]
pub struct BintimeView<const REALTIME: bool> {
    base: Bintime,
    scale: u64,
}

impl<const REALTIME: bool> View<Words> for BintimeView<REALTIME> {
    type Time = Bintime;

    fn load(words: &Words) -> Self {
        let (sec, frac) = if REALTIME {
            (&words.realtime_sec, &words.realtime_frac)
        } else {
            (&words.monotonic_sec, &words.monotonic_frac)
        };
        Self {
            base: Bintime {
                sec: sec.load(Ordering::Relaxed) as i64,
                frac: frac.load(Ordering::Relaxed),
            },
            scale: words.scale.load(Ordering::Relaxed),
        }
    }

    fn fast(&self, delta: u64) -> Bintime {
        self.general(delta, 0, 0)
    }

    fn general(&self, delta: u64, _shift: u8, tail_ns: u64) -> Bintime {
        self.base
            .wrapping_add(Scale::from_units(self.scale).bintime(delta))
            .wrapping_add(Bintime::from_ns(tail_ns))
    }

    fn coarse(words: &Words) -> Bintime {
        <TimespecView<REALTIME> as View<Words>>::coarse(words).into()
    }
}
