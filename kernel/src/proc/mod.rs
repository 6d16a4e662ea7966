//! Processes: static Linux programs in ring 3.
//!
//! * [`elf`] checks an executable, [`stack`] lays out what it finds on its
//!   stack, [`layout`] fixes the addresses, [`regions`] keeps count of those
//!   in use. [`runqueue`] says which thread is next on which processor,
//!   [`futex`] who waits for whom, [`timeouts`] until when, [`cputime`] counts
//!   who ran for how long, [`clockid`] knows the numbers of clocks that show
//!   it. All of these are plain computation and run on the host too.
//! * [`memory`] is a process's memory, [`vdso`] what all of them share,
//!   [`process`] one process, [`task`] one of its threads, [`sched`] runs them.
//! * [`syscalls`] answers the programs.

pub mod clockid;
pub mod cputime;
pub mod elf;
pub mod futex;
pub mod layout;
pub mod regions;
pub mod runqueue;
pub mod stack;
pub mod timeouts;

#[cfg(target_os = "none")]
pub mod memory;
#[cfg(target_os = "none")]
pub mod process;
#[cfg(target_os = "none")]
pub mod sched;
#[cfg(target_os = "none")]
pub mod syscalls;
#[cfg(target_os = "none")]
pub mod task;
#[cfg(target_os = "none")]
pub mod vdso;

#[cfg(target_os = "none")]
pub use {
    process::{Ended, StartError, programs},
    sched::{Status, idle, idle_loop, reschedule, run, start, statuses, tick, wait},
    syscalls::{clock_calls, system_call},
};

/// Ends the process that raised an exception.
#[cfg(target_os = "none")]
pub fn user_fault(at: u64, exception: &crate::arch::trap::Exception) -> ! {
    let pid = sched::current().map_or(0, |task| task.process.pid);
    sched::end_process(Ended::Faulted(process::Fault {
        pid,
        name: exception.name(),
        at,
        address: exception.address,
    }))
}
