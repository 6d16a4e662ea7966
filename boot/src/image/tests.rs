use super::*;
use crate::samples::{KERNEL_ENTRY, Kernel};
use std::vec;

#[test]
fn a_position_independent_kernel_is_accepted() {
    let file = Kernel::default().build();
    let image = Image::parse(&file).unwrap();
    assert!(image.position_independent, "ET_DYN");
    assert_eq!(image.entry, KERNEL_ENTRY, "entry point");
    assert_eq!(
        image.span,
        Span {
            start: 0,
            end: 0x4000
        },
        "text, data and bss"
    );
    assert_eq!(
        image.config.kernel_stack_size, 0x1_8000,
        "its configuration"
    );
}

#[test]
fn the_image_has_contents_zeros_and_relocated_pointers() {
    let file = Kernel::default().build();
    let image = Image::parse(&file).unwrap();
    let mut memory = vec![0xaa; 0x4000];
    image.load(&mut memory, 0xffff_8000_0000_0000).unwrap();
    assert_eq!(memory[KERNEL_ENTRY as usize], 0xf4, "code");
    assert_eq!(
        memory[0x2000..0x2008],
        0xffff_8000_0000_1000_u64.to_le_bytes(),
        "pointer"
    );
    assert!(
        memory[0x2010..0x4000].iter().all(|&byte| byte == 0),
        "bss is zero"
    );
}

#[test]
fn other_files_are_told_apart() {
    assert_eq!(Image::parse(&[0; 100]).unwrap_err(), Error::NotElf, "zeros");
    assert_eq!(
        Image::parse(b"#!/bin/sh").unwrap_err(),
        Error::Truncated,
        "too short"
    );
    let arm = Kernel {
        machine: 183,
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&arm).unwrap_err(),
        Error::WrongMachine(183),
        "AArch64"
    );
    let object = Kernel {
        kind: 1,
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&object).unwrap_err(),
        Error::WrongType(1),
        "object file"
    );
    let mut narrow = Kernel::default().build();
    narrow[4] = 1;
    assert!(Image::parse(&narrow).is_err(), "32-bit");
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let file = Kernel::default().build();
    for length in 0..file.len() {
        let refused = Image::parse(&file[..length]).unwrap_err();
        assert!(
            matches!(refused, Error::Truncated | Error::NoConfig),
            "{length} of {} bytes: {refused}",
            file.len()
        );
    }
}

#[test]
fn writable_code_is_refused() {
    let file = Kernel {
        text_flags: 7,
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&file).unwrap_err(),
        Error::WritableCode(0x1000),
        "RWX"
    );
}

#[test]
fn segments_that_share_a_page_are_refused() {
    let file = Kernel {
        data_address: 0x1800,
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&file).unwrap_err(),
        Error::Overlap(0x1800),
        "one page apart"
    );
}

#[test]
fn segments_outside_the_address_space_are_refused() {
    for at in [
        LOWER_END - 0x1000,
        1 << 50,
        UPPER_START - 0x1000,
        u64::MAX - 0x800,
    ] {
        let file = Kernel {
            data_address: at,
            ..Kernel::default()
        }
        .build();
        let error = Image::parse(&file).unwrap_err();
        assert!(matches!(error, Error::OutOfRange(_)), "at {at:#x}: {error}");
    }
}

#[test]
fn a_fixed_kernel_at_page_0_is_refused() {
    let file = Kernel {
        kind: abi::ET_EXEC,
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&file).unwrap_err(),
        Error::OutOfRange(0),
        "null must fault"
    );
}

#[test]
fn an_entry_point_outside_code_is_refused() {
    for entry in [0, 0x2000, 0x9000] {
        let file = Kernel {
            entry,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::BadEntry(entry),
            "{entry:#x}"
        );
    }
}

#[test]
fn a_kernel_without_a_configuration_is_refused() {
    let file = Kernel {
        config_name: ".bootloader-confog",
        ..Kernel::default()
    }
    .build();
    assert_eq!(
        Image::parse(&file).unwrap_err(),
        Error::NoConfig,
        "another section"
    );
    let mut file = Kernel::default().build();
    let uuid = file
        .windows(3)
        .position(|bytes| bytes == [0x74, 0x3c, 0xa9])
        .unwrap();
    file[uuid] ^= 1;
    assert_eq!(
        Image::parse(&file).unwrap_err(),
        Error::BadConfig("invalid UUID"),
        "damaged"
    );
}

#[test]
fn pages_of_the_read_only_range_lose_their_write_permission() {
    let file = Kernel::default().build();
    let mut image = Image::parse(&file).unwrap();
    let data = *image.segments.last().unwrap();
    assert!(
        image.stays_writable(&data, 0x2000),
        "no range, all stays as it was"
    );
    image.read_only_after_load = Some(Span {
        start: 0x2000,
        end: 0x3000,
    });
    assert!(!image.stays_writable(&data, 0x2000), "in the range");
    assert!(image.stays_writable(&data, 0x3000), "behind it");
}
