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
use crate::clock::MAX_ADJUSTMENT;
use crate::kind::Kind;
use crate::page::{Timehands, ns_of_uptime};
use crate::scale::{Multiplier, Scale, ScaleError};
use crate::timespec::Timespec;

/// A counter's rate in all the forms that a segment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Seconds a count.
    pub scale: Scale,
    /// Nanoseconds a count.
    pub multiplier: Multiplier,
    /// Multiplier of the floor slope, with the same shift.
    pub floor: u64,
}

impl Rate {
    /// The rate of a counter of `frequency` Hz under `adjustment` ns per second
    /// in 32.32, which the caller has limited to +-500 ppm.
    ///
    /// The floor slope is that of `reference` Hz: the counter's rate when it
    /// became the active one. It stays as long as the counter does, whatever
    /// corrections follow, for a state whose tail is less steep than that of
    /// the state before it would in the end sink below it.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] where a frequency or the adjustment is out of range.
    pub fn new(frequency: u64, adjustment: i64, reference: u64) -> Result<Self, ScaleError> {
        let scale = Scale::new(frequency, adjustment)?;
        let multiplier = Multiplier::from_scale(scale);
        let nominal = Scale::nominal(reference)?;
        let floor = Multiplier::floor_with(nominal, multiplier.shift)
            .ok_or(ScaleError::AdjustmentOutOfRange)?;
        Ok(Self {
            scale,
            multiplier,
            floor: floor.mult,
        })
    }

    /// Whether a clock can run on `frequency` Hz under every adjustment.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] if it cannot.
    pub fn check(frequency: u64) -> Result<(), ScaleError> {
        for adjustment in [0, -MAX_ADJUSTMENT, MAX_ADJUSTMENT] {
            Self::new(frequency, adjustment, frequency)?;
        }
        Ok(())
    }

    /// The rate of a published segment.
    pub(crate) fn of(hands: &Timehands, kind: Kind) -> Self {
        Self {
            scale: Scale::from_units(hands.scale),
            multiplier: hands.multiplier(kind),
            floor: hands.floor,
        }
    }
}

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

/// The line that a segment being made starts with.
struct Cursor {
    start: u64,
    monotonic: Bintime,
    realtime: Bintime,
    rate: Rate,
    tai: i32,
    leap: u32,
}

impl Cursor {
    fn advance(&mut self, counts: u64, mask: u64) {
        let elapsed = self.rate.scale.bintime(counts);
        self.start = self.start.wrapping_add(counts) & mask;
        self.monotonic = self.monotonic.saturating_add(elapsed);
        self.realtime = self.realtime.saturating_add(elapsed);
    }

    /// Advances over the past, unpublished.
    fn pass(&mut self, counts: u64, mask: u64, seconds: &mut impl Seconds) {
        let utc = self.realtime.sec;
        self.advance(counts, mask);
        self.begin_since(utc, seconds);
    }

    /// Has the seconds handled that began since the time of day was `utc`.
    fn begin_since(&mut self, utc: i64, seconds: &mut impl Seconds) {
        let begun = self.realtime.sec.saturating_sub(utc);
        if let Ok(count @ 1..) = u64::try_from(begun) {
            let change = seconds.begin(utc, count);
            self.change(change);
        }
    }

    fn change(&mut self, change: SecondChange) {
        self.realtime.sec = self.realtime.sec.saturating_add(change.step);
        self.tai = change.tai;
        self.leap = change.leap;
    }

    /// Counts until the time of day reaches `seconds` more whole seconds, at
    /// least 1.
    fn counts_to_second(&self, seconds: u64) -> u64 {
        let units = (u128::from(seconds) << 64) - u128::from(self.realtime.frac);
        let counts = units.div_ceil(u128::from(self.rate.scale.units()));
        u64::try_from(counts).unwrap_or(u64::MAX)
    }

    fn hands(&self, length: u64, coarse: Coarse) -> Timehands {
        Timehands {
            start: self.start,
            length,
            multiplier: self.rate.multiplier.mult,
            monotonic: self.monotonic,
            realtime: self.realtime,
            scale: self.rate.scale.units(),
            floor: self.rate.floor,
            coarse_monotonic_ns: coarse.monotonic_ns,
            coarse_realtime: coarse.realtime,
            tai: self.tai,
            leap: self.leap,
        }
    }

    fn kind(&self, kind: Kind) -> Kind {
        kind.with_shift(self.rate.multiplier.shift)
    }

    /// The time `delta` counts behind the start, as a reader would tell it.
    fn coarse(&self, delta: u64) -> Coarse {
        Coarse::at(
            self.monotonic,
            self.realtime,
            self.rate.multiplier.ns(delta),
        )
    }
}

/// The values of the coarse clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coarse {
    monotonic_ns: u64,
    realtime: Timespec,
}

impl Coarse {
    /// Both clocks `ns` behind their base, with the reader's own truncation, so
    /// that no coarse value is above a precise one.
    fn at(monotonic: Bintime, realtime: Bintime, ns: u64) -> Self {
        let realtime = Timespec::from(realtime);
        Self {
            monotonic_ns: ns_of_uptime(monotonic).saturating_add(ns),
            realtime: crate::reader::carried(realtime.sec as u64, realtime.nsec, ns),
        }
    }
}

impl Timehands {
    fn multiplier(&self, kind: Kind) -> Multiplier {
        Multiplier {
            mult: self.multiplier,
            shift: kind.shift(),
        }
    }

    fn floor(&self, kind: Kind) -> Multiplier {
        Multiplier {
            mult: self.floor,
            shift: kind.shift(),
        }
    }

    /// Nanoseconds that a reader adds to the base `elapsed` counts behind the
    /// start: on the line, and on the floor slope past the end.
    fn reader_ns(&self, kind: Kind, elapsed: u64) -> u64 {
        let line = self.multiplier(kind).ns(elapsed.min(self.length));
        let beyond = elapsed.saturating_sub(self.length);
        line.saturating_add(self.floor(kind).ns(beyond))
    }

    /// Uptime and time of day where the segment ends.
    fn end(&self) -> (Bintime, Bintime) {
        let length = Scale::from_units(self.scale).bintime(self.length);
        (
            self.monotonic.saturating_add(length),
            self.realtime.saturating_add(length),
        )
    }

    /// Uptime and time of day `elapsed` counts behind the start, on the floor
    /// slope past the end: never below what a reader tells there.
    fn tail(&self, kind: Kind, elapsed: u64) -> (Bintime, Bintime) {
        let line = Scale::from_units(self.scale).bintime(elapsed.min(self.length));
        let beyond = self.floor(kind).ns(elapsed.saturating_sub(self.length));
        let add = line.saturating_add(Bintime::from_ns(beyond));
        (
            self.monotonic.saturating_add(add),
            self.realtime.saturating_add(add),
        )
    }

    fn cursor(&self, start: u64, (monotonic, realtime): (Bintime, Bintime), rate: Rate) -> Cursor {
        Cursor {
            start,
            monotonic,
            realtime,
            rate,
            tai: self.tai,
            leap: self.leap,
        }
    }
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
