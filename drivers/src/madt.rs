//! The MADT: which processors and interrupt controllers there are.
//!
//! The table is a list of entries that each state their own length. A length
//! of 0 or 1 cannot be stepped over and ends the list (a reader that does not
//! check it never ends), so does one that leaves the table; an entry shorter
//! than its type needs is skipped, and so is one of a type not known here.
//!
//! Source: ACPI specification 6.5, section 5.2.12.

use crate::tables::{Table, TableError};

const LOCAL_APIC_ADDRESS: usize = 36;
const FLAGS: usize = 40;
const ENTRIES: usize = 44;

/// The destination that means every processor in xAPIC mode.
const XAPIC_EVERYBODY: u32 = 255;

/// Bit 0 of the table's flags: there is a pair of i8259 as well.
const PCAT_COMPAT: u32 = 1;
/// Bits of a processor's flags.
const PROCESSOR_ENABLED: u32 = 1;
const PROCESSOR_ONLINE_CAPABLE: u32 = 2;

/// How an interrupt line signals, from the low four bits of "MPS INTI flags".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Active low; `None` as the bus defines.
    pub active_low: Option<bool>,
    /// Level triggered; `None` as the bus defines.
    pub level: Option<bool>,
}

impl Signal {
    const fn decode(flags: u16) -> Self {
        // 01 one way, 11 the other, 00 by the bus, 10 reserved.
        const fn pick(bits: u16) -> Option<bool> {
            match bits & 3 {
                1 => Some(false),
                3 => Some(true),
                _ => None,
            }
        }
        Self {
            active_low: pick(flags),
            level: pick(flags >> 2),
        }
    }
}

/// One entry of a type that is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A processor, by its local APIC or x2APIC.
    Processor {
        /// What the firmware's processor objects call it.
        uid: u32,
        /// Its APIC ID.
        apic_id: u32,
        /// It can be used now.
        enabled: bool,
        /// It may be enabled later.
        online_capable: bool,
    },
    /// An I/O APIC.
    IoApic {
        /// Its ID.
        id: u8,
        /// Physical address of its registers.
        address: u32,
        /// The global interrupt number of its first pin.
        first_interrupt: u32,
    },
    /// An ISA interrupt that is not where its number says.
    SourceOverride {
        /// ISA interrupt, 0 to 15.
        irq: u8,
        /// Global interrupt number.
        interrupt: u32,
        /// How it signals.
        signal: Signal,
    },
    /// Which pin of the local APICs NMI arrives at.
    LocalNmi {
        /// The processor's uid; 255 is all of them.
        uid: u8,
        /// 0 or 1.
        pin: u8,
        /// How it signals.
        signal: Signal,
    },
    /// The local APICs are at this address rather than the 32-bit one.
    LocalApicAddress(u64),
}

/// A MADT.
#[derive(Clone, Copy, Debug)]
pub struct Madt<'a>(Table<'a>);

impl<'a> Madt<'a> {
    /// Over the table's bytes (signature `APIC`).
    ///
    /// # Errors
    ///
    /// [`TableError`] for another table or one without the fixed part.
    pub fn new(bytes: &'a [u8]) -> Result<Self, TableError> {
        let table = Table::new(bytes, b"APIC")?;
        table.u32(FLAGS).ok_or(TableError::Short)?;
        Ok(Self(table))
    }

    /// Physical address of the local APICs' registers, the 64-bit one where it
    /// is given.
    #[must_use]
    pub fn local_apic_address(&self) -> u64 {
        let wide = self.entries().find_map(|entry| match entry {
            Entry::LocalApicAddress(address) => Some(address),
            _ => None,
        });
        wide.unwrap_or_else(|| u64::from(self.0.u32(LOCAL_APIC_ADDRESS).unwrap_or(0)))
    }

    /// Whether there are two i8259 that have to be masked.
    #[must_use]
    pub fn has_i8259(&self) -> bool {
        self.0
            .u32(FLAGS)
            .is_some_and(|flags| flags & PCAT_COMPAT != 0)
    }

    /// The APIC IDs of the processors that can be used now, in the table's
    /// order, each once.
    ///
    /// A processor can be listed in both forms, and broken firmware lists one
    /// twice. In xAPIC mode (`x2apic` false) a message cannot be sent to an ID
    /// above 254, so those processors are left out.
    pub fn processors(&self, x2apic: bool) -> impl Iterator<Item = u32> {
        let usable = move |entry| match entry {
            Entry::Processor {
                apic_id,
                enabled: true,
                ..
            } => Some(apic_id).filter(|&id| x2apic || id < XAPIC_EVERYBODY),
            _ => None,
        };
        let table = *self;
        let ids = self.entries().enumerate();
        ids.filter_map(move |(at, entry)| usable(entry).map(|id| (at, id)))
            .filter(move |&(at, id)| {
                let mut earlier = table.entries().take(at).filter_map(usable);
                earlier.all(|other| other != id)
            })
            .map(|(_, id)| id)
    }

    /// The entries, in the table's order.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries(self.0.rest(ENTRIES))
    }
}

/// Iterator over a [`Madt`]; each step makes the rest shorter, so it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let [kind, length, ..] = *self.0 else {
                return None;
            };
            let length = usize::from(length);
            if length < 2 || length > self.0.len() {
                self.0 = &[];
                return None;
            }
            let (entry, rest) = self.0.split_at(length);
            self.0 = rest;
            if let Some(entry) = decode(kind, &Table::part(entry)) {
                return Some(entry);
            }
        }
    }
}

fn decode(kind: u8, entry: &Table<'_>) -> Option<Entry> {
    let processor = |uid, apic_id, flags| Entry::Processor {
        uid,
        apic_id,
        enabled: flags & PROCESSOR_ENABLED != 0,
        online_capable: flags & PROCESSOR_ONLINE_CAPABLE != 0,
    };
    Some(match kind {
        0 => processor(
            u32::from(entry.u8(2)?),
            u32::from(entry.u8(3)?),
            entry.u32(4)?,
        ),
        1 => Entry::IoApic {
            id: entry.u8(2)?,
            address: entry.u32(4)?,
            first_interrupt: entry.u32(8)?,
        },
        2 => Entry::SourceOverride {
            irq: entry.u8(3)?,
            interrupt: entry.u32(4)?,
            signal: Signal::decode(entry.u16(8)?),
        },
        4 => Entry::LocalNmi {
            uid: entry.u8(2)?,
            pin: entry.u8(5)?,
            signal: Signal::decode(entry.u16(3)?),
        },
        5 => Entry::LocalApicAddress(entry.u64(4)?),
        9 => processor(entry.u32(12)?, entry.u32(4)?, entry.u32(8)?),
        _ => return None,
    })
}
