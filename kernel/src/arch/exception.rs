//! Exceptions in words: names of vectors, meaning of error codes.

use core::fmt;

/// Vectors by name.
pub mod vector {
    /// Debug exception.
    pub const DEBUG: u64 = 1;
    /// Non-maskable interrupt.
    pub const NMI: u64 = 2;
    /// `int3`.
    pub const BREAKPOINT: u64 = 3;
    /// An exception that could not be delivered.
    pub const DOUBLE_FAULT: u64 = 8;
    /// General protection.
    pub const GENERAL_PROTECTION: u64 = 13;
    /// Page fault.
    pub const PAGE_FAULT: u64 = 14;
    /// Machine check.
    pub const MACHINE_CHECK: u64 = 18;
    /// First vector that is not an exception.
    pub const FIRST_INTERRUPT: u64 = 32;
    /// First of the 16 vectors the i8259 pair is moved to, all masked.
    pub const I8259: u8 = 32;
    /// From another CPU: look for another thread to run.
    pub const RESCHEDULE: u8 = 0xe8;
    /// From another CPU: run what it asks.
    pub const CALL: u8 = 0xe9;
    /// From another CPU: flush the TLB.
    pub const FLUSH: u8 = 0xea;
    /// The local APIC's timer.
    pub const TICK: u8 = 0xec;
    /// An interrupt that vanished before it was delivered.
    pub const SPURIOUS: u8 = 0xff;
}

/// An exception, for printing: its name and what its error code means.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// Vector.
    pub vector: u64,
    /// Error code.
    pub error_code: u64,
    /// The address of a page fault.
    pub address: Option<u64>,
}

impl Exception {
    /// The exception's name in the processor's manual (SDM 3A, table 6-1).
    pub fn name(&self) -> &'static str {
        match self.vector {
            0 => "divide error",
            vector::DEBUG => "debug exception",
            vector::NMI => "non-maskable interrupt",
            vector::BREAKPOINT => "breakpoint",
            4 => "overflow",
            5 => "bound range exceeded",
            6 => "invalid opcode",
            7 => "device not available",
            vector::DOUBLE_FAULT => "double fault",
            10 => "invalid task state",
            11 => "segment not present",
            12 => "stack fault",
            vector::GENERAL_PROTECTION => "general protection",
            vector::PAGE_FAULT => "page fault",
            16 => "x87 error",
            17 => "alignment check",
            vector::MACHINE_CHECK => "machine check",
            19 => "SIMD error",
            21 => "control protection",
            _ => "exception",
        }
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.error_code;
        write!(f, "{} (vector {})", self.name(), self.vector)?;
        if let Some(address) = self.address {
            // SDM 3A, figure 4-12.
            let access = if code & 0x10 != 0 {
                "execute"
            } else if code & 2 != 0 {
                "write"
            } else {
                "read"
            };
            let mode = if code & 4 != 0 { "user" } else { "kernel" };
            let why = if code & 8 != 0 {
                "reserved bit set"
            } else if code & 1 != 0 {
                "not permitted"
            } else {
                "not mapped"
            };
            write!(f, ": {mode} {access} of {address:#x}, {why}")?;
        } else if code != 0 {
            // A selector's error code (SDM 3A, figure 6-7).
            let table = match code >> 1 & 3 {
                0 => "GDT",
                2 => "LDT",
                _ => "IDT",
            };
            write!(
                f,
                ": error code {code:#x}, {table} entry {:#x}",
                code >> 3 & 0x1fff
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn page_fault(error_code: u64) -> Exception {
        Exception {
            vector: vector::PAGE_FAULT,
            error_code,
            address: Some(0x1000),
        }
    }

    #[test]
    fn a_page_fault_says_who_did_what_where_and_why_not() {
        let cases = [
            (0x00, "kernel read of 0x1000, not mapped"),
            (0x02, "kernel write of 0x1000, not mapped"),
            (0x03, "kernel write of 0x1000, not permitted"),
            (0x05, "user read of 0x1000, not permitted"),
            (0x07, "user write of 0x1000, not permitted"),
            (0x14, "user execute of 0x1000, not mapped"),
            (0x11, "kernel execute of 0x1000, not permitted"),
            (0x0d, "user read of 0x1000, reserved bit set"),
        ];
        for (code, words) in cases {
            let text = page_fault(code).to_string();
            assert_eq!(
                text,
                std::format!("page fault (vector 14): {words}"),
                "code {code:#x}"
            );
        }
    }

    #[test]
    fn a_selector_error_names_the_table_and_the_entry() {
        let protection = |error_code| Exception {
            vector: vector::GENERAL_PROTECTION,
            error_code,
            address: None,
        };
        let name = "general protection (vector 13)";
        assert_eq!(protection(0).to_string(), name, "no code, nothing to say");
        let cases = [
            (0x28, "GDT entry 0x5"),
            (0x77 & !3 | 4, "LDT entry 0xe"),
            (0x102, "IDT entry 0x20"),
        ];
        for (code, entry) in cases {
            let text = protection(code).to_string();
            assert_eq!(
                text,
                std::format!("{name}: error code {code:#x}, {entry}"),
                "{code:#x}"
            );
        }
    }
}
