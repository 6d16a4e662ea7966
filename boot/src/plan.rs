//! Virtual addresses for everything the kernel is promised.
//!
//! The kernel's [`BootloaderConfig`] gives each mapping a fixed address or asks
//! for any. As in the stock bootloader, any means the lowest level-4 slots
//! (512 GiB each) that nothing else touches, inside the dynamic range, so a
//! kernel that works there finds the same arrangement here. When all addresses
//! are known, each pair is checked for overlap, which covers what the fixed
//! ones can do to each other.

use core::fmt;

use bootloader_api::BootloaderConfig;
use bootloader_api::config::Mapping;
use heapless::Vec;

use crate::PAGE;
use crate::image::{Image, is_canonical};
use crate::span::Span;

/// Address space under one entry of the top table.
const SLOT: u64 = 1 << 39;
/// Entries of the top table.
const SLOTS: usize = 512;
/// Pages of physical memory are mapped in this size at least.
const LARGE_PAGE: u64 = 2 << 20;

/// Why there is no arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A fixed address that is not aligned as its mapping needs.
    Unaligned(&'static str, u64),
    /// A mapping that leaves the canonical addresses.
    OutOfRange(&'static str, u64),
    /// Two mappings that share addresses.
    Overlap(&'static str, &'static str),
    /// No free slot for a mapping.
    NoRoom(&'static str),
    /// A fixed base for a kernel that cannot be moved.
    FixedExecutable,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unaligned(what, at) => write!(f, "the address {at:#x} of {what} is not aligned"),
            Self::OutOfRange(what, at) => {
                write!(f, "{what} at {at:#x} is out of the address range")
            }
            Self::Overlap(one, other) => write!(f, "{one} and {other} overlap"),
            Self::NoRoom(what) => write!(f, "no room in the address space for {what}"),
            Self::FixedExecutable => {
                write!(
                    f,
                    "the kernel asks for a fixed base but is not position-independent"
                )
            }
        }
    }
}

/// Sizes in bytes that the arrangement depends on.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// End of the physical memory to map.
    pub physical: u64,
    /// Pages of the RAM disk.
    pub ramdisk: u64,
    /// Boot information with its memory regions.
    pub boot_info: u64,
}

/// The arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to add to the kernel's linker addresses, modulo 2^64.
    pub base: u64,
    /// The unmapped page below the stack.
    pub stack_guard: u64,
    /// Start of the boot information.
    pub boot_info: u64,
    /// Start of the first page of the RAM disk.
    pub ramdisk: u64,
    /// Where physical address 0 is mapped, if the kernel asks for it.
    pub physical: Option<u64>,
    /// Entry of the top table that refers to that table, if asked for.
    pub recursive: Option<u16>,
}

const KERNEL: &str = "the kernel";
const STACK: &str = "the kernel stack";
const BOOT_INFO: &str = "the boot information";
const RAMDISK: &str = "the RAM disk";
const PHYSICAL: &str = "the physical memory mapping";
const RECURSIVE: &str = "the recursive page table";

impl Plan {
    /// Arranges a kernel's address space around `loader`, which stays mapped
    /// one to one until the kernel drops it.
    ///
    /// # Errors
    ///
    /// What the configuration asks for and cannot be had; see [`Error`].
    pub fn new(image: &Image<'_>, loader: Span, sizes: Sizes) -> Result<Self, Error> {
        let config = &image.config;
        let mappings = &config.mappings;
        let stack_size = config
            .kernel_stack_size
            .checked_next_multiple_of(PAGE)
            .and_then(|size| size.checked_add(PAGE))
            .ok_or(Error::NoRoom(STACK))?;
        let mut space = Space::new(config);
        space.place("the loader", loader)?;

        // Fixed places first, so that dynamic ones keep clear of them.
        let fixed_base = match (image.position_independent, mappings.kernel_base) {
            (false, Mapping::Dynamic) => Some(0),
            (false, Mapping::FixedAddress(_)) => return Err(Error::FixedExecutable),
            (true, Mapping::FixedAddress(base)) => Some(base),
            (true, Mapping::Dynamic) => None,
        };
        if let Some(base) = fixed_base {
            if !base.is_multiple_of(image.alignment) {
                return Err(Error::Unaligned(KERNEL, base));
            }
            let start = image
                .span
                .start
                .checked_add(base)
                .ok_or(Error::OutOfRange(KERNEL, base))?;
            space.fixed(KERNEL, start, image.span.length(), PAGE)?;
        }
        let wanted = [
            (STACK, Some(mappings.kernel_stack), stack_size, PAGE),
            (BOOT_INFO, Some(mappings.boot_info), sizes.boot_info, PAGE),
            (RAMDISK, Some(mappings.ramdisk_memory), sizes.ramdisk, PAGE),
            (
                PHYSICAL,
                mappings.physical_memory,
                sizes.physical,
                LARGE_PAGE,
            ),
            (RECURSIVE, mappings.page_table_recursive, SLOT, SLOT),
        ];
        for (what, mapping, size, alignment) in wanted {
            if let Some(Mapping::FixedAddress(at)) = mapping {
                space.fixed(what, at, size, alignment)?;
            }
        }

        let base = match fixed_base {
            Some(base) => base,
            None => space
                .dynamic(KERNEL, image.span.length())?
                .wrapping_sub(image.span.start),
        };
        let mut addresses = [None; 5];
        for (address, (what, mapping, size, _)) in addresses.iter_mut().zip(wanted) {
            *address = match mapping {
                Some(Mapping::FixedAddress(at)) => Some(at),
                Some(Mapping::Dynamic) => Some(space.dynamic(what, size)?),
                None => None,
            };
        }
        let [stack, boot_info, ramdisk, physical, recursive] = addresses;
        Ok(Self {
            base,
            stack_guard: stack.ok_or(Error::NoRoom(STACK))?,
            boot_info: boot_info.ok_or(Error::NoRoom(BOOT_INFO))?,
            ramdisk: ramdisk.ok_or(Error::NoRoom(RAMDISK))?,
            physical,
            recursive: recursive.map(|at| slot(at) as u16),
        })
    }
}

/// Entry of the top table that an address is under.
fn slot(address: u64) -> usize {
    (address >> 39) as usize & (SLOTS - 1)
}

/// First address under an entry of the top table.
fn slot_address(slot: usize) -> u64 {
    let low = slot as u64 * SLOT;
    if slot < SLOTS / 2 {
        low
    } else {
        low | 0xffff_0000_0000_0000
    }
}

/// What of the address space is taken.
struct Space {
    closed: [bool; SLOTS],
    placed: Vec<(&'static str, Span), 8>,
}

impl Space {
    fn new(config: &BootloaderConfig) -> Self {
        let mut closed = [false; SLOTS];
        let start = config.mappings.dynamic_range_start.unwrap_or(0);
        let end = config.mappings.dynamic_range_end.unwrap_or(u64::MAX);
        for (index, closed) in closed.iter_mut().enumerate() {
            let first = slot_address(index);
            *closed = first < start || first + (SLOT - 1) > end | (SLOT - 1);
        }
        Self {
            closed,
            placed: Vec::new(),
        }
    }

    /// Records a mapping that must be exactly there.
    fn fixed(
        &mut self,
        what: &'static str,
        at: u64,
        size: u64,
        alignment: u64,
    ) -> Result<(), Error> {
        if !at.is_multiple_of(alignment) {
            return Err(Error::Unaligned(what, at));
        }
        let last = size.checked_sub(1).and_then(|size| at.checked_add(size));
        let last = last.ok_or(Error::OutOfRange(what, at))?;
        // The last slot of all ends at 2^64, which no span can say.
        self.place(
            what,
            Span {
                start: at,
                end: last.checked_add(1).unwrap_or(last),
            },
        )
    }

    /// Finds the lowest free slots for `size` bytes.
    fn dynamic(&mut self, what: &'static str, size: u64) -> Result<u64, Error> {
        let count = usize::try_from(size.div_ceil(SLOT)).map_err(|_| Error::NoRoom(what))?;
        let free = |window: &[bool]| window.iter().all(|closed| !closed);
        // Both halves separately: no mapping spans the hole between them.
        let half = SLOTS / 2;
        let (lower, upper) = self.closed.split_at(half);
        let windows = |slots: &[bool]| slots.windows(count.max(1)).position(free);
        let first = windows(lower).or_else(|| windows(upper).map(|first| first + half));
        let at = slot_address(first.ok_or(Error::NoRoom(what))?);
        self.fixed(what, at, size, SLOT)?;
        Ok(at)
    }

    fn place(&mut self, what: &'static str, span: Span) -> Result<(), Error> {
        if !is_canonical(span) || (span.start < PAGE && what != "the loader") {
            return Err(Error::OutOfRange(what, span.start));
        }
        if let Some((other, _)) = self.placed.iter().find(|(_, placed)| placed.overlaps(span)) {
            return Err(Error::Overlap(other, what));
        }
        for closed in self
            .closed
            .iter_mut()
            .take(slot(span.end - 1) + 1)
            .skip(slot(span.start))
        {
            *closed = true;
        }
        self.placed
            .push((what, span))
            .map_err(|_| Error::NoRoom(what))
    }
}

#[cfg(test)]
mod tests;
