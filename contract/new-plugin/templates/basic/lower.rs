//! Compiling and loading. Compiling turns a part into a [`Program`], a list of steps over numbered
//! tensors, and the program into a blob.
//!
//! Invariants:
//! 1. Support, estimates and blobs come from one lowering ([`lower`]). It does not read constants, so
//!    every supported node compiles.
//! 2. In a [`Program`], every index is that of a tensor. All tensors of a step have the same shape,
//!    and the output of a step is not one of its inputs. A blob that violates this is refused.
//!
//! Not here: which kernel computes a node (`caps`), reading a graph (`polychip_lowering::Part`).

use std::collections::BTreeSet;

use polychip_lowering::{Extract, Node, Outcome, Part};
use polychip_ops::DType;
use polychip_sdk::abi::POLYCHIP_MAX_RANK;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Cost, Error, ErrorKind, GraphView,
    LoadSource, LoadedFrom, Port, Result, Support,
};
use serde::{Deserialize, Serialize};

use crate::caps::{self, Kernel};
use crate::{buffer, part, telemetry};

const PROGRAM: u32 = 1;
const CONSTANTS: u32 = 2;
const CONTENT: u32 = 3;

/// The computation of one node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The node, by its index in the part.
    pub(crate) node: u32,
    pub(crate) kernel: Kernel,
    pub(crate) inputs: Vec<usize>,
    pub(crate) output: usize,
}

/// A lowered part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The shape of each tensor; `[0]` if no step and no port uses it.
    pub(crate) tensors: Vec<Vec<usize>>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// For each port, the other port of the same state, if it holds a state.
    states: Vec<Option<u32>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) constants: Vec<usize>,
    /// The elements of each constant; empty until a blob is read.
    #[serde(skip)]
    pub(crate) values: Vec<Vec<f32>>,
}

/// Answers for each node whether the device runs it, by lowering the node alone.
pub(crate) fn supports(graph: &GraphView<'_>) -> Vec<Support> {
    let whole = Part::of(graph, |_| false);
    let mut extract = Extract::new(&whole);
    (0..whole.nodes.len())
        .map(|node| match lower(&resolved(extract.node(node))) {
            Ok(_) => Support::Yes,
            Err(refusal) => refusal.support(),
        })
        .collect()
}

/// Estimates the cost of each of several parts; a part that is not supported has no figures.
pub(crate) fn estimate(graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
    let whole = Part::of(graph, |_| false);
    let mut extract = Extract::new(&whole);
    let cost = |nodes: &&[u32]| match lower(&resolved(extract.nodes(nodes))) {
        Ok(program) => Ok(program.cost()),
        Err(refusal) => Cost::unknown(refusal.into()),
    };
    parts.iter().map(cost).collect()
}

/// Compiles a part to a blob.
pub(crate) fn compile(
    build_id: &str,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let part = resolved(Part::of(graph, |_| false));
    let program = lower(&part)?;
    let mut constants = Vec::new();
    for &tensor in &program.constants {
        let bytes = part.tensors[tensor].bytes();
        constants.extend_from_slice(&bytes.expect("invariant: it is constant, and its shape is known"));
    }
    let full = |_| Error::new(ErrorKind::OutOfMemory, "no memory for the blob");
    BlobWriter::new(build_id)
        .section(CONTENT, &graph.content_fingerprint())
        .section(PROGRAM, &postcard::to_stdvec(&program).map_err(full)?)
        .section(CONSTANTS, &constants)
        .finish()
}

fn resolved(part: Part) -> Part {
    part::resolved(part, |part, node| caps::kernel(part, node).is_ok())
}

/// Lowers a part.
fn lower(part: &Part) -> Outcome<Program> {
    let step = |node: &Node| {
        let kernel = caps::kernel(part, node).map_err(|refusal| refusal.at(node.index))?;
        let inputs = node.reads().collect();
        let output = node.output(0).expect("invariant: a kernel has an output");
        Ok(Step {
            node: node.index,
            kernel,
            inputs,
            output,
        })
    };
    let steps = part.nodes.iter().map(step).collect::<Outcome<Vec<Step>>>()?;
    let ports = || part.inputs.iter().chain(&part.outputs).copied();
    for tensor in ports() {
        part::check_tensor(part, tensor, POLYCHIP_MAX_RANK)?;
    }
    let used = steps
        .iter()
        .flat_map(|step| step.inputs.iter().chain([&step.output]));
    let used: BTreeSet<usize> = used.copied().chain(ports()).collect();
    let shape = |tensor| {
        part.dims(tensor)
            .filter(|_| used.contains(&tensor))
            .unwrap_or(&[0])
    };
    Ok(Program {
        tensors: (0..part.tensors.len())
            .map(|tensor| shape(tensor).to_vec())
            .collect(),
        inputs: part.inputs.clone(),
        outputs: part.outputs.clone(),
        states: (0..ports().count()).map(|port| part.state_port(port)).collect(),
        steps,
        constants: used
            .into_iter()
            .filter(|&tensor| part.is_constant(tensor))
            .collect(),
        values: Vec::new(),
    })
}

/// Reads the program of a blob.
pub(crate) fn load(build_id: &str, source: LoadSource<'_, AlignedBytes>) -> Result<Program> {
    let content = source.graph.map(|graph| graph.content_fingerprint());
    match source.from {
        LoadedFrom::Blob(blob) => read(build_id, content, &blob),
        LoadedFrom::Bytes(bytes) => read(build_id, content, Constant::bytes(&bytes)),
    }
}

fn read(build_id: &str, content: Option<[u8; 32]>, blob: &[u8]) -> Result<Program> {
    let blob = BlobReader::open(blob, build_id)?;
    let made_of = blob.section(CONTENT)?;
    if content.is_some_and(|content| content != *made_of) {
        return Err(Error::bad_blob("the blob was made of another part"));
    }
    let mut program: Program = postcard::from_bytes(blob.section(PROGRAM)?)
        .map_err(|_| Error::bad_blob("the program of the blob is torn"))?;
    let mut words = blob.section(CONSTANTS)?.as_chunks().0.iter();
    for &tensor in &program.constants {
        let shape = program.tensors.get(tensor);
        let count = shape
            .and_then(|shape| part::elements(shape))
            .unwrap_or(usize::MAX);
        let values = words.by_ref().take(count).map(|&word| f32::from_le_bytes(word));
        program.values.push(values.collect());
    }
    program.check()?;
    Ok(program)
}

impl Program {
    fn check(&self) -> Result<()> {
        let bad = |what: &'static str| Err(Error::bad_blob(what));
        let shape = |tensor: usize| self.tensors.get(tensor);
        if self.tensors.iter().any(|shape| part::elements(shape).is_none()) {
            return bad("a tensor of the blob is too large");
        }
        let ports = self.inputs.iter().chain(&self.outputs);
        if ports.clone().any(|&tensor| shape(tensor).is_none()) || ports.count() != self.states.len() {
            return bad("a port of the blob is no tensor");
        }
        for (&tensor, values) in self.constants.iter().zip(&self.values) {
            if shape(tensor).and_then(|shape| part::elements(shape)) != Some(values.len()) {
                return bad("a constant of the blob is of another size than its tensor");
            }
        }
        for Step {
            kernel,
            inputs,
            output,
            ..
        } in &self.steps
        {
            let fits = |&input: &usize| input != *output && shape(input) == shape(*output);
            let fit = shape(*output).is_some() && inputs.iter().all(fits);
            if !fit || inputs.len() != kernel.operands() {
                return bad("a step of the blob does not fit its tensors");
            }
        }
        Ok(())
    }

    /// The ports: inputs, then outputs, all dense and row-major.
    pub(crate) fn ports(&self) -> Result<Vec<Port>> {
        let ports = self.inputs.iter().chain(&self.outputs).zip(&self.states);
        let port = |(number, (&tensor, &state_port)): (usize, (&usize, &Option<u32>))| {
            Ok(Port {
                memory_kinds: buffer::KINDS,
                state_port,
                ..Port::dense(number >= self.inputs.len(), DType::F32, &self.tensors[tensor])?
            })
        };
        ports.enumerate().map(port).collect()
    }

    /// Estimates the cost of a run. Memory traffic limits every kernel, so only bytes count.
    fn cost(&self) -> Cost {
        let bytes = |tensor: usize| 4 * part::elements(&self.tensors[tensor]).unwrap_or(0) as u64;
        let moved = |step: &Step| bytes(step.output).saturating_mul(1 + step.inputs.len() as u64);
        let moved = self.steps.iter().map(moved).fold(0u64, u64::saturating_add);
        let held = (0..self.tensors.len()).map(bytes).fold(0u64, u64::saturating_add);
        Cost {
            time_ns: Some((moved as f64 / telemetry::PEAK_BYTES_PER_S as f64 * 1e9) as u64),
            memory_bytes: Some(held),
            emulated: true,
            ..Cost::default()
        }
    }
}
