//! The time-stamp counter as a timecounter.
//!
//! The cheapest counter there is, and the one that has to prove most: its rate
//! is stated nowhere reliably ([`cpuid`](crate::cpuid)) and is measured
//! ([`probe`](crate::probe)); it may follow the core's clock, stop in deep
//! sleep, or differ between CPUs. What is known about that becomes a quality
//! and a reason ([`rate`]).
//!
//! All 64 bits are used, so there is no shifted variant of it.
//!
//! # The ordered read
//!
//! `RDTSC` alone may execute before earlier loads, which lets a reader that
//! saw another CPU's time get an earlier one. `LFENCE; RDTSC` and `RDTSCP`
//! both wait for them; which is cheaper differs by processor, so both are
//! timed ([`choose_read`]). On AMD `LFENCE` waits only once a bit of an MSR is
//! set ([`serialize_lfence`]).
//!
//! Source: Intel SDM volume 3B, "Time-Stamp Counter"; AMD APM volume 2,
//! section 13.2.4; AMD, "Software techniques for managing speculation",
//! mitigation G-2 (the LFENCE bit).

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use timecounter::{Flags, Timecounter, UserCounter};

use crate::bus::{Msr, OrderedRead, TscRead};
use crate::calibrate::CalibrationError;
use crate::cpuid::{Hypervisor, TscFacts, Vendor};

/// AMD's decode configuration, where bit 1 makes LFENCE serializing.
const DE_CFG: u32 = 0xC001_1029;
const DE_CFG_LFENCE_SERIALIZE: u64 = 1 << 1;
/// Reads in one timing, and timings of which the shortest counts.
const TIMED_READS: u32 = 32;
const TIMINGS: u32 = 8;

/// Why there is no `TSC` to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TscError {
    /// The processor has none.
    Absent,
    /// `machdep.disable_tsc` is set.
    Disabled,
    /// It stands still.
    NotAdvancing,
    /// There is no other counter to measure it by and CPUID states no rate.
    NoRate,
    /// CPUID states no rate and `machdep.disable_tsc_calibration` is set.
    NotStated,
    /// It could not be measured.
    Calibration(CalibrationError),
}

impl fmt::Display for TscError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("not in this processor"),
            Self::Disabled => f.write_str("disabled by machdep.disable_tsc"),
            Self::NotAdvancing => f.write_str("counter does not advance"),
            Self::NoRate => f.write_str("no rate stated and no counter to measure it by"),
            Self::NotStated => f.write_str(
                "no rate stated, and machdep.disable_tsc_calibration forbids to measure it",
            ),
            Self::Calibration(error) => error.fmt(f),
        }
    }
}

/// Why the TSC has the quality it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Invariant, and nothing to be out of step with.
    InvariantOneCpu,
    /// Not known to be invariant; nothing to be out of step with.
    NotInvariantOneCpu,
    /// Invariant, in step on all CPUs, of a make that keeps it so.
    InvariantInStep,
    /// As above but of a make that has been seen to drift, or not invariant.
    InStep,
    /// Not known to be invariant, on several CPUs, which cannot stay in step
    /// then.
    NotInvariant,
    /// The CPUs' counters are out of step, or were not compared.
    OutOfStep,
    /// VirtualBox: sleeps of about a second were seen to miss their wakeup.
    VirtualBox,
    /// CPUID states another rate than was measured, in Hz.
    Misstated {
        /// By CPUID.
        stated: u64,
        /// By the reference.
        measured: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvariantOneCpu => "invariant, one CPU",
            Self::NotInvariantOneCpu => "not invariant, one CPU",
            Self::InvariantInStep => "invariant, CPUs in step",
            Self::InStep => "CPUs in step",
            Self::NotInvariant => "not invariant",
            Self::OutOfStep => "CPUs not known to be in step",
            Self::VirtualBox => "unreliable under VirtualBox",
            Self::Misstated { stated, measured } => {
                return write!(f, "CPUID states {stated} Hz, measured {measured} Hz");
            }
        })
    }
}

/// A quality and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rating {
    /// As in [`Timecounter::quality`].
    pub quality: i32,
    /// Why.
    pub reason: Reason,
}

/// Rates the TSC of a machine with `cpus` CPUs, whose counters were compared
/// and found `in_step` or not (of no account on one).
///
/// FreeBSD's table: 1000 where everything speaks for it, 800 in between, 0
/// under VirtualBox, -100 where CPUs may disagree. On several CPUs a TSC that
/// is not invariant cannot stay in step, whatever a comparison at start says.
#[must_use]
pub fn rate(facts: &TscFacts, cpus: u32, in_step: bool) -> Rating {
    let several = cpus > 1;
    let trusted_make = match facts.vendor {
        Vendor::Intel => true,
        Vendor::Amd | Vendor::Hygon => facts.family >= 0x17,
        Vendor::Other => false,
    };
    let (quality, reason) = if several && !facts.invariant {
        (-100, Reason::NotInvariant)
    } else if several && !in_step {
        (-100, Reason::OutOfStep)
    } else if facts.hypervisor == Hypervisor::VirtualBox {
        (0, Reason::VirtualBox)
    } else if several {
        if trusted_make {
            (1000, Reason::InvariantInStep)
        } else {
            (800, Reason::InStep)
        }
    } else if facts.invariant {
        (1000, Reason::InvariantOneCpu)
    } else {
        (800, Reason::NotInvariantOneCpu)
    };
    Rating { quality, reason }
}

/// Makes `LFENCE` wait for earlier instructions on the calling CPU, and says
/// whether it does.
///
/// Intel's always does; so does AMD's where CPUID says so and in families 0Fh
/// and 11h, which do not have the MSR. Under a hypervisor that is not known to
/// emulate the register it is left alone, since touching it may raise #GP.
pub fn serialize_lfence<M: Msr>(facts: &TscFacts, msr: &M) -> bool {
    let needs_bit = matches!(facts.vendor, Vendor::Amd | Vendor::Hygon)
        && !facts.lfence_always_serializing
        && facts.family >= 0x10
        && facts.family != 0x11;
    if !needs_bit {
        return true;
    }
    match facts.hypervisor {
        Hypervisor::None | Hypervisor::Kvm | Hypervisor::Tcg => {
            let before = msr.read(DE_CFG);
            if before & DE_CFG_LFENCE_SERIALIZE == 0 {
                msr.write(DE_CFG, before | DE_CFG_LFENCE_SERIALIZE);
            }
            msr.read(DE_CFG) & DE_CFG_LFENCE_SERIALIZE != 0
        }
        Hypervisor::VirtualBox | Hypervisor::Vmware | Hypervisor::Other => false,
    }
}

/// The cheaper of the two ordered reads, each timed by itself.
///
/// `lfence_orders` is what [`serialize_lfence`] said; where it does not,
/// `RDTSCP` is taken if there is one.
pub fn choose_read<T: TscRead>(counter: &T, facts: &TscFacts, lfence_orders: bool) -> OrderedRead {
    if !facts.rdtscp {
        return OrderedRead::LfenceRdtsc;
    }
    if !lfence_orders
        || cost(counter, OrderedRead::Rdtscp) < cost(counter, OrderedRead::LfenceRdtsc)
    {
        OrderedRead::Rdtscp
    } else {
        OrderedRead::LfenceRdtsc
    }
}

/// Counts that a row of reads takes, at best.
fn cost<T: TscRead>(counter: &T, how: OrderedRead) -> u64 {
    let timing = |_| {
        let start = counter.read(how);
        for _ in 2..TIMED_READS {
            counter.read(how);
        }
        counter.read(how).wrapping_sub(start)
    };
    (0..TIMINGS).map(timing).min().unwrap_or(u64::MAX)
}

/// A TSC whose rate is known.
#[derive(Debug)]
pub struct Tsc<T> {
    counter: T,
    how: OrderedRead,
    frequency: u64,
    step: u64,
    rating: Rating,
    /// What [`Tsc::rerate`] found since, as an index into [`RERATED`] plus one.
    rerated: AtomicU8,
    flags: Flags,
}

/// What a comparison of the CPUs can make of the rating.
const RERATED: [Rating; 5] = [
    Rating {
        quality: 1000,
        reason: Reason::InvariantInStep,
    },
    Rating {
        quality: 800,
        reason: Reason::InStep,
    },
    Rating {
        quality: 0,
        reason: Reason::VirtualBox,
    },
    Rating {
        quality: -100,
        reason: Reason::NotInvariant,
    },
    Rating {
        quality: -100,
        reason: Reason::OutOfStep,
    },
];

impl<T: TscRead> Tsc<T> {
    /// Of this rate in Hz and step in counts, read in this way.
    pub fn new(
        counter: T,
        how: OrderedRead,
        facts: &TscFacts,
        frequency: u64,
        step: u64,
        rating: Rating,
    ) -> Self {
        // Intel's stops in C2 and deeper where it is not invariant.
        let flags = if !facts.invariant && facts.vendor == Vendor::Intel {
            Flags::C2STOP
        } else {
            Flags::NONE
        };
        Self {
            counter,
            how,
            frequency,
            step,
            rating,
            rerated: AtomicU8::new(0),
            flags,
        }
    }

    /// Rates it anew once its CPUs were compared; a rate that CPUID misstates
    /// counts against it whatever came of that.
    pub fn rerate(&self, facts: &TscFacts, cpus: u32, in_step: bool) {
        let now = rate(facts, cpus, in_step);
        let found = RERATED.iter().zip(1_u8..).find(|(it, _)| **it == now);
        if let (Some((_, number)), false) = (found, self.is_misstated()) {
            self.rerated.store(number, Ordering::Relaxed);
        }
    }

    const fn is_misstated(&self) -> bool {
        matches!(self.rating.reason, Reason::Misstated { .. })
    }

    fn rating(&self) -> Rating {
        let number = usize::from(self.rerated.load(Ordering::Relaxed));
        let rerated = number.checked_sub(1).and_then(|index| RERATED.get(index));
        rerated.copied().unwrap_or(self.rating)
    }

    /// Its rate in Hz.
    pub const fn frequency_hz(&self) -> u64 {
        self.frequency
    }

    /// Its count on the calling CPU, read in order.
    pub fn count(&self) -> u64 {
        self.counter.read(self.how)
    }

    /// How it is read; user space does the same.
    pub const fn ordered_read(&self) -> OrderedRead {
        self.how
    }

    /// Why it has its quality.
    pub fn reason(&self) -> Reason {
        self.rating().reason
    }
}

impl<T: TscRead> Timecounter for Tsc<T> {
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rating().reason)
    }

    fn name(&self) -> &'static str {
        "TSC"
    }

    fn frequency(&self) -> u64 {
        self.frequency
    }

    fn mask(&self) -> u64 {
        u64::MAX
    }

    fn quality(&self) -> i32 {
        self.rating().quality
    }

    #[inline]
    fn read(&self) -> u64 {
        self.counter.read(self.how)
    }

    fn user_counter(&self) -> UserCounter {
        UserCounter::Tsc
    }

    fn is_calibrated(&self) -> bool {
        true
    }

    fn flags(&self) -> Flags {
        self.flags
    }

    fn step(&self) -> u64 {
        self.step
    }
}
