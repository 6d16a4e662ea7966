//! The litmus, shortened: enough to catch an ordering that is plainly missing.

#![forbid(unsafe_code)]

use bench::litmus::{self, Effort};

#[test]
fn no_processor_sees_another_ones_time_go_back() {
    let effort = Effort {
        reads: 4_000_000,
        longest_stall: 100,
    };
    match litmus::run(effort).expect("threads on two processors") {
        None => println!("skipped: fewer than 2 processors are usable"),
        Some(report) => {
            assert!(
                report.reads >= effort.reads / 2,
                "too few reads: {report:?}"
            );
            assert!(report.stalls > 20, "the writer hardly stopped: {report:?}");
            assert_eq!(report.failures, 0, "time went back: {report:?}");
        }
    }
}
