//! Model of a processor: CPUID, the TSC, the cost of a pause.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Clock, Oscillator, lock};
use crate::bus::{Cpuid, CpuidRegisters, OrderedRead, Pace, TscRead};

/// A pause of 40 cycles at 2 GHz.
const PAUSE_PS: u64 = 20_000;

/// Answers of CPUID by leaf; what is not in it reads as zeros.
#[derive(Clone, Debug, Default)]
pub struct CpuidTable(BTreeMap<u32, CpuidRegisters>);

impl CpuidTable {
    /// An Intel processor with leaves up to 16h and 8000_0008h, a TSC that is
    /// invariant, RDTSCP, and no rate stated.
    #[must_use]
    pub fn intel() -> Self {
        Self::default()
            .with(0, [0x16, 0x756E_6547, 0x6C65_746E, 0x4965_6E69])
            .with(1, [0x000A_06F2, 0, 0, 1 << 4])
            .with(0x8000_0000, [0x8000_0008, 0, 0, 0])
            .with(0x8000_0001, [0, 0, 0, 1 << 27])
            .with(0x8000_0007, [0, 0, 0, 1 << 8])
    }

    /// An AMD processor of the Zen family, otherwise as [`intel`](Self::intel).
    #[must_use]
    pub fn amd() -> Self {
        Self::intel()
            .with(0, [0x10, 0x6874_7541, 0x444D_4163, 0x6974_6E65])
            .with(1, [0x00A2_0F12, 0, 0, 1 << 4])
    }

    /// With a leaf of EAX, EBX, ECX, EDX.
    #[must_use]
    pub fn with(mut self, leaf: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> Self {
        self.0.insert(leaf, CpuidRegisters { eax, ebx, ecx, edx });
        self
    }

    /// With the hypervisor bit and a hypervisor of this signature whose last
    /// leaf is 4000_0010h.
    #[must_use]
    pub fn under(self, signature: &[u8; 12]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&signature[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let mut features = self.leaf(1, 0);
        features.ecx |= 1 << 31;
        let CpuidRegisters { eax, ebx, ecx, edx } = features;
        self.with(1, [eax, ebx, ecx, edx])
            .with(0x4000_0000, [0x4000_0010, word(0), word(4), word(8)])
    }
}

impl Cpuid for CpuidTable {
    fn leaf(&self, leaf: u32, _subleaf: u32) -> CpuidRegisters {
        self.0.get(&leaf).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
struct State {
    cpuid: CpuidTable,
    /// The TSC moves by this many counts at a time.
    step: u64,
    lfence_ps: u64,
    rdtscp_ps: u64,
    reads: u64,
}

/// A processor; clones share it.
#[derive(Clone, Debug)]
pub struct ProcessorModel {
    clock: Clock,
    /// What drives the TSC; its faults are this value's.
    pub tsc: Oscillator,
    state: Arc<Mutex<State>>,
}

impl ProcessorModel {
    /// With a TSC of `tsc_hz`.
    #[must_use]
    pub fn new(clock: &Clock, tsc_hz: u64, cpuid: CpuidTable) -> Self {
        Self {
            clock: clock.clone(),
            tsc: Oscillator::new(clock, u128::from(tsc_hz), 1),
            state: Arc::new(Mutex::new(State {
                cpuid,
                step: 1,
                lfence_ps: 15_000,
                rdtscp_ps: 17_000,
                reads: 0,
            })),
        }
    }

    /// Makes the TSC move by `step` counts at a time.
    pub fn set_step(&self, step: u64) {
        lock(&self.state).step = step.max(1);
    }

    /// Sets what the two ordered reads cost.
    pub fn set_read_ps(&self, lfence_rdtsc: u64, rdtscp: u64) {
        let mut state = lock(&self.state);
        state.lfence_ps = lfence_rdtsc;
        state.rdtscp_ps = rdtscp;
    }

    /// Reads of the TSC so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        lock(&self.state).reads
    }
}

impl Cpuid for ProcessorModel {
    fn leaf(&self, leaf: u32, subleaf: u32) -> CpuidRegisters {
        lock(&self.state).cpuid.leaf(leaf, subleaf)
    }
}

impl TscRead for ProcessorModel {
    fn read(&self, how: OrderedRead) -> u64 {
        let (cost, step) = {
            let mut state = lock(&self.state);
            state.reads += 1;
            let cost = match how {
                OrderedRead::LfenceRdtsc => state.lfence_ps,
                OrderedRead::Rdtscp => state.rdtscp_ps,
            };
            (cost, state.step)
        };
        self.clock.advance_ps(cost / 2);
        let count = self.tsc.count();
        self.clock.advance_ps(cost - cost / 2);
        count - count % step
    }
}

impl Pace for ProcessorModel {
    fn relax(&self, turns: u32) {
        self.clock.advance_ps(u64::from(turns) * PAUSE_PS);
    }
}
