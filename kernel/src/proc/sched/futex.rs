//! Waiting for a futex, and waking.

use super::turns::{Leave, switch_to};
use super::{Scheduler, State, here, with};
use crate::proc::futex::Key;
use crate::proc::timeouts::{Deadline, Now};
use crate::sync::without_interrupts;
use crate::time;

/// How a wait came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Somebody has woken the thread.
    Woken,
    /// The word was not as expected.
    Changed,
    /// The deadline has passed.
    TimedOut,
    /// The process has ended.
    Ending,
}

impl Scheduler {
    /// Takes the thread `tid` off the lists of its wait; false if somebody has
    /// woken it before.
    fn leave_wait(&mut self, tid: u32) -> bool {
        self.timeouts.remove(tid);
        self.waiters.leave(tid)
    }
}

fn now() -> Now {
    let realtime = time::realtime();
    let seconds = u64::try_from(realtime.sec).unwrap_or(0);
    Now {
        monotonic: time::clock().monotonic_ns(),
        realtime: seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(realtime.nsec)),
    }
}

/// The thread `tid`, which is running, waits for `key` with `bits` until
/// `deadline`, if `is_as_expected` says so; it may fail.
///
/// The thread is on the list when the word is looked at
/// ([`crate::proc::futex`] tells why), and no lock is held then.
///
/// # Errors
///
/// Those of `is_as_expected`.
pub fn wait_on<E>(
    tid: u32,
    key: Key,
    bits: u32,
    deadline: Option<Deadline>,
    is_as_expected: impl FnOnce() -> Result<bool, E>,
) -> Result<Waited, E> {
    with(|scheduler| {
        scheduler.waiters.join(tid, key, bits);
        if let Some(entry) = scheduler.threads.get_mut(&tid) {
            entry.timed_out = false;
        }
    });
    match is_as_expected() {
        Ok(true) => Ok(block(tid, deadline)),
        Ok(false) => Ok(match with(|scheduler| scheduler.leave_wait(tid)) {
            true => Waited::Changed,
            false => Waited::Woken,
        }),
        Err(error) => {
            with(|scheduler| scheduler.leave_wait(tid));
            Err(error)
        }
    }
}

/// Gives the processor up until the thread `tid` is off the list.
fn block(tid: u32, deadline: Option<Deadline>) -> Waited {
    without_interrupts(|| {
        let (cpu, _) = here();
        let now = now();
        let next = with(|scheduler| {
            let entry = scheduler.threads.get_mut(&tid)?;
            // Whoever ends the process from here on finds it waiting.
            if !scheduler.waiters.contains(tid) || entry.task.process.is_ending() {
                return None;
            }
            match deadline {
                Some(deadline) if deadline.is_past(now) => {
                    entry.timed_out = true;
                    return None;
                }
                Some(deadline) => scheduler.timeouts.add(tid, deadline),
                None => {}
            }
            Some(scheduler.turn(cpu, Leave::Waiting))
        });
        if let Some(next) = next {
            switch_to(next);
        }
    });
    with(|scheduler| {
        let timed_out = scheduler
            .threads
            .get(&tid)
            .is_some_and(|entry| entry.timed_out);
        match (scheduler.leave_wait(tid), timed_out) {
            (_, true) => Waited::TimedOut,
            (true, false) => Waited::Ending,
            (false, false) => Waited::Woken,
        }
    })
}

/// Wakes up to `most` threads that wait for `key` with one of `bits`, and says
/// how many it were.
pub fn wake(key: Key, bits: u32, most: usize) -> usize {
    with(|scheduler| {
        let mut woken = 0;
        while woken < most
            && let Some(tid) = scheduler.waiters.wake(key, bits)
        {
            scheduler.timeouts.remove(tid);
            scheduler.make_ready(tid);
            woken += 1;
        }
        woken
    })
}

/// Ends the waits whose deadlines have passed.
pub(super) fn expire() {
    with(|scheduler| {
        if scheduler.timeouts.is_empty() {
            return;
        }
        let now = now();
        while let Some(tid) = scheduler.timeouts.due(now) {
            scheduler.waiters.leave(tid);
            if let Some(entry) = scheduler.threads.get_mut(&tid)
                && entry.state == State::Waiting
            {
                entry.timed_out = true;
            }
            scheduler.make_ready(tid);
        }
    });
}
