//! The jitter guard: CPUs whose counters disagree.

use std::cell::RefCell;

use proptest::prelude::*;
use timecounter::clock::GuardPolicy;
use timecounter::guard::{Guard, GuardLine};
use timecounter::kind::Kind;
use timecounter::reader::{Counters, Halves};
use timecounter::{Clock, Timespec};

use super::common::Machine;
use super::{MS, hpet, on_tsc, pit, tsc};

/// More than the CPUs of these tests disagree, in ns.
const BOUND: u32 = 2_000;

/// As if this had been measured of every counter.
fn set_guard(clock: &Clock, bound: Option<u32>) {
    for counter in clock.registry().iter() {
        clock.set_skew_bound(&counter, bound.unwrap_or(0));
    }
}

/// A program on one CPU, which is some nanoseconds ahead.
struct Cpu<'a> {
    clock: &'static Clock,
    ahead_ns: i64,
    line: Option<&'a GuardLine>,
    /// What happens after the count is taken.
    then: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Cpu<'a> {
    fn new(clock: &'static Clock, ahead_ns: i64, line: &'a GuardLine) -> Self {
        Self {
            clock,
            ahead_ns,
            line: Some(line),
            then: RefCell::new(None),
        }
    }

    fn now(&self) -> u64 {
        self.clock
            .page()
            .monotonic_ns(self)
            .expect("a line and a counter are there")
    }
}

impl Counters for Cpu<'_> {
    fn order(&self) {}
    fn tsc<T>(&self, _ahead: &T) -> Halves {
        // So that every read takes the general path.
        0.into()
    }
    fn read(&self, kind: Kind) -> Option<u64> {
        let counter = self.clock.registry().get(kind.index())?;
        let ahead = i128::from(self.ahead_ns) * i128::from(counter.frequency()) / 1_000_000_000;
        let count = counter.read().wrapping_add(ahead as u64);
        if let Some(then) = self.then.take() {
            then();
        }
        Some(count)
    }
    fn guard(&self) -> Option<Guard<'_>> {
        Some(Guard::new(self.line?, self.clock.page().guard_bound_ns()))
    }
}

/// Reads on two CPUs in turn while time passes; the largest step back.
fn worst_step(machine: &mut Machine, line: &GuardLine, steps: &[(bool, u64)]) -> u64 {
    let cpus = [
        Cpu::new(machine.clock, 0, line),
        Cpu::new(machine.clock, 1_500, line),
    ];
    let (mut latest, mut worst) = (0_u64, 0_u64);
    for &(which, pass) in steps {
        machine.pass_ns(pass);
        if pass % 3 == 0 {
            machine.clock.windup();
        }
        let now = cpus[usize::from(which)].now();
        worst = worst.max(latest.saturating_sub(now));
        latest = now;
    }
    worst
}

proptest! {
    #[test]
    fn cpus_that_disagree_step_back_without_the_guard_and_not_with_it(
        narrow in any::<bool>(),
        steps in proptest::collection::vec((any::<bool>(), 0_u64..700), 40..200),
    ) {
        let mut machine = Machine::new();
        machine.add(if narrow { hpet() } else { tsc() }, 0xFFFF_FF00);
        machine.tick(MS);
        let line = GuardLine::new();
        set_guard(machine.clock, Some(BOUND));
        prop_assert_eq!(worst_step(&mut machine, &line, &steps), 0);
        set_guard(machine.clock, None);
        // There and back at once, so that nothing else can make up for it.
        let back = worst_step(&mut machine, &line, &[(true, 1), (false, 1)]);
        prop_assert!(back > 1_400, "only {} ns without the guard", back);
    }

    #[test]
    fn a_hostile_line_moves_its_own_time_by_at_most_the_bound(junk in any::<u64>(), near in -5_000_i64..5_000) {
        let machine = on_tsc();
        set_guard(machine.clock, Some(BOUND));
        let (mine, other) = (GuardLine::new(), GuardLine::new());
        let truth = Cpu::new(machine.clock, 0, &other).now();
        for written in [0, 1 << 63, u64::MAX, junk, truth.wrapping_add_signed(near), truth] {
            mine.write(written);
            let told = Cpu::new(machine.clock, 0, &mine).now();
            prop_assert!(
                told >= truth && told - truth <= u64::from(BOUND),
                "told {} at {} with {} in the line", told, truth, written
            );
            mine.write(written);
            let _ = machine.clock.monotonic_beside(&mine);
            let kernel = machine.clock.monotonic_ns();
            prop_assert_eq!(kernel, truth, "{} in a line reached the kernel", written);
            prop_assert_eq!(Cpu::new(machine.clock, 0, &other).now(), truth);
        }
    }
}

#[test]
fn the_bound_itself_is_believed_and_one_more_is_not() {
    let machine = on_tsc();
    set_guard(machine.clock, Some(BOUND));
    let line = GuardLine::new();
    let cpu = Cpu::new(machine.clock, 0, &line);
    let truth = cpu.now();
    let bound = u64::from(BOUND);
    line.write(truth + bound);
    assert_eq!(cpu.now(), truth + bound, "at the bound");
    line.write(truth + bound + 1);
    assert_eq!(cpu.now(), truth, "beyond it");
    assert_eq!(line.look(), truth, "and it is overwritten");
}

#[test]
fn a_reader_that_was_put_aside_leaves_the_line_as_later_ones_left_it() {
    let line = GuardLine::new();
    let machine = on_tsc();
    let clock = machine.clock;
    set_guard(clock, Some(BOUND));
    let machine = RefCell::new(machine);
    let slow = Cpu::new(clock, 0, &line);
    let early = slow.now();
    slow.then.replace(Some(Box::new(|| {
        machine.borrow_mut().pass_ns(MS);
        Cpu::new(clock, 1_500, &line).now();
    })));
    assert_eq!(slow.now(), early, "it tells when it took its count");
    assert_eq!(line.look(), early + MS + 1_500, "the other's time stays");
    let next = Cpu::new(clock, 0, &line).now();
    assert_eq!(next, early + MS + 1_500, "and the next reader is told that");
}

#[test]
fn a_change_of_counter_does_not_step_back_on_a_cpu_that_was_ahead() {
    let mut machine = on_tsc();
    machine.add(hpet(), 77);
    machine.tick(MS);
    set_guard(machine.clock, Some(BOUND));
    let line = GuardLine::new();
    let ahead = Cpu::new(machine.clock, 1_500, &line).now();
    machine.choose("HPET").expect("fit");
    let after = Cpu::new(machine.clock, 0, &line).now();
    assert!(after >= ahead, "{ahead} on the TSC, {after} on the HPET");
}

#[test]
fn the_time_of_day_moves_along() {
    let mut machine = on_tsc();
    machine.tick(MS);
    set_guard(machine.clock, Some(BOUND));
    let line = GuardLine::new();
    let page = machine.clock.page();
    let ahead = Cpu::new(machine.clock, 1_500, &line);
    let told: Timespec = page.realtime(&ahead).expect("readable");
    let behind = Cpu::new(machine.clock, 0, &line);
    let after = page.realtime(&behind).expect("readable");
    assert_eq!(after, told, "not before what the other CPU was told");
    let fine = page.bintime(&behind).expect("readable");
    let coarser = Timespec::from(fine);
    assert!(
        coarser >= told && coarser.nsec - told.nsec <= 2,
        "{fine:?} is that too"
    );
}

#[test]
fn a_system_call_tells_the_larger_of_both_lines() {
    let mut machine = on_tsc();
    machine.tick(MS);
    set_guard(machine.clock, Some(BOUND));
    let line = GuardLine::new();
    let told = Cpu::new(machine.clock, 1_500, &line).now();
    let call = machine.clock.monotonic_beside(&line);
    assert_eq!(call, Timespec::from_ns(told), "what the program was told");
    machine.pass_ns(5_000);
    let call = machine.clock.monotonic_beside(&line);
    assert_eq!(
        Timespec::from_ns(line.look()),
        call,
        "its own reads go on from the call's"
    );
}

#[test]
fn without_a_line_a_guarded_counter_cannot_be_read() {
    let machine = on_tsc();
    let line = GuardLine::new();
    let mut cpu = Cpu::new(machine.clock, 0, &line);
    cpu.line = None;
    let page = machine.clock.page();
    assert!(page.monotonic(&cpu).is_some(), "no guard, no line");
    set_guard(machine.clock, Some(BOUND));
    assert_eq!(machine.clock.guard(), Some(BOUND));
    assert!(page.monotonic(&cpu).is_none(), "the next read needs one");
    set_guard(machine.clock, None);
    assert_eq!(machine.clock.guard(), None);
    assert!(page.monotonic(&cpu).is_some(), "and the next does not");
}

#[test]
fn the_guard_outlives_windups_changes_and_switches_of_user_reads() {
    let mut machine = on_tsc();
    machine.add(pit(), 3);
    set_guard(machine.clock, Some(BOUND));
    let guarded = |machine: &Machine| {
        let ring = machine.clock.page().ring();
        Kind::from_word(ring.slot(ring.current()).kind()).is_guarded()
    };
    for name in ["i8254", "TSC"] {
        machine.choose(name).expect("fit");
        machine.tick(MS);
        machine.clock.set_user_enabled(name == "TSC");
        assert!(guarded(&machine), "{name}");
    }
    set_guard(machine.clock, None);
    machine.tick(MS);
    assert!(!guarded(&machine), "until it is switched off");
}

#[test]
fn threads_on_cpus_that_disagree_never_tell_each_other_of_an_earlier_time() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let machine = on_tsc();
    let clock = machine.clock;
    set_guard(clock, Some(BOUND));
    let base = clock.active().expect("started").read();
    let time = AtomicU64::new(base);
    let line = GuardLine::new();
    let shared = AtomicU64::new(0);
    /// A CPU whose count moves on by itself.
    struct Running<'a> {
        time: &'a AtomicU64,
        ahead: u64,
        line: &'a GuardLine,
    }
    impl Counters for Running<'_> {
        fn order(&self) {}
        fn tsc<T>(&self, _ahead: &T) -> Halves {
            self.time.load(Ordering::SeqCst).into()
        }
        fn read(&self, _kind: Kind) -> Option<u64> {
            Some(self.time.fetch_add(7, Ordering::SeqCst) + self.ahead)
        }
        fn guard(&self) -> Option<Guard<'_>> {
            Some(Guard::new(self.line, BOUND))
        }
    }
    std::thread::scope(|scope| {
        for ahead in [0, 2_400, 4_000] {
            let cpu = Running {
                time: &time,
                ahead,
                line: &line,
            };
            let shared = &shared;
            scope.spawn(move || {
                for _ in 0..50_000 {
                    let before = shared.load(Ordering::SeqCst);
                    let now = clock.page().monotonic_ns(&cpu).expect("readable");
                    assert!(now >= before, "{before} was told before {now}");
                    shared.fetch_max(now, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn the_policy_overrules_the_measurement_either_way() {
    let machine = on_tsc();
    let clock = machine.clock;
    assert_eq!(clock.guard(), None, "nothing was measured");
    clock.set_guard(GuardPolicy::Always);
    assert_eq!(clock.guard(), Some(1_000), "guarded all the same");
    set_guard(clock, Some(BOUND));
    assert_eq!(clock.guard(), Some(BOUND), "by what was measured");
    clock.set_guard(GuardPolicy::Never);
    assert_eq!(clock.guard(), None, "although it was measured");
    clock.set_guard(GuardPolicy::Measured);
    assert_eq!(clock.guard(), Some(BOUND), "as measured");
}

#[test]
fn a_change_to_a_counter_that_is_in_step_ends_the_guard() {
    let mut machine = on_tsc();
    let tsc = machine.clock.active().expect("started");
    machine.clock.set_skew_bound(&tsc, BOUND);
    machine.add(hpet(), 77);
    machine.choose("HPET").expect("fit");
    assert_eq!(machine.clock.guard(), None, "one chip for all CPUs");
    machine.choose("TSC").expect("fit");
    assert_eq!(machine.clock.guard(), Some(BOUND), "one a CPU");
    let line = GuardLine::new();
    let ahead = Cpu::new(machine.clock, 1_500, &line).now();
    let behind = Cpu::new(machine.clock, 0, &line).now();
    assert!(behind >= ahead, "{ahead}, then {behind}");
}
