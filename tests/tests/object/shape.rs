//! The file as a foreign parser finds it.

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_JMPREL, DT_NEEDED, DT_REL, DT_RELA, DT_RELR, DT_TEXTREL, DynamicTag,
    ET_DYN, FileHeader64, PF_W, PF_X, PT_DYNAMIC, PT_GNU_RELRO, PT_INTERP, PT_LOAD, PT_NOTE,
    PT_TLS, SHF_ALLOC, SHF_WRITE, SHT_DYNAMIC, SHT_REL, SHT_RELA, STB_GLOBAL, STB_WEAK, STT_FUNC,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, Object, ObjectSymbol};

use crate::file;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// What a libc may ask for, without the prefix.
const NAMES: [&str; 5] = [
    "clock_gettime",
    "gettimeofday",
    "clock_getres",
    "time",
    "getcpu",
];

fn header() -> &'static Header {
    Header::parse(file()).expect("an ELF file")
}

/// The tags of the dynamic section.
fn tags() -> Vec<DynamicTag> {
    let sections = header().sections(LE, file()).expect("section headers");
    let (entries, _) = sections
        .dynamic(LE, file())
        .expect("a readable dynamic section")
        .expect("a dynamic section");
    entries.iter().map(|entry| entry.d_tag(LE)).collect()
}

#[test]
fn it_is_one_read_execute_segment_that_begins_with_the_file() {
    let segments = header()
        .program_headers(LE, file())
        .expect("program headers");
    assert_eq!(header().e_type(LE), ET_DYN, "a shared object");
    let kinds: Vec<_> = segments.iter().map(|segment| segment.p_type(LE)).collect();
    assert_eq!(
        kinds.iter().filter(|&&kind| kind == PT_LOAD).count(),
        1,
        "loadable segments of {kinds:?}"
    );
    for wanted in [PT_DYNAMIC, PT_NOTE] {
        assert!(kinds.contains(&wanted), "no segment of type {wanted:?}");
    }
    for unwanted in [PT_GNU_RELRO, PT_TLS, PT_INTERP] {
        assert!(!kinds.contains(&unwanted), "a segment of type {unwanted:?}");
    }
    for segment in segments {
        let flags = segment.p_flags(LE);
        assert!(!flags.contains(PF_W), "a writable segment");
        if segment.p_type(LE) == PT_LOAD {
            assert!(flags.contains(PF_X), "it can be executed");
            assert_eq!(
                (segment.p_offset(LE), segment.p_vaddr(LE)),
                (0, 0),
                "offsets in the file are offsets in memory"
            );
            assert_eq!(
                segment.p_filesz(LE),
                segment.p_memsz(LE),
                "nothing to be zeroed"
            );
        }
    }
}

#[test]
fn nothing_in_it_has_to_be_relocated_or_filled_in() {
    let sections = header().sections(LE, file()).expect("section headers");
    for section in sections.iter() {
        let kind = section.sh_type(LE);
        assert!(
            kind != SHT_REL && kind != SHT_RELA,
            "a section of relocations"
        );
        let flags = section.sh_flags(LE);
        let writable = flags.contains(SHF_WRITE) && flags.contains(SHF_ALLOC);
        // Linkers mark the dynamic section so, wherever it lies.
        assert!(
            !writable || kind == SHT_DYNAMIC,
            "a writable section of {} bytes",
            section.sh_size(LE)
        );
    }
    for unwanted in [DT_REL, DT_RELA, DT_RELR, DT_JMPREL, DT_TEXTREL, DT_NEEDED] {
        assert!(!tags().contains(&unwanted), "dynamic tag {unwanted:?}");
    }
}

#[test]
fn both_hash_tables_find_every_name() {
    for wanted in [DT_HASH, DT_GNU_HASH] {
        assert!(tags().contains(&wanted), "no dynamic tag {wanted:?}");
    }
    let sections = header().sections(LE, file()).expect("section headers");
    let symbols = sections
        .symbols(LE, file(), object::elf::SHT_DYNSYM)
        .expect("dynamic symbols");
    let versions = sections
        .versions(LE, file())
        .expect("readable versions")
        .expect("versions");
    let (old, _) = sections
        .hash(LE, file())
        .expect("a readable table")
        .expect("DT_HASH");
    let (new, _) = sections
        .gnu_hash(LE, file())
        .expect("a readable table")
        .expect("DT_GNU_HASH");
    for name in NAMES {
        for name in [name.to_owned(), format!("__vdso_{name}")] {
            let name = name.as_bytes();
            let by_old = old.find(LE, name, object::elf::hash(name), None, &symbols, &versions);
            let by_new = new.find(
                LE,
                name,
                object::elf::gnu_hash(name),
                None,
                &symbols,
                &versions,
            );
            let name = String::from_utf8_lossy(name);
            assert!(by_old.is_some(), "{name} by DT_HASH");
            assert_eq!(
                by_old.map(|(index, _)| index),
                by_new.map(|(index, _)| index),
                "{name} by DT_GNU_HASH"
            );
        }
    }
}

#[test]
fn every_name_is_a_function_of_version_linux_2_6_and_nothing_else_is_exported() {
    let sections = header().sections(LE, file()).expect("section headers");
    let symbols = sections
        .symbols(LE, file(), object::elf::SHT_DYNSYM)
        .expect("dynamic symbols");
    let versions = sections
        .versions(LE, file())
        .expect("readable versions")
        .expect("versions");
    let mut seen = Vec::new();
    for (index, symbol) in symbols.enumerate().skip(1) {
        let name = symbol.name(LE, symbols.strings()).expect("a name");
        let name = String::from_utf8_lossy(name).into_owned();
        assert!(!symbol.is_undefined(LE), "{name} would have to be found");
        assert_eq!(symbol.st_type(), STT_FUNC, "type of {name}");
        let bind = if name.starts_with("__vdso_") {
            STB_GLOBAL
        } else {
            STB_WEAK
        };
        assert_eq!(symbol.st_bind(), bind, "binding of {name}");
        let version = versions.version_index(LE, index).index();
        let version = versions.version(version).expect("a known version");
        assert_eq!(
            version.map(|version| version.name()),
            Some(&b"LINUX_2.6"[..]),
            "version of {name}"
        );
        seen.push(name);
    }
    let mut wanted: Vec<String> = NAMES.map(|name| format!("__vdso_{name}")).into();
    wanted.extend(NAMES.map(str::to_owned));
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted, "what is exported");
}

#[test]
fn the_plain_name_is_the_same_function() {
    let elf = ElfFile64::<LittleEndian>::parse(file()).expect("an ELF file");
    let address = |name: &str| {
        let mut symbols = elf.dynamic_symbols();
        let found = symbols.find(|symbol| symbol.name() == Ok(name));
        found.map(|symbol| symbol.address())
    };
    for name in NAMES {
        let prefixed = address(&format!("__vdso_{name}"));
        assert!(prefixed.is_some(), "__vdso_{name} is exported");
        assert_eq!(address(name), prefixed, "{name}");
    }
}

#[test]
fn the_program_side_finds_the_names_that_it_looks_up() {
    let object = user::load::Object::load(file()).expect("the object loads");
    let image = object.image();
    assert!(image.clock_gettime().is_some(), "__vdso_clock_gettime");
    assert!(image.clock_getres().is_some(), "__vdso_clock_getres");
    assert!(image.gettimeofday().is_some(), "__vdso_gettimeofday");
    assert!(image.time().is_some(), "__vdso_time");
}
