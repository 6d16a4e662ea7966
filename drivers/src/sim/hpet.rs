//! Model of the HPET's register page.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::{Clock, Oscillator, lock};
use crate::bus::Mmio;

const CAPABILITIES: u16 = 0x000;
const CONFIGURATION: u16 = 0x010;
const MAIN_COUNTER: u16 = 0x0F0;
/// The capabilities of QEMU's HPET but for the period: revision 1, 3 timers,
/// 64 bits, legacy replacement, vendor 8086h.
const QEMU_CAPABILITIES: u64 = 0x8086_A201;
const WIDE_COUNTER: u64 = 1 << 13;
const FEMTOSECONDS: u128 = 1_000_000_000_000_000;
/// What a read of QEMU's costs under TCG.
const ACCESS_PS: u64 = 80_000;

#[derive(Debug)]
struct State {
    capabilities: u64,
    configuration: u32,
    /// The enable bit has no effect.
    dead: bool,
    /// Nothing answers: all ones.
    missing: bool,
    access_ps: u64,
    touched: BTreeSet<u16>,
}

/// An HPET; clones share it.
#[derive(Clone, Debug)]
pub struct HpetModel {
    clock: Clock,
    /// What drives the main counter; its faults are this value's.
    pub oscillator: Oscillator,
    state: Arc<Mutex<State>>,
}

impl HpetModel {
    /// 64 bits wide, of `period_fs`, and stopped, as SeaBIOS leaves it.
    #[must_use]
    pub fn new(clock: &Clock, period_fs: u32) -> Self {
        let oscillator = Oscillator::new(clock, FEMTOSECONDS, u128::from(period_fs));
        oscillator.set_running(false);
        Self {
            clock: clock.clone(),
            oscillator,
            state: Arc::new(Mutex::new(State {
                capabilities: QEMU_CAPABILITIES | u64::from(period_fs) << 32,
                configuration: 0,
                dead: false,
                missing: false,
                access_ps: ACCESS_PS,
                touched: BTreeSet::new(),
            })),
        }
    }

    /// Makes it a 32-bit part.
    pub fn set_narrow(&self) {
        lock(&self.state).capabilities &= !WIDE_COUNTER;
    }

    /// Makes it announce another period than it has.
    pub fn announce_period(&self, period_fs: u32) {
        let mut state = lock(&self.state);
        state.capabilities = state.capabilities & 0xFFFF_FFFF | u64::from(period_fs) << 32;
    }

    /// Makes the enable bit ineffective.
    pub fn set_dead(&self) {
        lock(&self.state).dead = true;
        self.oscillator.set_running(false);
    }

    /// Takes the chip away: reads are all ones.
    pub fn set_missing(&self) {
        lock(&self.state).missing = true;
    }

    /// Sets what an access costs.
    pub fn set_access_ns(&self, nanoseconds: u64) {
        lock(&self.state).access_ps = nanoseconds * 1_000;
    }

    /// Whether the register at `offset` was ever read or written.
    #[must_use]
    pub fn touched(&self, offset: u16) -> bool {
        lock(&self.state).touched.contains(&offset)
    }

    /// The configuration register.
    #[must_use]
    pub fn configuration(&self) -> u32 {
        lock(&self.state).configuration
    }

    /// Sets the configuration register as firmware would.
    pub fn set_configuration(&self, value: u32) {
        let mut state = lock(&self.state);
        state.configuration = value;
        self.oscillator.set_running(value & 1 != 0 && !state.dead);
    }

    /// An 8-byte load, which the bus splits: the low half is sampled first and
    /// the high half one access later.
    #[must_use]
    pub fn read_u64(&self, offset: u16) -> u64 {
        let low = self.read(offset);
        let high = self.read(offset + 4);
        u64::from(high) << 32 | u64::from(low)
    }
}

impl Mmio for HpetModel {
    fn read(&self, offset: u16) -> u32 {
        let (half_ps, missing, capabilities, configuration) = {
            let mut state = lock(&self.state);
            state.touched.insert(offset);
            (
                state.access_ps / 2,
                state.missing,
                state.capabilities,
                state.configuration,
            )
        };
        self.clock.advance_ps(half_ps);
        let wide = capabilities & WIDE_COUNTER != 0;
        let value = match offset {
            _ if missing => u64::from(u32::MAX),
            CAPABILITIES => capabilities,
            0x004 => capabilities >> 32,
            CONFIGURATION => u64::from(configuration),
            MAIN_COUNTER => self.oscillator.count(),
            0x0F4 if wide => self.oscillator.count() >> 32,
            _ => 0,
        };
        self.clock.advance_ps(half_ps);
        value as u32
    }

    fn write(&self, offset: u16, value: u32) {
        self.clock.advance_ps(lock(&self.state).access_ps);
        lock(&self.state).touched.insert(offset);
        if offset == CONFIGURATION && !lock(&self.state).missing {
            self.set_configuration(value);
        }
    }
}
