//! The kernel's time: its one clock and the page that programs map.
//!
//! [`init`] finds the machine's counters, [`start_ticking`] measures the timer
//! that drives the windups by the best of them. From then on [`tick`] is all
//! that happens; whoever wants the time asks the clock.

#[cfg(target_os = "none")]
mod counters;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(target_os = "none")]
mod tick;
#[cfg(target_os = "none")]
pub mod tsc_sync;
pub mod watchdog;

use core::sync::atomic::{AtomicU32, Ordering};

use timecounter::guard::GuardLine;
use timecounter::page::TimehandsPage;
#[cfg(target_os = "none")]
use timecounter::tick::ticks_per_windup;
use timecounter::{Clock, Timespec, getres};

use crate::klog;

#[cfg(target_os = "none")]
pub use counters::{Facts, facts, hpet_page, init, page_frame};
#[cfg(target_os = "none")]
pub use tick::{is_ticking, role, start_ticking, tick};

/// The timehands page. Programs map the frame it lies in, and nothing else
/// does.
static PAGE: TimehandsPage = TimehandsPage::new();

static CLOCK: Clock = Clock::new(&PAGE);

/// Ticks a second where no tunable says otherwise.
pub const DEFAULT_HZ: u32 = 1000;

static HZ: AtomicU32 = AtomicU32::new(DEFAULT_HZ);

/// Ticks a second.
pub fn hz() -> u32 {
    HZ.load(Ordering::Relaxed)
}

/// Sets the ticks a second, before the tick is started.
#[cfg(target_os = "none")]
fn set_hz(hz: u32) {
    HZ.store(hz, Ordering::Relaxed);
    CLOCK.set_hz(hz / ticks_per_windup(hz));
}

/// The clock.
pub fn clock() -> &'static Clock {
    &CLOCK
}

/// Logs how long a stall the counter that tells the time bears, if no other
/// shows the wraps that a longer one hides. To be called after a change, by
/// whoever sees it; it is said once.
pub fn log_bearable_stall(clock: &Clock) {
    /// Index of the counter of which it was said last; the dummy's for none.
    static SAID: AtomicU32 = AtomicU32::new(0);
    let active = clock.active();
    let index = active.map_or(0, |active| active.index());
    if SAID.swap(index.into(), Ordering::Relaxed) == u32::from(index) {
        return;
    }
    if let (Some(active), Some(ns)) = (active, clock.bearable_stall_ns()) {
        let (name, ms) = (active.name(), ns / 1_000_000);
        klog!("timecounter {name}: loses time if the tick stalls for more than {ms} ms");
    }
}

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Timespec {
    CLOCK.monotonic()
}

/// CLOCK_REALTIME.
pub fn realtime() -> Timespec {
    CLOCK.realtime()
}

/// Whether reads are guarded now, so that a process's own line counts.
pub fn is_guarded() -> bool {
    CLOCK.guard().is_some()
}

/// CLOCK_MONOTONIC for the process whose guard line is `line`.
pub fn monotonic_beside(line: &GuardLine) -> Timespec {
    CLOCK.monotonic_beside(line)
}

/// CLOCK_REALTIME for the process whose guard line is `line`.
pub fn realtime_beside(line: &GuardLine) -> Timespec {
    CLOCK.realtime_beside(line)
}

/// CLOCK_MONOTONIC at the latest tick.
pub fn monotonic_coarse() -> Timespec {
    CLOCK.getmonotonic()
}

/// CLOCK_REALTIME at the latest tick.
pub fn realtime_coarse() -> Timespec {
    CLOCK.getrealtime()
}

/// The step of the precise clocks.
pub fn resolution() -> Timespec {
    CLOCK
        .active()
        .and_then(|active| getres::precise(active.frequency(), active.counter().step()))
        .unwrap_or(Timespec { sec: 1, nsec: 0 })
}

/// The step of the coarse clocks: a tick.
pub fn resolution_coarse() -> Timespec {
    Timespec::from_ns(CLOCK.tick_ns())
}
