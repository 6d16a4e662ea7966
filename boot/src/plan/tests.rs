use super::*;
use crate::samples::Kernel;

const LOADER: Span = Span {
    start: 0x10_0000,
    end: 0x14_0000,
};
const SIZES: Sizes = Sizes {
    physical: 1 << 36,
    ramdisk: 0x10_0000,
    boot_info: 0x2000,
};

fn plan(change: impl Fn(&mut BootloaderConfig)) -> Result<Plan, Error> {
    let file = Kernel::default().build();
    let mut image = Image::parse(&file).unwrap();
    change(&mut image.config);
    Plan::new(&image, LOADER, SIZES)
}

#[test]
fn dynamic_mappings_take_the_lowest_free_slots() {
    let plan = plan(|config| config.mappings.physical_memory = Some(Mapping::Dynamic)).unwrap();
    assert_eq!(plan.base, SLOT, "slot 0 is the loader's");
    assert_eq!(plan.stack_guard, 2 * SLOT, "then the next");
    assert_eq!(plan.physical, Some(5 * SLOT), "and so on");
    assert_eq!(plan.recursive, None, "not asked for");
}

#[test]
fn the_dynamic_range_is_kept() {
    let upper = plan(|config| {
        config.mappings.dynamic_range_start = Some(0xffff_8000_0000_0000);
        config.mappings.page_table_recursive = Some(Mapping::Dynamic);
    });
    let upper = upper.unwrap();
    assert_eq!(
        upper.base, 0xffff_8000_0000_0000,
        "first slot of the upper half"
    );
    assert_eq!(
        upper.recursive,
        Some(256 + 4),
        "after stack, boot information and RAM disk"
    );
    let narrow = plan(|config| {
        config.mappings.dynamic_range_start = Some(0xffff_8000_0000_0000);
        config.mappings.dynamic_range_end = Some(0xffff_80ff_ffff_ffff);
    });
    assert_eq!(
        narrow,
        Err(Error::NoRoom(BOOT_INFO)),
        "two slots are too few"
    );
}

#[test]
fn fixed_addresses_are_kept_and_kept_clear_of() {
    let plan = plan(|config| {
        config.mappings.physical_memory = Some(Mapping::FixedAddress(SLOT));
        config.mappings.kernel_stack = Mapping::FixedAddress(0xffff_ff80_0000_0000);
        config.mappings.kernel_base = Mapping::FixedAddress(0xffff_ffff_8000_0000);
    });
    let plan = plan.unwrap();
    assert_eq!(plan.physical, Some(SLOT), "physical memory");
    assert_eq!(plan.stack_guard, 0xffff_ff80_0000_0000, "stack");
    assert_eq!(plan.base, 0xffff_ffff_8000_0000, "kernel");
    assert_eq!(
        plan.boot_info,
        2 * SLOT,
        "the first dynamic one is behind the fixed ones"
    );
}

#[test]
fn the_last_slot_can_be_the_recursive_one() {
    let plan = plan(|config| {
        config.mappings.page_table_recursive = Some(Mapping::FixedAddress(0xffff_ff80_0000_0000));
    });
    assert_eq!(plan.unwrap().recursive, Some(511), "it ends at 2^64");
}

#[test]
fn unaligned_and_impossible_fixed_addresses_are_refused() {
    for (at, expected) in [
        (0x1000, Error::Unaligned(PHYSICAL, 0x1000)),
        (1 << 47, Error::OutOfRange(PHYSICAL, 1 << 47)),
        (
            (1 << 47) - (2 << 20),
            Error::OutOfRange(PHYSICAL, (1 << 47) - (2 << 20)),
        ),
        (
            u64::MAX - 0x1f_ffff,
            Error::OutOfRange(PHYSICAL, u64::MAX - 0x1f_ffff),
        ),
        (0, Error::OutOfRange(PHYSICAL, 0)),
    ] {
        let refused = plan(|config| {
            config.mappings.physical_memory = Some(Mapping::FixedAddress(at));
        });
        assert_eq!(refused, Err(expected), "physical memory at {at:#x}");
    }
}

#[test]
fn overlapping_fixed_addresses_are_refused() {
    let refused = plan(|config| {
        config.mappings.kernel_stack = Mapping::FixedAddress(SLOT);
        config.mappings.ramdisk_memory = Mapping::FixedAddress(SLOT + 0x1_8000);
    });
    assert_eq!(
        refused,
        Err(Error::Overlap(STACK, RAMDISK)),
        "the guard page counts"
    );
    let refused = plan(|config| {
        config.mappings.boot_info = Mapping::FixedAddress(0x13_f000);
    });
    assert_eq!(
        refused,
        Err(Error::Overlap("the loader", BOOT_INFO)),
        "the loader is there"
    );
}

#[test]
fn a_stack_as_large_as_the_address_space_is_refused() {
    let refused = plan(|config| config.kernel_stack_size = u64::MAX - 5);
    assert_eq!(refused, Err(Error::NoRoom(STACK)), "no room");
    let refused = plan(|config| config.kernel_stack_size = 1 << 60);
    assert_eq!(refused, Err(Error::NoRoom(STACK)), "no room");
}
