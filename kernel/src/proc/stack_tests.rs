//! The stack read back as a program's start-up code reads it.

use alloc::vec::Vec;

use super::{Facts, MAX_BYTES, TooLong, build};
use crate::proc::elf::Program;
use crate::proc::layout;

fn program() -> Program {
    Program {
        entry: 0x40_1000,
        segments: heapless::Vec::new(),
        headers: Some(0x40_0040),
        header_count: 4,
    }
}

fn facts(program: &Program) -> Facts<'_> {
    Facts {
        program,
        vdso: Some(layout::VDSO),
        capabilities: 0x178b_fbff,
        random: *b"0123456789abcdef",
    }
}

/// Reads an image by address.
struct Memory {
    start: u64,
    bytes: Vec<u8>,
}

impl Memory {
    fn word(&self, address: u64) -> u64 {
        let at = (address - self.start) as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("8 bytes"))
    }

    fn string(&self, address: u64) -> &str {
        let rest = &self.bytes[(address - self.start) as usize..];
        let end = rest.iter().position(|&byte| byte == 0).expect("a NUL");
        core::str::from_utf8(&rest[..end]).expect("UTF-8")
    }

    fn auxiliary(&self, mut at: u64, key: u64) -> Option<u64> {
        loop {
            match self.word(at) {
                found if found == key => return Some(self.word(at + 8)),
                0 => return None,
                _ => at += 16,
            }
        }
    }
}

fn built(arguments: &[&str]) -> Memory {
    let program = program();
    let image = build(arguments, &facts(&program)).expect("short arguments");
    assert_eq!(image.pointer % 16, 0, "psABI alignment");
    assert_eq!(
        image.pointer + image.bytes.len() as u64,
        layout::STACK_TOP,
        "it ends at the top"
    );
    Memory {
        start: image.pointer,
        bytes: image.bytes,
    }
}

#[test]
fn a_program_finds_its_arguments_environment_and_vector() {
    for arguments in [&["a"][..], &["calls", "-n", "", "x y"], &["a", "bc"]] {
        let memory = built(arguments);
        let mut at = memory.start;
        assert_eq!(memory.word(at), arguments.len() as u64, "count");
        for argument in arguments {
            at += 8;
            assert_eq!(memory.string(memory.word(at)), *argument, "argument");
        }
        assert_eq!(memory.word(at + 8), 0, "end of arguments");
        assert_eq!(
            memory.string(memory.word(at + 16)),
            "PATH=/bin",
            "environment"
        );
        assert_eq!(memory.word(at + 24), 0, "end of environment");
        let vector = at + 32;
        let expected = [
            (3, 0x40_0040, "AT_PHDR"),
            (4, 56, "AT_PHENT"),
            (5, 4, "AT_PHNUM"),
            (6, 4096, "AT_PAGESZ"),
            (9, 0x40_1000, "AT_ENTRY"),
            (11, 0, "AT_UID"),
            (16, 0x178b_fbff, "AT_HWCAP"),
            (17, 100, "AT_CLKTCK"),
            (23, 0, "AT_SECURE"),
            (33, layout::VDSO, "AT_SYSINFO_EHDR"),
        ];
        for (key, value, name) in expected {
            assert_eq!(memory.auxiliary(vector, key), Some(value), "{name}");
        }
        let text = |key| memory.string(memory.auxiliary(vector, key).expect("an entry"));
        assert_eq!(text(15), "x86_64", "AT_PLATFORM");
        assert_eq!(text(31), arguments[0], "AT_EXECFN");
        assert_eq!(text(25), "0123456789abcdef", "AT_RANDOM");
    }
}

#[test]
fn without_a_vdso_the_vector_does_not_mention_one() {
    let program = program();
    let image = build(
        &["a"],
        &Facts {
            vdso: None,
            ..facts(&program)
        },
    )
    .expect("short arguments");
    let memory = Memory {
        start: image.pointer,
        bytes: image.bytes,
    };
    assert_eq!(memory.auxiliary(memory.start + 40, 33), None);
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let long = "x".repeat(MAX_BYTES);
    let program = program();
    assert_eq!(build(&["a", &long], &facts(&program)), Err(TooLong));
    let fitting = "x".repeat(MAX_BYTES - 1024);
    assert!(
        build(&["a", &fitting], &facts(&program)).is_ok(),
        "just fits"
    );
}
