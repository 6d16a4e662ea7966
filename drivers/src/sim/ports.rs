//! Model of the I/O port space with the chips that are attached to it.

use std::boxed::Box;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use super::{AcpiTimerModel, I8254Model, lock};
use crate::bus::PortIo;

/// What runs in the middle of an access, once.
type Interruption = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Log {
    writes: Vec<(u16, u8)>,
    interruption: Option<(u32, Interruption)>,
}

/// Ports 40h and 43h, and the ACPI timer's. What is not attached reads as all
/// ones. Clones share everything.
#[derive(Clone, Default)]
pub struct PortsModel {
    i8254: Option<I8254Model>,
    acpi_timer: Option<(u16, AcpiTimerModel)>,
    log: Arc<Mutex<Log>>,
}

impl fmt::Debug for PortsModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortsModel")
            .field("i8254", &self.i8254)
            .field("acpi_timer", &self.acpi_timer)
            .finish_non_exhaustive()
    }
}

impl PortsModel {
    /// With nothing attached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With an i8254.
    #[must_use]
    pub fn with_i8254(mut self, chip: &I8254Model) -> Self {
        self.i8254 = Some(chip.clone());
        self
    }

    /// With an ACPI timer at `port`.
    #[must_use]
    pub fn with_acpi_timer(mut self, port: u16, chip: &AcpiTimerModel) -> Self {
        self.acpi_timer = Some((port, chip.clone()));
        self
    }

    /// All byte writes so far, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<(u16, u8)> {
        lock(&self.log).writes.clone()
    }

    /// Runs `what` before the `accesses`th byte access from now (1 is the
    /// next), as an NMI would come in between.
    pub fn interrupt_before(&self, accesses: u32, what: impl FnOnce() + Send + 'static) {
        lock(&self.log).interruption = Some((accesses, Box::new(what)));
    }

    fn interruptible(&self) {
        let due = {
            let mut log = lock(&self.log);
            match log.interruption.take() {
                Some((1, what)) => Some(what),
                Some((left, what)) => {
                    log.interruption = Some((left - 1, what));
                    None
                }
                None => None,
            }
        };
        if let Some(what) = due {
            what();
        }
    }
}

impl PortIo for PortsModel {
    fn read_u8(&self, port: u16) -> u8 {
        self.interruptible();
        match (port, &self.i8254) {
            (0x40, Some(chip)) => chip.read_data(),
            _ => u8::MAX,
        }
    }

    fn write_u8(&self, port: u16, value: u8) {
        self.interruptible();
        lock(&self.log).writes.push((port, value));
        match (port, &self.i8254) {
            (0x40, Some(chip)) => chip.write_data(value),
            (0x43, Some(chip)) => chip.write_control(value),
            _ => (),
        }
    }

    fn read_u32(&self, port: u16) -> u32 {
        match &self.acpi_timer {
            Some((at, chip)) if *at == port => chip.sample(),
            _ => u32::MAX,
        }
    }

    fn write_u32(&self, _port: u16, _value: u32) {}

    fn uninterrupted<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}
