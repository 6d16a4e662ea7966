//! Copies between the kernel and a program.

use std::vec;

use super::{CODE, DATA, memory};
use crate::mm::PAGE_SIZE;
use crate::mm::paging::{AddressSpace, Protection, USER_END};
use crate::mm::user::{Fault, StringError};

#[test]
fn protection_decides_what_a_copy_may_do() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    space.map(CODE, Protection::ReadExecute).expect("code");
    space.map(DATA, Protection::ReadWrite).expect("data");
    assert_eq!(
        space.copy_out(CODE, b"x"),
        Err(Fault),
        "code is not writable"
    );
    space
        .fill(CODE, b"\x0f\x05")
        .expect("but the loader fills it");
    let mut code = [0; 2];
    space.copy_in(CODE, &mut code).expect("code is readable");
    assert_eq!(&code, b"\x0f\x05", "and holds what the loader put there");

    space.copy_out(DATA, b"data").expect("data is writable");
    space.protect(DATA, Protection::Read).expect("mapped");
    assert_eq!(space.copy_out(DATA, b"x"), Err(Fault), "no longer");
    let read = space.translate(DATA).map(|page| page.protection);
    assert_eq!(read, Some(Protection::Read), "as protect said");
}

#[test]
fn a_copy_that_fails_has_moved_nothing() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    space
        .map(DATA, Protection::ReadWrite)
        .expect("one page, nothing after it");
    let end = DATA + PAGE_SIZE;
    assert_eq!(
        space.copy_out(end - 2, b"abcd"),
        Err(Fault),
        "runs out of the page"
    );
    let mut tail = [0xff; 2];
    space.copy_in(end - 2, &mut tail).expect("the page itself");
    assert_eq!(tail, [0, 0], "the first two bytes were not written");

    space
        .map(end, Protection::ReadWrite)
        .expect("the page after it");
    space.copy_out(end - 2, b"abcd").expect("now it fits");
    let mut all = [0; 4];
    space.copy_in(end - 2, &mut all).expect("across the edge");
    assert_eq!(&all, b"abcd", "from two frames");
}

#[test]
fn addresses_at_the_edges_of_arithmetic_are_faults() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    for bad in [
        0,
        USER_END,
        USER_END - 1,
        1 << 47,
        0xffff_8000_0000_0000,
        u64::MAX - 3,
        u64::MAX,
    ] {
        assert_eq!(
            space.copy_in(bad, &mut [0; 8]),
            Err(Fault),
            "read at {bad:#x}"
        );
        assert_eq!(
            space.copy_out(bad, &[0; 8]),
            Err(Fault),
            "write at {bad:#x}"
        );
        assert_eq!(
            space.read_string(bad, 8),
            Err(StringError::Fault),
            "string at {bad:#x}"
        );
        assert_eq!(
            space.copy_in(bad, &mut []),
            Ok(()),
            "nothing, at {bad:#x}, is no fault"
        );
    }
}

#[test]
fn a_string_ends_at_its_zero_at_the_limit_or_at_a_fault() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    space.map(DATA, Protection::ReadWrite).expect("a page");
    space
        .map(DATA + PAGE_SIZE, Protection::ReadWrite)
        .expect("another");
    let text = vec![b'x'; 100];
    let start = DATA + PAGE_SIZE - 50;
    space.copy_out(start, &text).expect("across the edge");
    assert_eq!(
        space.read_string(start, 200),
        Ok(text.clone()),
        "zero after 100 bytes"
    );
    assert_eq!(
        space.read_string(start, 101),
        Ok(text),
        "the zero is byte 101"
    );
    assert_eq!(
        space.read_string(start, 100),
        Err(StringError::TooLong),
        "one too few"
    );
    let last = DATA + 2 * PAGE_SIZE - 3;
    space.copy_out(last, b"abc").expect("to the end of memory");
    assert_eq!(
        space.read_string(last, 200),
        Err(StringError::Fault),
        "no zero before the end"
    );
}
