//! Values as `sysctl` prints them.

use alloc::string::String;
use core::fmt;

/// The value of a node, by the type that FreeBSD gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `int`.
    Int(i32),
    /// `int64_t`.
    I64(i64),
    /// `uint64_t`; also where FreeBSD has 32 bits and our counters have more.
    U64(u64),
    /// A string.
    Text(String),
    /// `struct timeval`: a point in UTC.
    Timeval {
        /// Seconds since 1970.
        sec: i64,
        /// Microseconds, 0 to 999999.
        usec: u32,
    },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::U64(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Timeval { sec, usec } => {
                write!(f, "{{ sec = {sec}, usec = {usec} }} ")?;
                ctime(*sec, f)
            }
        }
    }
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Writes a point in UTC as `ctime(3)` does, `Thu Jan  1 00:00:00 1970`. A
/// point whose year does not fit the calendar (some 1.4 million years either
/// way) is shown as the calendar's last.
fn ctime(sec: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sec = sec.clamp(datealgo::RD_SECONDS_MIN, datealgo::RD_SECONDS_MAX);
    let (year, month, day, hour, minute, second) = datealgo::secs_to_datetime(sec);
    let weekday = datealgo::date_to_weekday((year, month, day));
    let name = |names: &'static [&'static str], number: u8| {
        // Both calendars of names count from one.
        names
            .get(usize::from(number).wrapping_sub(1))
            .copied()
            .unwrap_or("???")
    };
    write!(
        f,
        "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
        name(&DAYS, weekday),
        name(&MONTHS, month),
    )
}

#[cfg(test)]
mod tests {
    use super::Value;
    use alloc::string::ToString;

    #[test]
    fn a_timeval_is_printed_as_sysctl_prints_it() {
        for (sec, usec, text) in [
            (0, 0, "{ sec = 0, usec = 0 } Thu Jan  1 00:00:00 1970"),
            (
                1_600_000_000,
                123_456,
                "{ sec = 1600000000, usec = 123456 } Sun Sep 13 12:26:40 2020",
            ),
            (
                951_782_400,
                7,
                "{ sec = 951782400, usec = 7 } Tue Feb 29 00:00:00 2000",
            ),
            (
                4_102_444_799,
                999_999,
                "{ sec = 4102444799, usec = 999999 } Thu Dec 31 23:59:59 2099",
            ),
            (-1, 0, "{ sec = -1, usec = 0 } Wed Dec 31 23:59:59 1969"),
        ] {
            assert_eq!(Value::Timeval { sec, usec }.to_string(), text, "at {sec}");
        }
    }

    #[test]
    fn a_date_beyond_the_calendar_is_still_printed() {
        for sec in [i64::MIN, i64::MAX] {
            let text = Value::Timeval { sec, usec: 0 }.to_string();
            assert!(
                text.starts_with(&alloc::format!("{{ sec = {sec}, usec = 0 }} ")),
                "unexpected form: {text}"
            );
        }
    }
}
