//! The instructions of an ordinary read.
//!
//! `__vdso_clock_gettime` is followed along every path from its first
//! instruction to a `ret` without leaving the function: those are the reads that
//! find the count inside the current segment of a TSC, with and without a carry
//! into the seconds. On the way, addresses are followed too, as far as a reader
//! computes any: a constant relative to the object, plus the offset of a slot if
//! one was derived from `current`.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpAccess, OpKind, Register,
};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol};
use vdso::patch::Form;

use crate::{FORMS, fitted};

/// Where the timehands page lies, relative to the object.
const PAGE: u64 = 0_u64.wrapping_sub(0x3000);
/// Offsets in the page, and in a slot.
const CURRENT: u64 = 0x80;
const SLOTS: u64 = 0x100;
const GENERATION: u64 = 0;
const KIND: u64 = 4;
const START: u64 = 8;
const MULTIPLIER: u64 = 16;
const LENGTH: u64 = 24;
const MONOTONIC_SEC: u64 = 32;
const MONOTONIC_NSEC: u64 = 48;

/// What an instruction means to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `lfence`.
    Fence,
    /// A load of the page's `current`.
    Current,
    /// `rdtsc` or `rdtscp`.
    Count,
    /// A load at this offset of the slot.
    Slot(u64),
    /// A store at this offset of the caller's structure.
    Store(u64),
    /// Any other load or store.
    OtherMemory,
}

/// What a register holds, as far as a test has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// The caller's pointer, and an offset from it.
    Result(u64),
    /// The generation, masked and shifted or not.
    Index,
    /// An address of the object, plus that of the slot if the flag is set.
    Address(u64, bool),
}

/// One way through the function.
#[derive(Clone, Debug, Default)]
struct Path {
    instructions: Vec<Instruction>,
    registers: HashMap<Register, Value>,
    steps: Vec<Step>,
    seen: HashSet<u64>,
}

impl Path {
    fn value(&self, register: Register) -> Option<Value> {
        self.registers.get(&register.full_register()).copied()
    }

    /// What the memory operand's address is, if it is one that is followed.
    fn address(&self, at: &Instruction) -> Option<Value> {
        let displacement = at.memory_displacement64();
        let base = match at.memory_base() {
            // The displacement is then the address itself.
            Register::RIP => return Some(Value::Address(displacement, false)),
            base => self.value(base)?,
        };
        if at.memory_index() == Register::None {
            return base.plus(displacement);
        }
        let index = self.value(at.memory_index())?;
        let sum = (at.memory_index_scale() == 1).then(|| base.join(index))??;
        sum.plus(displacement)
    }

    /// Notes what `at` means to a read, and what it does to the registers.
    fn take(&mut self, at: &Instruction, facts: &mut InstructionInfoFactory) {
        let info = facts.info(at);
        let address = self.address(at);
        match at.mnemonic() {
            Mnemonic::Lfence => self.steps.push(Step::Fence),
            Mnemonic::Rdtsc | Mnemonic::Rdtscp => self.steps.push(Step::Count),
            _ => {}
        }
        for memory in info.used_memory() {
            let stack = memory.base() == Register::RSP;
            let load = matches!(memory.access(), OpAccess::Read | OpAccess::CondRead);
            match (load, address) {
                _ if stack && at.mnemonic() == Mnemonic::Ret => {}
                (true, Some(Value::Address(address, false)))
                    if address == PAGE.wrapping_add(CURRENT) =>
                {
                    self.steps.push(Step::Current);
                }
                (true, Some(Value::Address(address, true))) => {
                    let offset = address.wrapping_sub(PAGE.wrapping_add(SLOTS));
                    self.steps.push(Step::Slot(offset));
                }
                (false, Some(Value::Result(offset)))
                    if matches!(memory.access(), OpAccess::Write) =>
                {
                    self.steps.push(Step::Store(offset));
                }
                _ => self.steps.push(Step::OtherMemory),
            }
        }
        let result = self.result(at, address);
        for register in info.used_registers() {
            if !matches!(register.access(), OpAccess::Read | OpAccess::CondRead) {
                self.registers.remove(&register.register().full_register());
            }
        }
        if let Some(value) = result {
            self.registers
                .insert(at.op0_register().full_register(), value);
        }
    }

    /// What `at` leaves in its first operand, if that is followed.
    fn result(&self, at: &Instruction, address: Option<Value>) -> Option<Value> {
        let from = at.op1_register();
        match (at.mnemonic(), at.op1_kind()) {
            (Mnemonic::Lea, _) => address,
            (Mnemonic::Mov, OpKind::Register) => self.value(from),
            (Mnemonic::Mov, OpKind::Memory) => match address? {
                Value::Address(address, false) if address == PAGE.wrapping_add(CURRENT) => {
                    Some(Value::Index)
                }
                _ => None,
            },
            // Masking and scaling the generation.
            (Mnemonic::And | Mnemonic::Shl, _) => self
                .value(at.op0_register())
                .filter(|&value| value == Value::Index),
            (Mnemonic::Add, OpKind::Register) => {
                self.value(at.op0_register())?.join(self.value(from)?)
            }
            (Mnemonic::Add, _) => self
                .value(at.op0_register())?
                .plus(at.try_immediate(1).ok()?),
            _ => None,
        }
    }
}

impl Value {
    fn plus(self, offset: u64) -> Option<Self> {
        match self {
            Self::Address(address, slot) => Some(Self::Address(address.wrapping_add(offset), slot)),
            Self::Result(address) => Some(Self::Result(address.wrapping_add(offset))),
            Self::Index => None,
        }
    }

    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Address(address, false), Self::Index)
            | (Self::Index, Self::Address(address, false)) => Some(Self::Address(address, true)),
            _ => None,
        }
    }
}

/// Every way through `__vdso_clock_gettime` that reads the counter and returns
/// by itself, with the shortest first.
fn ordinary_reads(form: Form) -> Vec<Path> {
    let image = fitted(form);
    let elf = ElfFile64::<LittleEndian>::parse(&*image).expect("an ELF file");
    let function = elf
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok("__vdso_clock_gettime"))
        .expect("__vdso_clock_gettime");
    let span = function.address()..function.address() + function.size();
    let mut facts = InstructionInfoFactory::new();
    let start = Path {
        registers: HashMap::from([(Register::RSI, Value::Result(0))]),
        ..Path::default()
    };
    let mut open = vec![(span.start, start)];
    let mut done = Vec::new();
    while let Some((at, mut path)) = open.pop() {
        // Out of the function by a jump, or round a loop: not an ordinary read.
        if !span.contains(&at) || !path.seen.insert(at) {
            continue;
        }
        // One loadable segment that starts with the file.
        let bytes = image.get(at as usize..).expect("code inside the file");
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        path.take(&instruction, &mut facts);
        path.instructions.push(instruction);
        match instruction.flow_control() {
            FlowControl::Return => done.push(path),
            FlowControl::ConditionalBranch => {
                open.push((instruction.near_branch_target(), path.clone()));
                open.push((instruction.next_ip(), path));
            }
            FlowControl::UnconditionalBranch => {
                open.push((instruction.near_branch_target(), path));
            }
            FlowControl::Interrupt | FlowControl::Exception | FlowControl::IndirectBranch => {}
            _ => open.push((instruction.next_ip(), path)),
        }
    }
    done.retain(|path| path.steps.contains(&Step::Count));
    done.sort_by_key(|path| path.instructions.len());
    assert!(
        !done.is_empty(),
        "no way through the function reads the counter and returns"
    );
    done
}

fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    IntelFormatter::new().format(instruction, &mut text);
    format!("{:x}: {text}", instruction.ip())
}

#[test]
fn an_ordinary_read_has_no_call_no_division_and_no_locked_instruction() {
    for path in FORMS.into_iter().flat_map(ordinary_reads) {
        for instruction in &path.instructions {
            let shown = text(instruction);
            let leaves = matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            );
            assert!(!leaves, "a call: {shown}");
            assert_ne!(instruction.mnemonic(), Mnemonic::Syscall, "{shown}");
            assert!(
                !matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv),
                "a division: {shown}"
            );
            let exchange = instruction.mnemonic() == Mnemonic::Xchg
                && instruction.op_kinds().any(|kind| kind == OpKind::Memory);
            assert!(
                !instruction.has_lock_prefix() && !exchange,
                "locked: {shown}"
            );
        }
    }
}

#[test]
fn an_ordinary_read_stores_its_result_and_nothing_else() {
    for path in FORMS.into_iter().flat_map(ordinary_reads) {
        let mut stores: Vec<_> = path
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Store(_) | Step::OtherMemory))
            .collect();
        stores.sort_by_key(|step| format!("{step:?}"));
        assert_eq!(
            stores,
            [&Step::Store(0), &Step::Store(8)],
            "seconds and nanoseconds, once each"
        );
    }
}

#[test]
fn both_loads_of_the_generation_are_there_and_enclose_the_fields() {
    for path in FORMS.into_iter().flat_map(ordinary_reads) {
        let slot: Vec<u64> = path
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Slot(offset) => Some(*offset),
                _ => None,
            })
            .collect();
        let (first, rest) = slot.split_first().expect("loads of a slot");
        let (last, fields) = rest.split_last().expect("more than one load of a slot");
        assert_eq!(
            (*first, *last),
            (GENERATION, GENERATION),
            "first and last of {slot:?}"
        );
        let mut fields = fields.to_vec();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                KIND,
                START,
                MULTIPLIER,
                LENGTH,
                MONOTONIC_SEC,
                MONOTONIC_NSEC
            ],
            "what is loaded between them, once each"
        );
    }
}

#[test]
fn the_counter_is_ordered_and_read_before_the_slot() {
    for form in FORMS {
        for path in ordinary_reads(form) {
            let before: Vec<_> = path
                .steps
                .iter()
                .take_while(|step| !matches!(step, Step::Slot(_)))
                .copied()
                .collect();
            let expected: &[Step] = match form {
                Form::Lfence => &[Step::Fence, Step::Current, Step::Count],
                Form::Rdtscp => &[Step::Current, Step::Count],
            };
            assert_eq!(before, expected, "{form:?}: what precedes the slot's loads");
            let counts = path.steps.iter().filter(|step| **step == Step::Count);
            assert_eq!(counts.count(), 1, "{form:?}: one read of the counter");
        }
    }
}

#[test]
fn each_form_has_its_own_instruction() {
    for (form, wanted) in [
        (Form::Lfence, Mnemonic::Rdtsc),
        (Form::Rdtscp, Mnemonic::Rdtscp),
    ] {
        for path in ordinary_reads(form) {
            let read = path.instructions.iter().find(|instruction| {
                matches!(instruction.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp)
            });
            assert_eq!(
                read.map(Instruction::mnemonic),
                Some(wanted),
                "the counter read of {form:?}"
            );
        }
    }
}
