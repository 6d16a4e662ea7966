//! The timehands page: the one snapshot, read by everybody.
//!
//! The kernel writes it; kernel readers, the vDSO and host tests read it with
//! the code of [`crate::reader`]. Its layout is a contract with programs and is
//! described for them in the `vdso` folder's `PROTOCOL.md`; the assertions below
//! hold both together.
//!
//! ```text
//! 0x000  magic, version, number and size of the slots     never changes
//! 0x014  bound of the jitter guard in ns, 0 without one
//! 0x080  current generation                               line 1 of a read
//! 0x100  slot 0, 128 bytes: first line                    line 2 of a read
//!                           second line                   slow paths, kernel
//! 0x180  slot 1 ...
//! 0x500  zero up to 0x1000
//! ```

use crate::bintime::Bintime;
use crate::reader::{self, Extent};
#[cfg(not(loom))]
use crate::ring::Slot;
use crate::ring::{Payload, Ring};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::timespec::Timespec;

pub use crate::views::{BintimeView, MonotonicView, NanosecondsView, RealtimeView, TimespecView};

/// Slots in the ring of the page.
pub const SLOTS: usize = 8;

/// Size of the page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// First word of the page, "timehand" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"timehand");

/// Version of the layout and of its rules.
pub const VERSION: u32 = 2;

/// One segment of the clock: the timehands of FreeBSD, announced ahead.
///
/// Inside, time = base + (count - start) * scale. All plain values; what the
/// page holds of them are [`Words`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timehands {
    /// Count at which the segment starts, masked.
    pub start: u64,
    /// Counts to its end, at most `u32::MAX`.
    pub length: u64,
    /// Nanoseconds a count in units of 2^(shift - 64), by which readers go.
    pub multiplier: u64,
    /// Uptime at the start.
    pub monotonic: Bintime,
    /// Time of day at the start.
    pub realtime: Bintime,
    /// Seconds a count in units of 2^-64, by which the writer goes.
    pub scale: u64,
    /// Multiplier of the floor slope past the end, in the multiplier's unit.
    pub floor: u64,
    /// Uptime at the windup's own sample, in nanoseconds.
    pub coarse_monotonic_ns: u64,
    /// Time of day at the windup's own sample.
    pub coarse_realtime: Timespec,
    /// TAI - UTC in seconds, 0 if unknown.
    pub tai: i32,
    /// State of the leap-second automaton, see [`crate::second`].
    pub leap: u32,
}

/// The words of a [`Timehands`] as they stand in a slot behind its generation
/// and kind. Times are split so that an ordinary read finds its nanoseconds
/// ready: `nsec` is the fraction in nanoseconds, rounded down.
#[derive(Debug)]
#[repr(C)]
pub struct Words {
    pub(crate) start: AtomicU64,
    pub(crate) multiplier: AtomicU64,
    pub(crate) length: AtomicU64,
    pub(crate) monotonic_sec: AtomicU64,
    pub(crate) realtime_sec: AtomicU64,
    pub(crate) monotonic_nsec: AtomicU32,
    pub(crate) realtime_nsec: AtomicU32,
    pub(crate) monotonic_ns: AtomicU64,
    // The second line.
    pub(crate) monotonic_frac: AtomicU64,
    pub(crate) realtime_frac: AtomicU64,
    pub(crate) scale: AtomicU64,
    pub(crate) floor: AtomicU64,
    pub(crate) coarse_monotonic_ns: AtomicU64,
    pub(crate) coarse_realtime_sec: AtomicU64,
    pub(crate) coarse_realtime_nsec: AtomicU32,
    pub(crate) tai: AtomicU32,
    pub(crate) leap: AtomicU32,
    reserved: AtomicU32,
}

impl Words {
    /// All zero.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: AtomicU64::new(0),
            multiplier: AtomicU64::new(0),
            length: AtomicU64::new(0),
            monotonic_sec: AtomicU64::new(0),
            realtime_sec: AtomicU64::new(0),
            monotonic_nsec: AtomicU32::new(0),
            realtime_nsec: AtomicU32::new(0),
            monotonic_ns: AtomicU64::new(0),
            monotonic_frac: AtomicU64::new(0),
            realtime_frac: AtomicU64::new(0),
            scale: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            coarse_monotonic_ns: AtomicU64::new(0),
            coarse_realtime_sec: AtomicU64::new(0),
            coarse_realtime_nsec: AtomicU32::new(0),
            tai: AtomicU32::new(0),
            leap: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
        }
    }
}

#[cfg(not(loom))]
impl Default for Words {
    fn default() -> Self {
        Self::new()
    }
}

/// Uptime in nanoseconds, as it stands in the page: 2^64 - 1 from the 584th year
/// on, which no machine and only a broken counter reaches.
pub(crate) fn ns_of_uptime(uptime: Bintime) -> u64 {
    u64::try_from(uptime.to_ns().max(0)).unwrap_or(u64::MAX)
}

impl Payload for Words {
    type Segment = Timehands;

    fn store(&self, hands: &Timehands, after: &mut impl FnMut() -> bool) -> bool {
        let monotonic = Timespec::from(hands.monotonic);
        let realtime = Timespec::from(hands.realtime);
        let mut wide = |word: &AtomicU64, value: u64| {
            word.store(value, Ordering::Relaxed);
            after()
        };
        let stored = wide(&self.start, hands.start)
            && wide(&self.multiplier, hands.multiplier)
            && wide(&self.length, hands.length)
            && wide(&self.monotonic_sec, monotonic.sec as u64)
            && wide(&self.realtime_sec, realtime.sec as u64)
            && wide(&self.monotonic_ns, ns_of_uptime(hands.monotonic))
            && wide(&self.monotonic_frac, hands.monotonic.frac)
            && wide(&self.realtime_frac, hands.realtime.frac)
            && wide(&self.scale, hands.scale)
            && wide(&self.floor, hands.floor)
            && wide(&self.coarse_monotonic_ns, hands.coarse_monotonic_ns)
            && wide(&self.coarse_realtime_sec, hands.coarse_realtime.sec as u64);
        let mut narrow = |word: &AtomicU32, value: u32| {
            word.store(value, Ordering::Relaxed);
            after()
        };
        stored
            && narrow(&self.monotonic_nsec, monotonic.nsec)
            && narrow(&self.realtime_nsec, realtime.nsec)
            && narrow(&self.coarse_realtime_nsec, hands.coarse_realtime.nsec)
            && narrow(&self.tai, hands.tai.cast_unsigned())
            && narrow(&self.leap, hands.leap)
    }

    fn load(&self) -> Timehands {
        let wide = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let narrow = |word: &AtomicU32| word.load(Ordering::Relaxed);
        Timehands {
            start: wide(&self.start),
            length: wide(&self.length),
            multiplier: wide(&self.multiplier),
            monotonic: Bintime {
                sec: wide(&self.monotonic_sec) as i64,
                frac: wide(&self.monotonic_frac),
            },
            realtime: Bintime {
                sec: wide(&self.realtime_sec) as i64,
                frac: wide(&self.realtime_frac),
            },
            scale: wide(&self.scale),
            floor: wide(&self.floor),
            coarse_monotonic_ns: wide(&self.coarse_monotonic_ns),
            coarse_realtime: Timespec {
                sec: wide(&self.coarse_realtime_sec) as i64,
                nsec: narrow(&self.coarse_realtime_nsec),
            },
            tai: narrow(&self.tai).cast_signed(),
            leap: narrow(&self.leap),
        }
    }
}

impl Extent for Words {
    #[inline(always)]
    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(Ordering::Relaxed)
    }

    fn multiplier(&self) -> u64 {
        self.multiplier.load(Ordering::Relaxed)
    }
}

/// The page itself.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct TimehandsPage {
    magic: u64,
    version: u32,
    slots: u32,
    slot_size: u32,
    guard_bound: AtomicU32,
    ring: Ring<Words, SLOTS>,
}

#[cfg(not(loom))]
impl TimehandsPage {
    /// A page without a time; a [`Clock`](crate::clock::Clock) gives it one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            slots: SLOTS as u32,
            slot_size: size_of::<Slot<Words>>() as u32,
            guard_bound: AtomicU32::new(0),
            ring: Ring::new([const { Slot::new(Words::new()) }; SLOTS]),
        }
    }
}

#[cfg(not(loom))]
impl Default for TimehandsPage {
    fn default() -> Self {
        Self::new()
    }
}

impl TimehandsPage {
    /// The ring, which the readers take.
    #[inline(always)]
    #[must_use]
    pub fn ring(&self) -> &Ring<Words, SLOTS> {
        &self.ring
    }

    /// By how much one CPU may be ahead of another where the kind says that reads
    /// are guarded, in nanoseconds.
    #[must_use]
    pub fn guard_bound_ns(&self) -> u32 {
        self.guard_bound.load(Ordering::Relaxed)
    }

    #[cfg(not(loom))]
    pub(crate) fn set_guard_bound_ns(&self, bound: u32) {
        self.guard_bound.store(bound, Ordering::Relaxed);
    }

    /// CLOCK_MONOTONIC, or nothing if the counter cannot be read from here.
    #[inline(always)]
    pub fn monotonic(&self, counters: &impl reader::Counters) -> Option<Timespec> {
        reader::read::<MonotonicView, _, _, SLOTS>(&self.ring, counters)
    }

    /// CLOCK_REALTIME, or nothing if the counter cannot be read from here.
    #[inline(always)]
    pub fn realtime(&self, counters: &impl reader::Counters) -> Option<Timespec> {
        reader::read::<RealtimeView, _, _, SLOTS>(&self.ring, counters)
    }

    /// CLOCK_MONOTONIC in nanoseconds, or nothing if the counter cannot be read
    /// from here.
    #[inline(always)]
    pub fn monotonic_ns(&self, counters: &impl reader::Counters) -> Option<u64> {
        reader::read::<NanosecondsView, _, _, SLOTS>(&self.ring, counters)
    }

    /// Uptime for arithmetic inside the kernel.
    pub fn binuptime(&self, counters: &impl reader::Counters) -> Option<Bintime> {
        reader::read::<BintimeView<false>, _, _, SLOTS>(&self.ring, counters)
    }

    /// Time of day for arithmetic inside the kernel.
    pub fn bintime(&self, counters: &impl reader::Counters) -> Option<Bintime> {
        reader::read::<BintimeView<true>, _, _, SLOTS>(&self.ring, counters)
    }

    /// Time of day less uptime, exactly as the current segment has it.
    #[must_use]
    pub fn boottime(&self) -> Bintime {
        reader::consistent(&self.ring, |words| {
            let hands = words.load();
            hands.realtime.wrapping_sub(hands.monotonic)
        })
    }

    /// CLOCK_MONOTONIC at the latest windup.
    #[inline(always)]
    #[must_use]
    pub fn monotonic_coarse(&self) -> Timespec {
        reader::read_coarse::<MonotonicView, _, SLOTS>(&self.ring)
    }

    /// CLOCK_REALTIME at the latest windup.
    #[inline(always)]
    #[must_use]
    pub fn realtime_coarse(&self) -> Timespec {
        reader::read_coarse::<RealtimeView, _, SLOTS>(&self.ring)
    }
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    // A slot: generation at 0, kind at 4, then the words.
    assert!(size_of::<Slot<Words>>() == 128);
    assert!(size_of::<Words>() == 120);
    assert!(offset_of!(Words, start) + 8 == 8);
    assert!(offset_of!(Words, multiplier) + 8 == 16);
    assert!(offset_of!(Words, length) + 8 == 24);
    assert!(offset_of!(Words, monotonic_sec) + 8 == 32);
    assert!(offset_of!(Words, realtime_sec) + 8 == 40);
    assert!(offset_of!(Words, monotonic_nsec) + 8 == 48);
    assert!(offset_of!(Words, realtime_nsec) + 8 == 52);
    assert!(offset_of!(Words, monotonic_ns) + 8 == 56);
    assert!(offset_of!(Words, monotonic_frac) + 8 == 64);
    assert!(offset_of!(Words, realtime_frac) + 8 == 72);
    assert!(offset_of!(Words, scale) + 8 == 80);
    assert!(offset_of!(Words, floor) + 8 == 88);
    assert!(offset_of!(Words, coarse_monotonic_ns) + 8 == 96);
    assert!(offset_of!(Words, coarse_realtime_sec) + 8 == 104);
    assert!(offset_of!(Words, coarse_realtime_nsec) + 8 == 112);
    assert!(offset_of!(Words, tai) + 8 == 116);
    assert!(offset_of!(Words, leap) + 8 == 120);
    assert!(offset_of!(Words, reserved) + 8 == 124);
    assert!(offset_of!(TimehandsPage, guard_bound) == 0x14);
    assert!(offset_of!(TimehandsPage, ring) == 0x80);
    assert!(size_of::<Ring<Words, SLOTS>>() == 128 + SLOTS * 128);
    assert!(size_of::<TimehandsPage>() == PAGE_SIZE);
};
