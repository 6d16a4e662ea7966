//! The shell on this kernel: the console, the processes, the clock.

use super::machine::{Ended, Machine, Process, StartError};
use super::output::Output;
use super::{Outcome, Session, run_rc};
use crate::arch::exit::{self, ExitStatus};
use crate::arch::percpu;
use crate::mm::{PAGE_SIZE, frames};
use crate::sysctl::System;
use crate::sysctl::clock::{Around, ClockSystem};
use crate::tunables::Tunables;
use crate::{archive, console, proc, time};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Commands to run instead of asking for them.
const RC: &str = "etc/rc";

/// Becomes the shell: runs `etc/rc` where the RAM disk has one, and serves the
/// terminal where not. Ends with the machine powered off.
///
/// To be called by the kernel's own thread, with interrupts on.
pub fn run(tunables: &Tunables) -> ! {
    let around = Around {
        hz: time::hz,
        syscalls: proc::clock_calls,
        free_pages: || frames::free_bytes() / PAGE_SIZE,
        cpus: percpu::count,
        tsc_invariant: || time::facts().is_some_and(|facts| facts.tsc_invariant),
        tsc_in_step: time::tsc_sync::in_step,
        tsc_skew: time::tsc_sync::skew,
        tsc_resync: time::tsc_sync::resync,
        watchdog: time::watchdog::set_interval,
        role: time::role,
        // Programs in the background run meanwhile.
        relax: proc::idle,
    };
    let machine = Live {
        system: ClockSystem::new(time::clock(), tunables, around),
    };
    exit::power_off(match archive::file(RC) {
        Some(text) => {
            console::split_output(true);
            let outcome = run_rc(text, &machine, &mut Stdout);
            console::split_output(false);
            match outcome {
                Outcome::Failure => ExitStatus::Failure,
                Outcome::Success | Outcome::PowerOff => ExitStatus::Success,
            }
        }
        None => {
            serve(&machine);
            ExitStatus::Success
        }
    })
}

/// Serves the terminal until `shutdown`.
fn serve(machine: &Live) {
    let mut session = Session::new(&mut Stdout);
    loop {
        match console::read_byte() {
            Some(byte) => {
                if !session.byte(byte, machine, &mut Stdout) {
                    return;
                }
            }
            None => proc::idle(),
        }
    }
}

/// Where commands and programs print.
struct Stdout;

impl Output for Stdout {
    fn put(&mut self, text: &str) {
        console::write_stdout(text.as_bytes());
    }
}

/// The kernel, as the shell sees it.
struct Live {
    system: ClockSystem,
}

impl Machine for Live {
    fn system(&self) -> &dyn System {
        &self.system
    }

    fn uptime_ns(&self) -> u64 {
        time::clock().monotonic_ns()
    }

    fn log(&self, out: &mut dyn Output) {
        // All of it first, so that no character is cut at the end of a piece,
        // and so that printing it to the console does not move it.
        let mut log = Vec::new();
        console::messages(|piece| log.extend_from_slice(piece));
        out.put(&String::from_utf8_lossy(&log));
    }

    fn programs(&self) -> Vec<String> {
        proc::programs()
    }

    fn run(&self, program: &str, arguments: &[String]) -> Result<Ended, StartError> {
        let ended = proc::run(program, &borrowed(arguments));
        ended.map(how_ended).map_err(why_not_started)
    }

    fn start(&self, program: &str, arguments: &[String]) -> Result<(), StartError> {
        let started = proc::start(program, &borrowed(arguments));
        started.map(|_pid| ()).map_err(why_not_started)
    }

    fn processes(&self) -> Vec<Process> {
        let statuses = proc::statuses().into_iter();
        statuses
            .map(|status| Process {
                pid: status.pid,
                threads: status.threads,
                cpu: status.cpu,
                used_ns: status.used_ns,
                name: status.name,
            })
            .collect()
    }

    fn wait(&self) -> Vec<(String, Ended)> {
        let ended = proc::wait().into_iter();
        ended.map(|(name, end)| (name, how_ended(end))).collect()
    }
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn how_ended(ended: proc::Ended) -> Ended {
    match ended {
        proc::Ended::Exited(status) => Ended::Exited(status),
        killed => Ended::Killed(killed.to_string()),
    }
}

fn why_not_started(error: proc::StartError) -> StartError {
    match error {
        proc::StartError::NotFound => StartError::NotFound,
        refused => StartError::Refused(refused.to_string()),
    }
}
