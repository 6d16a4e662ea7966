//! What a program cannot say in safe Rust.
//!
//! * `call`: the `syscall` instruction, wrapped one function a call so that
//!   each takes types which make it sound.
//! * [`clone`](mod@clone): threads, futexes and affinity, for testing a kernel's.
//! * [`BadPointer`]: the same with pointers that a kernel must refuse.
//! * [`Process`] and the entry point: what the kernel left on the stack.
//! * [`Function`]: calls into the vDSO.
//! * [`fault`]: deliberate faults, for testing a kernel's answer to them.
//! * [`vectors`]: values held in registers that a kernel must not mix up.

mod bad_pointer;
mod call;
pub mod clone;
pub mod fault;
mod function;
#[cfg(feature = "program")]
mod memory;
mod process;
#[cfg(feature = "program")]
mod start;
pub mod vectors;

pub use bad_pointer::{
    BadPointer, clock_getres_into, clock_gettime_into, gettimeofday_into, write_from,
};
pub use call::{
    Memory, clock_getres, clock_gettime, exit, getpid, gettid, gettimeofday, getuid, reserve,
    set_tid_address, time, unknown_call, write, yield_now,
};
pub use function::{Function, Image};
pub use process::Process;
#[cfg(feature = "program")]
pub use start::start;
