//! The two legacy interrupt controllers, put out of the way.
//!
//! A kernel that takes its interrupts through the local APIC has no use for
//! the pair of i8259A. They cannot be ignored, though: firmware leaves them
//! programmed to deliver IRQ 0-7 at vectors 8-15, where the processor's
//! exceptions are, and even a fully masked i8259A can raise a *spurious*
//! interrupt (IRQ 7 of either chip). So both are moved to vectors that the
//! kernel names and then masked.
//!
//! Source: Intel 8259A data sheet (231468-003), "Initialization Command
//! Words"; ports and wiring as in every PC/AT (PIIX3 data sheet, 2.5.2).

use crate::bus::PortIo;

const MASTER_COMMAND: u16 = 0x20;
const MASTER_DATA: u16 = 0x21;
const SLAVE_COMMAND: u16 = 0xA0;
const SLAVE_DATA: u16 = 0xA1;

/// ICW1: initialization, edge triggered, cascaded, an ICW4 follows.
const ICW1_INIT: u8 = 0x11;
/// ICW3 of the master: a slave hangs on its input 2.
const ICW3_SLAVE_ON_2: u8 = 1 << 2;
/// ICW3 of the slave: it is the one on the master's input 2.
const ICW3_CASCADE_ID: u8 = 2;
/// ICW4: 8086 mode, no automatic end of interrupt.
const ICW4_8086: u8 = 0x01;
const ALL_MASKED: u8 = 0xFF;
/// A write to it takes about one bus cycle and has no effect that matters
/// (POST code port); old chips need the gap between two command words.
const DELAY_PORT: u16 = 0x80;

/// A first vector that the chips cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadVector(pub u8);

impl core::fmt::Display for BadVector {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "i8259: first vector {} is not a multiple of 8 from 32 to 240",
            self.0
        )
    }
}

/// Moves the sixteen interrupt lines to `first_vector..first_vector + 16` and
/// masks them all.
///
/// # Errors
///
/// [`BadVector`] unless `first_vector` is a multiple of 8 (the chip supplies
/// the low three bits), leaves the exceptions (0-31) alone and has room for
/// both chips.
pub fn remap_and_mask<P: PortIo>(ports: &P, first_vector: u8) -> Result<(), BadVector> {
    if !first_vector.is_multiple_of(8) || !(32..=240).contains(&first_vector) {
        return Err(BadVector(first_vector));
    }
    let sequence = [
        (MASTER_DATA, ALL_MASKED),
        (SLAVE_DATA, ALL_MASKED),
        (MASTER_COMMAND, ICW1_INIT),
        (SLAVE_COMMAND, ICW1_INIT),
        (MASTER_DATA, first_vector),
        (SLAVE_DATA, first_vector + 8),
        (MASTER_DATA, ICW3_SLAVE_ON_2),
        (SLAVE_DATA, ICW3_CASCADE_ID),
        (MASTER_DATA, ICW4_8086),
        (SLAVE_DATA, ICW4_8086),
        // Initialization clears the mask register.
        (MASTER_DATA, ALL_MASKED),
        (SLAVE_DATA, ALL_MASKED),
    ];
    ports.uninterrupted(|| {
        for (port, value) in sequence {
            ports.write_u8(port, value);
            ports.write_u8(DELAY_PORT, 0);
        }
    });
    Ok(())
}
