//! The end of a kernel that found itself wrong: one message, one exit status.
//!
//! The other CPUs are stopped first: what they would do next relies on what was
//! just found wrong, and their output would run into the message.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::exit::{self, ExitStatus};
use crate::arch::{ipi, percpu};

/// A panic is being printed. A second one, from printing the first, must not
/// print again.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Prints `panic: MESSAGE` with its place and ends the machine with
/// [`ExitStatus::Panic`].
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    ipi::halt_others();
    if !PANICKED.swap(true, Ordering::Relaxed) {
        let message = info.message();
        let cpu = percpu::number();
        match info.location() {
            Some(place) => crate::klog!("panic: {message}\n  at {place}, CPU {cpu}"),
            None => crate::klog!("panic: {message}\n  CPU {cpu}"),
        }
    }
    exit::stop(ExitStatus::Panic)
}
