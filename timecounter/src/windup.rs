//! Windup: what the next segment is.
//!
//! # Background
//!
//! FreeBSD's windup folds the counts elapsed into a new base and publishes it:
//! base and sample belong to one moment, and the publication comes later. If the
//! rate changes, that lateness makes the clock go back. Here the next segment
//! starts exactly at the end that was announced for the last one, so it does not
//! matter when the publication gets through.
//!
//! # Method
//!
//! [`extend`] is a pure function of the last segment, the counts elapsed and the
//! rate; it hands the segments to publish to its caller. Normally that is one:
//! from the announced end to a tick and a *lead* behind now. A second's change
//! that alters rate or time of day ends a segment at that second exactly, so
//! there may be two.
//!
//! A windup that comes late has every second that it skipped handled under that
//! second's own number. What lies wholly in the past need not be published: a
//! reader with an old count is served by the tail of the segment it has. The work
//! does not grow with the gap: the rate is one over the whole of it, and seconds
//! move the time of day by whole seconds only, so they are handled together.

use crate::bintime::Bintime;
use crate::cursor::{Coarse, Cursor};
use crate::kind::Kind;
use crate::page::Timehands;

pub use crate::rate::Rate;

/// What is asked when seconds of the time of day begin.
pub trait Seconds {
    /// `count` seconds begin, the first of them the one after `utc`.
    fn begin(&mut self, utc: i64, count: u64) -> SecondChange;
}

/// What new seconds change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondChange {
    /// Seconds added to the time of day: -1 repeats one, +1 skips one.
    pub step: i64,
    /// TAI - UTC from this second on.
    pub tai: i32,
    /// State of the leap-second automaton.
    pub leap: u32,
}

/// How far ahead to announce, in counts of the active counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Counts between two windups.
    pub period: u64,
    /// How long before its start a segment is published if all is on time.
    pub lead: u64,
}

impl Horizon {
    /// The horizon of a counter of `frequency` Hz and `mask` wound up every
    /// `tick_ns`. The lead is an eighth of a tick: one read in eight then takes
    /// the way over the previous segment, and a tick may be that late without
    /// being noticed. Twice the lead, the earliest publication, is at most a
    /// sixteenth of the range.
    #[must_use]
    pub fn new(frequency: u64, mask: u64, tick_ns: u64) -> Self {
        let period = u128::from(frequency) * u128::from(tick_ns) / 1_000_000_000;
        let period = u64::try_from(period).unwrap_or(u64::MAX);
        // With its lead, a ninth of both, it is no longer than a segment may be;
        // and far from what a narrow counter takes for "before".
        let period = period.min(mask / 2).clamp(8, MAX_LENGTH / 9 * 8);
        Self {
            period,
            lead: (period / 8).min(mask / 32),
        }
    }

    /// The earliest that a segment is published before its start. Between one
    /// lead and two, so that a tick that comes early does not publish in vain.
    const fn earliest(self) -> u64 {
        self.lead.saturating_mul(2)
    }
}

/// Longest segment: a reader takes differences of 32 bits.
const MAX_LENGTH: u64 = u32::MAX as u64;

/// What became of a windup's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// It is too early: enough is announced.
    Early,
    /// Published before the last one's end.
    OnTime,
    /// Published this many counts after the last one's end.
    Late(u64),
}

/// Continues `last` from its end to a tick and a lead behind now.
///
/// `elapsed` is the number of counts from its start to now, negative before it;
/// `rate` holds from its end on, and so does `boottime`, the time of day less
/// uptime, where one is given. `seconds` is asked for
/// every second of the time of day that is reached; `publish` gets the segments in
/// order.
pub fn extend(
    (kind, last): (Kind, &Timehands),
    elapsed: i64,
    horizon: Horizon,
    rate: Rate,
    boottime: Option<Bintime>,
    seconds: &mut impl Seconds,
    publish: &mut impl FnMut(Kind, &Timehands),
) -> Extended {
    let until_end = i128::from(last.length) - i128::from(elapsed);
    if until_end > i128::from(horizon.earliest()) {
        return Extended::Early;
    }
    let late = u64::try_from(-until_end).unwrap_or(0);
    let ahead = u64::try_from(until_end).unwrap_or(0);
    let end = last.start.wrapping_add(last.length) & kind.mask();

    let mut cursor = last.cursor(end, last.end(), rate);
    let mut coarse = match u64::try_from(elapsed) {
        Ok(elapsed) => Coarse::at(last.monotonic, last.realtime, last.reader_ns(kind, elapsed)),
        // Before the start of what was announced: keep what is known.
        Err(_) => Coarse {
            monotonic_ns: last.coarse_monotonic_ns,
            realtime: last.coarse_realtime,
        },
    };
    if let Some(boottime) = boottime {
        cursor.realtime = cursor.monotonic.saturating_add(boottime);
    }
    announce(
        &mut cursor,
        kind,
        late,
        (horizon.period + horizon.lead)
            .saturating_add(late)
            .saturating_sub(ahead),
        &mut coarse,
        seconds,
        publish,
    );
    if late == 0 {
        Extended::OnTime
    } else {
        Extended::Late(late)
    }
}

/// Publishes from `cursor`, `passed` counts ago, over `left` counts.
fn announce(
    cursor: &mut Cursor,
    kind: Kind,
    passed: u64,
    left: u64,
    coarse: &mut Coarse,
    seconds: &mut impl Seconds,
    publish: &mut impl FnMut(Kind, &Timehands),
) {
    let mask = kind.mask();
    // What lies in the past of a segment is lost to the range that a narrow
    // counter has until the next windup, and to the reader's 32-bit difference.
    let longest = MAX_LENGTH.min(mask / 8);
    let (mut passed, mut left) = (passed, left);
    if left > longest && passed > 0 {
        cursor.pass(passed, mask, seconds);
        *coarse = cursor.coarse(0);
        left -= passed;
        passed = 0;
    }
    // Whole seconds behind the cursor that have been asked for.
    let mut asked = 0;
    loop {
        let boundary = cursor.counts_to_second(asked + 1);
        if boundary > left {
            break;
        }
        let utc = cursor.realtime.sec.saturating_add_unsigned(asked);
        let change = seconds.begin(utc, 1);
        asked += 1;
        if change.step == 0 && change.tai == cursor.tai && change.leap == cursor.leap {
            continue;
        }
        if boundary > passed {
            if passed > 0 {
                *coarse = cursor.coarse(passed);
            }
            publish(cursor.kind(kind), &cursor.hands(boundary, *coarse));
        }
        cursor.advance(boundary, mask);
        cursor.change(change);
        passed = passed.saturating_sub(boundary);
        left -= boundary;
        asked = 0;
    }
    if passed > 0 {
        *coarse = cursor.coarse(passed);
    }
    if left > 0 {
        publish(cursor.kind(kind), &cursor.hands(left, *coarse));
    }
}

/// Goes on from `last`, `elapsed` counts behind its start and past its end, at
/// `count` of another counter: the new line starts where the old tail is now.
/// Seconds that began since that end are handled at once.
pub fn change_counter(
    (kind, last): (Kind, &Timehands),
    elapsed: u64,
    (new_kind, count): (Kind, u64),
    horizon: Horizon,
    rate: Rate,
    seconds: &mut impl Seconds,
    publish: &mut impl FnMut(Kind, &Timehands),
) {
    let (_, end) = last.end();
    let base = last.tail(kind, elapsed.max(last.length));
    let mut cursor = last.cursor(count & new_kind.mask(), base, rate);
    cursor.begin_since(end.sec, seconds);
    let mut coarse = cursor.coarse(0);
    let length = horizon.period + horizon.lead;
    announce(
        &mut cursor,
        new_kind,
        0,
        length,
        &mut coarse,
        seconds,
        publish,
    );
}

/// Goes on from the end of `last` at `count`, after the counter itself stepped
/// back: nothing that was told is above that end but for a late windup's tail.
pub fn rebase(
    (kind, last): (Kind, &Timehands),
    count: u64,
    horizon: Horizon,
    rate: Rate,
    seconds: &mut impl Seconds,
    publish: &mut impl FnMut(Kind, &Timehands),
) {
    change_counter(
        (kind, last),
        last.length,
        (kind, count),
        horizon,
        rate,
        seconds,
        publish,
    );
}
