//! A part as lowering sees it: the flat graph of the contract, owned, with constants still in place.
//!
//! Invariants:
//! 1. Indices of tensors are in range and nodes stand in execution order (the SDK's view has checked both).
//! 2. `dims` is given only where every extent is known before the run and is exact.
//! 3. A constant is never copied here; it lives as long as the model.
//!
//! Not here: what to do with the nodes (`lower`).

use std::borrow::Cow;

use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_sdk::{Constant, Encoding, GraphView};

/// Index of a tensor in [`Part::tensors`].
pub(crate) type TensorIndex = usize;

/// A tensor of a part.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    /// Type of the stored elements.
    pub(crate) dtype: DType,
    /// Whether it is a tensor, and not a sequence or an optional.
    pub(crate) plain: bool,
    /// Exact extents, where all are known before the run.
    pub(crate) dims: Option<Vec<usize>>,
    /// Elements of a constant.
    pub(crate) constant: Option<Constant>,
    /// Bytes of the one value of all elements, where a node fills the tensor with it: as good as a constant.
    pub(crate) fill: Option<Vec<u8>>,
    /// Quantisation.
    pub(crate) encoding: Option<Encoding>,
    /// Name, for messages.
    pub(crate) name: String,
}

impl Tensor {
    /// The bytes of a constant; a fill of many elements is written out.
    pub(crate) fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(constant) = &self.constant {
            return Some(Cow::Borrowed(constant.bytes()));
        }
        let count = self.dims.as_ref()?.iter().product();
        Some(Cow::Owned(self.fill.as_ref()?.repeat(count)))
    }

    /// Whether its values are known when the part is compiled.
    pub(crate) fn is_constant(&self) -> bool {
        self.constant.is_some() || self.fill.is_some()
    }
}

/// A node of a part.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Index in the graph of the call.
    pub(crate) index: u32,
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
    /// Whether it carries a body graph.
    pub(crate) has_body: bool,
    /// The primitive ops that it was recomposed from; their inputs and outputs are those of the node that are present,
    /// in order.
    pub(crate) decomposition: Option<Box<Part>>,
}

impl Node {
    /// Input `i`, where it is given.
    pub(crate) fn input(&self, i: usize) -> Option<TensorIndex> {
        self.inputs.get(i).copied().flatten()
    }

    /// Output `i`, where it is wanted.
    pub(crate) fn output(&self, i: usize) -> Option<TensorIndex> {
        self.outputs.get(i).copied().flatten()
    }

    /// Everything that the node reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = TensorIndex> + '_ {
        self.inputs.iter().copied().flatten()
    }

    /// Everything that the node writes.
    pub(crate) fn writes(&self) -> impl Iterator<Item = TensorIndex> + '_ {
        self.outputs.iter().copied().flatten()
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
    /// The part that a view shows.
    pub(crate) fn of(graph: &GraphView<'_>) -> Part {
        let tensors = graph.tensors().map(|view| Tensor {
            dtype: view.dtype(),
            plain: view.is_plain(),
            dims: view.shape().filter(|_| !view.is_upper_bound()),
            constant: view.constant(),
            fill: None,
            encoding: view.encoding().map(|encoding| encoding.to_owned()),
            name: view.name().to_owned(),
        });
        let index = |tensor: Option<u32>| tensor.map(|tensor| tensor as usize);
        let nodes = graph.nodes().map(|view| Node {
            index: view.index(),
            op: view.op(),
            op_name: view.op_name().to_owned(),
            attributes: view.attributes(),
            inputs: view.inputs().map(index).collect(),
            outputs: view.outputs().map(index).collect(),
            has_body: view.bodies().len() > 0,
            decomposition: view.decomposition().map(|graph| Box::new(Part::of(&graph))),
        });
        let mut part = Part {
            nodes: nodes.collect(),
            tensors: tensors.collect(),
            inputs: graph.inputs().iter().map(|&t| t as usize).collect(),
            outputs: graph.outputs().iter().map(|&t| t as usize).collect(),
            states: graph.states().map(|(a, b)| (a as usize, b as usize)).collect(),
        };
        part.find_fills();
        part
    }

    /// Marks tensors that ConstantOfShape fills, whatever their size: the graph folds small ones only.
    fn find_fills(&mut self) {
        for node in self.nodes.iter().filter(|node| node.op == Op::ConstantOfShape) {
            let Some(tensor) = node.output(0).map(|t| &mut self.tensors[t]) else {
                continue;
            };
            let width = tensor.dtype.byte_width();
            let (Some(_), Some(width), None) = (&tensor.dims, width, &tensor.encoding) else {
                continue;
            };
            tensor.fill = match node.attributes.tensor(Attr::Value) {
                None => Some(vec![0; width]),
                Some(literal) => Some(literal.bytes.to_vec()).filter(|bytes| bytes.len() == width),
            };
        }
    }

    /// The part with some nodes computed as the primitive ops that they were recomposed from; a node that was not
    /// stays.
    pub(crate) fn decomposed(mut self, which: impl Fn(usize) -> bool) -> Part {
        let nodes = std::mem::take(&mut self.nodes);
        for (index, mut node) in nodes.into_iter().enumerate() {
            let inner = node.decomposition.take_if(|inner| {
                which(index)
                    && inner.inputs.len() == node.inputs.iter().flatten().count()
                    && inner.outputs.len() == node.outputs.iter().flatten().count()
            });
            match inner {
                Some(inner) => self.splice(&node, *inner),
                None => self.nodes.push(node),
            }
        }
        self
    }

    /// Adds the nodes of a decomposition in the place of a node.
    fn splice(&mut self, node: &Node, inner: Part) {
        let mut map: Vec<Option<TensorIndex>> = vec![None; inner.tensors.len()];
        let inside = inner.inputs.iter().chain(&inner.outputs);
        for (&inside, outside) in inside.zip(node.reads().chain(node.writes())) {
            map[inside] = Some(outside);
        }
        for (tensor, outside) in inner.tensors.into_iter().zip(&mut map) {
            if outside.is_none() {
                *outside = Some(self.tensors.len());
                self.tensors.push(tensor);
            }
        }
        for mut primitive in inner.nodes {
            for tensor in primitive
                .inputs
                .iter_mut()
                .chain(&mut primitive.outputs)
                .flatten()
            {
                *tensor = map[*tensor].expect("invariant: each tensor of the inner part has a place");
            }
            primitive.index = node.index;
            self.nodes.push(primitive);
        }
    }

    /// One node of the part, with ports around it.
    pub(crate) fn alone(&self, node: usize) -> Part {
        self.some(&[node as u32])
    }

    /// Some nodes of the part, in order, with ports around them.
    pub(crate) fn some(&self, nodes: &[u32]) -> Part {
        let mut map: Vec<Option<TensorIndex>> = vec![None; self.tensors.len()];
        let mut tensors: Vec<Tensor> = Vec::new();
        let mut written = Vec::new();
        let mut part = Part::default();
        let mut order = nodes.to_vec();
        order.sort_unstable();
        order.dedup();
        for node in order.iter().filter_map(|&node| self.nodes.get(node as usize)) {
            let mut copy = node.clone();
            for tensor in copy.inputs.iter_mut().chain(&mut copy.outputs).flatten() {
                let old = *tensor;
                *tensor = *map[old].get_or_insert_with(|| {
                    tensors.push(self.tensors[old].clone());
                    tensors.len() - 1
                });
            }
            for tensor in copy.reads() {
                if !written.contains(&tensor)
                    && !tensors[tensor].is_constant()
                    && !part.inputs.contains(&tensor)
                {
                    part.inputs.push(tensor);
                }
            }
            written.extend(copy.writes());
            part.nodes.push(copy);
        }
        // what leaves: outputs of the whole, and what nodes that are not of these read
        let mut leaves = vec![false; tensors.len()];
        for &tensor in &self.outputs {
            if let Some(new) = map[tensor] {
                leaves[new] = true;
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if order.binary_search(&(index as u32)).is_err() {
                for new in node.reads().filter_map(|tensor| map[tensor]) {
                    leaves[new] = true;
                }
            }
        }
        let unread = |tensor: &TensorIndex| !part.nodes.iter().any(|node| node.reads().any(|t| t == *tensor));
        part.outputs = written
            .iter()
            .copied()
            .filter(|tensor| leaves[*tensor] || unread(tensor))
            .collect();
        part.tensors = tensors;
        part
    }

    /// Readers of each tensor, by node, in order; a node that reads it twice stands there twice.
    pub(crate) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for tensor in node.reads() {
                readers[tensor].push(index);
            }
        }
        readers
    }

    /// Exact extents of a tensor.
    pub(crate) fn dims(&self, tensor: TensorIndex) -> Option<&[usize]> {
        self.tensors[tensor].dims.as_deref()
    }

    /// Type of the values that an op sees.
    pub(crate) fn real(&self, tensor: TensorIndex) -> DType {
        let t = &self.tensors[tensor];
        t.encoding
            .as_ref()
            .map_or(t.dtype, |encoding| encoding.real_dtype)
    }

    /// Whether a tensor is constant.
    pub(crate) fn is_constant(&self, tensor: TensorIndex) -> bool {
        self.tensors[tensor].is_constant()
    }

    /// The values of a small constant as numbers.
    pub(crate) fn numbers(&self, tensor: TensorIndex) -> Option<Vec<f64>> {
        let t = &self.tensors[tensor];
        if t.encoding.is_some() {
            return None;
        }
        let shape = t.dims.clone()?;
        polychip_ops::Literal::new(t.dtype, shape, t.bytes()?.as_ref())?.as_f64s()
    }

    /// The values of a small integer constant.
    pub(crate) fn integers(&self, tensor: TensorIndex) -> Option<Vec<i64>> {
        let t = &self.tensors[tensor];
        if t.encoding.is_some() {
            return None;
        }
        let shape = t.dims.clone()?;
        polychip_ops::Literal::new(t.dtype, shape, t.bytes()?.as_ref())?.as_i64s()
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
