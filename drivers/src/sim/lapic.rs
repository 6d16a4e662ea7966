//! Model of the local APIC's registers and its timer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::{Clock, Oscillator, lock};
use crate::bus::Mmio;
use crate::lapic::Register;

const ACCESS_PS: u64 = 57_000;

#[derive(Debug, Default)]
struct State {
    registers: BTreeMap<u16, u32>,
    writes: Vec<(u16, u32)>,
    started_at: u64,
}

/// A local APIC; clones share it.
#[derive(Clone, Debug)]
pub struct LapicModel {
    clock: Clock,
    /// What drives the timer, before the divider.
    pub oscillator: Oscillator,
    state: Arc<Mutex<State>>,
}

impl LapicModel {
    /// Whose timer is driven at `hz`, and whose ID is `id`.
    #[must_use]
    pub fn new(clock: &Clock, hz: u64, id: u8) -> Self {
        let mut state = State::default();
        let id_register = u32::from(id) << 24;
        state.registers.insert(Register::Id as u16, id_register);
        Self {
            clock: clock.clone(),
            oscillator: Oscillator::new(clock, u128::from(hz), 1),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The last value written to a register.
    #[must_use]
    pub fn register(&self, register: Register) -> u32 {
        Self::get(&lock(&self.state), register)
    }

    /// All writes so far, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<(u16, u32)> {
        lock(&self.state).writes.clone()
    }

    fn get(state: &State, register: Register) -> u32 {
        let value = state.registers.get(&(register as u16));
        value.copied().unwrap_or(0)
    }

    /// Bits 3, 1, 0 of the divide configuration are one less than the
    /// logarithm of the divisor, modulo 8.
    fn divisor(state: &State) -> u64 {
        let bits = Self::get(state, Register::DivideConfiguration);
        let exponent = (bits >> 1 & 4 | bits & 3) + 1;
        1 << (exponent % 8)
    }

    fn current(&self, state: &State) -> u32 {
        const PERIODIC: u32 = 1 << 17;
        let initial = u64::from(Self::get(state, Register::InitialCount));
        if initial == 0 {
            return 0;
        }
        let counts = self.oscillator.count() / Self::divisor(state);
        let elapsed = counts.wrapping_sub(state.started_at);
        let left = if Self::get(state, Register::LvtTimer) & PERIODIC != 0 {
            initial - elapsed % initial
        } else {
            initial.saturating_sub(elapsed)
        };
        left as u32
    }
}

impl Mmio for LapicModel {
    fn read(&self, offset: u16) -> u32 {
        self.clock.advance_ps(ACCESS_PS / 2);
        let value = {
            let state = lock(&self.state);
            if offset == Register::CurrentCount as u16 {
                self.current(&state)
            } else {
                state.registers.get(&offset).copied().unwrap_or(0)
            }
        };
        self.clock.advance_ps(ACCESS_PS / 2);
        value
    }

    fn write(&self, offset: u16, value: u32) {
        self.clock.advance_ps(ACCESS_PS);
        let mut state = lock(&self.state);
        state.registers.insert(offset, value);
        state.writes.push((offset, value));
        if offset == Register::InitialCount as u16 {
            state.started_at = self.oscillator.count() / Self::divisor(&state);
        }
    }
}
