//! Real threads that wind up, read, change the counter, step the clock and switch
//! user reads all at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use timecounter::kind::Kind;
use timecounter::page::TimehandsPage;
use timecounter::{Clock, Timecounter, UserCounter};

use super::*;

/// A counter that the host's monotonic clock turns.
#[derive(Debug)]
struct Turned {
    name: &'static str,
    frequency: u64,
    mask: u64,
    quality: i32,
    origin: Instant,
}

impl Timecounter for Turned {
    fn name(&self) -> &'static str {
        self.name
    }
    fn frequency(&self) -> u64 {
        self.frequency
    }
    fn mask(&self) -> u64 {
        self.mask
    }
    fn quality(&self) -> i32 {
        self.quality
    }
    fn read(&self) -> u64 {
        let counts = self.origin.elapsed().as_nanos() * u128::from(self.frequency);
        (counts / 1_000_000_000) as u64 & self.mask
    }
    fn user_counter(&self) -> UserCounter {
        if self.name == "TSC" {
            UserCounter::Tsc
        } else {
            UserCounter::None
        }
    }
}

/// A clock on a TSC and a HPET that run.
fn running() -> &'static Clock {
    let page = Box::leak(Box::new(TimehandsPage::new()));
    let clock: &'static Clock = Box::leak(Box::new(Clock::new(page)));
    let origin = Instant::now();
    for (name, frequency, width, quality) in [
        ("TSC", 2_400_000_000, 64, 1000),
        ("HPET", 100_000_000, 32, 950),
    ] {
        let counter = Box::leak(Box::new(Turned {
            name,
            frequency,
            mask: u64::MAX >> (64 - width),
            quality,
            origin,
        }));
        clock.register(counter).expect("a sound counter");
        clock
            .settle(&mut thread::yield_now)
            .expect("the best is fit");
    }
    clock
}

/// What the kernel and programs see of the counter's way in the current segment.
fn current_kind(clock: &Clock) -> Kind {
    let ring = clock.page().ring();
    Kind::from_word(ring.slot(ring.current()).kind())
}

#[test]
fn no_update_is_lost_among_windups_on_several_cpus() {
    let clock = running();
    let told = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let going = || !done.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while going() {
                    clock.windup();
                    thread::sleep(Duration::from_micros(200));
                }
            });
            scope.spawn(|| {
                while going() {
                    let before = told.load(Ordering::SeqCst);
                    let now = clock.monotonic_ns();
                    assert!(now >= before, "{before} was told before {now}");
                    told.fetch_max(now, Ordering::SeqCst);
                }
            });
        }
        let chooser = scope.spawn(|| {
            for name in ["HPET", "TSC"].repeat(40) {
                clock
                    .choose(name, &mut thread::yield_now)
                    .expect("both run at their rates");
                let active = clock.active().map_or("none", |active| active.name());
                assert_eq!(active, name, "the change is made");
            }
        });
        let setter = scope.spawn(|| {
            for round in 0..80 {
                let time = Timespec {
                    sec: 1_700_000_000 + 1_000 * round,
                    nsec: 0,
                };
                let before = clock.monotonic().to_ns();
                clock.setclock(time, &mut thread::yield_now);
                // What was asked for, as of some moment of the call.
                let real = clock.realtime().to_ns();
                let after = clock.monotonic().to_ns();
                let since = real - time.to_ns();
                assert!(
                    (0..=after - before).contains(&since),
                    "round {round}: {since} ns since, the call took {}",
                    after - before
                );
            }
        });
        let switcher = scope.spawn(|| {
            for enabled in [false, true].repeat(2_000) {
                clock.set_user_enabled(enabled);
                let kind = current_kind(clock);
                let tsc = clock.registry().find("TSC").map(|tsc| tsc.index());
                if tsc == Some(kind.index()) {
                    assert_eq!(kind.user() == UserCounter::Tsc, enabled, "at once");
                }
                thread::yield_now();
            }
        });
        let all = [chooser, setter, switcher].map(thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Relaxed);
        assert!(all.iter().all(Result::is_ok), "an update was lost");
    });
}

#[test]
fn a_writer_held_for_a_second_turns_others_away_and_is_counted_late() {
    let clock = running();
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stores = 0;
            // Until a windup publishes.
            while !inside.load(Ordering::SeqCst) {
                stores = 0;
                clock.windup_until(&mut || {
                    stores += 1;
                    if stores == 4 {
                        inside.store(true, Ordering::SeqCst);
                        thread::sleep(Duration::from_secs(1));
                    }
                    true
                });
            }
            assert!(stores > 4, "it went on");
        });
        while !inside.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let start = clock.monotonic_ns();
        let mut told = start;
        let mut turned_away = 0;
        while told < start + SECOND / 2 {
            turned_away += u32::from(clock.windup() == Windup::Busy);
            let now = clock.monotonic_ns();
            assert!(now >= told, "{told} was told before {now}");
            told = now;
        }
        assert!(turned_away > 0, "nobody waits for the one inside");
    });
    let late = clock.statistics().late_publications();
    let before = clock.monotonic_ns();
    let found = clock.windup();
    assert!(matches!(found, Windup::Late(_)), "{found:?}");
    assert!(clock.monotonic_ns() >= before, "nor back behind it");
    assert!(
        clock.statistics().late_publications() > late,
        "it is counted"
    );
}
