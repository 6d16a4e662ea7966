//! Which addresses of a process are in use, and what for.
//!
//! A sorted list of page-aligned ranges that never overlap. The page tables
//! say the same to the processor; this list is what the kernel decides by:
//! where a new mapping fits, which pages `munmap` may take away and `mprotect`
//! may change. The program's segments and stack stay where they are; the vDSO
//! and what it reads cannot be changed at all.

use alloc::vec::Vec;
use core::ops::Range;

use super::layout::PAGE;

/// Regions that a process may have; a program that maps and unmaps every
/// second page of a range would use up the kernel's heap otherwise.
pub const MAX_REGIONS: usize = 1024;

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A segment of the program or its stack.
    Program,
    /// The vDSO, or a page that it reads.
    Shared,
    /// Asked for by the program.
    Anonymous,
}

/// One range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its addresses, multiples of a page.
    pub range: Range<u64>,
    /// What it is.
    pub used_as: Use,
}

/// There is no room: in the address space, or in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// The regions of a process, ascending.
#[derive(Debug, Default)]
pub struct Regions {
    list: Vec<Region>,
}

impl Regions {
    /// No regions.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// The regions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.list.iter()
    }

    /// Position of the first region that ends above `address`.
    fn position(&self, address: u64) -> usize {
        self.list
            .partition_point(|region| region.range.end <= address)
    }

    /// Nothing is in `range`.
    #[must_use]
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        self.list
            .get(self.position(range.start))
            .is_none_or(|next| range.end <= next.range.start)
    }

    /// Everything in `range` that is used is anonymous.
    #[must_use]
    pub fn is_removable(&self, range: &Range<u64>) -> bool {
        self.list
            .iter()
            .skip(self.position(range.start))
            .take_while(|region| region.range.start < range.end)
            .all(|region| region.used_as == Use::Anonymous)
    }

    /// Takes `range`, which must be free.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if something is there, or the list is full.
    pub fn insert(&mut self, range: Range<u64>, used_as: Use) -> Result<(), NoRoom> {
        if range.is_empty() || !self.is_free(&range) || self.list.len() >= MAX_REGIONS {
            return Err(NoRoom);
        }
        let at = self.position(range.start);
        // One region may grow into this one: a heap that asks for its memory
        // page by page stays one region.
        if let Some(before) = at.checked_sub(1).and_then(|index| self.list.get_mut(index))
            && before.range.end == range.start
            && before.used_as == used_as
            && used_as == Use::Anonymous
        {
            before.range.end = range.end;
            return Ok(());
        }
        self.list.insert(at, Region { range, used_as });
        Ok(())
    }

    /// All of `range` is in use, and none of it shared.
    #[must_use]
    pub fn is_changeable(&self, range: &Range<u64>) -> bool {
        let mut reached = range.start;
        for region in self.list.iter().skip(self.position(range.start)) {
            if reached >= range.end || region.range.start > reached {
                break;
            }
            if region.used_as == Use::Shared {
                return false;
            }
            reached = region.range.end;
        }
        reached >= range.end
    }

    /// Gives back the anonymous parts of `range`.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if this would split a region and the list is full; nothing
    /// changes then.
    pub fn remove(&mut self, range: &Range<u64>) -> Result<(), NoRoom> {
        let splits = self.list.iter().any(|region| {
            region.used_as == Use::Anonymous
                && region.range.start < range.start
                && range.end < region.range.end
        });
        if splits && self.list.len() >= MAX_REGIONS {
            return Err(NoRoom);
        }
        let mut kept = Vec::with_capacity(self.list.len() + 1);
        for region in self.list.drain(..) {
            if region.used_as != Use::Anonymous
                || region.range.end <= range.start
                || range.end <= region.range.start
            {
                kept.push(region);
                continue;
            }
            let parts = [region.range.start..range.start, range.end..region.range.end];
            for part in parts {
                if part.start < part.end {
                    kept.push(Region {
                        range: part,
                        used_as: region.used_as,
                    });
                }
            }
        }
        self.list = kept;
        Ok(())
    }

    /// The highest free range of `size` bytes within `bounds`.
    #[must_use]
    pub fn find_free(&self, size: u64, bounds: &Range<u64>) -> Option<Range<u64>> {
        let mut end = bounds.end;
        for region in self.list.iter().rev() {
            if region.range.start >= end {
                continue;
            }
            if let Some(found) = fit(size, region.range.end.max(bounds.start)..end) {
                return Some(found);
            }
            end = region.range.start;
        }
        fit(size, bounds.start..end)
    }
}

/// The upper `size` bytes of `gap`, if it has so many.
fn fit(size: u64, gap: Range<u64>) -> Option<Range<u64>> {
    let start = gap.end.checked_sub(size)?;
    (size > 0 && size.is_multiple_of(PAGE) && start >= gap.start).then_some(start..gap.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Range<u64> = 0x10_0000..0x20_0000;

    fn ranges(regions: &Regions) -> Vec<Range<u64>> {
        regions.iter().map(|region| region.range.clone()).collect()
    }

    #[test]
    fn a_range_in_use_is_not_given_out_again() {
        let mut regions = Regions::new();
        regions
            .insert(0x11_0000..0x12_0000, Use::Anonymous)
            .expect("an empty list has room");
        for range in [
            0x11_0000..0x12_0000,
            0x10_f000..0x11_1000,
            0x11_f000..0x12_1000,
            0x11_4000..0x11_5000,
            0x10_0000..0x20_0000,
        ] {
            assert!(!regions.is_free(&range), "{range:x?} overlaps");
            assert_eq!(
                regions.insert(range.clone(), Use::Anonymous),
                Err(NoRoom),
                "{range:x?} overlaps"
            );
        }
        assert!(regions.is_free(&(0x10_f000..0x11_0000)), "just below");
        assert!(regions.is_free(&(0x12_0000..0x12_1000)), "just above");
    }

    #[test]
    fn free_ranges_are_found_from_the_top_down_and_into_the_gaps() {
        let mut regions = Regions::new();
        let top = regions.find_free(0x1000, &BOUNDS).expect("room");
        assert_eq!(top, 0x1f_f000..0x20_0000, "the highest page");
        regions.insert(top, Use::Program).expect("room");
        regions
            .insert(0x1f_c000..0x1f_d000, Use::Program)
            .expect("room");
        assert_eq!(
            regions.find_free(0x2000, &BOUNDS),
            Some(0x1f_d000..0x1f_f000),
            "the gap fits exactly"
        );
        assert_eq!(
            regions.find_free(0x3000, &BOUNDS),
            Some(0x1f_9000..0x1f_c000),
            "the gap is too small"
        );
        assert_eq!(regions.find_free(0x10_0000, &BOUNDS), None, "too much");
        assert_eq!(regions.find_free(u64::MAX - 0xfff, &BOUNDS), None, "absurd");
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut regions = Regions::new();
        regions
            .insert(0x11_0000..0x12_0000, Use::Anonymous)
            .expect("room");
        regions
            .remove(&(0x11_4000..0x11_6000))
            .expect("one split fits");
        assert_eq!(
            ranges(&regions),
            [0x11_0000..0x11_4000, 0x11_6000..0x12_0000],
            "both ends"
        );
    }

    #[test]
    fn what_the_kernel_put_there_cannot_be_removed() {
        let mut regions = Regions::new();
        regions
            .insert(0x11_0000..0x12_0000, Use::Program)
            .expect("room");
        assert!(!regions.is_removable(&BOUNDS), "a segment is in it");
        regions.remove(&BOUNDS).expect("nothing to split");
        assert_eq!(
            ranges(&regions).first(),
            Some(&(0x11_0000..0x12_0000)),
            "still there, and whole"
        );
    }

    #[test]
    fn only_memory_without_holes_that_is_not_shared_may_be_changed() {
        let mut regions = Regions::new();
        for (range, used_as) in [
            (0x11_0000..0x12_0000, Use::Program),
            (0x12_0000..0x13_0000, Use::Anonymous),
            (0x13_0000..0x14_0000, Use::Shared),
            (0x15_0000..0x16_0000, Use::Anonymous),
        ] {
            regions.insert(range, used_as).expect("room");
        }
        for (range, changeable, why) in [
            (0x11_8000..0x12_8000, true, "a segment and memory behind it"),
            (0x11_0000..0x13_0000, true, "up to the shared page"),
            (0x12_f000..0x13_1000, false, "into the shared page"),
            (0x10_f000..0x11_1000, false, "a hole before"),
            (0x14_0000..0x14_1000, false, "all hole"),
            (0x15_f000..0x16_1000, false, "a hole behind"),
        ] {
            assert_eq!(regions.is_changeable(&range), changeable, "{why}");
        }
    }

    #[test]
    fn neighbours_that_the_program_asked_for_become_one() {
        let mut regions = Regions::new();
        for page in 0..100 {
            let start = 0x11_0000 + page * PAGE;
            regions
                .insert(start..start + PAGE, Use::Anonymous)
                .expect("room");
        }
        assert_eq!(ranges(&regions).len(), 1, "one region of 100 pages");
    }
}
