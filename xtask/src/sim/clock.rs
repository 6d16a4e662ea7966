//! The clocks that are compared, as what their reads and windups do with lines.
//!
//! Ours, with and without the jitter guard, do what the production code was
//! [recorded](super::trace) to do. The other two are the least that their kind
//! can do: a sequence lock and everything it protects on one line, whose writer
//! samples the counter inside, and a last value alone on its line.

use super::costs::{Costs, picoseconds};
use super::trace::{LINES, Step, Trace};

/// What a reader or the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Touches a line.
    Access(Step),
    /// Stores to the line of a sequence lock, which is odd from then on.
    Lock(usize),
    /// Stores to that line, which is even again.
    Unlock(usize),
    /// Loads from that line, and waits while it is odd.
    Await(usize),
    /// Reads the counter, which takes as long as a read.
    Sample,
}

impl Act {
    /// The access to a line that it begins with.
    pub fn step(self) -> Option<Step> {
        match self {
            Self::Access(step) => Some(step),
            Self::Lock(line) | Self::Unlock(line) => Some(Step::Store(line)),
            Self::Await(line) => Some(Step::Load(line)),
            Self::Sample => None,
        }
    }
}

/// What there is to do around one windup.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// The windup.
    pub windup: Vec<Act>,
    /// A read within the lead.
    pub before: Vec<Act>,
    /// A read behind it.
    pub inside: Vec<Act>,
}

/// One clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Its name in tables.
    pub name: &'static str,
    /// Lines it has.
    pub lines: usize,
    /// Picoseconds of a read without its transfers.
    pub read: u64,
    /// What is done from windup to windup; then from the first again.
    pub segments: Vec<Segment>,
}

impl Clock {
    /// The line that its reads exchange a word of, where they do.
    pub fn exchanged(&self) -> Option<usize> {
        let mut reads = self.segments.iter().flat_map(|segment| &segment.inside);
        reads.find_map(|act| match act {
            Act::Access(Step::Exchange(line)) => Some(*line),
            _ => None,
        })
    }
}

/// Names of the clocks, in the order of [`all`].
pub const NAMES: [&str; 4] = ["ours", "seqlock", "ours_guarded", "cmpxchg"];

/// All of them.
pub fn all(trace: &Trace, costs: &Costs) -> [Clock; 4] {
    let [ours, seqlock, guarded, cmpxchg] = NAMES;
    let read = picoseconds(costs.read_ns);
    [
        Clock {
            name: ours,
            lines: LINES,
            read,
            segments: recorded(&trace.plain),
        },
        Clock {
            name: seqlock,
            lines: 1,
            read,
            segments: vec![locked()],
        },
        Clock {
            name: guarded,
            lines: LINES,
            read,
            segments: recorded(&trace.guarded),
        },
        Clock {
            name: cmpxchg,
            lines: 1,
            read: picoseconds(costs.exchange_read_ns),
            segments: vec![exchanged()],
        },
    ]
}

fn recorded(segments: &[super::trace::Segment]) -> Vec<Segment> {
    let acts = |steps: &[Step]| steps.iter().copied().map(Act::Access).collect();
    segments
        .iter()
        .map(|segment| Segment {
            windup: acts(&segment.windup),
            before: acts(&segment.before),
            inside: acts(&segment.inside),
        })
        .collect()
}

/// A sequence lock on line 0.
fn locked() -> Segment {
    let read = vec![Act::Await(0), Act::Access(Step::Load(0))];
    Segment {
        windup: vec![Act::Lock(0), Act::Sample, Act::Unlock(0)],
        before: read.clone(),
        inside: read,
    }
}

/// A last value on line 0; there is nothing to wind up.
fn exchanged() -> Segment {
    let read = vec![Act::Access(Step::Load(0)), Act::Access(Step::Exchange(0))];
    Segment {
        windup: Vec::new(),
        before: read.clone(),
        inside: read,
    }
}
