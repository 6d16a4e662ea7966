//! The curves as a picture: wall seconds against CPUs, both logarithmic, with the
//! published points beside them.

use std::fmt::Write;

use super::clock::NAMES;
use super::published;
use super::report::Report;

/// Size of the picture.
const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 560.0;
/// The plot's edges.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 650.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 490.0;

/// One colour a clock, in the order of [`NAMES`]; told apart also by people who do
/// not see red and green.
const COLOURS: [&str; NAMES.len()] = ["#0072b2", "#e69f00", "#009e73", "#d55e00"];
/// How each line is broken, for print without colours.
const DASHES: [&str; NAMES.len()] = ["none", "7 4", "2 3", "10 3 2 3"];

/// Where values lie in the picture.
struct Scale {
    /// Powers of two that the x axis spans.
    doublings: f64,
    /// Powers of ten that the y axis begins and ends with.
    low: i32,
    high: i32,
}

impl Scale {
    fn of(report: &Report) -> Self {
        let walls = || {
            let simulated = report
                .rows
                .iter()
                .flat_map(|row| row.outcomes.iter().map(|outcome| outcome.wall()));
            simulated.chain(points(report).map(|(_, seconds, _)| seconds))
        };
        let (low, high) = (
            walls().fold(f64::INFINITY, f64::min),
            walls().fold(0.0, f64::max),
        );
        let last = report.rows.last().map_or(1, |row| row.cpus);
        let low = low.log10().floor() as i32;
        Self {
            doublings: (last as f64).log2().max(1.0),
            low,
            high: (high.log10().ceil() as i32).max(low + 1),
        }
    }

    fn x(&self, cpus: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * (cpus as f64).log2() / self.doublings
    }

    fn y(&self, seconds: f64) -> f64 {
        let part = (seconds.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        BOTTOM - (BOTTOM - TOP) * part
    }
}

/// The published points that the plot has room for: CPUs, seconds, and the clock
/// they belong to.
fn points(report: &Report) -> impl Iterator<Item = (usize, f64, usize)> {
    let last = report.rows.last().map_or(0, |row| row.cpus);
    published::ROWS
        .into_iter()
        .filter(move |row| row.cpus <= last)
        .flat_map(|row| {
            let exchanged = row.exchanged.map(|seconds| (row.cpus, seconds, 3));
            [Some((row.cpus, row.unshared, 0)), exchanged]
        })
        .flatten()
}

/// The picture.
pub fn svg(report: &Report) -> String {
    let scale = Scale::of(report);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, report, &scale);
    out
}

fn draw(out: &mut String, report: &Report, scale: &Scale) -> std::fmt::Result {
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
<text x="{LEFT}" y="28" font-size="16">A million clock reads on each CPU, {} windups a second</text>"##,
        report.hz
    )?;
    axes(out, report, scale)?;
    for (place, (colour, dash)) in COLOURS.iter().zip(DASHES).enumerate() {
        let curve: Vec<String> = report
            .rows
            .iter()
            .filter_map(|row| {
                let wall = row.outcomes.get(place)?.wall();
                Some(format!("{:.1},{:.1}", scale.x(row.cpus), scale.y(wall)))
            })
            .collect();
        writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>"#,
            curve.join(" ")
        )?;
    }
    for (cpus, seconds, clock) in points(report) {
        let colour = COLOURS.get(clock).copied().unwrap_or("#000000");
        point(out, (scale.x(cpus), scale.y(seconds)), colour)?;
    }
    legend(out)?;
    writeln!(out, "</svg>")
}

fn point(out: &mut String, (x, y): (f64, f64), colour: &str) -> std::fmt::Result {
    writeln!(
        out,
        r##"<circle cx="{x:.1}" cy="{y:.1}" r="4.5" fill="#ffffff" stroke="{colour}" stroke-width="2"/>"##
    )
}

fn axes(out: &mut String, report: &Report, scale: &Scale) -> std::fmt::Result {
    let mut rule = |from: (f64, f64), to: (f64, f64)| {
        writeln!(
            out,
            r##"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="#dddddd"/>"##,
            from.0, from.1, to.0, to.1
        )
    };
    for power in scale.low..=scale.high {
        let y = scale.y(10_f64.powi(power));
        rule((LEFT, y), (RIGHT, y))?;
    }
    for row in &report.rows {
        let x = scale.x(row.cpus);
        rule((x, TOP), (x, BOTTOM))?;
    }
    for power in scale.low..=scale.high {
        let (value, y) = (10_f64.powi(power), scale.y(10_f64.powi(power)) + 4.0);
        let x = LEFT - 8.0;
        writeln!(
            out,
            r#"<text x="{x}" y="{y:.1}" text-anchor="end">{value}</text>"#
        )?;
    }
    for row in &report.rows {
        let (cpus, x, y) = (row.cpus, scale.x(row.cpus), BOTTOM + 20.0);
        writeln!(
            out,
            r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{cpus}</text>"#
        )?;
    }
    let (across, below) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 48.0);
    let middle = f64::midpoint(TOP, BOTTOM);
    writeln!(
        out,
        r##"<rect x="{LEFT}" y="{TOP}" width="{}" height="{}" fill="none" stroke="#444444"/>
<text x="{across}" y="{below}" text-anchor="middle">CPUs that read</text>
<text transform="translate(22 {middle}) rotate(-90)" text-anchor="middle">seconds</text>"##,
        RIGHT - LEFT,
        BOTTOM - TOP,
    )
}

fn legend(out: &mut String) -> std::fmt::Result {
    let (left, text) = (RIGHT + 18.0, RIGHT + 60.0);
    let mut y = TOP + 14.0;
    for ((name, colour), dash) in NAMES.iter().zip(COLOURS).zip(DASHES) {
        writeln!(
            out,
            r#"<line x1="{left}" y1="{y}" x2="{}" y2="{y}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>
<text x="{text}" y="{}">{name}</text>"#,
            left + 34.0,
            y + 4.0,
        )?;
        y += 24.0;
    }
    y += 8.0;
    let published = [
        ("no shared store", COLOURS.first()),
        ("cmpxchg", COLOURS.last()),
    ];
    for (name, colour) in published {
        point(out, (left + 17.0, y), colour.copied().unwrap_or("#000000"))?;
        writeln!(
            out,
            r#"<text x="{text}" y="{}">published, {name}</text>"#,
            y + 4.0
        )?;
        y += 24.0;
    }
    Ok(())
}
