//! `polychip explain`: each node's device and cost, and why not the other devices.

use polychip::Explained;
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::LimitArguments;
use crate::output::Output;
use crate::partition;
use crate::per_op::{NodeSteps, PerOp, name_in};
use crate::progress::Progress;
use crate::setup::{ModelArguments, PlanArguments};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Also compile the parts, to explain what a device refuses only at compile time
    #[arg(long)]
    compile: bool,
    /// Run the plan with generated inputs and show the time of each kernel and node, and the nodes computed by plain
    /// loops
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

/// Output of `explain --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainOutput {
    #[serde(flatten)]
    explained: Explained,
    /// With `--per-op`: time of each kernel.
    per_op: Option<PerOp>,
    /// With `--per-op`: what was measured of each of `nodes`; none where its device measures whole parts only, or no step computes
    /// it because its result is its input in another shape.
    node_steps: Option<Vec<Option<NodeSteps>>>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let (plan, limits, model) = (&arguments.plan, &arguments.limits, &arguments.model);
    let (planned, per_op) = if arguments.per_op {
        partition::measured(plan, limits, model)?
    } else {
        (partition::planned(plan, limits, model, arguments.compile)?, None)
    };
    let explained = {
        let _progress = Progress::of("explaining the plan");
        planned.explain()?
    };
    let steps_of = |per_op: &PerOp| {
        let names = explained
            .nodes
            .iter()
            .map(|node| (node, name_in(planned.graph(), node.node)));
        names
            .map(|(node, name)| per_op.of_node(&node.device, name))
            .collect()
    };
    let node_steps = per_op.as_ref().map(steps_of);
    let answer = ExplainOutput {
        explained,
        per_op,
        node_steps,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl std::fmt::Display for ExplainOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = self.per_op.as_ref().map_or_else(String::new, |per_op| {
            format!("\nmeasured steps, slowest first\n{per_op}")
        });
        let of_node = |place: usize| {
            let steps = self.node_steps.as_ref()?.get(place)?.as_ref()?;
            Some(steps.to_string())
        };
        f.write_str(&self.explained.text_with(&steps, &of_node))
    }
}
