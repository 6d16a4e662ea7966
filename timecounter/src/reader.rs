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
//! is in [`read_cold`], which may read the counter again.
//!
//! # Limits
//!
//! A count that lies before everything that was announced (a counter that
//! stepped back) reads as the coarse value until the writer has seen it too.

use crate::generation;
use crate::kind::Kind;
use crate::ring::{Payload, Ring};
use crate::scale::Multiplier;
use crate::timespec::{NSEC_PER_SEC, Timespec};

/// How the place the reader runs in reads counters.
pub trait Counters {
    /// Makes what follows in this call happen after what came before it; on
    /// x86 an `LFENCE`, or nothing where [`tsc`](Self::tsc) does that itself.
    fn order(&self);
    /// The TSC, not read before [`order`](Self::order). Where there is none, or
    /// reading it costs more than it saves, any constant: the general path then
    /// reads the right counter.
    fn tsc(&self) -> u64;
    /// The counter that `kind` names, ordered after all earlier loads, or
    /// nothing if it cannot be read from here.
    fn read(&self, kind: Kind) -> Option<u64>;
}

/// What one sort of read loads of a segment and makes of a difference.
pub trait View<P>: Copy {
    /// The result.
    type Time;
    /// Loads the words that this view needs, each relaxed.
    fn load(payload: &P) -> Self;
    /// Count at which the segment starts, inside the counter's mask.
    fn start(&self) -> u64;
    /// Counts up to the segment's end, at most `u32::MAX`.
    fn length(&self) -> u64;
    /// The time `delta` counts behind the start where the kind's shift is 0.
    fn fast(&self, delta: u64) -> Self::Time;
    /// The time `delta` counts and then `tail_ns` nanoseconds behind the start.
    fn general(&self, delta: u64, shift: u8, tail_ns: u64) -> Self::Time;
    /// The time at the windup's own sample.
    fn coarse(payload: &P) -> Self::Time;
}

/// Access to the slope beyond a segment's end.
pub trait Floor {
    /// The multiplier of the floor slope, in the unit of the segment's own.
    fn floor(&self) -> u64;
}

/// Reads the clock. Nothing is returned if the counter in use cannot be read
/// from here: the caller makes the system call.
#[inline(always)]
pub fn read<V, P, C, const N: usize>(ring: &Ring<P, N>, counters: &C) -> Option<V::Time>
where
    V: View<P>,
    P: Payload + Floor,
    C: Counters,
{
    counters.order();
    let generation = ring.current();
    let slot = ring.slot(generation);
    let count = counters.tsc();
    let held = ring.holds(slot, generation);
    let kind = Kind::from_word(slot.kind());
    let view = V::load(slot.payload());
    let whole = ring.accept(slot, generation) & held;
    if whole && kind.is_fast() && count.wrapping_sub(view.start()) < view.length() {
        // The length fits 32 bits, so inside the segment the difference of the
        // low halves is the difference; it is ready before the check above is.
        let delta = (count as u32).wrapping_sub(view.start() as u32);
        return Some(view.fast(u64::from(delta)));
    }
    let first = (whole && kind.is_fast()).then_some((generation, count));
    read_cold::<V, P, C, N>(ring, counters, first)
}

/// The general read: any counter, before the start, past the end, or while the
/// writer got in between. `first` is a whole state and a count taken about then.
#[cold]
#[inline(never)]
fn read_cold<V, P, C, const N: usize>(
    ring: &Ring<P, N>,
    counters: &C,
    first: Option<(u32, u64)>,
) -> Option<V::Time>
where
    V: View<P>,
    P: Payload + Floor,
    C: Counters,
{
    if let Some((generation, count)) = first
        && let Found::Inside(time) = locate::<V, P, N>(ring, generation, count)
    {
        return Some(time);
    }
    let mut behind = false;
    loop {
        let generation = ring.current();
        let kind = Kind::from_word(ring.slot(generation).kind());
        let count = counters.read(kind)?;
        if kind.width() < 64 && ring.current() != generation {
            // A masked count means something only near the segment it was
            // taken for.
            continue;
        }
        match locate::<V, P, N>(ring, generation, count & kind.mask()) {
            Found::Inside(time) | Found::Past(time) => return Some(time),
            Found::Behind if behind => return Some(read_coarse::<V, P, N>(ring)),
            Found::Behind => behind = true,
            Found::Torn => {}
        }
    }
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

/// Segments a reader may be sent back by: one that is announced, and one more
/// where a second's change of rate splits the announcement.
const BACK: usize = 2;

fn locate<V, P, const N: usize>(ring: &Ring<P, N>, current: u32, count: u64) -> Found<V::Time>
where
    V: View<P>,
    P: Payload + Floor,
{
    let mut generation = current;
    let mut counter = None;
    for back in 0..=BACK {
        let slot = ring.slot(generation);
        let held = ring.holds(slot, generation);
        let kind = Kind::from_word(slot.kind());
        let view = V::load(slot.payload());
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
        let delta = count.wrapping_sub(view.start()) & mask;
        if is_before(delta, mask) {
            generation = generation::previous(generation);
            continue;
        }
        if delta <= view.length() {
            return Found::Inside(view.general(delta, kind.shift(), 0));
        }
        let beyond = delta.wrapping_sub(view.length());
        let tail_ns = floor.ns(beyond);
        let time = view.general(view.length(), kind.shift(), tail_ns);
        return if back == 0 {
            Found::Past(time)
        } else {
            // Between the end of a segment and a later start of the next.
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
    loop {
        let generation = ring.current();
        let slot = ring.slot(generation);
        let held = ring.holds(slot, generation);
        let time = V::coarse(slot.payload());
        if ring.accept(slot, generation) && held {
            return time;
        }
    }
}

const NS_PER_SEC: u64 = NSEC_PER_SEC as u64;

/// `sec` and `nsec` plus `ns`, normalized. The carry is a predicted branch: one
/// read in a thousand takes it.
#[inline(always)]
pub(crate) fn carried(sec: u64, nsec: u32, ns: u64) -> Timespec {
    let nsec = u64::from(nsec).saturating_add(ns);
    if nsec < NS_PER_SEC {
        Timespec {
            sec: sec as i64,
            nsec: nsec as u32,
        }
    } else {
        carry(sec, nsec)
    }
}

#[cold]
fn carry(sec: u64, nsec: u64) -> Timespec {
    Timespec {
        sec: sec.wrapping_add(nsec / NS_PER_SEC) as i64,
        nsec: (nsec % NS_PER_SEC) as u32,
    }
}
