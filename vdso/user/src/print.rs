//! Formatting to standard output and standard error.
//!
//! There is no buffer across calls, so that what a program printed before it
//! faulted is there to read. One `println!` collects its line first and writes
//! it with one system call; a longer line takes one call per [`LINE`] bytes.

use core::fmt::{self, Write};

use crate::sys;

/// Bytes collected before a write.
pub const LINE: usize = 256;

/// Standard output's file descriptor.
pub const STDOUT: i32 = 1;
/// Standard error's file descriptor.
pub const STDERR: i32 = 2;

struct Line {
    descriptor: i32,
    bytes: [u8; LINE],
    used: usize,
}

impl Line {
    fn flush(&mut self) -> fmt::Result {
        let mut rest = self.bytes.get(..self.used).unwrap_or_default();
        self.used = 0;
        while !rest.is_empty() {
            match sys::write(self.descriptor, rest) {
                Ok(0) | Err(_) => return Err(fmt::Error),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.used == LINE {
                self.flush()?;
            }
            if let Some(slot) = self.bytes.get_mut(self.used) {
                *slot = byte;
                self.used += 1;
            }
        }
        Ok(())
    }
}

/// Writes formatted text to a descriptor. An error on it is not reported:
/// there is nowhere left to report it to.
pub fn write_formatted(descriptor: i32, arguments: fmt::Arguments<'_>) {
    let mut line = Line {
        descriptor,
        bytes: [0; LINE],
        used: 0,
    };
    if line.write_fmt(arguments).is_ok() {
        let _: fmt::Result = line.flush();
    }
}

/// Prints to standard output.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => {
        $crate::print::write_formatted($crate::print::STDOUT, format_args!($($argument)*))
    };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => {
        $crate::print!("{}\n", format_args!($($argument)*))
    };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($argument:tt)*) => {
        $crate::print::write_formatted(
            $crate::print::STDERR,
            format_args!("{}\n", format_args!($($argument)*)),
        )
    };
}
