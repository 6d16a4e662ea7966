//! Many more processors than this machine has.

use anyhow::{Result, ensure};
use timehands_tests::{LIMIT, boot, machine};
use xtask::guest::End;
use xtask::opt::{Accel, Machine};

/// All are started and compared, and read all clocks without a step back.
pub(crate) fn read_all_clocks(cpus: u32) -> Result<()> {
    let machine = Machine {
        smp: cpus,
        memory: 1024,
        icount: false,
        accel: Accel::Tcg,
        ..machine()?
    };
    let commands = ["sysctl -n kern.smp.cpus", "clockcheck 2", "todscale -n 200"];
    let run = boot(&machine, &commands, 3 * LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    ensure!(
        matches!(run.end, End::Success) && text.starts_with(&format!("{cpus}\n")),
        "{}:\n{text}\n--- log:\n{}",
        run.end,
        run.log
    );
    ensure!(
        text.contains(" 0 steps back, worst 0 ns, 0 coarse ahead\n"),
        "with {cpus} processors:\n{text}"
    );
    let compared = |cpu| run.log.contains(&format!("TSC: CPU {cpu} "));
    ensure!((1..cpus).all(compared), "a line a CPU:\n{}", run.log);
    Ok(())
}
