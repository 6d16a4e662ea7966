//! The memory of one process: its address space, what is where in it, and its
//! break.
//!
//! Changes that take something away flush the TLBs of the other processors that
//! run the process. They do so with the lock of the memory held, which is sound
//! because that is waited for with interrupts on
//! ([`Process::memory`](super::process::Process::memory)).

use core::iter::successors;
use core::ops::Range;

use timecounter::guard::GuardLine;

use super::elf::{Access, Program};
use super::layout::{self, PAGE};
use super::regions::{Regions, Use};
use super::{sched, stack};
use crate::mm::frames;
use crate::mm::paging::{AddressSpace, MapError, Protection, SharedFrame, Unmapped};

/// Pages unmapped between two flushes of the other processors' TLBs.
const BATCH: usize = 256;

/// The vDSO and what its functions read.
#[derive(Debug, Clone, Copy)]
pub struct SharedPages {
    /// The object's pages.
    pub object: &'static [SharedFrame],
    /// The timehands page.
    pub timehands: SharedFrame,
    /// The HPET's registers, if user space may read them.
    pub hpet: Option<SharedFrame>,
}

/// The memory of one process.
#[derive(Debug)]
pub struct Memory {
    space: AddressSpace,
    regions: Regions,
    /// Where the break started: the first page behind the segments.
    break_start: u64,
    /// Where it is, to the byte; memory is mapped to the end of its page.
    break_now: u64,
}

impl Memory {
    /// Maps a checked program, its stack, and the vDSO with what it reads.
    ///
    /// # Errors
    ///
    /// [`MapError::OutOfMemory`]; what was mapped so far goes with the result.
    pub fn load(
        file: &[u8],
        program: &Program,
        stack: &stack::Image,
        shared: Option<&SharedPages>,
    ) -> Result<Self, MapError> {
        let mut memory = Self {
            space: AddressSpace::new()?,
            regions: Regions::new(),
            break_start: program.end(),
            break_now: program.end(),
        };
        for segment in &program.segments {
            let protection = match segment.access {
                Access::Read => Protection::Read,
                Access::Write => Protection::ReadWrite,
                Access::Execute => Protection::ReadExecute,
            };
            memory.map(segment.pages(), Use::Program, Some(protection))?;
            let bytes = file.get(segment.file.clone()).unwrap_or_default();
            memory.fill(segment.memory.start, bytes)?;
        }
        let stack_pages = layout::STACK_BOTTOM..layout::STACK_TOP;
        memory.map(stack_pages, Use::Program, Some(Protection::ReadWrite))?;
        memory.fill(stack.pointer, &stack.bytes)?;

        if let Some(shared) = shared {
            // Its own frame, but as little the program's to take away as the rest.
            let guard = layout::GUARD..layout::GUARD + PAGE;
            memory.map(guard, Use::Shared, Some(Protection::ReadWrite))?;
            memory.map_shared(layout::TIMEHANDS, shared.timehands, Protection::Read)?;
            if let Some(hpet) = shared.hpet {
                memory.map_shared(layout::HPET, hpet, Protection::Read)?;
            }
            let addresses = (layout::VDSO..).step_by(PAGE as usize);
            for (page, &frame) in addresses.zip(shared.object) {
                memory.map_shared(page, frame, Protection::ReadExecute)?;
            }
        }
        Ok(memory)
    }

    /// The address space, to copy from and to activate.
    pub fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// The address space, to copy to.
    pub fn space_mut(&mut self) -> &mut AddressSpace {
        &mut self.space
    }

    /// The process's line of the jitter guard, if it has a vDSO.
    pub fn guard_line(&self) -> Option<&GuardLine> {
        self.space.guard_line(layout::GUARD)
    }

    fn fill(&mut self, to: u64, bytes: &[u8]) -> Result<(), MapError> {
        self.space.fill(to, bytes).map_err(|_| MapError::NotMapped)
    }

    fn map_shared(
        &mut self,
        page: u64,
        frame: SharedFrame,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.regions
            .insert(page..page + PAGE, Use::Shared)
            .map_err(|_| MapError::InUse)?;
        self.space.map_shared(page, frame, protection)
    }

    /// Takes `range` and maps zeroed memory there; without a protection it is
    /// only taken. Nothing is changed on an error.
    fn map(
        &mut self,
        range: Range<u64>,
        used_as: Use,
        protection: Option<Protection>,
    ) -> Result<(), MapError> {
        self.regions
            .insert(range.clone(), used_as)
            .map_err(|_| MapError::InUse)?;
        let Some(protection) = protection else {
            return Ok(());
        };
        let failed = if Self::is_enough(range.end - range.start) {
            pages(&range).find_map(|page| {
                let error = self.space.map(page, protection).err()?;
                Some((page, error))
            })
        } else {
            Some((range.start, MapError::OutOfMemory))
        };
        let Some((page, error)) = failed else {
            return Ok(());
        };
        self.unmap_pages(&(range.start..page));
        // It was inserted whole, so taking it out splits nothing that was not
        // split before.
        let _: Result<(), _> = self.regions.remove(&range);
        Err(error)
    }

    /// Unmaps what is mapped in `range`: pages that were only taken, of which
    /// there can be more than anybody has time to count, are passed over.
    ///
    /// The frames are freed when no processor has them in its TLB.
    fn unmap_pages(&mut self, range: &Range<u64>) {
        let mut rest = range.clone();
        loop {
            let mut batch = heapless::Vec::<Unmapped, BATCH>::new();
            while !batch.is_full()
                && let Some(page) = self.space.next_mapped(&rest)
            {
                rest.start = page + PAGE;
                // It is mapped and there is room, so nothing can go wrong.
                if let Ok(frame) = self.space.unmap(page) {
                    let _: Result<(), Unmapped> = batch.push(frame);
                }
            }
            if batch.is_empty() {
                return;
            }
            sched::flush_others();
        }
    }

    /// Whether so much memory is free that a request for `size` bytes need not
    /// be refused before it takes the last.
    fn is_enough(size: u64) -> bool {
        size <= frames::free_bytes()
    }

    /// Maps `size` bytes somewhere, at `hint` if that is free.
    ///
    /// # Errors
    ///
    /// [`MapError::OutOfMemory`] when memory or addresses are short.
    pub fn map_anonymous(
        &mut self,
        hint: u64,
        size: u64,
        protection: Option<Protection>,
    ) -> Result<u64, MapError> {
        let bounds = layout::MMAP_BOTTOM..layout::MMAP_TOP;
        let wanted = hint..hint.saturating_add(size);
        let range = if hint.is_multiple_of(PAGE)
            && bounds.start <= wanted.start
            && wanted.end <= bounds.end
            && self.regions.is_free(&wanted)
        {
            wanted
        } else {
            self.regions
                .find_free(size, &bounds)
                .ok_or(MapError::OutOfMemory)?
        };
        self.map(range.clone(), Use::Anonymous, protection)?;
        Ok(range.start)
    }

    /// Maps memory at exactly `range`, in the place of anonymous memory that
    /// may be there.
    ///
    /// # Errors
    ///
    /// [`MapError::InUse`] over segments, stack or vDSO, else as
    /// [`map_anonymous`](Self::map_anonymous).
    pub fn map_fixed(
        &mut self,
        range: Range<u64>,
        protection: Option<Protection>,
    ) -> Result<(), MapError> {
        self.unmap(&range)?;
        self.map(range, Use::Anonymous, protection)
    }

    /// Gives anonymous memory in `range` back. It is no error if there is none.
    ///
    /// # Errors
    ///
    /// [`MapError::BadAddress`] outside user space, [`MapError::InUse`] over
    /// segments, stack or vDSO, [`MapError::OutOfMemory`] if the process has
    /// too many regions to split one.
    pub fn unmap(&mut self, range: &Range<u64>) -> Result<(), MapError> {
        if range.start < layout::LOWEST || range.end > layout::LIMIT {
            return Err(MapError::BadAddress);
        }
        if !self.regions.is_removable(range) {
            return Err(MapError::InUse);
        }
        // Only where something is: the range may be all of user space.
        let used: alloc::vec::Vec<Range<u64>> = self
            .regions
            .iter()
            .map(|region| region.range.start.max(range.start)..region.range.end.min(range.end))
            .filter(|part| part.start < part.end)
            .collect();
        self.regions
            .remove(range)
            .map_err(|_| MapError::OutOfMemory)?;
        for part in used {
            self.unmap_pages(&part);
        }
        Ok(())
    }

    /// Changes what the program may do with its memory in `range`.
    ///
    /// # Errors
    ///
    /// [`MapError::NotMapped`] with a hole or a shared page in the range,
    /// [`MapError::OutOfMemory`].
    pub fn protect(&mut self, range: &Range<u64>, protection: Protection) -> Result<(), MapError> {
        if !self.regions.is_changeable(range) {
            return Err(MapError::NotMapped);
        }
        let mapped = successors(self.space.next_mapped(range), |page| {
            self.space.next_mapped(&(page + PAGE..range.end))
        });
        let missing = range.end - range.start - mapped.count() as u64 * PAGE;
        if !Self::is_enough(missing) {
            return Err(MapError::OutOfMemory);
        }
        let changed = pages(range).try_for_each(|page| {
            match self.space.protect(page, protection) {
                // Taken without access, and used now.
                Err(MapError::NotMapped) => self.space.map(page, protection),
                other => other,
            }
        });
        // Also where more is allowed now: an old entry would be a fault.
        sched::flush_others();
        changed
    }

    /// Moves the break to `wanted` if that can be, and says where it is then.
    pub fn set_break(&mut self, wanted: u64) -> u64 {
        let ends = layout::page_end(wanted).zip(layout::page_end(self.break_now));
        if let Some((new, old)) = ends
            && (self.break_start..=layout::MMAP_BOTTOM).contains(&wanted)
        {
            let moved = if new > old {
                self.map(old..new, Use::Anonymous, Some(Protection::ReadWrite))
            } else {
                self.unmap(&(new..old))
            };
            if moved.is_ok() {
                self.break_now = wanted;
            }
        }
        self.break_now
    }
}

fn pages(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    range.clone().step_by(PAGE as usize)
}
