//! Compiling and loading: the part as a list of steps over numbered tensors, and that list as a blob.
//!
//! The blob has a section with the fingerprint of the part, one of little-endian `u64` words (tensors, constants,
//! ports, steps) and one per constant, in their order.
//!
//! Invariant: in a [`Part`] every number is that of a tensor, tensors of one step have one shape, and the
//! output of a step is none of its inputs; what breaks this is a bad blob.

use polychip_ops::{DType, Op};
use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Constant, Error, GraphView, LoadSource, LoadedFrom,
    Port, Result, Support,
};

use crate::{buffer, caps};

const PROGRAM: u32 = 1;
const CONSTANT: u32 = 2;
const CONTENT: u32 = 3;

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Identity,
    Relu,
    Add,
}

/// One node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kernel: Kernel,
    pub(crate) left: usize,
    /// As `left` for kernels of one input.
    pub(crate) right: usize,
    pub(crate) output: usize,
}

/// A part ready to run.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Shapes.
    pub(crate) tensors: Vec<Vec<usize>>,
    pub(crate) constants: Vec<(usize, Vec<f32>)>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    /// Places of inputs and outputs that are one state between runs.
    pub(crate) states: Vec<(usize, usize)>,
    pub(crate) steps: Vec<Step>,
}

/// Makes the blob of a part.
pub(crate) fn compile(
    build_id: &str,
    graph: &GraphView<'_>,
    options: &CompileOptions,
) -> Result<AlignedBytes> {
    if let Some(point) = options.operating_point {
        return Err(Error::bad_argument(format!("operating point {point} of 0")));
    }
    let mut steps = Vec::new();
    for node in graph.nodes() {
        if let Support::No { reason, detail } = caps::support(graph, &node) {
            let what = format!("{} {}: {reason:?}: {detail}", node.op_name(), node.name());
            return Err(Error::unsupported(what).at_node(node.index()));
        }
        let missing = || Error::bad_argument("a tensor of the node is missing").at_node(node.index());
        let left = node.input(0).ok_or_else(missing)?;
        let (code, right) = match node.op() {
            Op::Identity => (0, left),
            Op::Relu => (1, left),
            _ => (2, node.input(1).ok_or_else(missing)?),
        };
        let output = node.output(0).ok_or_else(missing)?;
        steps.extend([code, u64::from(left), u64::from(right), u64::from(output)]);
    }

    let mut words = vec![graph.tensor_count() as u64];
    let mut constants = Vec::new();
    for tensor in graph.tensors() {
        // a tensor that nothing here uses may be of any type and shape: it becomes an empty one
        let shape = tensor
            .shape()
            .filter(|_| tensor.is_plain() && tensor.dtype() == DType::F32)
            .unwrap_or_else(|| vec![0]);
        words.push(shape.len() as u64);
        words.extend(shape.iter().map(|&dim| dim as u64));
        if let Some(constant) = tensor.constant().filter(|_| tensor.dtype() == DType::F32) {
            constants.push((u64::from(tensor.index()), constant));
        }
    }
    push_list(&mut words, constants.iter().map(|(tensor, _)| *tensor));
    for ports in [graph.inputs(), graph.outputs()] {
        for &tensor in ports {
            let view = graph.tensor(tensor);
            if view.dtype() != DType::F32 || view.encoding().is_some() || view.shape().is_none() {
                let what = format!("tensor {} is no f32 tensor of known shape", view.name());
                return Err(Error::unsupported(what).at_tensor(tensor));
            }
        }
        push_list(&mut words, ports.iter().map(|&tensor| u64::from(tensor)));
    }
    let place = |ports: &[u32], tensor| ports.iter().position(|&port| port == tensor).unwrap_or(0) as u64;
    let states = graph
        .states()
        .flat_map(|(input, output)| [place(graph.inputs(), input), place(graph.outputs(), output)]);
    push_list(&mut words, states.collect::<Vec<_>>().into_iter());
    push_list(&mut words, steps.into_iter());

    let program: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let content = graph.content_fingerprint();
    let mut blob = BlobWriter::new(build_id)
        .section(CONTENT, &content)
        .section(PROGRAM, &program);
    for (_, constant) in &constants {
        blob = blob.section(CONSTANT, constant.bytes());
    }
    blob.finish()
}

fn push_list(words: &mut Vec<u64>, list: impl ExactSizeIterator<Item = u64>) {
    words.push(list.len() as u64);
    words.extend(list);
}

/// Makes a part ready to run.
pub(crate) fn load(build_id: &str, source: LoadSource<'_, AlignedBytes>) -> Result<Part> {
    let content = source.graph.map(|graph| graph.content_fingerprint());
    match source.from {
        LoadedFrom::Blob(blob) => read(build_id, content, &blob),
        LoadedFrom::Bytes(bytes) => read(build_id, content, Constant::bytes(&bytes)),
    }
}

fn read(build_id: &str, content: Option<[u8; 32]>, blob: &[u8]) -> Result<Part> {
    let blob = BlobReader::open(blob, build_id)?;
    let made_of = blob.section(CONTENT)?;
    if content.is_some_and(|content| content != *made_of) {
        return Err(Error::bad_blob("the blob was made of another part"));
    }
    let mut words = Words(blob.section(PROGRAM)?);
    let mut part = Part::default();
    for _ in 0..words.next()? {
        let shape = words.list()?;
        caps::elements(&shape).ok_or_else(|| Error::bad_blob("a tensor of the blob is too large"))?;
        part.tensors.push(shape);
    }
    let mut data = blob
        .sections()
        .filter_map(|(kind, bytes)| (kind == CONSTANT).then_some(bytes));
    for tensor in words.list()? {
        let bytes = data
            .next()
            .ok_or_else(|| Error::bad_blob("a constant of the blob is missing"))?;
        let values: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect();
        part.constants.push((tensor, values));
    }
    part.inputs = words.list()?;
    part.outputs = words.list()?;
    part.states = words
        .list()?
        .as_chunks()
        .0
        .iter()
        .map(|&[input, output]| (input, output))
        .collect();
    for &[code, left, right, output] in words.list()?.as_chunks().0 {
        let kernel = match code {
            0 => Kernel::Identity,
            1 => Kernel::Relu,
            2 => Kernel::Add,
            _ => return Err(Error::bad_blob(format!("the blob has a step of kind {code}"))),
        };
        part.steps.push(Step {
            kernel,
            left,
            right,
            output,
        });
    }
    part.check()?;
    Ok(part)
}

/// The words of the program, each read with a check.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Result<usize> {
        let (word, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| Error::bad_blob("the program of the blob is torn"))?;
        self.0 = rest;
        usize::try_from(u64::from_le_bytes(*word))
            .map_err(|_| Error::bad_blob("a number of the blob does not fit this machine"))
    }

    fn list(&mut self) -> Result<Vec<usize>> {
        let len = self.next()?;
        (0..len).map(|_| self.next()).collect()
    }
}

impl Part {
    fn check(&self) -> Result<()> {
        let bad = |what: &'static str| Err(Error::bad_blob(what));
        let shape = |tensor: usize| self.tensors.get(tensor);
        let ports = self.inputs.iter().chain(&self.outputs);
        if ports.into_iter().any(|&tensor| shape(tensor).is_none()) {
            return bad("a port of the blob is no tensor");
        }
        for (tensor, values) in &self.constants {
            if shape(*tensor).and_then(|shape| caps::elements(shape)) != Some(values.len()) {
                return bad("a constant of the blob is of another size than its tensor");
            }
        }
        for step in &self.steps {
            let of_output = shape(step.output);
            let fits = of_output.is_some() && shape(step.left) == of_output && shape(step.right) == of_output;
            if !fits || step.left == step.output || step.right == step.output {
                return bad("a step of the blob does not fit its tensors");
            }
        }
        let paired =
            |&(input, output): &(usize, usize)| input < self.inputs.len() && output < self.outputs.len();
        if !self.states.iter().all(paired) {
            return bad("a state of the blob is no pair of ports");
        }
        Ok(())
    }

    /// The ports: inputs, then outputs, all dense and row-major.
    pub(crate) fn ports(&self) -> Result<Vec<Port>> {
        let inputs = self.inputs.len();
        let mut ports = Vec::with_capacity(inputs + self.outputs.len());
        for (number, &tensor) in self.inputs.iter().chain(&self.outputs).enumerate() {
            let mut port = Port::dense(number >= inputs, DType::F32, &self.tensors[tensor])?;
            port.memory_kinds = buffer::KINDS;
            port.state_port = self.states.iter().find_map(|&(input, output)| {
                if number == input {
                    Some((inputs + output) as u32)
                } else if number == inputs + output {
                    Some(input as u32)
                } else {
                    None
                }
            });
            ports.push(port);
        }
        Ok(ports)
    }
}
