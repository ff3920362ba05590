//! Explains the placement of each node of a plan, for people and programs.
//!
//! Not here: the explanation itself (`polychip_partitioner::explain`).

use std::fmt::{self, Write as _};

use polychip_host::DeviceKind;
use polychip_partitioner::report::count;
use polychip_partitioner::{self as partitioner, Explanation, NodeExplanation, Report, Unlock};
use polychip_profile::Cadence;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cost_model::MeasuredFigure;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::planned::Planned;
use crate::warning::Warning;

/// The output of `polychip explain`: for each node its device and cost, and for every other device
/// the reason why the node is not there.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Explained {
    /// Model file.
    pub model: String,
    /// The plan with names.
    pub report: Report,
    /// Every node in canonical order.
    pub nodes: Vec<NodeExplanation>,
    /// Unsupported ops and what their support would save, largest saving first.
    pub unlocks: Vec<Unlock>,
    /// The measured figures behind the plan: number of runs and conditions.
    pub measured: Vec<MeasuredFigure>,
    /// The cadence that the plan is made for.
    pub cadence: Cadence,
    /// Estimates that measurements contradict, with suspect nodes, and parts that were measured at
    /// other settings only.
    pub warnings: Vec<Warning>,
    /// Nodes that a device refused, earlier or when the plan was compiled, and the effect on the
    /// plan.
    pub events: Vec<Event>,
}

impl Planned {
    /// Explains why each node is on its device.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), polychip::Error> {
    /// let runtime = polychip::Runtime::builder().build()?;
    /// let planned = runtime.plan(&runtime.load("model.onnx")?, &polychip::Policy::latency())?;
    /// println!("{}", planned.explain()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A plan to compare with cannot be made.
    pub fn explain(&self) -> Result<Explained> {
        let explained = partitioner::explain(self.request(), self.plan());
        let Explanation { nodes, unlocks } = explained.map_err(|error| self.failed("explaining", error))?;
        Ok(Explained {
            model: self.model().path().display().to_string(),
            report: self.compared()?,
            nodes,
            unlocks,
            measured: self.measured(),
            cadence: self.cadence(),
            warnings: self.warnings().to_vec(),
            events: self.events().to_vec(),
        })
    }

    /// The plan with names, compared with the cost of simple placement rules.
    ///
    /// # Errors
    /// A plan to compare with cannot be made.
    pub fn compared(&self) -> Result<Report> {
        let (request, plan) = (self.request(), self.plan());
        let mut comparisons = Vec::new();
        // with one device there is nothing to choose
        if request.targets.len() > 1 {
            // what other runtimes would list: special chips first, the CPU last
            let mut priority: Vec<usize> = (0..request.targets.len()).collect();
            priority.sort_by_key(|index| self.devices()[*index].info().kind == DeviceKind::Cpu);
            let failed = |error| self.failed("comparing", error);
            comparisons.push(partitioner::greedy_by_priority(request, &priority).map_err(failed)?);
            comparisons.push(partitioner::cheapest_per_node(request).map_err(failed)?);
        }
        Ok(Report::new(request.graph, plan, comparisons)
            .with_unknown(request, plan)
            .with_devices(plan, &self.device_names()))
    }

    fn failed(&self, what: &str, error: partitioner::Error) -> Error {
        let words = format!("{what} the plan of {}", self.model().path().display());
        Error::caused(ErrorKind::BadInput, words, error)
    }
}

impl Explained {
    /// Formats the explanation as text, with `before` inserted ahead of the nodes and
    /// `of_node(index)` below a node's line.
    #[must_use]
    pub fn text_with(&self, before: &str, of_node: &dyn Fn(usize) -> Option<String>) -> String {
        let mut text = self.report.to_string();
        // writing to a string never fails
        let _ = self.write(&mut text, before, of_node);
        text
    }

    fn write(
        &self,
        text: &mut String,
        before: &str,
        of_node: &dyn Fn(usize) -> Option<String>,
    ) -> fmt::Result {
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
        text.push_str(before);
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
            if let Some(more) = of_node(place) {
                writeln!(text, "        {more}")?;
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
                    if forced.replanned {
                        text.push_str(" with all other nodes replanned")
                    } else {
                        text.push_str(" with all other nodes in place")
                    }
                    if forced.derived {
                        text.push_str(", cost derived from other nodes");
                    }
                }
                text.push('\n');
            }
        }
        if !self.unlocks.is_empty() {
            text.push_str("\nsavings if one more op were supported\n");
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
        Ok(())
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_with("", &|_| None))
    }
}

fn label(emulated: bool) -> &'static str {
    if emulated { ", emulated" } else { "" }
}
