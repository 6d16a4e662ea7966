//! The system calls: Linux's numbers and conventions for x86-64.
//!
//! A result from -4095 to -1 is a negated error number. Pointers are checked
//! against the process's own page tables ([`crate::mm::user`]), so that a bad
//! one is `EFAULT` and nothing else. A call that is not here is `ENOSYS`, which
//! static C libraries take in their stride.
//!
//! Calls that are done in a few instructions run with interrupts off, as the
//! entry leaves them. The others turn them on, so that no tick is late while
//! a program writes or maps a lot.

mod affinity;
mod clock;
mod errno;
mod futex;
mod identity;
mod memory;
mod output;
mod threads;

use errno::Errno;
use x86_64::instructions::interrupts;

use super::process::{Ended, Process};
use super::sched;
use super::task::Task;
use crate::arch::syscall::Registers;

pub use clock::clock_calls;

/// Numbers of `arch/x86/entry/syscalls/syscall_64.tbl`.
mod number {
    pub(super) const WRITE: u64 = 1;
    pub(super) const MMAP: u64 = 9;
    pub(super) const MPROTECT: u64 = 10;
    pub(super) const MUNMAP: u64 = 11;
    pub(super) const BRK: u64 = 12;
    pub(super) const WRITEV: u64 = 20;
    pub(super) const SCHED_YIELD: u64 = 24;
    pub(super) const GETPID: u64 = 39;
    pub(super) const CLONE: u64 = 56;
    pub(super) const EXIT: u64 = 60;
    pub(super) const GETTIMEOFDAY: u64 = 96;
    pub(super) const GETUID: u64 = 102;
    pub(super) const GETGID: u64 = 104;
    pub(super) const GETEUID: u64 = 107;
    pub(super) const GETEGID: u64 = 108;
    pub(super) const ARCH_PRCTL: u64 = 158;
    pub(super) const GETTID: u64 = 186;
    pub(super) const TIME: u64 = 201;
    pub(super) const FUTEX: u64 = 202;
    pub(super) const SCHED_SETAFFINITY: u64 = 203;
    pub(super) const SCHED_GETAFFINITY: u64 = 204;
    pub(super) const SET_TID_ADDRESS: u64 = 218;
    pub(super) const CLOCK_GETTIME: u64 = 228;
    pub(super) const CLOCK_GETRES: u64 = 229;
    pub(super) const EXIT_GROUP: u64 = 231;
    pub(super) const SET_ROBUST_LIST: u64 = 273;
    pub(super) const GETCPU: u64 = 309;
}

/// What a call returns to its program.
type Answer = Result<u64, Errno>;

/// What becomes of the thread.
enum Next {
    Return(Answer),
    Yield,
    Exit(i32),
    ExitGroup(i32),
}

/// Answers a system call: its result goes to RAX. Called on the stack of the
/// thread that made it, with interrupts off, and returns so.
///
/// # Panics
///
/// When no thread of a program runs, which cannot be: only ring 3 gets here.
pub fn system_call(registers: &mut Registers) {
    let next = match sched::current() {
        // The thread is let go of here: an end does not return.
        Some(task) => dispatch(&task, registers),
        None => panic!("a system call without a process"),
    };
    let answer = match next {
        Next::Return(answer) => answer,
        Next::Yield => {
            sched::yield_now();
            Ok(0)
        }
        Next::Exit(status) => sched::end_thread(status),
        Next::ExitGroup(status) => sched::end_process(Ended::Exited(status)),
    };
    registers.rax = answer.unwrap_or_else(Errno::as_result);
    sched::leave_kernel();
}

fn dispatch(task: &Task, registers: &Registers) -> Next {
    let process = &*task.process;
    let [a, b, c, d, e, f] = registers.arguments();
    let answer = match registers.rax {
        number::CLOCK_GETTIME => clock::gettime(task, a, b),
        number::GETTIMEOFDAY => clock::gettimeofday(process, a, b),
        number::TIME => clock::time(process, a),
        number::CLOCK_GETRES => clock::getres(task, a, b),
        // One user, root.
        number::GETUID | number::GETEUID | number::GETGID | number::GETEGID => Ok(0),
        number::GETPID => Ok(u64::from(process.pid)),
        number::GETTID => Ok(u64::from(task.tid)),
        number::ARCH_PRCTL => identity::arch_prctl(process, a, b),
        number::GETCPU => identity::getcpu(process, a, b),
        number::SCHED_YIELD => return Next::Yield,
        // The low eight bits, as wait(2) would give them.
        number::EXIT => return Next::Exit((a & 0xff) as i32),
        number::EXIT_GROUP => return Next::ExitGroup((a & 0xff) as i32),
        number::CLONE => at_length(|| threads::clone(task, registers)),
        number::SET_TID_ADDRESS => threads::set_tid_address(task, a),
        number::SET_ROBUST_LIST => threads::set_robust_list(b),
        number::FUTEX => at_length(|| futex::futex(task, [a, b, c, d, e, f])),
        number::SCHED_SETAFFINITY => affinity::set(task, a, b, c),
        number::SCHED_GETAFFINITY => affinity::get(task, a, b, c),
        number::WRITE => at_length(|| output::write(process, a, b, c)),
        number::WRITEV => at_length(|| output::writev(process, a, b, c)),
        number::BRK => at_length(|| memory::brk(process, a)),
        number::MMAP => at_length(|| memory::mmap(process, a, b, c, d)),
        number::MUNMAP => at_length(|| memory::munmap(process, a, b)),
        number::MPROTECT => at_length(|| memory::mprotect(process, a, b, c)),
        _ => Err(Errno::NoSys),
    };
    Next::Return(answer)
}

/// Runs a call that may take long: with interrupts on.
fn at_length(call: impl FnOnce() -> Answer) -> Answer {
    interrupts::enable();
    let answer = call();
    interrupts::disable();
    answer
}
