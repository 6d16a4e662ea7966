//! The ring of timehands: how a snapshot is published and accepted.
//!
//! # Background
//!
//! One writer, the *windup*, replaces the parameters that a counter value is
//! turned into time by; any number of readers use them meanwhile, in user space
//! too, where a reader can neither lock nor be trusted with a store. A plain
//! sequence lock makes readers wait while the writer is stopped inside its
//! critical section, for as long as the host likes to keep a virtual CPU from
//! running.
//!
//! # Method
//!
//! Slots are filled one after the other and numbered by one *generation*, which
//! counts all publications; a generation lives in slot `generation % N`.
//! `current` holds the generation to be used. The writer fills the slot of the
//! next generation, which no reader looks for, and then moves `current`.
//!
//! A reader accepts a slot only if it holds exactly the generation it looked
//! for, before and after it copied the fields. An index in place of a
//! generation would not do: a reader that slept while its slot was refilled
//! would accept parameters that are not current yet, and later fall back to
//! older ones.
//!
//! # Ordering
//!
//! | writer | reader | what it gives |
//! |---|---|---|
//! | (W1) `generation = 0`, then release fence, then the fields | fields, then acquire fence (R2), then `generation` | a reader that saw a new field sees the 0 or something later: it retries |
//! | (W2) fields, then `current` stored with release | `current` loaded with acquire (R1), then the fields | a reader that was sent to a slot sees all of it, and with it the generation stored before |
//!
//! The store of the generation itself needs no order of its own: W2 covers it,
//! for readers come to a slot only through `current` or from the slot after it,
//! whose `current` was stored later still. `tests/loom` weakens each of the
//! others and shows the model that fails.
//!
//! # Limits
//!
//! A reader that stops for exactly 2^32 - 1 publications between two loads
//! (49 days at 1 kHz) could take one slot for another.

use crate::generation;
use crate::sync::{AtomicU32, Ordering, Site};

/// What a slot holds beside its generation and kind: words that are stored and
/// loaded one by one, each atomically, in no particular order.
pub trait Payload {
    /// The plain value of all the words.
    type Segment: Copy;
    /// Stores the words of `segment`, calling `after` behind each store;
    /// `false` from it means that the writer is to stop there.
    fn store(&self, segment: &Self::Segment, after: &mut impl FnMut() -> bool) -> bool;
    /// Loads all the words.
    fn load(&self) -> Self::Segment;
}

/// One segment of the clock, as the ring publishes it.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot<P> {
    /// The generation the slot holds; 0 while it is being written.
    generation: AtomicU32,
    /// How the counter is read and its difference scaled, see [`crate::kind`].
    kind: AtomicU32,
    /// The line and what belongs to it.
    payload: P,
}

impl<P> Slot<P> {
    /// The kind word.
    #[inline(always)]
    #[must_use]
    pub fn kind(&self) -> u32 {
        self.kind.load(Ordering::Relaxed)
    }

    /// The fields; what is read of them counts only once [`Ring::accept`] has
    /// agreed.
    #[inline(always)]
    #[must_use]
    pub fn payload(&self) -> &P {
        &self.payload
    }
}

/// The line that every read loads first.
#[derive(Debug)]
#[repr(C, align(64))]
struct Current {
    generation: AtomicU32,
}

/// A ring of `N` slots. `N` is a power of two of at least 4. A reader goes back
/// over `N` - 1 of them at most and so does not look at the one that is being
/// written, but where the generation wraps and 0 is left out; it is turned away
/// there like from any other slot that does not hold what it looks for.
#[derive(Debug)]
#[repr(C)]
pub struct Ring<P, const N: usize> {
    current: Current,
    slots: [Slot<P>; N],
}

impl<P, const N: usize> Ring<P, N> {
    const SIZE_IS_A_POWER_OF_TWO: () = assert!(N >= 4 && N.is_power_of_two());

    /// A ring whose slots hold nothing, from as many payloads. It must be
    /// given a segment before it is read: until then readers find generation 0.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(payloads: [Slot<P>; N]) -> Self {
        let () = Self::SIZE_IS_A_POWER_OF_TWO;
        Self {
            current: Current {
                generation: AtomicU32::new(0),
            },
            slots: payloads,
        }
    }

    /// See the form for production; loom's atomics are made at run time.
    #[cfg(loom)]
    #[must_use]
    pub fn new(payloads: [Slot<P>; N]) -> Self {
        let () = Self::SIZE_IS_A_POWER_OF_TWO;
        Self {
            current: Current {
                generation: AtomicU32::new(0),
            },
            slots: payloads,
        }
    }

    /// The generation to use, 0 before the first publication. What was written
    /// to its slot and to those before it is visible to the caller (R1 pairs
    /// with W2 in [`publish`](Self::publish)).
    #[inline(always)]
    #[must_use]
    pub fn current(&self) -> u32 {
        self.current.generation.load(Site::Current.ordering()) // R1
    }

    /// The slot in which `generation` is, was or will be.
    #[inline(always)]
    #[must_use]
    pub fn slot(&self, generation: u32) -> &Slot<P> {
        // N is a power of two: the mask keeps the index inside.
        #[expect(clippy::indexing_slicing, reason = "masked to the length")]
        &self.slots[generation as usize & (N - 1)]
    }

    /// Whether `slot` holds `generation` at this moment; the first half of
    /// accepting it.
    #[inline(always)]
    #[must_use]
    pub fn holds(&self, slot: &Slot<P>, generation: u32) -> bool {
        // R1 has made the store of this generation visible; a later one only
        // sends the reader away.
        slot.generation.load(Ordering::Relaxed) == generation
    }

    /// Whether `slot` still holds `generation` after its fields were loaded;
    /// the second half of accepting it.
    #[inline(always)]
    #[must_use]
    pub fn accept(&self, slot: &Slot<P>, generation: u32) -> bool {
        // R2 pairs with the release fence W1: if any field loaded above was
        // stored behind that fence, the load below sees the 0 or a later value.
        Site::Accept.fence();
        slot.generation.load(Ordering::Relaxed) == generation
    }
}

impl<P: Payload, const N: usize> Ring<P, N> {
    /// Publishes `segment` as the next generation and returns that.
    ///
    /// Only one caller at a time; the clock's [`Gate`](crate::gate::Gate) sees
    /// to it.
    pub fn publish(&self, kind: u32, segment: &P::Segment) -> u32 {
        self.publish_until(kind, segment, &mut || true)
            .unwrap_or_default()
    }

    /// Publishes `segment`, calling `after` behind every store: what a writer
    /// does that an interrupt or the host may stop anywhere. Returns the new
    /// generation, or nothing when `after` said to stop there for good.
    pub fn publish_until(
        &self,
        kind: u32,
        segment: &P::Segment,
        after: &mut impl FnMut() -> bool,
    ) -> Option<u32> {
        self.publish_if(kind, segment, after, &mut || true)
    }

    /// [`publish_until`](Self::publish_until), asking `ready` right before the
    /// store that makes the segment current: without its consent the segment is
    /// dropped, and the one before stays.
    pub fn publish_if(
        &self,
        kind: u32,
        segment: &P::Segment,
        after: &mut impl FnMut() -> bool,
        ready: &mut impl FnMut() -> bool,
    ) -> Option<u32> {
        let next = generation::next(self.current.generation.load(Ordering::Relaxed));
        let slot = self.slot(next);
        let go = |on: bool| on.then_some(());

        slot.generation.store(0, Ordering::Relaxed);
        go(after())?;
        Site::Mark.fence(); // W1, pairs with R2 in `accept`
        slot.kind.store(kind, Ordering::Relaxed);
        go(after())?;
        go(slot.payload.store(segment, after))?;
        slot.generation.store(next, Ordering::Relaxed);
        go(after())?;
        go(ready())?;
        self.current
            .generation
            .store(next, Site::Publish.ordering()); // W2, pairs with R1
        go(after())?;
        Some(next)
    }

    /// Generation, kind and fields of the current slot, for the writer, who
    /// alone changes them.
    #[must_use]
    pub fn latest(&self) -> (u32, u32, P::Segment) {
        let generation = self.current.generation.load(Ordering::Relaxed);
        let slot = self.slot(generation);
        (generation, slot.kind(), slot.payload.load())
    }

    /// Rewrites the kind word of every slot in place. The writer may change
    /// there what leaves the time unchanged: by which way user space reads the
    /// counter. A reader uses the old word or the new one, with equal results.
    pub fn rewrite_kinds(&self, rewrite: impl Fn(u32) -> u32) {
        for slot in &self.slots {
            let kind = slot.kind.load(Ordering::Relaxed);
            slot.kind.store(rewrite(kind), Ordering::Relaxed);
        }
    }
}

impl<P> Slot<P> {
    /// An empty slot around `payload`.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(payload: P) -> Self {
        Self {
            generation: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            payload,
        }
    }

    /// See the form for production.
    #[cfg(loom)]
    #[must_use]
    pub fn new(payload: P) -> Self {
        Self {
            generation: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::UserCounter;
    use crate::kind::Kind;
    use crate::page::{NanosecondsView, Timehands, Words};
    use crate::reader::{self, Counters, Halves};

    /// Every counter shows this.
    struct At(u64);

    impl Counters for At {
        fn order(&self) {}
        fn tsc<T>(&self, _ahead: &T) -> Halves {
            self.0.into()
        }
        fn read(&self, _kind: Kind) -> Option<u64> {
            Some(self.0)
        }
    }

    /// A clock of a nanosecond a count, in segments of 100.
    fn ring_at(generation: u32) -> Ring<Words, 8> {
        let ring = Ring::new([const { Slot::new(Words::new()) }; 8]);
        ring.current.generation.store(generation, Ordering::Relaxed);
        ring
    }

    #[test]
    fn the_generation_wraps_under_readers_without_a_step() {
        let ring = ring_at(u32::MAX - 12);
        let kind = Kind::new(UserCounter::Tsc, 0, 64, 1);
        for segment in 0..24 {
            let hands = Timehands {
                start: segment * 100,
                length: 100,
                // A nanosecond less 2^-64.
                multiplier: u64::MAX,
                monotonic: crate::bintime::Bintime::from_ns(segment * 100),
                floor: u64::MAX / 2,
                ..Timehands::default()
            };
            let generation = ring.publish(kind.word(), &hands);
            assert_ne!(generation, 0, "0 marks a slot being written");
            // Inside, one and two segments back, and past the end.
            let first = (segment * 100).saturating_sub(200);
            for count in first + 1..segment * 100 + 100 {
                let told = reader::read::<NanosecondsView, _, _, 8>(&ring, &At(count));
                let base = count / 100 * 100;
                let exact = if count == base { count } else { count - 1 };
                assert_eq!(told, Some(exact), "generation {generation}, count {count}");
            }
            let told = reader::read::<NanosecondsView, _, _, 8>(&ring, &At(segment * 100 + 300));
            let tail = segment * 100 + 99 + 99;
            assert_eq!(told, Some(tail), "generation {generation}, past the end");
        }
        assert_eq!(ring.current(), 12, "24 publications and no 0 later");
    }

    #[test]
    fn an_unpublished_ring_reads_as_zero() {
        let ring = ring_at(0);
        let told = reader::read::<NanosecondsView, _, _, 8>(&ring, &At(12345));
        assert_eq!(told, Some(0), "nothing is announced");
        assert_eq!(
            reader::read_coarse::<NanosecondsView, _, 8>(&ring),
            0,
            "nor known"
        );
    }
}
