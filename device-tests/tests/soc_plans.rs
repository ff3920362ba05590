//! One model over the processors of a system, for systems of each vendor: a classifier in 16-bit floats and in 8 bits,
//! and a trained detector of text (`cargo xtask vendor litert` fetches it).
//!
//! For each model the planner's own plan, one with all that the NPU takes pinned to it, and one with some of that in the
//! middle pinned to the CPU, run as sessions on the CPU of this machine and the emulated chip. All must give what the
//! CPU alone gives (cosine of each output at least 0.999 in floats, and in 8 bits what the model's roundings leave:
//! `roundings`), and copy nothing between chips that share memory. Which nodes the NPU takes, and in its words why it
//! refuses the others, is written to `docs/vendors/plans`, a page a system: `POLYCHIP_BLESS=1` writes them, and a run
//! that finds otherwise fails. Of the planner's own plan nothing is written there: it depends on this machine's CPU.
//!
//! Another trial puts chips of all vendors into one system (`crossings`).
//!
//! Each system runs in a process of its own: a vendor's library answers for one chip per process.

#[path = "soc_plans/crossings.rs"]
mod crossings;
#[path = "soc_plans/page.rs"]
mod page;
#[path = "soc_plans/roundings.rs"]
mod roundings;
#[path = "soc_plans/systems.rs"]
mod systems;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use polychip::{Device, Model, Planned, Policy, Runtime};
use polychip_device_tests::compare::cosine;
use polychip_device_tests::litert::Litert;
use polychip_device_tests::{Need, emulated, model, paths, skipped};
use polychip_graph::Graph;
use polychip_ops::{DType, Dim, Literal, Op};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use page::{Row, Section};
use systems::{SYSTEMS, System};

/// Set for the child: the system's name.
const CHILD: &str = "POLYCHIP_TEST_SOC_PLANS";
/// Height and width of the detector's picture: a multiple of 32.
const PICTURE: usize = 96;

fn main() -> Result<()> {
    if let Ok(name) = std::env::var(CHILD) {
        if name == crossings::NAME {
            return crossings::child();
        }
        let system = SYSTEMS.iter().find(|system| system.file == name);
        return child(system.context("no such system")?);
    }
    let arguments = Arguments::from_args();
    let made = paths::models().join("quantised/.stamp").is_file();
    let detector = detector();
    let trials = SYSTEMS.iter().map(|system| match (made, &detector) {
        (false, _) => skipped(system.file, Need::Models, paths::NO_MODELS),
        (_, Err(error)) => skipped(system.file, Need::Litert, &format!("{error:#}")),
        _ => Trial::test(system.file, || {
            parent(system.file, &[]).map_err(|error| format!("{error:#}").into())
        }),
    });
    let mut trials: Vec<Trial> = trials.collect();
    trials.push(if made {
        Trial::test(crossings::NAME, || {
            parent(crossings::NAME, crossings::ENVIRONMENT).map_err(|error| format!("{error:#}").into())
        })
    } else {
        skipped(crossings::NAME, Need::Models, paths::NO_MODELS)
    });
    libtest_mimic::run(&arguments, trials).exit()
}

fn parent(name: &str, environment: &[(&str, &str)]) -> Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, name)
        .envs(environment.iter().copied())
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    eprint!("{words}");
    ensure!(output.status.success(), "{}:\n{words}", output.status);
    Ok(())
}

/// The trained detector.
fn detector() -> Result<PathBuf> {
    Litert::find()
        .map_err(anyhow::Error::msg)?
        .onnx("rapidocr/PP-OCRv6_det_small")
}

fn child(system: &System) -> Result<()> {
    let mut builder = Runtime::builder()
        .only_given_folders()
        .link(system.query)
        .configure(system.plugin, "precision", "reduced");
    for (key, value) in emulated::configuration(system.plugin)? {
        builder = builder.configure(system.plugin, key, value);
    }
    let runtime = builder.build()?;
    let name = format!("{}:0", system.plugin);
    let npu = runtime.devices().iter().find(|device| device.name() == name);
    let npu = npu.with_context(|| {
        let why: Vec<String> = runtime.refusals().iter().map(ToString::to_string).collect();
        format!("no device {name}: {}", why.join("; "))
    })?;
    ensure!(npu.info().emulated, "{name} is not labelled as emulated");
    let test = Test {
        runtime: &runtime,
        npu,
        shares_memory: system.shares_memory,
    };
    let generated = paths::models();
    let models = [
        (
            "MobileNetV2, 16-bit floats allowed",
            generated.join("mobilenet_v2.onnx"),
        ),
        (
            "MobileNetV2, 8 bits",
            generated.join("quantised/mobilenet_v2_u8.onnx"),
        ),
        ("PP-OCRv6 detector, 16-bit floats allowed", detector()?),
    ];
    let mut sections = Vec::new();
    let mut wrong = Vec::new();
    for (title, path) in models {
        match test.model(&runtime.load(path)?, title) {
            Ok(section) => sections.push(section),
            Err(error) => wrong.push(format!("{title}: {error:#}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    page::check(system, &npu.info().name, &sections)
}

type Values = BTreeMap<String, Literal>;
/// Nodes, and the devices that they must run on.
type Pins = BTreeMap<String, String>;

/// The policy with pins.
fn policy(policy: &Policy, pins: &Pins) -> Policy {
    let policy = policy.clone();
    pins.iter()
        .fold(policy, |policy, (node, device)| policy.pin(node, device))
}

/// What the CPU alone gives.
struct Wanted {
    answers: Vec<(String, Literal)>,
    /// The least cosine that answers may have with these.
    least: f64,
}

struct Test<'a> {
    runtime: &'a Runtime,
    npu: &'a Device,
    shares_memory: bool,
}

impl Test<'_> {
    fn model(&self, model: &Model, title: &'static str) -> Result<Section> {
        let (model, inputs) = filled(model, 7)?;
        let both = Policy::latency()
            .threads(1)
            .in_flight(1)
            .devices(["cpu:0", self.npu.name()]);
        let alone = Policy::latency().threads(1).in_flight(1).devices(["cpu:0"]);
        let alone = self.runtime.session(&model, alone)?;
        let answers = model::run_session(&alone, &inputs)?;
        let least = roundings::least_cosine(&model, &alone, &inputs, &answers)?;
        let wanted = Wanted { answers, least };
        let own = self.runtime.plan(&model, &both)?;
        self.run("own plan", title, own.clone(), &both, &inputs, &wanted)?;
        let column = self.column(&own)?;
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        let mut taken = Vec::new();
        for (index, (_, node)) in own.graph().nodes().enumerate() {
            match &own.targets()[column].refusals[index] {
                None => {
                    ensure!(
                        !node.name.is_empty(),
                        "a node of {} has no name to pin",
                        node.label()
                    );
                    taken.push(node.name.clone());
                }
                Some(refusal) => {
                    ensure!(
                        !refusal.words.is_empty(),
                        "node {:?} is refused without words",
                        node.name
                    );
                    let words = nameless(own.graph(), &refusal.words);
                    *refused.entry(format!("{}: {words}", node.label())).or_default() += 1;
                }
            }
        }
        let nodes = own.graph().node_count();
        let pinned = policy(&both, &self.all(&taken));
        let all = self.runtime.plan(&model, &pinned)?;
        let mixed = if taken.is_empty() || taken.len() == nodes {
            1
        } else {
            2
        };
        let (parts, crossings) = (all.plan().parts.len(), all.plan().crossings.len());
        ensure!(
            parts >= mixed,
            "{} of {nodes} nodes on the NPU make {parts} parts",
            taken.len()
        );
        self.run("all on the NPU", title, all, &pinned, &inputs, &wanted)?;
        if !taken.is_empty() {
            let split = policy(&both, &self.split(&own, &taken)?);
            let planned = self.runtime.plan(&model, &split)?;
            let parts = planned.plan().parts.len();
            ensure!(
                parts > 2,
                "{parts} parts, though nodes in the middle are pinned to the CPU"
            );
            self.run("split", title, planned, &split, &inputs, &wanted)?;
        }
        let row = Row {
            nodes,
            taken: taken.len(),
            parts,
            crossings,
        };
        Ok(Section { title, row, refused })
    }

    /// All that it takes to the NPU.
    fn all(&self, taken: &[String]) -> Pins {
        let npu = self.npu.name();
        taken.iter().map(|node| (node.clone(), npu.to_owned())).collect()
    }

    /// The pins, but for three nodes in the middle, which go to the CPU: crossings in both directions.
    fn split(&self, own: &Planned, taken: &[String]) -> Result<Pins> {
        let middle = own.graph().nodes().map(|(_, node)| node);
        let middle: Vec<&str> = middle
            .filter(|node| taken.contains(&node.name) && matches!(node.op, Op::Conv | Op::Add))
            .map(|node| &*node.name)
            .collect();
        let mut split = self.all(taken);
        for quarter in 1..4 {
            let name = middle.get(middle.len() * quarter / 4).context("no node to pin")?;
            split.insert((*name).to_owned(), "cpu:0".to_owned());
        }
        Ok(split)
    }

    /// Which of a plan's devices the NPU is.
    fn column(&self, planned: &Planned) -> Result<usize> {
        let mut devices = planned.devices().iter();
        devices
            .position(|device| device.name() == self.npu.name())
            .context("the plan knows no NPU")
    }

    /// The plan as a session: its answers are those of the CPU, and nothing was copied unsaid.
    fn run(
        &self,
        plan: &str,
        title: &str,
        planned: Planned,
        policy: &Policy,
        inputs: &Values,
        wanted: &Wanted,
    ) -> Result<()> {
        let session = self.runtime.session_of(planned, policy.clone())?;
        let found = model::run_session(&session, inputs).with_context(|| plan.to_owned())?;
        let mut least: f64 = 1.0;
        for ((name, answer), (_, found)) in wanted.answers.iter().zip(&found) {
            let cosine = cosine(found, answer);
            ensure!(
                cosine >= wanted.least,
                "{plan}: output {name:?}: cosine {cosine}, less than {}",
                wanted.least
            );
            least = least.min(cosine);
        }
        let report = session.report();
        let on_npu = report.parts.iter().filter(|part| part.device == self.npu.name());
        let on_npu: usize = on_npu.map(|part| part.nodes).sum();
        let crossings = report.crossings.len();
        ensure!(
            !self.shares_memory || report.copies == 0,
            "{plan}: {} copies of {} bytes, though the chip shares memory",
            report.copies,
            report.copied_bytes
        );
        ensure!(
            self.shares_memory || crossings == 0 || report.copies > 0,
            "{plan}: no copy is reported for {crossings} crossings, though the chip has memory of its own"
        );
        eprintln!(
            "{title}, {plan}: {on_npu} nodes on {}, {} parts, {crossings} crossings, {} copies, predicted {:.3} ms (emulated), cosine {least:.6} of {:.6} asked for",
            self.npu.name(),
            report.parts.len(),
            report.copies,
            report.predicted_ns as f64 / 1e6,
            wanted.least
        );
        Ok(())
    }
}

/// A refusal without the names of tensors, so that equal reasons are one.
fn nameless(graph: &Graph, words: &str) -> String {
    let names: BTreeSet<&str> = graph.tensors().map(|(_, tensor)| &*tensor.name).collect();
    let words = words.split(' ').map(|word| {
        let name = word.trim_end_matches([':', ',']);
        if names.contains(name) {
            word.replace(name, "…")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The model with its open sizes set to those of a picture, and noise for its inputs.
fn filled(model: &Model, seed: u64) -> Result<(Model, Values)> {
    let mut noise = ChaCha8Rng::seed_from_u64(seed);
    let (mut sizes, mut inputs) = (BTreeMap::new(), Values::new());
    for &id in &model.graph().inputs {
        let tensor = model.graph().tensor(id);
        ensure!(tensor.ty.dtype == DType::F32, "input {:?} is no f32", tensor.name);
        let mut shape = Vec::new();
        for (axis, dim) in tensor.ty.shape.iter().flatten().enumerate() {
            let size = match dim {
                Dim::Known(size) => *size,
                Dim::Symbol(_) if axis == 0 => 1,
                Dim::Symbol(_) | Dim::Unknown => PICTURE,
            };
            if let Dim::Symbol(name) = dim {
                sizes.insert(name.to_string(), size);
            }
            shape.push(size);
        }
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| noise.random_range(-1.0..1.0))
            .collect();
        inputs.insert(
            tensor.name.clone(),
            Literal {
                shape,
                ..Literal::f32s(&values)
            },
        );
    }
    Ok((model.bind(sizes)?, inputs))
}
