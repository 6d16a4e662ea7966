//! What each CPU has of its own.

use crate::cpuset::CpuSet;

/// The number of the CPU that asks.
pub fn number() -> usize {
    0
}

/// The CPUs that run the kernel.
pub fn online() -> CpuSet {
    CpuSet::single(0)
}

/// How many CPUs run the kernel.
pub fn count() -> usize {
    online().len()
}
