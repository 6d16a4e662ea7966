//! Planning past the machine: how clock reads scale to thousands of CPUs.
//!
//! `cargo xtask sim scale` counts which cache lines move from CPU to CPU while all
//! of them read one clock as fast as they can and one winds it up, and what that
//! costs in time, for the [clocks](clock) of this repository and for two others.
//!
//! | module | its job |
//! |---|---|
//! | [`trace`] | what the production code does to the page, recorded |
//! | [`clock`] | the clocks, as accesses |
//! | [`mesi`] | cache lines: who has a copy, and what an access fetches |
//! | [`costs`] | the machine: what a transfer costs |
//! | [`machine`], [`events`] | the simulation, and what it comes to |
//! | [`published`] | measurements to be held against |
//! | [`report`], [`plot`] | table, JSON, and SVG |
//!
//! # What was fitted, and what is prediction
//!
//! Five parameters describe the machine of the [published] figures, each
//! fitted on one row:
//!
//! | parameter | row |
//! |---|---|
//! | `read` | 1 CPU, without shared stores: it is that figure |
//! | `exchange-read` | 1 CPU, with a compare-and-exchange: it is that figure |
//! | `neighbour` | 2 CPUs, with a compare-and-exchange |
//! | `hop` | 256 CPUs, with a compare-and-exchange |
//! | `memory` | 512 CPUs, without shared stores: it was a sequence lock |
//!
//! Everything else is prediction: the compare-and-exchange from 4 to 128 CPUs, the
//! sequence lock from 2 to 256, all of ours from 2 on, and everything beyond the
//! published rows. The test `tests/sim_scale.rs` holds the ratios to the row of 1 CPU
//! against the published ones: the sequence lock's are within a factor of 1.05,
//! ours within 1.10 (it is the faster with many CPUs), the compare-and-exchange's
//! within 1.4, most of that with 4 CPUs.
//!
//! # Limits
//!
//! Caches do not forget; lines are alone with their own traffic; a request is
//! served in the order it came. Memory serves the load of one line after the other,
//! where large machines combine or forward them: what `memory` makes of more CPUs
//! than were measured is the pessimist's figure. A hop was fitted on a line that
//! all CPUs fight for and so contains what the machine's protocol adds to that. The
//! model knows nothing of a writer who is stopped while a sequence lock is odd,
//! which is the reason not to have one: readers of `ours` never wait.

pub mod clock;
pub mod costs;
pub mod events;
pub mod machine;
pub mod mesi;
pub mod plot;
pub mod published;
pub mod report;
pub mod trace;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::report::Report;
use crate::opt::{Sim, Simulation};

/// Runs what `options` asks for.
///
/// # Errors
/// The trace cannot be recorded, or the plot not be written.
pub fn run(options: &Sim) -> Result<ExitCode> {
    let Simulation::Scale = options.what;
    let trace = trace::record()?;
    let report = Report::of(&trace, options.max_cpus, options.hz, &options.costs);
    if options.json {
        println!("{:#}", report.json());
    } else {
        report.print();
    }
    if let Some(file) = &options.svg {
        fs::write(file, plot::svg(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
