//! Every interleaving of two CPUs that exchange stamps, one of which may stop
//! waiting.
//!
//! Run with `RUSTFLAGS="--cfg loom"`; empty otherwise.

#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use timecounter::rendezvous::Exchange;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Two rounds. The leader must get the stamp of its own round.
fn rounds() {
    let exchange = Arc::new(Exchange::new());
    let follower = {
        let exchange = Arc::clone(&exchange);
        thread::spawn(move || {
            for round in 0..2 {
                let stamp = &mut || 100 + u64::from(round);
                exchange
                    .follow(round, stamp, &mut patience())
                    .expect("it is asked");
            }
        })
    };
    for round in 0..2 {
        let stamp = &mut || 0;
        let found = exchange
            .lead(round, stamp, &mut patience())
            .expect("it is answered");
        assert_eq!(found.there, 100 + u64::from(round), "round {round}");
    }
    follower.join().expect("the follower");
}

/// Waits for as long as it takes.
fn patience() -> impl FnMut() -> bool {
    || {
        thread::yield_now();
        true
    }
}

#[test]
fn the_leader_gets_the_stamp_of_its_own_round() {
    model(rounds);
}

#[test]
fn one_that_gives_up_leaves_no_round_half_done() {
    model(|| {
        let exchange = Arc::new(Exchange::new());
        let follower = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || exchange.follow(0, &mut || 2, &mut || false))
        };
        let patience = std::cell::Cell::new(2);
        let led = exchange.lead(0, &mut || 1, &mut || {
            thread::yield_now();
            patience.set(patience.get() - 1);
            patience.get() > 0
        });
        let followed = follower.join().expect("it ends");
        if let Ok(round) = led {
            assert_eq!(followed, Ok(()), "it was answered");
            assert_eq!(round.there, 2, "by the follower's stamp");
        }
        // Whoever comes later finds the end, or the next round.
        let late = exchange.follow(0, &mut || 3, &mut || false);
        assert!(late.is_err(), "that round is over");
    });
}
