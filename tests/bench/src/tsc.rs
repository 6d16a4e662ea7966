//! The host's TSC as a timecounter.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use timecounter::{Timecounter, UserCounter};
use vdso::counter::{Lfence, OrderedTsc, Rdtscp};
use vdso::patch::Form;

use crate::sample::{self, Row, batch};

/// How long the rate is measured.
const MEASURED: Duration = Duration::from_millis(100);

/// Batches of each form of the ordered read by which one is chosen.
const CHOICE: usize = 1000;

/// The TSC, by `LFENCE; RDTSC`, at a rate measured against the host's clock.
#[derive(Debug)]
pub struct HostTsc {
    frequency: u64,
}

impl HostTsc {
    /// Measures the rate, to about a part in 10^5.
    ///
    /// # Errors
    ///
    /// The counter does not advance.
    pub fn measure() -> Result<Self> {
        let (start, from) = (Instant::now(), ordered());
        std::thread::sleep(MEASURED);
        let (counts, time) = (ordered().wrapping_sub(from), start.elapsed());
        let frequency = u128::from(counts) * 1_000_000_000 / time.as_nanos().max(1);
        ensure!(frequency > 0, "the TSC stands still");
        Ok(Self {
            frequency: u64::try_from(frequency)?,
        })
    }
}

impl Timecounter for HostTsc {
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
        1000
    }

    fn read(&self) -> u64 {
        ordered()
    }

    fn user_counter(&self) -> UserCounter {
        UserCounter::Tsc
    }
}

/// `LFENCE; RDTSC`.
#[inline(always)]
#[must_use]
pub fn ordered() -> u64 {
    Lfence.order();
    Lfence.tsc(&()).whole()
}

/// A count that nothing before it or behind it is mixed with.
#[inline(always)]
#[must_use]
pub fn fenced() -> u64 {
    let count = ordered();
    Lfence.order();
    count
}

/// The form's name, as it is written in assembly.
#[must_use]
pub const fn form_name(form: Form) -> &'static str {
    match form {
        Form::Lfence => "lfence; rdtsc",
        Form::Rdtscp => "rdtscp",
    }
}

/// The form of the ordered read that costs less here.
#[must_use]
pub fn cheaper_form() -> Form {
    let Some(rdtscp) = Rdtscp::detect() else {
        return Form::Lfence;
    };
    let mut fenced = || ordered_batch(Lfence);
    let mut serial = || ordered_batch(rdtscp);
    let mut rows: [Row<&mut dyn FnMut() -> u64>; 2] = [
        Row {
            name: form_name(Form::Lfence),
            batch: &mut fenced,
        },
        Row {
            name: form_name(Form::Rdtscp),
            batch: &mut serial,
        },
    ];
    match sample::interleave(&mut rows, CHOICE).as_slice() {
        [fenced, serial] if serial.median < fenced.median => Form::Rdtscp,
        _ => Form::Lfence,
    }
}

/// Ticks that a batch of ordered reads takes.
pub fn ordered_batch(tsc: impl OrderedTsc) -> u64 {
    batch(|| {
        tsc.order();
        tsc.tsc(&()).whole()
    })
}
