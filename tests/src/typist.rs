//! A guest whose shell is typed at.
//!
//! COM1 is a pair of pipes, so every byte gets through as it is; a terminal or
//! QEMU's own monitor on the same line would take some for themselves. A thread
//! keeps the guest's pipe empty, since a guest whose transmitter is stuck for
//! long gives its output up. After each
//! line the typist asks for help on a name that nothing has, and waits for the
//! answer: that the shell gives it, and the prompt behind it, shows that it
//! has come through the line before. What a terminal would merely echo never
//! looks like the answer.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xtask::leash::{self, Child};
use xtask::medium::Medium;
use xtask::opt::Machine;
use xtask::{archive, qemu};

use crate::built;

/// What the shell asks with.
const PROMPT: &str = "timehands> ";

/// A key without meaning: it ends an escape sequence or a character that a
/// line left unfinished, so that Enter is not taken for a part of it.
const NOTHING: u8 = 0x18;

/// What a terminal sends for Ctrl-C.
const CTRL_C: u8 = 0x03;

/// Longest that one line may take, programs included.
const PATIENCE: Duration = Duration::from_secs(60);

/// A booted guest at its prompt.
#[derive(Debug)]
pub struct Typist {
    guest: Child,
    keyboard: PipeWriter,
    screen: Receiver<Vec<u8>>,
    /// All that the guest has sent since the last line.
    seen: Vec<u8>,
    typed: usize,
    _files: TempDir,
}

impl Typist {
    /// Boots `machine` and waits for its prompt.
    ///
    /// # Errors
    /// Nothing could be built or booted, or no prompt appeared.
    pub fn boot(machine: &Machine) -> Result<Self> {
        let built = built(machine)?;
        let files = tempfile::tempdir()?;
        let ramdisk = files.path().join("archive.tar");
        archive::write(File::create(&ramdisk)?, built, machine, None)?;
        let medium = Medium::prepare(machine, &built.boot, Some(&ramdisk), files.path())?;
        let words = qemu::command_line(machine, &medium, qemu::Console::Pipes)?;
        let (program, arguments) = words.split_first().context("an empty command line")?;
        let (stdin, keyboard) = io::pipe()?;
        let (reader, stdout) = io::pipe()?;
        let mut command = leash::command(program);
        command.args(arguments).stdin(stdin).stdout(stdout);
        let guest = Child::spawn(&mut command)?;
        // Our ends of the guest's pipes, or the reader would never see an end.
        drop(command);
        let mut typist = Self {
            guest,
            keyboard,
            screen: drain(reader),
            seen: Vec::new(),
            typed: 0,
            _files: files,
        };
        typist.wait_for(PROMPT)?;
        Ok(typist)
    }

    /// Types `line` and Enter, and returns all that the guest sent until it
    /// asked for the next.
    ///
    /// # Errors
    /// The prompt did not return in time, or the guest panicked or ended; with
    /// the end of what it sent.
    pub fn line(&mut self, line: &[u8]) -> Result<String> {
        self.typed += 1;
        let name = format!("line-{}", self.typed);
        let mut bytes = line.to_vec();
        bytes.extend([NOTHING, b'\r']);
        bytes.extend(format!("help {name}\r").bytes());
        self.keyboard.write_all(&bytes)?;
        let sent = self.wait_for(&format!("help: {name}: not found\r\n{PROMPT}"))?;
        Ok(sent)
    }

    /// What a command prints, without echo and prompts.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn output(&mut self, command: &str) -> Result<String> {
        let sent = self.line(command.as_bytes())?;
        let behind_echo = sent.split_once('\n').map_or("", |(_, behind)| behind);
        let output = behind_echo.split(PROMPT).next().unwrap_or_default();
        Ok(output.replace("\r\n", "\n"))
    }

    /// Starts a program, waits until it has printed `sign`, types Ctrl-C, and
    /// returns what the guest sent until it asked for the next line.
    ///
    /// # Errors
    /// As [`line`](Self::line); so a program that Ctrl-C does not end is one.
    pub fn interrupt(&mut self, program: &str, sign: &str) -> Result<String> {
        self.keyboard.write_all(program.as_bytes())?;
        self.keyboard.write_all(b"\r")?;
        self.wait_for(sign)?;
        self.keyboard.write_all(&[CTRL_C])?;
        self.line(b"")
    }

    /// Stops the whole machine for a while, as a host does that has something
    /// else to do.
    ///
    /// # Errors
    /// QEMU is gone.
    pub fn stall(&mut self, time: Duration) -> Result<()> {
        let id = i32::try_from(self.guest.id())?;
        let qemu = Pid::from_raw(id).context("no process")?;
        kill_process(qemu, Signal::STOP)?;
        thread::sleep(time);
        Ok(kill_process(qemu, Signal::CONT)?)
    }

    /// Types `shutdown` and waits for the orderly end.
    ///
    /// # Errors
    /// The guest ended in another way, or not at all.
    pub fn shut_down(mut self) -> Result<()> {
        self.keyboard.write_all(b"shutdown\r")?;
        self.wait_for("timehands: exit status 0")?;
        let status = self.guest.wait(Instant::now() + PATIENCE, || Ok(true))?;
        let code = status.and_then(|status| status.code());
        ensure!(code == Some(33), "QEMU ended with {status:?}");
        Ok(())
    }

    /// Reads until the guest has sent `text`, and returns all up to there.
    fn wait_for(&mut self, text: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        self.seen.clear();
        loop {
            let sent = String::from_utf8_lossy(&self.seen);
            if sent.contains(text) {
                return Ok(sent.into_owned());
            }
            let tail: String = sent.chars().rev().take(600).collect();
            let tail: String = tail.chars().rev().collect();
            if sent.lines().any(|line| line.starts_with("panic: ")) {
                bail!("the guest panicked: {tail}");
            }
            if Instant::now() > deadline {
                bail!("no {text:?} after {PATIENCE:?}: {tail:?}");
            }
            match self.screen.recv_timeout(Duration::from_millis(200)) {
                Ok(piece) => self.seen.extend(piece),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the guest ended: {tail:?}"),
            }
        }
    }
}

/// Reads all that comes, until nobody can write any more.
fn drain(mut reader: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            let bytes = piece.iter().take(length).copied().collect();
            if sender.send(bytes).is_err() {
                return;
            }
        }
    });
    receiver
}
