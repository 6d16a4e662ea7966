//! Sets of CPUs by number.
//!
//! CPU numbers are dense: 0 is the processor the machine booted on, the others
//! follow in the order of the firmware's table. A set has one bit for each
//! number that can exist, so it is copied like a number and never allocates.

/// CPU numbers are below this. The local APIC's 8-bit IDs name 255 processors
/// (255 itself is everybody), which 256 bits hold.
pub const MAX_CPUS: usize = 256;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;
const WORDS: usize = MAX_CPUS / WORD;

/// A set of CPU numbers below [`MAX_CPUS`]. A number beyond is never in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSet {
    /// CPU `n` is bit `n % 64` of word `n / 64`.
    words: [u64; WORDS],
}

impl CpuSet {
    /// The set without members.
    pub const fn empty() -> Self {
        Self { words: [0; WORDS] }
    }

    /// The set of the first `count` CPUs.
    pub fn all(count: usize) -> Self {
        (0..count.min(MAX_CPUS)).collect()
    }

    /// The set of one CPU.
    pub const fn single(cpu: usize) -> Self {
        let mut set = Self::empty();
        if cpu < MAX_CPUS {
            set.words[cpu / WORD] = 1 << (cpu % WORD);
        }
        set
    }

    /// The set whose first members are the bits of `words`, the least
    /// significant bit of the first word being CPU 0. Words beyond the set's
    /// end are ignored, as Linux ignores what a program's mask has too much.
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self::empty();
        for (to, from) in set.words.iter_mut().zip(words) {
            *to = *from;
        }
        set
    }

    /// The bits in the form that [`from_words`](Self::from_words) takes.
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Adds a CPU. False when it was in already, or cannot exist.
    pub fn insert(&mut self, cpu: usize) -> bool {
        let bit = 1 << (cpu % WORD);
        self.words.get_mut(cpu / WORD).is_some_and(|word| {
            let new = *word & bit == 0;
            *word |= bit;
            new
        })
    }

    /// Takes a CPU out. False when it was not in.
    pub fn remove(&mut self, cpu: usize) -> bool {
        let bit = 1 << (cpu % WORD);
        self.words.get_mut(cpu / WORD).is_some_and(|word| {
            let present = *word & bit != 0;
            *word &= !bit;
            present
        })
    }

    /// Whether a CPU is in.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words
            .get(cpu / WORD)
            .is_some_and(|word| word >> (cpu % WORD) & 1 == 1)
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.words;
        words.into_iter().enumerate().flat_map(|(index, word)| {
            // Each step takes the lowest bit away.
            core::iter::successors(Some(word), |&left| Some(left & left.wrapping_sub(1)))
                .take_while(|&left| left != 0)
                .map(move |left| index * WORD + left.trailing_zeros() as usize)
        })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        for (to, from) in both.words.iter_mut().zip(other.words) {
            *to &= from;
        }
        both
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::empty();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn members_come_out_ascending_whatever_the_order_they_went_in() {
        let set: CpuSet = [255, 0, 64, 63, 128, 64].into_iter().collect();
        let members: Vec<_> = set.iter().collect();
        assert_eq!(members, [0, 63, 64, 128, 255], "across every word");
        assert_eq!(set.len(), 5, "64 counts once");
    }

    #[test]
    fn insert_and_remove_say_whether_they_changed_anything() {
        let mut set = CpuSet::single(7);
        assert!(!set.insert(7), "already in");
        assert!(set.insert(200), "new");
        assert!(set.remove(7), "was in");
        assert!(!set.remove(7), "no longer in");
        assert_eq!(set, CpuSet::single(200), "what is left");
    }

    #[test]
    fn a_number_that_no_cpu_can_have_is_in_no_set() {
        let mut set = CpuSet::all(usize::MAX);
        assert_eq!(set.len(), MAX_CPUS, "all there can be");
        assert!(!set.insert(MAX_CPUS), "one beyond is refused");
        assert!(!set.contains(MAX_CPUS), "and not in");
        assert!(!set.remove(usize::MAX), "nor taken out");
    }

    #[test]
    fn words_are_little_endian_and_those_beyond_the_end_are_ignored() {
        let words = [1 << 5, 0, 0, 1 << 63, u64::MAX];
        let set = CpuSet::from_words(&words);
        assert_eq!(set.iter().collect::<Vec<_>>(), [5, 255], "bit n is CPU n");
        assert_eq!(set.words(), &words[..4], "and back");
        assert_eq!(
            CpuSet::from_words(&[2]),
            CpuSet::single(1),
            "a short mask leaves the rest out"
        );
    }

    #[test]
    fn and_keeps_what_is_in_both() {
        let low = CpuSet::all(100);
        let some: CpuSet = [99, 100].into_iter().collect();
        assert_eq!(low.and(&some), CpuSet::single(99), "the common one");
        let none = low.and(&CpuSet::single(100));
        assert!(none.is_empty(), "nothing in common: {none:?}");
    }
}
