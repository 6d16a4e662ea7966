//! Clock numbers of CPU-time clocks.
//!
//! Two have numbers of their own: CLOCK_PROCESS_CPUTIME_ID and
//! CLOCK_THREAD_CPUTIME_ID, of whoever asks. Any other process's or thread's
//! has a negative number (Linux's `include/linux/posix-timers_types.h`), which
//! `clock_getcpuclockid` and `pthread_getcpuclockid` make:
//!
//! | bits | meaning |
//! |---|---|
//! | 3 to 31 | the complement of the process's or thread's number; 0 is oneself |
//! | 2 | a thread's clock |
//! | 0, 1 | 0 all time, 1 the program's own, 2 what the scheduler counts; 3 is no CPU time |
//!
//! This kernel counts one time, from switch to switch, and shows it for all
//! three.

/// CLOCK_PROCESS_CPUTIME_ID.
const PROCESS: i32 = 2;
/// CLOCK_THREAD_CPUTIME_ID.
const THREAD: i32 = 3;

/// Whose CPU time a clock shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuClock {
    /// The process's with this number; 0 is the caller's own.
    Process(u32),
    /// The thread's with this number; 0 is the caller.
    Thread(u32),
}

/// The CPU-time clock with this number, if it is one. Whether its process or
/// thread exists is another question.
#[must_use]
pub const fn decode(clock: i32) -> Option<CpuClock> {
    if clock == PROCESS {
        return Some(CpuClock::Process(0));
    }
    if clock == THREAD {
        return Some(CpuClock::Thread(0));
    }
    if clock >= 0 || clock & 3 == 3 {
        return None;
    }
    // The sign comes along, so that the complement is not negative.
    let number = (!(clock >> 3)).cast_unsigned();
    Some(if clock & 4 == 0 {
        CpuClock::Process(number)
    } else {
        CpuClock::Thread(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's `MAKE_PROCESS_CPUCLOCK` and `MAKE_THREAD_CPUCLOCK`.
    fn encode(number: u32, kind: i32, thread: bool) -> i32 {
        (!number.cast_signed() << 3) | kind | if thread { 4 } else { 0 }
    }

    #[test]
    fn every_encoded_number_comes_back() {
        for number in [0, 1, 2, 4711, (1 << 22) - 1, (1 << 28) - 1] {
            for kind in 0..3 {
                assert_eq!(
                    decode(encode(number, kind, false)),
                    Some(CpuClock::Process(number)),
                    "process {number}, type {kind}"
                );
                assert_eq!(
                    decode(encode(number, kind, true)),
                    Some(CpuClock::Thread(number)),
                    "thread {number}, type {kind}"
                );
            }
            for thread in [false, true] {
                assert_eq!(
                    decode(encode(number, 3, thread)),
                    None,
                    "type 3 is a descriptor's clock"
                );
            }
        }
    }

    #[test]
    fn only_two_clocks_without_a_sign_are_cpu_time() {
        for clock in 0..=64 {
            let expected = match clock {
                2 => Some(CpuClock::Process(0)),
                3 => Some(CpuClock::Thread(0)),
                _ => None,
            };
            assert_eq!(decode(clock), expected, "clock {clock}");
        }
        assert_eq!(decode(-6), Some(CpuClock::Process(0)), "oneself, encoded");
        assert_eq!(decode(-2), Some(CpuClock::Thread(0)), "oneself, encoded");
        assert_eq!(decode(i32::MAX), None, "the largest");
        assert_eq!(
            decode(i32::MIN),
            Some(CpuClock::Process((1 << 28) - 1)),
            "the smallest is an encoded one"
        );
    }
}
