//! The table decoders: what firmware writes, what it should not, and any bytes.

use drivers::acpi_timer::AcpiTimerError;
use drivers::hpet::HpetError;
use drivers::madt::{Entry, Madt, Signal};
use drivers::tables::{TableError, TimerAddress, TimerBlock, hpet_address, timer_block};
use proptest::prelude::{Just, any, prop_assert, proptest};
use proptest::strategy::{Strategy, Union};

fn table(signature: &[u8; 4], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..4].copy_from_slice(signature);
    bytes[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// As QEMU's q35: port 608h, length 4, flags 84A5h, no extended address.
fn fadt() -> Vec<u8> {
    let mut bytes = table(b"FACP", 244);
    put(&mut bytes, 76, &0x608_u32.to_le_bytes());
    bytes[91] = 4;
    put(&mut bytes, 112, &0x84A5_u32.to_le_bytes());
    bytes
}

fn extended(bytes: &mut [u8], space: u8, bit_width: u8, address: u64) {
    put(bytes, 208, &[space, bit_width, 0, 3]);
    put(bytes, 212, &address.to_le_bytes());
}

fn hpet() -> Vec<u8> {
    let mut bytes = table(b"HPET", 56);
    put(&mut bytes, 44, &0xFED0_0000_u64.to_le_bytes());
    bytes
}

fn madt(entries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = table(b"APIC", 44);
    put(&mut bytes, 36, &0xFEE0_0000_u32.to_le_bytes());
    bytes[40] = 1;
    for entry in entries {
        bytes.extend_from_slice(entry);
    }
    let length = bytes.len() as u32;
    put(&mut bytes, 4, &length.to_le_bytes());
    bytes
}

const PORT_24_BITS: TimerBlock = TimerBlock {
    address: TimerAddress::Port(0x608),
    width: 24,
};

#[test]
fn qemus_fadt_gives_the_port_and_24_bits() {
    assert_eq!(timer_block(&fadt()), Ok(PORT_24_BITS), "as measured");
}

#[test]
fn a_fadt_of_acpi_1_without_extended_fields_will_do() {
    let mut bytes = fadt();
    bytes.truncate(116);
    put(&mut bytes, 4, &116_u32.to_le_bytes());
    assert_eq!(timer_block(&bytes), Ok(PORT_24_BITS), "116 bytes long");
}

#[test]
fn the_extended_address_is_preferred_and_its_widths_are_ignored() {
    let mut bytes = fadt();
    extended(&mut bytes, 1, 8, 0xB008);
    put(&mut bytes, 112, &0x85A5_u32.to_le_bytes());
    let expected = TimerBlock {
        address: TimerAddress::Port(0xB008),
        width: 32,
    };
    assert_eq!(
        timer_block(&bytes),
        Ok(expected),
        "a register said to be 8 bits wide"
    );
    extended(&mut bytes, 0, 32, 0xFED8_0808);
    let address = timer_block(&bytes).map(|block| block.address);
    assert_eq!(address, Ok(TimerAddress::Memory(0xFED8_0808)), "in memory");
}

#[test]
fn an_unusable_extended_address_falls_back_to_the_old_one() {
    for (space, address) in [(0, 0), (1, 0), (1, 0x1_0608), (2, 0xB008), (0x7F, 0xB008)] {
        let mut bytes = fadt();
        extended(&mut bytes, space, 32, address);
        assert_eq!(
            timer_block(&bytes),
            Ok(PORT_24_BITS),
            "space {space}, address {address:#x}"
        );
    }
}

#[test]
fn a_fadt_without_a_timer_says_why() {
    for length in [0, 3, 5, 8, 255] {
        let mut bytes = fadt();
        bytes[91] = length;
        assert_eq!(
            timer_block(&bytes),
            Err(AcpiTimerError::Length(length)),
            "PM_TMR_LEN {length}"
        );
    }
    let mut bytes = fadt();
    put(&mut bytes, 76, &[0; 4]);
    assert_eq!(
        timer_block(&bytes),
        Err(AcpiTimerError::NoRegister),
        "no address at all"
    );
    assert_eq!(
        timer_block(&hpet()),
        Err(AcpiTimerError::NoFadt),
        "another table"
    );
}

#[test]
fn the_hpets_address_must_be_in_memory() {
    assert_eq!(hpet_address(&hpet()), Ok(0xFED0_0000), "as QEMU's");
    let mut bytes = hpet();
    bytes[40] = 1;
    assert_eq!(
        hpet_address(&bytes),
        Err(HpetError::AddressSpace(1)),
        "in ports"
    );
    let mut bytes = hpet();
    put(&mut bytes, 44, &[0; 8]);
    assert_eq!(
        hpet_address(&bytes),
        Err(HpetError::NoRegisters(0)),
        "nowhere"
    );
    assert_eq!(
        hpet_address(&fadt()),
        Err(HpetError::NotInTables),
        "another table"
    );
}

#[test]
fn a_header_that_claims_more_than_there_is_is_refused() {
    let mut bytes = madt(&[]);
    put(&mut bytes, 4, &45_u32.to_le_bytes());
    let error = Madt::new(&bytes).map(|_| ()).unwrap_err();
    assert_eq!(error, TableError::Short, "one byte more than the slice");
    put(&mut bytes, 4, &35_u32.to_le_bytes());
    let error = Madt::new(&bytes).map(|_| ()).unwrap_err();
    assert_eq!(error, TableError::Short, "less than a header");
}

/// A type 0 entry.
fn local_apic(id: u8, flags: u8) -> [u8; 8] {
    [0, 8, id, id, flags, 0, 0, 0]
}

/// A type 9 entry.
fn local_x2apic(id: u32, flags: u8) -> [u8; 16] {
    let [a, b, c, d] = id.to_le_bytes();
    [9, 16, 0, 0, a, b, c, d, flags, 0, 0, 0, a, b, c, d]
}

fn processors(entries: &[&[u8]], x2apic: bool) -> Vec<u32> {
    let bytes = madt(entries);
    let madt = Madt::new(&bytes).expect("well formed");
    madt.processors(x2apic).collect()
}

#[test]
fn processors_come_in_the_tables_order_whatever_their_form() {
    let table: &[&[u8]] = &[
        &local_x2apic(7, 1),
        &local_apic(0, 1),
        &local_x2apic(300, 1),
        &local_apic(2, 1),
    ];
    assert_eq!(processors(table, true), [7, 0, 300, 2], "x2APIC mode");
    assert_eq!(
        processors(table, false),
        [7, 0, 2],
        "xAPIC mode cannot reach 300"
    );
}

#[test]
fn a_processor_that_is_listed_twice_is_one() {
    let table: &[&[u8]] = &[
        &local_apic(0, 1),
        &local_apic(1, 1),
        &local_x2apic(1, 1),
        &local_x2apic(0, 1),
        &local_apic(1, 1),
    ];
    assert_eq!(processors(table, true), [0, 1], "once each");
}

#[test]
fn a_disabled_processor_is_left_out_and_does_not_hide_an_enabled_one() {
    let table: &[&[u8]] = &[
        &local_apic(0, 1),
        &local_apic(1, 0),
        &local_apic(2, 2),
        &local_x2apic(1, 1),
    ];
    assert_eq!(
        processors(table, true),
        [0, 1],
        "disabled and online capable are not enabled"
    );
}

#[test]
fn nobody_has_the_id_that_means_everybody() {
    let table: &[&[u8]] = &[
        &local_apic(254, 1),
        &local_apic(255, 1),
        &local_x2apic(255, 1),
    ];
    assert_eq!(processors(table, false), [254], "255 is a broadcast");
    assert_eq!(processors(table, true), [254, 255], "an ID as any other");
}

#[test]
fn a_madt_gives_processors_controllers_and_overrides() {
    let bytes = madt(&[
        &[0, 8, 0, 0, 1, 0, 0, 0],
        &[0, 8, 1, 2, 2, 0, 0, 0],
        &[1, 12, 0, 0, 0, 0, 0xC0, 0xFE, 0, 0, 0, 0],
        // IRQ 0 is at pin 2, as the bus defines.
        &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0],
        // IRQ 9: active high, level.
        &[2, 10, 0, 9, 9, 0, 0, 0, 0x0D, 0],
        &[4, 6, 0xFF, 0, 0, 1],
        &[9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0],
    ]);
    let madt = Madt::new(&bytes).expect("well formed");
    let by_bus = Signal {
        active_low: None,
        level: None,
    };
    let processor = |uid, apic_id, enabled, online_capable| Entry::Processor {
        uid,
        apic_id,
        enabled,
        online_capable,
    };
    let expected = [
        processor(0, 0, true, false),
        processor(1, 2, false, true),
        Entry::IoApic {
            id: 0,
            address: 0xFEC0_0000,
            first_interrupt: 0,
        },
        Entry::SourceOverride {
            irq: 0,
            interrupt: 2,
            signal: by_bus,
        },
        Entry::SourceOverride {
            irq: 9,
            interrupt: 9,
            signal: Signal {
                active_low: Some(false),
                level: Some(true),
            },
        },
        Entry::LocalNmi {
            uid: 0xFF,
            pin: 1,
            signal: by_bus,
        },
        processor(7, 256, true, false),
    ];
    assert_eq!(madt.entries().collect::<Vec<_>>(), expected, "in order");
    assert_eq!(madt.local_apic_address(), 0xFEE0_0000, "32-bit address");
    assert!(madt.has_i8259(), "PCAT_COMPAT");
}

#[test]
fn the_64_bit_local_apic_address_wins() {
    let bytes = madt(&[&[5, 12, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]]);
    let madt = Madt::new(&bytes).expect("well formed");
    assert_eq!(madt.local_apic_address(), 0x1_0000_0000, "above 4 GiB");
}

#[test]
fn entries_that_cannot_be_stepped_over_end_the_list() {
    let good = [0, 8, 0, 0, 1, 0, 0, 0];
    for bad in [[0, 0], [0, 1], [0, 3], [0, 255]] {
        let bytes = madt(&[&good, &bad]);
        let madt = Madt::new(&bytes).expect("well formed");
        assert_eq!(madt.entries().count(), 1, "after {bad:?} nothing is left");
    }
    let bytes = madt(&[&good, &[0, 1, 8, 0, 0, 0, 0, 0, 0], &good]);
    let list = Madt::new(&bytes).expect("well formed");
    assert_eq!(
        list.entries().count(),
        1,
        "what looks whole behind it is not trusted"
    );
    let bytes = madt(&[&good, &[0]]);
    let madt = Madt::new(&bytes).expect("well formed");
    assert_eq!(madt.entries().count(), 1, "a lone byte at the end");
}

#[test]
fn entries_unknown_or_too_short_are_skipped() {
    let good = [0, 8, 0, 0, 1, 0, 0, 0];
    let bytes = madt(&[&[0, 4, 0, 0], &[0x7F, 3, 0], &good]);
    let madt = Madt::new(&bytes).expect("well formed");
    assert_eq!(
        madt.entries().count(),
        1,
        "the good one is found behind them"
    );
}

fn decode_everything(bytes: &[u8]) -> usize {
    let _ = timer_block(bytes);
    let _ = hpet_address(bytes);
    Madt::new(bytes).map_or(0, |madt| {
        let _ = madt.local_apic_address();
        let all = madt.processors(true).count();
        assert!(madt.processors(false).count() <= all, "fewer are reached");
        madt.entries().count()
    })
}

/// Good tables and what one to eight bytes of damage make of them.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let good = Union::new([
        Just(fadt()),
        Just(hpet()),
        Just(madt(&[&[0, 8, 0, 0, 1, 0, 0, 0][..]; 8])),
    ]);
    let damage = proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8);
    (good, damage, 0..=300_usize).prop_map(|(mut bytes, damage, length)| {
        for (at, value) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(length);
        bytes
    })
}

proptest! {
    #[test]
    fn damaged_tables_decode_to_something_and_end(bytes in mutated()) {
        let entries = decode_everything(&bytes);
        prop_assert!(entries <= bytes.len() / 2, "{entries} entries of at least two bytes");
    }

    #[test]
    fn any_bytes_behind_a_signature_decode_to_something_and_end(
        which in 0..3_usize,
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut bytes = [*b"FACP", *b"HPET", *b"APIC"][which].to_vec();
        bytes.extend(rest);
        let length = bytes.len() as u32;
        if let Some(field) = bytes.get_mut(4..8) {
            field.copy_from_slice(&length.to_le_bytes());
        }
        let entries = decode_everything(&bytes);
        prop_assert!(entries <= bytes.len() / 2, "{entries} entries of at least two bytes");
    }
}
