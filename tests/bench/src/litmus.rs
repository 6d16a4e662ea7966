//! Real threads that look for a step back.
//!
//! Two threads on two processors read one clock, and each publishes what it read
//! for the other to follow: whoever sees the other's time must not then read an
//! earlier one. One of them is also the clock's tick. It changes the rate by
//! +-500 ppm at every windup and stops for a while in the middle of some, in
//! every place in turn: behind the sample, behind each store, behind the last.
//! While stopped it goes on reading, as an interrupt would that hit the writer
//! there.
//!
//! The models show the same for every interleaving with a handful of reads; this
//! shows it for the processor at hand with many millions.
//!
//! A step back is a failure if it exceeds one step of the counter plus what the
//! two processors' counters may be apart, which is measured in the same run by
//! passing counts to and fro. Smaller ones are counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use drivers::step::smallest_step;
use timecounter::clock::{Clock, MAX_ADJUSTMENT, Windup};
use timecounter::page::TimehandsPage;
use timecounter::windup::Horizon;
use vdso::counter::{HpetPage, Lfence, UserCounters};

use crate::cpu;
use crate::tsc::{HostTsc, ordered};

/// Rate of windups.
const HZ: u32 = 1000;
/// Counts passed each way to bound what the counters are apart.
const PASSES: u64 = 200_000;
/// Reads of the counter for its smallest step.
const STEP_READS: u32 = 100_000;

/// How long the writer stops, in tenths of the lead.
pub const STALLS: [u64; 4] = [1, 10, 100, 10_000];
/// Places in a windup where it may stop: behind the sample and behind each of
/// the stores of a publication.
const PLACES: u32 = 22;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Reads that follow the other processor's, at least.
    pub reads: u64,
    /// The longest of [`STALLS`] to use.
    pub longest_stall: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Reads that followed another processor's.
    pub reads: u64,
    /// Windups, each with another rate than the one before.
    pub windups: u64,
    /// Windups that published late.
    pub late: u64,
    /// Windups that were stopped.
    pub stalls: u64,
    /// Steps back of any size.
    pub backward: u64,
    /// The largest of them in ns.
    pub worst_ns: u64,
    /// Steps back beyond [`bound_ns`](Self::bound_ns).
    pub failures: u64,
    /// The counter's smallest step in counts.
    pub step: u64,
    /// Counts that the two processors' counters may be apart.
    pub skew: u64,
    /// One step and that skew, in ns, rounded up.
    pub bound_ns: u64,
    /// The lead with which segments are announced, in counts.
    pub lead: u64,
    /// The counter's rate in Hz.
    pub frequency: u64,
}

/// A value in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What both threads share.
#[derive(Debug)]
struct World {
    clock: &'static Clock,
    /// The latest time each has told.
    told: [Line; 2],
    stop: AtomicBool,
}

/// What one thread saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reads: u64,
    backward: u64,
    worst_ns: u64,
    failures: u64,
}

/// One thread's reads.
#[derive(Debug)]
struct Reader<'w> {
    world: &'w World,
    side: usize,
    counters: UserCounters<Lfence>,
    bound_ns: u64,
    seen: Seen,
}

impl<'w> Reader<'w> {
    fn new(world: &'w World, side: usize, bound_ns: u64) -> Self {
        Self {
            world,
            side,
            counters: UserCounters::new(Lfence, HpetPage::ABSENT),
            bound_ns,
            seen: Seen::default(),
        }
    }

    /// Reads after having seen what the other thread, and this one, told last.
    #[inline(always)]
    fn read(&mut self) {
        let [first, second] = &self.world.told;
        let (mine, other) = if self.side == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let before = other
            .0
            .load(Ordering::Acquire)
            .max(mine.0.load(Ordering::Relaxed));
        let Some(now) = self.world.clock.page().monotonic_ns(&self.counters) else {
            return;
        };
        let seen = &mut self.seen;
        seen.reads += 1;
        if now < before {
            seen.backward += 1;
            let step = before - now;
            seen.worst_ns = seen.worst_ns.max(step);
            seen.failures += u64::from(step > self.bound_ns);
        }
        mine.0.store(now, Ordering::Release);
    }
}

/// Runs the litmus on the first two processors this thread may use; nothing is
/// returned where there is only one.
///
/// # Errors
///
/// The host lets no thread be pinned or started, or its TSC stands still.
pub fn run(effort: Effort) -> Result<Option<Report>> {
    let [first, second, ..] = cpu::usable()?[..] else {
        return Ok(None);
    };
    let tsc: &'static HostTsc = Box::leak(Box::new(HostTsc::measure()?));
    let page: &'static TimehandsPage = Box::leak(Box::default());
    let clock: &'static Clock = Box::leak(Box::new(Clock::new(page)));
    clock.start();
    clock.set_hz(HZ);
    clock.register(tsc)?;
    clock.settle(&mut std::hint::spin_loop)?;

    let frequency = clock.active().context("no counter is active")?.frequency();
    let skew = measure_skew(first, second)?;
    let step = smallest_step(ordered, u64::MAX, STEP_READS);
    let ns = |counts: u64| {
        let ns = u128::from(counts) * 1_000_000_000 / u128::from(frequency.max(1)) + 1;
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let mut report = Report {
        step,
        skew,
        bound_ns: ns(step + skew),
        lead: Horizon::new(frequency, u64::MAX, clock.tick_ns()).lead,
        frequency,
        ..Report::default()
    };

    let world = World {
        clock,
        told: [Line::default(), Line::default()],
        stop: AtomicBool::new(false),
    };
    let (follower, writer) = thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&world, first, report.bound_ns));
        let known = report.clone();
        let writer = scope.spawn(|| write(&world, second, effort, known));
        let written = writer.join();
        world.stop.store(true, Ordering::Relaxed);
        (follower.join(), written)
    });
    let follower = follower.map_err(|_| anyhow!("the follower panicked"))??;
    let (writer, counted) = writer.map_err(|_| anyhow!("the writer panicked"))??;
    report = counted;
    report.late = clock.statistics().late_publications();
    for seen in [follower, writer] {
        report.reads += seen.reads;
        report.backward += seen.backward;
        report.failures += seen.failures;
        report.worst_ns = report.worst_ns.max(seen.worst_ns);
    }
    Ok(Some(report))
}

/// Reads until told to stop.
fn follow(world: &World, cpu: usize, bound_ns: u64) -> Result<Seen> {
    cpu::pin(cpu)?;
    let mut reader = Reader::new(world, 0, bound_ns);
    while !world.stop.load(Ordering::Relaxed) {
        for _ in 0..64 {
            reader.read();
        }
    }
    Ok(reader.seen)
}

/// The tick: reads until the next one is due, winds up with the other rate, and
/// stops in one place after the other.
fn write(world: &World, cpu: usize, effort: Effort, mut report: Report) -> Result<(Seen, Report)> {
    cpu::pin(cpu)?;
    let mut reader = Reader::new(world, 1, report.bound_ns);
    let clock = world.clock;
    let tick = Duration::from_nanos(clock.tick_ns());
    let stalls = STALLS
        .into_iter()
        .filter(|&tenths| tenths <= effort.longest_stall);
    let mut plan = stalls
        .flat_map(|tenths| (0..=PLACES).map(move |place| (place, tenths)))
        .collect::<Vec<_>>()
        .into_iter();
    let mut pending = None;
    // The follower reads about as often as this thread does.
    while reader.seen.reads < effort.reads / 2 || pending.is_some() || plan.len() > 0 {
        let due = Instant::now() + tick;
        while Instant::now() < due {
            for _ in 0..64 {
                reader.read();
            }
        }
        let rate = if report.windups.is_multiple_of(2) {
            1
        } else {
            -1
        };
        clock.set_adjustment(rate * MAX_ADJUSTMENT)?;
        // Every other windup runs through, so that the tail left by a long stop
        // is not all there is to read.
        if report.windups.is_multiple_of(2) {
            pending = pending.or_else(|| plan.next());
        }
        let mut passed = 0;
        let mut stopped = false;
        let outcome = clock.windup_until(&mut || {
            if let Some((place, tenths)) = pending
                && place == passed
            {
                read_for(&mut reader, report.lead * tenths / 10);
                stopped = true;
            }
            passed += 1;
            true
        });
        if matches!(outcome, Windup::OnTime | Windup::Late(_)) {
            report.windups += 1;
        }
        if stopped || pending.is_some_and(|(place, _)| place >= passed && passed > 1) {
            pending = None;
            report.stalls += u64::from(stopped);
        }
    }
    Ok((reader.seen, report))
}

/// Reads for so many counts.
fn read_for(reader: &mut Reader<'_>, counts: u64) {
    let start = ordered();
    while ordered().wrapping_sub(start) < counts {
        reader.read();
    }
}

/// The bound of what the counters of two processors are apart, in counts: one
/// passes its count, the other reads its own behind it, both ways. The least
/// difference seen in each direction is the skew, with its sign, plus the way.
fn measure_skew(first: usize, second: usize) -> Result<u64> {
    let cells = [Line::default(), Line::default()];
    let least = |here: usize, begins: bool| -> Result<i64> {
        cpu::pin(here)?;
        let [mine, other] = if begins {
            [&cells[0], &cells[1]]
        } else {
            [&cells[1], &cells[0]]
        };
        let mut least = i64::MAX;
        let mut seen = 0;
        for pass in 0..PASSES {
            if begins || pass > 0 {
                mine.0.store(ordered(), Ordering::Release);
            }
            let mut count = other.0.load(Ordering::Acquire);
            while count == seen {
                std::hint::spin_loop();
                count = other.0.load(Ordering::Acquire);
            }
            seen = count;
            if count == u64::MAX {
                break;
            }
            least = least.min(ordered().wrapping_sub(count).cast_signed());
        }
        mine.0.store(u64::MAX, Ordering::Release);
        Ok(least)
    };
    let (forth, back) = thread::scope(|scope| {
        let forth = scope.spawn(|| least(second, false));
        let back = scope.spawn(|| least(first, true));
        (forth.join(), back.join())
    });
    let forth = forth.map_err(|_| anyhow!("a thread panicked"))??;
    let back = back.map_err(|_| anyhow!("a thread panicked"))??;
    // The true offset lies between -forth and back.
    Ok(forth.max(back).max(0).unsigned_abs())
}
