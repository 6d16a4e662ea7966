//! The loader: from a boot protocol's 32-bit entry to the kernel's entry point.
//!
//! `machine/entry.s` brings the CPU to 64-bit mode with the first 4 GiB mapped
//! one to one; `loader::load` is the rest, in order. The kernel starts as under the
//! stock `bootloader` crate: own page tables, a stack with a guard page, a
//! filled `BootInfo`, interrupts off.
//!
//! Whatever goes wrong ends in one line on COM1 that starts with `boot: `, then
//! in QEMU's exit device (value 0x12), then in a halt. The loader's exception
//! handlers stay in place until the kernel installs its own, so a kernel that
//! faults before that leaves a line too.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod machine;

#[cfg(target_os = "none")]
mod loader {
    use core::convert::Infallible;
    use core::fmt;

    use boot::archive::Archive;
    use boot::handover::{self, PhysicalMemory};
    use boot::image::Image;
    use boot::plan::{Plan, Sizes};
    use boot::ramdisk::RamDisk;
    use boot::span::Span;
    use boot::{PAGE, archive, image, memory, multiboot2, plan, pvh};
    use bootloader_api::BootInfo;
    use bootloader_api::info::{MemoryRegion, TlsTemplate};

    use crate::machine::cpu;
    use crate::machine::frames::{Frames, Identity};
    use crate::machine::handoff::{self, Start};
    use crate::machine::space::{Access, AddressSpace};
    use crate::machine::{self, space};

    /// Room for the boot information and as many regions as there can be.
    const BOOT_INFO_SIZE: u64 = (size_of::<BootInfo>()
        + memory::MAX_REGIONS * size_of::<MemoryRegion>())
    .next_multiple_of(PAGE as usize) as u64;

    /// Why the kernel is not started.
    pub(crate) enum Error {
        Handover(handover::Error),
        Archive(archive::Error),
        Kernel(image::Error),
        Plan(plan::Error),
        Memory(memory::Error),
        Space(space::Error),
        NoExecuteDisable,
        NotEnoughMemory,
    }

    impl fmt::Display for Error {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Handover(error) => error.fmt(f),
                Self::Archive(error) => error.fmt(f),
                Self::Kernel(error) => error.fmt(f),
                Self::Plan(error) => error.fmt(f),
                Self::Memory(error) => error.fmt(f),
                Self::Space(error) => error.fmt(f),
                Self::NoExecuteDisable => write!(f, "this CPU cannot disable execution (NX)"),
                Self::NotEnoughMemory => write!(f, "not enough memory below 4 GiB"),
            }
        }
    }

    macro_rules! from {
        ($($variant:ident: $error:ty),*) => {
            $(impl From<$error> for Error {
                fn from(error: $error) -> Self {
                    Self::$variant(error)
                }
            })*
        };
    }
    from!(
        Handover: handover::Error,
        Archive: archive::Error,
        Kernel: image::Error,
        Plan: plan::Error,
        Memory: memory::Error,
        Space: space::Error
    );

    /// Loads the kernel that the boot protocol named by `magic` brought, whose
    /// structure is at `info`, and starts it.
    pub(crate) fn load(magic: u32, info: u64) -> Result<Infallible, Error> {
        if !cpu::enable_execute_disable() {
            return Err(Error::NoExecuteDisable);
        }
        let physical = Identity;
        let mut handover = match magic {
            pvh::MAGIC => pvh::read(&physical, info)?,
            multiboot2::MAGIC => multiboot2::read(&physical, info)?,
            other => return Err(handover::Error::UnknownProtocol(other).into()),
        };
        let loader = machine::image();
        if handover.archive.overlaps(loader.whole()) {
            return Err(handover::Error::ModuleNotInMemory(handover.archive).into());
        }
        handover.memory.add_used(loader.whole())?;
        let bytes = |what, span: Span| {
            physical
                .bytes(span)
                .ok_or(handover::Error::OutOfReach(what, span.start))
        };

        let archive = Archive::new(bytes("module", handover.archive)?)?;
        let file = archive.kernel()?;
        let image = Image::parse(file)?;
        let end = archive.end_of_entries();
        let disk = RamDisk::new(handover.archive, end, &handover.command_line);
        let sizes = Sizes {
            physical: handover.memory.physical_end(),
            ramdisk: disk.pages(),
            boot_info: BOOT_INFO_SIZE,
        };
        let plan = Plan::new(&image, loader.whole(), sizes)?;

        let arena = handover.memory.arena().ok_or(Error::NotEnoughMemory)?;
        let mut frames = Frames::new(arena);
        let mut space = AddressSpace::new(&mut frames).ok_or(Error::NotEnoughMemory)?;
        space.map_loader(&loader)?;

        let memory = space
            .frames(image.span.length())
            .ok_or(Error::NotEnoughMemory)?;
        image.load(memory.bytes, plan.base)?;
        for segment in &image.segments {
            let pages = segment.span.pages();
            for page in (pages.start..pages.end).step_by(PAGE as usize) {
                let access = Access {
                    writable: image.stays_writable(segment, page),
                    executable: segment.executable,
                };
                let frame = memory.address + (page - image.span.start);
                space.map(page.wrapping_add(plan.base), frame, PAGE, access)?;
            }
        }

        let stack_size = image.config.kernel_stack_size;
        let stack = space
            .frames(stack_size.next_multiple_of(PAGE))
            .ok_or(Error::NotEnoughMemory)?;
        let stack_bottom = plan.stack_guard + PAGE;
        space.map(stack_bottom, stack.address, stack.length(), Access::DATA)?;

        let boot_info = space.frames(BOOT_INFO_SIZE).ok_or(Error::NotEnoughMemory)?;
        space.map(
            plan.boot_info,
            boot_info.address,
            BOOT_INFO_SIZE,
            Access::DATA,
        )?;

        let (front, behind) = (disk.in_place, plan.ramdisk + disk.in_place.length());
        space.map(plan.ramdisk, front.start, front.length(), Access::DATA)?;
        if disk.tail_pages > 0 {
            let tail = space
                .frames(disk.tail_pages * PAGE)
                .ok_or(Error::NotEnoughMemory)?;
            disk.fill_tail(
                tail.bytes,
                bytes("module", disk.carried)?,
                &handover.command_line,
            )
            .ok_or(Error::NotEnoughMemory)?;
            space.map(behind, tail.address, tail.length(), Access::DATA)?;
        }
        if let Some(offset) = plan.physical {
            space.map_physical(offset, sizes.physical)?;
        }
        if let Some(index) = plan.recursive {
            space.map_itself(index);
        }

        let top_table = space.top_table();
        handover.memory.add_used(frames.taken())?;
        let start = Start {
            top_table,
            // The ABI wants 16-byte alignment; the configured size need not be.
            stack_top: (stack_bottom + stack_size) & !15,
            entry: image.entry.wrapping_add(plan.base),
            boot_info: plan.boot_info,
        };
        let regions = handover.memory.regions();
        // SAFETY: the tables map the loader one to one, the boot information's
        // pages as planned, and the kernel; nothing else refers to those pages.
        unsafe {
            handoff::start(&start, &regions, |info| {
                info.physical_memory_offset = plan.physical.into();
                info.recursive_index = plan.recursive.into();
                info.rsdp_addr = handover.rsdp.into();
                info.tls_template = image
                    .tls
                    .map(|tls| TlsTemplate {
                        start_addr: tls.start_addr + plan.base,
                        ..tls
                    })
                    .into();
                info.ramdisk_addr = Some(plan.ramdisk + disk.offset).into();
                info.ramdisk_len = disk.length;
                info.kernel_addr = file.as_ptr() as u64;
                info.kernel_len = file.len() as u64;
                info.kernel_image_offset = plan.base;
                info.kernel_stack_bottom = stack_bottom;
                info.kernel_stack_len = stack_size;
            })
        }
    }
}

/// The loader does nothing on a host; its library is what can be tested there.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("boot: build me with --target x86_64-unknown-none");
    std::process::exit(2);
}
