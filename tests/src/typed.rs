//! Scenarios typed at the shell.

use anyhow::{Context, Result, ensure};
use xtask::opt::Machine;

use crate::lines::{Catalogue, Kind, Lines};
use crate::typist::Typist;

/// Any number; every failure names it.
const SEED: u64 = 0x7131_e4a4_d500_0002;

/// Types `count` generated lines: the prompt returns after each, and every
/// valid write is carried out.
///
/// # Errors
/// What went wrong, with the seed and the line.
pub fn generated_lines(machine: &Machine, count: usize) -> Result<()> {
    println!("seed {SEED:#x}, {count} lines");
    let mut typist = Typist::boot(machine)?;
    let help = typist.output("help")?;
    let sysctl = typist.output("sysctl -a")?;
    let lines = Lines::new(SEED, Catalogue::new(&help, &sysctl));
    for (number, (kind, line)) in lines.take(count).enumerate() {
        let shown = || format!("seed {SEED:#x}, line {number}: {}", line.escape_ascii());
        let sent = typist.line(&line).with_context(shown)?;
        if kind == Kind::ValidWrite {
            ensure!(sent.contains(" -> "), "{}: {sent}", shown());
        }
    }
    typist.shut_down()
}
