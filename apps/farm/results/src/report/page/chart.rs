//! Small charts in a cell: the history of its time, and each device's share of its plan.

use maud::{Markup, html};

use crate::compare::time;
use crate::report::{Point, Share};

/// Size of a history, and room for its ends.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 28.0;
const EDGE: f64 = 3.0;

/// Times over snapshots, oldest left, with the intervals as bars.
pub(super) fn sparkline(history: &[Point]) -> Markup {
    let high = |point: &Point| {
        point
            .interval
            .map_or(point.median_ns, |interval| interval.high_ns)
    };
    let low = |point: &Point| point.interval.map_or(point.median_ns, |interval| interval.low_ns);
    let top = history.iter().map(high).max().unwrap_or(1) as f64;
    let bottom = history.iter().map(low).min().unwrap_or(0) as f64;
    // a tenth of the time at least, so that noise does not look like a change
    let span = (top - bottom).max(top * 0.1).max(1.0);
    let x = |at: usize| EDGE + (WIDTH - 2.0 * EDGE) * at as f64 / (history.len() - 1).max(1) as f64;
    let y = |ns: u64| EDGE + (HEIGHT - 2.0 * EDGE) * (top - ns as f64) / span;
    let points = history.iter().enumerate();
    let line: Vec<String> = points
        .map(|(at, point)| format!("{:.1},{:.1}", x(at), y(point.median_ns)))
        .collect();
    let (first, last) = (&history[0], &history[history.len() - 1]);
    let words = format!(
        "{} snapshots, from {} to {}",
        history.len(),
        time(first.median_ns),
        time(last.median_ns)
    );
    html! {
        svg.history role="img" aria-label=(words) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } {
            @for (at, point) in history.iter().enumerate() { @if point.interval.is_some() {
                line.bar x1=(format!("{:.1}", x(at))) x2=(format!("{:.1}", x(at))) y1=(format!("{:.1}", y(low(point))))
                    y2=(format!("{:.1}", y(high(point)))) {}
            } }
            polyline points=(line.join(" ")) {}
            circle cx=(format!("{:.1}", x(history.len() - 1))) cy=(format!("{:.1}", y(last.median_ns))) r="2.5" {}
        }
    }
}

/// Shares of a plan's time, each with its device's name.
pub(super) fn shares(shares: &[Share]) -> Markup {
    html! {
        span.shares { @for share in shares {
            span { (share.device) " " (share.permille.div_ceil(10)) " %" }
        } }
    }
}
