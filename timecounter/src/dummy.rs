//! The dummy counter: it counts reads, not time, and lets the clock run before
//! any hardware does.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::counter::Timecounter;
use crate::quality;

/// The counter; see the module.
#[derive(Debug)]
pub(crate) struct Dummy(AtomicU32);

impl Dummy {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Timecounter for Dummy {
    fn name(&self) -> &'static str {
        "dummy"
    }
    fn frequency(&self) -> u64 {
        1_000_000
    }
    fn mask(&self) -> u64 {
        u64::from(u32::MAX)
    }
    fn quality(&self) -> i32 {
        quality::DUMMY
    }
    fn read(&self) -> u64 {
        u64::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counts reads, not time")
    }
}

/// The only one.
pub(crate) static DUMMY_COUNTER: Dummy = Dummy::new();
