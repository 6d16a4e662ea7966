//! What CPUID says, how the TSC is rated, and which ordered read is taken.

use std::collections::BTreeMap;
use std::sync::Mutex;

use drivers::bus::{Cpuid, CpuidRegisters, Msr, OrderedRead};
use drivers::cpuid::{self, Hypervisor, Source, Stated, TscFacts, Vendor};
use drivers::sim::{Clock, CpuidTable, ProcessorModel};
use drivers::tsc::{self, Reason, Tsc};
use timecounter::{Flags, Timecounter, UserCounter};

fn facts(table: &CpuidTable) -> TscFacts {
    TscFacts::read(table)
}

#[test]
fn zero_fields_of_leaf_15h_mean_not_enumerated() {
    for (eax, ebx, ecx) in [
        (0, 0, 0),
        (2, 292, 0),
        (0, 292, 24_000_000),
        (2, 0, 24_000_000),
        (u32::MAX, 1, 1),
    ] {
        assert_eq!(
            cpuid::tsc_ratio_frequency(eax, ebx, ecx),
            None,
            "{eax} {ebx} {ecx}"
        );
    }
    let hz = cpuid::tsc_ratio_frequency(2, 188, 38_400_000);
    assert_eq!(hz, Some(3_609_600_000), "in 64 bits");
    let most = cpuid::tsc_ratio_frequency(1, u32::MAX, u32::MAX);
    assert_eq!(
        most,
        Some(0xFFFF_FFFE_0000_0001),
        "the largest product fits"
    );
}

#[test]
fn the_best_stated_rate_wins_and_zeros_pass_to_the_next() {
    let ratio = [2, 250, 24_000_000, 0];
    let base = [2_900, 0, 0, 0];
    let full = CpuidTable::intel()
        .with(0x15, ratio)
        .with(0x16, base)
        .under(b"KVMKVMKVM\0\0\0")
        .with(0x4000_0010, [3_100_000, 0, 0, 0]);
    let stated = |frequency, source| Some(Stated { frequency, source });
    let expected = stated(3_100_000_000, Source::Hypervisor);
    assert_eq!(facts(&full).stated, expected, "the hypervisor's");
    let silent = full.clone().with(0x4000_0010, [0; 4]);
    let expected = stated(3_000_000_000, Source::Ratio);
    assert_eq!(facts(&silent).stated, expected, "EAX = 0 is no rate");
    let no_crystal = silent.clone().with(0x15, [2, 250, 0, 0]);
    let expected = stated(2_900_000_000, Source::BaseClock);
    assert_eq!(
        facts(&no_crystal).stated,
        expected,
        "the base clock is left"
    );
    let nothing = no_crystal.with(0x16, [0; 4]);
    assert_eq!(facts(&nothing).stated, None, "then nothing");
}

#[test]
fn leaves_beyond_the_announced_range_are_not_asked_for() {
    let asked = Mutex::new(Vec::new());
    let table = CpuidTable::intel()
        .with(0, [0x0D, 0x756E_6547, 0x6C65_746E, 0x4965_6E69])
        .with(0x8000_0000, [0x8000_0004, 0, 0, 0])
        .with(0x15, [2, 250, 24_000_000, 0])
        .with(0x4000_0010, [3_100_000, 0, 0, 0]);
    let facts = TscFacts::read(&|leaf: u32, subleaf: u32| -> CpuidRegisters {
        asked.lock().expect("one thread").push(leaf);
        table.leaf(leaf, subleaf)
    });
    assert_eq!(
        facts.stated, None,
        "leaf 15h and the hypervisor's are out of range"
    );
    assert!(!facts.invariant, "so is 8000_0007h");
    assert_eq!(facts.hypervisor, Hypervisor::None, "no hypervisor bit");
    let asked = asked.into_inner().expect("one thread");
    for leaf in [0x15, 0x16, 0x4000_0000, 0x4000_0010, 0x8000_0007] {
        assert!(!asked.contains(&leaf), "leaf {leaf:#x} was asked for");
    }
}

#[test]
fn a_processor_that_answers_nothing_but_zeros_has_no_tsc() {
    let facts = facts(&CpuidTable::default());
    assert!(!facts.present, "no TSC bit");
    assert_eq!(facts.stated, None, "no rate");
    assert_eq!(facts.vendor, Vendor::Other, "no vendor");
}

#[test]
fn vendors_families_and_hypervisors_are_told_apart() {
    assert_eq!(
        facts(&CpuidTable::intel()).vendor,
        Vendor::Intel,
        "GenuineIntel"
    );
    let amd = facts(&CpuidTable::amd());
    assert_eq!(
        (amd.vendor, amd.family),
        (Vendor::Amd, 0x19),
        "AuthenticAMD, Zen 3"
    );
    assert_eq!(cpuid::family(0x0000_06A0), 6, "no extended family below 15");
    assert_eq!(cpuid::family(0x0FF0_0F00), 0x0F + 0xFF, "the largest");
    for (signature, expected) in [
        (b"KVMKVMKVM\0\0\0", Hypervisor::Kvm),
        (b"TCGTCGTCGTCG", Hypervisor::Tcg),
        (b"VBoxVBoxVBox", Hypervisor::VirtualBox),
        (b"VMwareVMware", Hypervisor::Vmware),
        (b"Microsoft Hv", Hypervisor::Other),
    ] {
        let table = CpuidTable::intel().under(signature);
        assert_eq!(facts(&table).hypervisor, expected, "{signature:?}");
    }
}

#[test]
fn qualities_follow_the_table() {
    let invariant = facts(&CpuidTable::intel());
    let plain = facts(&CpuidTable::intel().with(0x8000_0007, [0; 4]));
    let amd = facts(&CpuidTable::amd());
    let bulldozer = facts(&CpuidTable::amd().with(1, [0x0060_0F12, 0, 0, 1 << 4]));
    let other = facts(&CpuidTable::intel().with(0, [0x16, 1, 2, 3]));
    let vbox = facts(&CpuidTable::intel().under(b"VBoxVBoxVBox"));
    let cases = [
        (&invariant, 1, false, 1000, Reason::InvariantOneCpu),
        (&plain, 1, false, 800, Reason::NotInvariantOneCpu),
        (&invariant, 2, true, 1000, Reason::InvariantInStep),
        (&amd, 2, true, 1000, Reason::InvariantInStep),
        (&bulldozer, 2, true, 800, Reason::InStep),
        (&other, 2, true, 800, Reason::InStep),
        (&invariant, 2, false, -100, Reason::OutOfStep),
        (&plain, 2, true, -100, Reason::NotInvariant),
        (&plain, 2, false, -100, Reason::NotInvariant),
        (&vbox, 1, true, 0, Reason::VirtualBox),
        (&vbox, 2, true, 0, Reason::VirtualBox),
        (&vbox, 2, false, -100, Reason::OutOfStep),
    ];
    for (facts, cpus, in_step, quality, reason) in cases {
        let rating = tsc::rate(facts, cpus, in_step);
        assert_eq!(
            rating.quality, quality,
            "{facts:?}, {cpus} CPUs, in step: {in_step}"
        );
        assert_eq!(
            rating.reason, reason,
            "{facts:?}, {cpus} CPUs, in step: {in_step}"
        );
    }
}

#[test]
fn the_cheaper_ordered_read_is_taken() {
    let clock = Clock::new();
    let processor = ProcessorModel::new(&clock, 2_600_000_000, CpuidTable::intel());
    let facts = TscFacts::read(&processor);
    assert_eq!(
        tsc::choose_read(&processor, &facts, true),
        OrderedRead::LfenceRdtsc,
        "15 < 17 ns"
    );
    processor.set_read_ps(18_000, 17_000);
    assert_eq!(
        tsc::choose_read(&processor, &facts, true),
        OrderedRead::Rdtscp,
        "17 < 18 ns"
    );
    processor.set_read_ps(17_000, 17_000);
    let tie = tsc::choose_read(&processor, &facts, true);
    assert_eq!(tie, OrderedRead::LfenceRdtsc, "no reason to change");
}

#[test]
fn a_stopped_virtual_cpu_does_not_decide_which_read_is_cheaper() {
    let clock = Clock::new();
    let processor = ProcessorModel::new(&clock, 2_600_000_000, CpuidTable::intel());
    let facts = TscFacts::read(&processor);
    // 1 ms in most timings of both, or in one of one of them.
    for every in [97, 700, 701] {
        clock.stall_every(every, 1_000_000);
        for _ in 0..20 {
            let read = tsc::choose_read(&processor, &facts, true);
            assert_eq!(read, OrderedRead::LfenceRdtsc, "every {every}: 15 < 17 ns");
        }
    }
}

#[test]
fn rdtscp_is_never_used_where_it_is_missing_and_always_where_lfence_does_not_order() {
    let clock = Clock::new();
    let without = CpuidTable::intel().with(0x8000_0001, [0; 4]);
    let processor = ProcessorModel::new(&clock, 2_600_000_000, without);
    processor.set_read_ps(18_000, 1_000);
    let facts = TscFacts::read(&processor);
    for orders in [true, false] {
        let read = tsc::choose_read(&processor, &facts, orders);
        assert_eq!(
            read,
            OrderedRead::LfenceRdtsc,
            "no RDTSCP; LFENCE orders: {orders}"
        );
    }
    let processor = ProcessorModel::new(&clock, 2_600_000_000, CpuidTable::intel());
    let facts = TscFacts::read(&processor);
    let read = tsc::choose_read(&processor, &facts, false);
    assert_eq!(read, OrderedRead::Rdtscp, "dearer, but ordered");
}

/// An MSR space that may ignore writes and counts accesses.
#[derive(Default)]
struct Msrs {
    values: Mutex<BTreeMap<u32, u64>>,
    ignores_writes: bool,
    accesses: Mutex<u32>,
}

impl Msr for Msrs {
    fn read(&self, number: u32) -> u64 {
        *self.accesses.lock().expect("one thread") += 1;
        let values = self.values.lock().expect("one thread");
        values.get(&number).copied().unwrap_or(0)
    }
    fn write(&self, number: u32, value: u64) {
        *self.accesses.lock().expect("one thread") += 1;
        if !self.ignores_writes {
            self.values
                .lock()
                .expect("one thread")
                .insert(number, value);
        }
    }
}

#[test]
fn lfence_is_made_serializing_on_the_amd_families_that_need_it() {
    let family = |eax| CpuidTable::amd().with(1, [eax, 0, 0, 1 << 4]);
    let says_so = CpuidTable::amd()
        .with(0x8000_0000, [0x8000_0021, 0, 0, 0])
        .with(0x8000_0021, [1 << 2, 0, 0, 0]);
    // Table, whether the MSR is touched.
    let cases = [
        (CpuidTable::intel(), false),
        (CpuidTable::amd(), true),
        (says_so, false),
        (family(0x0000_0F00), false),
        (family(0x0010_0F00), true),
        (family(0x0020_0F00), false),
        (family(0x0030_0F00), true),
        (CpuidTable::amd().under(b"KVMKVMKVM\0\0\0"), true),
    ];
    for (table, touched) in cases {
        let msrs = Msrs::default();
        let facts = facts(&table);
        assert!(
            tsc::serialize_lfence(&facts, &msrs),
            "ordered in the end: {facts:?}"
        );
        let set = msrs.read(0xC001_1029) == 2;
        assert_eq!(set, touched, "bit 1 of C001_1029h: {facts:?}");
    }
}

#[test]
fn a_hypervisor_that_ignores_or_may_refuse_the_msr_leaves_lfence_unordered() {
    let deaf = Msrs {
        ignores_writes: true,
        ..Msrs::default()
    };
    let kvm = facts(&CpuidTable::amd().under(b"KVMKVMKVM\0\0\0"));
    assert!(!tsc::serialize_lfence(&kvm, &deaf), "the bit did not stay");
    let unknown = facts(&CpuidTable::amd().under(b"Microsoft Hv"));
    let untouched = Msrs::default();
    assert!(
        !tsc::serialize_lfence(&unknown, &untouched),
        "not known to emulate it"
    );
    assert_eq!(
        *untouched.accesses.lock().expect("one thread"),
        0,
        "so it is not touched"
    );
}

#[test]
fn the_timecounter_shows_what_it_was_made_of() {
    let clock = Clock::new();
    let no_invariance = CpuidTable::intel().with(0x8000_0007, [0; 4]);
    let processor = ProcessorModel::new(&clock, 2_600_000_000, no_invariance);
    let facts = TscFacts::read(&processor);
    let rating = tsc::rate(&facts, 1, false);
    let how = OrderedRead::Rdtscp;
    // A counter that starts near the top and one step below the wrap.
    processor.tsc.jump(-10);
    let tsc = Tsc::new(processor.clone(), how, &facts, 2_600_000_001, 26, rating);
    assert_eq!(tsc.name(), "TSC", "name");
    assert_eq!(tsc.frequency(), 2_600_000_001, "as measured");
    assert_eq!(tsc.mask(), u64::MAX, "all 64 bits");
    assert_eq!(tsc.quality(), 800, "as rated");
    assert_eq!(tsc.step(), 26, "as measured");
    assert_eq!(tsc.user_counter(), UserCounter::Tsc, "user space reads it");
    assert_eq!(
        tsc.flags(),
        Flags::C2STOP,
        "Intel's stops in C2 where not invariant"
    );
    assert_eq!(tsc.reason().to_string(), "not invariant, one CPU", "reason");
    let first = tsc.read();
    let second = tsc.read();
    assert!(
        second.wrapping_sub(first) < 100,
        "on over the wrap: {first:#x}, {second:#x}"
    );
}
