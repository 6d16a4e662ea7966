//! The PVH door: `hvm_start_info` as Xen, QEMU, Firecracker and Cloud
//! Hypervisor pass it.
//!
//! Source: Xen, `xen/include/public/arch-x86/hvm/start_info.h`. All fields are
//! little-endian, all addresses physical. The memory map came with version 1
//! of the structure; QEMU has never passed version 0.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic 0x336ec578 |
//! | 4 | 4 | version |
//! | 8 | 4 | flags |
//! | 12 | 4 | number of modules |
//! | 16 | 8 | module list: address, size, command line, 0, each 8 bytes |
//! | 24 | 8 | command line, NUL-terminated, or 0 |
//! | 32 | 8 | RSDP, or 0 |
//! | 40 | 8 | memory map: address and size, 8 bytes each, type and 0, 4 each |
//! | 48 | 4 | entries in the memory map |

use heapless::Vec;

use crate::handover::{
    Error, Handover, MAX_COMMAND_LINE, PhysicalMemory, structure, u32_at, u64_at,
};
use crate::memory::MemoryMap;
use crate::span::Span;

/// First word of the structure; the entry code passes it on to say which door
/// the CPU came through.
pub const MAGIC: u32 = 0x336e_c578;

const HEADER: u64 = 40;
const MODULE: u64 = 32;
const MAP_ENTRY: usize = 24;

/// Reads the structure at `address`.
///
/// # Errors
///
/// Whatever makes it unusable; see [`Error`].
pub fn read(memory: &impl PhysicalMemory, address: u64) -> Result<Handover, Error> {
    let info = structure(memory, "start info", address, HEADER)?;
    let magic = u32_at(info, 0);
    if magic != MAGIC {
        return Err(Error::BadMagic(magic));
    }
    let version = u32_at(info, 4);
    if version == 0 {
        return Err(Error::NoMemoryMap);
    }
    let map = memory_map(memory, address)?;

    let archive = match u32_at(info, 12) {
        0 => None,
        _ => {
            let list = u64_at(info, 16);
            let module = structure(memory, "module list", list, MODULE)?;
            let (start, length) = (u64_at(module, 0), u64_at(module, 8));
            let span = Span::new(start, length).ok_or(Error::OutOfReach("module", start))?;
            Some(span)
        }
    };
    let command_line = match u64_at(info, 24) {
        0 => Vec::new(),
        line => command_line(memory, line)?,
    };
    let rsdp = Some(u64_at(info, 32)).filter(|&rsdp| rsdp != 0);
    Handover::new(map, archive, command_line, rsdp)
}

fn memory_map(memory: &impl PhysicalMemory, address: u64) -> Result<MemoryMap, Error> {
    let info = structure(memory, "start info", address, HEADER + 16)?;
    let (table, entries) = (u64_at(info, 40), u32_at(info, 48));
    let mut map = MemoryMap::new();
    if table == 0 || entries == 0 {
        return Err(Error::NoMemoryMap);
    }
    let table = structure(
        memory,
        "memory map",
        table,
        u64::from(entries) * MAP_ENTRY as u64,
    )?;
    for entry in table.chunks_exact(MAP_ENTRY) {
        map.add_firmware(u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))?;
    }
    Ok(map)
}

/// Copies a NUL-terminated line. Byte by byte, because the memory behind its
/// end need not be there.
fn command_line(
    memory: &impl PhysicalMemory,
    address: u64,
) -> Result<Vec<u8, MAX_COMMAND_LINE>, Error> {
    let mut line = Vec::new();
    for offset in 0..=MAX_COMMAND_LINE as u64 {
        let at = address.wrapping_add(offset);
        match structure(memory, "command line", at, 1)?.first() {
            Some(&byte) if byte != 0 => line.push(byte).map_err(|_| Error::LongCommandLine)?,
            _ => break,
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::USABLE;
    use crate::samples::{Ram, start_info};

    #[test]
    fn qemus_structure_is_read_whole() {
        let handover = read(&start_info(b"kern.hz=100"), Ram::BASE).unwrap();
        assert_eq!(
            handover.command_line.as_slice(),
            b"kern.hz=100",
            "command line"
        );
        assert_eq!(handover.rsdp, Some(0xf_5a00), "RSDP");
        assert_eq!(
            handover.archive,
            Span {
                start: 0x700_0000,
                end: 0x710_0000
            },
            "module"
        );
        assert!(
            handover.memory.is_memory(Span {
                start: 0x10_0000,
                end: 0x20_0000
            }),
            "memory"
        );
    }

    #[test]
    fn an_absent_command_line_is_an_empty_one() {
        let mut ram = start_info(b"");
        ram.put_u64(24, 0);
        let handover = read(&ram, Ram::BASE).unwrap();
        assert!(handover.command_line.is_empty(), "no pointer, no line");
    }

    #[test]
    fn another_magic_number_is_refused() {
        let mut ram = start_info(b"");
        ram.put_u32(0, 0x1bad_b002);
        assert_eq!(
            read(&ram, Ram::BASE).unwrap_err(),
            Error::BadMagic(0x1bad_b002),
            "magic"
        );
    }

    #[test]
    fn a_structure_without_a_memory_map_is_refused() {
        for (offset, value) in [(4, 0), (40, 0), (48, 0)] {
            let mut ram = start_info(b"");
            ram.put_u32(offset, value);
            let error = read(&ram, Ram::BASE).unwrap_err();
            assert_eq!(error, Error::NoMemoryMap, "with 0 at {offset}");
        }
        let mut ram = start_info(b"");
        for entry in 0..3 {
            ram.put_u32(Ram::MAP + entry * MAP_ENTRY + 16, USABLE + 1);
        }
        assert_eq!(
            read(&ram, Ram::BASE).unwrap_err(),
            Error::NoMemoryMap,
            "no memory in it"
        );
    }

    #[test]
    fn a_missing_module_is_named() {
        let mut ram = start_info(b"");
        ram.put_u32(12, 0);
        assert_eq!(
            read(&ram, Ram::BASE).unwrap_err(),
            Error::NoModule,
            "count of 0"
        );
        let mut ram = start_info(b"");
        ram.put_u64(Ram::MODULES + 8, 0);
        assert_eq!(
            read(&ram, Ram::BASE).unwrap_err(),
            Error::NoModule,
            "an empty one"
        );
    }

    #[test]
    fn a_module_outside_memory_is_refused() {
        let mut ram = start_info(b"");
        ram.put_u64(Ram::MODULES, 0xfee0_0000);
        let error = read(&ram, Ram::BASE).unwrap_err();
        assert!(
            matches!(error, Error::ModuleNotInMemory(_)),
            "at the APIC: {error}"
        );
        ram.put_u64(Ram::MODULES, u64::MAX);
        let error = read(&ram, Ram::BASE).unwrap_err();
        assert_eq!(error, Error::OutOfReach("module", u64::MAX), "wrapping");
    }

    #[test]
    fn pointers_out_of_reach_are_named() {
        for (offset, what) in [
            (16, "module list"),
            (24, "command line"),
            (40, "memory map"),
        ] {
            let mut ram = start_info(b"");
            ram.put_u64(offset, 1 << 40);
            let error = read(&ram, Ram::BASE).unwrap_err();
            assert_eq!(
                error,
                Error::OutOfReach(what, 1 << 40),
                "pointer at {offset}"
            );
        }
    }

    #[test]
    fn a_command_line_longer_than_the_limit_is_refused() {
        let ram = start_info(&[b'x'; MAX_COMMAND_LINE]);
        let handover = read(&ram, Ram::BASE).unwrap();
        assert_eq!(
            handover.command_line.len(),
            MAX_COMMAND_LINE,
            "the limit itself"
        );
        let ram = start_info(&[b'x'; MAX_COMMAND_LINE + 1]);
        assert_eq!(
            read(&ram, Ram::BASE).unwrap_err(),
            Error::LongCommandLine,
            "one more"
        );
    }
}
