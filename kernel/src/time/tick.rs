//! The tick.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use drivers::calibrate::Limits;
use timecounter::clock::Windup;
use timecounter::role::{Role, Turn};
use timecounter::tick::{ticks_per_windup, windup_period_us};
use timecounter::watch::Watched;

#[cfg(feature = "faults")]
use super::faults::hold;
use super::{CLOCK, watchdog};
use crate::arch::{ipi, lapic, percpu};
use crate::cpuset::CpuSet;
use crate::cpuset::MAX_CPUS;
use crate::klog;

/// Measures the local APIC's timer by the counter that tells the time and
/// starts the tick.
pub fn start_ticking() {
    let hz = super::hz();
    let period_us = windup_period_us(hz).unwrap_or_default();
    let Some(active) = CLOCK.active() else {
        return;
    };
    let started = lapic::measure_timer(active.counter(), &Limits::QUICK)
        .and_then(|timer_hz| lapic::start_tick(timer_hz, hz));
    match started {
        Ok(()) => {
            TICKING.store(true, Ordering::Relaxed);
            // It has nothing else to tick for yet.
            ipi::on_cpus(&CpuSet::single(lapic::DEPUTY), &|_| lapic::stop_tick_here());
            klog!(
                "Timecounters tick every {}.{:03} msec",
                period_us / 1_000,
                period_us % 1_000
            );
        }
        Err(error) => klog!("no tick: {error}"),
    }
}

/// The tick was started.
static TICKING: AtomicBool = AtomicBool::new(false);

/// Whether there is a tick. Without one the clock runs on its last segment's
/// floor slope, programs take turns when they want to, and nobody is woken.
pub fn is_ticking() -> bool {
    TICKING.load(Ordering::Relaxed)
}

/// Ticks since the latest windup, of the CPU that winds up.
static TICKS: AtomicU32 = AtomicU32::new(0);

/// Whose turn the windups are.
static ROLE: Role<MAX_CPUS> = Role::new();

/// What came of the windups of all CPUs.
pub fn role() -> &'static Role<MAX_CPUS> {
    &ROLE
}

/// A timer interrupt of this CPU, with interrupts off: announces the next
/// segment of the clock if that is this CPU's role and if it is the turn of one.
pub fn tick() {
    let ticks = lapic::ticks_an_interrupt();
    let cpu = percpu::number();
    #[cfg(feature = "faults")]
    hold::before(&CLOCK, cpu);
    let turn = ROLE.tick(cpu, ticks);
    #[cfg(feature = "faults")]
    let turn = match turn {
        // It can be held in a windup only if it makes one.
        Turn::Not if hold::is_asked_of(cpu) => Turn::Mine,
        turn => turn,
    };
    if turn == Turn::Not {
        return;
    }
    let since = TICKS
        .fetch_add(ticks, Ordering::Relaxed)
        .saturating_add(ticks);
    if since < ticks_per_windup(super::hz()) && turn == Turn::Mine {
        return;
    }
    TICKS.store(0, Ordering::Relaxed);
    let done = windup(cpu);
    ROLE.done(turn, done);
    if done == Windup::Switched {
        super::log_bearable_stall(&CLOCK);
    }
    if watchdog::is_due(super::hz() / ticks_per_windup(super::hz())) {
        watch();
    }
}

/// Checks the counter that tells the time, which waits for nobody, and says
/// what came of it.
fn watch() {
    let watched = CLOCK.watch();
    if watched == Watched::Busy {
        watchdog::put_off();
    }
    if watched.is_news() {
        klog!("timecounter {watched}");
    }
}

/// Winds up.
#[cfg(not(feature = "faults"))]
fn windup(_cpu: usize) -> Windup {
    CLOCK.windup()
}

/// Winds up, unless a test has something else in mind.
#[cfg(feature = "faults")]
fn windup(cpu: usize) -> Windup {
    hold::windup(&CLOCK, cpu)
}
