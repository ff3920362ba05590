//! Compiling and loading. A part becomes the driver's graph, which the driver's compiler turns into a
//! program. A blob contains the program and what the plugin needs to know of its ports and steps.
//!
//! Invariants:
//! 1. Support, estimates and blobs come from one lowering ([`lower`]). It does not read constants.
//! 2. The driver's graph binds each tensor to at most one port. New values of states are written last,
//!    because their memory may be that of an input.
//! 3. A blob is refused by another version of the plugin or of the driver.
//!
//! Not here: the operation for a node (`caps`), the driver's format of programs.

use std::collections::HashMap;

use polychip_lowering::{Extract, Node, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::DType;
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Cost, Error, ErrorKind, GraphView, LoadSource,
    LoadedFrom, Port, Reason, Result, Support,
};
use serde::{Deserialize, Serialize};

use crate::driver::{Graph, Operation, Tensor};
use crate::shared::Shared;
use crate::{buffer, caps, part};

const LAYOUT: u32 = 1;
const PROGRAM: u32 = 2;
const CONTENT: u32 = 3;

/// An operation, and the node that it computes, by its index in the part; `None` for a copy that the
/// lowering added.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) node: Option<u32>,
    pub(crate) operation: Operation,
}

/// What the plugin needs to know of a program.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    input_count: usize,
    /// The shape of each port: inputs, then outputs.
    ports: Vec<Vec<usize>>,
    /// For each port, the other port of the same state, if it holds a state.
    states: Vec<Option<u32>>,
    pub(crate) steps: Vec<Step>,
}

/// A lowered part.
struct Lowered {
    graph: Graph,
    layout: Layout,
    /// Constants, by their indices in the part and in the driver's graph.
    constants: Vec<(TensorIndex, u32)>,
}

/// Answers for each node whether the chip runs it: lowers the node alone, then asks the driver.
pub(crate) fn supports(shared: &Shared, graph: &GraphView<'_>) -> Result<Vec<Support>> {
    let whole = Part::of(graph, |_| false);
    let mut extract = Extract::new(&whole);
    let session = shared.session();
    (0..whole.nodes.len())
        .map(|node| {
            let lowered = match lower(shared, &resolved(shared, extract.node(node))) {
                Ok(lowered) => lowered,
                Err(refusal) => return Ok(refusal.support()),
            };
            match session.check(&lowered.graph) {
                Ok(()) => Ok(Support::Yes),
                // an answer, not an error
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    Ok(Refusal::new(Reason::Vendor, error.to_string()).support())
                }
                Err(error) => Err(error),
            }
        })
        .collect()
}

/// Estimates the cost of each of several parts; a part that is not supported has no figures.
pub(crate) fn estimate(shared: &Shared, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
    let whole = Part::of(graph, |_| false);
    let mut extract = Extract::new(&whole);
    let cost = |nodes: &&[u32]| match lower(shared, &resolved(shared, extract.nodes(nodes))) {
        Ok(lowered) => Ok(cost(shared, &lowered.graph)),
        Err(refusal) => Cost::unknown(refusal.into()),
    };
    parts.iter().map(cost).collect()
}

/// The cost of a run. Memory traffic limits every operation, so only bytes count.
fn cost(shared: &Shared, graph: &Graph) -> Cost {
    let bytes = |tensor: u32| {
        let dims = &graph.tensors[tensor as usize].dims;
        dims.iter().fold(4u64, |bytes, &dim| bytes.saturating_mul(dim.into()))
    };
    let moved = |(_, inputs, output): &(Operation, Vec<u32>, u32)| {
        let tensors = inputs.iter().chain([output]);
        tensors.fold(0u64, |sum, &tensor| sum.saturating_add(bytes(tensor)))
    };
    let moved = graph.operations.iter().map(moved).fold(0u64, u64::saturating_add);
    let held = (0..graph.tensors.len() as u32).map(bytes).fold(0u64, u64::saturating_add);
    Cost {
        time_ns: (shared.info.bytes_per_s != 0)
            .then(|| (moved as f64 / shared.info.bytes_per_s as f64 * 1e9) as u64),
        memory_bytes: Some(held),
        emulated: shared.info.is_simulated,
        ..Cost::default()
    }
}

/// Compiles a part to a blob.
pub(crate) fn compile(shared: &Shared, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let part = resolved(shared, Part::of(graph, |_| false));
    let mut lowered = lower(shared, &part)?;
    for &(tensor, at) in &lowered.constants {
        let bytes = part.tensors[tensor].bytes();
        let bytes = bytes.expect("invariant: it is constant, and its shape is known");
        let words = bytes.as_chunks().0.iter();
        lowered.graph.tensors[at as usize].elements = words.map(|&word| f32::from_le_bytes(word)).collect();
    }
    let program = shared.session().compile(&lowered.graph)?;
    let full = |_| Error::new(ErrorKind::OutOfMemory, "no memory for the blob");
    BlobWriter::new(&shared.made_by)
        .section(CONTENT, &graph.content_fingerprint())
        .section(LAYOUT, &postcard::to_stdvec(&lowered.layout).map_err(full)?)
        .section(PROGRAM, &program)
        .finish()
}

fn resolved(shared: &Shared, part: Part) -> Part {
    part::resolved(part, |part, node| {
        caps::operation(part, node, shared.info.memory_bytes).is_ok()
    })
}

/// Collects the driver's graph.
struct Builder<'a> {
    part: &'a Part,
    graph: Graph,
    /// The driver's tensor for each tensor of the part.
    numbers: HashMap<TensorIndex, u32>,
    constants: Vec<(TensorIndex, u32)>,
}

impl Builder<'_> {
    /// The driver's tensor for a tensor of the part.
    fn number(&mut self, tensor: TensorIndex) -> Outcome<u32> {
        if let Some(&number) = self.numbers.get(&tensor) {
            return Ok(number);
        }
        let is_constant = self.part.is_constant(tensor);
        let number = self.add(tensor, is_constant)?;
        self.numbers.insert(tensor, number);
        if is_constant {
            self.constants.push((tensor, number));
        }
        Ok(number)
    }

    /// A new tensor of the driver's, of the shape of a tensor of the part.
    fn add(&mut self, like: TensorIndex, is_constant: bool) -> Outcome<u32> {
        let dims = self.part.dims(like).unwrap_or_default();
        let long = |_| Refusal::shape(format!("shape {dims:?}; the limit is {} on each axis", u32::MAX));
        let dims = dims.iter().map(|&dim| u32::try_from(dim));
        self.graph.tensors.push(Tensor {
            dims: dims.collect::<std::result::Result<_, _>>().map_err(long)?,
            is_constant,
            elements: Vec::new(),
        });
        Ok(self.graph.tensors.len() as u32 - 1)
    }
}

/// Lowers a part.
fn lower(shared: &Shared, part: &Part) -> Outcome<Lowered> {
    let ports = || part.inputs.iter().chain(&part.outputs).copied();
    for tensor in ports() {
        caps::check_tensor(part, tensor, shared.info.memory_bytes)?;
    }
    let mut builder = Builder {
        part,
        graph: Graph {
            tensors: Vec::new(),
            operations: Vec::new(),
            ports: Vec::new(),
        },
        numbers: HashMap::new(),
        constants: Vec::new(),
    };
    for &tensor in &part.inputs {
        let number = builder.number(tensor)?;
        let is_bound = builder.graph.ports.contains(&number);
        let number = if is_bound { builder.add(tensor, false)? } else { number };
        builder.graph.ports.push(number);
    }
    // copies of inputs that a new state may overwrite; of other outputs; to new states
    let (mut first, mut then, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (place, &tensor) in part.outputs.iter().enumerate() {
        let mut from = builder.number(tensor)?;
        let is_state = part.state_port(part.inputs.len() + place).is_some();
        if !is_state && !part.is_constant(tensor) && !builder.graph.ports.contains(&from) {
            builder.graph.ports.push(from);
            continue;
        }
        if is_state && part.inputs.contains(&tensor) {
            let kept = builder.add(tensor, false)?;
            first.push((Operation::Copy, vec![from], kept));
            from = kept;
        }
        let to = builder.add(tensor, false)?;
        let copies = if is_state { &mut last } else { &mut then };
        copies.push((Operation::Copy, vec![from], to));
        builder.graph.ports.push(to);
    }
    let copy = |_: &_| Step {
        node: None,
        operation: Operation::Copy,
    };
    let mut steps: Vec<Step> = first.iter().map(copy).collect();
    builder.graph.operations = first;
    for node in &part.nodes {
        let step = operation(shared, &mut builder, node).map_err(|refusal| refusal.at(node.index))?;
        steps.push(Step {
            node: Some(node.index),
            operation: step.0,
        });
        builder.graph.operations.push(step);
    }
    steps.extend(then.iter().chain(&last).map(copy));
    builder.graph.operations.extend(then.into_iter().chain(last));
    Ok(Lowered {
        layout: Layout {
            input_count: part.inputs.len(),
            ports: ports().map(|tensor| part.dims(tensor).unwrap_or_default().to_vec()).collect(),
            states: (0..ports().count()).map(|port| part.state_port(port)).collect(),
            steps,
        },
        graph: builder.graph,
        constants: builder.constants,
    })
}

/// The operation of a node, over the driver's tensors.
fn operation(shared: &Shared, builder: &mut Builder<'_>, node: &Node) -> Outcome<(Operation, Vec<u32>, u32)> {
    let operation = caps::operation(builder.part, node, shared.info.memory_bytes)?;
    let inputs = node
        .reads()
        .map(|tensor| builder.number(tensor))
        .collect::<Outcome<Vec<u32>>>()?;
    let output = node.output(0).expect("invariant: an operation has an output");
    Ok((operation, inputs, builder.number(output)?))
}

/// Reads a blob: the layout, and the driver's program.
pub(crate) fn load<T>(
    shared: &Shared,
    source: LoadSource<'_, AlignedBytes>,
    made: impl FnOnce(Layout, &[u8]) -> Result<T>,
) -> Result<T> {
    let content = source.graph.map(|graph| graph.content_fingerprint());
    let blob = match &source.from {
        LoadedFrom::Blob(blob) => blob,
        LoadedFrom::Bytes(bytes) => Constant::bytes(bytes),
    };
    let blob = BlobReader::open(blob, &shared.made_by)?;
    let made_of = blob.section(CONTENT)?;
    if content.is_some_and(|content| content != *made_of) {
        return Err(Error::bad_blob("the blob was made of another part"));
    }
    let layout: Layout = postcard::from_bytes(blob.section(LAYOUT)?)
        .map_err(|_| Error::bad_blob("the layout of the blob is torn"))?;
    if layout.input_count > layout.ports.len() || layout.states.len() != layout.ports.len() {
        return Err(Error::bad_blob("the layout of the blob contradicts itself"));
    }
    made(layout, blob.section(PROGRAM)?)
}

impl Layout {
    /// The ports: inputs, then outputs, all dense and row-major.
    pub(crate) fn ports(&self, shared: &Shared) -> Result<Vec<Port>> {
        let ports = self.ports.iter().zip(&self.states).enumerate();
        let port = |(number, (dims, &state_port)): (usize, (&Vec<usize>, &Option<u32>))| {
            Ok(Port {
                memory_kinds: buffer::bindable(shared),
                alignment: shared.info.import_alignment,
                state_port,
                ..Port::dense(number >= self.input_count, DType::F32, dims)?
            })
        };
        ports.map(port).collect()
    }
}
