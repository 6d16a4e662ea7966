//! Prints which words of the page, and of the line of the jitter guard, the
//! production code touches: at a windup, at a read before the start of the
//! segment that it announced, and at a read inside. Each windup fills the next
//! slot, so all are shown for as many windups as there are slots.
//!
//! A line is `SECTION OBJECT OPERATION OFFSET`, for example `inside page load
//! 128`; `guarded` in front of a section says that the counter is guarded. A
//! windup begins each group.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use timecounter::clock::{Clock, GuardPolicy, Windup};
use timecounter::guard::{Guard, GuardLine};
use timecounter::kind::Kind;
use timecounter::page::{PAGE_SIZE, SLOTS, TimehandsPage};
use timecounter::reader::{Counters, Halves};
use timecounter::trace::{Access, Operation, record};
use timecounter::{Timecounter, UserCounter};

/// Rate of the counter, above that at which reads take their ordinary way.
const FREQUENCY: u64 = 2_500_000_000;
/// Counts between two windups.
const TICK: u64 = FREQUENCY / 1000;

/// A TSC that stands where it was put.
struct Still(AtomicU64);

impl Still {
    fn advance(&self, counts: u64) {
        self.0.fetch_add(counts, Ordering::Relaxed);
    }
}

impl Timecounter for Still {
    fn name(&self) -> &'static str {
        "TSC"
    }
    fn frequency(&self) -> u64 {
        FREQUENCY
    }
    fn mask(&self) -> u64 {
        u64::MAX
    }
    fn quality(&self) -> i32 {
        1000
    }
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn user_counter(&self) -> UserCounter {
        UserCounter::Tsc
    }
}

static TSC: Still = Still(AtomicU64::new(0));
static PAGE: TimehandsPage = TimehandsPage::new();
static CLOCK: Clock = Clock::new(&PAGE);
static LINE: GuardLine = GuardLine::new();

/// What a program reads counters with.
struct Program;

impl Counters for Program {
    fn order(&self) {}
    fn tsc<T>(&self, _ahead: &T) -> Halves {
        TSC.read().into()
    }
    fn read(&self, _kind: Kind) -> Option<u64> {
        Some(TSC.read())
    }
    fn guard(&self) -> Option<Guard<'_>> {
        Some(Guard::new(&LINE, PAGE.guard_bound_ns()))
    }
}

fn print(section: &str, accesses: &[Access]) {
    let page = core::ptr::from_ref(&PAGE).addr();
    let line = core::ptr::from_ref(&LINE).addr();
    for access in accesses {
        let within = |from: usize, size: usize| {
            access
                .address
                .checked_sub(from)
                .filter(|offset| *offset < size)
        };
        let place = within(page, PAGE_SIZE)
            .map(|offset| ("page", offset))
            .or_else(|| within(line, size_of::<GuardLine>()).map(|offset| ("guard", offset)));
        // The rest is the writer's own.
        if let Some((object, offset)) = place {
            let operation = match access.operation {
                Operation::Load => "load",
                Operation::Store => "store",
                Operation::Exchange => "exchange",
            };
            println!("{section} {object} {operation} {offset}");
        }
    }
}

/// A turn of the ring.
fn turn(prefix: &str) -> Result<(), Box<dyn Error>> {
    for _ in 0..SLOTS {
        let (done, windup) = record(|| CLOCK.windup());
        if done != Windup::OnTime {
            return Err(format!("a windup was {done:?}").into());
        }
        print(&format!("{prefix}windup"), &windup);
        for (section, later) in [("before", 1), ("inside", TICK / 2)] {
            TSC.advance(later);
            let (time, read) = record(|| PAGE.monotonic(&Program));
            time.ok_or("the counter cannot be read")?;
            print(&format!("{prefix}{section}"), &read);
        }
        TSC.advance(TICK / 2);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    CLOCK.start();
    CLOCK.register(&TSC)?;
    CLOCK.settle(&mut || TSC.advance(TICK / 4))?;
    for _ in 0..2 * SLOTS {
        CLOCK.windup();
        TSC.advance(TICK);
    }
    turn("")?;
    CLOCK.set_guard(GuardPolicy::Always);
    turn("guarded-")
}
