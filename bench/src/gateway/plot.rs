//! Bar chart of the results: one panel per metric, one bar per server, the target as a line.

use std::fmt::Write as _;

use super::metrics::PLOTTED;
use super::results::{Direction, Metric, Results, format_value};
use super::servers::BenchServerKind;

const PANEL_WIDTH: f64 = 460.0;
const PANEL_HEIGHT: f64 = 132.0;
const COLUMNS: usize = 2;
const TITLE_HEIGHT: f64 = 44.0;
/// Start of the bars, and length of the longest bar.
const BAR_LEFT: f64 = 104.0;
const MAX_BAR_LENGTH: f64 = 270.0;
const BAR_THICKNESS: f64 = 20.0;
const BAR_SPACING: f64 = 27.0;
/// Distance from the top of a bar to the baseline of its text.
const TEXT_BASELINE: f64 = 14.0;
const TARGET_COLOUR: &str = "#b42318";

fn colour(server: BenchServerKind) -> &'static str {
    match server {
        BenchServerKind::Parlor => "#2563a8",
        BenchServerKind::NodeStateless => "#9aa5b1",
        BenchServerKind::NodeRedis => "#c98a4b",
    }
}

/// Draws the plot as SVG.
pub fn draw(results: &Results, measures: &[Metric]) -> String {
    let panels: Vec<_> = PLOTTED
        .iter()
        .filter_map(|name| measures.iter().find(|it| it.name == *name))
        .collect();
    let (width, rows) = (PANEL_WIDTH * COLUMNS as f64, panels.len().div_ceil(COLUMNS));
    let height = TITLE_HEIGHT + PANEL_HEIGHT * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#1f2933\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"20\" y=\"27\" font-size=\"15\" font-weight=\"bold\">One core: Parlor compared with Node socket.io, \
         and with Node socket.io and Redis</text>\n"
    );
    for (at, measure) in panels.into_iter().enumerate() {
        let (column, row) = (at % COLUMNS, at / COLUMNS);
        let (x, y) = (
            PANEL_WIDTH * column as f64,
            TITLE_HEIGHT + PANEL_HEIGHT * row as f64,
        );
        panel(&mut svg, results, measure, x, y);
    }
    svg + "</svg>\n"
}

fn panel(svg: &mut String, results: &Results, measure: &Metric, x: f64, y: f64) {
    let target = results.target_value(measure);
    let values = BenchServerKind::ALL.map(|server| results.median(measure.name, server));
    let longest = values.iter().flatten().copied().chain(target);
    let scale = MAX_BAR_LENGTH / longest.fold(f64::MIN_POSITIVE, f64::max);
    let good = match measure.better {
        Direction::HigherIsBetter => "higher is better",
        Direction::LowerIsBetter => "lower is better",
    };
    let mut add = |line: String| {
        // Writing to a string does not fail.
        let _ = writeln!(svg, "{line}");
    };
    add(format!(
        "<text x=\"{:.0}\" y=\"{:.0}\"><tspan font-weight=\"bold\">{}</tspan> <tspan fill=\"#7b8794\">{good}</tspan></text>",
        x + 20.0,
        y + 16.0,
        measure.name
    ));
    let top = |at: usize| y + 26.0 + BAR_SPACING * at as f64;
    let start = x + BAR_LEFT;
    for (at, (server, value)) in BenchServerKind::ALL.into_iter().zip(values).enumerate() {
        add(format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{start:.0}\" y=\"{:.0}\" width=\"{:.1}\" height=\"{BAR_THICKNESS}\" fill=\"{}\"/>",
            start - 6.0,
            top(at) + TEXT_BASELINE,
            server.name(),
            top(at),
            value.unwrap_or(0.0) * scale,
            colour(server)
        ));
    }
    if let Some(target) = target {
        let (at, end) = (start + target * scale, top(3) - 4.0);
        add(format!(
            "<path d=\"M{at:.1} {:.0}V{end:.0}\" stroke=\"{TARGET_COLOUR}\" stroke-dasharray=\"4 3\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"10\" fill=\"{TARGET_COLOUR}\">target {}</text>",
            y + 23.0,
            end + 10.0,
            format_value(target, measure.digits)
        ));
    }
    // Drawn last and with an outline, so that the line of the target does not cross the text.
    for (at, value) in values.into_iter().enumerate() {
        let text = value.map_or("void".to_owned(), |it| format_value(it, measure.digits));
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.0}\" stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\">{text}</text>",
            start + value.unwrap_or(0.0) * scale + 5.0,
            top(at) + TEXT_BASELINE
        ));
    }
}
