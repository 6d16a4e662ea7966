//! Child processes that outlive neither a deadline nor us.
//!
//! Three things end a child early: its deadline, an error here, and our own
//! death (Ctrl-C, a kill, a crash). The first two are ours to handle: [`Child`]
//! kills on drop and every wait takes a limit. For the third the kernel must
//! act, and asking it (`prctl(PR_SET_PDEATHSIG)`) has to happen between fork
//! and exec, which safe Rust does not offer. `setpriv --pdeathsig` from
//! util-linux does exactly that and then becomes the program, so a child is
//! started through it. Where it is missing, or we die in the milliseconds
//! before it has asked, only the first two protect.
//!
//! A batch child such as `cargo test` has children of its own. It is started
//! through coreutils' `timeout`, which puts the whole family into one process
//! group and ends it as one, at the deadline or when told to stop.

use std::ffi::OsStr;
use std::io;
use std::process::{self, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often a wait looks: short against the seconds a boot takes, long
/// against the cost of looking.
const POLL: Duration = Duration::from_millis(20);

/// A command that dies with us.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    leashed("KILL", &[], program.as_ref())
}

/// A command that dies with us, and with all its descendants at `limit`.
///
/// It ends with status 124 at the limit (see timeout(1)).
pub fn batch(program: impl AsRef<OsStr>, limit: Duration) -> Command {
    let seconds = limit.as_secs().max(1).to_string();
    let timeout = ["timeout", "--kill-after=10", &seconds];
    if find("timeout") {
        leashed("TERM", &timeout, program.as_ref())
    } else {
        command(program)
    }
}

/// Whether a status is that of a [`batch`] ended by its limit.
pub fn timed_out(status: ExitStatus) -> bool {
    // 137: timeout(1) itself had to kill.
    matches!(status.code(), Some(124 | 137))
}

/// Whether `program` is in one of the folders of `PATH`.
pub fn find(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn leashed(signal: &str, before: &[&str], program: &OsStr) -> Command {
    let mut words: Vec<&OsStr> = Vec::new();
    if find("setpriv") {
        words.extend(["setpriv", "--pdeathsig", signal, "--"].map(OsStr::new));
    }
    words.extend(before.iter().map(OsStr::new));
    words.push(program);
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words);
    command
}

/// A running child, killed on drop.
#[derive(Debug)]
pub struct Child {
    inner: process::Child,
}

impl Child {
    /// Starts `command`.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Self {
            inner: command.spawn()?,
        })
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Waits until the child ends or `deadline` passes; `None` then.
    ///
    /// `each` is called at every look, once more after the end, and ends the
    /// wait early by returning `false`.
    ///
    /// # Errors
    /// As [`process::Child::try_wait`], and what `each` reports.
    pub fn wait(
        &mut self,
        deadline: Instant,
        mut each: impl FnMut() -> io::Result<bool>,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            let ended = self.inner.try_wait()?;
            let go_on = each()?;
            if ended.is_some() {
                return Ok(ended);
            }
            if !go_on || Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only for a child that is already gone.
        let _ = self.inner.kill();
        let _ = self.inner.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> io::Result<Child> {
        Child::spawn(command("sleep").arg("600").stdout(process::Stdio::null()))
    }

    #[test]
    fn a_wait_ends_at_its_deadline() -> io::Result<()> {
        let mut child = sleeper()?;
        let status = child.wait(Instant::now() + POLL, || Ok(true))?;
        assert_eq!(status, None, "a sleeping child was reported as ended");
        Ok(())
    }

    #[test]
    fn a_wait_ends_when_its_watcher_has_seen_enough() -> io::Result<()> {
        let mut child = sleeper()?;
        let far = Instant::now() + Duration::from_secs(600);
        let status = child.wait(far, || Ok(false))?;
        assert_eq!(status, None, "a sleeping child was reported as ended");
        Ok(())
    }

    #[test]
    fn a_dropped_child_is_gone() -> io::Result<()> {
        let child = sleeper()?;
        let proc_entry = format!("/proc/{}", child.inner.id());
        assert!(std::path::Path::new(&proc_entry).exists(), "it never ran");
        drop(child);
        assert!(!std::path::Path::new(&proc_entry).exists(), "it still runs");
        Ok(())
    }

    /// Set in the process that plays the parent below.
    const PARENT: &str = "TIMEHANDS_LEASH_PARENT";

    /// Whether a process still runs; one that nobody has collected does not.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next());
        state.is_some_and(|state| state != "Z")
    }

    #[test]
    fn a_child_dies_with_a_parent_that_is_killed() -> io::Result<()> {
        if std::env::var_os(PARENT).is_some() {
            let child = sleeper()?;
            println!("\npid {}", child.inner.id());
            thread::sleep(Duration::from_secs(600));
        }
        let mut parent = Command::new(std::env::current_exe()?)
            .args(["--nocapture", "a_child_dies_with_a_parent_that_is_killed"])
            .env(PARENT, "1")
            .stdout(process::Stdio::piped())
            .spawn()?;
        let stdout = parent.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut lines = io::BufRead::lines(io::BufReader::new(stdout)).map_while(Result::ok);
        let pid = lines.find_map(|line| Some(line.strip_prefix("pid ")?.to_owned()));
        let pid = pid.ok_or(io::ErrorKind::UnexpectedEof)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        // Before that it is still setpriv, and may not have asked yet.
        while std::fs::read_to_string(format!("/proc/{pid}/comm"))?.trim() != "sleep" {
            assert!(Instant::now() < deadline, "the child never ran");
            thread::sleep(POLL);
        }
        parent.kill()?;
        parent.wait()?;
        while runs(&pid) {
            assert!(
                Instant::now() < deadline,
                "process {pid} outlived its parent"
            );
            thread::sleep(POLL);
        }
        Ok(())
    }

    #[test]
    fn a_batch_is_ended_at_its_limit() -> io::Result<()> {
        let status = batch("sleep", Duration::from_secs(1)).arg("600").status()?;
        assert!(timed_out(status), "ended with {status}");
        Ok(())
    }
}
