//! What `sysctl` and `syscall_timing` print, read back from a run's output.

/// The values that `sysctl NAME` printed, in order; writes are not among them.
pub fn values<'a>(output: &'a str, name: &str) -> Vec<&'a str> {
    let lines = output.lines();
    let values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    values.filter(|value| !value.contains(" -> ")).collect()
}

/// A row of `syscall_timing`: `test loop time iterations periteration`, with a
/// tab between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// What was called.
    pub test: &'a str,
    /// Number of the row, from 0.
    pub number: u64,
    /// Nanoseconds that all calls took.
    pub time: u64,
    /// Calls made.
    pub iterations: u64,
    /// Nanoseconds a call.
    pub each: u64,
}

impl<'a> Row<'a> {
    /// Reads a line; `None` if it is no row to the letter.
    pub fn parse(line: &'a str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [test, number, time, iterations, each] = columns[..] else {
            return None;
        };
        Some(Self {
            test,
            number: number.parse().ok()?,
            time: seconds(time)?,
            iterations: iterations.parse().ok()?,
            each: seconds(each)?,
        })
    }

    /// All rows in an output, in order.
    pub fn all(output: &'a str) -> Vec<Self> {
        output.lines().filter_map(Self::parse).collect()
    }
}

/// Nanoseconds of `S.NNNNNNNNN`, all nine digits.
pub fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    if fraction.len() != 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_no_value() {
        let output = "kern.hz: 100\nkern.hz: 100 -> 200\nkern.hzz: 1\nkern.hz: 200\n";
        assert_eq!(values(output, "kern.hz"), ["100", "200"], "both reads");
    }

    #[test]
    fn only_a_row_to_the_letter_is_one() {
        let row = Row::parse("getuid\t1\t1.000000908\t3349446\t0.000000298");
        let want = Row {
            test: "getuid",
            number: 1,
            time: 1_000_000_908,
            iterations: 3_349_446,
            each: 298,
        };
        assert_eq!(row, Some(want), "a row");
        for line in [
            "test\tloop\ttime\titerations\tperiteration",
            "getuid\t1\t1.000000908\t3349446\t0.298",
            "getuid 1 1.000000908 3349446 0.000000298",
            "getuid\t1\t1.000000908\t3349446\t0.000000298\t",
        ] {
            assert_eq!(Row::parse(line), None, "{line}");
        }
    }
}
