//! Who and where: the thread's own segment base, the processor it is on.

use super::errno::Errno;
use super::{Answer, Process};
use crate::arch::{context, percpu};

const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;

/// `arch_prctl(code, address)`: the FS base, which thread-local storage uses.
/// GS is not offered; no C library asks for it.
pub(super) fn arch_prctl(process: &Process, code: u64, address: u64) -> Answer {
    match code {
        ARCH_SET_FS => {
            // In user space: a kernel address there would not let the program
            // read anything, but Linux refuses it as well.
            let usable = address < crate::proc::layout::LIMIT && context::set_fs_base(address);
            usable.then_some(0).ok_or(Errno::Access)
        }
        ARCH_GET_FS => {
            let base = context::fs_base().to_le_bytes();
            process.memory().space_mut().copy_out(address, &base)?;
            Ok(0)
        }
        _ => Err(Errno::Inval),
    }
}

/// `getcpu(cpu, node)`: the processor that the call was made on, of the first
/// node. Either pointer may be null.
pub(super) fn getcpu(process: &Process, cpu: u64, node: u64) -> Answer {
    let number = percpu::number() as u32;
    for (pointer, value) in [(cpu, number), (node, 0)] {
        if pointer != 0 {
            let bytes = value.to_le_bytes();
            process.memory().space_mut().copy_out(pointer, &bytes)?;
        }
    }
    Ok(0)
}
