//! The atomics of the crate, exchanged for loom's when its models are built and
//! for recording ones with the feature `trace`, and the orderings that matter,
//! each by name.
//!
//! The models weaken one [`Site`] at a time and must then fail: an ordering that
//! nothing needs would be a claim that nobody checks.

#[cfg(not(any(loom, feature = "trace")))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(not(loom), feature = "trace"))]
pub(crate) use crate::trace::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A place whose memory ordering the protocol needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// W1: the fence between marking a slot and filling it.
    Mark,
    /// W2: the store of `current`.
    Publish,
    /// R1: the load of `current`.
    Current,
    /// R2: the fence between the fields and the second look at the generation.
    Accept,
    /// Going through the gate.
    Enter,
    /// Leaving it.
    Leave,
    /// A CPU's taking over of the windups.
    TakeOver,
    /// The load of who winds up.
    Holder,
}

impl Site {
    /// The ordering of the load or store at this place, or of its fence.
    #[inline(always)]
    pub(crate) fn ordering(self) -> Ordering {
        if weakened(self) {
            return Ordering::Relaxed;
        }
        match self {
            Self::Mark | Self::Publish | Self::Leave | Self::TakeOver => Ordering::Release,
            Self::Current | Self::Accept | Self::Enter | Self::Holder => Ordering::Acquire,
        }
    }

    /// The fence at this place.
    #[inline(always)]
    pub(crate) fn fence(self) {
        if !weakened(self) {
            fence(self.ordering());
        }
    }
}

#[cfg(not(loom))]
#[inline(always)]
const fn weakened(_site: Site) -> bool {
    false
}

#[cfg(loom)]
use weakening::weakened;

#[cfg(loom)]
pub use weakening::weaken;

#[cfg(loom)]
mod weakening {
    use super::Site;
    use std::cell::Cell;

    std::thread_local! {
        static WEAKENED: Cell<Option<Site>> = const { Cell::new(None) };
    }

    /// Leaves out the ordering at `site` in models that this thread runs.
    pub fn weaken(site: Site) {
        WEAKENED.set(Some(site));
    }

    pub(super) fn weakened(site: Site) -> bool {
        WEAKENED.get() == Some(site)
    }
}
