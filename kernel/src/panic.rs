//! The end of a kernel that found itself wrong: one message, one exit status.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::exit::{self, ExitStatus};

/// A panic is being printed. A second one, from printing the first, must not
/// print again.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Prints `panic: MESSAGE` with its place and ends the machine with
/// [`ExitStatus::Panic`].
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    x86_64::instructions::interrupts::disable();
    if !PANICKED.swap(true, Ordering::Relaxed) {
        let message = info.message();
        match info.location() {
            Some(place) => crate::klog!("panic: {message}\n  at {place}"),
            None => crate::klog!("panic: {message}"),
        }
    }
    exit::stop(ExitStatus::Panic)
}
