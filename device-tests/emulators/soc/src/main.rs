//! `cargo xtask soc`: figures of the governor on the emulated SoC, on the committed tables and seeds.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use polychip_soc::scenario::Without;
use polychip_soc::study::{Figures, Losses, Saving, Setting, Spread, losses, savings, sustained};
use polychip_soc::table::{Seeds, Table};
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Figures of the governor on the emulated SoC; everything is emulated")]
struct Arguments {
    /// Runs per table; left out: as many as were committed to
    #[arg(long)]
    seeds: Option<u64>,
    /// Also write the figures here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only the shipped table, without those drawn around it
    #[arg(long)]
    shipped_only: bool,
    /// Another limit of the surface than the tables', in thousandths of a degree
    #[arg(long, value_name = "MC")]
    skin_limit: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    emulated: bool,
    seeds: u64,
    /// With others' bursts and sensor faults.
    sustained: Vec<Figures>,
    /// Heat alone: nobody else, on the shipped table.
    heat_alone: Figures,
    savings: Vec<Saving>,
    /// Units that are lost and come back, on the shipped table.
    losses: Losses,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let committed = Seeds::committed();
    let count = arguments.seeds.unwrap_or(committed.count);
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
    let settings: Result<Vec<Setting>> = tables
        .into_iter()
        .map(|table| Setting::new(table, &committed))
        .collect();
    let settings = settings?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "emulated SoC; 30 minutes at 30 frames/s; {count} seeds per table"
    )?;
    let mut report = Report {
        emulated: true,
        seeds: count,
        sustained: Vec::new(),
        heat_alone: sustained(
            &settings[0],
            committed.first,
            count.min(100),
            Without {
                others: true,
                faults: false,
            },
        )?,
        savings: Vec::new(),
        losses: losses(&settings[0], committed.first, count.min(100))?,
    };
    for setting in &settings {
        let figures = sustained(setting, committed.first, count, Without::default())?;
        print(&mut out, &figures)?;
        report.sustained.push(figures);
    }
    writeln!(out, "\nheat alone, nobody else:")?;
    print(&mut out, &report.heat_alone)?;
    for (setting, others) in settings
        .iter()
        .flat_map(|setting| [(setting, false), (setting, true)])
    {
        let without = Without {
            others: !others,
            faults: false,
        };
        for saving in savings(
            setting,
            committed.first,
            count.min(100),
            committed.inferences,
            without,
        )? {
            writeln!(
                out,
                "\n{}, {}, {}, {} seeds, emulated: {:.1} instead of {:.1} mJ per inference, saved {}, at most {}; in time {} \
                 of frames, plugged {}; of frames in time {:.1} mJ, least {:.1} mJ",
                saving.table,
                saving.stance,
                if others { "with other apps" } else { "alone" },
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
            report.savings.push(saving);
        }
    }
    let found = &report.losses;
    writeln!(
        out,
        "\n{}, units lost, {} seeds, emulated: {} losses, {} frames due on a unit known to be lost; in time/s {}, best static {}; above \
         limits, K {}",
        found.table,
        found.seeds,
        found.losses,
        found.on_lost,
        words(&found.in_time_per_s, 2),
        words(&found.best_static_per_s, 2),
        words(&found.above_limit_k, 2)
    )?;
    if let Some(path) = arguments.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
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
