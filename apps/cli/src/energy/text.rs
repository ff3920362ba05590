//! The text output of `polychip energy`.

use polychip::telemetry::{EnergyFigures, Interval};
use polychip_partitioner::Time;
use polychip_partitioner::report::count;

use super::EnergyOutput;

/// Formats an energy in microjoules with half of its interval.
fn energy(interval: &Interval) -> String {
    let (scale, unit) = match interval.mean.abs() {
        mean if mean >= 1e6 => (1e6, "J"),
        mean if mean >= 1e3 => (1e3, "mJ"),
        _ => (1.0, "µJ"),
    };
    format!(
        "{:.2} ± {:.2} {unit}",
        interval.mean / scale,
        interval.half() / scale
    )
}

impl std::fmt::Display for EnergyOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.sensors {
            match (&line.sensor, &line.reason) {
                (Some(sensor), _) => writeln!(f, "{}: {sensor}", line.device)?,
                (None, reason) => writeln!(
                    f,
                    "{}: its energy is unknown: {}",
                    line.device,
                    reason.as_deref().unwrap_or("no sensor")
                )?,
            }
        }
        let mut table = table();
        for candidate in &self.candidates {
            let interval =
                |found: &Option<Interval>| found.as_ref().map_or_else(|| "unknown".to_owned(), energy);
            let watts = |value: &dyn Fn(&EnergyFigures) -> Option<f64>| {
                let known: Vec<f64> = candidate
                    .devices
                    .iter()
                    .filter_map(|line| value(line.figures.as_ref()?))
                    .collect();
                if known.is_empty() {
                    "unknown".to_owned()
                } else {
                    format!("{:.1} W", known.iter().sum::<f64>() / 1e3)
                }
            };
            let is_whole = candidate.unknown.is_empty() || candidate.gross_uj.is_none();
            let at_least = if is_whole { "" } else { "≥ " };
            table.push([
                candidate.name.clone(),
                Time::from_nanoseconds(candidate.latency_ns.p50).to_string(),
                format!("{:.1}/s", candidate.runs_per_second),
                interval(&candidate.net_uj),
                format!("{at_least}{}", interval(&candidate.gross_uj)),
                watts(&|figures| Some(figures.power_mw)),
                watts(&|figures| figures.idle_mw),
            ]);
        }
        table.write(f)?;
        for one in &self.not_run {
            writeln!(f, "{}: not run: {}", one.name, one.reason)?;
        }
        let best = &self.best;
        let or_unknown = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_owned());
        writeln!(
            f,
            "fastest: {}; least energy: {} (net), {} (gross)",
            or_unknown(&best.latency),
            or_unknown(&best.net),
            or_unknown(&best.gross)
        )?;
        if let Some(differ) = best.differ {
            let words = match (differ, best.apart) {
                (false, _) => "the fastest also uses the least net energy",
                (true, Some(true)) => "they differ, and their net-energy intervals do not overlap",
                (true, _) => "they differ, but their net-energy intervals overlap or one is unknown",
            };
            writeln!(f, "{words}")?;
        }
        if !best.unknown.is_empty() {
            writeln!(
                f,
                "excluded from the energy comparison, because one of their devices has no sensor: {}",
                best.unknown.join(", ")
            )?;
        }
        for plan in &self.plans {
            match (&plan.nodes, &plan.reason) {
                (Some(nodes), _) => {
                    let nodes: Vec<String> = nodes
                        .iter()
                        .map(|(device, nodes)| format!("{} on {device}", count(*nodes, "node")))
                        .collect();
                    writeln!(
                        f,
                        "planned for {}: {}, {}, {} ({})",
                        plan.aim,
                        nodes.join(", "),
                        Time::from_nanoseconds(plan.time_ns.unwrap_or(0)),
                        plan.energy_uj.map_or_else(
                            || "energy unknown".to_owned(),
                            |uj| energy(&Interval::around(uj as f64, 0.0))
                        ),
                        plan.provenance.unwrap_or("")
                    )?;
                }
                (None, reason) => writeln!(
                    f,
                    "planned for {}: no plan: {}",
                    plan.aim,
                    reason.as_deref().unwrap_or("")
                )?,
            }
        }
        match self.plans_differ {
            Some(true) => write!(f, "the plans differ"),
            Some(false) => write!(f, "the plans are the same"),
            None => write!(f, "the plans cannot be compared"),
        }
    }
}

/// Rows of text whose columns stand under each other.
struct Table(Vec<[String; 7]>);

fn table() -> Table {
    let head = [
        "candidate",
        "median",
        "runs",
        "net energy",
        "gross energy",
        "power",
        "idle",
    ];
    Table(vec![head.map(str::to_owned)])
}

impl Table {
    fn push(&mut self, row: [String; 7]) {
        self.0.push(row);
    }

    fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.0.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in &self.0 {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
