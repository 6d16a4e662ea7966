//! Page tables, user copies and stacks in a made-up physical memory: a block of
//! the host's, seen through the same map by offset as the real one.

use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec;

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use x86_64::PhysAddr;

use super::paging::{AddressSpace, MapError, Protection, SharedFrame, USER_END};
use super::stack::KernelStack;
use super::user::{Fault, StringError};
use super::{PAGE_SIZE, frames, kernel, phys};

/// Where usable memory starts: the allocator leaves the first MiB alone.
const START: u64 = 1 << 20;
const SIZE: u64 = 8 << 20;

/// Tests count free frames, so one runs at a time.
static ONE_AT_A_TIME: Mutex<bool> = Mutex::new(false);

fn memory() -> MutexGuard<'static, bool> {
    let mut ready = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !*ready {
        let layout = Layout::from_size_align(SIZE as usize, PAGE_SIZE as usize).expect("sizes");
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc_zeroed(layout) };
        assert!(!block.is_null(), "8 MiB of host memory");
        // SAFETY: physical addresses START.. are the block, which is never
        // freed, and the only ones the frame allocator knows.
        unsafe { phys::init((block as u64).wrapping_sub(START)) };
        let usable = MemoryRegion {
            start: START,
            end: START + SIZE,
            kind: MemoryRegionKind::Usable,
        };
        frames::init(Box::leak(Box::new([usable]))).expect("room for the bitmap");
        kernel::init().expect("room for the first tables");
        *ready = true;
    }
    ready
}

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x7f00_0000_1000;

#[test]
fn a_dropped_address_space_gives_every_frame_back() {
    let _memory = memory();
    let before = frames::free_bytes();
    let mut space = AddressSpace::new().expect("a root");
    for page in 0..100 {
        space
            .map(DATA + page * PAGE_SIZE, Protection::ReadWrite)
            .expect("100 pages");
    }
    space
        .map(CODE, Protection::ReadExecute)
        .expect("far away: tables of its own");
    space.unmap(DATA).expect("mapped above");
    assert_eq!(space.owned_pages(), 100, "101 mapped, one unmapped");
    assert!(frames::free_bytes() < before, "the space takes memory");
    drop(space);
    assert_eq!(frames::free_bytes(), before, "and gives all of it back");
}

#[test]
fn running_out_of_memory_is_an_error_and_leaves_nothing_behind() {
    let _memory = memory();
    let before = frames::free_bytes();
    let mut space = AddressSpace::new().expect("a root");
    let failed = (0..SIZE / PAGE_SIZE).find_map(|page| {
        space
            .map(DATA + page * PAGE_SIZE, Protection::ReadWrite)
            .err()
    });
    assert_eq!(
        failed,
        Some(MapError::OutOfMemory),
        "there are fewer frames than that"
    );
    assert_eq!(
        AddressSpace::new().err(),
        Some(MapError::OutOfMemory),
        "nor is there a root"
    );
    drop(space);
    assert_eq!(frames::free_bytes(), before, "all of it comes back");
}

#[test]
fn only_pages_of_the_lower_half_can_be_mapped_and_each_once() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    for bad in [USER_END, 0xffff_8000_0000_0000, u64::MAX - 0xfff, CODE + 1] {
        assert_eq!(
            space.map(bad, Protection::Read),
            Err(MapError::BadAddress),
            "{bad:#x}"
        );
        assert_eq!(space.unmap(bad), Err(MapError::BadAddress), "{bad:#x}");
        assert_eq!(
            space.protect(bad, Protection::Read),
            Err(MapError::BadAddress),
            "{bad:#x}"
        );
    }
    space.map(CODE, Protection::Read).expect("a free page");
    assert_eq!(
        space.map(CODE, Protection::Read),
        Err(MapError::InUse),
        "a second time"
    );
    assert_eq!(space.unmap(DATA), Err(MapError::NotMapped), "never mapped");
    assert_eq!(
        space.protect(DATA, Protection::Read),
        Err(MapError::NotMapped),
        "never mapped"
    );
    space.unmap(CODE).expect("mapped above");
    assert_eq!(space.translate(CODE), None, "gone");
    let last = USER_END - PAGE_SIZE;
    space
        .map(last, Protection::ReadWrite)
        .expect("the last page of all");
}

#[test]
fn a_kernel_address_is_nothing_to_a_program() {
    let _memory = memory();
    let stack = KernelStack::new().expect("a stack");
    let inside = stack.top().as_u64() - 8;
    let space = AddressSpace::new().expect("a root");
    assert_eq!(
        space.translate(inside),
        None,
        "mapped, but not the program's"
    );
    assert_eq!(
        space.copy_in(inside, &mut [0; 8]),
        Err(Fault),
        "nor can it be read"
    );
}

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

#[test]
fn shared_memory_is_never_writable_and_never_freed() {
    let _memory = memory();
    let lent = frames::allocate_zeroed().expect("a frame");
    let before = frames::free_bytes();
    let mut space = AddressSpace::new().expect("a root");
    let shared = SharedFrame::device(lent);
    assert_eq!(
        space.map_shared(DATA, shared, Protection::ReadWrite),
        Err(MapError::SharedWritable),
        "not even asked for"
    );
    space
        .map_shared(DATA, shared, Protection::Read)
        .expect("read only");
    assert_eq!(
        space.protect(DATA, Protection::ReadWrite),
        Err(MapError::SharedWritable),
        "nor afterwards"
    );
    assert_eq!(
        space.copy_in(DATA, &mut [0; 4]),
        Err(Fault),
        "registers are not read by a copy"
    );
    assert_eq!(space.fill(DATA, &[0; 4]), Err(Fault), "nor written");
    drop(space);
    assert_eq!(frames::free_bytes(), before, "the frame is still lent");
    // SAFETY: the address space that mapped it is gone.
    unsafe { frames::release(lent) };
}

#[test]
fn a_stack_has_an_unmapped_page_below_it_and_gives_its_frames_back() {
    let _memory = memory();
    // The first stack makes tables that stay.
    drop(KernelStack::new().expect("a stack"));
    let before = frames::free_bytes();
    let stack = KernelStack::new().expect("a stack");
    let top = stack.top();
    let used = before - frames::free_bytes();
    assert!(kernel::translate(top - 8).is_some(), "the top is mapped");
    assert!(
        kernel::translate(top - used).is_some(),
        "the bottom is mapped"
    );
    assert_eq!(
        kernel::translate(top - used - 1),
        None,
        "the page below is not"
    );
    assert_eq!(kernel::translate(top), None, "nor the one above");
    drop(stack);
    assert_eq!(frames::free_bytes(), before, "its frames are free again");
    assert_eq!(kernel::translate(top - 8), None, "and it is gone");
}

#[test]
fn a_frame_is_handed_out_clean() {
    let _memory = memory();
    let frame = frames::allocate_zeroed().expect("a frame");
    // SAFETY: the frame is this test's.
    unsafe {
        phys::copy_to(frame, &[0xaa; 4096]);
        frames::release(frame);
    }
    let mut dirty = 0;
    let mut space = AddressSpace::new().expect("a root");
    for page in 0..64 {
        space
            .map(DATA + page * PAGE_SIZE, Protection::Read)
            .expect("a page");
        let mut bytes = [0xff; 4096];
        space
            .copy_in(DATA + page * PAGE_SIZE, &mut bytes)
            .expect("readable");
        dirty += bytes.iter().filter(|&&byte| byte != 0).count();
    }
    assert_eq!(dirty, 0, "nothing of a former owner");
}

#[test]
fn registers_where_there_is_memory_are_refused() {
    let _memory = memory();
    use super::mmio::{MmioError, map};
    assert_eq!(
        map(START, 1024).err(),
        Some(MmioError::Memory),
        "usable memory"
    );
    assert_eq!(
        map(START - 8, 16).err(),
        Some(MmioError::Memory),
        "reaching into it"
    );
    assert_eq!(
        map(0xfed0_0000, 0).err(),
        Some(MmioError::BadRange),
        "nothing"
    );
    assert_eq!(
        map(u64::MAX - 7, 1024).err(),
        Some(MmioError::BadRange),
        "around the end"
    );
    let registers = map(0xfed0_0010, 1024).expect("free addresses");
    let mut space = AddressSpace::new().expect("a root");
    space
        .map_shared(DATA, registers.page(), Protection::Read)
        .expect("for a program");
    assert_eq!(
        space.translate(DATA).map(|page| page.phys),
        Some(PhysAddr::new(0xfed0_0000)),
        "the page of the registers"
    );
}
