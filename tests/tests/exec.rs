//! The command `cargo xtask exec`, as a person or a script runs it.

use std::process::{Command, ExitCode, Output};

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::trial;

fn main() -> ExitCode {
    let trials = vec![
        trial("stdout_is_what_the_commands_print_and_no_more", stdout),
        trial("a_failed_command_gives_status_1", failed_command),
        trial("wrong_usage_gives_status_2_and_boots_nothing", usage),
        trial("a_guest_that_is_not_done_in_time_gives_status_3", hang),
        trial("a_guest_that_never_comes_up_gives_status_3", never_up),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn exec(arguments: &[&str]) -> Result<Output> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["xtask", "exec"]).args(arguments);
    Ok(command.current_dir(xtask::root()).output()?)
}

/// Checks status and stdout, and returns stderr.
fn gives(output: &Output, status: i32, stdout: &str) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.code() == Some(status),
        "{}\n{said}",
        output.status
    );
    ensure!(printed == stdout, "stdout is {printed:?}\n{said}");
    Ok(said)
}

fn stdout() -> Result<()> {
    let hardware = "sysctl kern.timecounter.hardware=TSC";
    let output = exec(&["--append", "kern.hz=250", "sysctl -n kern.hz", hardware])?;
    let printed = "250\nkern.timecounter.hardware: HPET -> TSC\n";
    let said = gives(&output, 0, printed)?;
    ensure!(
        said.contains("qemu-system-x86_64 -machine q35,hpet=on "),
        "no command line of QEMU's in:\n{said}"
    );
    ensure!(
        said.contains("timehands: exit status 0"),
        "no log in:\n{said}"
    );
    Ok(())
}

fn failed_command() -> Result<()> {
    let output = exec(&["sysctl no.such.node", "sysctl -n kern.hz"])?;
    let printed = "sysctl: unknown oid 'no.such.node'\n1000\n";
    gives(&output, 1, printed).map(drop)
}

fn usage() -> Result<()> {
    let wrong: [&[&str]; 4] = [
        &[],
        &["--nosuch", "help"],
        &["--timeout", "0", "help"],
        &["two\nlines"],
    ];
    for arguments in wrong {
        let said = gives(&exec(arguments)?, 2, "")?;
        ensure!(!said.contains("qemu-system"), "{arguments:?}:\n{said}");
    }
    Ok(())
}

fn hang() -> Result<()> {
    let output = exec(&["--timeout", "1", "clockloop -s 3600"])?;
    let said = gives(&output, 3, "")?;
    ensure!(
        said.contains("the guest was not done after 1 s"),
        "it does not say so:\n{said}"
    );
    ensure!(
        said.contains("--- the end of the log:"),
        "no log in:\n{said}"
    );
    Ok(())
}

fn never_up() -> Result<()> {
    let output = exec(&["--accel", "tcg", "--cpu", "qemu32", "help"])?;
    let said = gives(&output, 3, "")?;
    ensure!(
        said.contains("the loader stopped: this CPU has no 64-bit mode"),
        "it does not say why:\n{said}"
    );
    Ok(())
}
