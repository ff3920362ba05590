//! A program in the making, and where each tensor of the graph is so far.
//!
//! Invariants:
//! 1. A tensor is made at most once per order of axes; ports are row-major and in the order of the graph.
//! 2. Every output of the part is a tensor of its own that an operation writes.
//!
//! Not here: which operations a node becomes (`dispatch`, and the file of each op class).

use std::collections::BTreeMap;

use half::f16;
use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, TensorIndex, layout};
use polychip_ops::Attr;
use polychip_sys::nnrt::bindings as sys;

use crate::info::Info;
use crate::program::{NO_ACTIVATION, Operation, Program, Tensor, TensorId, Type};

/// A parameter of an operation: its role, and its value in the type that the role asks for.
#[derive(Debug, Clone)]
pub(super) enum Param {
    Truth(u32, bool),
    Byte(u32, u8),
    Int(u32, i32),
    Long(u32, i64),
    Longs(u32, Vec<i64>),
    Real(u32, f32),
}

impl Param {
    /// That nothing is done to the result.
    pub(super) fn unfused(role: u32) -> Param {
        Param::Byte(role, NO_ACTIVATION[0])
    }

    /// As a tensor of the model.
    fn tensor(self) -> Tensor {
        let (role, code, dims, value) = match self {
            Param::Truth(role, value) => (role, sys::OH_NN_BOOL, vec![], vec![u8::from(value)]),
            Param::Byte(role, value) => (role, sys::OH_NN_INT8, vec![], vec![value]),
            Param::Int(role, value) => (role, sys::OH_NN_INT32, vec![], value.to_le_bytes().to_vec()),
            Param::Long(role, value) => (role, sys::OH_NN_INT64, vec![], value.to_le_bytes().to_vec()),
            Param::Real(role, value) => (role, sys::OH_NN_FLOAT32, vec![], value.to_le_bytes().to_vec()),
            Param::Longs(role, values) => {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (role, sys::OH_NN_INT64, vec![values.len()], bytes)
            }
        };
        Tensor {
            code,
            dims,
            role,
            image: false,
            value: Some(value),
        }
    }
}

/// A program in the making.
pub(super) struct Lower<'a> {
    pub(super) part: &'a Part,
    infos: &'a [Outcome<Info>],
    pub(super) program: Program,
    types: BTreeMap<TensorId, Type>,
    at: BTreeMap<(TensorIndex, Layout), TensorId>,
    pub(super) node: Option<u32>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(part: &'a Part, infos: &'a [Outcome<Info>]) -> Lower<'a> {
        Lower {
            part,
            infos,
            program: Program::default(),
            types: BTreeMap::new(),
            at: BTreeMap::new(),
            node: None,
        }
    }

    pub(super) fn infos(&self) -> &'a [Outcome<Info>] {
        self.infos
    }

    pub(super) fn info(&self, tensor: TensorIndex) -> Outcome<&'a Info> {
        self.infos[tensor].as_ref().map_err(Clone::clone)
    }

    pub(super) fn shape(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        Ok(&self.info(tensor)?.shape)
    }

    pub(super) fn rank(&self, tensor: TensorIndex) -> Outcome<usize> {
        Ok(self.shape(tensor)?.len())
    }

    pub(super) fn name(&self, tensor: TensorIndex) -> &'a str {
        &self.part.tensors[tensor].name
    }

    /// The integers of an input that must be constant.
    pub(super) fn ints(&self, tensor: TensorIndex) -> Outcome<Vec<i64>> {
        let wanted = || Refusal::constant(format!("tensor {} would have to be constant", self.name(tensor)));
        self.part.tensors[tensor].wide_integers().ok_or_else(wanted)
    }

    /// The reals of an input that must be constant.
    pub(super) fn reals(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        self.part.tensors[tensor].reals()
    }

    // ---- tensors and operations

    /// A new tensor of data.
    pub(super) fn tensor(&mut self, ty: Type, dims: &[usize], layout: Layout) -> TensorId {
        let id = self.program.add(Tensor {
            code: ty.code(),
            // one of no axes has one of one element: without, it would be a parameter
            dims: if dims.is_empty() { vec![1] } else { dims.to_vec() },
            role: sys::OH_NN_TENSOR,
            image: layout == Layout::ChannelsLast && dims.len() == 4,
            value: None,
        });
        self.types.insert(id, ty);
        id
    }

    /// A new constant.
    pub(super) fn fixed(&mut self, ty: Type, dims: &[usize], bytes: Vec<u8>) -> TensorId {
        let id = self.tensor(ty, dims, Layout::RowMajor);
        self.program.tensors[id].value = Some(bytes);
        id
    }

    /// Constant floats in the type of others, in an order of axes.
    pub(super) fn floats(
        &mut self,
        ty: Type,
        reals: &[f32],
        shape: &[usize],
        permutation: &[usize],
    ) -> TensorId {
        let bytes: Vec<u8> = match ty {
            Type::F16 => reals
                .iter()
                .flat_map(|&real| f16::from_f32(real).to_le_bytes())
                .collect(),
            _ => reals.iter().flat_map(|real| real.to_le_bytes()).collect(),
        };
        let bytes = layout::transpose(&bytes, ty.bytes(), shape, permutation);
        let dims: Vec<usize> = permutation.iter().map(|&axis| shape[axis]).collect();
        self.fixed(ty, &dims, bytes)
    }

    /// A list of extents, axes or places.
    pub(super) fn list(&mut self, values: &[usize]) -> TensorId {
        let bytes = values
            .iter()
            .flat_map(|&value| (value as i32).to_le_bytes())
            .collect();
        self.fixed(Type::I32, &[values.len()], bytes)
    }

    pub(super) fn ty(&self, id: TensorId) -> Type {
        self.types[&id]
    }

    pub(super) fn dims(&self, id: TensorId) -> Vec<usize> {
        self.program.tensors[id].dims.clone()
    }

    /// Adds an operation.
    pub(super) fn op(&mut self, code: u32, inputs: &[TensorId], outputs: &[TensorId], params: Vec<Param>) {
        let params = params
            .into_iter()
            .map(|param| self.program.add(param.tensor()))
            .collect();
        self.program.operations.push(Operation {
            code,
            params,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            node: self.node,
        });
    }

    /// An operation whose one result has the type and order of axes of a tensor.
    pub(super) fn like(
        &mut self,
        code: u32,
        of: TensorId,
        dims: &[usize],
        inputs: &[TensorId],
        params: Vec<Param>,
    ) -> TensorId {
        let layout = match self.program.tensors[of].image {
            true => Layout::ChannelsLast,
            false => Layout::RowMajor,
        };
        let out = self.tensor(self.ty(of), dims, layout);
        self.op(code, inputs, &[out], params);
        out
    }

    /// The same elements with other extents.
    pub(super) fn reshaped(&mut self, id: TensorId, dims: &[usize]) -> TensorId {
        let dims = if dims.is_empty() { &[1] } else { dims };
        if self.program.tensors[id].dims == dims {
            return id;
        }
        self.copied(id, dims, Layout::RowMajor)
    }

    /// A tensor of its own with the same elements.
    fn copied(&mut self, id: TensorId, dims: &[usize], layout: Layout) -> TensorId {
        let to = self.list(dims);
        let out = self.tensor(self.ty(id), dims, layout);
        self.op(sys::OH_NN_OPS_RESHAPE, &[id, to], &[out], vec![]);
        out
    }

    /// The axes in another order: place `i` of the result is place `permutation[i]`.
    pub(super) fn transposed(&mut self, id: TensorId, permutation: &[usize], to: Layout) -> TensorId {
        let dims = self.dims(id);
        let new: Vec<usize> = permutation.iter().map(|&place| dims[place]).collect();
        if permutation.is_sorted() {
            return id;
        }
        if layout::keeps_memory(&dims, permutation) {
            return self.copied(id, &new, to);
        }
        let order = self.list(permutation);
        let out = self.tensor(self.ty(id), &new, to);
        self.op(sys::OH_NN_OPS_TRANSPOSE, &[id, order], &[out], vec![]);
        out
    }

    // ---- tensors of the graph

    /// Whether a tensor has been made or given.
    pub(super) fn is_there(&self, tensor: TensorIndex) -> bool {
        self.at.contains_key(&(tensor, Layout::RowMajor))
            || self.at.contains_key(&(tensor, Layout::ChannelsLast))
    }

    /// A tensor of the graph in an order of axes; a constant becomes one of the program.
    pub(super) fn read(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<TensorId> {
        let shape = self.shape(tensor)?;
        let layout = of_rank(layout, shape.len());
        if let Some(&id) = self.at.get(&(tensor, layout)) {
            return Ok(id);
        }
        let id = if self.part.is_constant(tensor) {
            self.constant(tensor, shape, layout)?
        } else {
            let from = layout.other();
            let Some(&id) = self.at.get(&(tensor, from)) else {
                let what = format!("tensor {} is made by no node of the part", self.name(tensor));
                return Err(Refusal::shape(what));
            };
            self.transposed(id, &from.to(layout, shape.len()), layout)
        };
        self.at.insert((tensor, layout), id);
        Ok(id)
    }

    /// An operand that broadcasts to `rank` axes, which a channels-last order needs to have.
    pub(super) fn operand(&mut self, tensor: TensorIndex, rank: usize, layout: Layout) -> Outcome<TensorId> {
        let shape = self.shape(tensor)?;
        if of_rank(layout, rank) == Layout::RowMajor || shape.len() == rank {
            return self.read(tensor, of_rank(layout, rank));
        }
        let mut wide = vec![1; rank - shape.len()];
        wide.extend_from_slice(shape);
        if self.part.is_constant(tensor) {
            return self.constant(tensor, &wide, layout);
        }
        let id = self.read(tensor, Layout::RowMajor)?;
        let id = self.reshaped(id, &wide);
        Ok(self.transposed(id, &Layout::RowMajor.to(layout, rank), layout))
    }

    /// A constant as data, with a shape that broadcasts as its own.
    fn constant(&mut self, tensor: TensorIndex, shape: &[usize], layout: Layout) -> Outcome<TensorId> {
        let ty = self.info(tensor)?.ty;
        let permutation = layout.permutation(shape.len());
        if ty.is_float() {
            let reals = self.reals(tensor)?;
            return Ok(self.floats(ty, &reals, shape, &permutation));
        }
        let beyond = |value: i64| Refusal::dtype(format!("constant {} holds {value}", self.name(tensor)));
        let mut bytes = Vec::new();
        for value in self.ints(tensor)? {
            match ty {
                Type::Bool => bytes.push(u8::from(value != 0)),
                _ => bytes.extend(i32::try_from(value).map_err(|_| beyond(value))?.to_le_bytes()),
            }
        }
        if bytes.is_empty() {
            return Err(Refusal::shape(format!("constant {} is empty", self.name(tensor))));
        }
        let bytes = layout::transpose(&bytes, ty.bytes(), shape, &permutation);
        Ok(self.fixed(ty, &layout.dims(shape), bytes))
    }

    /// A new tensor for a tensor of the graph, in an order of axes.
    pub(super) fn write(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<TensorId> {
        let info = self.info(tensor)?;
        let layout = of_rank(layout, info.shape.len());
        let id = self.tensor(info.ty, &layout.dims(&info.shape), layout);
        self.at.insert((tensor, layout), id);
        Ok(id)
    }

    /// Makes `id` the graph's tensor in this order.
    pub(super) fn settle(&mut self, id: TensorId, tensor: TensorIndex, layout: Layout) -> Outcome<()> {
        let info = self.info(tensor)?;
        if self.ty(id) != info.ty {
            let what = format!(
                "tensor {} of {:?} where {:?} comes out",
                self.name(tensor),
                info.ty,
                self.ty(id)
            );
            return Err(Refusal::dtype(what));
        }
        let layout = of_rank(layout, info.shape.len());
        let id = self.reshaped(id, &layout.dims(&info.shape));
        self.at.insert((tensor, layout), id);
        Ok(())
    }

    /// A port that is fed.
    pub(super) fn enter(&mut self, tensor: TensorIndex) -> Outcome<()> {
        let info = self.info(tensor)?;
        let id = self.tensor(info.ty, &info.shape, Layout::RowMajor);
        self.program.inputs.push(id);
        self.at.insert((tensor, Layout::RowMajor), id);
        Ok(())
    }

    /// A port that is read.
    pub(super) fn leave(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.node = None;
        let id = self.read(tensor, Layout::RowMajor)?;
        let made = self
            .program
            .operations
            .iter()
            .any(|operation| operation.outputs.contains(&id));
        let id = match made && !self.program.outputs.contains(&id) {
            true => id,
            false => {
                let dims = self.dims(id);
                self.copied(id, &dims, Layout::RowMajor)
            }
        };
        self.program.outputs.push(id);
        Ok(())
    }
}

/// Tensors of less than three axes have one order.
pub(super) fn of_rank(layout: Layout, rank: usize) -> Layout {
    if rank < 3 { Layout::RowMajor } else { layout }
}

/// The input at a place, which the node must have.
pub(super) fn input(node: &Node, place: usize) -> Outcome<TensorIndex> {
    node.input(place)
        .ok_or_else(|| Refusal::attribute(format!("{} without input {place}", node.op_name)))
}

/// The one output, where there is no other.
pub(super) fn output(node: &Node) -> Outcome<TensorIndex> {
    let mut outputs = node.writes();
    match (node.output(0), outputs.next(), outputs.next()) {
        (Some(output), Some(_), None) => Ok(output),
        _ => Err(Refusal::attribute(format!(
            "{} with more than its first output",
            node.op_name
        ))),
    }
}

/// An integer attribute, or what ONNX takes where it is left out.
pub(super) fn int(node: &Node, attr: Attr, default: i64) -> i64 {
    node.attributes.int(attr).unwrap_or(default)
}

/// The axis attribute, from the front.
pub(super) fn axis(node: &Node, default: i64, rank: usize) -> Outcome<usize> {
    let axis = int(node, Attr::Axis, default);
    polychip_ops::axis::normalise(axis, rank)
        .ok_or_else(|| Refusal::attribute(format!("axis {axis} of a tensor of {rank} axes")))
}

/// Axes that an input or an attribute gives, from the front; all where neither does.
pub(super) fn axes(l: &Lower<'_>, node: &Node, place: usize, rank: usize) -> Outcome<Vec<usize>> {
    let given = match (node.input(place), node.attributes.ints(Attr::Axes)) {
        (Some(axes), _) => l.ints(axes)?,
        (None, Some(axes)) => axes.to_vec(),
        (None, None) => Vec::new(),
    };
    if given.is_empty() {
        return Ok((0..rank).collect());
    }
    polychip_ops::axis::normalise_all(&given, rank)
        .ok_or_else(|| Refusal::attribute(format!("axes {given:?} of a tensor of {rank} axes")))
}
