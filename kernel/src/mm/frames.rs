//! The frame allocator: one bit a frame, set when the frame is free.
//!
//! A bitmap costs 32 KiB a GiB and a scan, but needs no memory inside the
//! frames, finds runs of frames, and notices a frame freed twice. The scan
//! starts where the last one ended, so it costs about one word a call.
//!
//! The first MiB is never given out: firmware data live there, and a second
//! processor can only start there.

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use spin::Once;
use x86_64::PhysAddr;

use super::{InitError, PAGE_SIZE, phys};
use crate::sync::IrqMutex;

/// The lowest address given out.
const LOWEST: u64 = 1 << 20;

/// Where the memory below it ends for us: the video memory of a PC.
const LOW_END: u64 = 0xa_0000;

/// Free and used frames of one machine, over memory for the bits.
#[derive(Debug)]
struct FrameBitmap<'a> {
    words: &'a mut [u64],
    /// Word where the next search starts.
    next: usize,
    free: usize,
}

impl<'a> FrameBitmap<'a> {
    /// A bitmap of `64 * words.len()` frames, none of them free.
    fn new(words: &'a mut [u64]) -> Self {
        words.fill(0);
        Self {
            words,
            next: 0,
            free: 0,
        }
    }

    fn is_free(&self, frame: usize) -> bool {
        self.words
            .get(frame / 64)
            .is_some_and(|word| word & (1 << (frame % 64)) != 0)
    }

    /// Marks a frame free. False when it is already, or outside.
    fn release(&mut self, frame: usize) -> bool {
        let bit = 1 << (frame % 64);
        match self.words.get_mut(frame / 64) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.free += 1;
                true
            }
            _ => false,
        }
    }

    fn take(&mut self, frame: usize) {
        if let Some(word) = self.words.get_mut(frame / 64) {
            *word &= !(1 << (frame % 64));
            self.free -= 1;
        }
    }

    /// Takes any free frame.
    fn allocate(&mut self) -> Option<usize> {
        let (before, from_next) = self.words.split_at(self.next);
        let found = from_next
            .iter()
            .position(|&word| word != 0)
            .map(|at| at + self.next);
        let index = found.or_else(|| before.iter().position(|&word| word != 0))?;
        self.next = index;
        let bit = self.words.get(index)?.trailing_zeros();
        let frame = index * 64 + bit as usize;
        self.take(frame);
        Some(frame)
    }

    /// Takes `count` frames in a row and gives the first.
    fn allocate_run(&mut self, count: usize) -> Option<usize> {
        let mut run = 0;
        for frame in 0..self.words.len() * 64 {
            run = if self.is_free(frame) { run + 1 } else { 0 };
            if run == count && count > 0 {
                let first = frame + 1 - count;
                (first..=frame).for_each(|frame| self.take(frame));
                return Some(first);
            }
        }
        None
    }
}

static BITMAP: IrqMutex<Option<FrameBitmap<'static>>> = IrqMutex::new(None);
static REGIONS: Once<&'static [MemoryRegion]> = Once::new();

fn frame_number(address: u64) -> usize {
    (address / PAGE_SIZE) as usize
}

fn address_of(frame: usize) -> PhysAddr {
    PhysAddr::new_truncate(frame as u64 * PAGE_SIZE)
}

/// The usable part of a region in whole frames above [`LOWEST`].
fn usable(region: &MemoryRegion) -> Option<(u64, u64)> {
    if region.kind != MemoryRegionKind::Usable {
        return None;
    }
    let start = region
        .start
        .max(LOWEST)
        .checked_next_multiple_of(PAGE_SIZE)?;
    let end = region.end & !(PAGE_SIZE - 1);
    (start < end).then_some((start, end))
}

/// Takes over the usable regions.
///
/// # Errors
///
/// [`InitError::NoUsableMemory`] when none has room for the bitmap.
pub(super) fn init(regions: &'static [MemoryRegion]) -> Result<(), InitError> {
    let all = || regions.iter().filter_map(usable);
    let top = all()
        .map(|(_, end)| end)
        .max()
        .ok_or(InitError::NoUsableMemory)?;
    let words = frame_number(top).div_ceil(64);
    let bytes = (words as u64 * 8).next_multiple_of(PAGE_SIZE);
    let (home, _) = all()
        .find(|(start, end)| end - start >= bytes)
        .ok_or(InitError::NoUsableMemory)?;
    let bits: *mut u64 = phys::virt(PhysAddr::new_truncate(home)).as_mut_ptr();
    // SAFETY: the range is mapped with all of physical memory, usable, page
    // aligned, and never released below, so it is the bitmap's for ever. Any
    // content is a valid `u64`.
    let words = unsafe { core::slice::from_raw_parts_mut(bits, words) };
    let mut bitmap = FrameBitmap::new(words);
    for (start, end) in all() {
        for frame in frame_number(start)..frame_number(end) {
            let taken = (home..home + bytes).contains(&address_of(frame).as_u64());
            if !taken {
                // Regions that overlap would release a frame twice; the second
                // time has no effect.
                bitmap.release(frame);
            }
        }
    }
    BITMAP.with(|slot| *slot = Some(bitmap));
    REGIONS.call_once(|| regions);
    Ok(())
}

/// Whether the physical range touches memory that frames are given out of:
/// device registers and firmware tables never do.
pub(super) fn overlaps_usable(start: u64, end: u64) -> bool {
    REGIONS.get().is_some_and(|regions| {
        regions
            .iter()
            .filter_map(usable)
            .any(|(usable_start, usable_end)| usable_start < end && start < usable_end)
    })
}

/// The two highest usable pages below the legacy video memory, which no other
/// function gives out; the same ones at each call. Firmware's own data are at
/// the bottom.
pub(super) fn low_pages() -> Option<[PhysAddr; 2]> {
    let mut pages = REGIONS
        .get()?
        .iter()
        .filter(|region| region.kind == MemoryRegionKind::Usable)
        .flat_map(|region| {
            let first = region.start.div_ceil(PAGE_SIZE).max(1);
            let end = (region.end / PAGE_SIZE).min(LOW_END / PAGE_SIZE);
            (first..end).rev().take(2)
        });
    let (mut high, mut next) = (pages.next()?, 0);
    for page in pages {
        if page > high {
            (high, next) = (page, high);
        } else if page < high && page > next {
            next = page;
        }
    }
    let address = |page| PhysAddr::new_truncate(page * PAGE_SIZE);
    (next > 0).then(|| [address(high), address(next)])
}

/// A frame of memory that belongs to nobody else yet, filled with zeros.
pub(super) fn allocate_zeroed() -> Option<PhysAddr> {
    let frame = BITMAP
        .with(|bitmap| bitmap.as_mut()?.allocate())
        .map(address_of)?;
    // SAFETY: the frame was free until now, so nobody else uses it.
    unsafe { phys::zero_frame(frame) };
    Some(frame)
}

/// `count` frames in a row, with whatever they held; the address of the first.
pub(super) fn allocate_run(count: usize) -> Option<PhysAddr> {
    BITMAP
        .with(|bitmap| bitmap.as_mut()?.allocate_run(count))
        .map(address_of)
}

/// Gives a frame back.
///
/// # Safety
///
/// Nobody may use the frame any more, through any mapping.
///
/// # Panics
///
/// When the frame is free already: two owners have been using it, and going on
/// would hand it to a third.
pub(super) unsafe fn release(frame: PhysAddr) {
    let released = BITMAP.with(|bitmap| {
        bitmap
            .as_mut()
            .is_some_and(|bitmap| bitmap.release(frame_number(frame.as_u64())))
    });
    assert!(released, "frame {:#x} freed twice", frame.as_u64());
}

/// Bytes of memory not in use.
pub fn free_bytes() -> u64 {
    BITMAP.with(|bitmap| bitmap.as_ref().map_or(0, |bitmap| bitmap.free as u64)) * PAGE_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_free_frame_is_given_out_exactly_once() {
        let mut words = [0; 2];
        let mut bitmap = FrameBitmap::new(&mut words);
        for frame in 3..100 {
            assert!(bitmap.release(frame), "frame {frame} was in use");
        }
        let mut seen = std::vec![false; 128];
        for _ in 3..100 {
            let frame = bitmap.allocate().expect("97 frames are free");
            assert!((3..100).contains(&frame), "frame {frame} was never free");
            assert!(
                !core::mem::replace(&mut seen[frame], true),
                "frame {frame} given twice"
            );
        }
        assert_eq!(bitmap.allocate(), None, "all are in use");
        assert_eq!(bitmap.free, 0, "and counted so");
    }

    #[test]
    fn a_frame_freed_twice_is_noticed() {
        let mut words = [0; 1];
        let mut bitmap = FrameBitmap::new(&mut words);
        assert!(bitmap.release(5), "first time");
        assert!(!bitmap.release(5), "second time");
        assert!(!bitmap.release(64), "outside the bitmap");
        assert_eq!(bitmap.free, 1, "counted once");
    }

    #[test]
    fn a_run_is_contiguous_and_skips_holes() {
        let mut words = [0; 2];
        let mut bitmap = FrameBitmap::new(&mut words);
        for frame in (0..4).chain(60..70) {
            bitmap.release(frame);
        }
        assert_eq!(bitmap.allocate_run(8), Some(60), "across a word's edge");
        assert_eq!(bitmap.allocate_run(8), None, "two and four are left");
        assert_eq!(bitmap.allocate_run(4), Some(0), "four at the start");
    }

    #[test]
    fn a_region_is_cut_to_whole_frames_above_the_first_mib() {
        let region = |start, end| MemoryRegion {
            start,
            end,
            kind: MemoryRegionKind::Usable,
        };
        assert_eq!(usable(&region(0, 0xa_0000)), None, "all below 1 MiB");
        assert_eq!(
            usable(&region(0x10_0001, 0x10_3fff)),
            Some((0x10_1000, 0x10_3000)),
            "partial frames at both ends go"
        );
        let reserved = MemoryRegion {
            kind: MemoryRegionKind::Bootloader,
            ..region(0, 1 << 30)
        };
        assert_eq!(usable(&reserved), None, "not usable");
    }
}
