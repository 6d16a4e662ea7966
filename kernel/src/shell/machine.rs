//! What the shell needs of the kernel around it.

use super::output::Output;
use crate::sysctl::System;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How a program came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status, 0 to 255.
    Exited(i32),
    /// The kernel ended it, for this reason.
    Killed(String),
}

/// Why a program did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The RAM disk has no program of that name.
    NotFound,
    /// It has, but it cannot be run, for this reason.
    Refused(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("not found"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

/// A process, as `ps` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Threads that have not ended; 0 for one that nobody has waited for yet.
    pub threads: usize,
    /// A processor that runs one of them.
    pub cpu: Option<usize>,
    /// CPU time of all of them, in nanoseconds.
    pub used_ns: u64,
    /// The program.
    pub name: String,
}

/// The kernel as the shell sees it.
pub trait Machine {
    /// What `sysctl` reads and writes.
    fn system(&self) -> &dyn System;
    /// Nanoseconds since boot.
    fn uptime_ns(&self) -> u64;
    /// Prints the kernel's log, oldest line first.
    fn log(&self, out: &mut dyn Output);
    /// Names of the programs in the RAM disk, in its order.
    fn programs(&self) -> Vec<String>;
    /// Runs a program in the foreground and returns when it has ended.
    fn run(&self, program: &str, arguments: &[String]) -> Result<Ended, StartError>;
    /// Starts a program in the background.
    fn start(&self, program: &str, arguments: &[String]) -> Result<(), StartError>;
    /// The processes, by number.
    fn processes(&self) -> Vec<Process>;
    /// Waits for all programs in the background; their names and ends, in the
    /// order they were started in.
    fn wait(&self) -> Vec<(String, Ended)>;
}
