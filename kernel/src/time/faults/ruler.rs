//! A measure of time that no fault touches: the bare time-stamp counter, which
//! has 64 bits and so never wraps while a test holds a CPU.

use core::sync::atomic::{AtomicU64, Ordering};

use drivers::bus::{OrderedRead, TscRead};
use drivers::native::Processor;

/// Its rate in Hz; 0: there is no ruler.
static HZ: AtomicU64 = AtomicU64::new(0);

/// Starts it at the rate that was measured.
pub fn start(hz: u64) {
    HZ.store(hz, Ordering::Relaxed);
}

/// Whether there is one.
#[must_use]
pub fn is_there() -> bool {
    HZ.load(Ordering::Relaxed) != 0
}

/// Nanoseconds by it, from a beginning that means nothing; always 0 where
/// there is none.
#[must_use]
pub fn now_ns() -> u64 {
    let hz = u128::from(HZ.load(Ordering::Relaxed));
    let counts = u128::from(Processor.read(OrderedRead::LfenceRdtsc));
    let ns = (counts * 1_000_000_000).checked_div(hz);
    ns.map_or(0, |ns| ns as u64)
}

/// Waits, without giving up the CPU; not at all where there is no ruler.
pub fn wait_us(us: u32) {
    let start = now_ns();
    while is_there() && now_ns().wrapping_sub(start) < u64::from(us) * 1_000 {
        core::hint::spin_loop();
    }
}
