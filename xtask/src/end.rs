//! How a guest ended.
//!
//! **Two signs, both required.** The guest announces its end on COM1 with one
//! line, `timehands: exit status N`, and then ends QEMU with a status of its
//! own. A guest that died early, was reset, or whose QEMU failed shows at most
//! one of the two, or two that disagree, and counts as broken. Silence does
//! too: every run has a deadline.

use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All commands succeeded.
    Success,
    /// At least one command failed.
    CommandFailed,
    /// The loader would not start the kernel; its message.
    Refused(String),
    /// The kernel panicked; its message.
    Panic(String),
    /// It was still running at the deadline, which was this long.
    Hung(Duration),
    /// It ended without the two signs of an orderly end; what was seen.
    Broken(String),
}

impl End {
    /// Judges a run by QEMU's status (`None`: we ended it) and the log.
    pub(crate) fn judge(status: Option<ExitStatus>, log: &str, limit: Duration) -> Self {
        if let Some(message) = panic_line(log) {
            return Self::Panic(message.to_owned());
        }
        let Some(status) = status else {
            return Self::Hung(limit);
        };
        // isa-debug-exit makes 2 * byte + 1 of the byte written: 0x10 success,
        // 0x11 a command failed, 0x12 panic, the loader's included.
        match (status.code(), sentinel(log)) {
            (Some(33), Some(0)) => Self::Success,
            (Some(35), Some(1)) => Self::CommandFailed,
            (Some(37), None) if let Some(message) = line(log, "boot: ") => {
                Self::Refused(message.to_owned())
            }
            (_, None) => Self::Broken(format!("no exit line in the log, and QEMU's {status}")),
            (_, Some(said)) => Self::Broken(format!("it said {said}, but QEMU's {status}")),
        }
    }

    /// `exec`'s exit status for this end.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::CommandFailed => 1,
            Self::Refused(_) | Self::Panic(_) | Self::Hung(_) | Self::Broken(_) => 3,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => write!(f, "all commands succeeded"),
            Self::CommandFailed => write!(f, "a command failed"),
            Self::Refused(message) => write!(f, "the loader stopped: {message}"),
            Self::Panic(message) => write!(f, "the guest panicked: {message}"),
            Self::Hung(limit) => write!(f, "the guest was not done after {} s", limit.as_secs()),
            Self::Broken(seen) => write!(f, "the guest did not end properly: {seen}"),
        }
    }
}

/// The status that the last exit line in a log announces.
fn sentinel(log: &str) -> Option<u8> {
    let lines = log.lines().rev();
    let said = lines.filter_map(|line| line.trim_end().strip_prefix("timehands: exit status "));
    said.filter_map(|status| status.parse().ok()).next()
}

/// What follows `prefix` in the first line of a log that starts with it.
fn line<'a>(log: &'a str, prefix: &str) -> Option<&'a str> {
    log.lines()
        // GRUB ends its lines with LF CR, so the next line begins with the CR.
        .map(|line| line.trim_start_matches('\r').trim_end())
        .find_map(|line| line.strip_prefix(prefix))
}

/// The message of the first panic in a log.
pub(crate) fn panic_line(log: &str) -> Option<&str> {
    line(log, "panic: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const LIMIT: Duration = Duration::from_secs(20);

    fn judge(code: i32, log: &str) -> End {
        End::judge(Some(ExitStatus::from_raw(code << 8)), log, LIMIT)
    }

    #[test]
    fn success_needs_the_line_and_the_status() {
        assert_eq!(
            judge(33, "x\r\ntimehands: exit status 0\r\n"),
            End::Success,
            "both"
        );
        for (code, log) in [
            (33, ""),
            (0, "timehands: exit status 0\n"),
            (33, "timehands: exit status 1\n"),
            (35, "timehands: exit status 0\n"),
            (1, ""),
        ] {
            let end = judge(code, log);
            assert!(
                matches!(end, End::Broken(_)),
                "status {code}, log {log:?}: {end:?}"
            );
            assert_eq!(end.exit_status(), 3, "status {code}, log {log:?}");
        }
    }

    #[test]
    fn a_failed_command_is_told_from_a_broken_guest() {
        let end = judge(35, "timehands: exit status 1\n");
        assert_eq!(end, End::CommandFailed, "line and status agree");
        assert_eq!(end.exit_status(), 1, "exec's status");
    }

    #[test]
    fn a_loader_that_stops_is_told_from_a_broken_guest() {
        let end = judge(37, "boot: no module\r\n");
        assert_eq!(end, End::Refused("no module".to_owned()), "its line");
        assert_eq!(end.exit_status(), 3, "exec's status");
        let end = judge(37, "Booting\n\rboot: no module\r\n");
        assert_eq!(end, End::Refused("no module".to_owned()), "behind GRUB's");
        let end = judge(0, "boot: no module\r\n");
        assert!(matches!(end, End::Broken(_)), "reset afterwards: {end:?}");
    }

    #[test]
    fn a_panic_wins_over_everything_else() {
        let end = judge(33, "panic: no HPET\ntimehands: exit status 0\n");
        assert_eq!(
            end,
            End::Panic("no HPET".to_owned()),
            "an orderly end after a panic"
        );
        let end = End::judge(None, "panic: x\n", LIMIT);
        assert_eq!(end, End::Panic("x".to_owned()), "a panic that then hung");
    }
}
