//! A part as the plugin keeps it: the flat graph of the contract, owned, with constants still in place.
//!
//! Invariants:
//! 1. Indices of tensors are in range and nodes stand in execution order (the SDK's view has checked both).
//! 2. `dims` is given only where every extent is known before the run and is exact.
//! 3. A [`Constant`] is never copied; whoever made the part vouches for its life (see there).
//!
//! Not here: what to do with the nodes (`lower`), the reading of the flat graph (`view`).

use std::sync::Arc;

use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_reference::Program;
use polychip_sdk::Constant;

/// Index of a tensor in [`Part::tensors`].
pub(crate) type TensorIndex = usize;

/// Which elements of a tensor share a scale.
pub(crate) use polychip_sdk::{Encoding, EncodingKind};

/// A tensor of a part.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    /// Type of the stored elements.
    pub(crate) dtype: DType,
    /// Exact extents, where all are known before the run.
    pub(crate) dims: Option<Vec<usize>>,
    /// Upper bounds where extents depend on data, `None` where not even bounds are known.
    pub(crate) bounds: Option<Vec<usize>>,
    /// Elements of a constant.
    pub(crate) constant: Option<Constant>,
    /// The one value of all elements, where a node fills the tensor with it (f32 only): as good as a constant.
    pub(crate) fill: Option<f32>,
    /// Quantisation.
    pub(crate) encoding: Option<Encoding>,
    /// Whether it is a sequence or optional, packed into bytes.
    pub(crate) packed: bool,
    /// Name, for messages.
    pub(crate) name: String,
}

impl Tensor {
    /// A tensor that the part computes or is fed.
    #[cfg(test)]
    pub(crate) fn new(dtype: DType, dims: Option<Vec<usize>>) -> Self {
        Self {
            dtype,
            bounds: dims.clone(),
            dims,
            constant: None,
            fill: None,
            encoding: None,
            packed: false,
            name: String::new(),
        }
    }
}

impl Tensor {
    /// Whether its values are known when the part is compiled.
    pub(crate) fn is_constant(&self) -> bool {
        self.constant.is_some() || self.fill.is_some()
    }
}

/// A body graph of a node, ready to be evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    /// Attribute that held it.
    pub(crate) attr: Attr,
    /// The body, or why it cannot be computed.
    pub(crate) program: Result<Arc<Program>, String>,
    /// For each input of the body the tensor of this part that it captures, or nothing where the op passes it.
    pub(crate) captured: Vec<Option<TensorIndex>>,
    /// Element type and sizes (0 where not known) of each output.
    pub(crate) outputs: Vec<Option<(DType, Vec<usize>)>>,
}

/// A node of a part.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Op.
    pub(crate) op: Op,
    /// Name of the op as the model has it.
    pub(crate) op_name: String,
    /// Attributes.
    pub(crate) attributes: Attributes,
    /// Inputs.
    pub(crate) inputs: Vec<Option<TensorIndex>>,
    /// Outputs.
    pub(crate) outputs: Vec<Option<TensorIndex>>,
    /// Body graphs.
    pub(crate) bodies: Vec<Body>,
    /// The primitive ops that the node was recomposed from, where they can be computed.
    pub(crate) decomposition: Option<Arc<Program>>,
}

impl Node {
    /// A node without attributes and bodies.
    #[cfg(test)]
    pub(crate) fn new(op: Op, inputs: &[TensorIndex], outputs: &[TensorIndex]) -> Self {
        Self {
            op,
            op_name: op.name().to_owned(),
            attributes: Attributes::new(),
            inputs: inputs.iter().map(|&i| Some(i)).collect(),
            outputs: outputs.iter().map(|&i| Some(i)).collect(),
            bodies: Vec::new(),
            decomposition: None,
        }
    }

    /// Input `i`, where it is given.
    pub(crate) fn input(&self, i: usize) -> Option<TensorIndex> {
        self.inputs.get(i).copied().flatten()
    }

    /// Output `i`, where it is wanted.
    pub(crate) fn output(&self, i: usize) -> Option<TensorIndex> {
        self.outputs.get(i).copied().flatten()
    }

    /// Everything that the node reads, captures of its bodies included.
    pub(crate) fn reads(&self) -> impl Iterator<Item = TensorIndex> + '_ {
        let captures = self
            .bodies
            .iter()
            .flat_map(|body| body.captured.iter().copied().flatten());
        self.inputs.iter().copied().flatten().chain(captures)
    }
}

/// A part: nodes over tensors, with its ports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Nodes in execution order.
    pub(crate) nodes: Vec<Node>,
    /// Tensors.
    pub(crate) tensors: Vec<Tensor>,
    /// Input ports.
    pub(crate) inputs: Vec<TensorIndex>,
    /// Output ports.
    pub(crate) outputs: Vec<TensorIndex>,
    /// In-out pairs: tensor read at the start, tensor that holds the new value.
    pub(crate) states: Vec<(TensorIndex, TensorIndex)>,
}

impl Part {
    /// How many nodes read each tensor; being an output of the part counts as one more.
    pub(crate) fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.tensors.len()];
        for node in &self.nodes {
            for tensor in node.reads() {
                uses[tensor] += 1;
            }
        }
        for &tensor in &self.outputs {
            uses[tensor] += 1;
        }
        uses
    }

    /// Marks tensors that ConstantOfShape fills, whatever their size: the graph folds small ones only.
    pub(crate) fn find_fills(&mut self) {
        for node in self.nodes.iter().filter(|node| node.op == Op::ConstantOfShape) {
            let Some(tensor) = node.output(0).filter(|&t| self.plain_f32(t)) else {
                continue;
            };
            let value = match node.attributes.tensor(Attr::Value) {
                None => Some(0.0),
                Some(literal) => literal.scalar_as_f64().map(|value| value as f32),
            };
            self.tensors[tensor].fill = value;
        }
    }

    /// Exact extents of a tensor.
    pub(crate) fn dims(&self, tensor: TensorIndex) -> Option<&[usize]> {
        self.tensors[tensor].dims.as_deref()
    }

    /// Whether a tensor is f32 of known shape without an encoding.
    pub(crate) fn plain_f32(&self, tensor: TensorIndex) -> bool {
        let t = &self.tensors[tensor];
        t.dtype == DType::F32 && t.dims.is_some() && t.encoding.is_none()
    }

    /// The values of a small constant as numbers: f32, i32, i64 and the like.
    pub(crate) fn numbers(&self, tensor: TensorIndex) -> Option<Vec<f64>> {
        let t = &self.tensors[tensor];
        if t.encoding.is_some() {
            return None;
        }
        numbers(t.dtype, t.constant.as_ref()?.bytes())
    }

    /// The values of a small integer constant.
    pub(crate) fn integers(&self, tensor: TensorIndex) -> Option<Vec<i64>> {
        let t = &self.tensors[tensor];
        let bytes = t.constant.as_ref()?.bytes();
        Some(match t.dtype {
            DType::I64 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&b| i64::from_le_bytes(b))
                .collect(),
            DType::I32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&b| i64::from(i32::from_le_bytes(b)))
                .collect(),
            _ => return None,
        })
    }

    /// The only value of a constant of one element.
    pub(crate) fn scalar(&self, tensor: TensorIndex) -> Option<f64> {
        // the length is looked at first: large constants are not read
        if self.dims(tensor)?.iter().product::<usize>() != 1 {
            return None;
        }
        self.numbers(tensor)?.first().copied()
    }
}

fn numbers(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        DType::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f64::from(f32::from_le_bytes(b)))
            .collect(),
        DType::F64 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f64::from_le_bytes(b))
            .collect(),
        DType::I64 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| i64::from_le_bytes(b) as f64)
            .collect(),
        DType::I32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| f64::from(i32::from_le_bytes(b)))
            .collect(),
        DType::U8 | DType::Bool => bytes.iter().map(|&b| f64::from(b)).collect(),
        DType::I8 => bytes.iter().map(|&b| f64::from(b as i8)).collect(),
        _ => return None,
    })
}
