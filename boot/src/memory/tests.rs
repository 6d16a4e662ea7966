use super::*;
use std::vec::Vec as List;

const RAM: u64 = 0x800_0000;

fn pc() -> MemoryMap {
    let mut map = MemoryMap::new();
    for (start, end, kind) in [
        (0, 0x9_fc00, USABLE),
        (0x9_fc00, 0xa_0000, RESERVED),
        (0x10_0000, RAM, USABLE),
        (0xfeff_c000, 0xff00_0000, RESERVED),
        (0xfd_0000_0000, 0x100_0000_0000, RESERVED),
    ] {
        map.add_firmware(start, end - start, kind).unwrap();
    }
    map
}

fn listed(map: &MemoryMap) -> List<(u64, u64, MemoryRegionKind)> {
    map.regions()
        .iter()
        .map(|r| (r.start, r.end, r.kind))
        .collect()
}

#[test]
fn memory_counts_in_whole_pages_inside_an_entry_and_the_rest_around_it() {
    let regions = listed(&pc());
    assert_eq!(
        regions[0],
        (0, 0x9_f000, MemoryRegionKind::Usable),
        "first entry"
    );
    assert_eq!(
        regions[1],
        (0x9_f000, 0xa_0000, MemoryRegionKind::UnknownBios(2)),
        "EBDA"
    );
}

#[test]
fn what_the_loader_used_is_cut_out_of_memory() {
    let mut map = pc();
    map.add_used(Span {
        start: 0x20_0001,
        end: 0x20_1800,
    })
    .unwrap();
    let regions = listed(&map);
    let expected = [
        (0x10_0000, 0x20_0000, MemoryRegionKind::Usable),
        (0x20_0000, 0x20_2000, MemoryRegionKind::Bootloader),
        (0x20_2000, RAM, MemoryRegionKind::Usable),
    ];
    assert_eq!(
        regions[2..5],
        expected,
        "the range is widened to pages and cut out"
    );
}

#[test]
fn overlapping_entries_take_the_strictest_kind() {
    let mut map = MemoryMap::new();
    map.add_firmware(0x30_0000, 0x10_0000, 4).unwrap();
    map.add_firmware(0x10_0000, 0x100_0000, USABLE).unwrap();
    map.add_firmware(0x18_0000, 0x100_0000, USABLE).unwrap();
    map.add_used(Span {
        start: 0x28_0000,
        end: 0x38_0000,
    })
    .unwrap();
    let expected = [
        (0x10_0000, 0x28_0000, MemoryRegionKind::Usable),
        (0x28_0000, 0x30_0000, MemoryRegionKind::Bootloader),
        (0x30_0000, 0x40_0000, MemoryRegionKind::UnknownBios(4)),
        (0x40_0000, 0x118_0000, MemoryRegionKind::Usable),
    ];
    assert_eq!(listed(&map), expected, "sorted, merged, strictest first");
}

#[test]
fn an_entry_that_wraps_is_refused() {
    let refused = MemoryMap::new().add_firmware(u64::MAX - 10, 100, USABLE);
    assert_eq!(refused, Err(Error::Wraps(u64::MAX - 10)), "past 2^64");
}

#[test]
fn a_map_with_too_many_entries_is_refused() {
    let mut map = MemoryMap::new();
    for i in 0..MAX_FIRMWARE as u64 {
        map.add_firmware(i * 0x2000, 0x1000, USABLE).unwrap();
    }
    assert_eq!(
        map.add_firmware(0, 0x1000, USABLE),
        Err(Error::TooMany),
        "one more"
    );
    assert_eq!(
        map.regions().len(),
        MAX_FIRMWARE,
        "all of them still come out"
    );
}

#[test]
fn the_physical_mapping_covers_4_gib_and_all_memory_but_no_distant_hole() {
    let mut map = pc();
    assert_eq!(
        map.physical_end(),
        REACH,
        "the hole below 1 TiB does not count"
    );
    map.add_firmware(REACH, 0x8000_0000, USABLE).unwrap();
    assert_eq!(
        map.physical_end(),
        REACH + 0x8000_0000,
        "memory above 4 GiB does"
    );
}

#[test]
fn the_arena_is_the_largest_free_stretch_the_loader_can_reach() {
    let mut map = pc();
    map.add_firmware(REACH, 1 << 36, USABLE).unwrap();
    map.add_used(Span {
        start: 0x10_0000,
        end: 0x14_0000,
    })
    .unwrap();
    map.add_used(Span {
        start: 0x700_0000,
        end: 0x710_0000,
    })
    .unwrap();
    let mut arena = map.arena().unwrap();
    assert_eq!(
        arena.take(2),
        Some(0x14_0000),
        "behind the loader, below the archive"
    );
    assert_eq!(arena.take(1), Some(0x14_2000), "then upwards");
    assert_eq!(
        arena.taken(),
        Span {
            start: 0x14_0000,
            end: 0x14_3000
        },
        "and all is counted"
    );
    assert_eq!(
        arena.take(0x700_0000 / PAGE),
        None,
        "but never past its end"
    );
    assert_eq!(arena.take(u64::MAX), None, "nor around the address space");
}

#[test]
fn memory_is_recognized_across_adjacent_entries() {
    let mut map = pc();
    map.add_firmware(RAM, 0x10_0000, USABLE).unwrap();
    let across = Span {
        start: RAM - 5,
        end: RAM + 5,
    };
    assert!(map.is_memory(across), "two entries that touch");
    let hole = Span {
        start: 0x9_0000,
        end: 0x11_0000,
    };
    assert!(!map.is_memory(hole), "the hole below 1 MiB is not memory");
}
