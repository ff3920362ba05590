//! `cargo xtask soc`: figures of governed sessions on the emulated SoC, on the committed tables and seeds.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use polychip_soc::scenario::Without;
use polychip_soc::setting::Setting;
use polychip_soc::study::{Ablation, Figures, Losses, Saving, Spread, ablation, losses, savings, sustained};
use polychip_soc::table::{Seeds, Table};
use serde::Serialize;

/// Savings, losses and ablations are of so many seeds at most.
const FEWER: u64 = 100;

#[derive(Parser)]
#[command(about = "Figures of governed sessions on the emulated SoC (all emulated)")]
struct Arguments {
    /// Runs per table; default: the committed number
    #[arg(long)]
    seeds: Option<u64>,
    /// Seed of the first run; default: the committed one
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Use only the shipped table, without the perturbed ones
    #[arg(long)]
    shipped_only: bool,
    /// Use only these tables, by index: 0 is the shipped one, followed by the perturbed ones
    #[arg(long, value_name = "N")]
    table: Vec<usize>,
    /// Surface temperature limit instead of the tables', in thousandths of a degree Celsius
    #[arg(long, value_name = "MC")]
    skin_limit: Option<f64>,
    /// Compute only these figures; default: all
    #[arg(long, value_enum)]
    only: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    Sustained,
    Ablation,
    Savings,
    Losses,
}

#[derive(Serialize)]
struct Report {
    emulated: bool,
    seeds: u64,
    /// With others' bursts and sensor faults.
    sustained: Vec<Figures>,
    /// Heat alone: no other users, on the shipped table.
    heat_alone: Option<Figures>,
    /// The worth of each fact that a session is given, on the shipped table.
    ablation: Option<Ablation>,
    savings: Vec<Saving>,
    /// Units that are lost and come back, on the shipped table.
    losses: Option<Losses>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let committed = Seeds::committed();
    let count = arguments.seeds.unwrap_or(committed.count);
    let first = arguments.first.unwrap_or(committed.first);
    let fewer = count.min(FEWER);
    let settings = settings(&arguments, &committed)?;
    let has_shipped = arguments.table.is_empty() || arguments.table.contains(&0);
    let wants = |section| arguments.only.is_empty() || arguments.only.contains(&section);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "emulated SoC; sessions of 30 minutes at 30 frames/s; {count} seeds per table"
    )?;
    let mut report = Report {
        emulated: true,
        seeds: count,
        sustained: Vec::new(),
        heat_alone: None,
        ablation: None,
        savings: Vec::new(),
        losses: None,
    };
    if wants(Section::Sustained) {
        for setting in &settings {
            let figures = sustained(setting, first, count, Without::default())?;
            print(&mut out, &figures)?;
            report.sustained.push(figures);
        }
        if has_shipped {
            let no_users = Without {
                others: true,
                faults: false,
            };
            let figures = sustained(&settings[0], first, fewer, no_users)?;
            writeln!(out, "\nheat alone, no other users:")?;
            print(&mut out, &figures)?;
            report.heat_alone = Some(figures);
        }
    }
    if wants(Section::Ablation) && has_shipped {
        let found = ablation(&settings[0], first, fewer)?;
        print_ablation(&mut out, &found)?;
        report.ablation = Some(found);
    }
    if wants(Section::Savings) {
        let both = settings
            .iter()
            .flat_map(|setting| [(setting, false), (setting, true)]);
        for (setting, others) in both {
            let without = Without {
                others: !others,
                faults: false,
            };
            for saving in savings(setting, first, fewer, committed.inferences, without)? {
                print_saving(&mut out, &saving)?;
                report.savings.push(saving);
            }
        }
    }
    if wants(Section::Losses) && has_shipped {
        let found = losses(&settings[0], first, fewer)?;
        print_losses(&mut out, &found)?;
        report.losses = Some(found);
    }
    if let Some(path) = arguments.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The shipped table, and those drawn around it.
fn settings(arguments: &Arguments, committed: &Seeds) -> Result<Vec<Setting>> {
    let mut tables = vec![Table::phone()];
    if !arguments.shipped_only {
        let drawn = committed
            .tables
            .iter()
            .map(|&seed| Table::phone().drawn(seed, committed.spread_permille));
        tables.extend(drawn);
    }
    if let Some(limit) = arguments.skin_limit {
        tables
            .iter_mut()
            .for_each(|table| table.board.skin_limit_mc = limit);
    }
    let is_wanted = |at: &usize| arguments.table.is_empty() || arguments.table.contains(at);
    let wanted = tables.into_iter().enumerate().filter(|(at, _)| is_wanted(at));
    let settings = wanted.map(|(_, table)| Setting::new(table, committed));
    let settings = settings.collect::<Result<Vec<_>>>()?;
    ensure!(
        !settings.is_empty(),
        "there are {} tables, counted from 0",
        committed.tables.len() + 1
    );
    Ok(settings)
}

fn words(spread: &Spread, digits: usize) -> String {
    format!(
        "{:.digits$} (p5 {:.digits$}, p95 {:.digits$}, least {:.digits$}, greatest {:.digits$})",
        spread.p50, spread.p5, spread.p95, spread.least, spread.greatest
    )
}

fn print(out: &mut impl Write, figures: &Figures) -> Result<()> {
    writeln!(
        out,
        "\ntable {}, {} seeds, emulated",
        figures.table, figures.seeds
    )?;
    for competitor in &figures.competitors {
        writeln!(
            out,
            "  static {:30} {:6.2} ms {:6.1} mJ  in time/s {}  completed/s {:.2}  above limits {:.2} K",
            competitor.name,
            competitor.frame_ms,
            competitor.frame_mj,
            words(&competitor.in_time_per_s, 2),
            competitor.completed_per_s.p50,
            competitor.above_limit_k.greatest
        )?;
    }
    for (name, spread) in [
        ("in time/s", &figures.in_time_per_s),
        ("completed/s", &figures.completed_per_s),
        ("gain over best static of the run", &figures.gain),
        ("the same in completed frames", &figures.gain_completed),
        ("above limits, K", &figures.above_limit_k),
        ("switches", &figures.switches),
        ("switches in any minute", &figures.switches_in_a_minute),
        ("late frames per switch", &figures.late_per_switch),
        ("possible/s", &figures.possible_per_s),
        ("bound of the gain", &figures.gain_bound),
    ] {
        writeln!(out, "  governed {name}: {}", words(spread, 2))?;
    }
    writeln!(
        out,
        "  gain of means {:.3}; worst seed {}; {} seeds below a gain of 1.3, in {} of which it was not possible; {} seeds with more \
         than one late frame per switch, most in seed {}",
        figures.gain_of_means,
        figures.worst_seed,
        figures.seeds_below_gain,
        figures.seeds_bounded_below_gain,
        figures.seeds_above_one_late,
        figures.latest_seed
    )?;
    Ok(())
}

fn print_ablation(out: &mut impl Write, found: &Ablation) -> Result<()> {
    writeln!(
        out,
        "\n{}, {} seeds, emulated; the session knows all but",
        found.table, found.seeds
    )?;
    for row in &found.rows {
        writeln!(
            out,
            "  {:24} gain {}  in time/s {:.2}  above limits {:.2} K at most  late per switch {:.2}, at most {:.2}  {:.0} switches  \
             {:.0} J",
            row.without,
            words(&row.gain, 2),
            row.in_time_per_s.p50,
            row.above_limit_k.greatest,
            row.late_per_switch.p50,
            row.late_per_switch.greatest,
            row.switches.p50,
            row.joules.p50
        )?;
    }
    Ok(())
}

fn print_saving(out: &mut impl Write, saving: &Saving) -> Result<()> {
    writeln!(
        out,
        "\n{}, {}, {}, {} seeds, emulated: {:.1} instead of {:.1} mJ per inference, saved {}, at most {}; in time {} \
         of frames, plugged {}; of frames in time {:.1} mJ, least {:.1} mJ",
        saving.table,
        saving.stance,
        if saving.others { "with other apps" } else { "alone" },
        saving.seeds,
        saving.mj.p50,
        saving.plugged_mj.p50,
        words(&saving.saved, 3),
        words(&saving.saved_bound, 3),
        words(&saving.in_time, 3),
        words(&saving.plugged_in_time, 3),
        saving.in_time_mj.p50,
        saving.least_mj.p50
    )?;
    Ok(())
}

fn print_losses(out: &mut impl Write, found: &Losses) -> Result<()> {
    writeln!(
        out,
        "\n{}, units lost, {} seeds, emulated: {} losses, {} frames begun again beyond one for each; in time/s {}, best static {}; \
         above limits, K {}",
        found.table,
        found.seeds,
        found.losses,
        found.on_lost,
        words(&found.in_time_per_s, 2),
        words(&found.best_static_per_s, 2),
        words(&found.above_limit_k, 2)
    )?;
    Ok(())
}
