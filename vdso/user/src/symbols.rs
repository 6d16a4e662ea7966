//! Finds an exported function in a vDSO image.
//!
//! The image is the object as it lies in memory: one read-only segment that
//! starts with the ELF header, so an address in it, less the load bias, is an
//! offset into the slice. Lookup follows the dynamic section alone, since
//! section headers need not be mapped.
//!
//! Both hash tables are understood, because loaders differ in which they need
//! (older musl only knows `DT_HASH`, newer objects may carry `DT_GNU_HASH`
//! alone), and a symbol counts only if its version is the one asked for.
//!
//! Nothing in the image is trusted. Every read is bounds-checked, every chain
//! is cut off after as many steps as the image could hold symbols, and a wrong
//! object gives `None`. The layout is that of the System V gABI (ELF header,
//! program headers, dynamic section, symbol table) and of the LSB (symbol
//! versioning).

/// Size of an `Elf64_Sym`.
const SYMBOL: usize = 24;
/// Entries read of a dynamic section; Linux's own vDSO has about twenty.
const DYNAMIC_ENTRIES: usize = 64;
/// Program headers looked at.
const PROGRAM_HEADERS: usize = 16;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

/// The version that the kernel interface of x86-64 gives its functions.
pub const VERSION: &[u8] = b"LINUX_2.6";

/// Little-endian reads that fail, and never panic, outside the image.
#[derive(Clone, Copy, Debug)]
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    fn bytes<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }

    fn u16(self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_le_bytes)
    }

    fn u32(self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }

    fn u64(self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_le_bytes)
    }

    /// The NUL-terminated string at `offset` is `name`.
    fn string_is(self, offset: usize, name: &[u8]) -> bool {
        let Some(end) = offset.checked_add(name.len()) else {
            return false;
        };
        self.0.get(offset..end) == Some(name) && self.0.get(end) == Some(&0)
    }
}

/// What the program headers say about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the object in memory, counted from its ELF header.
    pub size: usize,
    /// The object's own address of its first byte.
    bias: u64,
    dynamic: usize,
    dynamic_size: usize,
}

/// Reads the program headers, which must lie in `start`, the beginning of the
/// image.
#[must_use]
pub fn layout(start: &[u8]) -> Option<Layout> {
    let image = Image(start);
    // Magic, 64-bit class, little-endian data, version 1.
    if image.bytes(0)? != *b"\x7fELF\x02\x01\x01" {
        return None;
    }
    let table = usize::try_from(image.u64(32)?).ok()?;
    let entry_size = usize::from(image.u16(54)?);
    let entries = usize::from(image.u16(56)?).min(PROGRAM_HEADERS);
    if entry_size < 56 {
        return None;
    }
    let mut load = None;
    let mut dynamic = None;
    for index in 0..entries {
        let at = table.checked_add(index * entry_size)?;
        let address = image.u64(at.checked_add(16)?)?;
        let size = image.u64(at.checked_add(40)?)?;
        match image.u32(at)? {
            // The segment with the header in it: file offset 0.
            PT_LOAD if image.u64(at.checked_add(8)?)? == 0 && load.is_none() => {
                load = Some((address, size));
            }
            PT_DYNAMIC if dynamic.is_none() => dynamic = Some((address, size)),
            _ => {}
        }
    }
    let (bias, size) = load?;
    let (dynamic, dynamic_size) = dynamic?;
    Some(Layout {
        size: usize::try_from(size).ok()?,
        bias,
        dynamic: usize::try_from(dynamic.checked_sub(bias)?).ok()?,
        dynamic_size: usize::try_from(dynamic_size).ok()?,
    })
}

/// The tables that the dynamic section names, as offsets into the image.
#[derive(Debug, Default)]
struct Tables {
    strings: Option<usize>,
    symbols: Option<usize>,
    hash: Option<usize>,
    gnu_hash: Option<usize>,
    versions: Option<usize>,
    definitions: Option<usize>,
}

fn tables(image: Image<'_>, layout: &Layout) -> Option<Tables> {
    let mut tables = Tables::default();
    let entries = (layout.dynamic_size / 16).min(DYNAMIC_ENTRIES);
    for index in 0..entries {
        let at = layout.dynamic.checked_add(index * 16)?;
        let value = image.u64(at.checked_add(8)?)?;
        let slot = match image.u64(at)? {
            0 => break,
            4 => &mut tables.hash,
            5 => &mut tables.strings,
            6 => &mut tables.symbols,
            0x6fff_fef5 => &mut tables.gnu_hash,
            0x6fff_fff0 => &mut tables.versions,
            0x6fff_fffc => &mut tables.definitions,
            _ => continue,
        };
        *slot = value
            .checked_sub(layout.bias)
            .and_then(|offset| usize::try_from(offset).ok());
    }
    Some(tables)
}

/// Offset into `image` of the function `name` with version [`VERSION`].
///
/// `None` when the image is not a vDSO, or has no such function.
#[must_use]
pub fn find(image: &[u8], name: &[u8]) -> Option<usize> {
    let layout = layout(image)?;
    let image = Image(image.get(..layout.size).unwrap_or(image));
    let tables = tables(image, &layout)?;
    let lookup = Lookup {
        image,
        strings: tables.strings?,
        symbols: tables.symbols?,
        versions: tables.versions,
        version: wanted_version(image, &tables),
        name,
    };
    let symbol = match (tables.gnu_hash, tables.hash) {
        (Some(table), hash) => lookup
            .by_gnu_hash(table)
            .or_else(|| hash.and_then(|table| lookup.by_hash(table))),
        (None, Some(table)) => lookup.by_hash(table),
        (None, None) => None,
    }?;
    let at = lookup.symbol_offset(symbol)?;
    let offset = usize::try_from(image.u64(at.checked_add(8)?)?.checked_sub(layout.bias)?).ok()?;
    (offset < image.0.len()).then_some(offset)
}

/// The index that symbols of [`VERSION`] carry in `DT_VERSYM`.
fn wanted_version(image: Image<'_>, tables: &Tables) -> Option<u16> {
    let strings = tables.strings?;
    let mut at = tables.definitions?;
    // A definition takes at least 20 bytes, and `vd_next` only goes forwards.
    for _ in 0..image.0.len() / 20 {
        let index = image.u16(at.checked_add(4)?)?;
        let auxiliary = at.checked_add(image.u32(at.checked_add(12)?)? as usize)?;
        let next = image.u32(at.checked_add(16)?)? as usize;
        let name = strings.checked_add(image.u32(auxiliary)? as usize)?;
        if image.string_is(name, VERSION) {
            return Some(index & 0x7fff);
        }
        if next == 0 {
            return None;
        }
        at = at.checked_add(next)?;
    }
    None
}

struct Lookup<'a> {
    image: Image<'a>,
    strings: usize,
    symbols: usize,
    versions: Option<usize>,
    version: Option<u16>,
    name: &'a [u8],
}

impl Lookup<'_> {
    fn symbol_offset(&self, index: u32) -> Option<usize> {
        self.symbols
            .checked_add((index as usize).checked_mul(SYMBOL)?)
    }

    /// Symbol `index` is the function looked for, defined here.
    fn is_match(&self, index: u32) -> Option<bool> {
        let at = self.symbol_offset(index)?;
        let [info] = self.image.bytes(at.checked_add(4)?)?;
        let section = self.image.u16(at.checked_add(6)?)?;
        let (binding, kind) = (info >> 4, info & 0xf);
        // Global or weak; a function (or untyped); not undefined.
        if !matches!(binding, 1 | 2) || !matches!(kind, 0 | 2) || section == 0 {
            return Some(false);
        }
        let name = self.strings.checked_add(self.image.u32(at)? as usize)?;
        if !self.image.string_is(name, self.name) {
            return Some(false);
        }
        let Some(versions) = self.versions else {
            // An object without versions has nothing to compare.
            return Some(true);
        };
        let version = self
            .image
            .u16(versions.checked_add((index as usize).checked_mul(2)?)?)?;
        Some(Some(version & 0x7fff) == self.version)
    }

    /// `DT_HASH`: buckets of chains linked by symbol number.
    fn by_hash(&self, table: usize) -> Option<u32> {
        let buckets = self.image.u32(table)?;
        let count = self.image.u32(table.checked_add(4)?)?;
        let bucket = sysv_hash(self.name).checked_rem(buckets)?;
        let word = |index: u32| {
            let offset = (index as usize).checked_mul(4)?.checked_add(8)?;
            self.image.u32(table.checked_add(offset)?)
        };
        let mut index = word(bucket)?;
        // `word` fails beyond the image, which bounds an absurd `count`; a
        // chain that visits more links than the image has words is a loop.
        for _ in 0..(count as usize).min(self.image.0.len() / 4) {
            if index == 0 {
                return None;
            }
            if self.is_match(index)? {
                return Some(index);
            }
            index = word(buckets.checked_add(index)?)?;
        }
        None
    }

    /// `DT_GNU_HASH`: a Bloom filter (not needed to be right), then runs of
    /// hashes whose last one has its low bit set.
    fn by_gnu_hash(&self, table: usize) -> Option<u32> {
        let buckets = self.image.u32(table)?;
        let first = self.image.u32(table.checked_add(4)?)?;
        let bloom = self.image.u32(table.checked_add(8)?)? as usize;
        let bucket_table = table.checked_add(bloom.checked_mul(8)?.checked_add(16)?)?;
        let chain_table = bucket_table.checked_add((buckets as usize).checked_mul(4)?)?;
        let hash = gnu_hash(self.name);
        let bucket = hash.checked_rem(buckets)? as usize;
        let mut index = self
            .image
            .u32(bucket_table.checked_add(bucket.checked_mul(4)?)?)?;
        // The run ends at a set low bit or where the image does.
        loop {
            let link = index.checked_sub(first)? as usize;
            let found = self
                .image
                .u32(chain_table.checked_add(link.checked_mul(4)?)?)?;
            if found | 1 == hash | 1 && self.is_match(index)? {
                return Some(index);
            }
            if found & 1 == 1 {
                return None;
            }
            index = index.checked_add(1)?;
        }
    }
}

/// The gABI's hash of a symbol name.
fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// The hash of `DT_GNU_HASH`: times 33, from 5381.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    })
}

#[cfg(test)]
mod tests;
