//! One boot: run commands, collect their output and the log.
//!
//! Commands travel in the RAM disk and their output comes back on COM2, which
//! carries nothing else. Nothing is typed at the guest: what a serial port
//! receives, and when, would differ from run to run.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::build::Built;
pub use crate::end::End;
use crate::end::panic_line;
use crate::medium::Medium;
use crate::opt::Machine;
use crate::qemu::{self, Console};
use crate::tail::Tail;
use crate::{archive, build, leash, setup};

/// How long a guest that has announced a panic may take to end QEMU.
const PANIC_GRACE: Duration = Duration::from_secs(2);

/// How much of a broken guest's log is worth showing.
const TAIL_LINES: usize = 40;

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What the commands printed, exactly.
    pub output: Vec<u8>,
    /// What the kernel and QEMU printed.
    pub log: String,
}

impl Outcome {
    /// The end of the log.
    pub fn tail(&self) -> String {
        let lines: Vec<&str> = self.log.lines().collect();
        let start = lines.len().saturating_sub(TAIL_LINES);
        lines.get(start..).unwrap_or_default().join("\n")
    }
}

/// Where to show what a run prints, while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Output on stdout, log on stderr.
    Live,
    /// Nowhere: the caller judges the [`Outcome`].
    Nothing,
}

/// Builds everything, boots `machine`, and runs `commands` in its shell.
///
/// # Errors
/// Something needed is missing, a build fails, or QEMU cannot be started. How
/// the guest itself fared is in the outcome.
pub fn exec(
    machine: &Machine,
    commands: &[String],
    limit: Duration,
    show: Show,
) -> Result<Outcome> {
    setup::qemu()?;
    boot(
        &build::all(&machine.toolchain, machine.faults)?,
        machine,
        commands,
        limit,
        show,
    )
}

/// Boots what has been built, and runs `commands` in the guest's shell.
///
/// # Errors
/// As [`exec`].
pub fn boot(
    built: &Built,
    machine: &Machine,
    commands: &[String],
    limit: Duration,
    show: Show,
) -> Result<Outcome> {
    let dir = scratch()?;
    let archive = dir.path().join("archive.tar");
    archive::write(File::create(&archive)?, built, machine, Some(commands))?;
    batch(
        &built.boot,
        machine,
        Some(&archive),
        dir.path(),
        limit,
        show,
    )
}

/// Boots the loader with any file, or none, in the archive's place.
///
/// # Errors
/// QEMU cannot be started.
pub fn boot_module(
    loader: &Path,
    machine: &Machine,
    module: Option<&Path>,
    limit: Duration,
) -> Result<Outcome> {
    let dir = scratch()?;
    batch(loader, machine, module, dir.path(), limit, Show::Nothing)
}

/// Runs `machine` with its serial ports in files in `dir`.
fn batch(
    loader: &Path,
    machine: &Machine,
    archive: Option<&Path>,
    dir: &Path,
    limit: Duration,
    show: Show,
) -> Result<Outcome> {
    let (com1, com2) = (dir.join("com1"), dir.join("com2"));
    let console = Console::Files {
        com1: &com1,
        com2: &com2,
    };
    let medium = Medium::prepare(machine, loader, archive, dir)?;
    let words = qemu::command_line(machine, &medium, console)?;
    if show == Show::Live {
        eprintln!("{}", qemu::shown(&words));
    }
    watch(&words, dir, medium.mark(), limit, show)
}

/// Builds everything, boots `machine`, and connects its shell to this terminal.
///
/// # Errors
/// As [`exec`].
pub fn interact(machine: &Machine) -> Result<ExitStatus> {
    setup::qemu()?;
    let built = build::all(&machine.toolchain, machine.faults)?;
    let dir = scratch()?;
    let archive = dir.path().join("archive.tar");
    archive::write(File::create(&archive)?, &built, machine, None)?;
    let medium = Medium::prepare(machine, &built.boot, Some(&archive), dir.path())?;
    let words = qemu::command_line(machine, &medium, Console::Terminal)?;
    eprintln!("{}", qemu::shown(&words));
    let (program, arguments) = words.split_first().context("an empty command line")?;
    let status = leash::command(program).args(arguments).status();
    status.with_context(|| format!("cannot run {program}"))
}

/// A folder for one run's files, removed at its end.
pub(crate) fn scratch() -> Result<tempfile::TempDir> {
    let parent = crate::target_dir().join("runs");
    std::fs::create_dir_all(&parent)?;
    Ok(tempfile::tempdir_in(parent)?)
}

/// Runs QEMU, whose serial ports are the files `com1` and `com2` in `dir`,
/// until it ends or `limit` passes. With a `mark` the commands' output begins
/// behind that byte.
fn watch(
    words: &[String],
    dir: &Path,
    mark: Option<u8>,
    limit: Duration,
    show: Show,
) -> Result<Outcome> {
    let (program, arguments) = words.split_first().context("an empty command line")?;
    let complaints = dir.join("stderr");
    let mut command = leash::command(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.stderr(File::create(&complaints)?);
    for port in ["com1", "com2"] {
        // QEMU makes them anew; until then there must be something to read.
        File::create(dir.join(port))?;
    }
    let live = show == Show::Live;
    let mut emulator = Tail::new(&complaints, None)?;
    let mut log = Tail::new(&dir.join("com1"), None)?;
    let mut output = Tail::new(&dir.join("com2"), mark)?;
    let deadline = Instant::now() + limit;
    let mut panicked: Option<Instant> = None;
    let mut child =
        leash::Child::spawn(&mut command).with_context(|| format!("cannot run {program}"))?;
    let status = child.wait(deadline, || {
        emulator.follow(live.then(io::stderr))?;
        output.follow(live.then(io::stdout))?;
        if log.follow(live.then(io::stderr))? && panicked.is_none() {
            panicked = panic_line(&log.text()).map(|_| Instant::now());
        }
        Ok(panicked.is_none_or(|since| since.elapsed() < PANIC_GRACE))
    })?;
    let text = format!("{}{}", emulator.text(), log.text());
    Ok(Outcome {
        end: End::judge(status, &log.text(), limit),
        output: output.bytes,
        log: text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Runs a shell script in QEMU's place.
    fn pretend(script: &str, limit: Duration) -> Result<Outcome> {
        let dir = tempfile::tempdir()?;
        let script = format!("cd {}\n{script}", dir.path().display());
        watch(
            &["sh".to_owned(), "-c".to_owned(), script],
            dir.path(),
            None,
            limit,
            Show::Nothing,
        )
    }

    #[test]
    fn output_and_log_come_back_apart_and_unchanged() -> Result<()> {
        let run = pretend(
            "printf 'a\\r\\n\\0b' > com2; echo booting > com1
             echo 'timehands: exit status 0' >> com1; exit 33",
            LIMIT,
        )?;
        assert_eq!(run.end, End::Success, "the end");
        assert_eq!(run.output, b"a\r\n\0b", "the output");
        assert_eq!(run.log, "booting\ntimehands: exit status 0\n", "the log");
        Ok(())
    }

    #[test]
    fn a_guest_that_hangs_is_ended_at_its_deadline() -> Result<()> {
        let limit = Duration::from_millis(200);
        let run = pretend("echo still here > com1; exec sleep 600", limit)?;
        assert_eq!(run.end, End::Hung(limit), "the end");
        assert_eq!(run.tail(), "still here", "what it had said");
        Ok(())
    }

    #[test]
    fn a_panic_does_not_wait_for_the_deadline() -> Result<()> {
        let run = pretend(
            "echo 'panic: at last' > com1; exec sleep 600",
            Duration::from_secs(600),
        )?;
        assert_eq!(run.end, End::Panic("at last".to_owned()), "the end");
        Ok(())
    }

    #[test]
    fn what_qemu_complains_about_is_in_the_log() -> Result<()> {
        let run = pretend("echo 'no such machine' >&2; exit 1", LIMIT)?;
        assert!(run.log.contains("no such machine"), "{:?}", run.log);
        assert!(matches!(run.end, End::Broken(_)), "{:?}", run.end);
        Ok(())
    }

    #[test]
    fn an_emulator_that_is_missing_is_an_error() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let run = watch(
            &["no-such-emulator".to_owned()],
            dir.path(),
            None,
            LIMIT,
            Show::Nothing,
        );
        // Through setpriv(1) it starts, and fails at once.
        let failed = run.map_or(true, |run| matches!(run.end, End::Broken(_)));
        assert!(failed, "nothing ran, and it looked fine");
        Ok(())
    }
}
