//! Lines to type at the shell, endlessly and reproducibly.
//!
//! A [`Catalogue`] is made from what the machine itself prints (`help` and
//! `sysctl -a`), so new commands and nodes are tried without a change here.
//! From it and a seed [`Lines`] makes, in equal parts:
//!
//! * lines from the catalogue, damaged: bytes replaced, inserted, deleted and
//!   doubled, values replaced by numbers at the boundaries of their types;
//! * valid writes to every node that can be written;
//! * plain bytes, all 256 of them.
//!
//! No line contains a line end, so one line is one command; and none contains
//! `shutdown`, which would do as it is told.

// Spelled out because the kernel's own tests, which have no prelude of `std`,
// compile this file too.
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use fastrand::Rng;

/// The command that no line may contain.
const FORBIDDEN: &[u8] = b"shutdown";

/// Longest line of plain bytes; some are beyond what a shell accepts.
const LONGEST: usize = 1_500;

/// Numbers at and beside the bounds of the types that nodes have.
const BOUNDARIES: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "127",
    "128",
    "255",
    "256",
    "32767",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0x7fffffff",
    "0xffffffffffffffff",
    "0x",
    "00",
    "08",
    "1e9",
    "",
];

/// Nodes that take an `int`, and the least and the largest that they take.
const SWITCHES: &[(&str, i32, i32)] = &[
    ("kern.timecounter.fast_gettime", i32::MIN, i32::MAX),
    ("kern.timecounter.alloweddeviation", i32::MIN, i32::MAX),
    ("kern.timecounter.stepwarnings", i32::MIN, i32::MAX),
    ("kern.timecounter.nojitter", 0, 2),
    ("kern.timecounter.watchdog", 0, 60),
];

/// Nodes that take a rate within the margin of the present one.
const RATES: &[&str] = &[
    "machdep.tsc_freq",
    "machdep.i8254_freq",
    "machdep.acpi_timer_freq",
];

/// What a machine has.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Lines to damage: every command, every node read, every node written.
    bases: Vec<String>,
    /// Rates with the value that they have: name, Hz.
    rates: Vec<(String, u64)>,
    /// Counters that can be chosen.
    counters: Vec<String>,
}

impl Catalogue {
    /// Reads the output of `help` and of `sysctl -a`.
    #[must_use]
    pub fn new(help: &str, sysctl: &str) -> Self {
        let commands = help.lines().filter_map(|line| line.split(' ').next());
        let mut bases: Vec<String> = commands.map(ToString::to_string).collect();
        let mut rates = Vec::new();
        let mut counters = Vec::new();
        for (name, value) in sysctl.lines().filter_map(|line| line.split_once(": ")) {
            bases.push(format!("sysctl {name}"));
            bases.push(format!("sysctl -nd {name}"));
            bases.push(format!("sysctl {name}={value}"));
            if name == "kern.timecounter.choice" {
                let names = value.split(' ').filter_map(|entry| entry.split('(').next());
                // The dummy does not keep time and is refused for that.
                let real = names.filter(|name| *name != "dummy");
                counters.extend(real.map(ToString::to_string));
            }
            if let (true, Ok(hz)) = (RATES.contains(&name), value.parse()) {
                rates.push((name.to_string(), hz));
            }
        }
        Self {
            bases,
            rates,
            counters,
        }
    }
}

/// How a line was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the catalogue, damaged.
    Mutated,
    /// A write that must succeed.
    ValidWrite,
    /// Plain bytes.
    Bytes,
}

/// The lines of one seed.
#[derive(Debug)]
pub struct Lines {
    rng: Rng,
    catalogue: Catalogue,
    made: usize,
}

impl Lines {
    /// The same seed and catalogue give the same lines.
    #[must_use]
    pub fn new(seed: u64, catalogue: Catalogue) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            catalogue,
            made: 0,
        }
    }

    /// One line of that kind.
    fn make(&mut self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Mutated => self.mutated(),
            Kind::ValidWrite => self.valid_write().into_bytes(),
            Kind::Bytes => {
                // Mostly short, now and then beyond every limit.
                let longest = if self.rng.u8(..) < 8 { LONGEST } else { 80 };
                let length = self.rng.usize(..longest);
                (0..length).map(|_| self.rng.u8(..)).collect()
            }
        }
    }

    fn mutated(&mut self) -> Vec<u8> {
        let base = self.rng.choice(&self.catalogue.bases);
        let mut line = base.cloned().unwrap_or_default();
        if let (Some(equals), true) = (line.find('='), self.rng.bool()) {
            line.truncate(equals + 1);
            line.push_str(self.rng.choice(BOUNDARIES).copied().unwrap_or(""));
        }
        let mut line = line.into_bytes();
        for _ in 0..self.rng.usize(..4) {
            let place = self.rng.usize(..=line.len());
            let byte = self.rng.u8(..);
            match self.rng.u8(..4) {
                0 => line.insert(place, byte),
                1 if place < line.len() => line[place] = byte,
                2 if place < line.len() => {
                    line.remove(place);
                }
                _ => line.extend_from_within(place..),
            }
        }
        line
    }

    fn valid_write(&mut self) -> String {
        let Catalogue {
            rates, counters, ..
        } = &self.catalogue;
        match self.rng.u8(..3) {
            0 if !rates.is_empty() => {
                let (name, nominal) = &rates[self.rng.usize(..rates.len())];
                // 200 ppm: any two of them are within the 476 that a running clock
                // can follow.
                let margin = nominal / 5_000;
                let hz = self.rng.u64(nominal - margin..=nominal + margin);
                format!("sysctl {name}={hz}")
            }
            1 if !counters.is_empty() => {
                // One more than there are counters: the kernel's own choice.
                let counter = counters.get(self.rng.usize(..=counters.len()));
                let counter = counter.map_or("auto", String::as_str);
                format!("sysctl kern.timecounter.hardware={counter}")
            }
            _ => {
                let (name, least, largest) = SWITCHES[self.rng.usize(..SWITCHES.len())];
                format!("sysctl {name}={}", self.rng.i32(least..=largest))
            }
        }
    }
}

impl Iterator for Lines {
    type Item = (Kind, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = [Kind::Mutated, Kind::ValidWrite, Kind::Bytes][self.made % 3];
        self.made += 1;
        loop {
            let mut line = self.make(kind);
            line.retain(|byte| !matches!(byte, b'\r' | b'\n'));
            if !could_power_off(&line) {
                return Some((kind, line));
            }
        }
    }
}

/// Whether the forbidden letters stand in `line` in their order. Keys that
/// edit the line can remove what is between them, so order is all that counts.
fn could_power_off(line: &[u8]) -> bool {
    let mut wanted = FORBIDDEN.iter();
    let mut next = wanted.next();
    for byte in line {
        if next == Some(byte) {
            next = wanted.next();
        }
    }
    next.is_none()
}

#[cfg(test)]
mod tests {
    use super::{BOUNDARIES, Catalogue, Kind, Lines, could_power_off};
    use std::collections::HashSet;
    use std::vec::Vec;

    const HELP: &str = "help [command ...]  list\nshutdown  power off\n";
    const SYSCTL: &str = "kern.timecounter.choice: TSC(800) HPET(950) dummy(-1000000)\n\
                          machdep.tsc_freq: 2100000000\nkern.hz: 1000\n";

    fn lines(seed: u64, count: usize) -> Vec<(Kind, Vec<u8>)> {
        let lines = Lines::new(seed, Catalogue::new(HELP, SYSCTL));
        lines.take(count).collect()
    }

    #[test]
    fn a_seed_always_gives_the_same_lines() {
        assert_eq!(lines(7, 300), lines(7, 300), "same seed");
        assert_ne!(lines(7, 300), lines(8, 300), "another seed");
    }

    #[test]
    fn the_kinds_come_in_equal_parts() {
        for wanted in [Kind::Mutated, Kind::ValidWrite, Kind::Bytes] {
            let lines = lines(1, 300);
            let count = lines.iter().filter(|(kind, _)| *kind == wanted).count();
            assert_eq!(count, 100, "{wanted:?} is a third");
        }
    }

    #[test]
    fn every_writable_node_and_every_choice_is_written() {
        let written: HashSet<Vec<u8>> = lines(2, 3_000).into_iter().map(|(_, l)| l).collect();
        for line in [
            "sysctl kern.timecounter.hardware=TSC",
            "sysctl kern.timecounter.hardware=HPET",
            "sysctl kern.timecounter.hardware=auto",
        ] {
            assert!(written.contains(line.as_bytes()), "{line} is tried");
        }
        for name in [
            "machdep.tsc_freq",
            "kern.timecounter.fast_gettime",
            "kern.timecounter.nojitter",
            "kern.timecounter.watchdog",
        ] {
            let prefix = std::format!("sysctl {name}=");
            let tried = written.iter().any(|l| l.starts_with(prefix.as_bytes()));
            assert!(tried, "{name} is written");
        }
    }

    #[test]
    fn every_boundary_is_tried() {
        let written: HashSet<Vec<u8>> = lines(3, 30_000).into_iter().map(|(_, l)| l).collect();
        for number in BOUNDARIES {
            let line = std::format!("sysctl kern.hz={number}");
            assert!(written.contains(line.as_bytes()), "{line} is tried");
        }
    }

    #[test]
    fn no_line_ends_early_or_powers_off() {
        for (_, line) in lines(4, 30_000) {
            assert!(!line.contains(&b'\n'), "one line is one command");
            assert!(!line.contains(&b'\r'), "one line is one command");
            assert!(!could_power_off(&line), "{}", line.escape_ascii());
        }
        assert!(could_power_off(b"shutdowx\x08n"), "editing is allowed for");
        assert!(could_power_off(b"sxhutdown"), "letters between are");
        assert!(!could_power_off(b"shutdow"), "a part is not the whole");
    }
}
