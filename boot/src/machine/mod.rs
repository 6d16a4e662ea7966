//! The part of the loader that is about this machine and no input.

use core::arch::global_asm;
use core::fmt;
use core::panic::PanicInfo;

use boot::span::Span;

use crate::loader;

pub(crate) mod cpu;
pub(crate) mod frames;
pub(crate) mod handoff;
mod serial;
pub(crate) mod space;
mod trap;

global_asm!(include_str!("entry.s"));

/// Called by `entry.s` in 64-bit mode, once, on its own stack.
#[unsafe(no_mangle)]
extern "C" fn loader_main(magic: u32, info: u32) -> ! {
    trap::install();
    match loader::load(magic, info.into()) {
        Ok(never) => match never {},
        Err(error) => stop(format_args!("{error}")),
    }
}

/// Prints one line and ends: by QEMU's exit device if there is one.
pub(crate) fn stop(reason: fmt::Arguments<'_>) -> ! {
    serial::line(reason);
    cpu::exit()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => {
            let (file, line) = (at.file(), at.line());
            stop(format_args!(
                "internal error at {file}:{line}: {}",
                info.message()
            ))
        }
        None => stop(format_args!("internal error: {}", info.message())),
    }
}

/// Where the loader itself is; its addresses are physical and virtual.
pub(crate) struct LoaderImage {
    /// Headers and constants.
    pub(crate) constants: Span,
    /// Instructions.
    pub(crate) text: Span,
    /// Variables, the early page tables, the stack.
    pub(crate) data: Span,
}

impl LoaderImage {
    pub(crate) fn whole(&self) -> Span {
        Span {
            start: self.constants.start,
            end: self.data.end,
        }
    }
}

/// The bounds that the linker script sets, each on a page.
pub(crate) fn image() -> LoaderImage {
    unsafe extern "C" {
        safe static __loader_start: u8;
        safe static __text_start: u8;
        safe static __data_start: u8;
        safe static __loader_end: u8;
    }
    let address = |symbol: &u8| core::ptr::from_ref(symbol) as u64;
    let (start, text) = (address(&__loader_start), address(&__text_start));
    let (data, end) = (address(&__data_start), address(&__loader_end));
    LoaderImage {
        constants: Span { start, end: text },
        text: Span {
            start: text,
            end: data,
        },
        data: Span { start: data, end },
    }
}
