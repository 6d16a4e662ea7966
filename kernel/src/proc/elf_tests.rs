//! One sound executable, each of the reasons against one, and mutations.

use alloc::vec;
use alloc::vec::Vec;

use super::{Access, ElfError, Program, check};
use crate::proc::layout;

const TEXT: u64 = 0x40_1000;

struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

const LOAD: u32 = 1;
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

fn load(flags: u32, offset: u64, address: u64, file_size: u64, memory_size: u64) -> Header {
    Header {
        kind: LOAD,
        flags,
        offset,
        address,
        file_size,
        memory_size,
    }
}

/// Makes something sound unsound.
type Change<T> = fn(&mut T);

/// An executable of 16 KiB with these program headers.
fn file(headers: &[Header]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\x00\0\0\0\0\0\0\0\0");
    file.extend_from_slice(&2_u16.to_le_bytes());
    file.extend_from_slice(&62_u16.to_le_bytes());
    file.extend_from_slice(&1_u32.to_le_bytes());
    for word in [TEXT + 0x10, 64, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&0_u32.to_le_bytes());
    for half in [64, 56, headers.len() as u16, 64, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for header in headers {
        file.extend_from_slice(&header.kind.to_le_bytes());
        file.extend_from_slice(&header.flags.to_le_bytes());
        for word in [
            header.offset,
            header.address,
            header.address,
            header.file_size,
            header.memory_size,
            4096,
        ] {
            file.extend_from_slice(&word.to_le_bytes());
        }
    }
    file.resize(0x4000, 0);
    file
}

/// Headers and constants, code, data with zeroed bytes behind it.
fn sound() -> Vec<Header> {
    vec![
        load(READ, 0, 0x40_0000, 0x800, 0x800),
        load(READ | EXECUTE, 0x1000, TEXT, 0x800, 0x800),
        load(READ | WRITE, 0x1c00, 0x40_2c00, 0x100, 0x4000),
    ]
}

fn sound_program() -> Program {
    check(&file(&sound())).expect("a sound executable")
}

#[test]
fn a_sound_executable_is_accepted_with_all_it_says() {
    let program = sound_program();
    assert_eq!(program.entry, TEXT + 0x10, "entry");
    assert_eq!(program.headers, Some(0x40_0040), "headers in memory");
    assert_eq!(program.header_count, 3, "header count");
    let access: Vec<Access> = program.segments.iter().map(|s| s.access).collect();
    assert_eq!(
        access,
        [Access::Read, Access::Execute, Access::Write],
        "permissions"
    );
    let data = &program.segments[2];
    assert_eq!(data.file, 0x1c00..0x1d00, "bytes of the file");
    assert_eq!(data.memory, 0x40_2c00..0x40_6c00, "and zeros behind");
    assert_eq!(data.pages(), 0x40_2000..0x40_7000, "whole pages");
    assert_eq!(program.end(), 0x40_7000, "where the break starts");
}

#[test]
fn each_reason_against_a_file_is_named() {
    let cases: [(&str, ElfError, Change<Vec<u8>>); 12] = [
        ("a script", ElfError::NotElf, |file| file[0] = b'#'),
        ("cut off", ElfError::NotElf, |file| file.truncate(63)),
        ("32-bit", ElfError::Class32, |file| file[4] = 1),
        ("class 7", ElfError::Malformed, |file| file[4] = 7),
        ("big-endian", ElfError::BigEndian, |file| file[5] = 2),
        ("AArch64", ElfError::Machine(183), |file| file[18] = 183),
        ("FreeBSD", ElfError::OtherSystem(9), |file| file[7] = 9),
        ("object file", ElfError::NotExecutable, |file| file[16] = 1),
        ("PIE", ElfError::PositionIndependent, |file| file[16] = 3),
        ("headers outside", ElfError::Malformed, |file| {
            file[39] = 0xff
        }),
        ("header size", ElfError::Malformed, |file| file[54] = 32),
        ("many headers", ElfError::TooManySegments, |file| {
            file[57] = 0xff;
        }),
    ];
    for (what, expected, change) in cases {
        let mut file = file(&sound());
        change(&mut file);
        assert_eq!(check(&file), Err(expected), "{what}");
    }
}

#[test]
fn each_reason_against_a_segment_is_named() {
    let cases: [(&str, ElfError, Change<Vec<Header>>); 14] = [
        ("none", ElfError::NoSegments, Vec::clear),
        ("W and X", ElfError::WritableCode, |h| h[1].flags |= WRITE),
        ("past the file", ElfError::OutsideFile, |h| {
            h[0].file_size = 0x4001;
            h[0].memory_size = 0x4001;
        }),
        ("offset wraps", ElfError::OutsideFile, |h| {
            h[1].offset = u64::MAX - 0xfff;
            h[1].file_size = 0x2000;
            h[1].memory_size = 0x2000;
        }),
        ("more file than memory", ElfError::Malformed, |h| {
            h[1].memory_size = 0x7ff;
        }),
        ("null page", ElfError::OutsideUserSpace, |h| {
            h[0].address = 0
        }),
        ("kernel half", ElfError::OutsideUserSpace, |h| {
            h[2].address = 0xffff_8000_0000_0c00;
        }),
        ("over the limit", ElfError::OutsideUserSpace, |h| {
            h[2].memory_size = layout::MMAP_BOTTOM;
        }),
        ("address wraps", ElfError::OutsideUserSpace, |h| {
            h[2].memory_size = u64::MAX;
        }),
        ("misaligned", ElfError::Misaligned, |h| h[1].address += 8),
        ("same page", ElfError::Overlap, |h| {
            h[2].offset = 0x1900;
            h[2].address = TEXT + 0x900;
        }),
        ("descending", ElfError::Overlap, |h| h.swap(0, 1)),
        ("entry in data", ElfError::Entry, |h| h[1].flags = READ),
        ("interpreter", ElfError::Dynamic, |h| {
            h[0].kind = super::abi::PT_INTERP;
        }),
    ];
    for (what, expected, change) in cases {
        let mut headers = sound();
        change(&mut headers);
        assert_eq!(check(&file(&headers)), Err(expected), "{what}");
    }
}

#[test]
fn an_executable_stack_is_refused() {
    let mut headers = sound();
    let mut stack = load(READ | WRITE | EXECUTE, 0, 0, 0, 0);
    stack.kind = super::abi::PT_GNU_STACK;
    headers.push(stack);
    assert_eq!(check(&file(&headers)), Err(ElfError::WritableCode));
}

#[test]
fn more_segments_than_there_is_room_for_are_refused() {
    let mut headers = sound();
    for page in 0..super::MAX_SEGMENTS as u64 {
        headers.push(load(READ, 0x2000, 0x50_0000 + page * 0x1000, 0x10, 0x10));
    }
    assert_eq!(check(&file(&headers)), Err(ElfError::TooManySegments));
}

/// What the loader relies on.
fn assert_loadable(program: &Program, file: &[u8], what: &str) {
    let mut end = layout::LOWEST;
    for segment in &program.segments {
        assert!(
            file.get(segment.file.clone()).is_some(),
            "{what}: in the file"
        );
        assert!(segment.pages().start >= end, "{what}: ascending");
        end = segment.pages().end;
        assert!(
            segment.file.len() as u64 <= segment.memory.end - segment.memory.start,
            "{what}: the bytes fit"
        );
    }
    assert!(end <= layout::MMAP_BOTTOM, "{what}: in user space");
}

#[test]
fn whatever_is_accepted_after_a_change_is_still_loadable() {
    let sound = file(&sound());
    let headers = 64 + 56 * 3;
    let mut accepted = 0;
    for at in 0..headers {
        for value in [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff] {
            let mut changed = sound.clone();
            changed[at] = value;
            if let Ok(program) = check(&changed) {
                accepted += 1;
                assert_loadable(&program, &changed, "one byte changed");
            }
        }
    }
    assert!(accepted > 0, "some bytes do not matter");
    for length in 0..sound.len() {
        if let Ok(program) = check(&sound[..length]) {
            assert_loadable(&program, &sound[..length], "cut off");
        }
    }
}

#[test]
fn whatever_is_accepted_after_many_changes_is_still_loadable() {
    let sound = file(&sound());
    // xorshift64: any fixed seed will do, the run is the same every time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut changed = sound.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % (64 + 56 * 3);
            changed[at] = random() as u8;
        }
        if let Ok(program) = check(&changed) {
            assert_loadable(&program, &changed, "several bytes changed");
        }
    }
}
