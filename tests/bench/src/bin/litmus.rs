//! Looks for a step back between two processors, see [`bench::litmus`].

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use bench::litmus::{self, Effort, STALLS};
use clap::Parser;
use serde_json::json;

/// Whether a reader on another processor ever sees time go back
#[derive(Debug, Parser)]
struct Options {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Millions of reads that follow another processor's, at least
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    millions: u64,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let [.., longest_stall] = STALLS;
    eprintln!("reading on two processors, the writer stopped in every place ...");
    let start = Instant::now();
    let found = litmus::run(Effort {
        reads: options.millions * 1_000_000,
        longest_stall,
    })?;
    let Some(report) = found else {
        println!("skipped: fewer than 2 processors are usable");
        return Ok(ExitCode::SUCCESS);
    };
    if options.json {
        println!(
            "{}",
            json!({
                "reads": report.reads,
                "windups": report.windups,
                "late": report.late,
                "stalls": report.stalls,
                "backward": report.backward,
                "worst_ns": report.worst_ns,
                "failures": report.failures,
                "step_counts": report.step,
                "skew_counts": report.skew,
                "bound_ns": report.bound_ns,
                "lead_counts": report.lead,
                "frequency_hz": report.frequency,
            })
        );
    } else {
        println!(
            "{} reads behind another processor's in {:.1} s",
            report.reads,
            start.elapsed().as_secs_f64()
        );
        println!(
            "{} windups with rates of +-500 ppm in turn, {} late, {} stopped on the way",
            report.windups, report.late, report.stalls
        );
        println!(
            "lead {} counts, step {}, counters at most {} apart: bound {} ns",
            report.lead, report.step, report.skew, report.bound_ns
        );
        println!(
            "steps back: {}, worst {} ns, beyond the bound {}",
            report.backward, report.worst_ns, report.failures
        );
    }
    Ok(if report.failures == 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("time went back further than counters of these processors may be apart");
        ExitCode::FAILURE
    })
}
