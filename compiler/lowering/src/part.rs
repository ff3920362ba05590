//! A part, owned: the flat graph of the contract with constants still in place.
//!
//! Invariants:
//! 1. Indices of tensors are in range and nodes are in execution order (the SDK's view has checked both).
//! 2. `dims` is given only where every extent is known before the run and is exact.
//! 3. A [`Constant`] is never copied; the part's creator guarantees its lifetime (see there).
//!
//! Not here: some nodes of a part as a part of their own (`extract`), recomposed nodes as what they were made of
//! (`decompose`), the values of constants (`constant`).

mod decompose;
mod extract;
mod read;
#[cfg(test)]
mod tests;

use polychip_ops::operator::OperatorAttributes;
use polychip_ops::{Attr, Attributes, DType, InferError, Op, Operator};
use polychip_sdk::{Constant, Encoding};

pub use extract::Extract;

/// Index of a tensor in [`Part::tensors`].
pub type TensorIndex = usize;

/// A tensor of a part.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Type of the stored elements.
    pub dtype: DType,
    /// Whether it is a tensor of a known type, and not a sequence or optional.
    pub plain: bool,
    /// Whether it is a sequence or optional, packed into bytes.
    pub packed: bool,
    /// Exact extents, where all are known before the run.
    pub dims: Option<Vec<usize>>,
    /// Upper bounds where extents depend on data, `None` where not even bounds are known.
    pub bounds: Option<Vec<usize>>,
    /// Elements of a constant.
    pub constant: Option<Constant>,
    /// Bytes of the one value of all elements, where a node fills the tensor with it: as good as a constant.
    pub fill: Option<Vec<u8>>,
    /// Quantisation.
    pub encoding: Option<Encoding>,
    /// Name, for messages.
    pub name: String,
}

impl Tensor {
    /// A plain tensor without a name that the part computes or is fed.
    pub fn new(dtype: DType, dims: Option<Vec<usize>>) -> Tensor {
        Tensor {
            dtype,
            plain: true,
            packed: false,
            bounds: dims.clone(),
            dims,
            constant: None,
            fill: None,
            encoding: None,
            name: String::new(),
        }
    }

    /// Whether its values are known when the part is compiled.
    pub fn is_constant(&self) -> bool {
        self.constant.is_some() || self.fill.is_some()
    }

    /// Type of the values that an op sees.
    pub fn real(&self) -> DType {
        self.encoding
            .as_ref()
            .map_or(self.dtype, |encoding| encoding.real_dtype)
    }
}

/// A body graph of a node.
#[derive(Debug, Clone)]
pub struct Body {
    /// Attribute that held it, where this build knows it.
    pub attr: Option<Attr>,
    /// For each input of the body the tensor of the part that it captures, or nothing where the op passes it.
    pub captured: Vec<Option<TensorIndex>>,
    /// Element type and sizes (0 where not known) of each output.
    pub outputs: Vec<Option<(DType, Vec<usize>)>>,
}

/// A node of a part.
#[derive(Debug, Clone)]
pub struct Node {
    /// Index in the graph of the call.
    pub index: u32,
    /// Op.
    pub op: Op,
    /// Name of the op as the model has it.
    pub op_name: String,
    /// Attributes.
    pub attributes: Attributes,
    /// Inputs.
    pub inputs: Vec<Option<TensorIndex>>,
    /// Outputs.
    pub outputs: Vec<Option<TensorIndex>>,
    /// Body graphs.
    pub bodies: Vec<Body>,
    /// The primitive ops that it was recomposed from; their inputs and outputs are those of the node that are present,
    /// in order.
    pub decomposition: Option<Box<Part>>,
}

impl Node {
    /// A node without attributes and bodies.
    pub fn new(op: Op, inputs: &[TensorIndex], outputs: &[TensorIndex]) -> Node {
        Node {
            index: 0,
            op,
            op_name: op.name().to_owned(),
            attributes: Attributes::new(),
            inputs: inputs.iter().map(|&i| Some(i)).collect(),
            outputs: outputs.iter().map(|&i| Some(i)).collect(),
            bodies: Vec::new(),
            decomposition: None,
        }
    }

    /// The op with its typed attributes, what is left out by the defaults of the op table.
    ///
    /// # Errors
    /// Where the attributes do not fit the op.
    pub fn operator(&self) -> Result<Operator, InferError> {
        Operator::decode(self.op, &self.attributes)
    }

    /// The typed attributes, where the op is known to have these.
    ///
    /// # Errors
    /// As [`Node::operator`], and where the op has others.
    pub fn typed<T: OperatorAttributes>(&self) -> Result<T, InferError> {
        Operator::attributes(self.op, &self.attributes)
    }

    /// Input `i`, where it is given.
    pub fn input(&self, i: usize) -> Option<TensorIndex> {
        self.inputs.get(i).copied().flatten()
    }

    /// Output `i`, where it is wanted.
    pub fn output(&self, i: usize) -> Option<TensorIndex> {
        self.outputs.get(i).copied().flatten()
    }

    /// Everything that the node reads, captures of its bodies included.
    pub fn reads(&self) -> impl Iterator<Item = TensorIndex> + '_ {
        let captures = self
            .bodies
            .iter()
            .flat_map(|body| body.captured.iter().copied().flatten());
        self.inputs.iter().copied().flatten().chain(captures)
    }

    /// Everything that the node writes.
    pub fn writes(&self) -> impl Iterator<Item = TensorIndex> + '_ {
        self.outputs.iter().copied().flatten()
    }

    /// Every tensor that the node names.
    fn tensors_mut(&mut self) -> impl Iterator<Item = &mut TensorIndex> {
        let captured = self.bodies.iter_mut().flat_map(|body| &mut body.captured);
        self.inputs
            .iter_mut()
            .chain(&mut self.outputs)
            .chain(captured)
            .flatten()
    }
}

/// A part: nodes over tensors, with its ports.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Nodes in execution order.
    pub nodes: Vec<Node>,
    /// Tensors.
    pub tensors: Vec<Tensor>,
    /// Input ports.
    pub inputs: Vec<TensorIndex>,
    /// Output ports.
    pub outputs: Vec<TensorIndex>,
    /// In-out pairs: tensor read at the start, tensor that holds the new value.
    pub states: Vec<(TensorIndex, TensorIndex)>,
}

impl Part {
    /// How many nodes read each tensor; being an output of the part counts as one more.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.tensors.len()];
        for tensor in self
            .nodes
            .iter()
            .flat_map(Node::reads)
            .chain(self.outputs.iter().copied())
        {
            uses[tensor] += 1;
        }
        uses
    }

    /// Readers of each tensor, by node, in order; a node that reads it twice is listed twice.
    pub fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for tensor in node.reads() {
                readers[tensor].push(index);
            }
        }
        readers
    }

    /// The node that computes each tensor.
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for tensor in node.writes() {
                producers[tensor] = Some(index);
            }
        }
        producers
    }

    /// The port that is one state with this one between runs. Ports are numbered, inputs first.
    pub fn state_port(&self, port: usize) -> Option<u32> {
        let place = |ports: &[TensorIndex], tensor| ports.iter().position(|&port| port == tensor);
        self.states.iter().find_map(|&(input, output)| {
            let input = place(&self.inputs, input)?;
            let output = self.inputs.len() + place(&self.outputs, output)?;
            match port {
                port if port == input => Some(output as u32),
                port if port == output => Some(input as u32),
                _ => None,
            }
        })
    }

    /// Exact extents of a tensor.
    pub fn dims(&self, tensor: TensorIndex) -> Option<&[usize]> {
        self.tensors[tensor].dims.as_deref()
    }

    /// Type of the values that an op sees.
    pub fn real(&self, tensor: TensorIndex) -> DType {
        self.tensors[tensor].real()
    }

    /// Whether a tensor is constant.
    pub fn is_constant(&self, tensor: TensorIndex) -> bool {
        self.tensors[tensor].is_constant()
    }

    /// Whether a tensor is f32 of known shape without an encoding.
    pub fn plain_f32(&self, tensor: TensorIndex) -> bool {
        let t = &self.tensors[tensor];
        t.dtype == DType::F32 && t.dims.is_some() && t.encoding.is_none()
    }

    /// Marks tensors of some types that ConstantOfShape fills, whatever their size: the graph folds small ones only.
    pub fn find_fills(&mut self, of: fn(DType) -> bool) {
        for node in self.nodes.iter().filter(|node| node.op == Op::ConstantOfShape) {
            let Some(tensor) = node.output(0).map(|t| &mut self.tensors[t]) else {
                continue;
            };
            let width = tensor.dtype.byte_width().filter(|_| of(tensor.dtype));
            let (Some(_), Some(width), None) = (&tensor.dims, width, &tensor.encoding) else {
                continue;
            };
            tensor.fill = match node.attributes.tensor(Attr::Value) {
                None => Some(vec![0; width]),
                Some(literal) => Some(literal.bytes.to_vec()).filter(|bytes| bytes.len() == width),
            };
        }
    }
}
