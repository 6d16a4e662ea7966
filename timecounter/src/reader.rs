//! The reader: from the page to a time, once for kernel, user space and host.
//!
//! # Method
//!
//! Each publication state is a function of the count: inside the current
//! segment its line, before its start the segment before it, past its end the
//! line's value at the end plus the *floor slope*, which is lower than any rate
//! that can be set. A publication can only raise that function, and each is
//! non-decreasing, so two reads that are ordered by anything at all are ordered
//! in time: the later one has neither an older state nor an earlier count.
//!
//! `current` and the count are both taken inside the call, after whatever
//! happened before it; between the two of them no order is needed. A reader that
//! stops between them finds its count past the end, or its slot refilled, or, the
//! other way round, a count that an older segment still covers: each is a value
//! that the clock had within the call. So the code loads `current` in the shadow
//! of the serializing instruction that orders the counter, which is where most of
//! a read's time goes, and the slot's fields behind it.
//!
//! The ordinary read has one compare for "inside", one for the kind of counter,
//! one for the generation, and one for the carry, all predicted. Everything else
//! is in [`read_general`], which may read the counter again.
//!
//! # Limits
//!
//! A count that lies before everything that is still in the ring (a counter that
//! stepped back) reads as the coarse value until the writer has seen it too.

use core::hint::cold_path;

use crate::generation;
use crate::guard::{Guard, Seen};
use crate::kind::Kind;
use crate::ring::{Payload, Ring};
use crate::scale::Multiplier;
use crate::timespec::{NSEC_PER_SEC, Timespec};

/// A count as x86 delivers it, in two registers. The low half alone is enough to
/// begin the arithmetic with; joining the two takes as long as an addition.
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    /// Bits 0 to 31.
    pub low: u32,
    /// Bits 32 to 63.
    pub high: u32,
}

impl Halves {
    /// The count in one piece.
    #[inline(always)]
    #[must_use]
    pub const fn whole(self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }
}

impl From<u64> for Halves {
    fn from(count: u64) -> Self {
        Self {
            low: count as u32,
            high: (count >> 32) as u32,
        }
    }
}

/// How the place the reader runs in reads counters.
pub trait Counters {
    /// Makes what follows in this call happen after what came before it; on
    /// x86 an `LFENCE`, or nothing where [`tsc`](Self::tsc) does that itself.
    fn order(&self);
    /// The TSC, not read before [`order`](Self::order). Where there is none, or
    /// reading it costs more than it saves, any constant: the general path then
    /// reads the right counter.
    ///
    /// `ahead` is not touched. Its address is to be in a register before the
    /// counter is read: computing it afterwards would lengthen the chain that
    /// the read hides by more than the read has left to hide.
    fn tsc<T>(&self, ahead: &T) -> Halves;
    /// The counter that `kind` names, ordered after all earlier loads, or
    /// nothing if it cannot be read from here.
    fn read(&self, kind: Kind) -> Option<u64>;
    /// The line by which reads of a guarded counter go, see [`crate::guard`];
    /// nothing where there is none, and such a counter then cannot be read.
    fn guard(&self) -> Option<Guard<'_>> {
        None
    }
}

/// What one sort of read loads of a segment and makes of a difference.
pub trait View<P>: Copy {
    /// The result.
    type Time;
    /// Loads the words that this view needs, each relaxed.
    fn load(payload: &P) -> Self;
    /// The time `delta` counts behind the start where the kind's shift is 0.
    fn fast(&self, delta: u64) -> Self::Time;
    /// The time `delta` counts and then `tail_ns` nanoseconds behind the start.
    fn general(&self, delta: u64, shift: u8, tail_ns: u64) -> Self::Time;
    /// The time at the windup's own sample.
    fn coarse(payload: &P) -> Self::Time;
}

/// Where a segment lies among the counts, and the slope beyond its end. Each is
/// one relaxed load.
pub trait Extent {
    /// Count at which the segment starts, inside the counter's mask.
    fn start(&self) -> u64;
    /// Counts up to the segment's end, at most `u32::MAX`.
    fn length(&self) -> u64;
    /// The multiplier of the floor slope, in the unit of the segment's own.
    fn floor(&self) -> u64;
    /// Monotonic nanoseconds at the start, for the guard.
    fn monotonic_ns(&self) -> u64;
    /// The segment's multiplier, for the guard.
    fn multiplier(&self) -> u64;
}

/// Reads the clock. Nothing is returned if the counter in use cannot be read
/// from here: the caller makes the system call.
#[inline(always)]
pub fn read<V, P, C, const N: usize>(ring: &Ring<P, N>, counters: &C) -> Option<V::Time>
where
    V: View<P>,
    P: Payload + Extent,
    C: Counters,
{
    match read_ordinary::<V, P, C, N>(ring, counters) {
        Ok(time) => Some(time),
        Err(missed) => read_general::<V, P, C, N>(ring, counters, missed),
    }
}

/// What an ordinary read had in hand when it gave up: the state it looked for
/// and a count taken about then.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    generation: u32,
    count: u64,
}

/// The ordinary read alone: a count of the TSC inside the current segment. Of
/// anything else [`read_general`] makes a time; who calls the two separately can
/// leave by a tail call and needs no stack frame.
///
/// # Errors
///
/// [`Missed`], where it is not an ordinary read; the general one always answers.
#[inline(always)]
pub fn read_ordinary<V, P, C, const N: usize>(
    ring: &Ring<P, N>,
    counters: &C,
) -> Result<V::Time, Missed>
where
    V: View<P>,
    P: Payload + Extent,
    C: Counters,
{
    counters.order();
    let generation = ring.current();
    let slot = ring.slot(generation);
    let halves = counters.tsc(slot);
    let count = halves.whole();
    let missed = Missed { generation, count };
    if !ring.holds(slot, generation) || !Kind::from_word(slot.kind()).is_fast() {
        cold_path();
        return Err(missed);
    }
    let start = slot.payload().start();
    // The length fits 32 bits, so inside the segment the difference of the low
    // halves is the difference; it is ready before the check below is.
    let delta = halves.low.wrapping_sub(start as u32);
    if count.wrapping_sub(start) >= slot.payload().length() {
        cold_path();
        return Err(missed);
    }
    let view = V::load(slot.payload());
    if !ring.accept(slot, generation) {
        cold_path();
        return Err(missed);
    }
    Ok(view.fast(u64::from(delta)))
}

/// The general read: any counter, before the start, past the end, or while the
/// writer got in between. Nothing is returned if the counter in use cannot be
/// read from here.
#[cold]
#[inline(never)]
pub fn read_general<V, P, C, const N: usize>(
    ring: &Ring<P, N>,
    counters: &C,
    missed: Missed,
) -> Option<V::Time>
where
    V: View<P>,
    P: Payload + Extent,
    C: Counters,
{
    let Missed { generation, count } = missed;
    // The count is of the TSC; what follows sees to it that the slot still holds
    // the state whose kind this is.
    if Kind::from_word(ring.slot(generation).kind()).is_tsc() {
        if let Some(time) = inside::<V, P, N>(ring, generation, count) {
            return Some(time);
        }
        if let Found::Inside(time) = locate::<V, P, N>(ring, generation, count, None) {
            return Some(time);
        }
    }
    let mut behind = false;
    loop {
        let generation = ring.current();
        let kind = Kind::from_word(ring.slot(generation).kind());
        // What is in the line is looked at before the count is taken.
        let guard = if kind.is_guarded() {
            let guard = counters.guard()?;
            Some((guard, guard.look()))
        } else {
            None
        };
        let count = counters.read(kind)?;
        if kind.width() < 64 && ring.current() != generation {
            // A masked count means something only near the segment it was
            // taken for.
            continue;
        }
        match locate::<V, P, N>(ring, generation, count & kind.mask(), guard) {
            Found::Inside(time) | Found::Past(time) => return Some(time),
            Found::Behind if behind => return Some(read_coarse::<V, P, N>(ring)),
            Found::Behind => behind = true,
            Found::Torn => {}
        }
    }
}

/// The time at `count` of the TSC if it lies in the segment `generation`: what an
/// ordinary read does, with the multiplier's shift.
#[inline(always)]
fn inside<V, P, const N: usize>(ring: &Ring<P, N>, generation: u32, count: u64) -> Option<V::Time>
where
    V: View<P>,
    P: Payload + Extent,
{
    let slot = ring.slot(generation);
    let held = ring.holds(slot, generation);
    let kind = Kind::from_word(slot.kind());
    let delta = count.wrapping_sub(slot.payload().start());
    let within = delta < slot.payload().length();
    let view = V::load(slot.payload());
    let whole = ring.accept(slot, generation) && held;
    (whole && within && kind.is_tsc()).then(|| view.general(delta, kind.shift(), 0))
}

/// Where a count lies among the segments announced.
enum Found<T> {
    /// In the current segment or one before it.
    Inside(T),
    /// Past the end of the current one; right only if the count was taken after
    /// `current` was loaded, for the line may have been based anew in between.
    Past(T),
    /// Before all of them.
    Behind,
    /// The writer was faster.
    Torn,
}

fn locate<V, P, const N: usize>(
    ring: &Ring<P, N>,
    current: u32,
    count: u64,
    guard: Option<(Guard<'_>, Seen)>,
) -> Found<V::Time>
where
    V: View<P>,
    P: Payload + Extent,
{
    let mut generation = current;
    let mut counter = None;
    // Back to the oldest slot that is not the next to be written. One windup
    // announces a segment, and one more for every second in it that changes
    // something: three around a leap second at one windup a second.
    for back in 0..N - 1 {
        let slot = ring.slot(generation);
        let held = ring.holds(slot, generation);
        let kind = Kind::from_word(slot.kind());
        let start = slot.payload().start();
        let length = slot.payload().length();
        let view = V::load(slot.payload());
        let base_ns = slot.payload().monotonic_ns();
        let slope = Multiplier {
            mult: slot.payload().multiplier(),
            shift: kind.shift(),
        };
        let floor = Multiplier {
            mult: slot.payload().floor(),
            shift: kind.shift(),
        };
        if !(ring.accept(slot, generation) && held) {
            // Refilled; or, if nothing moved, never filled.
            return if back > 0 && ring.current() == current {
                Found::Behind
            } else {
                Found::Torn
            };
        }
        if *counter.get_or_insert(kind.index()) != kind.index() {
            return Found::Behind;
        }
        let mask = kind.mask();
        let delta = count.wrapping_sub(start) & mask;
        if is_before(delta, mask) {
            generation = generation::previous(generation);
            continue;
        }
        let within = delta.min(length);
        let mut tail_ns = floor.ns(delta - within);
        if let Some((guard, seen)) = guard {
            let own = base_ns
                .saturating_add(slope.ns(within))
                .saturating_add(tail_ns);
            tail_ns = tail_ns.saturating_add(guard.pass(seen, own) - own);
        }
        let time = view.general(within, kind.shift(), tail_ns);
        return if delta > length && back == 0 {
            Found::Past(time)
        } else {
            // Also between the end of a segment and a later start of the next.
            Found::Inside(time)
        };
    }
    Found::Behind
}

/// Whether a masked difference means "before": the last eighth of the range.
/// Wide counters never come near the other seven; narrow ones must be wound up
/// before they do.
#[inline(always)]
#[must_use]
pub const fn is_before(delta: u64, mask: u64) -> bool {
    delta > mask - (mask >> 3)
}

/// The time at the latest windup, without reading a counter.
#[inline(always)]
pub fn read_coarse<V, P, const N: usize>(ring: &Ring<P, N>) -> V::Time
where
    V: View<P>,
    P: Payload,
{
    consistent(ring, V::coarse)
}

/// What `load` makes of the current segment's words, all of one generation.
#[inline(always)]
pub fn consistent<T, P, const N: usize>(ring: &Ring<P, N>, load: impl Fn(&P) -> T) -> T {
    loop {
        let generation = ring.current();
        let slot = ring.slot(generation);
        let held = ring.holds(slot, generation);
        let value = load(slot.payload());
        if ring.accept(slot, generation) && held {
            return value;
        }
    }
}

const NS_PER_SEC: u64 = NSEC_PER_SEC as u64;

/// `sec` and `nsec` plus `ns`, normalized. The carry is a predicted branch: one
/// read in a thousand takes it.
#[inline(always)]
pub(crate) fn carried(sec: u64, nsec: u32, ns: u64) -> Timespec {
    let nsec = u64::from(nsec).saturating_add(ns);
    if nsec >= NS_PER_SEC {
        cold_path();
        return carry(sec, nsec);
    }
    Timespec {
        sec: sec as i64,
        nsec: nsec as u32,
    }
}

#[cold]
#[inline]
fn carry(sec: u64, nsec: u64) -> Timespec {
    Timespec {
        sec: sec.wrapping_add(nsec / NS_PER_SEC) as i64,
        nsec: (nsec % NS_PER_SEC) as u32,
    }
}
