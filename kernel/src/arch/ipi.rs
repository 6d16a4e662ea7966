//! Asking other CPUs for something.

use super::percpu;
use crate::cpuset::CpuSet;
use crate::sync::without_interrupts;

/// Makes a CPU look for another thread to run.
pub fn reschedule(_cpu: usize) {}

/// Runs `f(cpu)` on every CPU of the set, interrupts off, and returns those
/// that did not answer.
pub fn on_cpus(cpus: &CpuSet, f: &(dyn Fn(usize) + Sync)) -> CpuSet {
    without_interrupts(|| {
        if cpus.contains(percpu::number()) {
            f(percpu::number());
        }
    });
    CpuSet::empty()
}

/// Stops all other CPUs for ever.
pub fn halt_others() {}

/// Makes the CPUs of the set forget what their TLBs know.
pub fn flush(_cpus: &CpuSet) {}
