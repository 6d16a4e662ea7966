//! The accesses of the production code, as it reports them itself.
//!
//! `timecounter`'s example `trace` is built with atomics that record what is done
//! with them, runs a clock, and prints what each windup and the reads behind it
//! did with the page and with the line of the jitter guard. Here that becomes
//! steps on cache lines of 64 bytes. What the writer does to words of its own is
//! not in the trace: no other CPU sees those.

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::Cargo;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines of the page; the guard's is behind them.
const PAGE_LINES: usize = 4096 / LINE;
/// Lines that the trace speaks of.
pub const LINES: usize = PAGE_LINES + 1;

/// What one access does to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is loaded from.
    Load(usize),
    /// It is stored to.
    Store(usize),
    /// A word of it is exchanged for another if it is as it was loaded.
    Exchange(usize),
}

impl Step {
    /// The line.
    pub fn line(self) -> usize {
        match self {
            Self::Load(line) | Self::Store(line) | Self::Exchange(line) => line,
        }
    }
}

/// One windup and the reads that follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The windup.
    pub windup: Vec<Step>,
    /// A read before the start of the segment that it announced.
    pub before: Vec<Step>,
    /// A read inside that segment.
    pub inside: Vec<Step>,
}

/// A turn of the ring of each sort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Where reads need no guard.
    pub plain: Vec<Segment>,
    /// Where they go by the jitter guard.
    pub guarded: Vec<Segment>,
}

/// Builds and runs the recorder.
///
/// # Errors
/// It cannot be built, fails, or prints what is not understood.
pub fn record() -> Result<Trace> {
    let cargo = Cargo::new("run")
        .args(["--quiet"])
        .package("timehands-timecounter")
        .args(["--features", "trace", "--example", "trace"]);
    let output = cargo
        .command()
        .stderr(std::process::Stdio::inherit())
        .output();
    let output = output.with_context(|| format!("cannot run {}", cargo.display()))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        cargo.display(),
        output.status
    );
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Understands what the recorder prints.
fn parse(text: &str) -> Result<Trace> {
    let mut trace = Trace::default();
    let mut last = String::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let section = words.next().unwrap_or_default();
        let step = step(&mut words).with_context(|| format!("not a line of a trace: {line}"))?;
        let (segments, part) = match section.strip_prefix("guarded-") {
            Some(part) => (&mut trace.guarded, part),
            None => (&mut trace.plain, section),
        };
        if part == "windup" && last != section {
            segments.push(Segment::default());
        }
        last = section.to_owned();
        let segment = segments
            .last_mut()
            .with_context(|| format!("no windup before {section}"))?;
        match part {
            "windup" => segment.windup.push(step),
            "before" => segment.before.push(step),
            "inside" => segment.inside.push(step),
            _ => bail!("an unknown part of a trace: {section}"),
        }
    }
    for (name, segments) in [("plain", &trace.plain), ("guarded", &trace.guarded)] {
        let whole = |segment: &Segment| {
            let parts = [&segment.windup, &segment.before, &segment.inside];
            parts.iter().all(|part| !part.is_empty())
        };
        ensure!(
            !segments.is_empty() && segments.iter().all(whole),
            "the trace of {name} reads is not whole"
        );
    }
    Ok(trace)
}

fn step<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<Step> {
    let (object, operation) = (words.next()?, words.next()?);
    let offset: usize = words.next()?.parse().ok()?;
    let line = match object {
        "page" => Some(offset / LINE).filter(|line| *line < PAGE_LINES)?,
        "guard" => Some(PAGE_LINES).filter(|_| offset < LINE)?,
        _ => return None,
    };
    match operation {
        "load" => Some(Step::Load(line)),
        "store" => Some(Step::Store(line)),
        "exchange" => Some(Step::Exchange(line)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "windup page store 128\nbefore page load 128\ninside page load 260\n\
        guarded-windup page store 64\nguarded-before page load 64\nguarded-inside guard exchange 0\n";

    #[test]
    fn a_trace_becomes_steps_on_lines() {
        let segment = Segment {
            windup: vec![Step::Store(2)],
            before: vec![Step::Load(2)],
            inside: vec![Step::Load(4)],
        };
        let guarded = Segment {
            windup: vec![Step::Store(1)],
            before: vec![Step::Load(1)],
            inside: vec![Step::Exchange(PAGE_LINES)],
        };
        let trace = parse(WHOLE).expect("a whole trace");
        assert_eq!(trace.plain, [segment], "bytes in lines of 64");
        assert_eq!(trace.guarded, [guarded], "the guard behind the page");
    }

    #[test]
    fn each_windup_begins_a_segment() {
        let trace = parse(&WHOLE.repeat(3)).expect("three turns");
        assert_eq!(trace.plain.len(), 3, "windups");
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for text in [
            "",
            "windup page store 128\n",
            "inside page load 128\n",
            "windup page store 4096\n",
            "windup guard store 64\n",
            "windup heap store 0\n",
            "windup page peek 0\n",
            "windup page store x\n",
            "sleep page load 0\n",
        ] {
            assert!(parse(text).is_err(), "accepted: {text:?}");
            let after = format!("{WHOLE}{text}");
            assert!(
                text.is_empty()
                    || text.starts_with("inside")
                    || text.starts_with("windup page store 128")
                    || parse(&after).is_err(),
                "accepted behind a whole one: {text:?}"
            );
        }
    }
}
