//! Counter reads from user space: the only `unsafe` of the library.
//!
//! # The ordered TSC read
//!
//! `RDTSC` alone may execute before an older load has completed, so that a
//! program could take a time-stamp from before the message that it answers.
//! Two sequences prevent it: `LFENCE` before `RDTSC`, and `RDTSCP`, which waits
//! for older loads by itself (Intel SDM volume 2B, "RDTSC", "RDTSCP"; AMD APM
//! volume 3 likewise, and on AMD `LFENCE` waits only where MSR C001_1029 bit 1
//! is set, which is the kernel's business). Which is cheaper depends on the
//! processor by up to a sixth, either way, so it is measured, not guessed:
//! [`Lfence`] and [`Rdtscp`] are for code that is compiled for one of them, and
//! [`Patched`] is for the shared object, whose image the kernel rewrites before
//! it maps it.
//!
//! Between the two instructions of the first form the reader loads `current`
//! (see [`timecounter::reader`]), so each form is split into
//! [`OrderedTsc::order`] and [`OrderedTsc::tsc`], three bytes each:
//!
//! | | order | tsc |
//! |---|---|---|
//! | `LFENCE` form | `lfence` | `rdtsc`, `nop` |
//! | `RDTSCP` form | `nop` (three bytes) | `rdtscp` |
//!
//! None of the assembly says `nomem`: the compiler must leave the loads of the
//! reader on the side of it where they are written.
//!
//! # The HPET
//!
//! The main counter's low half at offset 0xF0 of the register page (IA-PC HPET
//! specification 1.0a, section 2.3.7), read with 32 bits, since an emulator may
//! split a wider access. The page is mapped uncached, and such a load neither
//! starts speculatively nor passes an older load (Intel SDM volume 3A, section
//! 12.3, "Methods of caching available"), so it needs no fence.

use core::arch::asm;
use core::ptr::{NonNull, from_ref};

use timecounter::UserCounter;
use timecounter::guard::{Guard, GuardLine};
use timecounter::kind::Kind;
use timecounter::page::TimehandsPage;
use timecounter::reader::{Counters, Halves};

/// A way to read the TSC in order; see the module's documentation.
pub trait OrderedTsc {
    /// What has to come before the read for it to be ordered.
    fn order(&self);
    /// The read. `ahead` is not touched; its address is in a register before.
    fn tsc<T>(&self, ahead: &T) -> Halves;
}

/// `LFENCE`, then `RDTSC`: works on every x86-64 processor.
#[derive(Clone, Copy, Debug)]
pub struct Lfence;

/// `RDTSCP`.
#[derive(Clone, Copy, Debug)]
pub struct Rdtscp(());

impl Rdtscp {
    /// The form, if this processor has the instruction (CPUID leaf 0x8000_0001,
    /// EDX bit 27).
    #[must_use]
    pub fn detect() -> Option<Self> {
        const EXTENDED: u32 = 0x8000_0000;
        let highest = core::arch::x86_64::__cpuid(EXTENDED).eax;
        if highest <= EXTENDED {
            return None;
        }
        let features = core::arch::x86_64::__cpuid(EXTENDED + 1).edx;
        (features & 1 << 27 != 0).then_some(Self(()))
    }
}

/// The form that [`patch`](crate::patch) chose; `LFENCE` as long as it chose
/// none. Each place is entered in the section `.timehands.sites`, from which the
/// object's link makes the table: the distance of the place from the entry, then
/// what is there ([`ORDER`](crate::patch::ORDER) or [`TSC`](crate::patch::TSC)).
#[derive(Clone, Copy, Debug)]
pub struct Patched;

impl OrderedTsc for Lfence {
    #[inline(always)]
    fn order(&self) {
        // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has, and
        // changes nothing but the order of execution.
        unsafe { asm!("lfence", options(nostack, preserves_flags)) }
    }

    #[inline(always)]
    fn tsc<T>(&self, ahead: &T) -> Halves {
        let (low, high);
        // SAFETY: RDTSC writes EAX and EDX, both named. Where an operating system
        // forbids it, it faults and does nothing else. `ahead` is only named.
        unsafe {
            asm!(
                "rdtsc",
                "/* {ahead} */",
                ahead = in(reg) from_ref(ahead),
                out("eax") low,
                out("edx") high,
                options(nostack, preserves_flags),
            );
        }
        Halves { low, high }
    }
}

impl OrderedTsc for Rdtscp {
    #[inline(always)]
    fn order(&self) {}

    #[inline(always)]
    fn tsc<T>(&self, ahead: &T) -> Halves {
        let (low, high);
        // SAFETY: `detect` found the instruction; it writes EAX, EDX and ECX,
        // all named. `ahead` is only named.
        unsafe {
            asm!(
                "rdtscp",
                "/* {ahead} */",
                ahead = in(reg) from_ref(ahead),
                out("eax") low,
                out("edx") high,
                out("ecx") _,
                options(nostack, preserves_flags),
            );
        }
        Halves { low, high }
    }
}

impl OrderedTsc for Patched {
    #[inline(always)]
    fn order(&self) {
        // SAFETY: LFENCE, or the no-operation of the same length that it is
        // replaced by. The entry in the other section is data.
        unsafe {
            asm!(
                "771: lfence",
                ".pushsection .timehands.sites, \"a\", @note",
                ".long 771b - .",
                ".long {place}",
                ".popsection",
                place = const crate::patch::ORDER,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn tsc<T>(&self, ahead: &T) -> Halves {
        let (low, high);
        // SAFETY: RDTSC or RDTSCP, the latter only where the kernel, which
        // patched it in, found it; the registers of both are named. `ahead` is
        // only named. The entry in the other section is data.
        unsafe {
            asm!(
                "772: rdtsc",
                "nop",
                "/* {ahead} */",
                ".pushsection .timehands.sites, \"a\", @note",
                ".long 772b - .",
                ".long {place}",
                ".popsection",
                place = const crate::patch::TSC,
                ahead = in(reg) from_ref(ahead),
                out("eax") low,
                out("edx") high,
                out("ecx") _,
                options(nostack, preserves_flags),
            );
        }
        Halves { low, high }
    }
}

/// A mapping of the HPET's register page, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct HpetPage(Option<NonNull<u32>>);

impl HpetPage {
    /// Offset of the main counter, in units of 32 bits.
    const MAIN_COUNTER: usize = 0xf0 / 4;

    /// No mapping: the HPET cannot be read from here.
    pub const ABSENT: Self = Self(None);

    /// The mapping at `base`.
    ///
    /// # Safety
    ///
    /// Whenever a page is read whose kind word names the HPET, at least 0xF4
    /// bytes at `base` are readable, and a 32-bit read of them has no side
    /// effect.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(base: NonNull<u32>) -> Self {
        Self(Some(base))
    }

    #[inline(always)]
    fn main_counter(self) -> Option<u32> {
        // SAFETY: `new`'s condition: a kind word that names the HPET is what
        // led here, and the counter lies inside the bytes that are readable.
        self.0
            .map(|base| unsafe { base.add(Self::MAIN_COUNTER).read_volatile() })
    }
}

/// The counters that a program can read: the TSC by the form `T`, and the HPET.
#[derive(Clone, Copy, Debug)]
pub struct UserCounters<T> {
    tsc: T,
    hpet: HpetPage,
    guard: Option<(&'static GuardLine, &'static TimehandsPage)>,
}

impl<T: OrderedTsc + Copy> UserCounters<T> {
    /// Reads the TSC by `tsc` and the HPET through `hpet`.
    #[inline(always)]
    #[must_use]
    pub const fn new(tsc: T, hpet: HpetPage) -> Self {
        Self {
            tsc,
            hpet,
            guard: None,
        }
    }

    /// The same, with the process's line of the jitter guard and the page that
    /// says how far it is believed. Without them a guarded counter is left to the
    /// system call.
    #[inline(always)]
    #[must_use]
    pub const fn with_guard(self, line: &'static GuardLine, page: &'static TimehandsPage) -> Self {
        Self {
            guard: Some((line, page)),
            ..self
        }
    }
}

impl<T: OrderedTsc> Counters for UserCounters<T> {
    #[inline(always)]
    fn order(&self) {
        self.tsc.order();
    }

    #[inline(always)]
    fn tsc<A>(&self, ahead: &A) -> Halves {
        self.tsc.tsc(ahead)
    }

    #[inline(always)]
    fn read(&self, kind: Kind) -> Option<u64> {
        match kind.user() {
            UserCounter::Tsc => {
                self.tsc.order();
                Some(self.tsc.tsc(&()).whole())
            }
            UserCounter::Hpet => self.hpet.main_counter().map(u64::from),
            UserCounter::None | UserCounter::Pvclock => None,
        }
    }

    #[inline(always)]
    fn guard(&self) -> Option<Guard<'_>> {
        let (line, page) = self.guard?;
        Some(Guard::new(line, page.guard_bound_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC: Kind = Kind::new(UserCounter::Tsc, 0, 64, 0);
    const HPET: Kind = Kind::new(UserCounter::Hpet, 10, 32, 0);

    #[test]
    fn both_forms_and_the_unpatched_one_count_the_same_counter_upwards() {
        let Some(rdtscp) = Rdtscp::detect() else {
            return;
        };
        let fenced = UserCounters::new(Lfence, HpetPage::ABSENT).read(TSC);
        let serial = UserCounters::new(rdtscp, HpetPage::ABSENT).read(TSC);
        let patched = UserCounters::new(Patched, HpetPage::ABSENT).read(TSC);
        assert!(fenced < serial, "RDTSCP after LFENCE; RDTSC");
        assert!(serial < patched, "the unpatched place after RDTSCP");
    }

    #[test]
    fn the_hpet_is_read_at_its_main_counter() {
        let mut registers = [0_u32; 64];
        registers[0xf0 / 4] = 0x89ab_cdef;
        let page = NonNull::from(&mut registers).cast();
        // SAFETY: the array is 256 bytes long and outlives the reader.
        let hpet = unsafe { HpetPage::new(page) };
        let counters = UserCounters::new(Lfence, hpet);
        assert_eq!(counters.read(HPET), Some(0x89ab_cdef), "low half, alone");
    }

    #[test]
    fn what_cannot_be_read_from_here_is_left_to_the_system_call() {
        let counters = UserCounters::new(Lfence, HpetPage::ABSENT);
        assert_eq!(counters.read(HPET), None, "no mapping");
        for user in [UserCounter::None, UserCounter::Pvclock] {
            assert_eq!(
                counters.read(Kind::new(user, 0, 64, 0)),
                None,
                "{user:?} has no way from here"
            );
        }
    }
}
