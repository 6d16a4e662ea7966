//! A counter that can be made to fail.
//!
//! It shows the counts of a real one until a fault is set. From then on it
//! advances a count of its own by what the real one has counted since the last
//! read, as the fault has it; so no fault but a jump makes a step, neither when
//! it is set nor when it is taken away.
//!
//! Limits: a faulty counter must be read twice a wrap of the real one, as the
//! clock does with the active one and with those that it checks by. Reads take
//! a lock, which keeps interrupts off, unlike those of a counter in service.

use core::fmt;
use core::str::FromStr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use timecounter::{Flags, Timecounter, UserCounter};

use crate::sync::IrqMutex;
use crate::sysctl::number::parse_integer;

/// Largest deviation of a rate, in 10^-6: a counter at twice its rate.
const MAX_PPM: i128 = 1_000_000;

/// Longest jump: an hour.
const MAX_JUMP_NS: i128 = 3_600_000_000_000;

/// Slowest read: 10 ms, so that a tick still ends.
const MAX_SLOW_US: i128 = 10_000;

/// What is wrong with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing, from now on.
    None,
    /// It is too fast by so many 10^-6.
    Rate(i32),
    /// It stands still.
    Stop,
    /// It has jumped by so many nanoseconds, once.
    Jump(i64),
    /// A read takes so many microseconds longer.
    Slow(u32),
}

/// A text that is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFault;

impl fmt::Display for NoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not one of rate:PPM, stop, jump:NS, slow:US, none")
    }
}

impl core::error::Error for NoFault {}

impl FromStr for Fault {
    type Err = NoFault;

    fn from_str(text: &str) -> Result<Self, NoFault> {
        let (kind, value) = match text.split_once(':') {
            Some((kind, value)) => (kind, Some(parse_integer(value).ok_or(NoFault)?)),
            None => (text, None),
        };
        let within = |value: i128, low: i128, high: i128| {
            let fits = (low..=high).contains(&value);
            fits.then_some(value as i64).ok_or(NoFault)
        };
        match (kind, value) {
            ("none", None) => Ok(Self::None),
            ("stop", None) => Ok(Self::Stop),
            // Backwards it would be a stop at the least.
            ("rate", Some(ppm)) => Ok(Self::Rate(within(ppm, 1 - MAX_PPM, MAX_PPM)? as i32)),
            ("jump", Some(ns)) => Ok(Self::Jump(within(ns, -MAX_JUMP_NS, MAX_JUMP_NS)?)),
            ("slow", Some(us)) => Ok(Self::Slow(within(us, 0, MAX_SLOW_US)? as u32)),
            _ => Err(NoFault),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Rate(ppm) => write!(f, "rate:{ppm}"),
            Self::Stop => f.write_str("stop"),
            Self::Jump(ns) => write!(f, "jump:{ns}"),
            Self::Slow(us) => write!(f, "slow:{us}"),
        }
    }
}

/// The count of its own.
#[derive(Debug)]
struct State {
    fault: Fault,
    /// The real count at the last read, masked.
    real: u64,
    /// The count shown then.
    shown: u64,
    /// What the rate left over, in 10^-6 of a count.
    left: u128,
}

/// A counter around a real one.
pub struct Faulty {
    real: &'static dyn Timecounter,
    wait_us: fn(u32),
    /// The count shown is its own.
    own: AtomicBool,
    /// Programs must not read the real one.
    hidden: AtomicBool,
    slow_us: AtomicU32,
    state: IrqMutex<State>,
}

impl Faulty {
    /// A wrapper around `real` in which nothing is wrong yet. `wait_us` waits
    /// for so many microseconds.
    pub fn new(real: &'static dyn Timecounter, wait_us: fn(u32)) -> Self {
        Self {
            real,
            wait_us,
            own: AtomicBool::new(false),
            hidden: AtomicBool::new(false),
            slow_us: AtomicU32::new(0),
            state: IrqMutex::new(State {
                fault: Fault::None,
                real: 0,
                shown: 0,
                left: 0,
            }),
        }
    }

    /// The real counter.
    pub fn real(&self) -> &'static dyn Timecounter {
        self.real
    }

    /// What is wrong with it.
    pub fn fault(&self) -> Fault {
        self.state.with(|state| state.fault)
    }

    /// Keeps programs from reading the real counter: [`user_counter`] is none
    /// from now on, until a [`set`](Self::set) finds nothing wrong.
    ///
    /// [`user_counter`]: Timecounter::user_counter
    pub fn hide_from_programs(&self) {
        self.hidden.store(true, Ordering::Relaxed);
    }

    /// Sets what is wrong with it from now on. Once its count is its own it
    /// stays so, and programs never read the real one again.
    pub fn set(&self, fault: Fault) {
        self.state.with(|state| {
            if self.own.load(Ordering::Relaxed) {
                self.advance(state);
            } else {
                state.real = self.real.read() & self.real.mask();
                state.shown = state.real;
            }
            state.fault = fault;
            state.left = 0;
            match fault {
                Fault::Jump(ns) => {
                    let counts = i128::from(ns) * i128::from(self.real.frequency()) / 1_000_000_000;
                    state.shown = state.shown.wrapping_add(counts as u64);
                    self.own.store(true, Ordering::Relaxed);
                }
                Fault::Rate(_) | Fault::Stop => self.own.store(true, Ordering::Relaxed),
                Fault::None | Fault::Slow(_) => {}
            }
        });
        let slow_us = match fault {
            Fault::Slow(us) => us,
            _ => 0,
        };
        self.slow_us.store(slow_us, Ordering::Relaxed);
        let wrong = self.own.load(Ordering::Relaxed) || slow_us != 0;
        self.hidden.store(wrong, Ordering::Relaxed);
    }

    /// Counts what the real one has counted since the last read, as the fault
    /// has it, and returns the count to show.
    fn advance(&self, state: &mut State) -> u64 {
        let mask = self.real.mask();
        let real = self.real.read() & mask;
        let passed = real.wrapping_sub(state.real) & mask;
        // Half a wrap ahead is a little behind: another CPU's counter may be.
        if passed <= mask / 2 {
            state.real = real;
            let moved = match state.fault {
                Fault::Stop => 0,
                Fault::Rate(ppm) => {
                    const ONE: i64 = 1_000_000;
                    let millionths = u128::from(passed)
                        * u128::from((ONE + i64::from(ppm)).unsigned_abs())
                        + state.left;
                    state.left = millionths % u128::from(ONE.unsigned_abs());
                    (millionths / u128::from(ONE.unsigned_abs())) as u64
                }
                Fault::None | Fault::Jump(_) | Fault::Slow(_) => passed,
            };
            state.shown = state.shown.wrapping_add(moved);
        }
        state.shown & mask
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {}", self.real, self.fault())
    }
}

impl Timecounter for Faulty {
    fn name(&self) -> &'static str {
        self.real.name()
    }
    fn frequency(&self) -> u64 {
        self.real.frequency()
    }
    fn mask(&self) -> u64 {
        self.real.mask()
    }
    fn quality(&self) -> i32 {
        self.real.quality()
    }
    fn read(&self) -> u64 {
        let slow_us = self.slow_us.load(Ordering::Relaxed);
        if slow_us != 0 {
            (self.wait_us)(slow_us);
        }
        if self.own.load(Ordering::Relaxed) {
            return self.state.with(|state| self.advance(state));
        }
        self.real.read()
    }
    fn user_counter(&self) -> UserCounter {
        if self.hidden.load(Ordering::Relaxed) {
            return UserCounter::None;
        }
        self.real.user_counter()
    }
    fn flags(&self) -> Flags {
        self.real.flags()
    }
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.real.explain(f)
    }
    fn is_calibrated(&self) -> bool {
        self.real.is_calibrated()
    }
    fn step(&self) -> u64 {
        self.real.step()
    }
}

#[cfg(test)]
#[path = "faulty_tests.rs"]
mod tests;
