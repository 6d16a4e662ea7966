//! A range of addresses, physical or virtual.
//!
//! Unlike [`core::ops::Range`] it can be copied, and it knows about pages.

use core::fmt;

use crate::PAGE;

/// Addresses from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
}

impl Span {
    /// The span of `length` bytes at `start`, or `None` if it wraps.
    pub fn new(start: u64, length: u64) -> Option<Self> {
        let end = start.checked_add(length)?;
        Some(Self { start, end })
    }

    /// Length in bytes, 0 for a span that ends before it starts.
    pub fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The smallest span of whole pages that covers this one.
    pub fn pages(self) -> Self {
        Self {
            start: self.start & !(PAGE - 1),
            end: self
                .end
                .checked_next_multiple_of(PAGE)
                .unwrap_or(!(PAGE - 1)),
        }
    }

    /// The largest span of whole pages inside this one (maybe empty).
    pub(crate) fn inner_pages(self) -> Self {
        Self {
            start: self
                .start
                .checked_next_multiple_of(PAGE)
                .unwrap_or(u64::MAX),
            end: self.end & !(PAGE - 1),
        }
    }

    /// Whether both have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// Whether all of `other` lies in this span.
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start, self.end)
    }
}
