//! A fixed plan: a competitor of the governor, which never switches.
//!
//! It is a plan of a session, whose parts are simulated on the phone without the session's calls. A
//! test compares it with a session that keeps this plan.
//!
//! Invariant: a part starts when its inputs are ready and its unit is free, in the plan's order.

use anyhow::{Context, Result};
use polychip::ReadyPlan;
use polychip_graph::NodeId;
use polychip_null::RunWork;

use crate::emulated::{Emulated, PERIOD_NS, Part};
use crate::network::Network;
use crate::outcome::Outcome;
use crate::table::{MOST_UNITS, Table};

fn unit_of(device: &str) -> Option<usize> {
    device.strip_prefix("soc:").and_then(|unit| unit.parse().ok())
}

/// The plan.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// New name.
    pub name: String,
    /// Predicted time of a frame, in milliseconds.
    pub frame_ms: f64,
    /// Predicted energy of a frame, in millijoules.
    pub frame_mj: f64,
    /// The requested level of each unit.
    pub(crate) levels: [usize; MOST_UNITS],
    pub(crate) parts: Vec<Part>,
}

impl Fixed {
    /// A session's plan for frames with this number of inferences of a network.
    ///
    /// # Errors
    /// The plan is for another network or for other devices.
    pub fn new(ready: &ReadyPlan, table: &Table, network: &Network, inferences: usize) -> Result<Self> {
        let planned = &ready.planned;
        let (plan, graph) = (planned.plan(), planned.graph());
        let mut levels = [0; MOST_UNITS];
        for (device, khz) in &ready.khz {
            let unit = unit_of(device).with_context(|| format!("device {device} is no unit"))?;
            let is_it = |[mhz, _]: &[u64; 2]| mhz * 1000 == *khz;
            levels[unit] = table.units[unit].levels.iter().position(is_it).unwrap_or(0);
        }
        let mut parts = Vec::with_capacity(plan.parts.len());
        for (index, part) in plan.parts.iter().enumerate() {
            let device = planned.devices()[part.device.index()].name();
            let unit = unit_of(device).with_context(|| format!("device {device} is no unit"))?;
            let about = table
                .units
                .get(unit)
                .with_context(|| format!("device {device}"))?;
            let times = inferences as f64;
            let mut work = RunWork {
                executable: index as u64,
                launch_ns: about.launch_ns as f64 * times,
                compute_ns: 0.0,
                memory_ns: 0.0,
                bytes: 0.0,
            };
            for &node in &part.nodes {
                let op = &graph.node(NodeId::new(node as usize)).op_name;
                let known = network.node_of(op).with_context(|| format!("op {op}"))?;
                let took = about.times(&network.work[known], table.memory.traffic_permille);
                work.compute_ns += took.compute_ns * times;
                work.memory_ns += took.memory_ns * times;
            }
            parts.push(Part {
                unit,
                work,
                after: part.after.iter().map(|before| before.index()).collect(),
            });
        }
        Ok(Self {
            name: ready.name.clone(),
            levels,
            frame_ms: ready.predicted_ns as f64 / 1e6,
            frame_mj: ready.predicted_uj.unwrap_or(0) as f64 / 1e3,
            parts,
        })
    }

    /// Runs it alone on a phone, until this time.
    #[must_use]
    pub fn run(&self, phone: &Emulated, until_ns: u64) -> Outcome {
        phone.begin(0);
        phone.ask(&self.levels);
        let mut state = phone.state();
        let mut out = Outcome::of(until_ns);
        let mut free_ns = 0;
        let mut ends: Vec<u64> = Vec::with_capacity(self.parts.len());
        for number in 0..until_ns / PERIOD_NS {
            let now = number * PERIOD_NS;
            let gone = |part: &Part| state.gone(part.unit, now).is_some();
            if now < free_ns || self.parts.iter().any(gone) {
                continue;
            }
            let before = state.spent_joules;
            ends.clear();
            let mut end = now;
            for part in &self.parts {
                let ready = part.after.iter().map(|&before| ends[before]).fold(now, u64::max);
                let spent = state.spend(part.unit, part.work, now, ready);
                ends.push(spent.end_ns);
                end = end.max(spent.end_ns);
            }
            free_ns = end;
            let joules = state.spent_joules - before;
            out.count(now, end - now, joules);
        }
        state.pass(until_ns);
        out.finish(&state.seen);
        out
    }
}
