//! The console: log, output, input.
//!
//! COM1 carries the log and the shell, with CR before every LF because a
//! terminal is at the other end. COM2, where there is one, carries the output
//! of the start-up commands alone and raw, so that a test can compare it byte
//! by byte. Every log line is also kept in a ring for `dmesg`.
//!
//! **Receiving** is polled by the tick ([`poll`]) into a queue of
//! [`INPUT_LEN`] bytes. While it is full the UART keeps what it has, and the
//! sender waits or not as the line's flow control has it. While a program is
//! in the foreground Ctrl-C does not reach the queue but raises a flag that
//! [`take_interrupt`] gives out once; to see it the UART is always read then,
//! and bytes beyond a full queue are lost.
//!
//! **Sending** waits for the UART, but never for long: a transmitter that
//! stays busy loses the byte. A UART that is not there is not spoken to.
//!
//! **Deadlock.** The console's data are behind an [`IrqMutex`]. An NMI, an
//! exception or a panic can come in the middle of its use on the same CPU, and
//! a CPU can stop in it for good. Log output then goes straight to COM1's
//! registers; the worst result is a broken line.

pub mod ring;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use heapless::Deque;

use crate::sync::IrqMutex;
use ring::MessageRing;

#[cfg(target_os = "none")]
use crate::arch::uart::Com;
#[cfg(not(target_os = "none"))]
use host::Com;

/// Bytes of log kept for `dmesg`.
pub const MESSAGE_LEN: usize = 64 * 1024;

/// Bytes of typed input that can wait for a reader.
pub const INPUT_LEN: usize = 4096;

/// Bytes sent with interrupts off. At 115200 baud they take 1.4 ms, about a
/// tick.
const SEND_AT_ONCE: usize = 16;

/// How long a log line waits for another CPU to be done with the console: a
/// second or so, which a long line at 115200 baud takes a hundredth of.
const PATIENCE: u32 = 20_000_000;

/// What a terminal sends for Ctrl-C.
const CTRL_C: u8 = 0x03;

struct Console {
    com1: Option<Com>,
    com2: Option<Com>,
    messages: MessageRing<MESSAGE_LEN>,
    input: Deque<u8, INPUT_LEN>,
    /// Output of commands goes to COM2, if there is one.
    split_output: bool,
    /// The last byte to COM1 was not a line end.
    mid_line: bool,
}

static CONSOLE: IrqMutex<Console> = IrqMutex::new(Console {
    com1: None,
    com2: None,
    messages: MessageRing::new(),
    input: Deque::new(),
    split_output: false,
    mid_line: false,
});

/// A program is in the foreground: Ctrl-C is for it.
static FOREGROUND: AtomicBool = AtomicBool::new(false);
/// Ctrl-C came while a program was in the foreground.
static INTERRUPT: AtomicBool = AtomicBool::new(false);

impl Console {
    fn terminal(&mut self, text: &[u8]) {
        if let Some(com1) = &mut self.com1 {
            for line in text.split_inclusive(|&byte| byte == b'\n') {
                match line.split_last() {
                    Some((b'\n', start)) => {
                        com1.send(start);
                        com1.send(b"\r\n");
                    }
                    _ => com1.send(line),
                }
            }
        }
        if let Some(&last) = text.last() {
            self.mid_line = last != b'\n';
        }
    }

    fn output(&mut self, text: &[u8]) {
        match &mut self.com2 {
            Some(com2) if self.split_output => com2.send(text),
            _ => self.terminal(text),
        }
    }

    fn log(&mut self, line: fmt::Arguments<'_>) {
        // A log line starts at the left, whatever a program left on the screen.
        if self.mid_line {
            self.terminal(b"\n");
        }
        let mut sink = LogSink(self);
        // The sink never fails; an error can only come from a value's own
        // `Display`, and the part written before it is still worth a line.
        let _ = fmt::write(&mut sink, line);
        self.messages.write(b"\n");
        self.terminal(b"\n");
    }

    fn receive(&mut self, byte: u8) {
        if byte == CTRL_C && FOREGROUND.load(Ordering::Relaxed) {
            INTERRUPT.store(true, Ordering::Relaxed);
        } else {
            // Full only while a program runs: see the module's description.
            let _ = self.input.push_back(byte);
        }
    }
}

struct LogSink<'a>(&'a mut Console);

impl fmt::Write for LogSink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.messages.write(text.as_bytes());
        self.0.terminal(text.as_bytes());
        Ok(())
    }
}

/// Finds the UARTs. What was logged before is sent now.
#[cfg(target_os = "none")]
pub fn init() {
    CONSOLE.with(|console| {
        console.com1 = Com::open(Com::COM1);
        console.com2 = Com::open(Com::COM2);
        if let Some(com1) = &mut console.com1 {
            let (older, newer) = console.messages.contents();
            com1.send(older);
            com1.send(newer);
        }
    });
}

/// Logs one line to the message ring and COM1; use it through [`klog!`].
///
/// May be called from any context, an NMI included.
///
/// [`klog!`]: crate::klog
pub fn log(line: fmt::Arguments<'_>) {
    let logged = CONSOLE.with_if_possible(PATIENCE, |console| console.log(line));
    if logged.is_none() {
        #[cfg(target_os = "none")]
        crate::arch::uart::send_unlocked(line);
    }
}

/// Logs one line, formatted as `format!` does, to the message ring and COM1.
#[macro_export]
macro_rules! klog {
    ($($arg:tt)*) => {
        $crate::console::log(core::format_args!($($arg)*))
    };
}

/// Writes the output of a command or a program, unchanged on COM2, with CR
/// before LF on COM1.
pub fn write_stdout(text: &[u8]) {
    for piece in text.chunks(SEND_AT_ONCE) {
        CONSOLE.with(|console| console.output(piece));
    }
}

/// Writes to COM1 only: the shell's prompt, echo and messages.
pub fn write_terminal(text: &[u8]) {
    for piece in text.chunks(SEND_AT_ONCE) {
        CONSOLE.with(|console| console.terminal(piece));
    }
}

/// Sends [`write_stdout`] to COM2 from now on (`true`), or to COM1 (`false`).
pub fn split_output(split: bool) {
    CONSOLE.with(|console| console.split_output = split);
}

/// The next typed byte, if there is one.
pub fn read_byte() -> Option<u8> {
    CONSOLE.with(|console| console.input.pop_front())
}

/// Takes what the UART has received. The tick calls it.
pub fn poll() {
    CONSOLE.with(|console| {
        // A FIFO's worth: a UART that always claims to have data must not
        // keep the tick for ever.
        for _ in 0..16 {
            if console.input.is_full() && !FOREGROUND.load(Ordering::Relaxed) {
                break;
            }
            match console.com1.as_mut().and_then(Com::receive) {
                Some(byte) => console.receive(byte),
                None => break,
            }
        }
    });
}

/// Says whether a program is in the foreground, which makes Ctrl-C an
/// interrupt request for it. Forgets a request that was not taken.
pub fn set_foreground(program: bool) {
    INTERRUPT.store(false, Ordering::Relaxed);
    FOREGROUND.store(program, Ordering::Relaxed);
}

/// Whether Ctrl-C was typed since the last call.
pub fn take_interrupt() -> bool {
    INTERRUPT.swap(false, Ordering::Relaxed)
}

/// Hands the log so far, oldest first, to `f`, a few hundred bytes at a time.
///
/// `f` runs without the console's lock, so it may write to the console; lines
/// logged meanwhile may push out what was not handed over yet.
pub fn messages(mut f: impl FnMut(&[u8])) {
    let mut offset = 0;
    loop {
        let mut piece = [0; 256];
        let len = CONSOLE.with(|console| {
            let (older, newer) = console.messages.contents();
            let bytes = older.iter().chain(newer).skip(offset);
            piece
                .iter_mut()
                .zip(bytes)
                .map(|(to, from)| *to = *from)
                .count()
        });
        if len == 0 {
            break;
        }
        f(piece.get(..len).unwrap_or_default());
        offset += len;
    }
}

/// The host has no UART of ours; a value of this type cannot exist.
#[cfg(not(target_os = "none"))]
mod host {
    pub(super) enum Com {}

    impl Com {
        pub(super) fn send(&mut self, _bytes: &[u8]) {
            match *self {}
        }

        pub(super) fn receive(&mut self) -> Option<u8> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The console is one per process; its tests share one body.
    #[test]
    fn log_lines_are_kept_and_ctrl_c_is_an_interrupt_only_for_a_program() {
        crate::klog!("counter {} found", "HPET");
        crate::klog!("second line");
        let mut log = Vec::new();
        messages(|piece| log.extend_from_slice(piece));
        assert_eq!(
            log, b"counter HPET found\nsecond line\n",
            "both lines, oldest first"
        );

        CONSOLE.with(|console| console.receive(CTRL_C));
        assert_eq!(
            read_byte(),
            Some(CTRL_C),
            "without a program Ctrl-C is a byte"
        );
        assert!(!take_interrupt(), "and no interrupt");

        set_foreground(true);
        CONSOLE.with(|console| console.receive(CTRL_C));
        assert_eq!(read_byte(), None, "with a program Ctrl-C is not a byte");
        assert!(take_interrupt(), "but an interrupt");
        assert!(!take_interrupt(), "that is given out once");
        set_foreground(false);

        for _ in 0..INPUT_LEN + 10 {
            CONSOLE.with(|console| console.receive(b'x'));
        }
        let mut waiting = 0;
        while read_byte().is_some() {
            waiting += 1;
        }
        assert_eq!(waiting, INPUT_LEN, "a full queue drops the newest bytes");
    }
}
