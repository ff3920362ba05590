//! Quantised models split between QNN and the CPU, per SoC, each in a process of its own: the library answers for
//! one SoC per process.
//!
//! For each model: every kind of node that the NPU takes is run alone against the CPU; the planner's own plan, and one
//! with all that the NPU takes pinned to it but for some nodes in the middle, are run part by part against the CPU on the
//! same inputs, and as a whole against ONNX Runtime's outputs of the QDQ graph (the same answer, cosine at least
//! 0.999); for each node on the CPU the NPU's reason is asked for. Of the pinned plan most nodes must be on the NPU;
//! how many of the planner's own are depends on the speed of the machine's CPU.
//!
//! The library is the emulator of this repository, and the vendor's too where `QNN_LIB_DIR` names its
//! folder; trials say which. Skipped where `cargo xtask models` has not made the models.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Device, Planned, Policy, Runtime};
use polychip_device_tests::compare::{cosine, top};
use polychip_device_tests::{Need, libraries, model, npy, part, paths, skipped};
use polychip_graph::{Graph, NodeId, TensorId};
use polychip_ops::{DType, Literal, Op};
use polychip_partitioner::{self as partitioner, DeviceIndex, Reason};
use serde::Deserialize;

const SOCS: [&str; 3] = ["30", "43", "57"];
const MODELS: [&str; 4] = [
    "mobilenet_v2_u8",
    "mobilenet_v2_u16",
    "encoder_u16",
    "encoder_mixed",
];
/// Set for the child: `SOC:emulated|vendor:FOLDER`.
const CHILD: &str = "POLYCHIP_TEST_QNN_MODELS";
/// Least cosine of a part's or a model's output.
const COSINE: f64 = 0.999;
/// The plan that leaves the planner no choice.
const PINNED: &str = "pinned";
/// Least share of that plan's nodes on the NPU; the border of the encoder is integers that it does not take.
const LEAST_PERCENT: usize = 75;

fn main() -> Result<()> {
    if let Ok(text) = std::env::var(CHILD) {
        let mut words = text.splitn(3, ':');
        let mut next = || words.next().context("the child's variable is torn");
        return child(next()?, next()? == "vendor", Path::new(next()?));
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let made = paths::models().join("quantised/.stamp").is_file();
    let vendor = std::env::var_os("QNN_LIB_DIR").filter(|folder| !folder.is_empty());
    for soc in SOCS {
        if !made {
            trials.push(skipped(&format!("soc-{soc}"), Need::Models, paths::NO_MODELS));
            continue;
        }
        trials.push(Trial::test(format!("emulator/soc-{soc}"), move || {
            failed(emulator().and_then(|folder| parent(soc, "emulated", &folder)))
        }));
        match &vendor {
            Some(folder) => {
                let folder = PathBuf::from(folder);
                trials.push(Trial::test(
                    format!("vendor's x86 library/soc-{soc}"),
                    move || failed(parent(soc, "vendor", &folder)),
                ));
            }
            None => trials.push(skipped(
                &format!("vendor's x86 library/soc-{soc}"),
                Need::QnnLibrary,
                "QNN_LIB_DIR is not set",
            )),
        }
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// The folder with the emulator's libraries.
fn emulator() -> Result<PathBuf> {
    libraries::library("polychip-emulator-qnn-system", "QnnSystem")?;
    let library = libraries::library("polychip-emulator-qnn", "QnnHtp")?;
    Ok(library.parent().context("a library lies in a folder")?.to_owned())
}

/// Runs the child. The vendor's library writes on standard output, so that nothing is read there.
fn parent(soc: &str, kind: &str, folder: &Path) -> Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, format!("{soc}:{kind}:{}", folder.display()))
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    eprint!("{words}");
    ensure!(output.status.success(), "{}:\n{words}", output.status);
    Ok(())
}

fn child(soc: &str, vendor: bool, folder: &Path) -> Result<()> {
    let runtime = Runtime::builder()
        .only_given_folders()
        .link(polychip_qnn::query)
        .configure("qnn", "soc", soc)
        .configure("qnn", "lib_dir", folder.display().to_string())
        .build()?;
    let named = |name: &str| {
        let device = runtime.devices().iter().find(|device| device.name() == name);
        device.with_context(|| {
            let why: Vec<String> = runtime.refusals().iter().map(ToString::to_string).collect();
            format!("no device {name}: {}", why.join("; "))
        })
    };
    let test = Test {
        runtime: &runtime,
        npu: named("qnn:0")?,
        cpu: named("cpu:0")?,
        soc,
        vendor,
    };
    eprintln!(
        "{}, {}: {}",
        test.npu.info().name,
        if vendor {
            "the vendor's library"
        } else {
            "the emulator of this repository"
        },
        test.npu.info().driver
    );
    ensure!(
        test.npu.info().emulated,
        "an x86 library is not labelled as emulated"
    );
    let mut wrong = Vec::new();
    for name in MODELS {
        if let Err(error) = test.model(name) {
            wrong.push(format!("{name}: {error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

type Values = BTreeMap<String, Literal>;

/// The first sample of a model: its inputs and ONNX Runtime's outputs.
fn sample(name: &str) -> Result<(Values, Values)> {
    let folder = paths::models().join("quantised/expected").join(name).join("0");
    let index: Index = serde_json::from_str(&std::fs::read_to_string(folder.join("index.json"))?)?;
    let read = |files: &BTreeMap<String, String>| -> Result<Values> {
        files
            .iter()
            .map(|(name, file)| Ok((name.clone(), npy::read(&folder.join(file))?)))
            .collect()
    };
    Ok((read(&index.inputs)?, read(&index.outputs)?))
}

struct Test<'a> {
    runtime: &'a Runtime,
    npu: &'a Device,
    cpu: &'a Device,
    soc: &'a str,
    vendor: bool,
}

impl Test<'_> {
    fn model(&self, name: &str) -> Result<()> {
        let start = Instant::now();
        let (inputs, expected) = sample(name)?;
        let model = self
            .runtime
            .load(paths::models().join(format!("quantised/{name}.onnx")))?;
        let policy = Policy::latency()
            .threads(1)
            .in_flight(1)
            .devices(["cpu:0", "qnn:0"]);
        let planned = self.runtime.plan(&model, &policy)?;
        let values = self.values(planned.graph(), &inputs)?;
        let mut wrong = self.nodes(&planned, &values)?;
        wrong.extend(self.plan(
            name,
            "own plan",
            planned.clone(),
            &policy,
            &inputs,
            &expected,
            &values,
        )?);
        let mut pinned = policy.clone();
        for (node, device) in self.pins(&planned)? {
            pinned = pinned.pin(node, device);
        }
        let planned = self.runtime.plan(&model, &pinned)?;
        ensure!(
            planned.plan().parts.len() >= 3,
            "pins in the middle leave {} parts",
            planned.plan().parts.len()
        );
        wrong.extend(self.plan(name, PINNED, planned, &pinned, &inputs, &expected, &values)?);
        eprintln!("{name}: {} ms in all", start.elapsed().as_millis());
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }

    /// Every node that the NPU takes to the NPU, but three in the middle.
    fn pins(&self, planned: &Planned) -> Result<BTreeMap<String, &'static str>> {
        let column = self.column(planned)?;
        let mut pins = BTreeMap::new();
        let mut middle = Vec::new();
        for (row, (_, node)) in planned.graph().nodes().enumerate() {
            if node.name.is_empty() || !planned.targets()[column].supports(row) {
                continue;
            }
            pins.insert(node.name.clone(), "qnn:0");
            if matches!(node.op, Op::Conv | Op::MatMul | Op::Add) {
                middle.push(node.name.clone());
            }
        }
        for quarter in 1..4 {
            let name = middle.get(middle.len() * quarter / 4).context("no node to pin")?;
            pins.insert(name.clone(), "cpu:0");
        }
        Ok(pins)
    }

    /// Which of a plan's devices the NPU is.
    fn column(&self, planned: &Planned) -> Result<usize> {
        let mut devices = planned.devices().iter();
        devices
            .position(|device| device.name() == self.npu.name())
            .context("the plan knows no NPU")
    }

    /// The value of every tensor that a node makes or the graph is given, as the CPU computes them.
    fn values(&self, graph: &Graph, inputs: &Values) -> Result<BTreeMap<TensorId, Literal>> {
        let mut every = graph.clone();
        every.groups.clear();
        let outputs: Vec<TensorId> = graph.nodes().flat_map(|(_, node)| node.writes()).collect();
        let nodes = graph.node_ids();
        let every = part::cut(&every, &nodes, &graph.inputs, &outputs)?;
        let given: Vec<Literal> = graph
            .inputs
            .iter()
            .map(|&id| {
                let name = &graph.tensor(id).name;
                inputs
                    .get(name)
                    .cloned()
                    .with_context(|| format!("no input {name}"))
            })
            .collect::<Result<_>>()?;
        let computed = part::run(self.cpu, &every, &given)?;
        Ok(graph
            .inputs
            .iter()
            .copied()
            .zip(given)
            .chain(outputs.into_iter().zip(computed))
            .collect())
    }

    /// Runs a cut of the graph on the NPU and on the CPU, on the same inputs.
    fn both(
        &self,
        graph: &Graph,
        nodes: &[NodeId],
        inputs: &[TensorId],
        outputs: &[TensorId],
        values: &BTreeMap<TensorId, Literal>,
    ) -> Result<(Vec<Literal>, Vec<Literal>)> {
        let cut = part::cut(graph, nodes, inputs, outputs)?;
        let given: Vec<Literal> = inputs.iter().map(|id| values[id].clone()).collect();
        let found = part::run(self.npu, &cut, &given)?;
        Ok((found, part::run(self.cpu, &cut, &given)?))
    }

    /// Every kind of node that the NPU takes, alone; returns what is wrong.
    fn nodes(&self, planned: &Planned, values: &BTreeMap<TensorId, Literal>) -> Result<Vec<String>> {
        let graph = planned.graph();
        let column = self.column(planned)?;
        let (mut taken, mut wrong, mut most) = (0, Vec::new(), BTreeMap::<&str, f64>::new());
        let mut seen = BTreeSet::new();
        for (row, (id, node)) in graph.nodes().enumerate() {
            if !planned.targets()[column].supports(row) {
                continue;
            }
            // of blocks that repeat, one is enough
            let types = node
                .reads()
                .chain(node.writes())
                .map(|id| graph.tensor(id).ty.to_string());
            let kind = format!(
                "{} {:?} {:?}",
                node.label(),
                node.attributes,
                types.collect::<Vec<_>>()
            );
            if !seen.insert(kind) {
                continue;
            }
            taken += 1;
            let inputs = non_constant(graph, id);
            let outputs: Vec<TensorId> = node.writes().collect();
            let what = format!("{} {:?}", node.label(), node.name);
            let (found, wanted) = match self.both(graph, &[id], &inputs, &outputs, values) {
                Ok(both) => both,
                Err(error) => {
                    wrong.push(format!("{what}: {error:#}"));
                    continue;
                }
            };
            for ((&output, found), wanted) in outputs.iter().zip(&found).zip(&wanted) {
                let apart = steps(graph, output, found, wanted)?;
                let worst = most.entry(node.op.name()).or_default();
                *worst = worst.max(apart);
                let allowed = self.allowed(node.op, found.dtype);
                if apart > allowed {
                    wrong.push(format!("{what}: {apart:.2} steps apart, {allowed} allowed"));
                }
            }
        }
        let list: Vec<String> = most
            .iter()
            .map(|(op, steps)| format!("{op} {steps:.2}"))
            .collect();
        eprintln!(
            "  {taken} kinds of {} nodes run alone; most steps apart: {}",
            graph.node_count(),
            list.join(", ")
        );
        Ok(wrong)
    }

    /// How many steps of its encoding a node's result may be off.
    fn allowed(&self, op: Op, dtype: DType) -> f64 {
        let wide = matches!(dtype, DType::U16 | DType::I16);
        match (self.vendor, wide) {
            // sums of 16 bits are computed in fewer bits there, on SoC 30 in fewer still
            (true, true) if self.soc == "30" => 160.0,
            (true, true) => 100.0,
            (true, false) => 2.0,
            (false, true) => 2.0,
            (false, false) if matches!(op, Op::LayerNormalization | Op::RMSNormalization) => 2.0,
            (false, false) => 1.0,
        }
    }

    /// One plan: its parts, the whole, and the reasons; returns what is wrong.
    #[allow(clippy::too_many_arguments)]
    fn plan(
        &self,
        name: &str,
        title: &str,
        planned: Planned,
        policy: &Policy,
        inputs: &Values,
        expected: &Values,
        values: &BTreeMap<TensorId, Literal>,
    ) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let graph = planned.graph().clone();
        let device = |index: DeviceIndex| planned.devices()[index.index()].name().to_owned();
        let ids =
            |list: &[u32]| -> Vec<TensorId> { list.iter().map(|&id| TensorId::new(id as usize)).collect() };
        let mut on_npu = 0;
        for part in &planned.plan().parts {
            if device(part.device) != "qnn:0" {
                continue;
            }
            on_npu += part.nodes.len();
            let nodes: Vec<NodeId> = part
                .nodes
                .iter()
                .map(|&node| NodeId::new(node as usize))
                .collect();
            let (inputs, outputs) = (ids(&part.inputs), ids(&part.outputs));
            let (found, wanted) = self.both(&graph, &nodes, &inputs, &outputs, values)?;
            for ((&output, found), wanted) in outputs.iter().zip(&found).zip(&wanted) {
                let cosine = cosine(&reals(&graph, output, found)?, &reals(&graph, output, wanted)?);
                if cosine < COSINE {
                    let tensor = &graph.tensor(output).name;
                    wrong.push(format!("{title}, part {}: {tensor}: cosine {cosine}", part.id));
                }
            }
        }
        for (why, count) in self.reasons(&planned)? {
            eprintln!("  {title}: {count} on the CPU: {why}");
        }
        if title == PINNED && on_npu * 100 < graph.node_count() * LEAST_PERCENT {
            wrong.push(format!(
                "{title}: {on_npu} of {} nodes are on the NPU, less than {LEAST_PERCENT} %",
                graph.node_count()
            ));
        }
        let parts = planned.plan().parts.len();
        let session = self.runtime.session_of(planned, policy.clone())?;
        let found = model::run_session(&session, inputs)?;
        let mut cosines = Vec::new();
        for (output, found) in &found {
            let wanted = expected
                .get(output)
                .with_context(|| format!("ONNX Runtime has no output {output:?}"))?;
            let cosine = cosine(found, wanted);
            cosines.push(format!("{cosine:.5}"));
            if cosine < COSINE {
                wrong.push(format!("{title}: output {output:?}: cosine {cosine}"));
            }
        }
        let (last, found) = found.last().context("no output")?;
        if top(found) != top(&expected[last]) {
            wrong.push(format!(
                "{title}: the answer is {:?} instead of {:?}",
                top(found),
                top(&expected[last])
            ));
        }
        eprintln!(
            "{name}, {title}: {on_npu} of {} nodes on the NPU, {parts} parts, cosine {} (emulated)",
            graph.node_count(),
            cosines.join(", ")
        );
        let run = session.planned().unwrap();
        for event in run.events() {
            eprintln!("  {event}");
        }
        Ok(wrong)
    }

    /// Why nodes are on the CPU, in the NPU's words, and how many of each.
    fn reasons(&self, planned: &Planned) -> Result<BTreeMap<String, usize>> {
        let explanation = partitioner::explain(planned.request(), planned.plan())?;
        let mut reasons = BTreeMap::new();
        for node in explanation.nodes.iter().filter(|node| node.device == "cpu:0") {
            let npu = node
                .alternatives
                .iter()
                .find(|alternative| alternative.device == "qnn:0")
                .with_context(|| format!("no word of the NPU on node {:?}", node.name))?;
            match &npu.reason {
                Reason::Unsupported { words, .. } if words.is_empty() => {
                    bail!("node {:?} is refused without words", node.name)
                }
                Reason::NoCost | Reason::NoLink => {
                    bail!("node {:?}: {}", node.name, npu.reason)
                }
                Reason::Dearer { .. } => {
                    *reasons
                        .entry(format!("{}: dearer on the NPU", node.op))
                        .or_default() += 1
                }
                reason => *reasons.entry(format!("{}: {reason}", node.op)).or_default() += 1,
            }
        }
        Ok(reasons)
    }
}

fn non_constant(graph: &Graph, id: NodeId) -> Vec<TensorId> {
    let mut inputs: Vec<TensorId> = graph
        .node(id)
        .reads()
        .filter(|&read| !graph.tensor(read).is_constant())
        .collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

/// The largest difference of two values of a tensor, in steps of its encoding; of floats in 1/65536 of the
/// largest.
fn steps(graph: &Graph, id: TensorId, found: &Literal, wanted: &Literal) -> Result<f64> {
    ensure!(
        found.dtype == wanted.dtype && found.shape == wanted.shape,
        "{} {:?} instead of {} {:?}",
        found.dtype.name(),
        found.shape,
        wanted.dtype.name(),
        wanted.shape
    );
    let most = |a: &[f64], b: &[f64]| {
        a.iter()
            .zip(b)
            .fold(0.0f64, |most, (a, b)| most.max((a - b).abs()))
    };
    if graph.tensor(id).encoding.is_none() && found.dtype.is_float() {
        let (a, b) = (floats(found)?, floats(wanted)?);
        let largest = b.iter().fold(1e-30f64, |most, value| most.max(value.abs()));
        return Ok(most(&a, &b) / largest * 65536.0);
    }
    Ok(most(&integers(found)?, &integers(wanted)?))
}

fn floats(literal: &Literal) -> Result<Vec<f64>> {
    literal.as_f64s().context("not float")
}

fn integers(literal: &Literal) -> Result<Vec<f64>> {
    let values = literal.as_i64s().context("not integers")?;
    Ok(values.into_iter().map(|value| value as f64).collect())
}

/// The real numbers of a value.
fn reals(graph: &Graph, id: TensorId, value: &Literal) -> Result<Literal> {
    let Some(encoding) = &graph.tensor(id).encoding else {
        return Ok(value.clone());
    };
    let zero = encoding.zero_points.first().copied().unwrap_or(0);
    let scale = encoding.scales.first().context("an encoding without a scale")?;
    let reals: Vec<f32> = integers(value)?
        .iter()
        .map(|stored| (*stored as f32 - zero as f32) * scale)
        .collect();
    Ok(Literal {
        shape: value.shape.clone(),
        ..Literal::f32s(&reals)
    })
}
