//! A program in the making: its operands and steps, where each tensor of the graph is so far, and the
//! plugin's description of the chip that it is made for.
//!
//! Invariants:
//! 1. A tensor is made at most once per order of axes; ports are row-major and in the order of the graph.
//! 2. Every step names the node it was made for; every output port is an operand of its own that a step writes.
//! 3. An answer of a [`Vendor`] depends on its arguments only.
//!
//! Not here: which steps a node becomes (`dispatch`, and the file of each op class).

use std::collections::BTreeMap;

use polychip_ops::{DType, Op};

use super::constant;
use super::info::{Info, kept};
use super::program::{Kind, Operand, OperandId, Program, Quant, Role, Step, Type};
use super::traits::{Stored, Stores};
use crate::{Layout, Node, Outcome, Part, Refusal, Tensor, TensorIndex, layout};

/// What a node computes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Integers that encode reals; this is the type of the result, or of the first input.
    Fixed(Type),
    /// Floats.
    Float(Type),
    /// Plain integers and truth values.
    Whole,
}

/// A chip.
pub trait Vendor: Stores {
    /// Whether an op is a step of its own; some others are made of several.
    fn has(&self, op: Op) -> bool;

    /// Whether a Clip to this range is a step; else it is a maximum and a minimum.
    fn clips(&self, range: [f32; 2]) -> bool;

    /// The order in which an op must be computed, where it differs from other chips'.
    fn order(&self, op: Op, rank: usize) -> Option<Layout> {
        let _ = (op, rank);
        None
    }

    /// The encoding that the chip itself gives to a result of an op on integers of this type and encoding.
    fn own_quant(&self, op: Op, ty: Type, operand: &Quant) -> Option<Quant> {
        let _ = (op, ty, operand);
        None
    }

    /// Refuses what this chip alone does not compute.
    ///
    /// # Errors
    /// What it does not compute.
    fn check(&self, lower: &Lower<'_>, node: &Node, domain: Option<Domain>) -> Outcome<()> {
        let _ = (lower, node, domain);
        Ok(())
    }

    /// Refuses floats that the chip does not compute in; `name` is that of the tensor.
    ///
    /// # Errors
    /// Why not.
    fn floats(&self, ty: Type, name: &str) -> Outcome<()> {
        let _ = (ty, name);
        Ok(())
    }

    /// How integers are stored as weights: their type, what is taken off each, and the encoding.
    ///
    /// # Errors
    /// Where they cannot be.
    fn weights(&self, stored: &Stored<'_>) -> Outcome<(Type, i32, Quant)>;

    /// The type that the learned scales of a normalisation of integers are quantised to.
    fn scale_type(&self, data: Type) -> Type {
        let _ = data;
        Type::Ufixed8
    }

    /// The input of a step with weights, where the chip wants it as the type of the result.
    ///
    /// # Errors
    /// Where it cannot be.
    fn widened(&self, lower: &mut Lower<'_>, id: OperandId, result: Type) -> Outcome<OperandId> {
        let _ = (lower, result);
        Ok(id)
    }

    /// Makes the operands of the steps from `first` on one type, where a chip wants that.
    ///
    /// # Errors
    /// Where they cannot be.
    fn unify(&self, lower: &mut Lower<'_>, first: usize) -> Outcome<()> {
        let _ = (lower, first);
        Ok(())
    }
}

/// A program in the making.
pub struct Lower<'a> {
    /// The part.
    pub part: &'a Part,
    /// What its tensors are.
    pub infos: &'a [Outcome<Info>],
    /// So far.
    pub program: Program,
    pub(super) vendor: &'a dyn Vendor,
    data: bool,
    at: BTreeMap<super::program::Key, OperandId>,
    current: Option<u32>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(
        part: &'a Part,
        infos: &'a [Outcome<Info>],
        vendor: &'a dyn Vendor,
        data: bool,
    ) -> Lower<'a> {
        Lower {
            part,
            infos,
            vendor,
            data,
            program: Program::default(),
            at: BTreeMap::new(),
            current: None,
        }
    }

    /// Steps from here on are made for this node.
    pub(super) fn begin(&mut self, node: &Node) {
        self.current = Some(node.index);
    }

    // ---- what the graph says

    /// What a tensor of the graph is.
    ///
    /// # Errors
    /// Why it is none that the chip has.
    pub fn info(&self, tensor: TensorIndex) -> Outcome<&'a Info> {
        self.infos[tensor].as_ref().map_err(Clone::clone)
    }

    /// A tensor of the graph.
    pub fn view(&self, tensor: TensorIndex) -> &'a Tensor {
        &self.part.tensors[tensor]
    }

    pub(super) fn shape(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        Ok(&self.info(tensor)?.shape)
    }

    pub(super) fn rank(&self, tensor: TensorIndex) -> Outcome<usize> {
        Ok(self.shape(tensor)?.len())
    }

    /// The input at a place, which the node must have.
    ///
    /// # Errors
    /// That it is left out.
    pub fn input(&self, node: &Node, place: usize) -> Outcome<TensorIndex> {
        let missing = || Refusal::attribute(format!("{} without input {place}", node.op_name));
        node.input(place).ok_or_else(missing)
    }

    /// The output at a place, which somebody must want.
    pub(super) fn output_at(&self, node: &Node, place: usize) -> Outcome<TensorIndex> {
        let missing = || Refusal::attribute(format!("{} without output {place}", node.op_name));
        node.output(place).ok_or_else(missing)
    }

    /// The only output.
    ///
    /// # Errors
    /// That there is another.
    pub fn output(&self, node: &Node) -> Outcome<TensorIndex> {
        if node.outputs.iter().skip(1).any(Option::is_some) {
            let what = format!("{} with other outputs than its first", node.op_name);
            return Err(Refusal::attribute(what));
        }
        self.output_at(node, 0)
    }

    /// The integers of an input that must be constant.
    pub(super) fn ints(&self, tensor: TensorIndex) -> Outcome<Vec<i64>> {
        let view = self.view(tensor);
        view.wide_integers().ok_or_else(|| not_constant(&view.name))
    }

    /// The reals of an input that must be constant.
    pub(super) fn reals(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        let view = self.view(tensor);
        constant::reals(view).ok_or_else(|| not_constant(&view.name))
    }

    /// What a node computes on: all its reals are quantised, or all are floats.
    pub(super) fn domain(&self, node: &Node) -> Outcome<Domain> {
        let (mut fixed, mut float) = (None, None);
        for tensor in node.writes().chain(node.inputs.iter().copied().flatten()) {
            let info = self.info(tensor)?;
            let view = self.view(tensor);
            if view.is_constant() {
                continue;
            }
            if view.dtype == DType::I64 && !takes_i64(node.op) {
                return Err(Refusal::dtype(format!("tensor {} is of i64", view.name)));
            }
            if info.borrowed {
                return Err(Refusal::encoding(format!(
                    "tensor {} has plain integers here, and encodes reals elsewhere in the part",
                    view.name
                )));
            }
            let seen = match info.ty {
                ty if ty.is_quantised() => &mut fixed,
                ty if ty.is_float() => &mut float,
                _ => continue,
            };
            let (_, first) = *seen.get_or_insert((tensor, info.ty));
            if first != info.ty && !self.vendor.traits().mixes {
                let what = format!("tensor {} is of {:?}, others of {first:?}", view.name, info.ty);
                return Err(Refusal::dtype(what));
            }
        }
        match (fixed, float) {
            (Some((_, ty)), None) => Ok(Domain::Fixed(ty)),
            (None, None) => Ok(Domain::Whole),
            (Some(_), Some((tensor, _))) => Err(Refusal::encoding(format!(
                "tensor {} has no encoding, and the node's other tensors are quantised",
                self.view(tensor).name
            ))),
            (None, Some((tensor, ty))) => {
                self.vendor.floats(ty, &self.view(tensor).name)?;
                Ok(Domain::Float(ty))
            }
        }
    }

    // ---- operands and steps

    /// A new operand between steps.
    pub fn inner(&mut self, name: &str, ty: Type, quant: Quant, dims: &[usize]) -> OperandId {
        self.operand(name, ty, quant, dims, Role::Inner)
    }

    fn operand(&mut self, name: &str, ty: Type, quant: Quant, dims: &[usize], role: Role) -> OperandId {
        self.program.operands.push(Operand {
            name: name.to_owned(),
            ty,
            quant,
            // scalars have one axis of one element
            dims: if dims.is_empty() { vec![1] } else { dims.to_vec() },
            image: false,
            role,
        });
        self.program.operands.len() - 1
    }

    /// A new constant.
    pub(super) fn fixed(
        &mut self,
        name: &str,
        ty: Type,
        quant: Quant,
        dims: &[usize],
        bytes: Vec<u8>,
    ) -> OperandId {
        let bytes = if self.data { bytes } else { Vec::new() };
        self.operand(name, ty, quant, dims, Role::Data(bytes))
    }

    /// Constant reals beside operands of a domain, in which integers get a scale of their own, of type `ty`.
    pub(super) fn real(
        &mut self,
        name: &str,
        reals: &[f32],
        dims: &[usize],
        domain: Domain,
        ty: Type,
    ) -> Outcome<OperandId> {
        match domain {
            Domain::Float(ty) => {
                let bytes = constant::store_floats(ty, reals);
                Ok(self.fixed(name, ty, Quant::None, dims, bytes))
            }
            Domain::Fixed(_) => {
                let bad = || Refusal::encoding(format!("{name} cannot be quantised to {ty:?}"));
                let quant = constant::spanning(ty, reals).ok_or_else(bad)?;
                let stored = constant::quantise(ty, &quant, reals).ok_or_else(bad)?;
                let bytes = constant::store(ty, &stored);
                Ok(self.fixed(name, ty, quant, dims, bytes))
            }
            Domain::Whole => Err(Refusal::dtype(format!("{name} beside integers"))),
        }
    }

    /// A real as a constant of one element.
    pub(super) fn one(&mut self, value: f32, domain: Domain) -> Outcome<OperandId> {
        let ty = match domain {
            Domain::Fixed(ty) => ty,
            _ => Type::Ufixed8,
        };
        self.real("number", &[value], &[1], domain, ty)
    }

    /// A new step.
    pub fn step(&mut self, kind: Kind, inputs: &[OperandId], outputs: &[OperandId]) {
        self.program.steps.push(Step {
            kind,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            activation: None,
            node: self.current,
        });
    }

    /// The extents of an operand.
    pub fn dims(&self, id: OperandId) -> Vec<usize> {
        self.program.operands[id].dims.clone()
    }

    /// The type of an operand.
    pub fn ty(&self, id: OperandId) -> Type {
        self.program.operands[id].ty
    }

    /// The encoding of an operand.
    pub fn quant(&self, id: OperandId) -> Quant {
        self.program.operands[id].quant.clone()
    }

    /// A step whose one result has the type, encoding and order of its first input.
    pub(super) fn like(&mut self, kind: Kind, inputs: &[OperandId], dims: &[usize]) -> OperandId {
        let of = inputs[0];
        let out = self.inner("moved", self.ty(of), self.quant(of), dims);
        self.program.operands[out].image = self.program.operands[of].image && dims.len() == 4;
        self.step(kind, inputs, &[out]);
        out
    }

    /// The same elements with other extents.
    pub(super) fn reshaped(&mut self, id: OperandId, dims: &[usize]) -> OperandId {
        let dims = if dims.is_empty() { &[1] } else { dims };
        if self.program.operands[id].dims == dims {
            return id;
        }
        self.like(Kind::Reshape, &[id], dims)
    }

    /// The axes in another order: place `i` of the result is place `permutation[i]`.
    pub(super) fn transposed(&mut self, id: OperandId, permutation: &[usize]) -> OperandId {
        if permutation.is_sorted() {
            return id;
        }
        let dims = self.dims(id);
        let to: Vec<usize> = permutation.iter().map(|&place| dims[place]).collect();
        let kind = match layout::keeps_memory(&dims, permutation) {
            true if dims == to => return id,
            true => Kind::Reshape,
            false => Kind::Transpose(permutation.to_vec()),
        };
        let out = self.like(kind, &[id], &to);
        self.program.operands[out].image = false;
        out
    }

    /// The operand as another type or with another encoding.
    pub fn converted(&mut self, id: OperandId, ty: Type, quant: &Quant) -> OperandId {
        let from = self.ty(id);
        if from == ty && self.quant(id) == *quant {
            return id;
        }
        let traits = self.vendor.traits();
        // a byte and the same as a signed one: no other encoding
        let same = kept(from, self.quant(id), traits) == kept(ty, quant.clone(), traits);
        let id = if from.is_quantised() && ty.is_quantised() && !traits.requantises && !same {
            self.converted(id, Type::Float32, &Quant::None)
        } else {
            id
        };
        let out = self.inner("converted", ty, quant.clone(), &self.dims(id));
        self.program.operands[out].image = self.program.operands[id].image;
        self.step(Kind::Convert, &[id], &[out]);
        out
    }

    // ---- tensors of the graph

    fn keep(&mut self, tensor: TensorIndex, rank: usize, order: Layout, id: OperandId) {
        let operand = &mut self.program.operands[id];
        operand.image = order == Layout::ChannelsLast && rank == 4 && !matches!(operand.role, Role::Data(_));
        self.at.insert((tensor, order), id);
    }

    /// A tensor of the graph in an order of axes; a constant becomes one of the program.
    ///
    /// # Errors
    /// If the chip does not support the tensor, or no node produces it.
    pub fn read(&mut self, tensor: TensorIndex, order: Layout) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let rank = info.shape.len();
        let order = of_rank(order, rank);
        if let Some(&id) = self.at.get(&(tensor, order)) {
            return Ok(id);
        }
        let id = if self.view(tensor).is_constant() {
            self.data(tensor, info, &info.shape, order)?
        } else {
            let Some(&id) = self.at.get(&(tensor, order.other())) else {
                let what = format!("tensor {} is made by no node of the part", self.view(tensor).name);
                return Err(Refusal::shape(what));
            };
            self.transposed(id, &order.other().to(order, rank))
        };
        self.keep(tensor, rank, order, id);
        Ok(id)
    }

    /// A constant as data like any other: its shape may be given ones in front.
    pub(super) fn data(
        &mut self,
        tensor: TensorIndex,
        info: &Info,
        shape: &[usize],
        order: Layout,
    ) -> Outcome<OperandId> {
        let view = self.view(tensor);
        let bytes = if info.ty.is_float() {
            constant::store_floats(info.ty, &self.reals(tensor)?)
        } else {
            if info.ty.is_quantised() && info.quant == Quant::None {
                let what = format!(
                    "constant {} has more than one scale, which only weights may",
                    view.name
                );
                return Err(Refusal::encoding(what));
            }
            let mut integers = self.ints(tensor)?;
            if info.ty == Type::Sfixed8 && view.dtype == DType::U8 {
                integers.iter_mut().for_each(|value| *value -= 128);
            }
            if info.ty == Type::Int32 && integers.iter().any(|&value| i32::try_from(value).is_err()) {
                let what = format!("constant {} holds integers beyond 32 bits", view.name);
                return Err(Refusal::dtype(what));
            }
            constant::store(info.ty, &integers)
        };
        if !self.vendor.stores(info.ty) || bytes.is_empty() {
            let what = format!(
                "constant {} of {:?} {shape:?} is no data of the chip's",
                view.name, info.ty
            );
            return Err(Refusal::dtype(what));
        }
        let bytes = layout::transpose(&bytes, info.ty.bytes(), shape, &order.permutation(shape.len()));
        Ok(self.fixed("constant", info.ty, info.quant.clone(), &order.dims(shape), bytes))
    }

    /// An operand that broadcasts to `rank` axes; a constant float beside integers is quantised over its own range.
    pub(super) fn operand_of(
        &mut self,
        tensor: TensorIndex,
        order: Layout,
        rank: usize,
        domain: Domain,
    ) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let view = self.view(tensor);
        let order = of_rank(order, rank);
        let wide = match order {
            Layout::ChannelsLast => widened(&info.shape, rank),
            Layout::RowMajor => info.shape.clone(),
        };
        if view.is_constant() {
            if let (Domain::Fixed(ty), true) = (domain, info.ty.is_float()) {
                let all = self.reals(tensor)?;
                let moved = layout::transpose(
                    &constant::store_floats(Type::Float32, &all),
                    4,
                    &wide,
                    &order.permutation(wide.len()),
                );
                let moved: Vec<f32> = moved
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&bytes| f32::from_le_bytes(bytes))
                    .collect();
                return self.real(&view.name, &moved, &order.dims(&wide), domain, ty);
            }
            let ty = match domain {
                Domain::Float(ty) if info.ty.is_float() => ty,
                _ => info.ty,
            };
            return self.data(tensor, &Info { ty, ..info.clone() }, &wide, order);
        }
        if info.shape.len() == wide.len() {
            return self.read(tensor, order);
        }
        let id = self.read(tensor, Layout::RowMajor)?;
        let id = self.reshaped(id, &wide);
        Ok(self.transposed(id, &order.permutation(rank)))
    }

    /// A new operand for a tensor of the graph, in an order of axes.
    pub(super) fn write(&mut self, tensor: TensorIndex, order: Layout) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let order = of_rank(order, info.shape.len());
        let id = self.inner("tensor", info.ty, info.quant.clone(), &order.dims(&info.shape));
        self.keep(tensor, info.shape.len(), order, id);
        Ok(id)
    }

    /// Makes `id` the graph's tensor in this order: as it is, or with other extents or converted.
    pub(super) fn settle(&mut self, id: OperandId, tensor: TensorIndex, order: Layout) -> Outcome<()> {
        let info = self.info(tensor)?;
        let order = of_rank(order, info.shape.len());
        let id = self.reshaped(id, &order.dims(&info.shape));
        let id = self.converted(id, info.ty, &info.quant);
        self.keep(tensor, info.shape.len(), order, id);
        Ok(())
    }

    /// A step whose result is the graph's tensor, in its own type and encoding.
    pub(super) fn result(
        &mut self,
        kind: Kind,
        inputs: &[OperandId],
        tensor: TensorIndex,
        order: Layout,
    ) -> Outcome<()> {
        let out = self.write(tensor, order)?;
        self.step(kind, inputs, &[out]);
        Ok(())
    }

    /// As [`Lower::result`], through extents that the tensor does not have.
    pub(super) fn result_of(
        &mut self,
        kind: Kind,
        inputs: &[OperandId],
        dims: &[usize],
        tensor: TensorIndex,
        order: Layout,
    ) -> Outcome<()> {
        let info = self.info(tensor)?;
        let out = self.inner("result", info.ty, info.quant.clone(), dims);
        self.program.operands[out].image = order == Layout::ChannelsLast && dims.len() == 4;
        self.step(kind, inputs, &[out]);
        self.settle(out, tensor, order)
    }

    /// A step that moves elements: its result has the encoding of its first input, and is converted behind it where the
    /// graph wants another one.
    pub(super) fn moved(
        &mut self,
        kind: Kind,
        inputs: &[OperandId],
        tensor: TensorIndex,
        order: Layout,
    ) -> Outcome<()> {
        let shape = self.shape(tensor)?;
        let dims = of_rank(order, shape.len()).dims(shape);
        let out = self.like(kind, inputs, &dims);
        self.settle(out, tensor, order)
    }

    /// A port that is fed.
    pub(super) fn port_in(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let info = self.info(tensor)?;
        let view = self.view(tensor);
        let (ty, quant) = of_port(view, info);
        let id = self.operand(&view.name, ty, quant, &info.shape, Role::Input);
        self.program.inputs.push(id);
        let inner = self.converted(id, info.ty, &info.quant);
        self.at.insert((tensor, Layout::RowMajor), inner);
        Ok(())
    }

    /// A port that is read.
    pub(super) fn port_out(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let id = self.read(tensor, Layout::RowMajor)?;
        let view = self.view(tensor);
        let (ty, quant) = of_port(view, self.info(tensor)?);
        let id = if ty != self.ty(id) {
            self.converted(id, ty, &quant)
        } else if self.program.operands[id].role == Role::Inner {
            id
        } else {
            let dims = self.dims(id);
            self.like(Kind::Reshape, &[id], &dims)
        };
        let operand = &mut self.program.operands[id];
        operand.role = Role::Output;
        operand.name.clone_from(&view.name);
        self.program.outputs.push(id);
        Ok(())
    }
}

/// The type and encoding of a tensor outside the part, where it is another than inside.
fn of_port(view: &Tensor, info: &Info) -> (Type, Quant) {
    match (view.dtype, info.ty, &info.quant) {
        (DType::I64, ..) => (Type::Int64, info.quant.clone()),
        (DType::U8, Type::Sfixed8, &Quant::PerTensor { scale, zero }) => {
            let zero = zero + 128;
            (Type::Ufixed8, Quant::PerTensor { scale, zero })
        }
        _ => (info.ty, info.quant.clone()),
    }
}

/// Ops whose 64-bit integers are indices, which fit 32 bits.
fn takes_i64(op: Op) -> bool {
    matches!(op, Op::ArgMax | Op::ArgMin | Op::TopK)
}

/// Tensors of less than three axes have one order.
pub(super) fn of_rank(order: Layout, rank: usize) -> Layout {
    if rank < 3 { Layout::RowMajor } else { order }
}

/// A shape with ones in front.
pub(super) fn widened(shape: &[usize], rank: usize) -> Vec<usize> {
    [vec![1; rank.saturating_sub(shape.len())], shape.to_vec()].concat()
}

/// An axis from the front.
pub(super) fn axis(axis: i64, rank: usize) -> Outcome<usize> {
    axes_of(&[axis], rank).map(|axes| axes[0])
}

/// Axes from the front.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Outcome<Vec<usize>> {
    polychip_ops::axis::normalise_all(axes, rank)
        .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of {rank}")))
}

/// A refusal of an input that would have to be constant.
pub(super) fn not_constant(name: &str) -> Refusal {
    Refusal::constant(format!("tensor {name} would have to be a constant"))
}
