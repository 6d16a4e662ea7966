//! Address spaces, stacks and device mappings: what they take and give back.

use x86_64::PhysAddr;

use super::{CODE, DATA, SIZE, START, memory};
use crate::mm::mmio::{MmioError, map};
use crate::mm::paging::{AddressSpace, MapError, Protection, SharedFrame, USER_END};
use crate::mm::stack::KernelStack;
use crate::mm::user::Fault;
use crate::mm::{PAGE_SIZE, frames, kernel, phys};

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
    drop(space.unmap(DATA).expect("mapped above"));
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
fn the_next_mapped_page_is_found_across_all_of_user_space() {
    let _memory = memory();
    let mut space = AddressSpace::new().expect("a root");
    let all = 0..USER_END;
    assert_eq!(space.next_mapped(&all), None, "nothing is mapped");
    let last = USER_END - PAGE_SIZE;
    let pages = [CODE, CODE + PAGE_SIZE, DATA, DATA + (2 << 20), last];
    for page in pages {
        space.map(page, Protection::Read).expect("a free page");
    }
    let mut from = 0;
    for page in pages {
        let found = space.next_mapped(&(from..USER_END));
        assert_eq!(found, Some(page), "the first from {from:#x} on");
        from = page + PAGE_SIZE;
    }
    assert_eq!(space.next_mapped(&(from..u64::MAX)), None, "none behind");
    assert_eq!(
        space.next_mapped(&(CODE + 2 * PAGE_SIZE..DATA)),
        None,
        "the range ends before the next"
    );
    drop(space.unmap(CODE).expect("mapped above"));
    assert_eq!(
        space.next_mapped(&all),
        Some(CODE + PAGE_SIZE),
        "an unmapped page is passed over within its table"
    );
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
        assert_eq!(
            space.unmap(bad).map(drop),
            Err(MapError::BadAddress),
            "{bad:#x}"
        );
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
    assert_eq!(
        space.unmap(DATA).map(drop),
        Err(MapError::NotMapped),
        "never mapped"
    );
    assert_eq!(
        space.protect(DATA, Protection::Read),
        Err(MapError::NotMapped),
        "never mapped"
    );
    drop(space.unmap(CODE).expect("mapped above"));
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
fn a_stack_has_unmapped_pages_around_it_and_is_used_again() {
    let _memory = memory();
    let before = frames::free_bytes();
    // Given back by other tests are some; beyond those there are new ones.
    let mut stacks = std::vec::Vec::new();
    while frames::free_bytes() == before {
        stacks.push(KernelStack::new().expect("a stack"));
    }
    let stack = KernelStack::new().expect("a new one beside it");
    let used = 8 * PAGE_SIZE;
    let top = stack.top();
    for (place, what) in [(8, "top"), (used, "bottom")] {
        let mapped = kernel::translate(top - place).is_some();
        assert!(mapped, "the {what} is mapped");
    }
    for (place, what) in [(top - used - 1, "below"), (top, "above")] {
        assert_eq!(kernel::translate(place), None, "the page {what} is not");
    }
    drop(stack);
    assert!(kernel::translate(top - 8).is_some(), "it stays mapped");
    let between = frames::free_bytes();
    let again = KernelStack::new().expect("the one given back");
    assert_eq!(again.top(), top, "the last given back is the next out");
    assert_eq!(frames::free_bytes(), between, "which takes no memory");
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
