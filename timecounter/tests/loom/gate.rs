//! The gate before the writer.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use timecounter::gate::Gate;
use timecounter::sync::{Site, weaken};

use super::{fails, model};

fn only_one_is_inside() {
    let gate = Arc::new(Gate::new());
    let shared = Arc::new(AtomicU64::new(0));
    let inside = Arc::new(AtomicU64::new(0));
    let enter = {
        let (gate, shared, inside) = (gate.clone(), shared.clone(), inside.clone());
        move || {
            let Some(_pass) = gate.try_enter() else {
                return 0;
            };
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two inside");
            // What a windup does: load and store without a lock.
            let value = shared.load(Ordering::Relaxed);
            shared.store(value + 1, Ordering::Relaxed);
            inside.fetch_sub(1, Ordering::Relaxed);
            1
        }
    };
    let other = thread::spawn(enter.clone());
    let mine = enter() + enter();
    let all = mine + other.join().expect("other");
    assert_eq!(shared.load(Ordering::Relaxed), all, "a windup was lost");
}

#[test]
fn two_windups_never_run_at_once() {
    model(only_one_is_inside);
}

#[test]
fn a_windup_is_lost_if_the_gate_is_entered_relaxed() {
    weaken(Site::Enter);
    assert!(
        fails(only_one_is_inside),
        "the acquire is needed by no model"
    );
}

#[test]
fn a_windup_is_lost_if_the_gate_is_left_relaxed() {
    weaken(Site::Leave);
    assert!(
        fails(only_one_is_inside),
        "the release is needed by no model"
    );
}
