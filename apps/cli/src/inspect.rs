//! `polychip inspect`: a model's summary, and the nodes that each device does not support.
//!
//! Invariant: the model's summary needs no device. A note explains if device support cannot be checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use polychip::{Model, Runtime};
use polychip_graph::{Graph, Tensor, TensorId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::input::InputArguments;
use crate::output::Output;
use crate::per_op::{self, OnReference};
use crate::progress::Progress;
use crate::setup::{ModelArguments, PlanArguments};

/// Names of refused nodes that are shown per op and reason.
const SHOWN: usize = 3;

/// Characters of a text of the maker's that are shown.
const LONGEST: usize = 120;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Run the model with generated inputs and list the nodes computed by plain loops
    #[arg(long)]
    per_op: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArguments,
}

/// Output of `inspect --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InspectOutput {
    /// Model file.
    model: String,
    /// Name of the graph.
    name: String,
    /// Version of the file format.
    ir_version: Option<i64>,
    /// Opset version by domain as the file has it; the default domain is empty.
    opsets: BTreeMap<String, i64>,
    /// The tool that wrote the file, with its version.
    producer: String,
    /// Named texts that the maker added.
    metadata: BTreeMap<String, String>,
    /// Inputs in the model's order.
    inputs: Vec<Port>,
    /// Outputs in the model's order.
    outputs: Vec<Port>,
    /// Dimensions that are only named.
    open_dims: Vec<String>,
    /// Elements of all constants.
    parameters: u64,
    /// Bytes of all constants.
    constant_bytes: u64,
    /// External weight files of the model.
    files: Vec<String>,
    /// Nodes as imported, those of bodies included.
    nodes: usize,
    /// How often each op occurs, most frequent first.
    ops: Vec<Count>,
    /// Device support of the canonical graph; null if it cannot be checked.
    support: Option<GraphSupport>,
    /// Why devices could not be asked.
    note: Option<String>,
    /// With `--per-op`: nodes that plain loops compute instead of a kernel, in the model's plan.
    reference: Option<ReferenceNodes>,
}

/// Nodes that plain loops compute.
#[derive(Debug, Serialize, JsonSchema)]
struct ReferenceNodes {
    /// By device and op.
    nodes: Vec<OnReference>,
    /// Devices that measure only whole parts, so plain loops are unknown.
    unknown: Vec<String>,
}

/// An input or output.
#[derive(Debug, Serialize, JsonSchema)]
struct Port {
    /// Name.
    name: String,
    /// tensor, sequence, optional, optional_sequence or other.
    container: &'static str,
    /// Element type; null if unknown.
    dtype: Option<&'static str>,
    /// Sizes or names of sizes, `?` if neither is known; null for an unknown rank.
    shape: Option<Vec<Size>>,
}

/// A size, or its name.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Size {
    Known(usize),
    Named(String),
}

/// How often an op occurs.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Count {
    /// The op, with its domain unless it is the default one.
    op: String,
    /// Nodes.
    nodes: usize,
}

/// Device support of the canonical graph.
#[derive(Debug, Serialize, JsonSchema)]
struct GraphSupport {
    /// Nodes of the canonical graph.
    nodes: usize,
    /// How often each op occurs in it, most frequent first.
    ops: Vec<Count>,
    /// Refusals per device.
    devices: Vec<DeviceSupport>,
    /// Nodes that no device runs.
    unsupported: Vec<Refused>,
}

/// Support of one device.
#[derive(Debug, Serialize, JsonSchema)]
struct DeviceSupport {
    /// The device.
    device: String,
    /// Nodes that it runs.
    supported: usize,
    /// Reason for its quarantine; null if it is in use.
    quarantined: Option<String>,
    /// Its refusals, by op and reason.
    unsupported: Vec<Refused>,
}

/// Nodes of one op that are refused for one reason.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Refused {
    /// The op.
    op: String,
    /// Why.
    reason: String,
    /// Number of nodes.
    nodes: usize,
    /// Names of the first ones.
    names: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = arguments.plan.runtime(None)?;
    let model = arguments.model.load(&runtime)?;
    let mut answer = InspectOutput::new(arguments.model.model.display().to_string(), &model)?;
    if answer.open_dims.is_empty() {
        match support(&runtime, &model, arguments) {
            Ok(support) => answer.support = Some(support),
            // a device that was asked for and is not there is no matter of the model
            Err(error) if !arguments.plan.devices.is_empty() => return Err(error.into()),
            Err(error) => answer.note = Some(error.to_string()),
        }
    } else {
        let names = answer.open_dims.join(", ");
        answer.note = Some(format!(
            "the size of {names} is open; set each with --dim NAME=N to check device support"
        ));
    }
    if arguments.per_op {
        answer.reference = Some(reference(&runtime, &model, arguments)?);
    }
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// Runs the model, and finds the nodes that plain loops compute.
fn reference(runtime: &Runtime, model: &Model, arguments: &Arguments) -> anyhow::Result<ReferenceNodes> {
    let (model, given) = InputArguments::of_seed().read(model)?;
    let session = {
        let _progress = Progress::of("planning and compiling");
        runtime.session(&model, arguments.plan.policy().in_flight(1))?
    };
    let (nodes, unknown) = per_op::of_session(&session, &given)?.on_reference();
    Ok(ReferenceNodes { nodes, unknown })
}

fn support(runtime: &Runtime, model: &Model, arguments: &Arguments) -> polychip::Result<GraphSupport> {
    let _progress = Progress::of("asking devices");
    let support = runtime.support(model, &arguments.plan.policy())?;
    let graph = support.graph();
    let nodes: Vec<_> = graph.nodes().map(|(_, node)| node).collect();
    let refused = |reason: &dyn Fn(usize) -> Option<String>| {
        let mut found: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for (row, node) in nodes.iter().enumerate() {
            if let Some(reason) = reason(row) {
                found.entry((node.label(), reason)).or_default().push(&node.name);
            }
        }
        let mut lines: Vec<Refused> = found
            .into_iter()
            .map(|((op, reason), names)| Refused {
                op,
                reason,
                nodes: names.len(),
                names: names.iter().take(SHOWN).map(ToString::to_string).collect(),
            })
            .collect();
        lines.sort_by(|a, b| {
            b.nodes
                .cmp(&a.nodes)
                .then_with(|| (&a.op, &a.reason).cmp(&(&b.op, &b.reason)))
        });
        lines
    };
    let targets = support.targets();
    let devices = targets.iter().map(|target| DeviceSupport {
        device: target.name.clone(),
        supported: (0..nodes.len()).filter(|row| target.supports(*row)).count(),
        quarantined: target.quarantined.clone(),
        unsupported: refused(&|row| target.refusals[row].as_ref().map(|refusal| refusal.words.clone())),
    });
    let nowhere = |row: usize| {
        let is_refused = targets.iter().all(|target| !target.supports(row));
        let words = targets.iter().filter_map(|target| {
            let words = target
                .quarantined
                .as_ref()
                .or(target.refusals[row].as_ref().map(|refusal| &refusal.words))?;
            Some(format!("{}: {words}", target.name))
        });
        is_refused.then(|| words.collect::<Vec<_>>().join("; "))
    };
    Ok(GraphSupport {
        nodes: nodes.len(),
        ops: histogram(graph),
        devices: devices.collect(),
        unsupported: refused(&nowhere),
    })
}

impl InspectOutput {
    fn new(path: String, model: &Model) -> polychip::Result<InspectOutput> {
        let (graph, header) = (model.graph(), model.header()?);
        let port = |id: &TensorId| Port::new(graph.tensor(*id));
        let elements = graph.tensors().filter(|(_, tensor)| tensor.is_constant());
        Ok(InspectOutput {
            model: path,
            name: graph.name.clone(),
            ir_version: header.ir_version,
            opsets: header.opsets,
            producer: format!("{} {}", header.producer, header.producer_version)
                .trim()
                .to_owned(),
            metadata: header.metadata,
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            open_dims: model.open_dims(),
            parameters: elements.fold(0, |sum, (_, tensor)| {
                u64::saturating_add(sum, tensor.ty.elements().map_or(0, |count| count as u64))
            }),
            constant_bytes: graph.constant_bytes(),
            files: graph
                .files
                .iter()
                .filter(|file| !file.is_empty())
                .cloned()
                .collect(),
            nodes: count(graph),
            ops: histogram(graph),
            support: None,
            note: None,
            reference: None,
        })
    }
}

impl Port {
    fn new(tensor: &Tensor) -> Port {
        let shape = tensor.ty.shape.as_ref().filter(|_| tensor.typed);
        Port {
            name: tensor.name.clone(),
            container: tensor.container.name(),
            dtype: tensor.typed.then(|| tensor.ty.dtype.name()),
            shape: shape.map(|shape| {
                shape
                    .iter()
                    .map(|dim| {
                        dim.known()
                            .map_or_else(|| Size::Named(dim.to_string()), Size::Known)
                    })
                    .collect()
            }),
        }
    }
}

/// Nodes of a graph and of the bodies in it.
fn count(graph: &Graph) -> usize {
    graph
        .nodes()
        .map(|(_, node)| 1 + node.bodies.iter().map(|body| count(&body.graph)).sum::<usize>())
        .sum()
}

/// How often each op occurs, bodies included.
fn histogram(graph: &Graph) -> Vec<Count> {
    fn add(graph: &Graph, counts: &mut BTreeMap<String, usize>) {
        for (_, node) in graph.nodes() {
            *counts.entry(node.label()).or_default() += 1;
            node.bodies.iter().for_each(|body| add(&body.graph, counts));
        }
    }
    let mut counts = BTreeMap::new();
    add(graph, &mut counts);
    let mut counts: Vec<Count> = counts
        .into_iter()
        .map(|(op, nodes)| Count { op, nodes })
        .collect();
    counts.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.op.cmp(&b.op)));
    counts
}

/// A text of the maker's in one line, cut where it is long: some keep whole vocabularies there.
fn cut(value: &str) -> String {
    let length = value.chars().count();
    let mut line: String = value.chars().take(LONGEST).collect();
    if length > LONGEST {
        let _ = write!(line, "… ({length} characters; --json prints all)");
    }
    line.replace(['\n', '\r', '\t'], " ")
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = |size: &Size| match size {
            Size::Known(size) => size.to_string(),
            Size::Named(name) => name.clone(),
        };
        let container = if self.container == "tensor" {
            String::new()
        } else {
            format!("{} of ", self.container)
        };
        let shape = match &self.shape {
            Some(shape) => format!("[{}]", shape.iter().map(words).collect::<Vec<_>>().join(", ")),
            None => "of unknown rank".to_owned(),
        };
        write!(
            f,
            "{}: {container}{} {shape}",
            self.name,
            self.dtype.unwrap_or("unknown type")
        )
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = if self.nodes > self.names.len() {
            ", …"
        } else {
            ""
        };
        write!(
            f,
            "{} × {}: {} ({}{more})",
            self.nodes,
            self.op,
            self.reason,
            self.names.join(", ")
        )
    }
}

fn ops(counts: &[Count]) -> String {
    counts
        .iter()
        .map(|count| format!("{} {}", count.nodes, count.op))
        .collect::<Vec<_>>()
        .join(", ")
}

impl std::fmt::Display for InspectOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        let name = if self.name.is_empty() {
            &self.model
        } else {
            &self.name
        };
        let domain = |name: &str| {
            if name.is_empty() {
                "ai.onnx".to_owned()
            } else {
                name.to_owned()
            }
        };
        let opsets: Vec<String> = self
            .opsets
            .iter()
            .map(|(name, version)| format!("{} {version}", domain(name)))
            .collect();
        let ir = self
            .ir_version
            .map_or_else(|| "?".to_owned(), |version| version.to_string());
        writeln!(text, "{name}: opset {}, IR version {ir}", opsets.join(", "))?;
        if !self.producer.is_empty() {
            writeln!(text, "made by {}", self.producer)?;
        }
        for (key, value) in &self.metadata {
            writeln!(text, "{key} = {}", cut(value))?;
        }
        for (word, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            for port in ports {
                writeln!(text, "{word} {port}")?;
            }
        }
        if !self.open_dims.is_empty() {
            writeln!(text, "open dimensions: {}", self.open_dims.join(", "))?;
        }
        writeln!(
            text,
            "{} parameters, {:.1} MiB of constants",
            self.parameters,
            self.constant_bytes as f64 / f64::from(1 << 20)
        )?;
        if !self.files.is_empty() {
            writeln!(text, "weights in {}", self.files.join(", "))?;
        }
        writeln!(text, "{} nodes: {}", self.nodes, ops(&self.ops))?;
        if let Some(support) = &self.support {
            writeln!(
                text,
                "canonical form: {} nodes: {}",
                support.nodes,
                ops(&support.ops)
            )?;
            for device in &support.devices {
                writeln!(
                    text,
                    "{}: runs {} of {} nodes",
                    device.device, device.supported, support.nodes
                )?;
                if let Some(words) = &device.quarantined {
                    writeln!(text, "  not used: {words}")?;
                }
                for refused in &device.unsupported {
                    writeln!(text, "  not {refused}")?;
                }
            }
            let nowhere: usize = support.unsupported.iter().map(|refused| refused.nodes).sum();
            if nowhere > 0 {
                writeln!(
                    text,
                    "the model cannot run here: no device supports {nowhere} of its nodes"
                )?;
            }
        }
        if let Some(ReferenceNodes { nodes, unknown }) = &self.reference {
            for line in nodes {
                let names: Vec<&str> = line.nodes.iter().take(SHOWN).map(|name| &**name).collect();
                writeln!(
                    text,
                    "{}: plain loops instead of a kernel: {} × {} ({}{}), {:.1} % of the measured time",
                    line.device,
                    line.nodes.len(),
                    line.op,
                    names.join(", "),
                    if line.nodes.len() > SHOWN { ", …" } else { "" },
                    100.0 * line.share
                )?;
            }
            for device in unknown {
                writeln!(
                    text,
                    "{device} does not measure steps: use of plain loops there is unknown"
                )?;
            }
            if nodes.is_empty() && unknown.is_empty() {
                writeln!(text, "every node has a kernel on its device")?;
            }
        }
        if let Some(note) = &self.note {
            writeln!(text, "device support not checked: {note}")?;
        }
        f.write_str(&text)
    }
}
