//! Figures of the emulated SoC: plans of the portfolio, each run by itself under the SoC's own throttling.

#![forbid(unsafe_code)]

use std::io::Write;

use anyhow::Result;
use polychip_soc::drive::{Rule, drive_all};
use polychip_soc::network::Network;
use polychip_soc::plans::Plans;
use polychip_soc::scenario::{Scenario, Without};
use polychip_soc::table::{Seeds, Table};

fn main() -> Result<()> {
    let (seeds, table) = (Seeds::committed(), Table::phone());
    let world = Network::named(&seeds.network)?.on(&table);
    let plans = Plans::new(&world, &table, seeds.inferences)?;
    let mut out = std::io::stdout().lock();
    for (index, candidate) in plans.portfolio.candidates.iter().enumerate() {
        let mut rate = 0.0;
        let mut above = f64::NEG_INFINITY;
        for seed in 0..10 {
            let scenario = Scenario::drawn(&table, seeds.first + seed, Without::default());
            let outcome = drive_all(&table, &plans, &scenario, Rule::Static(index));
            rate += outcome.in_time as f64 / outcome.frames as f64 * 3.0;
            above = above.max(outcome.above_limit);
        }
        writeln!(
            out,
            "emulated: {:28} {:6.2} ms {:6} uJ {rate:6.2} frames in time per second, {above:5.2} K above the limits",
            candidate.name,
            candidate.latency_ns as f64 / 1e6,
            candidate.energy_uj.unwrap_or(0)
        )?;
    }
    Ok(())
}
