//! Every interleaving and every value a relaxed load may return, for the
//! production ring, reader and gate with a small payload.
//!
//! Run with `RUSTFLAGS="--cfg loom"`; empty otherwise.

#![cfg(loom)]

mod gate;
mod snapshots;
mod time;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Whether the model finds a failure.
fn fails(check: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| model(check))).is_err()
}
