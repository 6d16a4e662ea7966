//! The gate before the clock's writer.

use crate::sync::{AtomicU32, Ordering, Site};

/// Lets one caller at a time through and turns others away, so that no
/// interrupt ever waits for the code it interrupted.
#[derive(Debug)]
pub struct Gate {
    taken: AtomicU32,
}

/// The right to be inside; dropping it opens the gate.
#[derive(Debug)]
pub struct Inside<'g>(&'g Gate);

impl Gate {
    /// An open gate.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            taken: AtomicU32::new(0),
        }
    }

    /// See the form for production.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            taken: AtomicU32::new(0),
        }
    }

    /// Goes in, or returns nothing at once when somebody is inside.
    #[must_use]
    pub fn try_enter(&self) -> Option<Inside<'_>> {
        // Acquire pairs with the release in `drop`: who comes next sees all
        // that the one before stored inside.
        self.taken
            .compare_exchange(0, 1, Site::Enter.ordering(), Ordering::Relaxed)
            .ok()
            .map(|_| Inside(self))
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.taken.store(0, Site::Leave.ordering());
    }
}
