//! The simulated curves against the published measurements, over the real trace.

use std::sync::LazyLock;

use clap::Parser;
use xtask::opt::{Cli, Verb};
use xtask::sim::clock::NAMES;
use xtask::sim::costs::Costs;
use xtask::sim::plot;
use xtask::sim::published::{self, ROWS};
use xtask::sim::report::Report;
use xtask::sim::trace::{self, Step, Trace};

/// The machine as the command line has it without flags.
fn costs() -> Costs {
    match Cli::try_parse_from(["xtask", "sim", "scale"]).map(|cli| cli.verb) {
        Ok(Verb::Sim(options)) => options.costs,
        other => panic!("`sim scale` alone was not accepted: {other:?}"),
    }
}

static TRACE: LazyLock<Trace> =
    LazyLock::new(|| trace::record().expect("the recorder builds and runs"));

/// Up to twice the published CPUs.
static REPORT: LazyLock<Report> = LazyLock::new(|| Report::of(&TRACE, 1024, 1000, &costs()));

fn wall(name: &str, cpus: usize) -> f64 {
    let place = NAMES.iter().position(|known| *known == name);
    let row = REPORT.rows.iter().find(|row| row.cpus == cpus);
    row.zip(place)
        .and_then(|(row, place)| row.outcomes.get(place))
        .map(|outcome| outcome.wall())
        .unwrap_or_else(|| panic!("{name} was not simulated with {cpus} CPUs"))
}

/// How far apart two figures are, as a factor of at least 1.
fn factor(one: f64, other: f64) -> f64 {
    (one / other).max(other / one)
}

#[test]
fn the_curves_have_the_published_shape() {
    let first = ROWS[0];
    for row in ROWS {
        let ratio = |name| wall(name, row.cpus) / wall(name, 1);
        let unshared = row.unshared / first.unshared;
        for (name, limit) in [("seqlock", 1.05), ("ours", 1.10)] {
            let off = factor(ratio(name), unshared);
            assert!(off <= limit, "{name}, {} CPUs: {off}", row.cpus);
        }
        if let Some((exchanged, one)) = row.exchanged.zip(first.exchanged) {
            let off = factor(ratio("cmpxchg"), exchanged / one);
            assert!(off <= 1.4, "cmpxchg, {} CPUs: {off}", row.cpus);
        }
    }
}

#[test]
fn beyond_the_published_machine_ours_scales_best() {
    let ours = wall("ours", 1024);
    assert!(ours < 1.5 * wall("ours", 1), "with 1024 CPUs: {ours} s");
    for name in ["seqlock", "ours_guarded", "cmpxchg"] {
        let other = wall(name, 1024);
        assert!(ours < other, "{name} takes {other} s, ours {ours} s");
    }
}

#[test]
fn the_plot_shows_every_curve_and_every_published_point() {
    let plot = plot::svg(&REPORT);
    assert_eq!(plot.matches("<polyline").count(), NAMES.len(), "curves");
    let points = 10 + 9 + 2;
    assert_eq!(plot.matches("<circle").count(), points, "with the legend's");
    assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
}

#[test]
fn the_fitted_rows_are_met() {
    for (name, cpus) in [("ours", 1), ("seqlock", 1), ("seqlock", 512)] {
        let published = published::of(cpus).map(|row| row.unshared);
        let off = factor(wall(name, cpus), published.expect("a row"));
        assert!(off < 1.02, "{name}, {cpus} CPUs: {off}");
    }
    for cpus in [1, 2, 256] {
        let published = published::of(cpus).and_then(|row| row.exchanged);
        let off = factor(wall("cmpxchg", cpus), published.expect("a row"));
        assert!(off < 1.02, "cmpxchg, {cpus} CPUs: {off}");
    }
}

#[test]
fn an_ordinary_read_loads_from_two_lines_and_stores_nothing() {
    let trace = &*TRACE;
    assert_eq!(trace.plain.len(), 8, "a turn of the ring");
    for segment in &trace.plain {
        let mut lines: Vec<usize> = segment.inside.iter().map(|step| step.line()).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 2, "lines of {:?}", segment.inside);
        let mut reads = segment.inside.iter().chain(&segment.before);
        assert!(
            reads.all(|step| matches!(step, Step::Load(_))),
            "a read stored: {segment:?}"
        );
    }
    for segment in &trace.guarded {
        let exchanges = |steps: &[Step]| {
            let exchanges = steps.iter().filter(|s| matches!(s, Step::Exchange(_)));
            exchanges.count()
        };
        assert_eq!(exchanges(&segment.inside), 1, "of a guarded read");
        assert_eq!(exchanges(&segment.before), 1, "of one before the start");
    }
}
