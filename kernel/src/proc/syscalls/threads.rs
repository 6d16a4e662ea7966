//! `clone` for threads, and what threads tell the kernel of themselves.

use alloc::sync::Arc;

use super::errno::Errno;
use super::{Answer, Task};
use crate::arch::syscall::Registers;
use crate::arch::thread::{Thread, ThreadError};
use crate::proc::{layout, sched};

/// Flags of `clone` (Linux's `include/uapi/linux/sched.h`).
mod flag {
    pub(super) const VM: u64 = 0x100;
    pub(super) const FS: u64 = 0x200;
    pub(super) const FILES: u64 = 0x400;
    pub(super) const SIGHAND: u64 = 0x800;
    pub(super) const THREAD: u64 = 0x1_0000;
    pub(super) const SYSVSEM: u64 = 0x4_0000;
    pub(super) const SETTLS: u64 = 0x8_0000;
    pub(super) const PARENT_SETTID: u64 = 0x10_0000;
    pub(super) const CHILD_CLEARTID: u64 = 0x20_0000;
    pub(super) const DETACHED: u64 = 0x40_0000;
    pub(super) const CHILD_SETTID: u64 = 0x100_0000;
    /// The signal that the end of a process sends; a thread's sends none.
    pub(super) const SIGNAL: u64 = 0xff;

    /// What a thread shares with its process: all there is.
    pub(super) const SHARED: u64 = VM | FS | FILES | SIGHAND | THREAD;
    /// What else may be set. There are no System V semaphores to share.
    pub(super) const OPTIONS: u64 =
        SYSVSEM | SETTLS | PARENT_SETTID | CHILD_CLEARTID | DETACHED | CHILD_SETTID | SIGNAL;
}

/// Bytes of a `struct robust_list_head`.
const ROBUST_LIST_HEAD: u64 = 24;

/// `clone(flags, stack, parent_tid, child_tid, tls)`: a new thread of the
/// process, that goes on where the caller does, with 0 as its result.
///
/// Flag sets that Linux refuses are `EINVAL`; those that would make anything
/// but a thread are `ENOSYS`. A pointer for the number that cannot be written
/// is passed over, as on Linux.
pub(super) fn clone(task: &Task, registers: &Registers) -> Answer {
    let [flags, stack, parent_tid, child_tid, tls, _] = registers.arguments();
    // The upper half is not looked at.
    let flags = flags & u64::from(u32::MAX);
    let has = |wanted| flags & wanted != 0;
    if has(flag::THREAD) && !has(flag::SIGHAND) || has(flag::SIGHAND) && !has(flag::VM) {
        return Err(Errno::Inval);
    }
    if flags & flag::SHARED != flag::SHARED || has(!(flag::SHARED | flag::OPTIONS)) {
        return Err(Errno::NoSys);
    }
    if has(flag::SETTLS) && tls >= layout::LIMIT {
        return Err(Errno::Perm);
    }
    let tid = sched::prepare_thread();
    let stack = (stack != 0).then_some(stack);
    let tls = has(flag::SETTLS).then_some(tls);
    let thread = Thread::copy(registers, stack, tls).map_err(|error| match error {
        ThreadError::TooMany => Errno::Again,
        ThreadError::OutOfMemory => Errno::NoMem,
    })?;
    let clear_at_end = if has(flag::CHILD_CLEARTID) {
        child_tid
    } else {
        0
    };
    let child = Arc::new(Task::new(tid, Arc::clone(&task.process), clear_at_end));
    let number = tid.to_le_bytes();
    for (wanted, pointer) in [
        (flag::PARENT_SETTID, parent_tid),
        (flag::CHILD_SETTID, child_tid),
    ] {
        if has(wanted) {
            let mut memory = task.process.memory();
            let _: Result<(), _> = memory.space_mut().copy_out(pointer, &number);
        }
    }
    if sched::add_thread(task, child, thread) {
        Ok(u64::from(tid))
    } else {
        // The process is at its end; nobody sees this.
        Err(Errno::Again)
    }
}

/// `set_tid_address(pointer)`: the word that is cleared and woken at the
/// thread's end; gives the thread's number.
pub(super) fn set_tid_address(task: &Task, pointer: u64) -> Answer {
    task.set_clear_at_end(pointer);
    Ok(u64::from(task.tid))
}

/// `set_robust_list(head, length)`. Nothing is done with the list: it is for
/// mutexes that outlive a process in shared memory, which does not exist here.
pub(super) fn set_robust_list(length: u64) -> Answer {
    (length == ROBUST_LIST_HEAD)
        .then_some(0)
        .ok_or(Errno::Inval)
}
