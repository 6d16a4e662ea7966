//! Which of several counters to believe.
//!
//! Every other counter measures the TSC for a few milliseconds; what it finds
//! is its *testimony*. Two testimonies agree when they differ by no more than
//! their error bounds and the tolerance of two crystals. The one that most
//! others agree with is believed; where as many stand against as for it, the
//! better quality is, and the verdict says that it was no majority.
//!
//! A rate that CPUID states is a testimony, too: it supports a counter or
//! contradicts it, but is never believed over one that was measured.
//!
//! A counter that stands alone against a majority is lying about its rate, by
//! a factor that [`Verdict::true_rate`] gives. (An emulator whose clock runs
//! at half the speed, a reference off by 1 %, an HPET whose period is not in
//! femtoseconds: all seen in the field.)

use crate::calibrate::difference_ppb;

/// What two good crystals may differ by, both ends: 2 x 100 ppm, and as much
/// again for emulation. The core refuses to switch between counters at twice
/// that (one part in 1,024).
const TOLERANCE_PPB: u64 = 500_000;
/// The quality of a statement: below that of any counter.
pub const STATEMENT: i32 = i32::MIN;

/// What one witness says about the rate of the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// Its own quality, or [`STATEMENT`].
    pub quality: i32,
    /// The rate it measured, in Hz.
    pub frequency: u64,
    /// The bound of its error in parts per 10^9.
    pub error_ppb: u64,
}

impl Testimony {
    /// Whether both can be right.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let allowed = TOLERANCE_PPB
            .saturating_add(self.error_ppb)
            .saturating_add(other.error_ppb);
        difference_ppb(self.frequency, other.frequency) <= allowed
    }
}

/// Whom to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its place in the list.
    pub believed: usize,
    /// Its testimony.
    pub testimony: Testimony,
    /// How many agree with it, itself included.
    pub for_it: usize,
    /// How many do not.
    pub against: usize,
}

impl Verdict {
    /// Whether more are for it than against it.
    #[must_use]
    pub const fn by_majority(&self) -> bool {
        self.for_it > self.against
    }

    /// The true rate of a counter of nominal rate `nominal` that gave
    /// `testimony`, in Hz: if it sees the TSC twice as fast as it is, it runs
    /// at half its own rate.
    #[must_use]
    pub fn true_rate(&self, nominal: u64, testimony: &Testimony) -> u64 {
        let scaled = u128::from(nominal) * u128::from(self.testimony.frequency);
        u64::try_from(scaled / u128::from(testimony.frequency.max(1))).unwrap_or(u64::MAX)
    }
}

/// Weighs the testimonies; `None` is a witness that could not testify. `None`
/// when nobody did.
#[must_use]
pub fn judge(testimonies: &[Option<Testimony>]) -> Option<Verdict> {
    let given = || testimonies.iter().flatten();
    let verdicts = testimonies
        .iter()
        .enumerate()
        .filter_map(|(place, given_here)| {
            let testimony = (*given_here)?;
            let for_it = given().filter(|other| testimony.agrees(other)).count();
            Some(Verdict {
                believed: place,
                testimony,
                for_it,
                against: given().count() - for_it,
            })
        });
    // A statement is believed only where there is nothing else.
    verdicts.max_by_key(|verdict| {
        let quality = verdict.testimony.quality;
        (quality != STATEMENT, verdict.for_it, quality)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn says(quality: i32, frequency: u64) -> Option<Testimony> {
        Some(Testimony {
            quality,
            frequency,
            error_ppb: 50_000,
        })
    }

    fn verdict(testimonies: &[Option<Testimony>]) -> Verdict {
        judge(testimonies).expect("somebody testified")
    }

    #[test]
    fn the_better_of_two_that_agree_is_believed() {
        let verdict = verdict(&[says(0, 2_000_000_000), says(950, 2_000_100_000)]);
        assert_eq!(verdict.believed, 1, "equal votes, higher quality");
        assert!(verdict.by_majority(), "nobody is against it");
    }

    #[test]
    fn a_majority_of_poor_counters_outvotes_a_good_one() {
        let testimonies = [
            says(950, 4_000_000_000),
            says(900, 2_000_000_000),
            says(0, 2_000_000_001),
        ];
        let verdict = verdict(&testimonies);
        assert_eq!(verdict.believed, 1, "the better of the two that agree");
        assert!(verdict.by_majority(), "two against one");
        assert!(
            !verdict.testimony.agrees(&testimonies[0].expect("given")),
            "the good one stands alone"
        );
        assert_eq!(
            verdict.true_rate(100_000_000, &testimonies[0].expect("given")),
            50_000_000,
            "it runs at half its rate"
        );
    }

    #[test]
    fn one_against_one_is_decided_by_quality_and_said_to_be_no_majority() {
        let verdict = verdict(&[says(900, 2_000_000_000), says(950, 2_020_000_000)]);
        assert_eq!(verdict.believed, 1, "HPET before the ACPI timer");
        assert!(!verdict.by_majority(), "1 % apart is no agreement");
    }

    #[test]
    fn a_statement_supports_and_is_not_believed_against_a_measurement() {
        let alone = verdict(&[None, says(STATEMENT, 3_500_000_000)]);
        assert_eq!(alone.believed, 1, "where nothing could be measured");
        let against = verdict(&[says(0, 4_000_000), says(STATEMENT, 3_500_000_000)]);
        assert_eq!(against.believed, 0, "the measurement");
        assert!(!against.by_majority(), "one for, one against");
        let support = verdict(&[
            says(950, 4_000_000_000),
            says(900, 2_000_000_000),
            says(STATEMENT, 2_000_000_000),
        ]);
        assert_eq!(support.believed, 1, "the statement's vote counts");
    }

    #[test]
    fn a_vague_statement_that_agrees_with_everybody_is_not_believed_for_it() {
        let vague = Some(Testimony {
            quality: STATEMENT,
            frequency: 2_010_000_000,
            error_ppb: 10_000_000,
        });
        let verdict = verdict(&[says(950, 2_000_000_000), says(900, 2_020_000_000), vague]);
        assert_eq!(verdict.believed, 0, "two votes against its three");
        assert!(verdict.by_majority(), "two for, one against");
    }

    #[test]
    fn agreement_ends_just_above_tolerance_and_bounds() {
        let base = says(0, 1_000_000_000).expect("given");
        // 500 ppm of tolerance and twice 50 ppm of bounds.
        let edge = says(0, 1_000_600_000).expect("given");
        let over = says(0, 1_000_600_001).expect("given");
        assert!(base.agrees(&edge), "at the limit");
        assert!(!base.agrees(&over), "a hair above it");
        assert!(!over.agrees(&base), "the other way round, too");
    }

    #[test]
    fn nobody_decides_nothing() {
        assert_eq!(judge(&[]), None, "an empty list");
        assert_eq!(judge(&[None, None]), None, "only witnesses that failed");
    }
}
