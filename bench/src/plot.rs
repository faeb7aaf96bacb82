//! Plots over time as SVG, one panel below the other.

use std::fmt::Write as _;

const WIDTH: f64 = 800.0;
const PANEL: f64 = 150.0;
/// Room for the labels to the left of a panel, and between two panels.
const LEFT: f64 = 90.0;
const GAP: f64 = 50.0;
const COLOURS: [&str; 3] = ["#1f6feb", "#d1570f", "#1a7f37"];

/// What is drawn in one coordinate system that begins at zero.
pub(crate) struct PlotPanel<'a> {
    /// What it shows, with its unit.
    pub(crate) title: &'a str,
    /// Lines, each with its name; a value for each of the times.
    pub(crate) lines: Vec<(&'a str, Vec<f64>)>,
}

/// Panels over the same times, in seconds.
pub(crate) fn svg(title: &str, times: &[f64], panels: &[PlotPanel<'_>]) -> String {
    let height = GAP + panels.len() as f64 * (PANEL + GAP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let end = times.last().copied().unwrap_or_default().max(1.0);
    for (at, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, GAP + at as f64 * (PANEL + GAP), times, end);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &PlotPanel<'_>, top: f64, times: &[f64], end: f64) {
    let (bottom, right) = (top + PANEL, WIDTH - 20.0);
    let most = panel.lines.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let most = ceiling(most);
    let x = |time: f64| LEFT + time / end * (right - LEFT);
    let y = |value: f64| bottom - value / most * PANEL;
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let (head, text_y) = (escaped(panel.title), top - 8.0);
    line(format!("<text x=\"{LEFT}\" y=\"{text_y:.0}\" fill=\"#333\">{head}</text>"));
    for quarter in 0..=4 {
        let value = most * f64::from(quarter) / 4.0;
        let at = y(value);
        line(format!("<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"));
        let (text_x, text_y) = (LEFT - 6.0, at + 4.0);
        line(format!(
            "<text x=\"{text_x}\" y=\"{text_y:.1}\" text-anchor=\"end\" fill=\"#333\">{}</text>",
            short(value)
        ));
    }
    for quarter in 0..=4 {
        let time = end * f64::from(quarter) / 4.0;
        let (text_x, text_y) = (x(time), bottom + 16.0);
        let shown = if end >= 600.0 { format!("{:.0} min", time / 60.0) } else { format!("{time:.0} s") };
        line(format!("<text x=\"{text_x:.1}\" y=\"{text_y:.1}\" text-anchor=\"middle\" fill=\"#333\">{shown}</text>"));
    }
    for (number, ((name, values), colour)) in panel.lines.iter().zip(COLOURS).enumerate() {
        let mut points = String::new();
        for (&time, &value) in times.iter().zip(values) {
            // Writing to a string cannot fail.
            let _ = write!(points, "{:.1},{:.1} ", x(time), y(value));
        }
        line(format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
            points.trim()
        ));
        let (text_x, text_y) = (right - 110.0 * number as f64, top - 8.0);
        let name = escaped(name);
        line(format!("<text x=\"{text_x}\" y=\"{text_y:.0}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>"));
    }
}

/// The next round number above a value: 1, 2, 4, 5 or 8 and zeros.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|&step| step >= value).unwrap_or(10.0 * power)
}

fn short(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        let table = [(0.0, 1.0), (0.3, 0.4), (1.0, 1.0), (3.0, 4.0), (41.0, 50.0), (99.0, 100.0), (512.0, 800.0)];
        for (value, expected) in table {
            assert!((ceiling(value) - expected).abs() < 1e-9, "{value} gave {}", ceiling(value));
        }
    }

    #[test]
    fn every_value_is_a_point_within_its_panel() {
        let panel = PlotPanel { title: "memory & files, MiB", lines: vec![("RSS", vec![10.0, 20.0, 40.0])] };
        let drawn = svg("a < b", &[0.0, 10.0, 20.0], &[panel]);
        assert!(drawn.contains("a &lt; b") && drawn.contains("memory &amp; files"));
        assert!(drawn.contains("points=\"90.0,162.5 435.0,125.0 780.0,50.0\""), "{drawn}");
    }
}
