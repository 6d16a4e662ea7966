//! Counting what test programs report.
//!
//! Both libtest and libtest-mimic end with a line such as
//! `test result: ok. 12 passed; 0 failed; 1 ignored; ...`. The sum of those
//! lines is the result, with one addition: a program that ends badly without
//! having reported a failure (a crash, a build error, its deadline) counts as
//! one failure, so that nothing broken can look green.

use std::fmt;

/// How many tests passed, failed, and were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that said they cannot run here.
    pub skipped: u64,
}

impl Tally {
    /// One test's worth of failure.
    pub const FAILURE: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
    };

    /// Reads one line of a test program's output, if it is a result line.
    pub fn from_line(line: &str) -> Option<Self> {
        let counts = line.trim().strip_prefix("test result: ")?;
        let mut tally = Self::default();
        for part in counts.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            match what {
                "passed" => tally.passed = number,
                "failed" => tally.failed = number,
                "ignored" => tally.skipped = number,
                _ => {}
            }
        }
        Some(tally)
    }

    /// Adds another sum to this one.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds what a runner counted, and a failure if it ended badly without
    /// having counted one.
    pub fn add_run(&mut self, counted: Self, ended_well: bool) {
        self.add(counted);
        if !ended_well && counted.failed == 0 {
            self.add(Self::FAILURE);
        }
    }

    /// Whether nothing failed and something passed.
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 7 measured; \
                    4 filtered out; finished in 0.01s";
        let want = Tally {
            passed: 3,
            failed: 2,
            skipped: 1,
        };
        assert_eq!(Tally::from_line(line), Some(want), "{line}");
    }

    #[test]
    fn other_lines_are_not_counted() {
        for line in [
            "running 3 tests",
            "test a_test ... ok",
            "3 passed; 1 failed",
        ] {
            assert_eq!(Tally::from_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_runner_that_dies_silently_is_a_failure() {
        let mut tally = Tally::default();
        tally.add_run(
            Tally {
                passed: 5,
                ..Tally::default()
            },
            false,
        );
        assert_eq!(tally.failed, 1, "its status said so");
        assert!(!tally.is_success(), "five earlier passes hid it");
    }

    #[test]
    fn a_reported_failure_is_counted_once() {
        let mut tally = Tally::default();
        tally.add_run(
            Tally {
                failed: 2,
                ..Tally::default()
            },
            false,
        );
        assert_eq!(tally.failed, 2, "the bad status is the two failures'");
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!Tally::default().is_success(), "an empty run looked green");
    }

    #[test]
    fn the_closing_line_mentions_skips_only_when_there_are_any() {
        let mut tally = Tally {
            passed: 2,
            ..Tally::default()
        };
        assert_eq!(tally.to_string(), "2 passed, 0 failed", "no skips");
        tally.skipped = 1;
        assert_eq!(tally.to_string(), "2 passed, 0 failed, 1 skipped", "a skip");
    }
}
