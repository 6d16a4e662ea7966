//! One process, from a file in the RAM disk to its end.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use drivers::bus::Cpuid;
use drivers::native::Processor;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use x86_64::instructions::interrupts;

use super::elf::{self, ElfError};
use super::memory::{Memory, SharedPages};
use super::{layout, stack};
use crate::arch::thread::{Thread, ThreadError};
use crate::archive;
use crate::mm::paging::{MapError, Root};

/// Where the programs are in the RAM disk.
const DIRECTORY: &str = "bin/";

/// Why a program does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// The RAM disk has no such program.
    NotFound,
    /// It is not a program that this kernel runs.
    Refused(ElfError),
    /// Its arguments do not fit.
    Arguments,
    /// Not enough memory.
    OutOfMemory,
    /// Too many processes.
    TooMany,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("not found"),
            Self::Refused(reason) => write!(f, "{reason}"),
            Self::Arguments => write!(f, "{}", stack::TooLong),
            Self::OutOfMemory => f.write_str("out of memory"),
            Self::TooMany => f.write_str("too many processes"),
        }
    }
}

impl core::error::Error for StartError {}

impl From<ThreadError> for StartError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::TooMany => Self::TooMany,
            ThreadError::OutOfMemory => Self::OutOfMemory,
        }
    }
}

impl From<MapError> for StartError {
    fn from(_: MapError) -> Self {
        // The checks leave nothing else that can go wrong with a mapping.
        Self::OutOfMemory
    }
}

/// How a process came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status, 0 to 255.
    Exited(i32),
    /// By Ctrl-C.
    Interrupted,
    /// By an exception.
    Faulted(Fault),
}

/// The exception that ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Number of the process.
    pub pid: u32,
    /// The exception's name.
    pub name: &'static str,
    /// Address of the instruction.
    pub at: u64,
    /// The address that it accessed, for a page fault.
    pub address: Option<u64>,
}

impl Ended {
    /// The status as a shell gives it: 128 and the number of the signal that
    /// Linux would have sent (SIGINT is 2, SIGSEGV 11) for one that was ended.
    #[must_use]
    pub fn status(&self) -> i32 {
        match self {
            Self::Exited(status) => *status,
            Self::Interrupted => 130,
            Self::Faulted(_) => 139,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Faulted(fault) => {
                write!(f, "pid {}: {} at {:#x}", fault.pid, fault.name, fault.at)?;
                match fault.address {
                    Some(address) => write!(f, " (address {address:#x})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// Its address space, for a switch.
    pub root: Root,
    memory: SpinMutex<Memory>,
    ending: AtomicBool,
}

impl Process {
    /// Its memory, for a copy or a change. To be called with no lock held, and
    /// never kept across a switch.
    ///
    /// Another thread may be changing much of it, and then waits for this
    /// processor to flush its TLB. So interrupts are on while this waits,
    /// whatever they were.
    pub fn memory(&self) -> SpinMutexGuard<'_, Memory> {
        loop {
            if let Some(memory) = self.memory.try_lock() {
                return memory;
            }
            let were_on = interrupts::are_enabled();
            interrupts::enable();
            // An interrupt is taken after the instruction behind `sti`.
            core::hint::spin_loop();
            if !were_on {
                interrupts::disable();
            }
        }
    }

    /// Has its threads end when they are next about to run the program.
    pub fn set_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether its threads are to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

/// Names of the programs in the RAM disk, in its order.
pub fn programs() -> Vec<String> {
    archive::entries()
        .filter_map(|entry| entry.with_name(|path| path.strip_prefix(DIRECTORY).map(String::from)))
        .collect()
}

/// Loads the program `name` and makes a thread for it, which has not run yet.
///
/// # Errors
///
/// [`StartError`]; nothing is left behind then.
pub fn load(
    pid: u32,
    name: &str,
    arguments: &[&str],
    shared: Option<&SharedPages>,
) -> Result<(Arc<Process>, Thread), StartError> {
    let path = alloc::format!("{DIRECTORY}{name}");
    let file = archive::file(&path).ok_or(StartError::NotFound)?;
    let program = elf::check(file).map_err(StartError::Refused)?;
    let all: Vec<&str> = core::iter::once(name)
        .chain(arguments.iter().copied())
        .collect();
    let facts = stack::Facts {
        program: &program,
        vdso: shared.map(|_| layout::VDSO),
        capabilities: Processor.leaf(1, 0).edx,
        random: random(pid),
    };
    let stack = stack::build(&all, &facts).map_err(|_| StartError::Arguments)?;
    let memory = Memory::load(file, &program, &stack, shared)?;
    let thread = Thread::user(program.entry, stack.pointer)?;
    let process = Process {
        pid,
        name: String::from(name),
        root: memory.space().root(),
        memory: SpinMutex::new(memory),
        ending: AtomicBool::new(false),
    };
    Ok((Arc::new(process), thread))
}

/// Sixteen bytes that differ from process to process. They seed a stack
/// protector, where there is nobody to keep them secret from: a run that is
/// repeated gets the same ones.
fn random(pid: u32) -> [u8; 16] {
    let mut state = u64::from(pid);
    let mut bytes = [0; 16];
    for part in bytes.chunks_exact_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        part.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    bytes
}
