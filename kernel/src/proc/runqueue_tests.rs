use super::*;
use std::collections::BTreeMap;
use std::vec::Vec;

fn set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::empty();
    for &cpu in cpus {
        set.insert(cpu);
    }
    set
}

fn list(set: &CpuSet) -> Vec<usize> {
    set.iter().collect()
}

#[test]
fn turns_go_round_among_the_threads_of_a_processor() {
    let mut queue = RunQueue::new();
    for tid in 1..=3 {
        queue.add(tid, set(&[0]), 0);
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        let tid = queue.take(0).expect("three are there");
        seen.push(tid);
        queue.add(tid, set(&[0]), 0);
    }
    assert_eq!(seen, [1, 2, 3, 1, 2, 3], "each in its turn");
}

#[test]
fn a_processor_takes_the_first_thread_that_is_allowed_there() {
    let mut queue = RunQueue::new();
    queue.add(1, set(&[0]), 0);
    queue.add(2, set(&[1, 2]), 0);
    queue.add(3, set(&[0, 1]), 0);
    assert_eq!(queue.take(3), None, "none is allowed on 3");
    assert_eq!(queue.take(1), Some(2), "the first one allowed on 1");
    assert!(!queue.is_wanted(2), "2 was the only one allowed on 2");
    assert_eq!(queue.take(1), Some(3), "the next");
    assert_eq!(queue.take(1), None, "1 is for 0 alone");
}

#[test]
fn an_idle_processor_is_told_the_last_one_first() {
    let mut queue = RunQueue::new();
    for cpu in 0..4 {
        queue.rest(cpu);
    }
    let all = CpuSet::all(4);
    assert_eq!(list(&queue.add(1, all, 2)), [2], "where it was last");
    assert_eq!(list(&queue.add(2, all, 2)), [0], "2 has been told");
    assert_eq!(
        list(&queue.add(3, set(&[2, 3]), 2)),
        [3],
        "allowed and idle"
    );
    assert_eq!(list(&queue.add(4, set(&[0, 3]), 0)), [], "both were told");
    queue.take(3);
    assert_eq!(
        list(&queue.add(5, set(&[3]), 3)),
        [3],
        "it has looked since, and does not tick"
    );
}

#[test]
fn without_an_idle_processor_all_that_do_not_tick_are_told() {
    let mut queue = RunQueue::new();
    queue.set_ticking(2, true);
    let all = CpuSet::all(4);
    assert_eq!(list(&queue.add(1, all, 0)), [1, 3], "0 and 2 tick");
    assert_eq!(list(&queue.add(2, all, 0)), [], "they know");
    assert!(queue.is_wanted(1), "1 looks");
    assert_eq!(list(&queue.add(3, all, 0)), [1], "1 is told again");
    queue.set_ticking(1, true);
    assert!(queue.is_ticking(1), "set");
    assert!(queue.is_wanted(1), "1 looks");
    assert_eq!(list(&queue.add(4, all, 0)), [], "1 ticks now");
}

#[test]
fn a_thread_that_was_removed_is_not_taken() {
    let mut queue = RunQueue::new();
    queue.add(1, set(&[0]), 0);
    queue.add(2, set(&[0]), 0);
    assert!(queue.remove(1), "it is there");
    assert!(!queue.remove(1), "it is not any more");
    assert_eq!(queue.take(0), Some(2), "the other");
}

/// Processors that act in random order, each looking only when it was told or
/// when its tick comes: no thread is left waiting where it could run, none runs
/// twice at once or where it may not.
#[test]
fn no_thread_waits_while_a_processor_that_may_run_it_sleeps() {
    const CPUS: usize = 5;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queue = RunQueue::new();
        let mut allowed: BTreeMap<u32, CpuSet> = BTreeMap::new();
        let mut running: [Option<u32>; CPUS] = [None; CPUS];
        let mut asleep: Vec<usize> = (0..CPUS).collect();
        let mut told: Vec<usize> = Vec::new();
        for cpu in 0..CPUS {
            queue.rest(cpu);
        }
        for step in 0..400_u32 {
            match random.u32(0..3) {
                0 if allowed.len() < 12 => {
                    let mut cpus: CpuSet = set(&[random.usize(0..CPUS)]);
                    if random.bool() {
                        cpus.insert(random.usize(0..CPUS));
                    }
                    allowed.insert(step, cpus);
                    told.extend(queue.add(step, cpus, random.usize(0..CPUS)).iter());
                }
                1 => {
                    // A thread ends or blocks; its processor takes the next.
                    let cpu = random.usize(0..CPUS);
                    if let Some(tid) = running[cpu].take() {
                        allowed.remove(&tid);
                        next(&mut queue, cpu, &mut running, &mut asleep);
                    }
                }
                _ => {
                    // A tick ends a turn.
                    let cpu = random.usize(0..CPUS);
                    if let Some(tid) = running[cpu].take() {
                        told.extend(queue.add(tid, allowed[&tid], cpu).iter());
                        next(&mut queue, cpu, &mut running, &mut asleep);
                    }
                }
            }
            // Those that were told look.
            for cpu in told.drain(..) {
                if running[cpu].is_none() {
                    asleep.retain(|&other| other != cpu);
                    next(&mut queue, cpu, &mut running, &mut asleep);
                } else {
                    let wanted = queue.is_wanted(cpu);
                    queue.set_ticking(cpu, wanted || cpu == 0);
                }
            }
            let mut seen = Vec::new();
            for (cpu, tid) in running.iter().enumerate() {
                if let Some(tid) = tid {
                    assert!(!seen.contains(tid), "seed {seed}: {tid} runs twice");
                    assert!(allowed[tid].contains(cpu), "seed {seed}: {tid} on {cpu}");
                    seen.push(*tid);
                }
            }
            for &cpu in &asleep {
                assert!(
                    queue.first(cpu).is_none(),
                    "seed {seed}, step {step}: {cpu} sleeps over a thread"
                );
            }
        }
    }
}

fn next(queue: &mut RunQueue, cpu: usize, running: &mut [Option<u32>], asleep: &mut Vec<usize>) {
    running[cpu] = queue.take(cpu);
    if running[cpu].is_none() {
        queue.rest(cpu);
        if !asleep.contains(&cpu) {
            asleep.push(cpu);
        }
    }
}
