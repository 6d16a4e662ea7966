//! The Multiboot2 door: the boot information GRUB passes, on BIOS and on UEFI.
//!
//! Source: Multiboot2 Specification 2.0, section 3.6. The information is one
//! block, its total size first, then tags of a type and a size each, padded to
//! 8 bytes. The `multiboot2` crate reads the same format through a raw pointer
//! with the sizes it finds there; here the block is a slice that was bounded
//! once, and a walk over it cannot leave it.
//!
//! GRUB has left boot services when it enters here on UEFI machines and
//! describes memory with E820 types on both, so there is one path.
//!
//! GRUB passes the ACPI root pointer as a copy inside the block, so the block's
//! pages are set aside: the kernel reads the copy there.

use heapless::Vec;

use crate::handover::{
    Error, Handover, MAX_COMMAND_LINE, PhysicalMemory, structure, u32_at, u64_at,
};
use crate::memory::MemoryMap;
use crate::span::Span;

/// What the boot loader leaves in EAX; the entry code passes it on to say which
/// door the CPU came through.
pub const MAGIC: u32 = 0x36d7_6289;

/// Total size and a reserved word, before the first tag.
const HEADER: usize = 8;
/// A block is a few KiB; this bounds what one wrong word can do.
const MAX_SIZE: u32 = 1 << 20;

const TAG_END: u32 = 0;
const TAG_COMMAND_LINE: u32 = 1;
const TAG_MODULE: u32 = 3;
const TAG_MEMORY_MAP: u32 = 6;
const TAG_ACPI_OLD: u32 = 14;
const TAG_ACPI_NEW: u32 = 15;

/// Reads the boot information at `address`.
///
/// The first module is the archive; further ones are left alone.
///
/// # Errors
///
/// Whatever makes it unusable; see [`Error`].
pub fn read(memory: &impl PhysicalMemory, address: u64) -> Result<Handover, Error> {
    const WHAT: &str = "boot information";
    let size = u32_at(structure(memory, WHAT, address, HEADER as u64)?, 0);
    if size < HEADER as u32 || size > MAX_SIZE {
        return Err(Error::BadSize(WHAT, size));
    }
    let block = structure(memory, WHAT, address, u64::from(size))?;

    let mut map = MemoryMap::new();
    let mut archive = None;
    let mut command_line = Vec::new();
    let (mut old_rsdp, mut new_rsdp) = (None, None);
    let mut at = HEADER;
    // A block that ends without an end tag ends all the same.
    while let Some(tag) = block.get(at..).filter(|tag| tag.len() >= HEADER) {
        let (kind, length) = (u32_at(tag, 0), u32_at(tag, 4));
        let Some(body) = tag.get(HEADER..length as usize) else {
            return Err(Error::BadSize("a boot information tag", length));
        };
        let body_address = address + (at + HEADER) as u64;
        match kind {
            TAG_END => break,
            TAG_COMMAND_LINE => command_line = text(body)?,
            TAG_MODULE if archive.is_none() && body.len() >= 8 => {
                let (start, end) = (u32_at(body, 0), u32_at(body, 4));
                archive = Some(Span {
                    start: start.into(),
                    end: end.into(),
                });
            }
            TAG_MEMORY_MAP => add_memory(&mut map, body)?,
            TAG_ACPI_OLD => old_rsdp = Some(body_address),
            TAG_ACPI_NEW => new_rsdp = Some(body_address),
            _ => {}
        }
        at += (length as usize).next_multiple_of(8);
    }
    map.add_used(Span {
        start: address,
        end: address + u64::from(size),
    })?;
    Handover::new(map, archive, command_line, new_rsdp.or(old_rsdp))
}

/// Entry size and version, then the entries: address and length of 8 bytes
/// each, E820 type of 4.
fn add_memory(map: &mut MemoryMap, body: &[u8]) -> Result<(), Error> {
    let entry_size = u32_at(body, 0);
    if !(20..=256).contains(&entry_size) {
        return Err(Error::BadSize("a memory map entry", entry_size));
    }
    let entries = body
        .get(8..)
        .unwrap_or_default()
        .chunks_exact(entry_size as usize);
    for entry in entries {
        map.add_firmware(u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))?;
    }
    Ok(())
}

fn text(body: &[u8]) -> Result<Vec<u8, MAX_COMMAND_LINE>, Error> {
    let end = body
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(body.len());
    let line = body.get(..end).unwrap_or_default();
    Vec::from_slice(line).map_err(|_| Error::LongCommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Ram, boot_information};

    #[test]
    fn grubs_block_is_read_whole() {
        let handover = read(&boot_information(), Ram::BASE).unwrap();
        assert_eq!(
            handover.command_line.as_slice(),
            b"kern.hz=100",
            "command line"
        );
        assert_eq!(
            handover.archive,
            Span {
                start: 0x70_0000,
                end: 0x78_0000
            },
            "first module"
        );
        let rsdp = handover.rsdp.unwrap();
        let there = Span {
            start: rsdp,
            end: rsdp + 11,
        };
        let ram = boot_information();
        assert_eq!(
            ram.bytes(there).unwrap(),
            b"RSD PTR new",
            "the newer pointer, where its copy is"
        );
    }

    #[test]
    fn the_block_is_set_aside_for_its_copy_of_the_root_pointer() {
        let handover = read(&boot_information(), Ram::BASE).unwrap();
        let kept = handover.memory.regions().into_iter().any(|region| {
            region.kind == bootloader_api::info::MemoryRegionKind::Bootloader
                && region.start <= Ram::BASE
                && Ram::BASE < region.end
        });
        assert!(kept, "the block's page is not usable memory");
    }

    #[test]
    fn an_impossible_total_size_is_refused() {
        for size in [0, 7, MAX_SIZE + 1, u32::MAX] {
            let mut ram = boot_information();
            ram.put_u32(0, size);
            let error = read(&ram, Ram::BASE).unwrap_err();
            assert_eq!(
                error,
                Error::BadSize("boot information", size),
                "size {size}"
            );
        }
    }

    #[test]
    fn a_tag_that_leaves_the_block_is_refused() {
        for size in [0, 7, 0x10_0000] {
            let mut ram = boot_information();
            ram.put_u32(HEADER + 4, size);
            let error = read(&ram, Ram::BASE).unwrap_err();
            assert_eq!(
                error,
                Error::BadSize("a boot information tag", size),
                "size {size}"
            );
        }
    }
}
