//! The dashboard: devices, power and latency over time with their scales, plans and the governor's changes.
//!
//! Invariants:
//! 1. `draw` is stateless, so a test sees what a user sees.
//! 2. It draws to standard output; libraries print to standard error.
//!
//! Not here: scales of axes (`scale`).

mod scale;

use std::io::Write;
use std::time::{Duration, Instant};

use polychip::telemetry::{DeviceState, Figure};
use ratatui::crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::CrosstermBackend as OnTerminal;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, GraphType, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::sample::SampleLine;
use super::shown::{Shown, since};
use super::words::{in_ms, in_watts};
use scale::Scale;

/// Rows of a chart, its frame and the axis of time among them.
const CHART: u16 = 9;

/// The terminal, given back as it was when this goes.
pub(super) struct Screen(Terminal<OnTerminal<Box<dyn Write>>>);

impl Screen {
    pub(super) fn open(terminal: impl Write + 'static) -> anyhow::Result<Screen> {
        enable_raw_mode()?;
        let mut terminal: Box<dyn Write> = Box::new(terminal);
        execute!(terminal, EnterAlternateScreen)?;
        Ok(Screen(Terminal::new(OnTerminal::new(terminal))?))
    }

    pub(super) fn draw(&mut self, shown: &Shown) -> anyhow::Result<()> {
        self.0.draw(|frame| draw(frame, shown))?;
        Ok(())
    }

    /// Waits until then; whether the person left.
    pub(super) fn is_left(&mut self, until: Instant) -> anyhow::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(false);
            }
            if let event::Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let stops = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if stops || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
            if left == Duration::ZERO {
                return Ok(false);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // nothing can be said where the terminal is gone
        let _ = disable_raw_mode();
        let _ = execute!(self.0.backend_mut(), LeaveAlternateScreen);
    }
}

/// Draws everything.
fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let devices = shown.lines.back().map_or(0, |line| line.sample.devices.len());
    let table = u16::try_from(devices).unwrap_or(u16::MAX).saturating_add(3);
    let has_model = shown.governed.is_some();
    let [head, runs, notes, table, charts, plans, changes] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(has_model)),
        Constraint::Length(u16::try_from(shown.notes.len()).unwrap_or(u16::MAX)),
        Constraint::Length(table),
        Constraint::Length(CHART),
        Constraint::Length(if has_model { plans_height(shown) } else { 0 }),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    draw_head(frame, head, shown);
    let notes_shown = shown.notes.iter().map(|note| Line::from(note.as_str()));
    let warning = Style::new().fg(Color::Yellow);
    frame.render_widget(
        Paragraph::new(notes_shown.collect::<Vec<_>>()).style(warning),
        notes,
    );
    draw_devices(frame, table, shown);
    if has_model {
        draw_runs(frame, runs, shown);
        let [power, latency] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
        draw_power(frame, power, shown);
        draw_latency(frame, latency, shown);
        draw_plans(frame, plans, shown);
        draw_changes(frame, changes, shown);
    } else {
        draw_power(frame, charts, shown);
    }
}

fn plans_height(shown: &Shown) -> u16 {
    let plans = shown
        .governed
        .as_ref()
        .map_or(0, |governed| governed.candidates.len());
    u16::try_from(plans).unwrap_or(u16::MAX).saturating_add(3)
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let mut words = vec![shown.model.clone().unwrap_or_else(|| "sensors".to_owned())];
    if let Some(line) = shown.lines.back() {
        words.push(format!("{:.1} s", line.seconds));
        words.extend(line.plan.as_ref().map(|plan| format!("plan: {plan}")));
        words.extend(
            line.pace_permille
                .filter(|pace| *pace < 1000)
                .map(|pace| format!("pace {pace} ‰")),
        );
        if let Some(battery) = &line.sample.battery {
            let charge = battery.capacity_permille.value;
            words.extend(charge.map(|permille| format!("battery {:.0} %", permille as f64 / 10.0)));
        }
    }
    words.push("q leaves".to_owned());
    let style = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(words.join(" · ")).style(style), area);
}

/// What comes of the runs: rate and latency of the last second, late and skipped ones of the whole time.
fn draw_runs(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let Some(line) = shown.lines.back() else {
        return;
    };
    let second = &line.last_second;
    let mut words = Vec::new();
    words.extend(second.runs_per_second.map(|rate| format!("{rate:.1} runs/s")));
    if let (Some(median), Some(longest)) = (second.latency_p50_ns, second.latency_max_ns) {
        words.push(format!("latency {}, longest {}", in_ms(median), in_ms(longest)));
    }
    if let (Some(late), Some(runs)) = (line.late, line.runs) {
        words.push(format!("{late} of {runs} late"));
    }
    words.extend(line.skipped.map(|skipped| format!("{skipped} frames skipped")));
    frame.render_widget(Paragraph::new(words.join(" · ")), area);
}

fn draw_devices(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let Some(line) = shown.lines.back() else {
        return;
    };
    let cell =
        |figure: &Figure, words: &dyn Fn(i64) -> String| figure.value.map_or_else(|| "–".to_owned(), words);
    let row = |state: &DeviceState| {
        let throttled = state.throttle.value.is_some_and(|bits| bits != 0);
        let condition = match (state.lost, throttled) {
            (true, _) => "lost",
            (false, true) => "throttled",
            (false, false) => "",
        };
        let emulated = if state.emulated { " (emulated)" } else { "" };
        let style = match (state.lost, throttled) {
            (true, _) => Style::new().fg(Color::Red),
            (false, true) => Style::new().fg(Color::Yellow),
            (false, false) => Style::new(),
        };
        let cells = [
            format!("{}{emulated}", state.device),
            cell(&state.temperature_mc, &|mc| format!("{:.1} °C", mc as f64 / 1e3)),
            cell(&state.power_mw, &in_watts),
            cell(&state.frequency_khz, &|khz| {
                format!("{:.2} GHz", khz as f64 / 1e6)
            }),
            cell(&state.load_permille, &|permille| {
                format!("{:.0} %", permille as f64 / 10.0)
            }),
            condition.to_owned(),
        ];
        Row::new(cells.map(Cell::from)).style(style)
    };
    let widths = [
        Constraint::Length(24),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Min(9),
    ];
    let head =
        Row::new(["device", "heat", "power", "clock", "load", ""]).style(Style::new().fg(Color::DarkGray));
    let table = Table::new(line.sample.devices.iter().map(row), widths).header(head);
    frame.render_widget(table.block(Block::bordered().title("devices")), area);
}

/// Seconds from the first to the last sample that is drawn.
fn span(shown: &Shown) -> [f64; 2] {
    let seconds = |line: Option<&SampleLine>| line.map_or(0.0, |line| line.seconds);
    let first = seconds(shown.lines.front());
    [first, seconds(shown.lines.back()).max(first + 1.0)]
}

/// One line of a chart.
struct Series {
    name: &'static str,
    colour: Color,
    points: Vec<(f64, f64)>,
}

impl Series {
    fn new(name: &'static str, colour: Color, points: Vec<(f64, f64)>) -> Series {
        Series { name, colour, points }
    }

    /// A limit, over all that is drawn.
    fn level(name: &'static str, [from, to]: [f64; 2], value: f64) -> Series {
        Series::new(name, Color::Yellow, vec![(from, value), (to, value)])
    }
}

fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    shown: &Shown,
    title: String,
    unit: &str,
    series: &[Series],
) {
    let block = Block::bordered().title(title);
    if series.iter().all(|series| series.points.is_empty()) {
        frame.render_widget(block, area);
        return;
    }
    let values = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.1);
    let scale = Scale::up_to(values.fold(0.0, f64::max));
    let [from, to] = span(shown);
    let grey = Style::new().fg(Color::DarkGray);
    let time = Axis::default()
        .style(grey)
        .bounds([from, to])
        .labels([format!("{from:.1} s"), format!("{to:.1} s")]);
    let labels = scale.marks().map(|mark| format!("{mark} {unit}"));
    let value = Axis::default()
        .style(grey)
        .bounds([0.0, scale.top()])
        .labels(labels);
    let datasets = series.iter().map(|series| {
        Dataset::default()
            .name(series.name)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(series.colour))
            .data(&series.points)
    });
    let chart = Chart::new(datasets.collect())
        .x_axis(time)
        .y_axis(value)
        .block(block);
    frame.render_widget(chart, area);
}

fn draw_power(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let power = |line: &SampleLine| Some((line.seconds, line.last_second.power_mw? as f64 / 1e3));
    let points: Vec<(f64, f64)> = shown.lines.iter().filter_map(power).collect();
    let now = shown.lines.back().and_then(|line| line.last_second.power_mw);
    let limit = shown
        .limit_mw
        .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let title = match (now, limit) {
        (Some(power), Some(limit)) => format!("power {}, limit {}", in_watts(power), in_watts(limit)),
        (Some(power), None) => format!("power {}", in_watts(power)),
        (None, _) => "power: no sensor".to_owned(),
    };
    let mut series = Vec::new();
    if !points.is_empty() {
        series.push(Series::new("1 s mean", Color::Cyan, points));
        series.extend(limit.map(|limit| Series::level("limit", span(shown), limit as f64 / 1e3)));
    }
    draw_chart(frame, area, shown, title, "W", &series);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let of = |figure: fn(&SampleLine) -> Option<u64>| -> Vec<(f64, f64)> {
        let point = |line: &SampleLine| Some((line.seconds, figure(line)? as f64 / 1e6));
        shown.lines.iter().filter_map(point).collect()
    };
    let title = match shown.deadline {
        Some(deadline) => format!("latency, deadline {} ms", deadline.as_secs_f64() * 1e3),
        None => "latency".to_owned(),
    };
    let longest = of(|line| line.last_second.latency_max_ns);
    let mut series = Vec::new();
    if !longest.is_empty() {
        series.push(Series::new("longest", Color::Magenta, longest));
        series.push(Series::new(
            "median",
            Color::Cyan,
            of(|line| line.last_second.latency_p50_ns),
        ));
        let level = |deadline: Duration| Series::level("deadline", span(shown), deadline.as_secs_f64() * 1e3);
        series.extend(shown.deadline.map(level));
    }
    draw_chart(frame, area, shown, title, "ms", &series);
}

fn draw_plans(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let Some(governed) = &shown.governed else {
        return;
    };
    let rows = governed.candidates.iter().map(|candidate| {
        let is_current = candidate.name == governed.plan;
        let mark = if is_current { "→" } else { "" };
        let cells = [
            mark.to_owned(),
            candidate.name.clone(),
            format!("{:.2} ms", candidate.predicted_ns as f64 / 1e6),
            candidate
                .predicted_uj
                .map_or_else(|| "–".to_owned(), |uj| format!("{:.2} mJ", uj as f64 / 1e3)),
            if candidate.usable {
                candidate.devices.join(", ")
            } else {
                "lost device".to_owned()
            },
        ];
        let style = if is_current {
            Style::new().add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        Row::new(cells.map(Cell::from)).style(style)
    });
    let widths = [
        Constraint::Length(1),
        Constraint::Length(26),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Min(10),
    ];
    let head =
        Row::new(["", "plan", "predicted", "energy", "devices"]).style(Style::new().fg(Color::DarkGray));
    let table = Table::new(rows, widths).header(head);
    frame.render_widget(table.block(Block::bordered().title("plans")), area);
}

fn draw_changes(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let Some(governed) = &shown.governed else {
        return;
    };
    let room = usize::from(area.height.saturating_sub(2));
    let from = governed.changes.len().saturating_sub(room);
    let lines: Vec<Line<'_>> = governed.changes[from..]
        .iter()
        .map(|change| {
            Line::from(format!(
                "{:8.1} s  {}: {}",
                since(shown.start_ns, change.time_ns),
                change.plan,
                change.words
            ))
        })
        .collect();
    let title = format!("changes ({})", governed.switches);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

#[cfg(test)]
mod tests {
    use polychip::telemetry::{Battery, Sample};
    use polychip::{CandidateReport, ChangeReport, GovernedReport};
    use ratatui::backend::TestBackend as InMemory;

    use super::super::recent::LastSecond;
    use super::*;

    fn figure(value: Option<i64>) -> Figure {
        Figure {
            value,
            from: "test".to_owned(),
        }
    }

    fn state(device: &str, power: Option<i64>, lost: bool) -> DeviceState {
        DeviceState {
            device: device.to_owned(),
            emulated: false,
            lost,
            temperature_mc: figure(Some(61_500)),
            power_mw: figure(power),
            energy_uj: figure(None),
            frequency_khz: figure(Some(1_980_000)),
            allowed_khz: figure(None),
            load_permille: figure(None),
            others_permille: figure(None),
            throttle: figure(Some(i64::from(!lost))),
        }
    }

    fn line(second: u32) -> SampleLine {
        let power = 100_000 + i64::from(second % 8) * 40_000;
        SampleLine {
            seconds: f64::from(second),
            sample: Sample {
                time_ns: 0,
                devices: vec![state("gpu:0", Some(power), false), state("cpu:0", None, true)],
                battery: Some(Battery {
                    capacity_permille: figure(Some(730)),
                    power_mw: figure(None),
                    charging: Some(false),
                }),
                heat: polychip::telemetry::Heat {
                    status: figure(None),
                    headroom_permille: figure(None),
                },
                surface_mc: figure(None),
                package_mc: figure(None),
            },
            power_mw: Some(power),
            plan: Some("only cpu:0".to_owned()),
            pace_permille: Some(640),
            runs: Some(100),
            runs_per_second: Some(17.0),
            late: Some(3),
            skipped: Some(36),
            last_second: LastSecond {
                power_mw: Some(power - 30_000),
                runs_per_second: Some(12.5),
                latency_p50_ns: Some(21_300_000 + u64::from(second % 5) * 1_000_000),
                latency_max_ns: Some(34_900_000),
                late: Some(1),
                skipped: Some(4),
            },
        }
    }

    fn screen(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(InMemory::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_governed_model_shows_devices_power_plans_and_changes() {
        let candidate = |name: &str, device: &str, usable: bool| CandidateReport {
            name: name.to_owned(),
            devices: vec![device.to_owned()],
            predicted_ns: 1_250_000,
            predicted_uj: usable.then_some(430),
            bytes: 1,
            usable,
        };
        let shown = Shown {
            lines: (0..40).map(line).collect(),
            governed: Some(GovernedReport {
                plan: "only cpu:0".to_owned(),
                switches: 1,
                pace_permille: 640,
                candidates: vec![
                    candidate("fastest", "gpu:0", true),
                    candidate("only cpu:0", "cpu:0", false),
                ],
                changes: vec![ChangeReport {
                    time_ns: 12_340_000_000,
                    plan: "only cpu:0".to_owned(),
                    pace_permille: 640,
                    words: "it takes 512.0 W, the limit is 300.0 W".to_owned(),
                }],
            }),
            limit_mw: Some(300_000),
            deadline: Some(Duration::from_millis(33)),
            model: Some("resnet50.onnx".to_owned()),
            start_ns: 2_000_000_000,
            notes: vec!["the power limit of 300.0 W is enforced on gpu:0 only (cpu:0: no sensor)".to_owned()],
        };
        let drawn = screen(&shown, 110, 32);
        for words in [
            "12.5 runs/s · latency 25.3 ms, longest 34.9 ms · 3 of 100 late · 36 frames skipped",
            "the power limit of 300.0 W is enforced on gpu:0 only",
            // means of a second, not the sample of the moment
            "power 350.0 W, limit 300.0 W",
            "400 W",
            "latency, deadline 33 ms",
            "40 ms",
            // on the clock of the samples, which began two seconds after the runtime
            "10.3 s  only cpu:0: it takes 512.0 W",
        ] {
            assert!(drawn.contains(words), "{words:?} is not in\n{drawn}");
        }
        insta::assert_snapshot!(drawn);
    }

    #[test]
    fn sensors_alone_show_devices_and_power_only() {
        let mut one = line(3);
        (one.plan, one.pace_permille, one.runs, one.runs_per_second) = (None, None, None, None);
        (one.power_mw, one.late, one.skipped) = (None, None, None);
        one.last_second = LastSecond::default();
        let shown = Shown {
            lines: [one].into(),
            governed: None,
            limit_mw: None,
            deadline: None,
            model: None,
            start_ns: 0,
            notes: Vec::new(),
        };
        insta::assert_snapshot!(screen(&shown, 80, 12));
    }

    #[test]
    fn small_terminal_is_accepted() {
        let shown = Shown {
            lines: (0..300).map(line).collect(),
            governed: None,
            limit_mw: Some(1),
            deadline: None,
            model: None,
            start_ns: 0,
            notes: vec!["a limit".to_owned(); 3],
        };
        for (width, height) in [(1, 1), (3, 2), (20, 5)] {
            assert!(!screen(&shown, width, height).is_empty());
        }
    }
}
