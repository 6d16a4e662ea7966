//! A machine without hardware, for the tests of the shell.

use super::machine::{Ended, Machine, StartError};
use super::output::Output;
use crate::sysctl::System;
use crate::sysctl::fake::Fake;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

/// Programs `true`, `false`, `crash` and one that is no program, `garbage`.
#[derive(Debug, Default)]
pub(crate) struct FakeMachine {
    pub(crate) system: Fake,
    background: RefCell<Vec<String>>,
}

impl FakeMachine {
    fn end_of(program: &str) -> Result<Ended, StartError> {
        match program {
            "true" => Ok(Ended::Exited(0)),
            "false" => Ok(Ended::Exited(3)),
            "crash" => Ok(Ended::Killed(String::from("killed: page fault at 0x10"))),
            "garbage" => Err(StartError::Refused(String::from("not an ELF file"))),
            _ => Err(StartError::NotFound),
        }
    }
}

impl Machine for FakeMachine {
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
        Self::end_of(program)
    }

    fn start(&self, program: &str, _: &[String]) -> Result<(), StartError> {
        Self::end_of(program)?;
        self.background.borrow_mut().push(String::from(program));
        Ok(())
    }

    fn wait(&self) -> Vec<(String, Ended)> {
        let started = self.background.take().into_iter();
        let ended = started.filter_map(|name| Some((Self::end_of(&name).ok()?, name)));
        ended.map(|(end, name)| (name, end)).collect()
    }
}
