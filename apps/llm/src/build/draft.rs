//! A graph under construction: tensors of known types, and the nodes between them.

use std::collections::BTreeMap;

use bytes::Bytes;
use polychip_graph::{Constant, Encoding, FileSlice, Graph, Node, Tensor, TensorId};
use polychip_ops::{Attr, Attributes, BlockLayout, DType, Op, TensorType};

/// Bytes of one of the model's files, and their offset in it.
pub(crate) struct Stored {
    pub(crate) bytes: Bytes,
    /// Index among the graph's files.
    pub(crate) file: u32,
    pub(crate) offset: usize,
}

impl Stored {
    fn constant(self) -> Constant {
        let offset = self.offset as u64;
        Constant {
            bytes: self.bytes,
            file: Some(FileSlice {
                file: self.file,
                offset,
            }),
        }
    }
}

/// A graph under construction.
pub(crate) struct Draft {
    graph: Graph,
    constants: BTreeMap<String, TensorId>,
    made: usize,
}

impl Draft {
    /// Creates a graph over these files.
    pub(crate) fn new(name: &str, files: Vec<String>) -> Draft {
        let mut graph = Graph::new(name);
        graph.files = files;
        Draft {
            graph,
            constants: BTreeMap::new(),
            made: 0,
        }
    }

    /// Continues a graph; its nodes and tensors keep their ids.
    pub(crate) fn over(graph: Graph) -> Draft {
        Draft {
            graph,
            constants: BTreeMap::new(),
            made: 0,
        }
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    fn tensor(&mut self, name: &str, dtype: DType, dims: &[usize]) -> Tensor {
        Tensor::new(name, TensorType::known(dtype, dims))
    }

    pub(crate) fn input(&mut self, name: &str, dtype: DType, dims: &[usize]) -> TensorId {
        let tensor = self.tensor(name, dtype, dims);
        let id = self.graph.add_tensor(tensor);
        self.graph.inputs.push(id);
        id
    }

    /// Adds a constant; one name is one tensor.
    pub(crate) fn constant(&mut self, name: &str, dtype: DType, dims: &[usize], bytes: Bytes) -> TensorId {
        self.constant_of(name, dtype, dims, Constant::new(bytes), None)
    }

    /// Adds a constant that is stored in the model's file.
    pub(crate) fn stored(&mut self, name: &str, dtype: DType, dims: &[usize], at: Stored) -> TensorId {
        self.constant_of(name, dtype, dims, at.constant(), None)
    }

    /// Adds a constant of quantized f32 blocks in the model's file.
    pub(crate) fn blocks(&mut self, name: &str, layout: BlockLayout, dims: &[usize], at: Stored) -> TensorId {
        let encoding = Some(Encoding::blocks(layout));
        self.constant_of(name, DType::U8, dims, at.constant(), encoding)
    }

    pub(crate) fn constant_of(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[usize],
        constant: Constant,
        encoding: Option<Encoding>,
    ) -> TensorId {
        if let Some(&known) = self.constants.get(name) {
            return known;
        }
        let mut tensor = self.tensor(name, dtype, dims);
        tensor.data = Some(constant);
        tensor.encoding = encoding;
        let id = self.graph.add_tensor(tensor);
        self.constants.insert(name.to_owned(), id);
        id
    }

    /// Adds a node with one output of this type.
    pub(crate) fn node(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        attributes: Attributes,
        dtype: DType,
        dims: &[usize],
    ) -> TensorId {
        self.made += 1;
        let tensor = self.tensor(&format!("{}.{}", op.name(), self.made), dtype, dims);
        let output = self.graph.add_tensor(tensor);
        let inputs = inputs.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(op, inputs, vec![Some(output)]).with(attributes));
        output
    }

    /// Adds a node of one float operand, with an output of the same shape.
    pub(crate) fn map(&mut self, op: Op, x: TensorId, attributes: Attributes, dims: &[usize]) -> TensorId {
        self.node(op, &[x], attributes, DType::F32, dims)
    }

    /// Adds a node of two float operands.
    pub(crate) fn combine(&mut self, op: Op, operands: [TensorId; 2], dims: &[usize]) -> TensorId {
        self.node(op, &operands, Attributes::new(), DType::F32, dims)
    }

    /// A constant of floats.
    pub(crate) fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> TensorId {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, DType::F32, dims, bytes.into())
    }

    /// A constant of one float, without axes.
    pub(crate) fn scalar(&mut self, value: f32) -> TensorId {
        self.floats(&format!("scalar {value:?}"), &[], &[value])
    }

    /// A constant of integers.
    pub(crate) fn integers(&mut self, name: &str, dims: &[usize], values: &[i64]) -> TensorId {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, DType::I64, dims, bytes.into())
    }

    /// The `count` largest values along the last axis of `[rows, all]`, and their indices.
    pub(crate) fn largest(&mut self, x: TensorId, count: usize, rows: usize) -> [TensorId; 2] {
        let wanted = self.integers(&format!("count {count}"), &[1], &[count as i64]);
        self.made += 1;
        let outputs = [("values", DType::F32), ("indices", DType::I64)].map(|(which, dtype)| {
            let name = format!("{}.{}.{which}", Op::TopK.name(), self.made);
            let tensor = self.tensor(&name, dtype, &[rows, count]);
            self.graph.add_tensor(tensor)
        });
        let axis = Attributes::new().with_int(Attr::Axis, -1);
        let given = outputs.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(Op::TopK, vec![Some(x), Some(wanted)], given).with(axis));
        outputs
    }

    /// Splits a tensor into `count` equal pieces along an axis, each of these dimensions.
    pub(crate) fn split(
        &mut self,
        x: TensorId,
        axis: i64,
        count: usize,
        dtype: DType,
        dims: &[usize],
    ) -> Vec<TensorId> {
        self.made += 1;
        let mut pieces = Vec::with_capacity(count);
        for index in 0..count {
            let name = format!("{}.{}.{index}", Op::Split.name(), self.made);
            let tensor = self.tensor(&name, dtype, dims);
            pieces.push(self.graph.add_tensor(tensor));
        }
        let attributes = Attributes::new()
            .with_int(Attr::Axis, axis)
            .with_int(Attr::NumOutputs, count as i64);
        let outputs = pieces.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(Op::Split, vec![Some(x)], outputs).with(attributes));
        pieces
    }

    /// Splits a tensor into pieces of these sizes along its last axis; the sizes add up to it.
    pub(crate) fn pieces(
        &mut self,
        x: TensorId,
        sizes: &[usize],
        dtype: DType,
        before: &[usize],
    ) -> Vec<TensorId> {
        self.made += 1;
        let values: Vec<i64> = sizes.iter().map(|&size| size as i64).collect();
        let by = self.integers(&format!("sizes {sizes:?}"), &[sizes.len()], &values);
        let mut pieces = Vec::with_capacity(sizes.len());
        for (index, &size) in sizes.iter().enumerate() {
            let name = format!("{}.{}.{index}", Op::Split.name(), self.made);
            let tensor = self.tensor(&name, dtype, &[before, &[size]].concat());
            pieces.push(self.graph.add_tensor(tensor));
        }
        let axis = Attributes::new().with_int(Attr::Axis, before.len() as i64);
        let outputs = pieces.iter().copied().map(Some).collect();
        self.graph
            .add_node(Node::new(Op::Split, vec![Some(x), Some(by)], outputs).with(axis));
        pieces
    }

    pub(crate) fn cast(&mut self, x: TensorId, to: DType, dims: &[usize]) -> TensorId {
        let attributes = Attributes::new().with_int(Attr::To, i64::from(to.code()));
        self.node(Op::Cast, &[x], attributes, to, dims)
    }

    pub(crate) fn reshape(&mut self, x: TensorId, dtype: DType, dims: &[usize]) -> TensorId {
        let sizes: Vec<i64> = dims.iter().map(|&size| size as i64).collect();
        let shape = self.integers(&format!("shape {dims:?}"), &[dims.len()], &sizes);
        self.node(Op::Reshape, &[x, shape], Attributes::new(), dtype, dims)
    }

    /// Makes a tensor an output of this name.
    pub(crate) fn output(&mut self, name: &str, id: TensorId) {
        name.clone_into(&mut self.graph.tensor_mut(id).name);
        self.graph.outputs.push(id);
    }

    pub(crate) fn finish(self) -> Graph {
        self.graph
    }
}
