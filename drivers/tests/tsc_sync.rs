//! The synchronization test against models of processors whose counters are apart,
//! run at different rates, jump, are slow or stop; in virtual time.

use drivers::tsc_sync::{
    Found, Line, Offset, Verdict, bound_ns, correction, guard_limit, judge, since,
};
use timecounter::rendezvous::{Exchange, Round};

const HZ: u64 = 3_000_000_000;
const ROUNDS: u32 = 200;

/// Two processors and the way between them. Times are in counts of CPU 0.
struct Pair {
    random: fastrand::Rng,
    now: u64,
    /// By how much the other's counter is ahead.
    offset: i64,
    /// How much faster it runs, in 10^-9.
    ppb: i64,
    /// Counts a message takes at least, there and back.
    way: [u64; 2],
    /// One message in so many is put aside for up to this long; 0 for none.
    aside: (u64, u64),
    /// Both counters move so many at a time.
    step: u64,
}

impl Pair {
    fn new(seed: u64, offset: i64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            now: 1 << 40,
            offset,
            ppb: 0,
            way: [150, 150],
            aside: (0, 0),
            step: 1,
        }
    }

    fn stepped(&self, count: u64) -> u64 {
        count / self.step * self.step
    }

    fn here(&mut self) -> u64 {
        self.now += self.random.u64(20..40);
        self.stepped(self.now)
    }

    fn there(&mut self) -> u64 {
        self.now += self.random.u64(20..40);
        let drift = i128::from(self.now - (1 << 40)) * i128::from(self.ppb) / 1_000_000_000;
        let count = self
            .now
            .wrapping_add_signed(self.offset)
            .wrapping_add_signed(drift as i64);
        self.stepped(count)
    }

    fn message(&mut self, way: usize) {
        self.now += self.way[way] + self.random.u64(0..100);
        let (one_in, most) = self.aside;
        if one_in != 0 && self.random.u64(0..one_in) == 0 {
            self.now += self.random.u64(0..most);
        }
    }

    fn round(&mut self) -> Round {
        let before = self.here();
        self.message(0);
        let there = self.there();
        self.message(1);
        let after = self.here();
        Round {
            before,
            there,
            after,
        }
    }

    fn measure(&mut self) -> Found {
        (0..ROUNDS).fold(Found::Offset(Offset::UNKNOWN), |found, _| {
            found.with(&self.round())
        })
    }

    fn verdict(&mut self) -> Verdict {
        let found = self.measure();
        judge([Line { cpu: 1, found }], guard_limit(HZ))
    }
}

#[test]
fn counters_in_step_are_never_said_to_be_anything_else() {
    for seed in 0..10_000 {
        let mut pair = Pair::new(seed, 0);
        let mut knobs = fastrand::Rng::with_seed(!seed);
        pair.way = [knobs.u64(20..2_000), knobs.u64(20..2_000)];
        // If every message were put aside, nothing would be known closely enough.
        pair.aside = (knobs.u64(2..20), knobs.u64(1..3_000_000));
        pair.step = [1, 1, 26, 64][knobs.usize(0..4)];
        let found = pair.measure();
        let Found::Offset(offset) = found else {
            panic!("seed {seed}: {found:?}");
        };
        assert!(offset.may_be_none(), "seed {seed}: {offset:?}");
        let verdict = judge([Line { cpu: 1, found }], guard_limit(HZ));
        assert_eq!(verdict, Verdict::InStep, "seed {seed}: {offset:?}");
    }
}

#[test]
fn the_interval_always_holds_the_true_offset() {
    for seed in 0..2_000 {
        for offset in [0, 50, -50, 500, -500, 5_000, -5_000, 1 << 50] {
            let mut pair = Pair::new(seed, offset);
            pair.aside = (5, 100_000);
            let found = pair.measure();
            let Found::Offset(interval) = found else {
                panic!("seed {seed}, offset {offset}: {found:?}");
            };
            assert!(
                interval.low <= offset && offset <= interval.high,
                "seed {seed}: {offset} is not in {interval:?}"
            );
        }
    }
}

#[test]
fn what_a_message_cannot_outrun_is_found_and_what_it_can_is_guarded_or_refused() {
    let quick = |offset| Pair::new(7, offset).verdict();
    assert_eq!(quick(50), Verdict::InStep, "hidden in the message");
    for offset in [500, -500, 5_000, -5_000] {
        let Verdict::Skewed { bound } = quick(offset) else {
            panic!("{offset}: {:?}", quick(offset));
        };
        let true_bound = offset.unsigned_abs();
        assert!(
            bound >= true_bound && bound < true_bound + 300,
            "{bound} for {offset}"
        );
    }
    for offset in [40_000, -40_000, i64::MAX / 2] {
        assert!(
            matches!(quick(offset), Verdict::OutOfStep { cpu: 1, .. }),
            "{offset}: {:?}",
            quick(offset)
        );
    }
}

#[test]
fn the_guard_s_bound_is_that_of_the_two_furthest_apart() {
    let lines = [(1, -2_000), (2, 3_000)].map(|(cpu, offset)| Line {
        cpu,
        found: Found::Offset(Offset {
            low: offset - 10,
            high: offset + 10,
        }),
    });
    assert_eq!(
        judge(lines, guard_limit(HZ)),
        Verdict::Skewed { bound: 5_020 },
        "both ends"
    );
    assert!(
        matches!(judge(lines, 5_019), Verdict::OutOfStep { cpu: 2, .. }),
        "one count too many"
    );
    assert_eq!(bound_ns(5_020, HZ), 1_674, "rounded up");
}

#[test]
fn rates_that_differ_show_at_once_or_when_it_is_repeated() {
    for ppm in [1, 10, 100, 1_000] {
        for ppm in [ppm, -ppm] {
            let mut pair = Pair::new(3, 0);
            pair.ppb = ppm * 1_000;
            let first = pair.measure();
            // A second later a part in a million is 3,000 counts.
            pair.now += HZ;
            let second = since(first, pair.measure());
            let verdict = judge(
                [Line {
                    cpu: 1,
                    found: second,
                }],
                guard_limit(HZ),
            );
            assert_eq!(
                verdict,
                Verdict::Unsteady { cpu: 1 },
                "{ppm} ppm: {first:?}"
            );
        }
    }
    let mut steady = Pair::new(3, 500);
    let first = steady.measure();
    steady.now += 60 * HZ;
    let again = since(first, steady.measure());
    assert!(
        matches!(again, Found::Offset(_)),
        "an offset stays: {again:?}"
    );
}

#[test]
fn a_jump_in_the_middle_leaves_no_offset() {
    let mut pair = Pair::new(5, 0);
    let half = pair.measure();
    pair.offset = -100_000;
    let all = (0..ROUNDS).fold(half, |found, _| found.with(&pair.round()));
    assert!(matches!(all, Found::Unsteady(..)), "{all:?}");
    assert_eq!(
        judge([Line { cpu: 1, found: all }], guard_limit(HZ)),
        Verdict::Unsteady { cpu: 1 },
        "and no clock"
    );
}

#[test]
fn what_is_not_known_closely_enough_is_not_in_step() {
    let mut slow = Pair::new(9, 0);
    slow.way = [200_000, 200_000];
    assert!(
        matches!(slow.verdict(), Verdict::OutOfStep { .. }),
        "each message takes longer than the guard may hide"
    );
    let silent = Line {
        cpu: 4,
        found: Found::Silent,
    };
    assert_eq!(
        judge([silent], guard_limit(HZ)),
        Verdict::Unanswered { cpu: 4 },
        "a CPU that was halted"
    );
    let never = Found::Offset(Offset::UNKNOWN);
    let verdict = judge(
        [Line {
            cpu: 1,
            found: never,
        }],
        guard_limit(HZ),
    );
    assert!(
        matches!(verdict, Verdict::OutOfStep { .. }),
        "no round at all: {verdict:?}"
    );
}

#[test]
fn a_correction_brings_a_counter_into_step() {
    for offset in [5_000, -5_000, 1 << 50, -(1 << 50)] {
        let mut pair = Pair::new(13, offset);
        let add = correction(pair.measure()).expect("it is out of step");
        pair.offset += add;
        assert_eq!(pair.verdict(), Verdict::InStep, "after {add} for {offset}");
    }
    let mut hidden = Pair::new(13, 50);
    assert_eq!(correction(hidden.measure()), None, "nothing is known");
    assert_eq!(correction(Found::Silent), None, "nor here");
}

#[test]
fn two_threads_of_this_machine_are_in_step_or_it_is_not_known() {
    let exchange = Exchange::new();
    let start = std::time::Instant::now();
    let stamp = || start.elapsed().as_nanos() as u64;
    let wait = || {
        std::hint::spin_loop();
        start.elapsed().as_secs() < 20
    };
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..ROUNDS).all(|round| {
                exchange
                    .follow(round, &mut { stamp }, &mut { wait })
                    .is_ok()
            })
        });
        (0..ROUNDS).fold(
            Found::Offset(Offset::UNKNOWN),
            |found, round| match exchange.lead(round, &mut { stamp }, &mut { wait }) {
                Ok(round) => found.with(&round),
                Err(_) => Found::Silent,
            },
        )
    });
    assert!(
        matches!(found, Found::Offset(offset) if offset.may_be_none()),
        "one clock: {found:?}"
    );
}

#[test]
fn a_line_says_offset_and_worst_error() {
    let found = Found::Offset(Offset {
        low: -405,
        high: 429,
    });
    assert_eq!(
        Line { cpu: 3, found }.to_string(),
        "TSC: CPU 3 synchronized with CPU 0 (offset 12 cycles, worst error 417 cycles)"
    );
}
