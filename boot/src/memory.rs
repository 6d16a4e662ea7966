//! Physical memory: what firmware reported, what the loader used, what is left.
//!
//! Firmware maps are neither sorted nor free of overlaps, and the loader adds
//! ranges of its own (its image, the archive, what it allocated). [`MemoryMap`]
//! collects both kinds and [`MemoryMap::regions`] resolves them in one sweep:
//! every start and end is a boundary, and each stretch between two neighbouring
//! boundaries gets the strictest kind that covers it (reserved by firmware,
//! then used by the loader, then usable). That is right for any overlap and
//! quadratic in a number of regions that is at most [`MAX_FIRMWARE`].

use core::fmt;

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use heapless::Vec;

use crate::PAGE;

/// Most regions taken from firmware; machines report 5 to 40.
pub const MAX_FIRMWARE: usize = 128;
/// Most ranges the loader itself can set aside.
pub const MAX_USED: usize = 16;
/// Most regions the result can have: one fewer than there are boundaries.
pub const MAX_REGIONS: usize = 2 * (MAX_FIRMWARE + MAX_USED);

/// Type number of ordinary memory in an E820 map (ACPI 6.5, table 15.4).
pub const USABLE: u32 = 1;
/// Type number of reserved addresses, which need not have memory behind them.
pub const RESERVED: u32 = 2;

/// What the loader can reach: its early page tables map this much one to one.
pub const REACH: u64 = 1 << 32;
/// Allocation starts here: real-mode structures and the trampoline of the
/// other CPUs belong below.
const LOW_MEMORY: u64 = 1 << 20;
/// Physical addresses have at most 52 bits (AMD64 manual, volume 2, 5.1).
const PHYSICAL_LIMIT: u64 = 1 << 52;

/// Addresses from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
}

impl Span {
    /// The span of `length` bytes at `start`, or `None` if it wraps.
    pub fn new(start: u64, length: u64) -> Option<Self> {
        let end = start.checked_add(length)?;
        Some(Self { start, end })
    }

    /// Length in bytes, 0 for a span that ends before it starts.
    pub fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The smallest span of whole pages that covers this one.
    pub fn pages(self) -> Self {
        Self {
            start: self.start & !(PAGE - 1),
            end: self
                .end
                .checked_next_multiple_of(PAGE)
                .unwrap_or(!(PAGE - 1)),
        }
    }

    /// The largest span of whole pages inside this one (maybe empty).
    fn inner_pages(self) -> Self {
        Self {
            start: self
                .start
                .checked_next_multiple_of(PAGE)
                .unwrap_or(u64::MAX),
            end: self.end & !(PAGE - 1),
        }
    }

    /// Whether both have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// Whether all of `other` lies in this span.
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start, self.end)
    }
}

/// Why a memory map cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// More entries than the loader has room for.
    TooMany,
    /// An entry that runs past the end of the address space.
    Wraps(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "the memory map has more than {MAX_FIRMWARE} entries"),
            Self::Wraps(start) => {
                write!(
                    f,
                    "the memory map's entry at {start:#x} is longer than the address space"
                )
            }
        }
    }
}

/// Firmware's regions and the loader's own ranges.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    firmware: Vec<(Span, u32), MAX_FIRMWARE>,
    used: Vec<Span, MAX_USED>,
}

impl MemoryMap {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            firmware: Vec::new(),
            used: Vec::new(),
        }
    }

    /// Adds what firmware says about `length` bytes at `start`; `kind` is an
    /// E820 type. Memory counts in whole pages inside the entry, anything else
    /// in whole pages around it.
    ///
    /// # Errors
    ///
    /// [`Error::Wraps`] for a range past 2^64, [`Error::TooMany`] when full.
    pub fn add_firmware(&mut self, start: u64, length: u64, kind: u32) -> Result<(), Error> {
        let span = Span::new(start, length).ok_or(Error::Wraps(start))?;
        if length == 0 {
            return Ok(());
        }
        let mut span = if kind == USABLE {
            span.inner_pages()
        } else {
            span.pages()
        };
        span.end = span.end.min(PHYSICAL_LIMIT);
        if span.length() == 0 {
            return Ok(());
        }
        self.firmware.push((span, kind)).map_err(|_| Error::TooMany)
    }

    /// Sets the pages of a range aside as the loader's.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`] when there is no room for it.
    pub fn add_used(&mut self, span: Span) -> Result<(), Error> {
        if span.length() == 0 {
            return Ok(());
        }
        self.used.push(span.pages()).map_err(|_| Error::TooMany)
    }

    /// Whether firmware reported any memory at all.
    pub fn has_memory(&self) -> bool {
        self.firmware.iter().any(|(_, kind)| *kind == USABLE)
    }

    /// Whether firmware says that all of `span` is memory; adjacent entries
    /// count together.
    pub fn is_memory(&self, span: Span) -> bool {
        let mut at = span.start & !(PAGE - 1);
        while at < span.end {
            let next = self
                .firmware
                .iter()
                .filter(|(s, kind)| *kind == USABLE && s.start <= at && at < s.end)
                .map(|(s, _)| s.end)
                .max();
            match next {
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }

    /// Where a mapping of physical memory has to end: after the last region
    /// that is more than reserved addresses, and not before 4 GiB, where the
    /// APICs, the HPET and PCI live.
    ///
    /// Reserved regions beyond are left out on purpose. QEMU reports the
    /// HyperTransport hole below 2^40 for AMD CPU models, and mapping up to
    /// there would take 4 MiB of page tables on a machine with 128 MiB.
    pub fn physical_end(&self) -> u64 {
        let end = self
            .firmware
            .iter()
            .filter(|(_, kind)| *kind != RESERVED)
            .map(|(s, _)| s.end);
        end.max().unwrap_or(0).max(REACH)
    }

    /// The largest stretch of unused memory between 1 MiB and 4 GiB, to
    /// allocate from.
    pub fn arena(&self) -> Option<Arena> {
        let spans = self
            .regions()
            .into_iter()
            .filter(|r| r.kind == MemoryRegionKind::Usable)
            .map(|region| Span {
                start: region.start.max(LOW_MEMORY),
                end: region.end.min(REACH),
            });
        let largest = spans.max_by_key(|span| span.length())?;
        (largest.length() > 0).then_some(Arena {
            start: largest.start,
            next: largest.start,
            end: largest.end,
        })
    }

    /// All memory, sorted, without overlaps, in whole pages, for the kernel.
    pub fn regions(&self) -> Vec<MemoryRegion, MAX_REGIONS> {
        let mut bounds: Vec<u64, MAX_REGIONS> = Vec::new();
        let spans = self
            .firmware
            .iter()
            .map(|(span, _)| *span)
            .chain(self.used.iter().copied());
        for span in spans {
            // There are two bounds a span and room for all of them.
            let _ = bounds.push(span.start);
            let _ = bounds.push(span.end);
        }
        bounds.sort_unstable();
        let mut regions: Vec<MemoryRegion, MAX_REGIONS> = Vec::new();
        for (&start, &end) in bounds.iter().zip(bounds.iter().skip(1)) {
            let Some(kind) = self.kind(Span { start, end }) else {
                continue;
            };
            match regions.last_mut() {
                Some(last) if last.end == start && last.kind == kind => last.end = end,
                _ => {
                    let _ = regions.push(MemoryRegion { start, end, kind });
                }
            }
        }
        regions
    }

    /// The strictest kind of a stretch that no boundary divides.
    fn kind(&self, stretch: Span) -> Option<MemoryRegionKind> {
        if stretch.length() == 0 {
            return None;
        }
        let covering = || {
            self.firmware
                .iter()
                .filter(|(span, _)| span.contains(stretch))
        };
        if let Some((_, kind)) = covering().find(|(_, kind)| *kind != USABLE) {
            Some(MemoryRegionKind::UnknownBios(*kind))
        } else if self.used.iter().any(|span| span.contains(stretch)) {
            Some(MemoryRegionKind::Bootloader)
        } else {
            covering().next().map(|_| MemoryRegionKind::Usable)
        }
    }
}

/// One stretch of memory, given out from its start and never taken back.
#[derive(Clone, Copy, Debug)]
pub struct Arena {
    start: u64,
    next: u64,
    end: u64,
}

impl Arena {
    /// Physical address of `pages` consecutive frames, contents unspecified.
    pub fn take(&mut self, pages: u64) -> Option<u64> {
        let taken = Span::new(self.next, pages.checked_mul(PAGE)?)?;
        if taken.end > self.end {
            return None;
        }
        self.next = taken.end;
        Some(taken.start)
    }

    /// What has been given out so far.
    pub fn taken(&self) -> Span {
        Span {
            start: self.start,
            end: self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec as List;

    const RAM: u64 = 0x800_0000;

    fn pc() -> MemoryMap {
        let mut map = MemoryMap::new();
        for (start, end, kind) in [
            (0, 0x9_fc00, USABLE),
            (0x9_fc00, 0xa_0000, RESERVED),
            (0x10_0000, RAM, USABLE),
            (0xfeff_c000, 0xff00_0000, RESERVED),
            (0xfd_0000_0000, 0x100_0000_0000, RESERVED),
        ] {
            map.add_firmware(start, end - start, kind).unwrap();
        }
        map
    }

    fn listed(map: &MemoryMap) -> List<(u64, u64, MemoryRegionKind)> {
        map.regions()
            .iter()
            .map(|r| (r.start, r.end, r.kind))
            .collect()
    }

    #[test]
    fn memory_counts_in_whole_pages_inside_an_entry_and_the_rest_around_it() {
        let regions = listed(&pc());
        assert_eq!(
            regions[0],
            (0, 0x9_f000, MemoryRegionKind::Usable),
            "first entry"
        );
        assert_eq!(
            regions[1],
            (0x9_f000, 0xa_0000, MemoryRegionKind::UnknownBios(2)),
            "EBDA"
        );
    }

    #[test]
    fn what_the_loader_used_is_cut_out_of_memory() {
        let mut map = pc();
        map.add_used(Span {
            start: 0x20_0001,
            end: 0x20_1800,
        })
        .unwrap();
        let regions = listed(&map);
        let expected = [
            (0x10_0000, 0x20_0000, MemoryRegionKind::Usable),
            (0x20_0000, 0x20_2000, MemoryRegionKind::Bootloader),
            (0x20_2000, RAM, MemoryRegionKind::Usable),
        ];
        assert_eq!(
            regions[2..5],
            expected,
            "the range is widened to pages and cut out"
        );
    }

    #[test]
    fn overlapping_entries_take_the_strictest_kind() {
        let mut map = MemoryMap::new();
        map.add_firmware(0x30_0000, 0x10_0000, 4).unwrap();
        map.add_firmware(0x10_0000, 0x100_0000, USABLE).unwrap();
        map.add_firmware(0x18_0000, 0x100_0000, USABLE).unwrap();
        map.add_used(Span {
            start: 0x28_0000,
            end: 0x38_0000,
        })
        .unwrap();
        let expected = [
            (0x10_0000, 0x28_0000, MemoryRegionKind::Usable),
            (0x28_0000, 0x30_0000, MemoryRegionKind::Bootloader),
            (0x30_0000, 0x40_0000, MemoryRegionKind::UnknownBios(4)),
            (0x40_0000, 0x118_0000, MemoryRegionKind::Usable),
        ];
        assert_eq!(listed(&map), expected, "sorted, merged, strictest first");
    }

    #[test]
    fn an_entry_that_wraps_is_refused() {
        let refused = MemoryMap::new().add_firmware(u64::MAX - 10, 100, USABLE);
        assert_eq!(refused, Err(Error::Wraps(u64::MAX - 10)), "past 2^64");
    }

    #[test]
    fn a_map_with_too_many_entries_is_refused() {
        let mut map = MemoryMap::new();
        for i in 0..MAX_FIRMWARE as u64 {
            map.add_firmware(i * 0x2000, 0x1000, USABLE).unwrap();
        }
        assert_eq!(
            map.add_firmware(0, 0x1000, USABLE),
            Err(Error::TooMany),
            "one more"
        );
        assert_eq!(
            map.regions().len(),
            MAX_FIRMWARE,
            "all of them still come out"
        );
    }

    #[test]
    fn the_physical_mapping_covers_4_gib_and_all_memory_but_no_distant_hole() {
        let mut map = pc();
        assert_eq!(
            map.physical_end(),
            REACH,
            "the hole below 1 TiB does not count"
        );
        map.add_firmware(REACH, 0x8000_0000, USABLE).unwrap();
        assert_eq!(
            map.physical_end(),
            REACH + 0x8000_0000,
            "memory above 4 GiB does"
        );
    }

    #[test]
    fn the_arena_is_the_largest_free_stretch_the_loader_can_reach() {
        let mut map = pc();
        map.add_firmware(REACH, 1 << 36, USABLE).unwrap();
        map.add_used(Span {
            start: 0x10_0000,
            end: 0x14_0000,
        })
        .unwrap();
        map.add_used(Span {
            start: 0x700_0000,
            end: 0x710_0000,
        })
        .unwrap();
        let mut arena = map.arena().unwrap();
        assert_eq!(
            arena.take(2),
            Some(0x14_0000),
            "behind the loader, below the archive"
        );
        assert_eq!(arena.take(1), Some(0x14_2000), "then upwards");
        assert_eq!(
            arena.taken(),
            Span {
                start: 0x14_0000,
                end: 0x14_3000
            },
            "and all is counted"
        );
        assert_eq!(
            arena.take(0x700_0000 / PAGE),
            None,
            "but never past its end"
        );
        assert_eq!(arena.take(u64::MAX), None, "nor around the address space");
    }

    #[test]
    fn memory_is_recognized_across_adjacent_entries() {
        let mut map = pc();
        map.add_firmware(RAM, 0x10_0000, USABLE).unwrap();
        let across = Span {
            start: RAM - 5,
            end: RAM + 5,
        };
        assert!(map.is_memory(across), "two entries that touch");
        let hole = Span {
            start: 0x9_0000,
            end: 0x11_0000,
        };
        assert!(!map.is_memory(hole), "the hole below 1 MiB is not memory");
    }
}
