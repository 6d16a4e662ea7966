//! Measurements on the host, with the production code and no guest.
//!
//! * `read` (binary): what a clock read costs, ours beside others.
//! * [`litmus`] (and a binary) looks for a step back between two processors.
//! * [`scale`] (and a binary) compares the reads of two processors with one's.
//! * [`cpu`] pins threads to processors.
//! * [`tsc`] makes the host's TSC a timecounter.
//! * [`ticker`] is the tick of a kernel: a thread that winds a clock up.
//! * [`sample`] takes and sums up interleaved timings.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod litmus;
pub mod sample;
pub mod scale;
pub mod ticker;
pub mod tsc;
