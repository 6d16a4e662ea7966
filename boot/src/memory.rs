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
use crate::span::Span;

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
mod tests;
