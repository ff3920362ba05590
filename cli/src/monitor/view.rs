//! The dashboard: devices, power over time, plans and the governor's changes.
//!
//! Invariant: `draw` shows what it is given and keeps nothing, so that a test sees what a person sees.

use std::io::Stderr;
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
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};

use super::{Shown, in_watts};

/// The terminal, given back as it was when this goes.
pub(super) struct Screen(Terminal<OnTerminal<Stderr>>);

impl Screen {
    pub(super) fn open() -> anyhow::Result<Screen> {
        enable_raw_mode()?;
        execute!(std::io::stderr(), EnterAlternateScreen)?;
        Ok(Screen(Terminal::new(OnTerminal::new(std::io::stderr()))?))
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
        let _ = execute!(std::io::stderr(), LeaveAlternateScreen);
    }
}

/// Draws everything.
fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let devices = shown.lines.back().map_or(0, |line| line.sample.devices.len());
    let table = u16::try_from(devices).unwrap_or(u16::MAX).saturating_add(3);
    let has_model = shown.governed.is_some();
    let [head, table, power, plans, changes] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(table),
        Constraint::Length(5),
        Constraint::Length(if has_model { plans_height(shown) } else { 0 }),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    draw_head(frame, head, shown);
    draw_devices(frame, table, shown);
    draw_power(frame, power, shown);
    if has_model {
        draw_plans(frame, plans, shown);
        draw_changes(frame, changes, shown);
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
        words.extend(line.runs_per_second.map(|rate| format!("{rate:.1} runs/s")));
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

fn draw_power(frame: &mut Frame<'_>, area: Rect, shown: &Shown) {
    let powers = shown.lines.iter().map(|line| line.power_mw);
    let title = match (shown.lines.back().and_then(|line| line.power_mw), shown.limit_mw) {
        (Some(power), Some(limit)) => {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            format!("power: {} of {}", in_watts(power), in_watts(limit))
        }
        (Some(power), None) => format!("power: {}", in_watts(power)),
        (None, _) => "power: no sensor".to_owned(),
    };
    let width = usize::from(area.width.saturating_sub(2));
    let values: Vec<u64> = powers
        .map(|power| u64::try_from(power.unwrap_or(0)).unwrap_or(0))
        .collect();
    let newest = &values[values.len().saturating_sub(width)..];
    let most = newest.iter().copied().chain(shown.limit_mw).max().unwrap_or(1);
    let line = Sparkline::default().data(newest).max(most.max(1));
    frame.render_widget(line.block(Block::bordered().title(title)), area);
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
                change.time_ns as f64 / 1e9,
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

    use super::super::SampleLine;
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
            runs_per_second: Some(12.5),
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
            model: Some("resnet50.onnx".to_owned()),
        };
        insta::assert_snapshot!(screen(&shown, 90, 24));
    }

    #[test]
    fn sensors_alone_show_devices_and_power_only() {
        let mut one = line(3);
        (one.plan, one.pace_permille, one.runs, one.runs_per_second) = (None, None, None, None);
        one.power_mw = None;
        let shown = Shown {
            lines: [one].into(),
            governed: None,
            limit_mw: None,
            model: None,
        };
        insta::assert_snapshot!(screen(&shown, 80, 12));
    }

    #[test]
    fn a_small_terminal_is_no_error() {
        let shown = Shown {
            lines: (0..300).map(line).collect(),
            governed: None,
            limit_mw: Some(1),
            model: None,
        };
        for (width, height) in [(1, 1), (3, 2), (20, 5)] {
            assert!(!screen(&shown, width, height).is_empty());
        }
    }
}
