//! A program in the making: its tensors and operations, and where each tensor of the graph is so far.
//!
//! Invariants:
//! 1. A tensor is made at most once per order of axes; ports are row-major and in the order of the graph.
//! 2. Every operation names the node it was made for.
//!
//! Not here: which operations a node becomes (`dispatch`, and the file of each op class).

use std::collections::BTreeMap;

use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, TensorIndex, layout};
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::Reason;

use crate::constant;
use crate::info::Info;
use crate::program::{Operation, Param, Program, Quant, Role, Tensor, TensorId, Type};
use crate::soc::Soc;

/// What is compiled for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// The chip.
    pub(crate) soc: Soc,
    /// Whether tensors of f32 may be computed in 16-bit floats.
    pub(crate) reduced: bool,
    /// Whether normalisations of 16-bit data take a scale of 16 bits.
    pub(crate) wide_scales: bool,
}

/// What a node computes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// Integers that stand for reals; this is the type of the result, or of the first input.
    Fixed(Type),
    /// Floats.
    Float(Type),
    /// Plain integers and truth values.
    Whole,
}

/// What lowers a node in an order of axes, on its domain.
pub(super) type Compute<'a> = fn(&mut Lower<'a>, &Node, Layout, Domain) -> Outcome<()>;

/// A program in the making.
pub(super) struct Lower<'a> {
    pub(super) part: &'a Part,
    pub(super) infos: &'a [Outcome<Info>],
    pub(super) target: Target,
    pub(super) data: bool,
    pub(super) program: Program,
    pub(super) at: BTreeMap<(TensorIndex, Layout), TensorId>,
    pub(super) current: Option<u32>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(part: &'a Part, infos: &'a [Outcome<Info>], target: Target, data: bool) -> Lower<'a> {
        Lower {
            part,
            infos,
            target,
            data,
            program: Program::default(),
            at: BTreeMap::new(),
            current: None,
        }
    }

    /// What a tensor of the graph is.
    pub(super) fn info(&self, tensor: TensorIndex) -> Outcome<Info> {
        self.infos[tensor].clone()
    }

    pub(super) fn view(&self, tensor: TensorIndex) -> &'a polychip_lowering::Tensor {
        &self.part.tensors[tensor]
    }

    pub(super) fn shape(&self, tensor: TensorIndex) -> Outcome<Vec<usize>> {
        Ok(self.info(tensor)?.shape)
    }

    /// The input at a place, which the node must have.
    pub(super) fn input(&self, node: &Node, place: usize) -> Outcome<TensorIndex> {
        node.input(place)
            .ok_or_else(|| Refusal::attribute(format!("input {place} is left out")))
    }

    /// The output at a place, which somebody must want.
    pub(super) fn output(&self, node: &Node, place: usize) -> Outcome<TensorIndex> {
        node.output(place)
            .ok_or_else(|| Refusal::attribute(format!("output {place} is left out")))
    }

    /// Refuses outputs from this place on.
    pub(super) fn no_output(&self, node: &Node, place: usize) -> Outcome<()> {
        match node.outputs.iter().copied().skip(place).flatten().next() {
            None => Ok(()),
            Some(tensor) => {
                let what = format!(
                    "output {} of {} is not offered",
                    self.view(tensor).name,
                    node.op_name
                );
                Err(Refusal::attribute(what))
            }
        }
    }

    /// The integers of an input that must be constant.
    pub(super) fn constant_ints(&self, tensor: TensorIndex) -> Outcome<Vec<i64>> {
        let view = self.view(tensor);
        view.wide_integers().ok_or_else(|| not_constant(view))
    }

    /// The reals of an input that must be constant.
    pub(super) fn constant_reals(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        let view = self.view(tensor);
        constant::reals(view).ok_or_else(|| not_constant(view))
    }

    /// A new tensor.
    pub(super) fn tensor(
        &mut self,
        name: String,
        ty: Type,
        quant: Quant,
        dims: &[usize],
        role: Role,
    ) -> TensorId {
        // scalars have one axis of one element
        let mut dims: Vec<u32> = dims.iter().map(|&dim| dim as u32).collect();
        if dims.is_empty() {
            dims.push(1);
        }
        let id = self.program.tensors.len();
        self.program.tensors.push(Tensor {
            name: format!("{id}_{name}"),
            ty,
            quant,
            dims,
            role,
        });
        id
    }

    /// A new tensor between operations.
    pub(super) fn native(&mut self, name: &str, ty: Type, quant: Quant, dims: &[usize]) -> TensorId {
        self.tensor(name.to_owned(), ty, quant, dims, Role::Native)
    }

    /// A new constant.
    pub(super) fn fixed(
        &mut self,
        name: &str,
        ty: Type,
        quant: Quant,
        dims: &[usize],
        bytes: Vec<u8>,
    ) -> TensorId {
        let bytes = if self.data { bytes } else { Vec::new() };
        self.tensor(name.to_owned(), ty, quant, dims, Role::Static(bytes))
    }

    /// A new operation.
    pub(super) fn op(
        &mut self,
        kind: &'static str,
        params: Vec<(&'static str, Param)>,
        inputs: &[TensorId],
        outputs: &[TensorId],
    ) {
        let number = self.program.operations.len();
        self.program.operations.push(Operation {
            name: format!("{number}_{kind}"),
            kind,
            params,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            node: self.current,
        });
    }

    pub(super) fn dims_of(&self, id: TensorId) -> Vec<usize> {
        let dims = &self.program.tensors[id].dims;
        dims.iter().map(|&dim| dim as usize).collect()
    }

    pub(super) fn ty_of(&self, id: TensorId) -> Type {
        self.program.tensors[id].ty
    }

    pub(super) fn quant_of(&self, id: TensorId) -> Quant {
        self.program.tensors[id].quant.clone()
    }

    /// The same elements with other extents.
    pub(super) fn reshaped(&mut self, id: TensorId, dims: &[usize]) -> TensorId {
        let mut wanted = dims.to_vec();
        if wanted.is_empty() {
            wanted.push(1);
        }
        if self.dims_of(id) == wanted {
            return id;
        }
        let out = self.native("reshaped", self.ty_of(id), self.quant_of(id), dims);
        self.op("Reshape", Vec::new(), &[id], &[out]);
        out
    }

    /// The tensor with its axes in another order: place `i` of the result is place `permutation[i]`.
    pub(super) fn transposed(&mut self, id: TensorId, permutation: &[usize]) -> TensorId {
        let dims = self.dims_of(id);
        if permutation.is_sorted() {
            return id;
        }
        let to: Vec<usize> = permutation.iter().map(|&place| dims[place]).collect();
        if layout::keeps_memory(&dims, permutation) {
            return self.reshaped(id, &to);
        }
        let out = self.native("transposed", self.ty_of(id), self.quant_of(id), &to);
        let perm = u32s(permutation);
        self.op("Transpose", vec![("perm", perm)], &[id], &[out]);
        out
    }

    /// The tensor as another type or with another encoding.
    pub(super) fn converted(&mut self, id: TensorId, ty: Type, quant: &Quant) -> TensorId {
        if self.ty_of(id) == ty && self.quant_of(id) == *quant {
            return id;
        }
        let dims = self.dims_of(id);
        let out = self.native("converted", ty, quant.clone(), &dims);
        self.convert_into(id, out);
        out
    }

    pub(super) fn convert_into(&mut self, from: TensorId, to: TensorId) {
        let kind = match (self.ty_of(from).is_quantised(), self.ty_of(to).is_quantised()) {
            (true, true) => "Convert",
            (true, false) => "Dequantize",
            (false, true) => "Quantize",
            (false, false) => "Cast",
        };
        self.op(kind, Vec::new(), &[from], &[to]);
    }

    /// A tensor of the graph in an order of axes; a constant becomes a static tensor.
    pub(super) fn read(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<TensorId> {
        let view = self.view(tensor);
        let info = self.info(tensor)?;
        let layout = if info.shape.len() < 3 {
            Layout::RowMajor
        } else {
            layout
        };
        if let Some(&id) = self.at.get(&(tensor, layout)) {
            return Ok(id);
        }
        let id = if view.is_constant() {
            self.static_data(tensor, &info, &info.shape.clone(), layout)?
        } else {
            let other = layout.other();
            let Some(&id) = self.at.get(&(tensor, other)) else {
                let what = format!("tensor {} is made by no node of the part", view.name);
                return Err(Refusal::shape(what));
            };
            let permutation = other.to(layout, info.shape.len());
            self.transposed(id, &permutation)
        };
        self.at.insert((tensor, layout), id);
        Ok(id)
    }

    /// A constant as data like any other: its shape may be given ones in front.
    pub(super) fn static_data(
        &mut self,
        tensor: TensorIndex,
        info: &Info,
        shape: &[usize],
        layout: Layout,
    ) -> Outcome<TensorId> {
        let view = self.view(tensor);
        let bytes = if info.ty.is_float() {
            let reals = self.constant_reals(tensor)?;
            constant::store_floats(info.ty, &reals)
        } else {
            if info.ty.is_quantised() && info.quant == Quant::None {
                let what = format!(
                    "constant {} has more than one scale, which only weights may",
                    view.name
                );
                return Err(Refusal::encoding(what));
            }
            constant::store(info.ty, &self.constant_ints(tensor)?)
        };
        let bytes = layout::transpose(&bytes, info.ty.bytes(), shape, &layout.permutation(shape.len()));
        let dims = layout.dims(shape);
        Ok(self.fixed("constant", info.ty, info.quant.clone(), &dims, bytes))
    }

    /// An operand of an operation that broadcasts to `rank` axes.
    pub(super) fn operand(
        &mut self,
        tensor: TensorIndex,
        layout: Layout,
        rank: usize,
        domain: Domain,
    ) -> Outcome<TensorId> {
        let info = self.info(tensor)?;
        let view = self.view(tensor);
        let mut shape = info.shape.clone();
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        if layout == Layout::ChannelsLast {
            while shape.len() < rank {
                shape.insert(0, 1);
            }
        }
        if view.is_constant() {
            let mut info = info;
            if let (Domain::Fixed(ty), true) = (domain, info.ty.is_float()) {
                return self.quantised(tensor, ty, &shape, layout);
            }
            if let (Domain::Float(ty), true) = (domain, info.ty.is_float()) {
                info.ty = ty;
            }
            return self.static_data(tensor, &info, &shape, layout);
        }
        if info.shape.len() == shape.len() {
            return self.read(tensor, layout);
        }
        let id = self.read(tensor, Layout::RowMajor)?;
        let id = self.reshaped(id, &shape);
        Ok(self.transposed(id, &layout.permutation(rank)))
    }

    /// A constant of floats, quantised over its own range.
    fn quantised(
        &mut self,
        tensor: TensorIndex,
        ty: Type,
        shape: &[usize],
        layout: Layout,
    ) -> Outcome<TensorId> {
        let reals = self.constant_reals(tensor)?;
        let name = self.view(tensor).name.clone();
        let bad = || Refusal::encoding(format!("constant {name} cannot be quantised to {ty:?}"));
        let quant = constant::spanning(ty, &reals).ok_or_else(bad)?;
        let stored = constant::quantise(ty, &quant, &reals).ok_or_else(bad)?;
        let bytes = constant::store(ty, &stored);
        let bytes = layout::transpose(&bytes, ty.bytes(), shape, &layout.permutation(shape.len()));
        Ok(self.fixed("quantised", ty, quant, &layout.dims(shape), bytes))
    }

    /// A new tensor for a tensor of the graph, written in an order of axes.
    pub(super) fn write(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<TensorId> {
        let info = self.info(tensor)?;
        let layout = if info.shape.len() < 3 {
            Layout::RowMajor
        } else {
            layout
        };
        let dims = layout.dims(&info.shape);
        let id = self.native("tensor", info.ty, info.quant, &dims);
        self.at.insert((tensor, layout), id);
        Ok(id)
    }

    /// Makes `id`, of the right extents in this order, the graph's tensor: as it is, or converted.
    pub(super) fn settle(&mut self, id: TensorId, tensor: TensorIndex, layout: Layout) -> Outcome<()> {
        let info = self.info(tensor)?;
        let layout = if info.shape.len() < 3 {
            Layout::RowMajor
        } else {
            layout
        };
        let id = self.reshaped(id, &layout.dims(&info.shape));
        let id = self.converted(id, info.ty, &info.quant);
        self.at.insert((tensor, layout), id);
        Ok(())
    }

    /// Emits an operation that moves elements: its result has the encoding of `input`, and is converted
    /// behind it where the graph wants another one.
    pub(super) fn moved(
        &mut self,
        kind: &'static str,
        params: Vec<(&'static str, Param)>,
        input: TensorId,
        more: &[TensorId],
        tensor: TensorIndex,
        layout: Layout,
    ) -> Outcome<()> {
        let info = self.info(tensor)?;
        let layout = if info.shape.len() < 3 {
            Layout::RowMajor
        } else {
            layout
        };
        let dims = layout.dims(&info.shape);
        let out = self.native("moved", self.ty_of(input), self.quant_of(input), &dims);
        let mut inputs = vec![input];
        inputs.extend_from_slice(more);
        self.op(kind, params, &inputs, &[out]);
        self.settle(out, tensor, layout)
    }

    pub(super) fn port_in(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let info = self.info(tensor)?;
        let name = port_name(self.view(tensor));
        let wide = self.view(tensor).dtype == DType::I64;
        let ty = if wide { Type::Int64 } else { info.ty };
        let id = self.tensor(name, ty, info.quant.clone(), &info.shape, Role::Write);
        self.program.inputs.push(id);
        let inner = self.converted(id, info.ty, &info.quant);
        self.at.insert((tensor, Layout::RowMajor), inner);
        Ok(())
    }

    pub(super) fn port_out(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let info = self.info(tensor)?;
        let name = port_name(self.view(tensor));
        let id = self.read(tensor, Layout::RowMajor)?;
        let wide = self.view(tensor).dtype == DType::I64;
        let native = self.program.tensors[id].role == Role::Native;
        let out = if wide {
            let out = self.tensor(name, Type::Int64, Quant::None, &info.shape, Role::Read);
            self.op("Cast", Vec::new(), &[id], &[out]);
            out
        } else if native {
            self.program.tensors[id].role = Role::Read;
            id
        } else {
            let out = self.tensor(name, info.ty, info.quant, &info.shape, Role::Read);
            self.op("Reshape", Vec::new(), &[id], &[out]);
            out
        };
        self.program.outputs.push(out);
        Ok(())
    }

    /// What a node computes on: all its reals are quantised, or all are floats.
    pub(super) fn domain(&self, node: &Node) -> Outcome<Domain> {
        let mut fixed = None;
        let mut float: Option<(TensorIndex, Type)> = None;
        for tensor in node.writes().chain(node.inputs.iter().copied().flatten()) {
            let info = self.info(tensor)?;
            if self.view(tensor).is_constant() {
                continue;
            }
            if self.view(tensor).dtype == DType::I64 && !takes_i64(node.op) {
                let what = format!("tensor {} is of i64", self.view(tensor).name);
                return Err(Refusal::new(Reason::DType, what));
            }
            if info.borrowed {
                return Err(Refusal::encoding(format!(
                    "tensor {} is of plain integers here, and stands for reals elsewhere in the part",
                    self.view(tensor).name
                )));
            }
            if info.ty.is_quantised() {
                fixed = fixed.or(Some(info.ty));
            } else if info.ty.is_float() {
                float = float.or(Some((tensor, info.ty)));
            }
        }
        match (fixed, float) {
            (Some(ty), None) => Ok(Domain::Fixed(ty)),
            (None, None) => Ok(Domain::Whole),
            (Some(_), Some((tensor, _))) => Err(Refusal::encoding(format!(
                "tensor {} has no encoding, and the node's other tensors are quantised",
                self.view(tensor).name
            ))),
            (None, Some((tensor, ty))) => {
                self.floats(tensor, ty)?;
                Ok(Domain::Float(ty))
            }
        }
    }

    /// Refuses floats that the chip does not compute in.
    pub(super) fn floats(&self, tensor: TensorIndex, ty: Type) -> Outcome<()> {
        let name = &self.view(tensor).name;
        if !self.target.soc.floats {
            let what = format!(
                "tensor {name} has no encoding, and {} computes in integers only: quantise the model",
                self.target.soc.title()
            );
            return Err(Refusal::encoding(what));
        }
        if ty == Type::Float32 && !self.target.reduced {
            let what = format!(
                "tensor {name} is of f32, which the NPU computes in 16 bits; precision \"reduced\" allows it"
            );
            return Err(Refusal::new(Reason::DType, what));
        }
        Ok(())
    }

    /// What a node with weights computes on once its input is `id`.
    pub(super) fn domain_of(&self, id: TensorId, domain: Domain) -> Domain {
        match domain {
            Domain::Fixed(_) => Domain::Fixed(self.ty_of(id)),
            other => other,
        }
    }
}

/// Ops whose 64-bit integers are indices, which fit 32 bits.
fn takes_i64(op: Op) -> bool {
    matches!(op, Op::ArgMax | Op::ArgMin | Op::TopK)
}

fn not_constant(view: &polychip_lowering::Tensor) -> Refusal {
    Refusal::new(
        Reason::NotConstant,
        format!("tensor {} would have to be a constant", view.name),
    )
}

fn port_name(view: &polychip_lowering::Tensor) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = view.name.chars().take(64).map(plain).collect();
    if name.is_empty() { "port".to_owned() } else { name }
}

/// A parameter of one axis.
pub(super) fn u32s(values: &[usize]) -> Param {
    Param::U32s {
        dims: vec![values.len() as u32],
        values: values.iter().map(|&value| value as u32).collect(),
    }
}

/// A parameter of pairs.
pub(super) fn pairs(values: &[(usize, usize)]) -> Param {
    Param::U32s {
        dims: vec![values.len() as u32, 2],
        values: values
            .iter()
            .flat_map(|&(first, second)| [first as u32, second as u32])
            .collect(),
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
        .ok_or_else(|| Refusal::attribute(format!("axis {axis} of a tensor of {rank}")))
}
