//! COM1 and COM2: 16550 UARTs at their PC addresses.
//!
//! The register work is the `uart_16550` crate's; added here is that nothing
//! waits for ever. QEMU's UART takes a FIFO of 16 bytes at once; a real one at
//! 115200 baud needs 1.4 ms for it.

use core::fmt;

use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550};

/// Polls of the line status register before a byte is given up. One poll of a
/// real ISA port takes about 1 us, so this is some 100 ms, 70 times what a
/// full FIFO needs to drain.
const SEND_POLLS: u32 = 100_000;

/// A UART that answered when it was opened.
#[derive(Debug)]
pub struct Com {
    uart: Uart16550<PioBackend>,
    /// It stayed busy for [`SEND_POLLS`]: do not wait that long each time.
    stuck: bool,
}

impl Com {
    /// Base port of the first serial port of a PC.
    pub const COM1: u16 = 0x3f8;
    /// Base port of the second serial port of a PC.
    pub const COM2: u16 = 0x2f8;

    /// Sets the UART at `base` to 115200 8N1, without interrupts. `None` when
    /// no UART answers there.
    pub fn open(base: u16) -> Option<Self> {
        // SAFETY: `base` is one of the two PC serial ports, whose eight
        // registers belong to nobody else in this kernel: the only callers
        // are the console, once a port, and `send_unlocked`, whose
        // interference is harmless as it says there.
        let mut uart = unsafe { Uart16550::new_port(base) }.ok()?;
        let config = Config {
            baud_rate: BaudRate::Baud115200,
            ..Config::DEFAULT
        };
        uart.init(config).ok()?;
        Some(Self { uart, stuck: false })
    }

    /// Sends `bytes`; those a stuck transmitter does not take are lost.
    pub fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut polls = 0;
        let limit = if self.stuck { 1 } else { SEND_POLLS };
        while !rest.is_empty() {
            let sent = self.uart.send_bytes(rest);
            rest = rest.get(sent..).unwrap_or_default();
            if sent > 0 {
                self.stuck = false;
                polls = 0;
                continue;
            }
            polls += 1;
            if polls >= limit {
                self.stuck = true;
                return;
            }
            core::hint::spin_loop();
        }
    }

    /// A received byte, if one is waiting.
    pub fn receive(&mut self) -> Option<u8> {
        self.uart.try_receive_byte().ok()
    }
}

/// Sends one line to COM1 past the console's lock, for a panic or an NMI that
/// interrupted its holder. Starts on a new line of its own.
///
/// The registers may be in use by the interrupted code. The worst that can
/// come of it is bytes of both mixed: both write the data register, which has
/// no state, and neither changes the line settings.
pub fn send_unlocked(line: fmt::Arguments<'_>) {
    // SAFETY: the first PC serial port; see above for why sharing it with the
    // interrupted holder is harmless. It is not initialized again.
    if let Ok(uart) = unsafe { Uart16550::new_port(Com::COM1) } {
        let mut com = Com { uart, stuck: false };
        com.send(b"\r\n");
        let _ = fmt::write(&mut com, line);
        com.send(b"\r\n");
    }
}

impl fmt::Write for Com {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.send(text.as_bytes());
        Ok(())
    }
}
