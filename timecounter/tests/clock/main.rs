//! The clock as a whole: counters turned by hand, windups early, late and lost.

mod change;
mod common;
mod events;
mod guard;
mod held;
mod oracle;
mod rate;
mod registration;
mod rig;
mod samples;
mod threads;
mod time_of_day;
mod uptime;
mod watchdog;

use common::{Machine, Manual, asleep};
use proptest::prelude::*;
use timecounter::clock::{MAX_ADJUSTMENT, Windup};
use timecounter::registry::RegisterError;
use timecounter::second::LeapState;
use timecounter::select::ChooseError;
use timecounter::{Bintime, Timespec};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn tsc() -> &'static Manual {
    Manual::new("TSC", 2_400_000_000, 64, 1000)
}

fn hpet() -> &'static Manual {
    Manual::new("HPET", 100_000_000, 32, 950)
}

fn pm() -> &'static Manual {
    Manual::new("ACPI-fast", 3_579_545, 24, 900)
}

fn pit() -> &'static Manual {
    Manual::new("i8254", 1_193_182, 16, 0)
}

/// A machine on the TSC whose first read is far from zero.
fn on_tsc() -> Machine {
    let mut machine = Machine::new();
    machine.add(tsc(), 0x0000_F000_0000_ABCD);
    machine
}
