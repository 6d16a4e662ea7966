//! The entry point and the panic handler of a program.

#![allow(
    unsafe_code,
    reason = "the entry point runs before there is a Rust stack frame"
)]

use core::arch::naked_asm;

use super::Process;
use crate::eprintln;

/// The status of a program that panicked, as a Rust program on Linux has it.
const PANICKED: i32 = 101;

/// The first instruction. At entry the stack pointer holds the address of the
/// argument count, is 16-byte aligned, and RDX may hold a function to register
/// for exit (psABI, section 3.4.1), which a static program never gets.
///
/// The call below pushes a return address, which gives the alignment that
/// compiled code expects; the zero in RBP ends a chain of frames.
///
/// # Safety
///
/// To be jumped to by the kernel only.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        "xor ebp, ebp",
        "mov rdi, rsp",
        "and rsp, -16",
        "call {main}",
        "ud2",
        main = sym timehands_program,
    )
}

unsafe extern "C" {
    /// What [`program!`](crate::program) defines.
    fn timehands_program(stack: *const usize) -> !;
}

/// Runs a program's `main` and ends the process with its status.
///
/// # Safety
///
/// `stack` must be the initial stack pointer.
pub unsafe fn start(stack: *const usize, main: fn(&Process) -> i32) -> ! {
    // SAFETY: the caller passes what `_start` found.
    let process = unsafe { Process::new(stack) };
    super::exit(main(&process))
}

/// Makes a function the program's `main`: it gets the [`Process`] and returns
/// the exit status.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        #[allow(unsafe_code, reason = "the symbol that the entry point calls")]
        #[unsafe(no_mangle)]
        extern "C" fn timehands_program(stack: *const usize) -> ! {
            // SAFETY: only the entry point calls this, with the stack pointer
            // that the kernel left.
            unsafe { $crate::sys::start(stack, $main) }
        }
    };
}

#[panic_handler]
fn panic(information: &core::panic::PanicInfo<'_>) -> ! {
    eprintln!("{information}");
    super::exit(PANICKED)
}
