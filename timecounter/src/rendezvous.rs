//! Two CPUs that take stamps in turn, to find out how their counters stand to each
//! other.
//!
//! # Method
//!
//! In each round the *leader* takes a stamp, asks, and takes another when it has
//! the answer; the *follower* takes one in between. What is known for certain of
//! the follower's stamp is that it lies between the leader's two.
//!
//! One word holds whose turn it is: twice the round while nobody has asked, one
//! more when the leader has, two more when the follower has answered, which is the
//! next round's beginning. Whoever has waited long enough stores the end mark
//! there, and then neither side can go on: a partner that comes late finds it and
//! leaves, and disturbs nothing later, for an exchange is used once.
//!
//! # Limits
//!
//! What `wait` counts is the caller's business. The time of a round is that of two
//! cache-line transfers, more where a CPU is put aside; only the shortest rounds
//! tell much.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// One side has given up.
const OVER: u32 = u32::MAX;

/// Rounds that one exchange is good for.
pub const MAX_ROUNDS: u32 = OVER / 2 - 1;

/// The two words that both CPUs share.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Exchange {
    turn: AtomicU32,
    stamp: AtomicU64,
}

/// The stamps of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The leader's before it asked.
    pub before: u64,
    /// The follower's.
    pub there: u64,
    /// The leader's after it was answered.
    pub after: u64,
}

/// The partner did not come, or has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone;

impl Exchange {
    /// An exchange in which nobody has asked.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            turn: AtomicU32::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// See the form for production.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            turn: AtomicU32::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// The leader's side of a round, counted from 0. `stamp` reads the counter in
    /// order; `wait` is called while waiting, and gives up with `false`.
    ///
    /// # Errors
    ///
    /// [`Alone`]; so are all later rounds of both sides.
    pub fn lead(
        &self,
        round: u32,
        stamp: &mut impl FnMut() -> u64,
        wait: &mut impl FnMut() -> bool,
    ) -> Result<Round, Alone> {
        let asked = round.min(MAX_ROUNDS) * 2 + 1;
        let before = stamp();
        self.pass(asked - 1, asked)?;
        loop {
            match self.turn.load(Ordering::Acquire) {
                OVER => return Err(Alone),
                turn if turn != asked => break,
                _ if wait() => {}
                _ => return self.give_up(),
            }
        }
        let after = stamp();
        Ok(Round {
            before,
            there: self.stamp.load(Ordering::Relaxed),
            after,
        })
    }

    /// The follower's side of the same round.
    ///
    /// # Errors
    ///
    /// [`Alone`]; so are all later rounds of both sides.
    pub fn follow(
        &self,
        round: u32,
        stamp: &mut impl FnMut() -> u64,
        wait: &mut impl FnMut() -> bool,
    ) -> Result<(), Alone> {
        let asked = round.min(MAX_ROUNDS) * 2 + 1;
        loop {
            match self.turn.load(Ordering::Acquire) {
                OVER => return Err(Alone),
                turn if turn == asked => break,
                _ if wait() => {}
                _ => return self.give_up(),
            }
        }
        self.stamp.store(stamp(), Ordering::Relaxed);
        self.pass(asked, asked + 1)
    }

    /// Hands the turn on, unless the other side has given up. Its release pairs with
    /// the acquiring looks at the turn: who finds it his finds the stamp too.
    fn pass(&self, from: u32, to: u32) -> Result<(), Alone> {
        self.turn
            .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| Alone)
    }

    fn give_up<T>(&self) -> Result<T, Alone> {
        self.turn.store(OVER, Ordering::Relaxed);
        Err(Alone)
    }
}

#[cfg(not(loom))]
impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Alone, Exchange};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_partner_s_stamp_lies_between_the_leader_s() {
        let exchange = Exchange::new();
        let clock = AtomicU64::new(0);
        let stamp = || clock.fetch_add(1, Ordering::SeqCst);
        let wait = || {
            std::thread::yield_now();
            true
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..1_000 {
                    let answered = exchange.follow(round, &mut { stamp }, &mut { wait });
                    assert_eq!(answered, Ok(()), "round {round}");
                }
            });
            for round in 0..1_000 {
                let found = exchange.lead(round, &mut { stamp }, &mut { wait });
                let found = found.expect("the follower answers");
                assert!(
                    found.before < found.there && found.there < found.after,
                    "{found:?}"
                );
            }
        });
    }

    #[test]
    fn who_waits_in_vain_ends_it_for_both() {
        let never = &mut || false;
        let stamp = &mut || 7;
        let exchange = Exchange::new();
        assert_eq!(exchange.lead(0, stamp, never), Err(Alone), "nobody answers");
        assert_eq!(exchange.follow(0, stamp, never), Err(Alone), "too late");
        assert_eq!(exchange.lead(1, stamp, never), Err(Alone), "for good");
        let exchange = Exchange::new();
        assert_eq!(exchange.follow(0, stamp, never), Err(Alone), "nobody asks");
        assert_eq!(exchange.lead(0, stamp, never), Err(Alone), "too late");
    }
}
