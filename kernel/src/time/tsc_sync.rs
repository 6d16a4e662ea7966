//! The TSCs of all processors, compared: at start and on request.
//!
//! Each processor exchanges stamps with CPU 0, one after the other, so that no
//! two pairs are in each other's way. What comes of it rates the TSC, sets the
//! bound of its jitter guard, and stands in `kern.timecounter.tc.TSC.skew`. How
//! that is judged is [`drivers::tsc_sync`]'s business.
//!
//! Where `kern.timecounter.smp_tsc_adjust` allows it, a counter that is known to be
//! apart is set right through IA32_TSC_ADJUST (SDM volume 3B, 18.17.3), which moves
//! it without losing what it counts meanwhile, and everything is measured anew.
//! Not while the TSC tells the time: a clock does not step.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use drivers::bus::{Cpuid, Msr};
use drivers::native::Processor;
use drivers::tsc_sync::{self, Found, Line, Offset, Verdict};
use spin::Once;
use timecounter::rendezvous::Exchange;

use super::{CLOCK, facts};
use crate::arch::{self, ipi, percpu};
use crate::cpuset::CpuSet;
use crate::klog;
use crate::sync::IrqMutex;
use crate::sysctl::{Errno, Skew};
use crate::tunables::Tunables;

/// Rounds with each processor.
const ROUNDS: u32 = 300;

/// Looks at the turn after which a partner counts as stopped. A virtual CPU may be
/// put aside for some milliseconds, many times what this takes.
const PATIENCE: u32 = 1 << 24;

/// IA32_TSC_ADJUST.
const TSC_ADJUST: u32 = 0x3b;

/// What an operator allows.
#[derive(Debug)]
struct Settings {
    /// `kern.timecounter.smp_tsc`, instead of the verdict.
    in_step: Option<bool>,
    /// `kern.timecounter.smp_tsc_adjust`: corrections that may be tried.
    adjust: i32,
}

static SETTINGS: Once<Settings> = Once::new();
static LINES: IrqMutex<Vec<Line>> = IrqMutex::new(Vec::new());
static IN_STEP: AtomicBool = AtomicBool::new(false);

/// Compares the counters of all processors, once those have been started.
pub fn run(tunables: &Tunables) {
    SETTINGS.call_once(|| Settings {
        in_step: tunables.smp_tsc,
        adjust: tunables.smp_tsc_adjust,
    });
    IN_STEP.store(tunables.smp_tsc.unwrap_or(false), Ordering::Relaxed);
    if percpu::count() > 1 {
        compare();
    }
}

/// Compares them anew.
///
/// # Errors
///
/// [`Errno::Unsupported`] where there is nothing to compare.
pub fn resync() -> Result<(), Errno> {
    if percpu::count() < 2 || !compare() {
        return Err(Errno::Unsupported);
    }
    Ok(())
}

/// Whether the counters count as one.
pub fn in_step() -> bool {
    IN_STEP.load(Ordering::Relaxed)
}

/// A row a CPU, of what was found last.
pub fn skew() -> Vec<Skew> {
    let row = |line: &Line| match line.found {
        Found::Offset(Offset { low, high }) => Some(Skew {
            cpu: line.cpu,
            low,
            high,
        }),
        Found::Unsteady(..) | Found::Silent => None,
    };
    let own = Skew {
        cpu: 0,
        low: 0,
        high: 0,
    };
    let others: Vec<Skew> = LINES.with(|lines| lines.iter().filter_map(row).collect());
    core::iter::once(own).chain(others).collect()
}

/// Measures, corrects if that is allowed, and rates. False without a TSC.
fn compare() -> bool {
    let Some(facts) = facts() else {
        return false;
    };
    let (Some(tsc), Some(entry)) = (facts.tsc, CLOCK.registry().find("TSC")) else {
        return false;
    };
    let hz = tsc.frequency_hz();
    let limit = tsc_sync::guard_limit(hz);
    let settings = SETTINGS.get();
    let tells_time = CLOCK.active().map(|active| active.index()) == Some(entry.index());
    let mut attempts = settings.map_or(0, |settings| settings.adjust);
    let mut lines = measure();
    let mut corrected = false;
    while attempts > 0 && !tells_time && adjust(&lines) {
        corrected = true;
        attempts -= 1;
        lines = measure();
    }
    if !corrected {
        LINES.with(|before| {
            for (line, before) in lines.iter_mut().zip(before) {
                line.found = tsc_sync::since(before.found, line.found);
            }
        });
    }
    for line in &lines {
        klog!("{line}");
    }
    let verdict = tsc_sync::judge(lines.iter().copied(), limit);
    let after = if corrected { " after adjustment" } else { "" };
    klog!("TSC: {verdict}{after}");

    let measured = verdict == Verdict::InStep;
    let in_step = settings
        .and_then(|settings| settings.in_step)
        .unwrap_or(measured);
    IN_STEP.store(in_step, Ordering::Relaxed);
    let bound = match verdict {
        Verdict::InStep => 0,
        Verdict::Skewed { bound } => tsc_sync::bound_ns(bound, hz),
        // Out of step by nobody knows how much: the largest that the guard is for.
        _ => tsc_sync::bound_ns(limit, hz),
    };
    LINES.with(|last| *last = lines);
    CLOCK.set_skew_bound(&entry, bound);
    let cpus = u32::try_from(percpu::count()).unwrap_or(u32::MAX);
    tsc.rerate(&facts.tsc_facts, cpus, in_step);
    let before = entry.quality();
    CLOCK.requalify(&entry);
    if entry.quality() != before {
        klog!(
            "timecounter TSC: quality {}: {}",
            entry.quality(),
            entry.reason()
        );
    }
    true
}

/// Measures every processor that runs against CPU 0.
fn measure() -> Vec<Line> {
    percpu::online()
        .iter()
        .filter(|&cpu| cpu != 0)
        .map(|cpu| Line {
            cpu,
            found: with(cpu),
        })
        .collect()
}

/// Exchanges stamps with one processor.
fn with(cpu: usize) -> Found {
    let Some(tsc) = facts().and_then(|facts| facts.tsc) else {
        return Found::Silent;
    };
    let exchange = Exchange::new();
    let (low, high) = (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MAX));
    let (low_then, high_then) = (AtomicI64::new(0), AtomicI64::new(0));
    let (whole, steady) = (AtomicBool::new(false), AtomicBool::new(true));
    let mut pair = CpuSet::single(0);
    pair.insert(cpu);
    let late = ipi::on_cpus(&pair, &|me| {
        let mut left = PATIENCE;
        let wait = &mut || {
            core::hint::spin_loop();
            left = left.saturating_sub(1);
            left > 0
        };
        let stamp = &mut || tsc.count();
        if me != 0 {
            for round in 0..ROUNDS {
                if exchange.follow(round, stamp, wait).is_err() {
                    return;
                }
            }
            return;
        }
        let mut found = Found::Offset(Offset::UNKNOWN);
        for round in 0..ROUNDS {
            match exchange.lead(round, stamp, wait) {
                Ok(round) => found = found.with(&round),
                Err(_) => return,
            }
        }
        let offset = match found {
            Found::Offset(offset) => offset,
            Found::Unsteady(first, then) => {
                steady.store(false, Ordering::Relaxed);
                low_then.store(then.low, Ordering::Relaxed);
                high_then.store(then.high, Ordering::Relaxed);
                first
            }
            Found::Silent => return,
        };
        low.store(offset.low, Ordering::Relaxed);
        high.store(offset.high, Ordering::Relaxed);
        whole.store(true, Ordering::Relaxed);
    });
    let offset = |low: &AtomicI64, high: &AtomicI64| Offset {
        low: low.load(Ordering::Relaxed),
        high: high.load(Ordering::Relaxed),
    };
    if !late.is_empty() || !whole.load(Ordering::Relaxed) {
        Found::Silent
    } else if steady.load(Ordering::Relaxed) {
        Found::Offset(offset(&low, &high))
    } else {
        Found::Unsteady(offset(&low, &high), offset(&low_then, &high_then))
    }
}

/// Moves the counters that are known to be apart; whether there were any, and a way.
fn adjust(lines: &[Line]) -> bool {
    // CPUID leaf 7, EBX bit 1.
    let has_register = Processor.leaf(0, 0).eax >= 7 && Processor.leaf(7, 0).ebx >> 1 & 1 == 1;
    let mut moved = false;
    for line in lines.iter().filter(|_| has_register) {
        let Some(add) = tsc_sync::correction(line.found) else {
            continue;
        };
        let late = ipi::on_cpus(&CpuSet::single(line.cpu), &|_| {
            let msrs = arch::msrs();
            let before = msrs.read(TSC_ADJUST);
            msrs.write(TSC_ADJUST, before.wrapping_add_signed(add));
        });
        moved |= late.is_empty();
    }
    moved
}
