//! The chips of a machine as witnesses to the rate of its TSC.
//!
//! Each measures it for a moment; [`crosscheck`] weighs what they say. The one
//! that is believed measures once more, with full precision. Those that cannot
//! measure, or lie, are reported and taken out of the list of counters.

use timecounter::Timecounter;

use crate::bus::{Mmio, OrderedRead, Pace, PortIo, TscRead};
use crate::calibrate::{self, Calibration, CalibrationError, Limits};
use crate::cpuid::Stated;
use crate::crosscheck::{self, STATEMENT, Testimony, Verdict};
use crate::probe::{Counters, REFERENCES};
use crate::report::Line;

/// A chip that was found, as a witness.
struct Witness<'a> {
    counter: &'a dyn Timecounter,
    measured: Result<Calibration, CalibrationError>,
}

impl Witness<'_> {
    fn testimony(&self) -> Option<Testimony> {
        let calibration = self.measured.ok()?;
        Some(Testimony {
            quality: self.counter.quality(),
            frequency: calibration.frequency,
            error_ppb: calibration.error_ppb,
        })
    }

    /// What is wrong with it, if anything, and whether it has to go.
    fn judged_by(&self, verdict: Option<&Verdict>) -> Option<(Line, bool)> {
        let name = self.counter.name();
        let testimony = match self.measured {
            Err(error) => return Some((Line::CannotMeasure { name, error }, true)),
            Ok(_) => self.testimony()?,
        };
        let verdict = verdict.filter(|verdict| !verdict.testimony.agrees(&testimony))?;
        if verdict.by_majority() {
            let nominal = self.counter.frequency();
            let actual = verdict.true_rate(nominal, &testimony);
            let lies = Line::Lies {
                name,
                nominal,
                actual,
            };
            Some((lies, true))
        } else {
            Some((disputed(name, &testimony, verdict), false))
        }
    }
}

fn disputed(name: &'static str, testimony: &Testimony, verdict: &Verdict) -> Line {
    Line::Disputed {
        name,
        frequency: testimony.frequency,
        believed: verdict.testimony.frequency,
    }
}

/// Holds the trial; the counter that is believed by name and the TSC's rate by
/// it, `None` where no chip could measure.
pub(crate) fn hold<P, M, T>(
    counters: &mut Counters<P, M, T>,
    processor: &T,
    how: OrderedRead,
    stated: Option<Stated>,
    report: &mut impl FnMut(Line),
) -> Option<(&'static str, Calibration)>
where
    P: PortIo,
    M: Mmio,
    T: TscRead + Pace,
{
    let measure = |reference: &dyn Timecounter, limits: &Limits| {
        let read = || processor.read(how);
        calibrate::measure(read, u64::MAX, reference, processor, limits)
    };
    let witnesses = counters.references().map(|reference| {
        reference.map(|counter| Witness {
            counter,
            measured: measure(counter, &Limits::QUICK),
        })
    });
    let statement = stated.map(|stated| Testimony {
        quality: STATEMENT,
        frequency: stated.frequency,
        error_ppb: stated.tolerance_ppb(),
    });
    let mut testimonies = [None; REFERENCES + 1];
    let given = witnesses
        .iter()
        .map(|witness| witness.as_ref().and_then(Witness::testimony))
        .chain([statement]);
    for (place, testimony) in testimonies.iter_mut().zip(given) {
        *place = testimony;
    }
    let verdict = crosscheck::judge(&testimonies);

    let mut dismissed = [false; REFERENCES];
    for (dismissed, witness) in dismissed.iter_mut().zip(&witnesses) {
        let judged = witness
            .as_ref()
            .and_then(|witness| witness.judged_by(verdict.as_ref()));
        if let Some((line, goes)) = judged {
            report(line);
            *dismissed = goes;
        }
    }
    if let (Some(statement), Some(verdict)) = (statement, verdict)
        && !verdict.testimony.agrees(&statement)
    {
        report(disputed("CPUID", &statement, &verdict));
    }

    let believed = verdict
        .and_then(|verdict| witnesses.get(verdict.believed)?.as_ref())
        .and_then(|witness| {
            let precise = measure(witness.counter, &Limits::PRECISE);
            Some((witness.counter.name(), precise.or(witness.measured).ok()?))
        });
    for (place, dismissed) in dismissed.into_iter().enumerate() {
        if dismissed {
            counters.dismiss(place);
        }
    }
    believed
}
