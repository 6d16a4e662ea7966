//! One way out: COM1, polled. `entry.s` has programmed it.

use core::fmt::{self, Write};

use x86_64::instructions::port::Port;

const DATA: u16 = 0x3f8;
const LINE_STATUS: u16 = 0x3fd;
/// Line status: the transmitter can take a byte.
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// Polls before a byte is given up on: an absent or stuck port must not keep
/// the machine from stopping. At 115200 baud a byte takes 87 us, and a port
/// read about 1 us.
const PATIENCE: u32 = 100_000;

struct Com1;

impl Write for Com1 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(send);
        Ok(())
    }
}

fn send(byte: u8) {
    let mut status = Port::<u8>::new(LINE_STATUS);
    let mut data = Port::<u8>::new(DATA);
    for _ in 0..PATIENCE {
        // SAFETY: reading the line status of a 16550 clears error bits at most.
        if unsafe { status.read() } & TRANSMITTER_EMPTY != 0 {
            break;
        }
    }
    // SAFETY: the loader is COM1's only user, and the port is I/O space only.
    unsafe { data.write(byte) };
}

/// Prints `boot: ` and the text as one line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    // Sending cannot fail, so neither can this.
    let _ = write!(Com1, "boot: {text}\r\n");
}
