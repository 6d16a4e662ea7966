//! Tables in a made-up physical memory, whole and damaged.

use super::*;
use std::boxed::Box;
use std::vec::Vec as StdVec;

const RSDP: usize = 0x10;
const ROOT: usize = 0x100;
const HPET: usize = 0x200;
const FADT: usize = 0x300;

fn fix(bytes: &mut [u8], at: usize) {
    bytes[at] = 0;
    bytes[at] = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_sub(byte));
}

fn table_bytes(signature: &[u8; 4], body: &[u8]) -> StdVec<u8> {
    let mut bytes = std::vec![0; HEADER];
    bytes[..4].copy_from_slice(signature);
    bytes[4..8].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    fix(&mut bytes, 9);
    bytes
}

/// A physical memory of 4 KiB with an RSDP, a root table, HPET and FADT.
fn machine(xsdt: bool) -> StdVec<u8> {
    let mut memory = std::vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    put(HPET, &table_bytes(b"HPET", &[1; 20]));
    put(FADT, &table_bytes(b"FACP", &[2; 80]));
    let entries: StdVec<u8> = if xsdt {
        [HPET as u64, FADT as u64]
            .iter()
            .flat_map(|at| at.to_le_bytes())
            .collect()
    } else {
        [HPET as u32, FADT as u32]
            .iter()
            .flat_map(|at| at.to_le_bytes())
            .collect()
    };
    put(
        ROOT,
        &table_bytes(if xsdt { b"XSDT" } else { b"RSDT" }, &entries),
    );
    let mut rsdp = [0u8; 36];
    rsdp[..8].copy_from_slice(b"RSD PTR ");
    if xsdt {
        rsdp[15] = 2;
        rsdp[20] = 36;
        rsdp[24..28].copy_from_slice(&(ROOT as u32).to_le_bytes());
    } else {
        rsdp[16..20].copy_from_slice(&(ROOT as u32).to_le_bytes());
    }
    fix(&mut rsdp[..20], 8);
    fix(&mut rsdp, 32);
    put(RSDP, &rsdp);
    memory
}

/// Finds the tables of a memory, with the errors of those left out.
fn find(memory: StdVec<u8>) -> (Result<Tables, AcpiError>, StdVec<AcpiError>) {
    let memory: &'static [u8] = Box::leak(memory.into_boxed_slice());
    let read = move |at: u64, len: usize| {
        let at = usize::try_from(at).ok()?;
        memory.get(at..at.checked_add(len)?)
    };
    let mut skipped = StdVec::new();
    let tables = Tables::find(RSDP as u64, &read, |error| skipped.push(error));
    (tables, skipped)
}

#[test]
fn tables_are_found_through_either_root_table() {
    for xsdt in [false, true] {
        let (tables, skipped) = find(machine(xsdt));
        let tables = tables.expect("a whole root");
        assert_eq!(skipped, [], "nothing is malformed (XSDT: {xsdt})");
        assert_eq!(
            tables.table(b"HPET").map(<[u8]>::len),
            Some(56),
            "header and body"
        );
        assert_eq!(
            tables.table(b"FACP").map(<[u8]>::len),
            Some(116),
            "header and body"
        );
        assert_eq!(tables.table(b"APIC"), None, "not in this machine");
        assert!(
            tables.signatures().eq(["HPET", "FACP"]),
            "the root table's order"
        );
    }
}

#[test]
fn a_damaged_table_is_skipped_and_the_others_are_found() {
    let mut memory = machine(true);
    memory[HPET + 40] ^= 0x10;
    let (tables, skipped) = find(memory);
    let tables = tables.expect("the root is whole");
    assert_eq!(tables.table(b"HPET"), None, "its checksum is wrong");
    assert!(tables.table(b"FACP").is_some(), "the one after it is whole");
    assert_eq!(
        skipped,
        [AcpiError::BadChecksum(HPET as u64)],
        "and it is named"
    );
}

#[test]
fn a_length_that_cannot_be_is_refused_before_it_is_used() {
    for len in [0u32, 35, 1 << 21, u32::MAX] {
        let mut memory = machine(true);
        memory[HPET + 4..HPET + 8].copy_from_slice(&len.to_le_bytes());
        let (tables, skipped) = find(memory);
        assert!(
            tables.is_ok_and(|tables| tables.table(b"HPET").is_none()),
            "length {len}"
        );
        assert_eq!(
            skipped,
            [AcpiError::BadLength(HPET as u64, len)],
            "length {len}"
        );
    }
}

#[test]
fn a_table_that_runs_out_of_memory_is_unreadable() {
    let mut memory = machine(true);
    memory[HPET + 4..HPET + 8].copy_from_slice(&5000u32.to_le_bytes());
    let (_, skipped) = find(memory);
    assert_eq!(
        skipped,
        [AcpiError::Unreadable(HPET as u64)],
        "beyond the end"
    );
}

#[test]
fn a_wrong_root_is_an_error() {
    let damaged = |at: usize| {
        let mut memory = machine(true);
        memory[at] ^= 0xff;
        find(memory).0.err()
    };
    assert_eq!(
        damaged(RSDP),
        Some(AcpiError::NotRootPointer(RSDP as u64)),
        "signature"
    );
    assert_eq!(
        damaged(RSDP + 10),
        Some(AcpiError::BadChecksum(RSDP as u64)),
        "OEM id"
    );
    assert_eq!(
        damaged(ROOT + 20),
        Some(AcpiError::BadChecksum(ROOT as u64)),
        "root table"
    );
}

#[test]
fn no_single_changed_byte_can_do_harm() {
    for xsdt in [false, true] {
        let whole = machine(xsdt);
        for at in (0..0x400).filter(|&at| whole[at] != 0 || at < 0x40) {
            for change in [1u8, 0x80, 0xff] {
                let mut memory = whole.clone();
                memory[at] ^= change;
                let (tables, _) = find(memory);
                if let Ok(tables) = tables {
                    assert!(
                        tables.signatures().count() <= 2,
                        "byte {at:#x} made up a table"
                    );
                }
            }
        }
    }
}
