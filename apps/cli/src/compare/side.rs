//! One side of a comparison: a planned and run model, or array files.
//!
//! Invariants:
//! 1. Time, memory and outputs belong to the unmodified model, without kept intermediate tensors.
//! 2. Intermediate tensors come from sessions over the model with these tensors as extra outputs. Named nodes run on
//!    the devices that the unmodified model's plan assigns.
//!
//! Not here: the choice of requested tensors and their groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polychip::{Model, Planned, Policy, Runtime, Session};

use crate::array::{Array, convert, numbers};
use crate::exit::{bad_input, warn};
use crate::input::InputData;
use crate::progress::Progress;
use crate::run::{deviation, run_once};
use crate::setup::SessionArguments;
use crate::{file, npy};

/// A model, and how it is run.
pub(super) struct ModelSide<'a> {
    runtime: &'a Runtime,
    arguments: &'a SessionArguments,
    pub(super) model: Model,
    pub(super) given: Vec<InputData>,
    pub(super) session: Session,
    planned: Planned,
    /// The outputs of the model as it is.
    pub(super) outputs: BTreeMap<String, Array>,
    /// Largest difference of an output where tensors inside were kept, over its largest value.
    pub(super) kept_deviation: Option<f64>,
}

impl<'a> ModelSide<'a> {
    /// Plans, compiles and runs the model once.
    pub(super) fn new(
        runtime: &'a Runtime,
        arguments: &'a SessionArguments,
        model: Model,
        given: Vec<InputData>,
    ) -> anyhow::Result<ModelSide<'a>> {
        let planned = arguments.planned(runtime, &model)?;
        let session = {
            let _progress = Progress::of("compiling");
            runtime.session_of(planned.clone(), arguments.policy_for(&planned))?
        };
        let outputs = run_once(&session, &given)?.outputs.into_iter().collect();
        Ok(ModelSide {
            runtime,
            arguments,
            model,
            given,
            session,
            planned,
            outputs,
            kept_deviation: None,
        })
    }

    /// Devices that the plan uses.
    pub(super) fn devices(&self) -> Vec<String> {
        let used: BTreeSet<usize> = self
            .planned
            .plan()
            .parts
            .iter()
            .map(|part| part.device.index())
            .collect();
        let names = used.iter().map(|index| self.planned.devices()[*index].name());
        names.map(str::to_owned).collect()
    }

    /// Whether the model computes in quantised integers.
    pub(super) fn is_quantised(&self) -> bool {
        use polychip_ops::Op;
        let graph = self.planned.graph();
        let is_integer = |op: Op| {
            matches!(
                op,
                Op::ConvInteger
                    | Op::MatMulInteger
                    | Op::QLinearConv
                    | Op::QLinearMatMul
                    | Op::DynamicQuantizeLinear
                    | Op::QuantizeLinear
                    | Op::DequantizeLinear
            )
        };
        let is_encoded = graph.tensors().any(|(_, tensor)| tensor.encoding.is_some());
        is_encoded || graph.nodes().any(|(_, node)| is_integer(node.op))
    }

    /// Whether a float of 16 bits is computed.
    pub(super) fn is_half(&self) -> bool {
        use polychip::DType::{BF16, F16};
        let graph = self.planned.graph();
        let is_half = |id: &polychip_graph::TensorId| matches!(graph.tensor(*id).ty.dtype, F16 | BF16);
        let mut results = graph.nodes().flat_map(|(_, node)| node.outputs.iter().flatten());
        self.arguments.plan_arguments.precision.resolved() == crate::setup::Precision::Reduced
            || results.any(is_half)
    }

    /// Names of the tensors that the model as it is computes each by itself: they are in its canonical graph, and inside no
    /// fusion group of it.
    pub(super) fn apart(&self) -> BTreeSet<&str> {
        let graph = self.planned.graph();
        let mut inside = BTreeSet::new();
        for group in &graph.groups {
            let (_, inner) = group
                .nodes
                .split_last()
                .unwrap_or((&polychip_graph::NodeId::new(0), &[]));
            inside.extend(inner.iter().flat_map(|id| graph.node(*id).writes()));
        }
        let results = graph.nodes().flat_map(|(_, node)| node.writes());
        results
            .filter(|id| !inside.contains(id))
            .map(|id| &*graph.tensor(id).name)
            .collect()
    }

    /// The values of tensors.
    pub(super) fn values(&mut self, names: &BTreeSet<String>) -> anyhow::Result<BTreeMap<String, Array>> {
        let is_output = |name: &&String| self.outputs.contains_key(*name);
        let mut values: BTreeMap<String, Array> = names
            .iter()
            .filter(is_output)
            .map(|name| (name.clone(), self.outputs[name].clone()))
            .collect();
        let inside: Vec<&String> = names.iter().filter(|name| !values.contains_key(*name)).collect();
        if inside.is_empty() {
            return Ok(values);
        }
        let kept = self.model.with_outputs(&inside)?;
        let session = self.kept_session(&kept)?;
        let all: BTreeMap<String, Array> = run_once(&session, &self.given)?.outputs.into_iter().collect();
        let list = |from: &BTreeMap<String, Array>| -> Vec<(String, Array)> {
            let own = from.iter().filter(|(name, _)| self.outputs.contains_key(*name));
            own.map(|(name, array)| (name.clone(), array.clone())).collect()
        };
        let far = deviation(&list(&all), &list(&self.outputs));
        self.kept_deviation = match (self.kept_deviation, far) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        values.extend(all.into_iter().filter(|(name, _)| names.contains(name)));
        Ok(values)
    }

    /// A session over the model with more outputs, whose nodes run where those of the model as it is do.
    fn kept_session(&self, kept: &Model) -> anyhow::Result<Session> {
        let policy = self.arguments.policy();
        let planned = {
            let _progress = Progress::of("planning");
            self.runtime.plan(kept, &policy)?
        };
        let planned = match self.planned.devices().len() {
            1 => planned,
            _ => match self.runtime.plan(kept, &self.pinned(policy.clone(), &planned)) {
                Ok(planned) => planned,
                Err(error) => {
                    warn(format!(
                        "with intermediate tensors kept, some nodes cannot stay on their devices; the model is replanned: {error}"
                    ));
                    planned
                }
            },
        };
        let _progress = Progress::of("compiling");
        Ok(self.runtime.session_of(planned, policy)?)
    }

    /// A policy that gives each node of another plan's graph the device that it has in this plan.
    fn pinned(&self, policy: Policy, other: &Planned) -> Policy {
        let mut devices: BTreeMap<&str, &str> = BTreeMap::new();
        for part in &self.planned.plan().parts {
            let device = self.planned.devices()[part.device.index()].name();
            for node in &part.nodes {
                let node = self
                    .planned
                    .graph()
                    .node(polychip_graph::NodeId::new(*node as usize));
                devices.insert(&node.name, device);
            }
        }
        let names: BTreeSet<&str> = other.graph().nodes().map(|(_, node)| &*node.name).collect();
        let pins = names.into_iter().filter(|name| !name.is_empty());
        pins.filter_map(|name| Some((name, *devices.get(name)?)))
            .fold(policy, |policy, (name, device)| policy.pin(name, device))
    }
}

/// Values for another model's inputs, matched by name, else by position. Floats of another size are
/// converted.
pub(super) fn inputs_of(model: &Model, given: &[InputData]) -> anyhow::Result<(Model, Vec<InputData>)> {
    let path = model.path().display().to_string();
    let defaults = model.graph().defaults.iter().map(|tensor| &*tensor.name);
    let model = &model.with_inputs(defaults.filter(|name| given.iter().any(|given| given.name == *name)))?;
    let graph = model.graph();
    let mut found = Vec::with_capacity(graph.inputs.len());
    for (place, id) in graph.inputs.iter().enumerate() {
        let name = &graph.tensor(*id).name;
        let same = given.iter().find(|given| given.name == *name);
        let value = same.or_else(|| given.get(place)).ok_or_else(|| {
            bad_input(format!(
                "{path}: input {name:?} has no value: the other model has {} inputs",
                given.len()
            ))
        })?;
        found.push((name.clone(), value));
    }
    let open = model.open_dims();
    let model = if open.is_empty() {
        model.clone()
    } else {
        model.bind_shapes(found.iter().map(|(name, value)| (name, &value.array.shape)))?
    };
    let graph = model.graph();
    let mut values = Vec::with_capacity(found.len());
    for (name, value) in found {
        let id = graph.input_named(&name).context("invariant: it is an input")?;
        let (dtype, shape) = (graph.tensor(id).ty.dtype, graph.tensor(id).ty.sizes());
        let array = &value.array;
        let fits = shape.as_ref() == Some(&array.shape);
        let converted = fits.then(|| convert(array, dtype)).flatten().ok_or_else(|| {
            bad_input(format!(
                "{path}: input {name:?} is {}; the value given to both sides is {} {:?}",
                graph.tensor(id).ty,
                array.dtype.name(),
                array.shape
            ))
        })?;
        values.push(InputData {
            name,
            array: converted,
            file: value.file.clone(),
        });
    }
    Ok((model, values))
}

/// Arrays in files.
#[derive(Debug)]
pub(super) struct FileSide {
    /// By the name of the file, without its ending.
    files: BTreeMap<String, PathBuf>,
    /// One file was named, and no folder.
    pub(super) is_one: bool,
}

impl FileSide {
    /// The `.npy` files of a folder, or one such file; none where the path is neither.
    pub(super) fn at(path: &Path) -> anyhow::Result<Option<FileSide>> {
        let is_array = |path: &Path| path.extension().is_some_and(|extension| extension == "npy");
        let stem = |path: &Path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        if is_array(path) {
            return Ok(Some(FileSide {
                files: BTreeMap::from([(stem(path), path.to_owned())]),
                is_one: true,
            }));
        }
        // folders of other formats are models that the loader has words for
        if !path.is_dir() || path.extension().is_some_and(|extension| extension == "mlpackage") {
            return Ok(None);
        }
        let mut files = BTreeMap::new();
        let unreadable = |error| bad_input(format!("{}: {error}", path.display()));
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if is_array(&path) {
                files.insert(stem(&path), path);
            }
        }
        if files.is_empty() {
            return Err(bad_input(format!("{}: holds no .npy files", path.display())));
        }
        Ok(Some(FileSide { files, is_one: false }))
    }

    /// Names of the files, in order of the alphabet.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.files.keys()
    }

    /// The name that the file of a tensor has, where there is one.
    pub(super) fn stem_of(&self, tensor: &str) -> Option<String> {
        let name = file::name_of(tensor);
        let stem = name.strip_suffix(".npy").unwrap_or(&name);
        self.files.contains_key(stem).then(|| stem.to_owned())
    }

    /// The file of a tensor.
    pub(super) fn file_of(&self, tensor: &str) -> Option<&PathBuf> {
        self.files.get(&self.stem_of(tensor)?)
    }

    /// The array in the file of this name.
    pub(super) fn array(&self, name: &str) -> anyhow::Result<Array> {
        let path = self.files.get(name).context("invariant: the name is a file's")?;
        let array = npy::read(&file::read(path)?)
            .map_err(|error| bad_input(format!("{}: {error:#}", path.display())))?;
        if numbers(array.dtype, &array.bytes).is_none() {
            return Err(bad_input(format!(
                "{}: {} cannot be compared",
                path.display(),
                array.dtype.name()
            )));
        }
        Ok(array)
    }
}
