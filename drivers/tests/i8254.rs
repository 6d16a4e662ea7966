//! The i8254 driver against the chip's model and its faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use drivers::bus::PortIo;
use drivers::i8254::{self, I8254, I8254Error};
use drivers::sim::{Clock, CpuidTable, I8254Model, PortsModel, ProcessorModel};
use timecounter::Timecounter;

struct Machine {
    clock: Clock,
    chip: I8254Model,
    ports: PortsModel,
    processor: ProcessorModel,
}

impl Machine {
    fn new() -> Self {
        let clock = Clock::new();
        let chip = I8254Model::new(&clock);
        Self {
            ports: PortsModel::new().with_i8254(&chip),
            processor: ProcessorModel::new(&clock, 2_000_000_000, CpuidTable::intel()),
            chip,
            clock,
        }
    }

    fn attach(&self) -> Result<I8254<PortsModel>, I8254Error> {
        I8254::attach(self.ports.clone(), &self.processor)
    }
}

#[test]
fn it_counts_up_at_its_rate_over_many_wraps() {
    let machine = Machine::new();
    let timer = machine.attach().expect("attaches");
    assert_eq!(timer.name(), "i8254", "name");
    assert_eq!(timer.quality(), 0, "rank");
    let start_ps = machine.clock.now_ps();
    let mut last = timer.read();
    let mut total = 0;
    // Steps below one period of 54.9 ms, over some 90 of them.
    for step in 0..1_000 {
        machine.clock.advance_ns(1_000_000 + 7_919 * step);
        let now = timer.read();
        total += now.wrapping_sub(last) & timer.mask();
        last = now;
    }
    let elapsed_ps = machine.clock.now_ps() - start_ps;
    let expected = u128::from(elapsed_ps) * 1_193_182 / 1_000_000_000_000;
    let error = expected.abs_diff(u128::from(total));
    assert!(error <= 1, "{total} counts for {expected}");
}

#[test]
fn firmwares_square_wave_mode_is_replaced() {
    let machine = Machine::new();
    let timer = machine.attach().expect("attaches");
    let before = timer.read();
    machine.clock.advance_ns(10_000_000);
    let moved = timer.read().wrapping_sub(before) & timer.mask();
    // 10 ms are 11,932 counts; mode 3 would show twice that.
    assert!(
        (11_931..=11_933).contains(&moved),
        "{moved} counts in 10 ms"
    );
}

#[test]
fn reads_do_not_go_back_at_any_phase_of_the_byte_boundary() {
    let machine = Machine::new();
    let timer = machine.attach().expect("attaches");
    let mut last = timer.read();
    for read in 0..3_000 {
        machine.clock.advance_ns(13 * 838);
        let now = timer.read();
        let delta = now.wrapping_sub(last) & timer.mask();
        assert!(
            (12..=14).contains(&delta),
            "read {read}: {last:#x} to {now:#x}"
        );
        last = now;
    }
}

#[test]
fn bytes_read_without_the_latch_can_be_wrong_by_256() {
    let machine = Machine::new();
    machine.attach().expect("programs mode 2");
    // The count is on a multiple of 256, about to borrow.
    while machine.chip.true_count() & 0xFF != 0 {
        machine.clock.advance_ns(100);
    }
    let truth = machine.chip.true_count();
    let low = machine.ports.read_u8(0x40);
    machine.clock.advance_ns(838);
    let high = machine.ports.read_u8(0x40);
    let torn = i8254::from_bytes(low, high);
    assert_eq!(
        truth.wrapping_sub(torn),
        256,
        "low before the borrow, high after it"
    );
}

#[test]
fn a_counter_that_stands_still_is_refused() {
    let machine = Machine::new();
    machine.chip.oscillator.set_running(false);
    let refused = machine.attach().map(|_| ()).unwrap_err();
    assert_eq!(refused, I8254Error::NotAdvancing, "it never moves");
}

#[test]
fn a_machine_without_one_is_refused_in_bounded_time() {
    let machine = Machine::new();
    machine.chip.set_missing();
    let refused = machine.attach().map(|_| ()).unwrap_err();
    assert_eq!(refused, I8254Error::NotAdvancing, "always FFFFh");
    assert!(
        machine.ports.writes().len() < 100,
        "latched a bounded number of times"
    );
}

#[test]
fn one_clobbered_latch_costs_at_most_one_period() {
    let machine = Machine::new();
    let timer = machine.attach().expect("attaches");
    for phase in 0..16 {
        machine.clock.advance_ns(3_430_000 * phase);
        machine.chip.clobber_latch(3, 0);
        let start = i64::from(machine.chip.true_count());
        let mut last = timer.read();
        let mut total = 0;
        for _ in 0..10 {
            let now = timer.read();
            total += now.wrapping_sub(last) & timer.mask();
            last = now;
        }
        let end = i64::from(machine.chip.true_count());
        let truth = (start - end).rem_euclid(0x1_0000) as u64;
        let excess = total.saturating_sub(truth);
        assert!(
            excess <= 0x1_0000,
            "phase {phase}: {total} counts for {truth}"
        );
        assert!(
            total + 2 >= truth,
            "phase {phase}: {total} counts for {truth}"
        );
    }
}

#[test]
fn a_chip_whose_latch_is_clobbered_often_is_read_with_care() {
    let machine = Machine::new();
    machine.chip.clobber_latch(70, 9);
    let timer = machine.attach().expect("attaches");
    let mut last = timer.read();
    for read in 0..2_000 {
        let now = timer.read();
        let delta = now.wrapping_sub(last) & timer.mask();
        assert!(delta < 100, "read {read}: {last:#x} to {now:#x}");
        last = now;
    }
}

#[test]
fn a_chip_with_every_other_latch_clobbered_is_refused() {
    let machine = Machine::new();
    machine.chip.clobber_latch(1, 2);
    let refused = machine.attach().map(|_| ()).unwrap_err();
    assert_eq!(refused, I8254Error::Inconsistent, "no three reads agree");
}

#[test]
fn after_a_reload_by_firmware_the_rate_is_right_again() {
    let machine = Machine::new();
    let timer = machine.attach().expect("attaches");
    machine.clock.advance_ns(20_000_000);
    let before = timer.read();
    // The firmware counts 11,932 for a while and puts 65,536 back.
    for (port, value) in [(0x43, 0x34), (0x40, 0x9C), (0x40, 0x2E)] {
        machine.ports.write_u8(port, value);
    }
    machine.clock.advance_ns(5_000_000);
    for (port, value) in [(0x43, 0x34), (0x40, 0), (0x40, 0)] {
        machine.ports.write_u8(port, value);
    }
    let after = timer.read();
    assert_ne!(after, before, "it went on from somewhere else");
    machine.clock.advance_ns(5_000_000);
    let moved = timer.read().wrapping_sub(after) & timer.mask();
    assert!(
        (5_965..=5_967).contains(&moved),
        "and right from there on: {moved}"
    );
}

#[test]
fn an_nmi_between_latch_and_high_byte_gets_the_last_count_and_spoils_nothing() {
    // Before the low byte, and before the high byte.
    for access in [2, 3] {
        let machine = Machine::new();
        let timer = Arc::new(machine.attach().expect("attaches"));
        let last = timer.read();
        machine.clock.advance_ns(1_000_000);
        let seen = Arc::new(AtomicU64::new(u64::MAX));
        let (nmi_timer, nmi_seen) = (timer.clone(), seen.clone());
        machine.ports.interrupt_before(access, move || {
            nmi_seen.store(nmi_timer.read(), Ordering::Relaxed);
        });
        let truth = u64::from(machine.chip.true_count().wrapping_neg());
        let now = timer.read();
        let error = now.wrapping_sub(truth) & timer.mask();
        assert!(error <= 1, "access {access}: {now:#x} for {truth:#x}");
        assert_eq!(
            seen.load(Ordering::Relaxed),
            last,
            "access {access}: the last completed count"
        );
    }
}

#[test]
fn readers_on_several_threads_never_see_the_count_go_back() {
    const READS: u32 = 5_000;
    let machine = Machine::new();
    let timer = Arc::new(machine.attach().expect("attaches"));
    // The latest count that anybody has returned, on a line without wraps.
    let latest = Arc::new(AtomicU64::new(timer.read()));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (timer, latest) = (timer.clone(), latest.clone());
            thread::spawn(move || {
                let mut worst = 0;
                for _ in 0..READS {
                    let before = latest.load(Ordering::Acquire);
                    let now = timer.read();
                    let delta = now.wrapping_sub(before) & 0xFFFF;
                    if delta >= 0x8000 {
                        worst = worst.max(0x1_0000 - delta);
                    } else {
                        latest.fetch_max(before + delta, Ordering::AcqRel);
                    }
                }
                worst
            })
        })
        .collect();
    for thread in threads {
        let worst = thread.join().expect("the thread ends");
        assert_eq!(worst, 0, "counts back");
    }
}

#[test]
fn divisors_are_to_the_nearest_and_only_those_that_fit_can_be_loaded() {
    assert_eq!(i8254::divisor(0), None, "no rate");
    assert_eq!(i8254::divisor(100), Some(11_932), "rounded up");
    assert_eq!(i8254::divisor(1_000), Some(1_193), "rounded down");
    assert_eq!(i8254::divisor(u32::MAX), Some(0), "above the input");
    assert_eq!(i8254::reload(66_288), None, "18 Hz is too slow");
    assert_eq!(i8254::reload(65_536), Some(0), "the largest");
    assert_eq!(i8254::reload(65_535), Some(65_535), "one less");
    assert_eq!(i8254::reload(2), Some(2), "the smallest of mode 2");
    assert_eq!(i8254::reload(1), None, "mode 2 needs two");
}
