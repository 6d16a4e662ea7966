//! A machine without hardware, for the tests of the shell.

use super::machine::{Ended, Machine, Process, StartError};
use super::output::Output;
use crate::sysctl::System;
use crate::sysctl::fake::Fake;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Programs `true`, `false`, `crash` and one that is no program, `garbage`.
#[derive(Debug)]
pub(crate) struct FakeMachine<S = Fake> {
    pub(crate) system: S,
    background: RefCell<Vec<String>>,
}

impl Default for FakeMachine {
    fn default() -> Self {
        Self::on(Fake::default())
    }
}

impl<S> FakeMachine<S> {
    pub(crate) fn on(system: S) -> Self {
        Self {
            system,
            background: RefCell::default(),
        }
    }
}

/// How a program of that name ends, if it starts.
fn end_of(program: &str) -> Result<Ended, StartError> {
    match program {
        "true" => Ok(Ended::Exited(0)),
        "false" => Ok(Ended::Exited(3)),
        "crash" => Ok(Ended::Killed(String::from("killed: page fault at 0x10"))),
        "garbage" => Err(StartError::Refused(String::from("not an ELF file"))),
        _ => Err(StartError::NotFound),
    }
}

impl<S: System> Machine for FakeMachine<S> {
    fn system(&self) -> &dyn System {
        &self.system
    }

    fn uptime_ns(&self) -> u64 {
        3_723_000_000_004
    }

    fn log(&self, out: &mut dyn Output) {
        out.put("first line\nsecond line\n");
    }

    fn programs(&self) -> Vec<String> {
        ["true", "false", "crash", "garbage"]
            .map(String::from)
            .into()
    }

    fn run(&self, program: &str, _: &[String]) -> Result<Ended, StartError> {
        end_of(program)
    }

    fn start(&self, program: &str, _: &[String]) -> Result<(), StartError> {
        end_of(program)?;
        self.background.borrow_mut().push(String::from(program));
        Ok(())
    }

    fn processes(&self) -> Vec<Process> {
        let process = |(number, name): (usize, &String)| Process {
            pid: 7 + number as u32,
            threads: number,
            cpu: number.checked_sub(1),
            used_ns: 1_000_000_002 * number as u64,
            name: name.clone(),
        };
        let background = self.background.borrow();
        background.iter().enumerate().map(process).collect()
    }

    fn wait(&self) -> Vec<(String, Ended)> {
        let started = self.background.take().into_iter();
        let ended = started.filter_map(|name| Some((end_of(&name).ok()?, name)));
        ended.map(|(end, name)| (name, end)).collect()
    }
}
