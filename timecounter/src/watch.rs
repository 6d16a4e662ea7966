//! The watchdog: the active counter against the others, once in a while.
//!
//! # Method
//!
//! [`Clock::watch`] samples every other counter between two reads of the active
//! one, the closest of a few tries. The interval is that since the last good
//! sample of the same pair. The best other counter that the interval suits is
//! the *reference*, the next best the *third*. The dummy, which counts reads, is
//! neither, and nothing here counts ticks.
//!
//! * Beyond [`THRESHOLD_PPB`] the third convicts one of
//!   the two; that one is demoted, an active one replaced although an operator
//!   may have chosen it: a clock that is known to be wrong is nobody's wish.
//!   Without a third that takes sides nobody is convicted.
//! * Within it the active counter's rate follows the reference, if the third is
//!   nearer to that, or, without a third, if the active counter's rate was
//!   measured at boot and the reference's is a crystal's nominal one. What is
//!   followed is the mean since the two last changed their ways, so that its
//!   uncertainty shrinks as it gets longer, and nothing is corrected within that.
//!   [`Clock::set_frequency`]'s limit, 476 ppm, holds; what is between the two
//!   limits stays uncorrected, and published.
//!
//! All figures are of nominal rates: a counter that was corrected still shows
//! how wrong its driver is.
//!
//! # Limits
//!
//! A counter that went wrong has told the time until the next check: up to an
//! interval long. A counter of 16 bits is too narrow for any sane interval and
//! takes no part.

use core::fmt;

use spin::Mutex;

use crate::clock::Clock;
use crate::delta;
use crate::quality;
use crate::registry::{DUMMY, Demotion, MAX_COUNTERS, Registered};
use crate::watchdog::{self, Culprit, Deviation, THRESHOLD_PPB};

/// Tries to sample a counter without being put aside meanwhile.
const TRIES: u32 = 4;

/// What is never corrected, in 10^-9: two crystals agree no better.
const DEAD_BAND_PPB: i64 = 2_000;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The counters agree; or it was said before that they do not.
    Agree,
    /// No pair of good samples yet: the first check, or a new active counter.
    Started,
    /// The clock was busy.
    Busy,
    /// There is no other counter that could be one's reference.
    Alone,
    /// Every read took too long, or the interval may hide wraps.
    Unusable,
    /// The active counter's rate follows the reference from now on.
    Corrected {
        /// The active counter.
        name: &'static str,
        /// What its nominal rate is off.
        deviation: Deviation,
        /// The counter that it was measured against.
        against: &'static str,
    },
    /// Two counters disagree, and no third takes sides. Said once.
    Undecided {
        /// The active counter.
        name: &'static str,
        /// By how much it is faster.
        deviation: Deviation,
        /// The other.
        against: &'static str,
    },
    /// A counter was demoted.
    Convicted {
        /// Which.
        name: &'static str,
        /// Why.
        reason: Demotion,
    },
}

impl Watched {
    /// Whether an operator would want to read it.
    #[must_use]
    pub fn is_news(&self) -> bool {
        matches!(
            self,
            Self::Corrected { .. } | Self::Undecided { .. } | Self::Convicted { .. }
        )
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agree => f.write_str("the counters agree"),
            Self::Started => f.write_str("the first samples"),
            Self::Busy => f.write_str("busy"),
            Self::Alone => f.write_str("no other counter to check by"),
            Self::Unusable => f.write_str("no usable samples"),
            Self::Corrected {
                name,
                deviation,
                against,
            } => write!(f, "{name}: corrected, {deviation} off {against}"),
            Self::Undecided {
                name,
                deviation,
                against,
            } => write!(
                f,
                "{name}: {deviation} off {against}, and no third counter says which is right"
            ),
            Self::Convicted { name, reason } => write!(f, "{name}: {reason}"),
        }
    }
}

/// What is kept of one counter beside the active one.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// The last good sample, and the active counter's count then; nothing before
    /// the first.
    last: Option<Sample>,
    /// Nanoseconds by either since they last changed their ways, nominal.
    mean: Lengths,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    active: u64,
    other: u64,
    /// What the active counter counted around the other's read.
    bracket: u64,
}

/// One interval by two counters, and what is uncertain of it.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    active_ns: i64,
    other_ns: i64,
    bracket_ns: i64,
}

impl Lengths {
    fn deviation(self) -> Deviation {
        Deviation::over(self.active_ns, self.other_ns, self.bracket_ns)
    }
}

#[derive(Debug)]
struct State {
    active: u8,
    tracks: [Track; MAX_COUNTERS],
    /// A disagreement without a third was reported.
    said: bool,
}

/// The watchdog's memory; touched inside the gate alone.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<State>);

impl Watch {
    pub(crate) const fn new() -> Self {
        const UNSEEN: Track = Track {
            last: None,
            mean: Lengths {
                active_ns: 0,
                other_ns: 0,
                bracket_ns: 0,
            },
        };
        Self(Mutex::new(State {
            active: DUMMY,
            tracks: [UNSEEN; MAX_COUNTERS],
            said: false,
        }))
    }
}

/// A counter whose interval can be used.
struct Fit<'r> {
    counter: Registered<'r>,
    now: Lengths,
}

/// Samples `other` between two reads of `active`.
fn sample(active: &Registered<'_>, other: &Registered<'_>) -> Sample {
    let once = || {
        let before = active.read() & active.mask();
        let count = other.read() & other.mask();
        let bracket = delta::masked(active.read(), before, active.mask());
        Sample {
            active: before.wrapping_add(bracket / 2) & active.mask(),
            other: count,
            bracket,
        }
    };
    (1..TRIES).fold(once(), |best, _| {
        let next = once();
        if next.bracket < best.bracket {
            next
        } else {
            best
        }
    })
}

/// Nanoseconds from `last` to `now` by the counter's nominal rate; 0 where a
/// counter of 64 bits stepped back.
fn nominal_ns(counter: &Registered<'_>, now: u64, last: u64) -> i64 {
    let counts = match counter.mask() {
        u64::MAX => delta::clamped(now, last),
        mask => delta::masked(now, last, mask),
    };
    nominal_length(counter, counts)
}

fn nominal_length(counter: &Registered<'_>, counts: u64) -> i64 {
    let hz = counter.counter().frequency();
    watchdog::Span { counts, hz }.ns()
}

/// How much the rate in force differs from the nominal one, in 10^-9.
fn correction(counter: &Registered<'_>) -> i64 {
    let nominal = i64::try_from(counter.counter().frequency()).unwrap_or(i64::MAX);
    let in_force = i64::try_from(counter.frequency()).unwrap_or(i64::MAX);
    watchdog::ppb(in_force.saturating_sub(nominal), nominal)
}

impl Clock {
    /// Checks the active counter against the others, and corrects or replaces
    /// what is wrong. To be called once an interval, of a second or so, from any
    /// context: it waits for nobody and reads each counter a few times.
    pub fn watch(&self) -> Watched {
        let Some(_inside) = self.try_enter() else {
            return Watched::Busy;
        };
        let Some(mut state) = self.watch.0.try_lock() else {
            return Watched::Busy;
        };
        let Some(active) = self.active().filter(|active| active.index() != DUMMY) else {
            return Watched::Alone;
        };
        let started = state.active != active.index();
        if started {
            *state = State {
                active: active.index(),
                ..Watch::new().0.into_inner()
            };
        }
        let mut fit = [const { None }; MAX_COUNTERS];
        let others = self.measure(&active, &mut state, &mut fit);
        let mut best: [Option<&Fit<'_>>; 2] = [None, None];
        for next in fit.iter().flatten() {
            let rank = |fit: &Option<&Fit<'_>>| fit.map_or(i32::MIN, |fit| fit.counter.quality());
            if next.counter.quality() > rank(&best[0]) {
                best = [Some(next), best[0]];
            } else if next.counter.quality() > rank(&best[1]) {
                best[1] = Some(next);
            }
        }
        let [reference, third] = best;
        match reference {
            None if others == 0 => Watched::Alone,
            None if started => Watched::Started,
            None => Watched::Unusable,
            Some(reference) => self.judge(&active, reference, third, &mut state),
        }
    }

    /// Takes the samples and enters the counters whose interval can be used;
    /// gives the number of those that could ever be.
    fn measure<'r>(
        &'r self,
        active: &Registered<'_>,
        state: &mut State,
        fit: &mut [Option<Fit<'r>>; MAX_COUNTERS],
    ) -> usize {
        let mut samples = [None; MAX_COUNTERS];
        // The interval by whichever counter says most.
        let mut longest = 0_i64;
        let mut others = 0;
        for (other, place) in self.registry().iter().zip(&mut samples) {
            let itself = other.index() == DUMMY || other.index() == active.index();
            if itself || other.quality() <= quality::DEMOTED {
                continue;
            }
            others += 1;
            let now = sample(active, &other);
            *place = Some(now);
            let track = state.tracks.get(usize::from(other.index()));
            if let Some(last) = track.and_then(|track| track.last) {
                longest = longest
                    .max(nominal_ns(active, now.active, last.active))
                    .max(nominal_ns(&other, now.other, last.other));
            }
        }
        let slots = samples.iter().zip(&mut state.tracks).zip(fit);
        for (other, ((now, track), fit)) in self.registry().iter().zip(slots) {
            let Some(now) = *now else {
                *track = Track {
                    last: None,
                    ..*track
                };
                continue;
            };
            let Some(last) = track.last else {
                track.last = Some(now);
                continue;
            };
            let half = active.wrap_ns().min(other.wrap_ns()) / 2;
            if longest.unsigned_abs() >= half {
                track.last = Some(now);
                continue;
            }
            let bracket = nominal_length(active, now.bracket);
            let lengths = Lengths {
                active_ns: nominal_ns(active, now.active, last.active),
                other_ns: nominal_ns(&other, now.other, last.other),
                // Half of each lies at either side, and a count of each counter is
                // lost at both ends.
                bracket_ns: (bracket + nominal_length(active, last.bracket)) / 2
                    + nominal_length(active, 2)
                    + nominal_length(&other, 2),
            };
            // Half the threshold of this interval. Otherwise the last good sample
            // stands, and the interval goes on.
            if watchdog::ppb(bracket, longest) > THRESHOLD_PPB / 2 {
                continue;
            }
            track.last = Some(now);
            track.mean = mean(track.mean, lengths);
            *fit = Some(Fit {
                counter: other,
                now: lengths,
            });
        }
        others
    }

    fn judge(
        &self,
        active: &Registered<'_>,
        reference: &Fit<'_>,
        third: Option<&Fit<'_>>,
        state: &mut State,
    ) -> Watched {
        let against = reference.counter.name();
        let deviation = reference.now.deviation();
        let mean = |fit: &Fit<'_>| {
            let track = state.tracks.get(usize::from(fit.counter.index()));
            track.map_or(Deviation::default(), |track| track.mean.deviation())
        };
        let settled = mean(reference);
        active.set_skew(settled.ppb);
        for fit in [Some(reference), third].into_iter().flatten() {
            let by_the_clock = mean(fit).ppb.saturating_sub(correction(active));
            fit.counter.set_skew(by_the_clock.saturating_neg());
        }
        if deviation.exceeds(THRESHOLD_PPB) {
            let culprit = third.map_or(Culprit::Undecided, |third| {
                // The third against the reference: both against the active one.
                let between = Deviation::over(
                    third.now.other_ns,
                    reference.now.other_ns,
                    third
                        .now
                        .bracket_ns
                        .saturating_add(reference.now.bracket_ns),
                );
                watchdog::convict(third.now.deviation(), between, THRESHOLD_PPB)
            });
            let third = third.map_or("", |third| third.counter.name());
            return match culprit {
                Culprit::First => self.convict(active, (deviation.ppb, against, third)),
                Culprit::Second => {
                    let ppb = deviation.ppb.saturating_neg();
                    self.convict(&reference.counter, (ppb, active.name(), third))
                }
                Culprit::Undecided if state.said => Watched::Agree,
                Culprit::Undecided => {
                    state.said = true;
                    Watched::Undecided {
                        name: active.name(),
                        deviation,
                        against,
                    }
                }
            };
        }
        state.said = false;
        let left = settled.ppb.saturating_sub(correction(active));
        let band = settled
            .uncertain
            .saturating_mul(2)
            .saturating_add(DEAD_BAND_PPB);
        let follows = match third {
            Some(third) => {
                let other = mean(third).ppb.saturating_sub(settled.ppb);
                other.saturating_abs() < left.saturating_abs() / 2
            }
            None => {
                active.counter().is_calibrated() && !reference.counter.counter().is_calibrated()
            }
        };
        if left.saturating_abs() <= band || !follows || !self.follow(active, settled.ppb) {
            return Watched::Agree;
        }
        Watched::Corrected {
            name: active.name(),
            deviation: settled,
            against,
        }
    }

    /// Makes the active counter's rate `ppb` above its nominal one, or as near as
    /// it may be; whether that changed anything.
    fn follow(&self, active: &Registered<'_>, ppb: i64) -> bool {
        let nominal = i128::from(active.counter().frequency());
        let (low, high) = self.frequency_limits(active);
        let wanted = nominal + nominal * i128::from(ppb) / 1_000_000_000;
        let hz = wanted.clamp(i128::from(low), i128::from(high)) as u64;
        hz != active.frequency() && self.set_frequency_inside(active, hz)
    }

    fn convict(
        &self,
        counter: &Registered<'_>,
        (ppb, against, third): (i64, &'static str, &'static str),
    ) -> Watched {
        let reason = Demotion::Convicted {
            ppb,
            against,
            third,
        };
        if !counter.try_demote(reason) {
            return Watched::Busy;
        }
        self.replace(counter, ppb);
        Watched::Convicted {
            name: counter.name(),
            reason,
        }
    }
}

/// The mean continued by `now`, or begun with it where the two contradict each
/// other: a rate has changed.
fn mean(mean: Lengths, now: Lengths) -> Lengths {
    let (before, latest) = (mean.deviation(), now.deviation());
    let uncertain = before.uncertain.saturating_add(latest.uncertain);
    let changed = before.ppb.saturating_sub(latest.ppb).saturating_abs() > uncertain;
    if mean.active_ns == 0 || changed {
        return now;
    }
    Lengths {
        active_ns: mean.active_ns.saturating_add(now.active_ns),
        other_ns: mean.other_ns.saturating_add(now.other_ns),
        // Consecutive intervals share their ends, so only the outer two count;
        // the wider bracket stands for both.
        bracket_ns: mean.bracket_ns.max(now.bracket_ns),
    }
}
