//! Whether what a reader copies is one slot's, and not an older one than before.

use loom::thread;
use timecounter::reader;
use timecounter::ring::Payload;
use timecounter::sync::{Site, weaken};

use super::world::{LAP, SLOW, TSC, Words, World, segments};
use super::{fails, model};

fn a_snapshot_is_whole() {
    let world = World::new();
    let writer = {
        let world = world.clone();
        thread::spawn(move || {
            for segment in &segments(SLOW, LAP)[1..] {
                world.ring.publish(TSC.word(), segment);
            }
        })
    };
    let seen = reader::consistent(&world.ring, Words::load);
    assert!(segments(SLOW, LAP).contains(&seen), "torn: {seen:?}");
    writer.join().expect("writer");
}

#[test]
fn every_snapshot_is_whole() {
    model(a_snapshot_is_whole);
}

#[test]
fn a_snapshot_tears_without_the_fence_behind_the_mark() {
    weaken(Site::Mark);
    assert!(fails(a_snapshot_is_whole), "W1 is needed by no model");
}

#[test]
fn a_snapshot_tears_without_the_fence_behind_the_fields() {
    weaken(Site::Accept);
    assert!(fails(a_snapshot_is_whole), "R2 is needed by no model");
}

#[test]
fn a_snapshot_tears_if_current_is_stored_relaxed() {
    weaken(Site::Publish);
    assert!(fails(a_snapshot_is_whole), "W2 is needed by no model");
}

#[test]
fn a_snapshot_tears_if_current_is_loaded_relaxed() {
    weaken(Site::Current);
    assert!(fails(a_snapshot_is_whole), "R1 is needed by no model");
}

#[test]
fn no_reader_uses_an_older_state_after_a_newer_one() {
    model(|| {
        let world = World::new();
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                for segment in &segments(SLOW, LAP)[1..] {
                    world.ring.publish(TSC.word(), segment);
                }
            })
        };
        let first = reader::consistent(&world.ring, Words::load);
        let second = reader::consistent(&world.ring, Words::load);
        assert!(second.start >= first.start, "{first:?} then {second:?}");
        writer.join().expect("writer");
    });
}
