//! What the clock tells the kernel.
//!
//! Names are FreeBSD's: a getter that begins with `get` gives the time of the
//! latest windup without reading a counter, one that ends in `bintime` or
//! `binuptime` is for arithmetic. Every time that leaves the kernel comes from
//! the nanosecond getters, see [`crate::reader`]. None of them waits, and all
//! may be called from any context, non-maskable interrupts included.

use crate::bintime::Bintime;
use crate::clock::Clock;
use crate::guard::GuardLine;
use crate::registry::Answering;
use crate::timespec::Timespec;

impl Clock {
    /// CLOCK_MONOTONIC.
    #[must_use]
    pub fn monotonic(&self) -> Timespec {
        self.page
            .monotonic(&self.registry)
            .unwrap_or_else(|| self.page.monotonic_coarse())
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn monotonic_ns(&self) -> u64 {
        self.page.monotonic_ns(&self.registry).unwrap_or_default()
    }

    /// CLOCK_REALTIME.
    #[must_use]
    pub fn realtime(&self) -> Timespec {
        self.page
            .realtime(&self.registry)
            .unwrap_or_else(|| self.page.realtime_coarse())
    }

    /// CLOCK_MONOTONIC for the process whose guard line is `line`: not before
    /// what its own reads were told.
    #[must_use]
    pub fn monotonic_beside(&self, line: &GuardLine) -> Timespec {
        self.page
            .monotonic(&self.answering(line))
            .unwrap_or_else(|| self.page.monotonic_coarse())
    }

    /// CLOCK_REALTIME, likewise.
    #[must_use]
    pub fn realtime_beside(&self, line: &GuardLine) -> Timespec {
        self.page
            .realtime(&self.answering(line))
            .unwrap_or_else(|| self.page.realtime_coarse())
    }

    fn answering<'a>(&'a self, line: &'a GuardLine) -> Answering<'a> {
        Answering {
            registry: &self.registry,
            line,
        }
    }

    /// Uptime for arithmetic inside the kernel.
    #[must_use]
    pub fn binuptime(&self) -> Bintime {
        self.page.binuptime(&self.registry).unwrap_or_default()
    }

    /// Time of day for arithmetic inside the kernel.
    #[must_use]
    pub fn bintime(&self) -> Bintime {
        self.page.bintime(&self.registry).unwrap_or_default()
    }

    /// CLOCK_MONOTONIC at the latest windup.
    #[must_use]
    pub fn getmonotonic(&self) -> Timespec {
        self.page.monotonic_coarse()
    }

    /// CLOCK_REALTIME at the latest windup.
    #[must_use]
    pub fn getrealtime(&self) -> Timespec {
        self.page.realtime_coarse()
    }

    /// The time of day at which uptime was 0.
    #[must_use]
    pub fn boottime(&self) -> Bintime {
        self.page.boottime()
    }
}
