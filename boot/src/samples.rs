//! Well-formed inputs for the tests, to be damaged one field at a time.

use std::vec;
use std::vec::Vec;

use bootloader_api::BootloaderConfig;
use elf::abi;

use crate::archive::{entry_length, write_entry};
use crate::handover::PhysicalMemory;
use crate::memory::{RESERVED, USABLE};
use crate::pvh;
use crate::span::Span;

/// A piece of memory with a boot protocol's structures at its start.
#[derive(Clone)]
pub(crate) struct Ram(pub(crate) Vec<u8>);

impl Ram {
    /// Its physical address.
    pub(crate) const BASE: u64 = 0x9000;
    /// Offset of the PVH module list.
    pub(crate) const MODULES: usize = 64;
    /// Offset of the PVH memory map.
    pub(crate) const MAP: usize = 128;
    const COMMAND_LINE: usize = 256;

    pub(crate) fn put_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn put_u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl PhysicalMemory for Ram {
    fn bytes(&self, span: Span) -> Option<&[u8]> {
        let start = usize::try_from(span.start.checked_sub(Self::BASE)?).ok()?;
        let end = usize::try_from(span.end.checked_sub(Self::BASE)?).ok()?;
        self.0.get(start..end)
    }
}

const MEMORY: [(u64, u64, u32); 3] = [
    (0, 0x9_f000, USABLE),
    (0xf_0000, 0x1_0000, RESERVED),
    (0x10_0000, 0x7f0_0000, USABLE),
];

/// What QEMU passes to a machine with 128 MiB.
pub(crate) fn start_info(command_line: &[u8]) -> Ram {
    let mut ram = Ram(vec![0; 8192]);
    ram.put_u32(0, pvh::MAGIC);
    ram.put_u32(4, 1);
    ram.put_u32(12, 1);
    ram.put_u64(16, Ram::BASE + Ram::MODULES as u64);
    ram.put_u64(24, Ram::BASE + Ram::COMMAND_LINE as u64);
    ram.put_u64(32, 0xf_5a00);
    ram.put_u64(40, Ram::BASE + Ram::MAP as u64);
    ram.put_u32(48, MEMORY.len() as u32);
    ram.put_u64(Ram::MODULES, 0x700_0000);
    ram.put_u64(Ram::MODULES + 8, 0x10_0000);
    for (index, (start, length, kind)) in MEMORY.into_iter().enumerate() {
        let at = Ram::MAP + 24 * index;
        ram.put_u64(at, start);
        ram.put_u64(at + 8, length);
        ram.put_u32(at + 16, kind);
    }
    ram.0[Ram::COMMAND_LINE..][..command_line.len()].copy_from_slice(command_line);
    ram
}

/// What GRUB passes, shortened to the tags that matter.
pub(crate) fn boot_information() -> Ram {
    let mut block = vec![0; 8];
    let mut tag = |kind: u32, body: &[u8]| {
        block.extend_from_slice(&kind.to_le_bytes());
        block.extend_from_slice(&(body.len() as u32 + 8).to_le_bytes());
        block.extend_from_slice(body);
        block.resize(block.len().next_multiple_of(8), 0);
    };
    tag(1, b"kern.hz=100\0");
    tag(2, b"GRUB 2.06\0");
    for (start, end) in [(0x70_0000_u32, 0x78_0000_u32), (0x80_0000, 0x80_1000)] {
        let module = [&start.to_le_bytes()[..], &end.to_le_bytes(), b"archive\0"].concat();
        tag(3, &module);
    }
    let mut map = [24_u32.to_le_bytes(), [0; 4]].concat();
    for (start, length, kind) in MEMORY {
        map.extend_from_slice(&start.to_le_bytes());
        map.extend_from_slice(&length.to_le_bytes());
        map.extend_from_slice(&u64::from(kind).to_le_bytes());
    }
    tag(6, &map);
    tag(14, b"RSD PTR old.........");
    tag(15, b"RSD PTR new.........................");
    tag(0, b"");
    let size = block.len() as u32;
    block[..4].copy_from_slice(&size.to_le_bytes());
    block.resize(8192, 0);
    Ram(block)
}

/// An archive of these entries, in the format the loader itself writes.
pub(crate) fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, contents) in entries {
        let at = bytes.len();
        bytes.resize(at + entry_length(contents.len()), 0);
        write_entry(&mut bytes[at..], name, contents).expect("room for it");
        bytes.truncate(bytes.len() - 1024);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Linker's address of [`Kernel`]'s only instruction.
pub(crate) const KERNEL_ENTRY: u64 = 0x1010;

/// A position-independent kernel of three segments: headers and tables at 0,
/// code at 0x1000, data and bss at 0x2000, one relocated pointer in the data.
pub(crate) struct Kernel {
    pub(crate) machine: u16,
    pub(crate) kind: u16,
    pub(crate) text_flags: u32,
    pub(crate) data_address: u64,
    pub(crate) entry: u64,
    pub(crate) config_name: &'static str,
    /// Offset and info of the relocation.
    pub(crate) relocation: (u64, u64),
    pub(crate) dynamic_tag: i64,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            machine: abi::EM_X86_64,
            kind: abi::ET_DYN,
            text_flags: abi::PF_R | abi::PF_X,
            data_address: 0x2000,
            entry: KERNEL_ENTRY,
            config_name: ".bootloader-config",
            relocation: (0x2000, abi::R_X86_64_RELATIVE.into()),
            dynamic_tag: abi::DT_RELA,
        }
    }
}

impl Kernel {
    pub(crate) fn build(&self) -> Vec<u8> {
        const RELA: u64 = 0x200;
        const DYNAMIC: u64 = 0x240;
        const CONFIG: u64 = 0x300;
        const NAMES: u64 = 0x400;
        const DATA: u64 = 0x1020;
        const SECTIONS: u64 = 0x1030;
        let mut file = vec![0; SECTIONS as usize];
        let mut config = BootloaderConfig::new_default();
        config.kernel_stack_size = 0x1_8000;
        let config = config.serialize();

        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 16, &words16(&[self.kind, self.machine]));
        put(&mut file, 20, &1_u32.to_le_bytes());
        put(&mut file, 24, &words(&[self.entry, 64, SECTIONS]));
        put(&mut file, 52, &words16(&[64, 56, 4, 64, 3, 2]));
        let segments = [
            (abi::PT_LOAD, abi::PF_R, 0, 0, 0x500, 0x500),
            (abi::PT_LOAD, self.text_flags, 0x1000, 0x1000, 0x20, 0x20),
            (
                abi::PT_LOAD,
                abi::PF_R | abi::PF_W,
                DATA,
                self.data_address,
                0x10,
                0x2000,
            ),
            (abi::PT_DYNAMIC, abi::PF_R, DYNAMIC, DYNAMIC, 0x40, 0x40),
        ];
        for (index, (kind, flags, offset, address, size, memory)) in
            segments.into_iter().enumerate()
        {
            let at = 64 + 56 * index;
            put(&mut file, at, &kind.to_le_bytes());
            put(&mut file, at + 4, &flags.to_le_bytes());
            put(
                &mut file,
                at + 8,
                &words(&[offset, address, address, size, memory, 0x1000]),
            );
        }
        put(
            &mut file,
            RELA as usize,
            &words(&[self.relocation.0, self.relocation.1, 0x1000]),
        );
        let tags = [
            (self.dynamic_tag, RELA),
            (abi::DT_RELASZ, 24),
            (abi::DT_RELAENT, 24),
        ];
        for (index, (tag, value)) in tags.into_iter().enumerate() {
            put(
                &mut file,
                DYNAMIC as usize + 16 * index,
                &words(&[tag as u64, value]),
            );
        }
        put(&mut file, CONFIG as usize, &config);
        put(&mut file, NAMES as usize + 1, self.config_name.as_bytes());
        put(&mut file, KERNEL_ENTRY as usize, &[0xf4]);

        let sections = [
            (0, 0, 0, 0),
            (1, abi::SHT_PROGBITS, CONFIG, config.len() as u64),
            (0, abi::SHT_STRTAB, NAMES, 0x40),
        ];
        for (name, kind, offset, size) in sections {
            let mut section = vec![0; 64];
            put(&mut section, 0, &u32::to_le_bytes(name));
            put(&mut section, 4, &kind.to_le_bytes());
            put(&mut section, 24, &words(&[offset, size]));
            file.extend_from_slice(&section);
        }
        file
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn words(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn words16(values: &[u16]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
