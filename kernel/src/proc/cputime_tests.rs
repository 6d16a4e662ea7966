use super::Meter;
use std::vec::Vec;

/// xorshift64: the same sequence in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn a_thread_is_charged_for_the_time_it_runs_and_no_other() {
    let mut meter = Meter::new();
    assert_eq!(meter.read(1_000), 0, "it has not run yet");
    meter.start(1_000);
    assert_eq!(meter.read(1_250), 250, "while it runs");
    meter.stop(1_000, 1_400);
    assert_eq!(meter.read(9_000), 400, "while it does not");
    meter.start(10_000);
    meter.stop(10_000, 10_001);
    assert_eq!(meter.read(10_001), 401, "the second run is added");
}

#[test]
fn threads_that_run_at_once_add_up() {
    let mut meter = Meter::new();
    for start in [100, 200, 300] {
        meter.start(start);
    }
    assert_eq!(meter.read(1_000), 900 + 800 + 700, "three at once");
    meter.stop(200, 1_000);
    assert_eq!(meter.read(1_100), 1_000 + 800 + 800, "one stopped");
}

/// Against an oracle that keeps every run: threads start, stop and migrate
/// between processors in random order, with one true clock.
#[test]
fn readings_match_the_sum_of_all_runs() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..200 {
        let mut meter = Meter::new();
        let mut running: [Option<u64>; 8] = [None; 8];
        let mut ended: Vec<(u64, u64)> = Vec::new();
        let mut now = random.below(1 << 62);
        for step in 0..200 {
            now += random.below(3_000_000);
            let thread = random.below(8) as usize;
            match running[thread].take() {
                Some(started) => {
                    meter.stop(started, now);
                    ended.push((started, now));
                    // Half of them go on elsewhere at once.
                    if random.below(2) == 0 {
                        meter.start(now);
                        running[thread] = Some(now);
                    }
                }
                None => {
                    meter.start(now);
                    running[thread] = Some(now);
                }
            }
            let past: u64 = ended.iter().map(|(from, to)| to - from).sum();
            let present: u64 = running.iter().flatten().map(|from| now - from).sum();
            assert_eq!(
                meter.read(now),
                past + present,
                "round {round}, step {step}"
            );
        }
    }
}

/// Processors whose clocks disagree by up to `SKEW`: readings never go back,
/// and the end is off by no more than the disagreement of its runs.
#[test]
fn disagreeing_clocks_never_step_a_reading_back() {
    const SKEW: u64 = 5_000;
    let mut random = Random(88_172_645_463_325_252);
    for round in 0..200 {
        let skews: Vec<u64> = (0..4).map(|_| random.below(SKEW)).collect();
        let mut meter = Meter::new();
        let (mut last, mut truth, mut runs) = (0, 0, 0);
        let mut now = 1 << 40;
        for step in 0..100 {
            let local = |random: &mut Random, now| now + skews[random.below(4) as usize];
            let started = local(&mut random, now);
            meter.start(started);
            runs += 1;
            for _ in 0..3 {
                let passed = random.below(4_000);
                now += passed;
                truth += passed;
                let shown = meter.read(local(&mut random, now));
                assert!(
                    shown >= last,
                    "round {round}, step {step}: {last} to {shown}"
                );
                last = shown;
            }
            meter.stop(started, local(&mut random, now));
            let shown = meter.read(local(&mut random, now));
            assert!(
                shown >= last,
                "round {round}, stop {step}: {last} to {shown}"
            );
            last = shown;
            now += random.below(4_000);
        }
        assert!(
            last.abs_diff(truth) <= runs * SKEW,
            "round {round}: {last} for {truth}"
        );
    }
}

#[test]
fn absurd_instants_are_borne() {
    let mut meter = Meter::new();
    meter.start(u64::MAX);
    assert_eq!(meter.read(0), 0, "a start in the future");
    meter.stop(u64::MAX, 0);
    meter.stop(5, u64::MAX);
    assert_eq!(meter.read(0), u64::MAX - 5, "a stop without a start");
    meter.start(0);
    meter.stop(0, u64::MAX);
    assert_eq!(meter.read(u64::MAX), u64::MAX, "saturated");
}
