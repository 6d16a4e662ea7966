//! Machines with several processors come up with all of them.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::{machine, output, trial};
use xtask::opt::Machine;

fn main() -> ExitCode {
    let trials = vec![
        trial("every_processor_of_the_machine_runs", every_processor),
        trial("the_tunable_leaves_one_processor", disabled),
        trial("programs_run_beside_processors_that_idle", programs),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn with(processors: u32) -> Result<Machine> {
    Ok(Machine {
        smp: processors,
        ..machine()?
    })
}

fn every_processor() -> Result<()> {
    for processors in [1, 2, 4, 8] {
        let text = output(&with(processors)?, &["sysctl -n kern.smp.cpus"])?;
        ensure!(
            text == format!("{processors}\n"),
            "{text:?} of {processors} processors"
        );
    }
    Ok(())
}

fn disabled() -> Result<()> {
    let machine = Machine {
        append: "kern.smp.disabled=1".to_owned(),
        ..with(4)?
    };
    let text = output(&machine, &["sysctl -n kern.smp.cpus"])?;
    ensure!(
        text == "1\n",
        "{text:?} processors, and the others disabled"
    );
    Ok(())
}

fn programs() -> Result<()> {
    for processors in [2, 8] {
        let text = output(&with(processors)?, &["calls"])?;
        ensure!(
            text.ends_with(" 0 failed\n"),
            "calls printed with {processors} processors:\n{text}"
        );
    }
    Ok(())
}
