use super::{Fault, Faulty};
use alloc::boxed::Box;
use alloc::string::ToString;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use timecounter::{Timecounter, UserCounter};

/// A counter of 24 bits at 1 MHz that stands where the test puts it.
struct Real(AtomicU64);

impl Timecounter for Real {
    fn name(&self) -> &'static str {
        "real"
    }
    fn frequency(&self) -> u64 {
        1_000_000
    }
    fn mask(&self) -> u64 {
        0xff_ffff
    }
    fn quality(&self) -> i32 {
        7
    }
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & 0xff_ffff
    }
    fn user_counter(&self) -> UserCounter {
        UserCounter::Hpet
    }
}

fn counter() -> (&'static Real, Faulty) {
    let real: &'static Real = Box::leak(Box::new(Real(AtomicU64::new(1_000))));
    (real, Faulty::new(real, |_| {}))
}

/// Sets a fault, lets the real counter run a million counts in thousands, and
/// returns by how much the faulty one moved.
fn moved(fault: Fault) -> u64 {
    let (real, faulty) = counter();
    let before = faulty.read();
    faulty.set(fault);
    for _ in 0..1_000 {
        real.0.fetch_add(1_000, Ordering::Relaxed);
        faulty.read();
    }
    faulty.read().wrapping_sub(before) & faulty.mask()
}

#[test]
fn a_fault_moves_the_counter_as_it_says() {
    for (fault, counts) in [
        (Fault::None, 1_000_000),
        (Fault::Rate(300), 1_000_300),
        (Fault::Rate(-20_000), 980_000),
        (Fault::Stop, 0),
        (Fault::Jump(5_000_000), 1_005_000),
        (Fault::Jump(-5_000_000), 995_000),
        (Fault::Slow(10), 1_000_000),
    ] {
        assert_eq!(moved(fault), counts, "under {fault}");
    }
}

#[test]
fn neither_the_start_of_a_fault_nor_its_end_is_a_step() {
    let (real, faulty) = counter();
    for (fault, counts) in [
        (Fault::Rate(500_000), 150),
        (Fault::Stop, 0),
        (Fault::None, 100),
        (Fault::Rate(-500_000), 50),
    ] {
        let before = faulty.read();
        faulty.set(fault);
        assert_eq!(faulty.read(), before, "no step as {fault} begins");
        real.0.fetch_add(100, Ordering::Relaxed);
        assert_eq!(faulty.read() - before, counts, "{fault}");
    }
}

#[test]
fn a_wrap_of_the_real_counter_is_none_of_the_faulty_one() {
    let (real, faulty) = counter();
    faulty.set(Fault::Rate(-500_000));
    let before = faulty.read();
    for _ in 0..40 {
        real.0.fetch_add(0x10_0000, Ordering::Relaxed);
        faulty.read();
    }
    let expected = (20 * 0x10_0000) & faulty.mask();
    assert_eq!(
        faulty.read().wrapping_sub(before) & faulty.mask(),
        expected,
        "half of what the real one counted in two and a half wraps"
    );
}

#[test]
fn programs_read_the_real_counter_only_while_both_agree() {
    let (_, faulty) = counter();
    assert_eq!(faulty.user_counter(), UserCounter::Hpet, "nothing is wrong");
    faulty.hide_from_programs();
    assert_eq!(faulty.user_counter(), UserCounter::None, "it is to be");
    faulty.set(Fault::Slow(200));
    assert_eq!(faulty.user_counter(), UserCounter::None, "it is slow");
    faulty.set(Fault::None);
    assert_eq!(faulty.user_counter(), UserCounter::Hpet, "not any more");
    faulty.set(Fault::Jump(1_000));
    faulty.set(Fault::None);
    assert_eq!(
        faulty.user_counter(),
        UserCounter::None,
        "the two differ for good"
    );
}

#[test]
fn a_slow_counter_takes_as_long_as_it_says() {
    static WAITED: AtomicU32 = AtomicU32::new(0);
    let (real, _) = counter();
    let faulty = Faulty::new(real, |us| {
        WAITED.fetch_add(us, Ordering::Relaxed);
    });
    faulty.read();
    assert_eq!(WAITED.load(Ordering::Relaxed), 0, "nothing is wrong");
    faulty.set(Fault::Slow(200));
    faulty.read();
    faulty.read();
    assert_eq!(WAITED.load(Ordering::Relaxed), 400, "200 us a read");
    faulty.set(Fault::None);
    faulty.read();
    assert_eq!(WAITED.load(Ordering::Relaxed), 400, "not any more");
}

#[test]
fn only_faults_are_taken_for_faults() {
    for text in [
        "none",
        "stop",
        "rate:300",
        "rate:-20000",
        "jump:-5",
        "slow:200",
    ] {
        let fault: Result<Fault, _> = text.parse();
        assert_eq!(
            fault.map(|fault| fault.to_string()).as_deref(),
            Ok(text),
            "it is shown as it was written"
        );
    }
    for text in [
        "",
        ":",
        "none:",
        "none:1",
        "stop:1",
        "rate",
        "rate:",
        "rate:x",
        "rate:-1000000",
        "rate:1000001",
        "jump:3600000000001",
        "slow:-1",
        "slow:10001",
        "Rate:1",
        "rate:1:1",
    ] {
        let fault: Result<Fault, _> = text.parse();
        assert!(fault.is_err(), "{text:?} was taken for {fault:?}");
    }
}
