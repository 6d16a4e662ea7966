//! Timecounters and timehands: the hardware-free core of Timehands.
//!
//! # The story
//!
//! A [*timecounter*](counter) is a free-running counter of known rate. Several
//! are [registered](registry); one of them, the best or the one an operator
//! [chose](select), tells the time. A timer interrupt calls
//! [`Clock::windup`](clock::Clock::windup), which [announces](windup) the next
//! segment of a piecewise linear clock a little before it begins, by
//! [publishing](ring) it in a ring of slots on one [page](page). Everybody who
//! wants the time, in the kernel or in user space, [reads](reader) that page and
//! the counter, without a lock, a division, or a store that others see, and never
//! waits for the writer.
//!
//! Because segments are announced, and go on at a lower slope where the next one
//! is late, a publication can only raise the clock. So no reader sees time go
//! back, on whatever CPU and however long the writer was stopped wherever.
//!
//! # In a kernel
//!
//! ```
//! use core::sync::atomic::{AtomicU64, Ordering};
//! use timecounter::page::TimehandsPage;
//! use timecounter::{Clock, Timecounter};
//!
//! /// A chip that counts at 1 MHz; this one counts whenever it is looked at.
//! struct Chip(AtomicU64);
//!
//! impl Timecounter for Chip {
//!     fn name(&self) -> &'static str {
//!         "chip"
//!     }
//!     fn frequency(&self) -> u64 {
//!         1_000_000
//!     }
//!     fn mask(&self) -> u64 {
//!         u64::from(u32::MAX)
//!     }
//!     fn quality(&self) -> i32 {
//!         100
//!     }
//!     fn read(&self) -> u64 {
//!         self.0.fetch_add(10, Ordering::Relaxed)
//!     }
//! }
//!
//! static CHIP: Chip = Chip(AtomicU64::new(0));
//! // Map the frame this lies in read-only into programs.
//! static PAGE: TimehandsPage = TimehandsPage::new();
//! static CLOCK: Clock = Clock::new(&PAGE);
//!
//! // When the machine comes up:
//! CLOCK.start();
//! CLOCK.set_hz(1000);
//! CLOCK.register(&CHIP)?;
//! CLOCK.settle(&mut core::hint::spin_loop)?;
//!
//! // In the timer interrupt:
//! CLOCK.windup();
//!
//! // Anywhere, at any time:
//! let before = CLOCK.monotonic();
//! assert!(CLOCK.monotonic() >= before);
//! assert_eq!(CLOCK.active().map(|active| active.name()), Some("chip"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! Rates from 2 Hz to 2^63 Hz, masks of 8 to 64 bits, at least three windups
//! while a counter wraps. Uptime is told in 64 bits of nanoseconds, 584 years.
//! There is no allocation, no floating point and no `unsafe`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom, feature = "trace"))]
extern crate std;

pub mod bintime;
#[cfg(not(loom))]
mod change;
#[cfg(not(loom))]
pub mod clock;
pub mod counter;
#[cfg(not(loom))]
mod cursor;
pub mod delta;
#[cfg(not(loom))]
mod dummy;
pub mod gate;
pub mod generation;
pub mod getres;
#[cfg(not(loom))]
mod gettime;
pub mod guard;
pub mod kind;
#[cfg(not(loom))]
mod leap;
#[cfg(not(loom))]
mod pace;
pub mod page;
pub mod quality;
#[cfg(not(loom))]
mod rate;
pub mod reader;
#[cfg(not(loom))]
mod registered;
#[cfg(not(loom))]
pub mod registry;
pub mod rendezvous;
pub mod ring;
pub mod role;
pub mod scale;
pub mod second;
#[cfg(not(loom))]
pub mod select;
#[cfg(not(loom))]
mod settime;
#[cfg(not(loom))]
pub mod statistics;
// Public for the models alone, which weaken its sites.
#[doc(hidden)]
pub mod sync;
pub mod tick;
pub mod timespec;
#[cfg(feature = "trace")]
pub mod trace;
pub mod validate;
mod views;
#[cfg(not(loom))]
pub mod watch;
pub mod watchdog;
#[cfg(not(loom))]
pub mod windup;
#[cfg(not(loom))]
mod witness;

pub use bintime::Bintime;
#[cfg(not(loom))]
pub use clock::Clock;
pub use counter::{Flags, Timecounter, UserCounter};
pub use scale::{Multiplier, Scale, ScaleError};
pub use timespec::{Timespec, Timeval};
