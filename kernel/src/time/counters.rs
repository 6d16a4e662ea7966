//! The machine's counters, found, rated and registered.

use alloc::boxed::Box;
use drivers::bus::OrderedRead;
use drivers::calibrate::Calibration;
use drivers::cpuid::TscFacts;
use drivers::madt::Madt;
use drivers::native::{Ports, Processor, RegisterWindow};
use drivers::probe::{self, Counters, Machine, Options};
use drivers::tsc::{self, Tsc};
use spin::Once;
use timecounter::Timecounter;

use super::{CLOCK, DEFAULT_HZ};
use crate::arch;
use crate::cpuset::MAX_CPUS;
use crate::mm::mmio;
use crate::mm::paging::SharedFrame;
use crate::tunables::Tunables;
use crate::{acpi, klog};

type Found = Counters<Ports, RegisterWindow, Processor>;

/// What the machine's counters turned out to be.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The TSC's rate does not depend on the power state.
    pub tsc_invariant: bool,
    /// What CPUID says of the TSC, and an operator of its rate.
    pub(super) tsc_facts: TscFacts,
    /// The TSC, if there is one whose rate is known.
    pub(super) tsc: Option<&'static Tsc<Processor>>,
    /// How the TSC was measured, if it was.
    pub tsc_calibration: Option<Calibration>,
    /// The cheaper ordered read of the TSC, if there is a TSC.
    pub ordered_read: Option<OrderedRead>,
    /// The HPET's registers, if there is an HPET that programs may read.
    hpet: Option<SharedFrame>,
}

static FACTS: Once<Facts> = Once::new();

/// Finds the counters, registers them, and lets the best or the chosen one
/// tell the time. Interrupts are still off; every wait is bounded.
pub fn init(tunables: &Tunables) {
    CLOCK.start();
    super::set_hz(tunables.hz.unwrap_or(DEFAULT_HZ));

    let tsc_facts = TscFacts::read(&Processor);
    let options = Options {
        cpus: processors(tunables),
        // Nobody has compared them yet.
        tsc_in_step: tunables.smp_tsc.unwrap_or(false),
        disable_tsc: tunables.disable_tsc,
        disable_tsc_calibration: tunables.disable_tsc_calibration,
        invariant_tsc: tunables.invariant_tsc,
        acpi_timer_test: tunables.acpi_timer_test,
        lfence_orders: tsc::serialize_lfence(&tsc_facts, &arch::msrs()),
    };
    let machine = Machine {
        ports: arch::ports(),
        processor: Processor,
        fadt: acpi::table(b"FACP"),
        hpet: acpi::table(b"HPET"),
        map: |address| mmio::map(address, WINDOW).ok()?.window(),
    };
    let mut found = Box::new(probe::attach(machine, &options, |line| klog!("{line}")));
    let hpet = found
        .hpet_address
        .filter(|_| found.hpet.is_some() && tunables.hpet_mmap_allow)
        .and_then(|address| mmio::map(address, WINDOW).ok())
        .map(|registers| registers.page());
    if hpet.is_none()
        && let Some(chip) = &mut found.hpet
    {
        chip.keep_from_programs();
    }
    let found: &'static Found = Box::leak(found);
    FACTS.call_once(|| Facts {
        tsc_invariant: tunables.invariant_tsc.unwrap_or(tsc_facts.invariant),
        tsc_facts: TscFacts {
            invariant: tunables.invariant_tsc.unwrap_or(tsc_facts.invariant),
            ..tsc_facts
        },
        tsc: found.tsc.as_ref(),
        tsc_calibration: found.tsc_calibration,
        ordered_read: found.tsc.as_ref().map(|tsc| tsc.ordered_read()),
        hpet,
    });

    #[cfg(feature = "faults")]
    if let Some(tsc) = &found.tsc {
        super::faults::ruler::start(tsc.frequency());
    }
    register_all(found, tunables);
    choose(tunables);
}

/// Processors that will run: those that the tables name, unless an operator
/// wants one alone.
fn processors(tunables: &Tunables) -> u32 {
    let madt = acpi::table(b"APIC").and_then(|bytes| Madt::new(bytes).ok());
    let several = madt.filter(|_| !tunables.smp_disabled);
    let count = several.map_or(1, |madt| madt.processors(true).count());
    u32::try_from(count.clamp(1, MAX_CPUS)).unwrap_or(1)
}

/// Bytes of a chip's registers.
const WINDOW: u64 = 1024;

/// Registers the last found first: `kern.timecounter.choice` lists the newest
/// first, and begins with the oldest chip on every machine.
fn register_all(found: &'static Found, tunables: &Tunables) {
    let counters: [Option<&'static dyn Timecounter>; 4] = [
        found.tsc.as_ref().map(|chip| chip as _),
        found.hpet.as_ref().map(|chip| chip as _),
        found.acpi_timer.as_ref().map(|chip| chip as _),
        found.i8254.as_ref().map(|chip| chip as _),
    ];
    #[cfg(feature = "faults")]
    let counters = counters.map(|counter| counter.map(super::faults::wrap));
    for counter in counters.into_iter().flatten() {
        let name = counter.name();
        if let Err(error) = CLOCK.register(counter) {
            klog!("timecounter {name}: {error}");
            continue;
        }
        let Some(entry) = CLOCK.registry().find(name) else {
            continue;
        };
        if let ("i8254", Some(hz)) = (name, tunables.i8254_freq)
            && !CLOCK.set_frequency(&entry, u64::from(hz))
        {
            klog!("timecounter i8254: {hz} Hz is out of range, ignored");
        }
        klog!(
            "Timecounter \"{name}\" frequency {} Hz quality {}",
            entry.frequency(),
            entry.quality()
        );
        if entry.quality() != counter.quality() {
            klog!("timecounter {name}: {}", entry.reason());
        }
    }
}

fn choose(tunables: &Tunables) {
    let relax = &mut core::hint::spin_loop;
    if let Some(name) = &tunables.hardware
        && let Err(error) = CLOCK.choose(name, relax)
    {
        klog!("tunable kern.timecounter.hardware={name}: {error}, ignored");
    }
    if let Err(error) = CLOCK.settle(relax) {
        klog!("timecounter: {error}");
    }
    if let Some(active) = CLOCK.active() {
        klog!("timecounter: {} tells the time", active.name());
    }
    super::log_bearable_stall(&CLOCK);
}

/// What was found out about the counters; nothing before [`init`].
pub fn facts() -> Option<&'static Facts> {
    FACTS.get()
}

/// The frame of the timehands page.
pub fn page_frame() -> Option<SharedFrame> {
    SharedFrame::of(CLOCK.page())
}

/// The page of the HPET's registers, if programs may read it.
pub fn hpet_page() -> Option<SharedFrame> {
    FACTS.get()?.hpet
}
