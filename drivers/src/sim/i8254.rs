//! Model of channel 0 of the i8254.

use std::sync::{Arc, Mutex};

use super::{Clock, Oscillator, lock};
use crate::i8254::FREQUENCY;

/// A third of what latch and two reads cost under TCG.
const ACCESS_PS: u64 = 40_000;

#[derive(Debug)]
struct State {
    mode: u8,
    /// 1 low byte, 2 high byte, 3 low then high.
    access: u8,
    /// 1 to 65,536; 0 while a reload is awaited.
    reload: u64,
    low_written: Option<u8>,
    loaded_at: u64,
    latch: Option<u16>,
    status: Option<u8>,
    high_next: bool,
    /// Latches so far, and which of them is clobbered and how.
    latches: u64,
    clobbered: Option<(u64, u64)>,
    missing: bool,
    access_ps: u64,
}

/// An i8254 of which only channel 0 is there; clones share it.
#[derive(Clone, Debug)]
pub struct I8254Model {
    clock: Clock,
    /// What drives it; its faults are this value's.
    pub oscillator: Oscillator,
    state: Arc<Mutex<State>>,
}

impl I8254Model {
    /// As firmware leaves it: square wave (mode 3) of 18.2 Hz.
    #[must_use]
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            oscillator: Oscillator::new(clock, u128::from(FREQUENCY), 1),
            state: Arc::new(Mutex::new(State {
                mode: 3,
                access: 3,
                reload: 0x1_0000,
                low_written: None,
                loaded_at: 0,
                latch: None,
                status: None,
                high_next: false,
                latches: 0,
                clobbered: None,
                missing: false,
                access_ps: ACCESS_PS,
            })),
        }
    }

    /// Firmware meddles: from the `first`th latch on (the next one is 1), and
    /// after that every `every`th (0 for that one only), the latched count has
    /// all bits inverted.
    pub fn clobber_latch(&self, first: u64, every: u64) {
        let mut state = lock(&self.state);
        state.latches = 0;
        state.clobbered = Some((first, every));
    }

    /// Takes the chip away: reads are all ones.
    pub fn set_missing(&self) {
        lock(&self.state).missing = true;
    }

    /// Sets what an access costs.
    pub fn set_access_ns(&self, nanoseconds: u64) {
        lock(&self.state).access_ps = nanoseconds * 1_000;
    }

    /// The count as the chip has it, going down, without access or fault.
    #[must_use]
    pub fn true_count(&self) -> u16 {
        self.count(&lock(&self.state))
    }

    fn count(&self, state: &State) -> u16 {
        let elapsed = self.oscillator.count().wrapping_sub(state.loaded_at);
        let reload = state.reload.max(1);
        let left = match state.mode {
            // Interrupt on terminal count: goes on through 0 over all 16 bits.
            0 => reload.wrapping_sub(elapsed),
            // Square wave: two at a time, over each half period.
            3 => reload - 2 * (elapsed % (reload / 2).max(1)),
            // Rate generator: from the reload value down to 1.
            _ => reload - elapsed % reload,
        };
        left as u16
    }

    fn enter(&self) {
        let cost = lock(&self.state).access_ps;
        self.clock.advance_ps(cost);
    }

    /// A write to the control register (port 43h).
    pub fn write_control(&self, value: u8) {
        self.enter();
        let mut state = lock(&self.state);
        match (value >> 6, value >> 4 & 3) {
            // Channel 0, latch. A second latch before the first is read is
            // ignored.
            (0, 0) => self.latch(&mut state),
            (0, access) => {
                // Modes 2 and 3 are also encoded as 6 and 7.
                state.mode = match value >> 1 & 7 {
                    mode @ 6..=7 => mode - 4,
                    mode => mode,
                };
                state.access = access;
                state.low_written = None;
                state.high_next = false;
                state.latch = None;
            }
            // Read-back of channel 0: bit 5 clear latches the count, bit 4
            // clear the status.
            (3, _) if value & 0b10 != 0 => {
                if value & 1 << 5 == 0 {
                    self.latch(&mut state);
                }
                if value & 1 << 4 == 0 {
                    state.status = Some(state.access << 4 | state.mode << 1);
                }
            }
            _ => (),
        }
    }

    fn latch(&self, state: &mut State) {
        if state.latch.is_some() {
            return;
        }
        state.latches += 1;
        let bad = state.clobbered.is_some_and(|(first, every)| {
            let since = state.latches.checked_sub(first);
            since.is_some_and(|n| n == 0 || (every != 0 && n.is_multiple_of(every)))
        });
        let count = self.count(state);
        state.latch = Some(if bad { !count } else { count });
    }

    /// A write to channel 0 (port 40h).
    pub fn write_data(&self, value: u8) {
        self.enter();
        let mut state = lock(&self.state);
        let word = match (state.access, state.low_written) {
            (1, _) => u16::from(value),
            (2, _) => u16::from(value) << 8,
            (_, None) => {
                state.low_written = Some(value);
                return;
            }
            (_, Some(low)) => u16::from_le_bytes([low, value]),
        };
        state.low_written = None;
        state.reload = if word == 0 { 0x1_0000 } else { u64::from(word) };
        state.loaded_at = self.oscillator.count();
    }

    /// A read of channel 0.
    #[must_use]
    pub fn read_data(&self) -> u8 {
        self.enter();
        let mut state = lock(&self.state);
        if state.missing {
            return u8::MAX;
        }
        if let Some(status) = state.status.take() {
            return status;
        }
        let count = state.latch.unwrap_or_else(|| self.count(&state));
        let [low, high] = count.to_le_bytes();
        let (byte, last) = match state.access {
            1 => (low, true),
            2 => (high, true),
            _ if state.high_next => (high, true),
            _ => (low, false),
        };
        state.high_next = !last;
        if last {
            state.latch = None;
        }
        byte
    }
}
