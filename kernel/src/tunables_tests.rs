use super::Tunables;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn apply(text: &[u8]) -> (Tunables, Vec<String>) {
    let mut tunables = Tunables::default();
    let mut lines = Vec::new();
    tunables.apply(text, |complaint| lines.push(complaint.to_string()));
    (tunables, lines)
}

#[test]
fn every_tunable_is_taken() {
    let (tunables, lines) = apply(
        b"kern.hz=250 kern.smp.disabled=1 kern.timecounter.hardware=HPET\n\
          kern.timecounter.alloweddeviation=-3 kern.timecounter.stepwarnings=1\t\
          kern.timecounter.fast_gettime=0 kern.timecounter.invariant_tsc=1\r\n\
          kern.timecounter.smp_tsc=0 kern.timecounter.smp_tsc_adjust=2 machdep.disable_tsc=1 \
          kern.timecounter.nojitter=2 kern.timecounter.watchdog=20 machdep.disable_tsc_calibration=0x1 hw.i8254.freq=1193000 \
          hw.acpi.timer_test_enabled=0 hw.acpi.hpet.mmap_allow=0",
    );
    assert!(lines.is_empty(), "all of them are known: {lines:?}");
    let expected = Tunables {
        hz: Some(250),
        smp_disabled: true,
        hardware: Some("HPET".try_into().expect("four letters fit")),
        allowed_deviation: -3,
        step_warnings: 1,
        fast_gettime: 0,
        invariant_tsc: Some(true),
        smp_tsc: Some(false),
        smp_tsc_adjust: 2,
        nojitter: 2,
        watchdog: 20,
        disable_tsc: true,
        disable_tsc_calibration: true,
        i8254_freq: Some(1_193_000),
        acpi_timer_test: false,
        hpet_mmap_allow: false,
    };
    assert_eq!(tunables, expected, "each word sets its own tunable");
}

#[test]
fn a_word_that_is_not_understood_is_named_and_changes_nothing() {
    for (word, line) in [
        ("kern.hz=abc", "tunable kern.hz=abc: not a number, ignored"),
        ("kern.hz=", "tunable kern.hz=: not a number, ignored"),
        (
            "kern.hz=7",
            "tunable kern.hz=7: not within 8 to 10000, ignored",
        ),
        (
            "kern.hz=10001",
            "tunable kern.hz=10001: not within 8 to 10000, ignored",
        ),
        ("kern.hz", "tunable kern.hz: no value, ignored"),
        ("kern.HZ=100", "tunable kern.HZ=100: unknown, ignored"),
        ("=1", "tunable =1: unknown, ignored"),
        (
            "machdep.disable_tsc=2147483648",
            "tunable machdep.disable_tsc=2147483648: not within -2147483648 to 2147483647, ignored",
        ),
        (
            "hw.i8254.freq=0",
            "tunable hw.i8254.freq=0: not within 1192017 to 1194347, ignored",
        ),
        (
            "kern.timecounter.nojitter=3",
            "tunable kern.timecounter.nojitter=3: not within 0 to 2, ignored",
        ),
        (
            "kern.timecounter.watchdog=-1",
            "tunable kern.timecounter.watchdog=-1: not within 0 to 60, ignored",
        ),
        (
            "kern.timecounter.hardware=",
            "tunable kern.timecounter.hardware=: not the name of a counter, ignored",
        ),
        (
            "kern.timecounter.hardware=a-name-that-is-32-bytes-long....",
            "tunable kern.timecounter.hardware=a-name-that-is-32-bytes-long....: \
             not the name of a counter, ignored",
        ),
        (
            "kern.timecounter.timehands_count=2",
            "tunable kern.timecounter.timehands_count=2: \
             the ring of timehands has one size, ignored",
        ),
        (
            "kern.timecounter.tsc_shift=1",
            "tunable kern.timecounter.tsc_shift=1: the TSC is used with all its bits, ignored",
        ),
    ] {
        let (tunables, lines) = apply(word.as_bytes());
        assert_eq!(lines, [line], "for {word}");
        assert_eq!(tunables, Tunables::default(), "{word} must change nothing");
    }
}

#[test]
fn bytes_that_are_not_text_are_shown_escaped() {
    let (tunables, lines) = apply(b"kern.hz=\xff\x1b[2J");
    assert_eq!(
        lines,
        ["tunable kern.hz=\\xff\\x1b[2J: unknown, ignored"],
        "the console must not see raw control bytes"
    );
    assert_eq!(tunables, Tunables::default(), "nothing was set");
}

#[test]
fn a_later_word_replaces_an_earlier_one_but_a_bad_one_does_not() {
    let (tunables, lines) = apply(b"kern.hz=100 kern.hz=200 kern.hz=x");
    assert_eq!(tunables.hz, Some(200), "the last good value counts");
    assert_eq!(lines.len(), 1, "the bad one is reported: {lines:?}");
}

#[test]
fn a_value_may_stand_in_quotes() {
    let (tunables, lines) = apply(b"kern.timecounter.hardware=\"ACPI-fast\" kern.hz=\"100\"");
    assert!(lines.is_empty(), "quotes are no error: {lines:?}");
    assert_eq!(
        tunables.hardware.as_deref(),
        Some("ACPI-fast"),
        "as loader.conf writes it"
    );
    assert_eq!(tunables.hz, Some(100), "numbers too");
}

#[test]
fn text_without_words_is_no_complaint() {
    for text in [&b""[..], b" \n\t\r\n"] {
        let (tunables, lines) = apply(text);
        assert!(lines.is_empty(), "nothing to complain about: {lines:?}");
        assert_eq!(tunables, Tunables::default(), "nothing was set");
    }
}
