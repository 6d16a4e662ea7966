//! Lookup in a small object built here, in the host's own vDSO, and in
//! mutations of both.

use super::{VERSION, find, gnu_hash, layout, sysv_hash};

const NAME: &[u8] = b"__vdso_clock_gettime";
const OTHER: &[u8] = b"__vdso_old_function";
const FUNCTION: u64 = 0xf00;
const SIZE: usize = 0x1000;
/// The object's own addresses start here, to see that the bias is subtracted.
const BIAS: u64 = 0x10_0000;

#[derive(Clone, Copy, PartialEq)]
enum Hash {
    Sysv,
    Gnu,
    Both,
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put32(image: &mut [u8], at: usize, words: &[u32]) {
    for (index, word) in words.iter().enumerate() {
        put(image, at + 4 * index, &word.to_le_bytes());
    }
}

fn put64(image: &mut [u8], at: usize, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        put(image, at + 8 * index, &word.to_le_bytes());
    }
}

/// An object with two functions: `NAME` of the wanted version, and `OTHER`,
/// which is of another version.
fn object(hash: Hash) -> Vec<u8> {
    const DYNAMIC: usize = 0x100;
    const STRINGS: usize = 0x200;
    const SYMBOLS: usize = 0x300;
    const SYSV: usize = 0x400;
    const GNU: usize = 0x500;
    const VERSIONS: usize = 0x600;
    const DEFINITIONS: usize = 0x700;
    let mut image = vec![0; SIZE];
    put(&mut image, 0, b"\x7fELF\x02\x01\x01");
    put64(&mut image, 32, &[64]);
    put(&mut image, 54, &[56, 0, 2, 0]);
    // The segment, then the dynamic section.
    put32(&mut image, 64, &[1, 5]);
    put64(
        &mut image,
        72,
        &[0, BIAS, BIAS, SIZE as u64, SIZE as u64, 4096],
    );
    put32(&mut image, 120, &[2, 4]);
    put64(
        &mut image,
        128,
        &[0x100, BIAS + DYNAMIC as u64, 0, 0x100, 0x100, 8],
    );

    let mut strings = vec![0];
    let mut string = |bytes: &[u8]| {
        let at = strings.len() as u32;
        strings.extend_from_slice(bytes);
        strings.push(0);
        at
    };
    let (name, other, version) = (string(NAME), string(OTHER), string(VERSION));
    let old = string(b"LINUX_2.5");
    put(&mut image, STRINGS, &strings);
    for (index, string) in [(1, name), (2, other)] {
        put32(&mut image, SYMBOLS + 24 * index, &[string]);
        put(&mut image, SYMBOLS + 24 * index + 4, &[0x12, 0, 1, 0]);
        put64(&mut image, SYMBOLS + 24 * index + 8, &[BIAS + FUNCTION, 16]);
    }
    // One bucket each: 2 -> 1 -> end; then, without a filter word, 1 and 2.
    put32(&mut image, SYSV, &[1, 3, 2, 0, 0, 1]);
    put32(&mut image, GNU, &[1, 1, 0, 0, 1]);
    put32(
        &mut image,
        GNU + 20,
        &[gnu_hash(NAME) & !1, gnu_hash(OTHER) | 1],
    );
    put(&mut image, VERSIONS, &[0, 0, 2, 0, 3, 0]);
    // Definition 3 (old), then 2 (the wanted one), each with one name.
    put(&mut image, DEFINITIONS, &[1, 0, 0, 0, 3, 0, 1, 0]);
    put32(&mut image, DEFINITIONS + 12, &[20, 28, old]);
    put(&mut image, DEFINITIONS + 28, &[1, 0, 0, 0, 2, 0, 1, 0]);
    put32(&mut image, DEFINITIONS + 40, &[20, 0, version]);

    let mut dynamic = vec![
        (5, STRINGS),
        (6, SYMBOLS),
        (0x6fff_fff0, VERSIONS),
        (0x6fff_fffc, DEFINITIONS),
    ];
    if hash != Hash::Gnu {
        dynamic.push((4, SYSV));
    }
    if hash != Hash::Sysv {
        dynamic.push((0x6fff_fef5, GNU));
    }
    for (index, (tag, at)) in dynamic.into_iter().enumerate() {
        put64(&mut image, DYNAMIC + 16 * index, &[tag, BIAS + at as u64]);
    }
    image
}

#[test]
fn a_function_is_found_through_either_hash_table() {
    for hash in [Hash::Sysv, Hash::Gnu, Hash::Both] {
        assert_eq!(
            find(&object(hash), NAME),
            Some(FUNCTION as usize),
            "the offset is the symbol's address less the load bias"
        );
    }
}

#[test]
fn a_function_of_another_version_is_not_found() {
    for hash in [Hash::Sysv, Hash::Gnu] {
        assert_eq!(find(&object(hash), OTHER), None, "version LINUX_2.5");
    }
}

#[test]
fn a_name_that_is_only_a_prefix_is_not_found() {
    for hash in [Hash::Sysv, Hash::Gnu] {
        let image = object(hash);
        assert_eq!(find(&image, b"__vdso_clock_get"), None, "shorter");
        assert_eq!(find(&image, b"__vdso_clock_gettime64"), None, "longer");
    }
}

#[test]
fn a_hash_chain_that_loops_ends() {
    let mut image = object(Hash::Sysv);
    // Symbol 2's successor is symbol 2.
    put32(&mut image, 0x400 + 20, &[2]);
    assert_eq!(find(&image, b"__vdso_missing"), None, "no such function");
}

#[test]
fn a_truncated_image_gives_no_function_and_no_panic() {
    let image = object(Hash::Both);
    for length in 0..0x740 {
        assert_eq!(find(&image[..length], NAME), None, "{length} bytes");
    }
}

#[test]
fn a_changed_byte_never_panics_and_never_points_outside() {
    for hash in [Hash::Sysv, Hash::Gnu, Hash::Both] {
        let image = object(hash);
        for at in 0..0x740 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = image.clone();
                changed[at] = value;
                let found = find(&changed, NAME);
                assert!(
                    found.is_none_or(|offset| offset < SIZE),
                    "byte {at:#x} = {value:#x} gives {found:x?}"
                );
            }
        }
    }
}

#[test]
fn the_hashes_are_those_of_the_specifications() {
    // The empty name and "printf" are the specifications' usual examples.
    assert_eq!(sysv_hash(b""), 0, "gABI");
    assert_eq!(sysv_hash(b"printf"), 0x077905a6, "gABI");
    assert_eq!(gnu_hash(b""), 0x1505, "GNU");
    assert_eq!(gnu_hash(b"printf"), 0x156b2bb8, "GNU");
}

/// The vDSO of the process that runs the tests, read through the file system.
fn host_vdso() -> Option<Vec<u8>> {
    use std::io::{Read as _, Seek as _};

    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    );
    let mut memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.seek(std::io::SeekFrom::Start(start)).ok()?;
    let mut image = vec![0; usize::try_from(end - start).ok()?];
    memory.read_exact(&mut image).ok()?;
    Some(image)
}

#[test]
fn the_functions_of_the_hosts_vdso_are_found() {
    let Some(image) = host_vdso() else {
        println!("skipped: this host maps no vDSO");
        return;
    };
    assert!(layout(&image).is_some(), "it has the layout of an object");
    for name in ["clock_gettime", "gettimeofday", "time", "clock_getres"] {
        let name = format!("__vdso_{name}");
        assert!(find(&image, name.as_bytes()).is_some(), "{name}");
    }
    assert_eq!(find(&image, b"__vdso_missing"), None, "no such function");
}
