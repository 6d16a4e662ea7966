//! What tests break in the kernel of the feature `faults`.
//!
//! * [`faulty`] stands between the clock and a real counter, and makes that run
//!   at another rate, stop, jump, or answer slowly.
//! * [`hold`] stops a CPU inside a windup, or in front of one, and [`watch`]
//!   compares the clock with another counter meanwhile.
//! * [`ruler`] measures both by the bare time-stamp counter.
//!
//! No ordinary kernel has any of it.

pub mod faulty;
pub mod hold;
pub mod ruler;
pub mod watch;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use timecounter::{Clock, Timecounter};

use crate::sync::IrqMutex;
use crate::sysctl::Errno;
use faulty::{Fault, Faulty};

/// The counters that can be made to fail.
static COUNTERS: IrqMutex<Vec<&'static Faulty>> = IrqMutex::new(Vec::new());

/// Puts a wrapper around `counter` and returns that, to be registered instead.
pub fn wrap(counter: &'static dyn Timecounter) -> &'static dyn Timecounter {
    let faulty: &'static Faulty = Box::leak(Box::new(Faulty::new(counter, ruler::wait_us)));
    COUNTERS.with(|counters| counters.push(faulty));
    faulty
}

fn find(name: &str) -> Option<&'static Faulty> {
    COUNTERS.with(|counters| {
        counters
            .iter()
            .copied()
            .find(|counter| counter.name() == name)
    })
}

/// What is wrong with the counter of that name.
///
/// # Errors
///
/// [`Errno::Unsupported`] for one that cannot be made to fail.
pub fn fault(name: &str) -> Result<String, Errno> {
    let counter = find(name).ok_or(Errno::Unsupported)?;
    Ok(counter.fault().to_string())
}

/// Makes the counter of that name fail as `text` says, from its next read on;
/// programs ask `clock` from now on, since their own reads know of no fault.
///
/// # Errors
///
/// [`Errno::Invalid`] for a text that means nothing, [`Errno::Unsupported`]
/// where nothing measures the slowness asked for.
pub fn set_fault(clock: &Clock, name: &str, text: &str) -> Result<(), Errno> {
    let counter = find(name).ok_or(Errno::Unsupported)?;
    let fault: Fault = text.parse().map_err(|_| Errno::Invalid)?;
    if matches!(fault, Fault::Slow(_)) && !ruler::is_there() {
        return Err(Errno::Unsupported);
    }
    counter.hide_from_programs();
    clock.set_user_enabled(clock.user_enabled());
    counter.set(fault);
    clock.set_user_enabled(clock.user_enabled());
    Ok(())
}
