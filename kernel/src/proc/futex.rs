//! Who waits for a futex, in the order they came.
//!
//! A futex is a 32-bit word of a program's memory; it is named by the process
//! and the word's address, since no two processes share memory that they can
//! write. A thread that waits names some of 32 bits; who wakes names bits too,
//! and wakes only those with one in common. Plain waits name all of them.
//!
//! **No lost wake-up.** A thread joins the list first and compares the word
//! with what it expects after that. Who changes the word does so before waking.
//! So either the comparison sees the change, or the wake finds the thread in
//! the list. A thread that finds its word changed leaves again; if somebody has
//! woken it in between, that wake is its own and it says so, or another thread
//! would have been woken in its place.
//!
//! One list serves all words: there are at most as many waiters as threads,
//! some hundreds, and a walk over them is a few microseconds.

use alloc::collections::VecDeque;

/// All 32 bits.
pub const ANY: u32 = u32::MAX;

/// Names a futex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The process.
    pub pid: u32,
    /// Address of the word there.
    pub address: u64,
}

#[derive(Debug)]
struct Waiter {
    tid: u32,
    key: Key,
    bits: u32,
}

/// The threads that wait, first come first.
#[derive(Debug, Default)]
pub struct Waiters {
    list: VecDeque<Waiter>,
}

impl Waiters {
    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            list: VecDeque::new(),
        }
    }

    /// The thread `tid`, which must not wait already, waits for `key` with
    /// `bits`.
    pub fn join(&mut self, tid: u32, key: Key, bits: u32) {
        self.list.push_back(Waiter { tid, key, bits });
    }

    /// Takes out the first thread that waits for `key` with one of `bits`.
    pub fn wake(&mut self, key: Key, bits: u32) -> Option<u32> {
        let at = self
            .list
            .iter()
            .position(|waiter| waiter.key == key && waiter.bits & bits != 0)?;
        Some(self.list.remove(at)?.tid)
    }

    /// Whether the thread `tid` waits.
    #[must_use]
    pub fn contains(&self, tid: u32) -> bool {
        self.list.iter().any(|waiter| waiter.tid == tid)
    }

    /// Takes out the thread `tid`; false if it does not wait (any more).
    pub fn leave(&mut self, tid: u32) -> bool {
        match self.list.iter().position(|waiter| waiter.tid == tid) {
            Some(at) => self.list.remove(at).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const HERE: Key = Key {
        pid: 1,
        address: 0x1000,
    };

    fn woken(waiters: &mut Waiters, key: Key, bits: u32, most: usize) -> Vec<u32> {
        std::iter::from_fn(|| waiters.wake(key, bits))
            .take(most)
            .collect()
    }

    #[test]
    fn threads_are_woken_in_the_order_they_came() {
        let mut waiters = Waiters::new();
        for tid in [5, 3, 9, 4] {
            waiters.join(tid, HERE, ANY);
        }
        assert_eq!(woken(&mut waiters, HERE, ANY, 1), [5], "one");
        assert_eq!(woken(&mut waiters, HERE, ANY, 2), [3, 9], "the next two");
        assert_eq!(woken(&mut waiters, HERE, ANY, 9), [4], "all there are");
        assert_eq!(waiters.wake(HERE, ANY), None, "nobody is left");
    }

    #[test]
    fn the_same_address_in_another_process_is_another_futex() {
        let mut waiters = Waiters::new();
        waiters.join(7, HERE, ANY);
        for key in [
            Key { pid: 2, ..HERE },
            Key {
                address: 0x1004,
                ..HERE
            },
        ] {
            assert_eq!(waiters.wake(key, ANY), None, "{key:?}");
        }
        assert_eq!(waiters.wake(HERE, ANY), Some(7), "its own");
    }

    #[test]
    fn only_threads_with_a_bit_in_common_are_woken() {
        let mut waiters = Waiters::new();
        waiters.join(1, HERE, 0b0011);
        waiters.join(2, HERE, 0b0110);
        waiters.join(3, HERE, 0b1000);
        assert_eq!(woken(&mut waiters, HERE, 0b0100, 9), [2], "bit 2");
        assert_eq!(woken(&mut waiters, HERE, 0b1001, 9), [1, 3], "bits 0, 3");
    }

    #[test]
    fn a_thread_leaves_once_and_is_not_woken_then() {
        let mut waiters = Waiters::new();
        waiters.join(1, HERE, ANY);
        waiters.join(2, HERE, ANY);
        assert!(waiters.contains(1), "it waits");
        assert!(waiters.leave(1), "it waits");
        assert!(!waiters.contains(1), "it does not any more");
        assert!(!waiters.leave(1), "it does not any more");
        assert_eq!(waiters.wake(HERE, ANY), Some(2), "the other");
        assert!(!waiters.leave(2), "woken before");
    }
}
