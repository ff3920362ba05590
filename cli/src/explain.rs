//! `polychip explain`: for each node its device and cost, and for every other device why it is not there.

use std::fmt::Write as _;

use polychip::{Cadence, Event, MeasuredFigure, Warning};
use polychip_partitioner::report::count;
use polychip_partitioner::{Explanation, NodeExplanation, Report, Unlock};
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::LimitArguments;
use crate::output::Output;
use crate::partition;
use crate::per_op::{NodeSteps, PerOp, name_in};
use crate::setup::{ModelArguments, PlanArguments};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Compile the parts too, so that what a device refuses only then is explained as well
    #[arg(long)]
    compile: bool,
    /// Run the plan with inputs made from a seed, and say what each kernel and each node took, and which plain loops compute
    #[arg(long)]
    per_op: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    plan: PlanArguments,
}

/// What `explain --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Model file.
    model: String,
    /// The plan with names.
    report: Report,
    /// Every node in canonical order.
    nodes: Vec<NodeExplanation>,
    /// Unsupported ops by what their support would save, largest saving first.
    unlocks: Vec<Unlock>,
    /// Measured figures that the plan rests on: how many runs, under which conditions.
    measured: Vec<MeasuredFigure>,
    /// How the runs that the plan is for follow each other.
    cadence: Cadence,
    /// Estimates that measurements contradict, with the nodes to blame, and parts measured at other settings only.
    warnings: Vec<Warning>,
    /// Nodes that a device refused before, or with `--compile` now, and where that left the plan.
    events: Vec<Event>,
    /// With `--per-op`: what each kernel took.
    per_op: Option<PerOp>,
    /// With `--per-op`: what was measured of each of `nodes`; none where its device measures whole parts only, or no step computes
    /// it because its result is its input in another shape.
    node_steps: Option<Vec<Option<NodeSteps>>>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let (plan, limits, model) = (&arguments.plan, &arguments.limits, &arguments.model);
    let (planned, per_op) = match arguments.per_op {
        true => partition::measured(plan, limits, model)?,
        false => (partition::planned(plan, limits, model, arguments.compile)?, None),
    };
    let Explanation { nodes, unlocks } = partition::explained(&planned)?;
    let report = partition::report(&planned)?;
    let model = arguments.model.model.display().to_string();
    let steps_of = |per_op: &PerOp| {
        let names = nodes
            .iter()
            .map(|node| (node, name_in(planned.graph(), node.node)));
        names
            .map(|(node, name)| per_op.of_node(&node.device, name))
            .collect()
    };
    let node_steps = per_op.as_ref().map(steps_of);
    let answer = Answer {
        model,
        report,
        nodes,
        unlocks,
        measured: planned.measured(),
        cadence: planned.cadence(),
        warnings: planned.warnings().to_vec(),
        events: planned.events().to_vec(),
        per_op,
        node_steps,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = self.report.to_string();
        if self.cadence != Cadence::BackToBack {
            writeln!(text, "planned for cadence {}", self.cadence)?;
        }
        for event in &self.events {
            writeln!(text, "{event}")?;
        }
        for warning in &self.warnings {
            writeln!(text, "{warning}")?;
        }
        if !self.measured.is_empty() {
            text.push_str("\nmeasured\n");
        }
        for figure in &self.measured {
            writeln!(text, "  {figure}")?;
        }
        if let Some(per_op) = &self.per_op {
            write!(text, "\nsteps as measured, dearest first\n{per_op}")?;
        }
        text.push_str("\nnodes\n");
        for (place, node) in self.nodes.iter().enumerate() {
            write!(
                text,
                "{:>5} {} {:?} → {} (part {}",
                node.node, node.op, node.name, node.device, node.part
            )?;
            match &node.cost {
                Some(cost) => writeln!(
                    text,
                    ", {}, {}{})",
                    cost.time,
                    cost.provenance.word(),
                    label(cost.emulated)
                )?,
                None => writeln!(text, ", cost unknown)")?,
            }
            let steps = self.node_steps.as_ref().and_then(|steps| steps.get(place));
            if let Some(Some(steps)) = steps {
                writeln!(text, "        {steps}")?;
            }
            for other in &node.alternatives {
                write!(text, "        not {}: {}", other.device, other.reason)?;
                if let Some(cost) = &other.cost {
                    write!(
                        text,
                        " (alone {}, {}{})",
                        cost.time,
                        cost.provenance.word(),
                        label(cost.emulated)
                    )?;
                }
                if let Some(forced) = &other.counterfactual {
                    write!(text, "; there, {}", forced.words)?;
                    match forced.replanned {
                        true => text.push_str(" with all else planned anew"),
                        false => text.push_str(" with all else where it is"),
                    }
                    if forced.derived {
                        text.push_str(", cost derived from other nodes");
                    }
                }
                text.push('\n');
            }
        }
        if !self.unlocks.is_empty() {
            text.push_str("\nwhat support of one more op would save\n");
        }
        for unlock in &self.unlocks {
            let derived = if unlock.derived {
                ", cost derived from other nodes"
            } else {
                ""
            };
            writeln!(
                text,
                "  {} on {}: {} ({}{derived})",
                unlock.op,
                unlock.device,
                unlock.words,
                count(unlock.nodes as usize, "node")
            )?;
        }
        f.write_str(&text)
    }
}

fn label(emulated: bool) -> &'static str {
    if emulated { ", emulated" } else { "" }
}
