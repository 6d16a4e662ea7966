//! The clock against an exact oracle: the line that the published segments
//! describe, in rational arithmetic, apart from the reader's and the writer's.

use timecounter::kind::Kind;
use timecounter::page::{SLOTS, Timehands};
use timecounter::reader::{Counters, Halves};
use timecounter::ring::Payload;

use super::*;

/// Every counter shows this.
struct At(u64);

impl Counters for At {
    fn order(&self) {}
    fn tsc<T>(&self, _ahead: &T) -> Halves {
        self.0.into()
    }
    fn read(&self, _kind: Kind) -> Option<u64> {
        Some(self.0)
    }
}

/// A published segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: Kind,
    hands: Timehands,
}

/// Units of 2^-64 ns in a second's unit of 2^-64 s.
const NS: i128 = 1_000_000_000;

impl Segment {
    /// How far `count` is behind the start, or nothing if it is before it.
    fn behind(&self, count: u64) -> Option<u64> {
        let mask = self.kind.mask();
        let delta = count.wrapping_sub(self.hands.start) & mask;
        (delta <= mask - mask / 8).then_some(delta)
    }

    /// What the time has grown by `delta` counts behind the start, in 2^-64 ns:
    /// along the line at its scale, past its end at the floor slope.
    fn grown(&self, delta: u64) -> i128 {
        let line = i128::from(delta.min(self.hands.length)) * i128::from(self.hands.scale) * NS;
        let beyond = i128::from(delta.saturating_sub(self.hands.length));
        line + beyond * (i128::from(self.hands.floor) << self.kind.shift())
    }
}

/// Time in 2^-64 ns at `count` in the state that `announced` make, with the
/// segment and the difference it comes from.
fn exact(announced: &[Segment], count: u64) -> Option<(i128, Segment, u64)> {
    let current = announced.last()?;
    for segment in announced.iter().rev().take(SLOTS - 1) {
        if segment.kind.index() != current.kind.index() {
            return None;
        }
        if let Some(delta) = segment.behind(count) {
            let base = segment.hands.monotonic.units() * NS;
            return Some((base + segment.grown(delta), *segment, delta));
        }
    }
    None
}

/// All that was published, in order.
struct Witness {
    clock: &'static timecounter::Clock,
    generation: u32,
    announced: Vec<Segment>,
}

impl Witness {
    fn new(clock: &'static timecounter::Clock) -> Self {
        let generation = clock.page().ring().current() - 1;
        let mut witness = Self {
            clock,
            generation,
            announced: Vec::new(),
        };
        witness.look();
        witness
    }

    /// Takes in what is new, and checks how it goes on from what was before.
    fn look(&mut self) {
        let ring = self.clock.page().ring();
        let current = ring.current();
        assert!(
            current - self.generation < SLOTS as u32,
            "more than a ring of publications at once"
        );
        for generation in self.generation + 1..=current {
            let slot = ring.slot(generation);
            self.announced.push(Segment {
                kind: Kind::from_word(slot.kind()),
                hands: slot.payload().load(),
            });
            self.goes_on();
        }
        self.generation = current;
    }

    /// The newest segment starts on the line before it or above its tail, and
    /// no count shows less in the new state than in the one before.
    fn goes_on(&self) {
        let [.., last, new] = &self.announced[..] else {
            return;
        };
        assert!(
            new.hands.length <= u64::from(u32::MAX) && new.hands.length > 0,
            "{new:?} is longer than a reader's difference"
        );
        if last.kind.index() != new.kind.index() {
            return;
        }
        let mask = new.kind.mask();
        if new.hands.start == last.hands.start.wrapping_add(last.hands.length) & mask {
            let end = last.hands.monotonic.units()
                + i128::from(last.hands.length) * i128::from(last.hands.scale);
            assert_eq!(new.hands.monotonic.units(), end, "{last:?} then {new:?}");
        }
        let before = &self.announced[..self.announced.len() - 1];
        for count in self.counts() {
            // Beyond what a narrow counter can tell, states do not compare.
            if let (Some((old, ..)), Some((now, _, delta))) =
                (exact(before, count), exact(&self.announced, count))
                && delta <= mask / 4
            {
                assert!(
                    now >= old,
                    "at {count}: {old} before {new:?}, {now} with it, after {last:?}"
                );
            }
        }
    }

    /// Counts at and around the starts and ends of the newest segments, inside
    /// them, and on the tail.
    fn counts(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        let newest = self.announced.last().expect("published");
        for segment in self.announced.iter().rev().take(4) {
            if segment.kind.index() != newest.kind.index() {
                break;
            }
            let (start, length) = (segment.hands.start, segment.hands.length);
            let mask = segment.kind.mask();
            for place in [start, start.wrapping_add(length)] {
                counts.extend((0..7).map(|near| place.wrapping_add(near).wrapping_sub(3) & mask));
            }
            for part in [
                length / 3,
                length / 2,
                length * 2,
                length * 10,
                length * 1000,
            ] {
                if part < mask / 4 {
                    counts.push(start.wrapping_add(part) & mask);
                }
            }
        }
        counts
    }

    /// Every clock at every such count is the exact time, rounded down.
    fn read(&self) {
        let page = self.clock.page();
        for count in self.counts() {
            let Some((time, segment, delta)) = exact(&self.announced, count) else {
                continue;
            };
            let at = At(count);
            let told = i128::from(page.monotonic_ns(&at).expect("readable"));
            // Base, line and tail are each rounded down, the multiplier too.
            assert!(
                told << 64 <= time && time - (told << 64) < 4 << 64,
                "{delta} behind {segment:?}: {told} ns, exactly {time} / 2^64"
            );
            let monotonic = page.monotonic(&at).expect("readable");
            assert_eq!(monotonic.to_ns(), told, "{delta} behind {segment:?}");
            let real = page.realtime(&at).expect("readable").to_ns();
            let boottime = segment.hands.realtime.wrapping_sub(segment.hands.monotonic);
            let exactly = time + boottime.units() * NS;
            assert!(
                real << 64 <= exactly && exactly - (real << 64) < 4 << 64,
                "{delta} behind {segment:?}: time of day {real} ns, exactly {exactly} / 2^64"
            );
            let bintime = page.binuptime(&at).expect("readable").units();
            assert!(
                bintime >= ((told << 64) + NS - 1) / NS && bintime <= ((told + 2) << 64) / NS,
                "{delta} behind {segment:?}: {told} ns, as bintime {bintime} / 2^64"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Windup,
    Adjust(i64),
    Correct(i64),
    Choose(usize),
    Step(i64),
    Leap(bool, bool),
    Hz(u32),
    Slip(usize, u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u64..2_000_000).prop_map(Event::Pass),
        1 => (0_u64..38_000_000).prop_map(Event::Pass),
        6 => Just(Event::Windup),
        1 => (-MAX_ADJUSTMENT..=MAX_ADJUSTMENT).prop_map(Event::Adjust),
        1 => (-600_i64..600).prop_map(Event::Correct),
        1 => (0_usize..4).prop_map(Event::Choose),
        1 => (0_i64..4_000_000_000).prop_map(Event::Step),
        1 => any::<(bool, bool)>().prop_map(|(insert, delete)| Event::Leap(insert, delete)),
        1 => prop::sample::select(vec![200, 1000, 1500, 10_000]).prop_map(Event::Hz),
        1 => (0_usize..4, 1_u64..30).prop_map(|(which, by)| Event::Slip(which, by)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_read_is_the_exact_time_whatever_happens(
        events in prop::collection::vec(event(), 1..80),
        tsc_hz in prop::sample::select(vec![
            999_999_999_u64, 1_000_000_000, 1_000_000_001, 2_400_000_000, 5_800_000_001,
        ]),
    ) {
        let counters = [Manual::new("TSC", tsc_hz, 64, 1000), hpet(), pm(), pit()];
        let mut machine = Machine::new();
        for counter in counters {
            machine.add(counter, 0xFFFF_FFFF_FFFF_0000);
        }
        let clock = machine.clock;
        let mut witness = Witness::new(clock);
        let mut since_windup = 0;
        for event in events {
            match event {
                Event::Pass(ns) => {
                    if since_windup + ns > 39_000_000 {
                        clock.windup();
                        since_windup = 0;
                    }
                    since_windup += ns;
                    machine.pass_ns(ns);
                }
                Event::Windup => {
                    clock.windup();
                    since_windup = 0;
                }
                Event::Adjust(adjustment) => clock.set_adjustment(adjustment).expect("in range"),
                Event::Correct(ppm) => {
                    let active = clock.active().expect("running");
                    let hz = active.frequency().cast_signed();
                    let hz = hz + hz / 1_000_000 * ppm;
                    let _ = clock.set_frequency(&active, hz.cast_unsigned());
                }
                Event::Choose(which) => {
                    let _ = clock.choose(counters[which].name, &mut || {
                        witness.look();
                        machine.pass_ns(20_000);
                    });
                    since_windup = 0;
                }
                Event::Step(sec) => {
                    let time = Timespec { sec, nsec: 999_000_000 };
                    clock.setclock(time, &mut || {
                        witness.look();
                        machine.pass_ns(20_000);
                    });
                    since_windup = 0;
                }
                Event::Leap(insert, delete) => clock.plan_leap_second(insert, delete),
                Event::Hz(hz) => clock.set_hz(hz),
                Event::Slip(which, by) => counters[which].slip(1, by),
            }
            witness.look();
            witness.read();
        }
    }
}
