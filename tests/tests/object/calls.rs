//! What the object's functions return, called in this process.
//!
//! Where the counter stands still, the answer is one number: a page of the
//! object tells its time by the HPET, whose registers are a page of this process.
//! Where it is the TSC, the answer lies between two reads of the same page.

use core::sync::atomic::Ordering;

use rustix::time::{ClockId as HostClock, clock_gettime};
use timecounter::kind::Kind;
use timecounter::page::Timehands;
use timecounter::reader::{Counters, Halves};
use timecounter::{Bintime, Timespec, UserCounter};
use user::abi::{ClockId, Errno};
use user::load::Object;
use vdso::clock;
use vdso::counter::{HpetPage, Lfence, UserCounters};

use crate::{FORMS, fitted};

/// Register number of the HPET's main counter.
const MAIN_COUNTER: usize = 0xf0 / 4;
/// 10 * 2^(64 - 4): nanoseconds a count of 100 MHz, with shift 4.
const HPET_MULTIPLIER: u64 = 10 << 60;
/// 2^64 / 2: nanoseconds a count of 2 GHz.
const TSC_MULTIPLIER: u64 = 1 << 63;

/// A counter that stands at one count.
struct Standing(u64);

impl Counters for Standing {
    fn order(&self) {}

    fn tsc<T>(&self, _ahead: &T) -> Halves {
        self.0.into()
    }

    fn read(&self, kind: Kind) -> Option<u64> {
        (kind.user() != UserCounter::None).then_some(self.0)
    }
}

fn segment() -> Timehands {
    Timehands {
        start: 1000,
        length: 1 << 31,
        multiplier: HPET_MULTIPLIER,
        monotonic: Bintime::from_ns(5_000_000_007),
        realtime: Bintime::new(1_700_000_000, 1 << 63),
        floor: HPET_MULTIPLIER - HPET_MULTIPLIER / 1024,
        coarse_monotonic_ns: 4_900_000_000,
        coarse_realtime: Timespec {
            sec: 1_700_000_000,
            nsec: 400_000_000,
        },
        ..Timehands::default()
    }
}

fn load(user: UserCounter, shift: u8, width: u8, segment: &Timehands) -> Vec<Object> {
    let kind = Kind::new(user, shift, width, 1);
    FORMS
        .into_iter()
        .map(|form| {
            let object = Object::load(&fitted(form)).expect("the object loads");
            object.page().ring().publish(kind.word(), segment);
            object
        })
        .collect()
}

/// What the object says a clock tells, in nanoseconds.
fn told(object: &Object, id: i32) -> Result<i128, Errno> {
    let function = object.image().clock_gettime().expect("clock_gettime");
    function
        .call(ClockId(id))
        .map(user::abi::Timespec::nanoseconds)
}

fn ns(time: Timespec) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}

#[test]
fn every_clock_tells_what_the_reader_tells() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        // At the start, before a second's carry, behind one, past the end.
        for count in [1000, 1001, 49_000_000, 60_000_000, 0x9000_0000_u32] {
            object.hpet()[MAIN_COUNTER].store(count, Ordering::Relaxed);
            for id in 0..8 {
                let reader = clock::read(object.page(), &Standing(count.into()), id);
                if let Some(expected) = reader {
                    assert_eq!(told(&object, id), Ok(ns(expected)), "clock {id} at {count}");
                }
            }
        }
    }
}

#[test]
fn the_segment_s_line_is_what_is_told() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        object.hpet()[MAIN_COUNTER].store(1000 + 123, Ordering::Relaxed);
        let expected = 5_000_000_007 + 1230;
        for id in [1, 4, 7] {
            assert_eq!(told(&object, id), Ok(expected), "monotonic clock {id}");
        }
        assert_eq!(
            told(&object, 0),
            Ok(1_700_000_000_500_000_000 + 1230),
            "realtime"
        );
        assert_eq!(told(&object, 5), Ok(1_700_000_000_400_000_000), "coarse");
        assert_eq!(told(&object, 6), Ok(4_900_000_000), "coarse");
    }
}

#[test]
fn time_of_day_and_seconds_are_the_realtime_clock_s() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        // 0.6 s behind half past a second: the windup saw an older one.
        object.hpet()[MAIN_COUNTER].store(1000 + 60_000_123, Ordering::Relaxed);
        let day = object.image().gettimeofday().expect("gettimeofday").call();
        let day = day.map(|time| (time.sec, time.usec));
        assert_eq!(day, Ok((1_700_000_001, 100_001)), "truncated");
        let seconds = object.image().time().expect("time").call();
        assert_eq!(seconds, 1_700_000_001, "the second that the clock is in");
    }
}

#[test]
fn a_tsc_reading_lies_between_two_of_the_reader_s() {
    let counters = UserCounters::new(Lfence, HpetPage::ABSENT);
    let start = counters
        .read(Kind::new(UserCounter::Tsc, 0, 64, 0))
        .expect("the TSC can be read");
    let segment = Timehands {
        start,
        // Soon over, so that the line past the end is told, too.
        length: 1_000_000,
        multiplier: TSC_MULTIPLIER,
        floor: TSC_MULTIPLIER - TSC_MULTIPLIER / 1024,
        ..segment()
    };
    for object in load(UserCounter::Tsc, 0, 64, &segment) {
        let read = |id| clock::read(object.page(), &counters, id).map(ns);
        for round in 0..2_000 {
            for id in [0, 1, 4, 7] {
                let (before, told, after) = (read(id), told(&object, id).ok(), read(id));
                assert!(
                    before <= told && told <= after && told.is_some(),
                    "clock {id}, round {round}: {before:?}, {told:?}, {after:?}"
                );
            }
        }
    }
}

#[test]
fn a_counter_that_cannot_be_read_from_here_is_left_to_the_system_call() {
    let host = |clock| {
        let time = clock_gettime(clock);
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    };
    for object in load(UserCounter::None, 0, 64, &segment()) {
        for (id, clock) in [
            (0, HostClock::Realtime),
            (1, HostClock::Monotonic),
            (4, HostClock::MonotonicRaw),
            (5, HostClock::RealtimeCoarse),
            (6, HostClock::MonotonicCoarse),
            (7, HostClock::Boottime),
        ] {
            let (before, told, after) = (host(clock), told(&object, id), host(clock));
            let within = told.is_ok_and(|told| before <= told && told <= after);
            assert!(within, "clock {id}: {before}, {told:?}, {after}");
        }
        let day = object.image().gettimeofday().expect("gettimeofday").call();
        let now = host(HostClock::Realtime) / 1_000_000_000;
        let seconds = i128::from(object.image().time().expect("time").call());
        let day = day.map(|time| i128::from(time.sec));
        assert!(
            day.is_ok_and(|day| (now - 5..=now).contains(&day)),
            "{day:?} at {now}"
        );
        assert!((now - 5..=now).contains(&seconds), "{seconds} at {now}");
    }
}

#[test]
fn other_clocks_and_resolutions_are_asked_of_the_kernel() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        // CLOCK_TAI, and the process's own time.
        for id in [11, 2] {
            assert!(told(&object, id).is_ok(), "clock {id}");
        }
        for id in [-1, 99, i32::MAX] {
            assert_eq!(told(&object, id), Err(Errno::INVAL), "clock {id}");
        }
        let function = object.image().clock_getres().expect("clock_getres");
        let step = function
            .call(ClockId::MONOTONIC)
            .map(|step| step.nanoseconds());
        assert!(step.is_ok_and(|step| step > 0), "{step:?}");
    }
}

#[test]
fn a_page_without_a_time_sends_every_read_to_the_kernel() {
    let object = Object::load(&fitted(FORMS[0])).expect("the object loads");
    for id in [0, 1, 5, 6] {
        let told = told(&object, id);
        assert!(told.is_ok_and(|told| told > 0), "clock {id}: {told:?}");
    }
}

#[test]
fn a_guarded_read_goes_by_the_line_below_the_object_and_an_ordinary_one_does_not() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        object.hpet()[MAIN_COUNTER].store(5000, Ordering::Relaxed);
        let own = told(&object, 1).expect("readable");
        object.guard().write(own as u64 + 500);
        assert_eq!(
            told(&object, 1),
            Ok(own),
            "not guarded: the line is not seen"
        );
        assert_eq!(object.guard().look(), own as u64 + 500, "nor written");
    }
}

#[test]
fn a_guarded_read_believes_nothing_beyond_the_bound_and_leaves_what_it_told() {
    for object in load(UserCounter::Hpet, 4, 32, &segment()) {
        let ring = object.page().ring();
        ring.rewrite_kinds(|word| Kind::from_word(word).with_guard(true).word());
        object.hpet()[MAIN_COUNTER].store(5000, Ordering::Relaxed);
        let own = told(&object, 1).expect("readable");
        assert_eq!(
            object.guard().look(),
            own as u64,
            "the line holds what was told"
        );
        // A bound of 0, which a new page has: nothing ahead is believed.
        object.guard().write(own as u64 + 1);
        assert_eq!(told(&object, 1), Ok(own), "beyond the bound");
        assert_eq!(object.guard().look(), own as u64, "and is overwritten");
        assert_eq!(
            told(&object, 6),
            Ok(4_900_000_000),
            "coarse clocks need none"
        );
    }
}

#[test]
fn getcpu_tells_where_the_kernel_says_it_runs() {
    for form in FORMS {
        let object = Object::load(&fitted(form)).expect("the object loads");
        let function = object.image().getcpu().expect("getcpu");
        // The thread may be moved between the two.
        let agrees = (0..100).any(|_| function.call() == user::sys::clone::getcpu());
        assert!(agrees, "another CPU every time");
    }
}
