//! Relocations of a static position-independent kernel.
//!
//! With everything linked into one file, the only relocation left is
//! `R_X86_64_RELATIVE`: store base + addend at an address (System V ABI,
//! AMD64 supplement, table 4.9). Its table is found through the dynamic
//! section and lies in the loaded image. The packed form (`DT_RELR`) and tables
//! for a procedure linkage table come only from options that kernels do not
//! use, and are refused rather than left out.

use elf::abi;

use crate::handover::u64_at;
use crate::image::{Error, Image};
use crate::span::Span;

/// Tag of the packed form, which the `elf` crate has no name for.
const DT_RELR: i64 = 36;
/// Bytes of a dynamic entry: tag and value.
const DYNAMIC: usize = 16;
/// Bytes of a relocation with addend: offset, type and symbol, addend.
const RELA: u64 = 24;

/// Applies all relocations named in `table`, the dynamic section, to `memory`.
pub(crate) fn apply(
    image: &Image<'_>,
    table: &[u8],
    memory: &mut [u8],
    base: u64,
) -> Result<(), Error> {
    let entries = || {
        let pairs = table
            .chunks_exact(DYNAMIC)
            .map(|e| (u64_at(e, 0) as i64, u64_at(e, 8)));
        pairs.take_while(|(tag, _)| *tag != abi::DT_NULL)
    };
    let value = |tag: i64| {
        entries()
            .find(|(found, _)| *found == tag)
            .map(|(_, value)| value)
    };

    for tag in [abi::DT_REL, DT_RELR, abi::DT_JMPREL] {
        if value(tag).is_some() {
            return Err(Error::Malformed(
                "relocation table (only DT_RELA is supported)",
            ));
        }
    }
    let (Some(start), Some(length)) = (value(abi::DT_RELA), value(abi::DT_RELASZ)) else {
        return Ok(());
    };
    if value(abi::DT_RELAENT).is_some_and(|size| size != RELA) {
        return Err(Error::Malformed("relocation size"));
    }
    let table = Span::new(start, length).filter(|table| image.span.contains(*table));
    let table = table.ok_or(Error::RelocationTarget(start))?;
    for index in 0..table.length() / RELA {
        let at = (table.start - image.span.start + index * RELA) as usize;
        let entry = memory
            .get(at..at + RELA as usize)
            .ok_or(Error::RelocationTarget(start))?;
        let (offset, info, addend) = (u64_at(entry, 0), u64_at(entry, 8), u64_at(entry, 16));
        match info as u32 {
            abi::R_X86_64_NONE => {}
            abi::R_X86_64_RELATIVE if info >> 32 == 0 => {
                store(image, memory, offset, base.wrapping_add(addend))?;
            }
            other => return Err(Error::Relocation(other)),
        }
    }
    Ok(())
}

/// Stores a pointer at a linker's address that must lie in a segment.
fn store(image: &Image<'_>, memory: &mut [u8], at: u64, value: u64) -> Result<(), Error> {
    let bytes = value.to_le_bytes();
    let target = Span::new(at, bytes.len() as u64)
        .filter(|target| {
            image
                .segments
                .iter()
                .any(|segment| segment.span.contains(*target))
        })
        .ok_or(Error::RelocationTarget(at))?;
    let offset = (target.start - image.span.start) as usize;
    memory
        .get_mut(offset..offset + bytes.len())
        .ok_or(Error::RelocationTarget(at))?
        .copy_from_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Kernel;
    use std::vec;

    fn load(kernel: Kernel) -> Result<(), Error> {
        let file = kernel.build();
        let image = Image::parse(&file).unwrap();
        let mut memory = vec![0; image.span.length() as usize];
        image.load(&mut memory, 0x10_0000)
    }

    #[test]
    fn a_relocation_of_another_type_is_refused() {
        let refused = load(Kernel {
            relocation: (0x2000, 6),
            ..Kernel::default()
        });
        assert_eq!(refused, Err(Error::Relocation(6)), "R_X86_64_GLOB_DAT");
        let symbol = u64::from(abi::R_X86_64_RELATIVE) | 1 << 32;
        let refused = load(Kernel {
            relocation: (0x2000, symbol),
            ..Kernel::default()
        });
        assert_eq!(
            refused,
            Err(Error::Relocation(8)),
            "one that names a symbol"
        );
    }

    #[test]
    fn a_relocation_outside_the_segments_is_refused() {
        for at in [0x800, 0x5000, 0x3ffc, u64::MAX - 3] {
            let relocation = (at, abi::R_X86_64_RELATIVE.into());
            let refused = load(Kernel {
                relocation,
                ..Kernel::default()
            });
            assert_eq!(refused, Err(Error::RelocationTarget(at)), "at {at:#x}");
        }
    }

    #[test]
    fn a_packed_table_is_refused_rather_than_left_out() {
        let refused = load(Kernel {
            dynamic_tag: DT_RELR,
            ..Kernel::default()
        });
        assert!(
            matches!(refused, Err(Error::Malformed(_))),
            "DT_RELR: {refused:?}"
        );
    }
}
