//! Model of the ACPI power management timer.

use std::sync::{Arc, Mutex};

use super::{Clock, Oscillator, lock};
use crate::acpi_timer::FREQUENCY;
use crate::bus::Mmio;

/// What a port read of QEMU's costs under TCG.
const ACCESS_PS: u64 = 57_000;

#[derive(Debug)]
struct State {
    bits: u32,
    /// Every how many reads one is badly latched; 0 is never.
    garbage_every: u64,
    garbage_mask: u32,
    reads: u64,
    missing: bool,
    access_ps: u64,
}

/// An ACPI timer; clones share it.
#[derive(Clone, Debug)]
pub struct AcpiTimerModel {
    clock: Clock,
    /// What drives it; its faults are this value's.
    pub oscillator: Oscillator,
    state: Arc<Mutex<State>>,
}

impl AcpiTimerModel {
    /// With `bits` bits, 24 or 32; the bits above are 0.
    #[must_use]
    pub fn new(clock: &Clock, bits: u32) -> Self {
        Self {
            clock: clock.clone(),
            oscillator: Oscillator::new(clock, u128::from(FREQUENCY), 1),
            state: Arc::new(Mutex::new(State {
                bits,
                garbage_every: 0,
                garbage_mask: 0,
                reads: 0,
                missing: false,
                access_ps: ACCESS_PS,
            })),
        }
    }

    /// The PIIX4's erratum: the bits of `mask` are inverted in every `every`th
    /// read.
    pub fn set_garbage(&self, every: u64, mask: u32) {
        let mut state = lock(&self.state);
        state.garbage_every = every;
        state.garbage_mask = mask;
    }

    /// Takes the chip away: reads are all ones.
    pub fn set_missing(&self) {
        lock(&self.state).missing = true;
    }

    /// Sets what an access costs.
    pub fn set_access_ns(&self, nanoseconds: u64) {
        lock(&self.state).access_ps = nanoseconds * 1_000;
    }

    /// Reads so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        lock(&self.state).reads
    }

    /// The count without access, cost or fault.
    #[must_use]
    pub fn true_count(&self) -> u32 {
        let bits = lock(&self.state).bits;
        (self.oscillator.count() & ((1 << bits) - 1)) as u32
    }

    /// A 32-bit read of the register.
    #[must_use]
    pub fn sample(&self) -> u32 {
        let half_ps = lock(&self.state).access_ps / 2;
        self.clock.advance_ps(half_ps);
        let count = self.true_count();
        self.clock.advance_ps(half_ps);
        let mut state = lock(&self.state);
        state.reads += 1;
        if state.missing {
            u32::MAX
        } else if state.garbage_every != 0 && state.reads.is_multiple_of(state.garbage_every) {
            count ^ state.garbage_mask
        } else {
            count
        }
    }
}

impl Mmio for AcpiTimerModel {
    fn read(&self, offset: u16) -> u32 {
        if offset == 0 { self.sample() } else { 0 }
    }

    /// The register is read-only.
    fn write(&self, _offset: u16, _value: u32) {}
}
