//! From a machine to its list of counters.
//!
//! The chips are tried in an order in which each needs only those before it:
//! i8254, ACPI timer, HPET, and then the TSC, whose rate the others measure.
//! The same measurement shows which of them lies ([`crosscheck`](crate::crosscheck)).
//! Whatever is absent, broken or lying is left out with one [`Line`] that says
//! why; nothing here fails as a whole, and with nothing found the core's dummy
//! counter goes on.
//!
//! It takes as long as the measurements: up to 10 ms for each counter that
//! testifies and 100 ms for the one that is believed, less where their error
//! bounds are reached before.

use timecounter::Timecounter;

use crate::acpi_timer::{AcpiTimer, AcpiTimerError, Register};
use crate::bus::{Cpuid, Mmio, Pace, PortIo, TscRead};
use crate::calibrate::{self, Calibration};
use crate::cpuid::{Source, TscFacts};
use crate::hpet::{Hpet, HpetError};
use crate::i8254::I8254;
use crate::liveness;
use crate::report::Line;
use crate::step;
use crate::tables::{self, TimerAddress};
use crate::trial;
use crate::tsc::{self, Rating, Reason, Tsc, TscError};

/// Above this difference, in parts per 10^9, a rate that CPUID states as exact
/// is a lie rather than a crystal's tolerance.
const MISSTATED_PPB: u64 = 5_000_000;
/// Reads for the smallest step of the TSC.
const STEP_READS: u32 = 256;

/// What the probe works on.
#[derive(Debug)]
pub struct Machine<'a, P, T, F> {
    /// The I/O ports.
    pub ports: P,
    /// The processor: CPUID, the TSC, pauses.
    pub processor: T,
    /// The FADT's bytes, if there is one.
    pub fadt: Option<&'a [u8]>,
    /// The HPET table's bytes, if there is one.
    pub hpet: Option<&'a [u8]>,
    /// Maps device registers: the 1 KiB window that starts at a physical
    /// address, uncached, for good. `None` where that cannot be.
    pub map: F,
}

/// What the operator and the rest of the kernel know.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// CPUs that will run.
    pub cpus: u32,
    /// Their TSCs were compared and are in step.
    pub tsc_in_step: bool,
    /// The tunable `machdep.disable_tsc`.
    pub disable_tsc: bool,
    /// The tunable `machdep.disable_tsc_calibration`: the TSC's rate is what
    /// CPUID states. Nobody's rate is checked then.
    pub disable_tsc_calibration: bool,
    /// The tunable `kern.timecounter.invariant_tsc`, which has the last word.
    pub invariant_tsc: Option<bool>,
    /// The tunable `hw.acpi.timer_test_enabled`.
    pub acpi_timer_test: bool,
    /// `LFENCE` is known to order, see [`tsc::serialize_lfence`].
    pub lfence_orders: bool,
}

/// The counters found, each ready to be registered.
#[derive(Debug)]
pub struct Counters<P, M, T> {
    /// The i8254.
    pub i8254: Option<I8254<P>>,
    /// The ACPI timer.
    pub acpi_timer: Option<AcpiTimer<P, M>>,
    /// The HPET.
    pub hpet: Option<Hpet<M>>,
    /// Physical address of the HPET's registers, for user mappings.
    pub hpet_address: Option<u64>,
    /// The TSC.
    pub tsc: Option<Tsc<T>>,
    /// How the TSC was measured, if it was.
    pub tsc_calibration: Option<Calibration>,
}

/// How many kinds of chip can measure the TSC.
pub(crate) const REFERENCES: usize = 3;

impl<P: PortIo, M: Mmio, T: TscRead> Counters<P, M, T> {
    /// The chips other than the TSC, best first.
    pub(crate) fn references(&self) -> [Option<&dyn Timecounter>; REFERENCES] {
        [
            self.hpet.as_ref().map(|chip| chip as &dyn Timecounter),
            self.acpi_timer
                .as_ref()
                .map(|chip| chip as &dyn Timecounter),
            self.i8254.as_ref().map(|chip| chip as &dyn Timecounter),
        ]
    }

    /// Takes out the chip at `place` of [`references`](Self::references).
    pub(crate) fn dismiss(&mut self, place: usize) {
        match place {
            0 => self.hpet = None,
            1 => self.acpi_timer = None,
            _ => self.i8254 = None,
        }
    }

    /// The best of them by quality, to measure other things by (the local
    /// APIC's timer).
    pub fn best(&self) -> Option<&dyn Timecounter> {
        let tsc = self.tsc.as_ref().map(|chip| chip as &dyn Timecounter);
        self.references()
            .into_iter()
            .chain([tsc])
            .flatten()
            .max_by_key(|counter| counter.quality())
    }
}

/// Tries every chip; `report` gets the lines.
pub fn attach<P, M, T>(
    mut machine: Machine<'_, P, T, impl FnMut(u64) -> Option<M>>,
    options: &Options,
    mut report: impl FnMut(Line),
) -> Counters<P, M, T>
where
    P: PortIo + Clone,
    M: Mmio,
    T: TscRead + Cpuid + Pace + Clone,
{
    let pace = machine.processor.clone();
    let mut counters = Counters {
        i8254: I8254::attach(machine.ports.clone(), &pace)
            .map_err(|error| report(Line::I8254(error)))
            .ok(),
        acpi_timer: attach_acpi_timer(&mut machine, options, &pace)
            .map_err(|error| report(Line::AcpiTimer(error)))
            .ok(),
        hpet: None,
        hpet_address: None,
        tsc: None,
        tsc_calibration: None,
    };
    match attach_hpet(&mut machine, &pace) {
        Ok((chip, address)) => {
            counters.hpet = Some(chip);
            counters.hpet_address = Some(address);
        }
        Err(error) => report(Line::Hpet(error)),
    }
    if let Err(error) = attach_tsc(&mut counters, machine.processor, options, &mut report) {
        report(Line::Tsc(error));
    }
    counters
}

fn attach_acpi_timer<P: PortIo + Clone, M: Mmio, T>(
    machine: &mut Machine<'_, P, T, impl FnMut(u64) -> Option<M>>,
    options: &Options,
    pace: &impl Pace,
) -> Result<AcpiTimer<P, M>, AcpiTimerError> {
    let block = tables::timer_block(machine.fadt.ok_or(AcpiTimerError::NoFadt)?)?;
    let register = match block.address {
        TimerAddress::Port(port) => Register::Port {
            ports: machine.ports.clone(),
            port,
        },
        TimerAddress::Memory(address) => Register::Memory {
            window: (machine.map)(address).ok_or(AcpiTimerError::NotMapped(address))?,
            offset: 0,
        },
    };
    AcpiTimer::attach(register, block.width, options.acpi_timer_test, pace)
}

fn attach_hpet<P, M: Mmio, T>(
    machine: &mut Machine<'_, P, T, impl FnMut(u64) -> Option<M>>,
    pace: &impl Pace,
) -> Result<(Hpet<M>, u64), HpetError> {
    let address = tables::hpet_address(machine.hpet.ok_or(HpetError::NotInTables)?)?;
    let registers = (machine.map)(address).ok_or(HpetError::NoRegisters(address))?;
    Ok((Hpet::attach(registers, pace)?, address))
}

/// Measures and rates the TSC, and throws out what the measurement shows to
/// be broken.
fn attach_tsc<P, M, T>(
    counters: &mut Counters<P, M, T>,
    processor: T,
    options: &Options,
    report: &mut impl FnMut(Line),
) -> Result<(), TscError>
where
    P: PortIo,
    M: Mmio,
    T: TscRead + Cpuid + Pace + Clone,
{
    if options.disable_tsc {
        return Err(TscError::Disabled);
    }
    let mut facts = TscFacts::read(&processor);
    facts.invariant = options.invariant_tsc.unwrap_or(facts.invariant);
    if !facts.present {
        return Err(TscError::Absent);
    }
    let how = tsc::choose_read(&processor, &facts, options.lfence_orders);
    let read = || processor.read(how);
    if !liveness::advances(read, u64::MAX, &processor) {
        return Err(TscError::NotAdvancing);
    }

    let (believed, otherwise) = if options.disable_tsc_calibration {
        (None, TscError::NotStated)
    } else {
        let believed = trial::hold(counters, &processor, how, facts.stated, report);
        (believed, TscError::NoRate)
    };
    let frequency = match believed {
        Some((name, calibration)) => {
            report(Line::Calibrated {
                reference: name,
                calibration,
            });
            counters.tsc_calibration = Some(calibration);
            calibration.frequency
        }
        None => {
            let stated = facts.stated.ok_or(otherwise)?;
            report(Line::NotMeasured(stated));
            stated.frequency
        }
    };

    let mut rating = tsc::rate(&facts, options.cpus, options.tsc_in_step);
    if let Some(stated) = facts.stated
        && stated.source != Source::BaseClock
        && calibrate::difference_ppb(stated.frequency, frequency) > MISSTATED_PPB
    {
        rating = Rating {
            quality: rating.quality.min(-100),
            reason: Reason::Misstated {
                stated: stated.frequency,
                measured: frequency,
            },
        };
    }
    report(Line::Rated(rating));
    let step = step::smallest_step(read, u64::MAX, STEP_READS);
    counters.tsc = Some(Tsc::new(
        processor.clone(),
        how,
        &facts,
        frequency,
        step,
        rating,
    ));
    Ok(())
}
