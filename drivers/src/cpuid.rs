//! What CPUID says about the time-stamp counter.
//!
//! The rate can be stated in three places, and none can be taken at its word:
//! leaf 15h may have any of its three registers 0, which means "not
//! enumerated" (virtual machines do it all the time, and dividing by the first
//! has panicked kernels); leaf 16h is a marketing number of whole MHz, off by
//! up to 1 %; the hypervisors' leaf 4000_0010h exists with EAX = 0. Emulators
//! have been seen to repeat a real machine's leaves over a counter that is 875
//! times slower. So all of it is evidence to be compared with a measurement
//! ([`crosscheck`](crate::crosscheck)), never a rate by itself as long as
//! anything can be measured.
//!
//! Source: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E; the
//! hypervisor leaves as VMware and KVM define them.

use crate::bus::{Cpuid, CpuidRegisters};

const LEAF_TSC_RATIO: u32 = 0x15;
const LEAF_PROCESSOR_FREQUENCY: u32 = 0x16;
const LEAF_HYPERVISOR: u32 = 0x4000_0000;
const LEAF_HYPERVISOR_FREQUENCY: u32 = 0x4000_0010;
const LEAF_EXTENDED: u32 = 0x8000_0000;
const LEAF_EXTENDED_FEATURES: u32 = 0x8000_0001;
const LEAF_POWER_MANAGEMENT: u32 = 0x8000_0007;
const LEAF_EXTENDED_FEATURES_2: u32 = 0x8000_0021;

const FEATURE_TSC: u32 = 1 << 4;
const FEATURE_HYPERVISOR: u32 = 1 << 31;
const EXTENDED_RDTSCP: u32 = 1 << 27;
const INVARIANT_TSC: u32 = 1 << 8;
const LFENCE_ALWAYS_SERIALIZING: u32 = 1 << 2;

/// The rate in Hz that leaf 15h enumerates: crystal (ECX) x numerator (EBX) /
/// denominator (EAX), in 64 bits, rounded down. `None` when any of them is 0.
#[must_use]
pub const fn tsc_ratio_frequency(eax: u32, ebx: u32, ecx: u32) -> Option<u64> {
    if eax == 0 || ebx == 0 || ecx == 0 {
        return None;
    }
    match ecx as u64 * ebx as u64 / eax as u64 {
        0 => None,
        hz => Some(hz),
    }
}

/// Who made the processor, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// `GenuineIntel`.
    Intel,
    /// `AuthenticAMD`.
    Amd,
    /// `HygonGenuine`, which follows AMD.
    Hygon,
    /// Any other.
    Other,
}

impl Vendor {
    fn decode(leaf_0: &CpuidRegisters) -> Self {
        match &signature(leaf_0.ebx, leaf_0.edx, leaf_0.ecx) {
            b"GenuineIntel" => Self::Intel,
            b"AuthenticAMD" => Self::Amd,
            b"HygonGenuine" => Self::Hygon,
            _ => Self::Other,
        }
    }
}

/// Under whose supervision the processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    /// Nobody's, or nobody's who says so.
    None,
    /// `KVMKVMKVM`.
    Kvm,
    /// `TCGTCGTCGTCG`, QEMU without acceleration.
    Tcg,
    /// `VBoxVBoxVBox`.
    VirtualBox,
    /// `VMwareVMware`.
    Vmware,
    /// Another one.
    Other,
}

impl Hypervisor {
    fn decode(leaf: &CpuidRegisters) -> Self {
        match &signature(leaf.ebx, leaf.ecx, leaf.edx) {
            b"KVMKVMKVM\0\0\0" => Self::Kvm,
            b"TCGTCGTCGTCG" => Self::Tcg,
            b"VBoxVBoxVBox" => Self::VirtualBox,
            b"VMwareVMware" => Self::Vmware,
            _ => Self::Other,
        }
    }
}

/// Twelve ASCII bytes out of three registers.
fn signature(a: u32, b: u32, c: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (part, register) in bytes.chunks_exact_mut(4).zip([a, b, c]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    bytes
}

/// The family, with the extended one added where the base says 15.
#[must_use]
pub const fn family(leaf_1_eax: u32) -> u32 {
    let base = leaf_1_eax >> 8 & 0xF;
    if base == 0xF {
        base + (leaf_1_eax >> 20 & 0xFF)
    } else {
        base
    }
}

/// Where a stated rate was found, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The hypervisor's leaf 4000_0010h, in kHz.
    Hypervisor,
    /// Leaf 15h, crystal and ratio.
    Ratio,
    /// Leaf 16h, whole MHz of the core's base clock: a hint.
    BaseClock,
}

/// A rate that CPUID states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// In Hz, not 0.
    pub frequency: u64,
    /// Which leaf.
    pub source: Source,
}

impl Stated {
    /// How far the truth may be from the statement, in parts per 10^9: a
    /// crystal's tolerance, or the 1 % of a base clock.
    #[must_use]
    pub const fn tolerance_ppb(&self) -> u64 {
        match self.source {
            Source::Hypervisor | Source::Ratio => 500_000,
            Source::BaseClock => 10_000_000,
        }
    }
}

/// Everything about the TSC that CPUID knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscFacts {
    /// There is a TSC (leaf 1, EDX bit 4).
    pub present: bool,
    /// Its rate does not follow the core's clock or sleep (leaf 8000_0007h,
    /// EDX bit 8).
    pub invariant: bool,
    /// `RDTSCP` exists (leaf 8000_0001h, EDX bit 27).
    pub rdtscp: bool,
    /// `LFENCE` waits for all earlier instructions on its own (leaf
    /// 8000_0021h, EAX bit 2; AMD).
    pub lfence_always_serializing: bool,
    /// The maker.
    pub vendor: Vendor,
    /// The family, see [`family`].
    pub family: u32,
    /// The hypervisor.
    pub hypervisor: Hypervisor,
    /// The best rate that is stated, if any.
    pub stated: Option<Stated>,
}

impl TscFacts {
    /// Asks for all of it, no leaf above the range that its base leaf
    /// announces (beyond it Intel answers with the data of another leaf).
    pub fn read<C: Cpuid>(cpuid: &C) -> Self {
        let leaf_0 = cpuid.leaf(0, 0);
        let basic = |leaf| (leaf <= leaf_0.eax).then(|| cpuid.leaf(leaf, 0));
        let last_extended = cpuid.leaf(LEAF_EXTENDED, 0).eax;
        let extended = |leaf| (leaf <= last_extended).then(|| cpuid.leaf(leaf, 0));

        let features = basic(1).unwrap_or_default();
        // The hypervisor range exists only where this bit is set.
        let (hypervisor, last_hypervisor) = if features.ecx & FEATURE_HYPERVISOR != 0 {
            let leaf = cpuid.leaf(LEAF_HYPERVISOR, 0);
            (Hypervisor::decode(&leaf), leaf.eax)
        } else {
            (Hypervisor::None, 0)
        };
        let by_hypervisor = || {
            let leaf = LEAF_HYPERVISOR_FREQUENCY;
            let khz = (leaf <= last_hypervisor).then(|| cpuid.leaf(leaf, 0).eax)?;
            statement(u64::from(khz) * 1_000, Source::Hypervisor)
        };
        let by_ratio = || {
            let r = basic(LEAF_TSC_RATIO)?;
            statement(tsc_ratio_frequency(r.eax, r.ebx, r.ecx)?, Source::Ratio)
        };
        let by_base_clock = || {
            let mhz = basic(LEAF_PROCESSOR_FREQUENCY)?.eax & 0xFFFF;
            statement(u64::from(mhz) * 1_000_000, Source::BaseClock)
        };
        let has = |leaf, pick: fn(&CpuidRegisters) -> u32, bit| {
            extended(leaf).is_some_and(|r| pick(&r) & bit != 0)
        };
        Self {
            present: features.edx & FEATURE_TSC != 0,
            invariant: has(LEAF_POWER_MANAGEMENT, |r| r.edx, INVARIANT_TSC),
            rdtscp: has(LEAF_EXTENDED_FEATURES, |r| r.edx, EXTENDED_RDTSCP),
            lfence_always_serializing: has(
                LEAF_EXTENDED_FEATURES_2,
                |r| r.eax,
                LFENCE_ALWAYS_SERIALIZING,
            ),
            vendor: Vendor::decode(&leaf_0),
            family: family(features.eax),
            hypervisor,
            stated: by_hypervisor().or_else(by_ratio).or_else(by_base_clock),
        }
    }
}

fn statement(frequency: u64, source: Source) -> Option<Stated> {
    (frequency != 0).then_some(Stated { frequency, source })
}
