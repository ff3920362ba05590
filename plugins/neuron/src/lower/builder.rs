//! A program in the making: its operands and operations, and where each tensor of the graph is so far.
//!
//! Invariants:
//! 1. A tensor is made at most once per order of axes; ports are row-major and in the order of the graph.
//! 2. Every operation names the node it was made for.
//!
//! Not here: which operations a node becomes (`dispatch`, and the file of each op class).

use std::collections::BTreeMap;

use half::f16;
use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, Tensor, TensorIndex, layout};
use polychip_ops::Attr;
use polychip_sys::neuron::bindings as sys;

use crate::info::{self, Info};
use crate::program::{Operand, OperandId, Operation, Program, Quant, Type, Value, number};

/// A program in the making.
pub(super) struct Lower<'a> {
    pub(super) part: &'a Part,
    pub(super) infos: &'a [Outcome<Info>],
    data: bool,
    pub(super) program: Program,
    types: BTreeMap<OperandId, Type>,
    at: BTreeMap<(TensorIndex, Layout), OperandId>,
    pub(super) current: Option<u32>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(part: &'a Part, infos: &'a [Outcome<Info>], data: bool) -> Lower<'a> {
        Lower {
            part,
            infos,
            data,
            program: Program::default(),
            types: BTreeMap::new(),
            at: BTreeMap::new(),
            current: None,
        }
    }

    pub(super) fn info(&self, tensor: TensorIndex) -> Outcome<&'a Info> {
        info::of(self.infos, tensor)
    }

    pub(super) fn view(&self, tensor: TensorIndex) -> &'a Tensor {
        &self.part.tensors[tensor]
    }

    pub(super) fn shape(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        Ok(&self.info(tensor)?.shape)
    }

    /// The integers of an input that must be constant.
    pub(super) fn ints(&self, tensor: TensorIndex) -> Outcome<Vec<i64>> {
        let view = self.view(tensor);
        let wanted = || Refusal::constant(format!("tensor {} would have to be constant integers", view.name));
        view.wide_integers().ok_or_else(wanted)
    }

    // ---- operands

    /// A new tensor between operations.
    pub(super) fn tensor(&mut self, ty: Type, quant: Quant, dims: &[usize]) -> OperandId {
        let id = self.program.operand(Operand {
            code: ty.code(),
            dims: extents(dims),
            quant,
            channels: None,
            value: None,
        });
        self.types.insert(id, ty);
        id
    }

    /// A new tensor of constant data.
    pub(super) fn fixed(&mut self, ty: Type, quant: Quant, dims: &[usize], bytes: Vec<u8>) -> OperandId {
        let id = self.tensor(ty, quant, dims);
        let bytes = if self.data { bytes } else { Vec::new() };
        self.program.operands[id].value = Some(Value::Data(bytes));
        id
    }

    fn scalar(&mut self, code: u32, value: Value) -> OperandId {
        self.program.operand(Operand {
            code,
            dims: Vec::new(),
            quant: Quant::default(),
            channels: None,
            value: Some(value),
        })
    }

    /// A whole number.
    pub(super) fn int(&mut self, value: usize) -> OperandId {
        self.scalar(sys::NEURON_INT32, number(value as i32))
    }

    /// A signed whole number.
    pub(super) fn signed(&mut self, value: i32) -> OperandId {
        self.scalar(sys::NEURON_INT32, number(value))
    }

    /// A truth value.
    pub(super) fn truth(&mut self, value: bool) -> OperandId {
        self.scalar(sys::NEURON_BOOL, Value::Parameter(vec![u8::from(value)]))
    }

    /// A real number, of 16 bits beside tensors of such.
    pub(super) fn real(&mut self, beside: Type, value: f32) -> OperandId {
        match beside {
            Type::F16 => self.scalar(
                sys::NEURON_FLOAT16,
                Value::Parameter(f16::from_f32(value).to_le_bytes().to_vec()),
            ),
            _ => self.scalar(
                sys::NEURON_FLOAT32,
                Value::Parameter(value.to_le_bytes().to_vec()),
            ),
        }
    }

    /// A tensor of whole numbers.
    pub(super) fn numbers(&mut self, dims: &[usize], values: &[i32]) -> OperandId {
        let id = self.tensor(Type::I32, Quant::default(), dims);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.program.operands[id].value = Some(Value::Parameter(bytes));
        id
    }

    /// A list of extents or axes.
    pub(super) fn list(&mut self, values: &[usize]) -> OperandId {
        let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
        self.numbers(&[values.len()], &values)
    }

    /// No activation.
    pub(super) fn unfused(&mut self) -> OperandId {
        self.int(sys::NEURON_FUSED_NONE as usize)
    }

    // ---- operations

    pub(super) fn op(&mut self, code: u32, inputs: &[OperandId], outputs: &[OperandId]) {
        self.program.operations.push(Operation {
            code,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            node: self.current,
        });
    }

    /// An operation whose result has the type and encoding of an operand.
    pub(super) fn like(
        &mut self,
        code: u32,
        of: OperandId,
        dims: &[usize],
        inputs: &[OperandId],
    ) -> OperandId {
        let out = self.tensor(self.ty(of), self.quant(of), dims);
        self.op(code, inputs, &[out]);
        out
    }

    pub(super) fn ty(&self, id: OperandId) -> Type {
        self.types[&id]
    }

    pub(super) fn quant(&self, id: OperandId) -> Quant {
        self.program.operands[id].quant
    }

    pub(super) fn dims(&self, id: OperandId) -> Vec<usize> {
        let dims = &self.program.operands[id].dims;
        dims.iter().map(|&dim| dim as usize).collect()
    }

    /// The same elements with other extents.
    pub(super) fn reshaped(&mut self, id: OperandId, dims: &[usize]) -> Outcome<OperandId> {
        if self.program.operands[id].dims == extents(dims) {
            return Ok(id);
        }
        // of whole numbers, host libraries say yes and fail when they compile
        if matches!(self.ty(id), Type::Bool | Type::I32) {
            return Err(Refusal::dtype(format!(
                "{:?} in another shape: the library reshapes none",
                self.ty(id)
            )));
        }
        let to = self.list(if dims.is_empty() { &[1] } else { dims });
        Ok(self.like(sys::NEURON_RESHAPE, id, dims, &[id, to]))
    }

    /// The axes in another order: place `i` of the result is place `permutation[i]`.
    pub(super) fn transposed(&mut self, id: OperandId, permutation: &[usize]) -> Outcome<OperandId> {
        if permutation.is_sorted() {
            return Ok(id);
        }
        let dims = self.dims(id);
        let to: Vec<usize> = permutation.iter().map(|&place| dims[place]).collect();
        if layout::keeps_memory(&dims, permutation) {
            return self.reshaped(id, &to);
        }
        if self.ty(id) == Type::Bool {
            return Err(Refusal::dtype(
                "truth values in another order: the library moves none",
            ));
        }
        let perm = self.list(permutation);
        Ok(self.like(sys::NEURON_TRANSPOSE, id, &to, &[id, perm]))
    }

    /// The tensor with another type or encoding.
    pub(super) fn converted(&mut self, id: OperandId, ty: Type, quant: Quant) -> Outcome<OperandId> {
        let (from, own) = (self.ty(id), self.quant(id));
        if from == ty && own == quant {
            return Ok(id);
        }
        let dims = self.dims(id);
        let float = if from.is_quantised() && ty.is_quantised() {
            self.steps(sys::NEURON_DEQUANTIZE, id, Type::F32, Quant::default(), &dims)
        } else {
            id
        };
        Ok(match (self.ty(float).is_float(), ty) {
            (true, Type::U8 | Type::S8) => self.steps(sys::NEURON_QUANTIZE, float, ty, quant, &dims),
            (false, Type::F32 | Type::F16) if from.is_quantised() => {
                self.steps(sys::NEURON_DEQUANTIZE, float, ty, quant, &dims)
            }
            (true, Type::F32 | Type::F16) => self.steps(sys::NEURON_CAST, float, ty, quant, &dims),
            _ => return Err(Refusal::dtype(format!("{from:?} becomes {ty:?} in no operation"))),
        })
    }

    fn steps(&mut self, code: u32, id: OperandId, ty: Type, quant: Quant, dims: &[usize]) -> OperandId {
        let out = self.tensor(ty, quant, dims);
        self.op(code, &[id], &[out]);
        out
    }

    // ---- tensors of the graph

    /// A tensor of the graph in an order of axes; a constant becomes one of the program.
    pub(super) fn read(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<OperandId> {
        let shape = self.shape(tensor)?;
        self.read_as(tensor, shape.len(), layout)
    }

    /// As [`Lower::read`], as an operand that broadcasts to `rank` axes.
    pub(super) fn read_as(&mut self, tensor: TensorIndex, rank: usize, layout: Layout) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let mut shape = info.shape.clone();
        let layout = if rank < 3 { Layout::RowMajor } else { layout };
        if layout == Layout::ChannelsLast {
            while shape.len() < rank {
                shape.insert(0, 1);
            }
        }
        let whole = shape.len() == info.shape.len();
        if let Some(&id) = self.at.get(&(tensor, layout)).filter(|_| whole) {
            return Ok(id);
        }
        let id = if self.part.is_constant(tensor) {
            self.constant(tensor, info, &shape, layout)?
        } else {
            let from = if whole { layout.other() } else { Layout::RowMajor };
            let known = match self.at.get(&(tensor, from)) {
                Some(&id) => id,
                // narrower operands are read row-major, whoever made them
                None if !whole => self.read(tensor, Layout::RowMajor)?,
                None => {
                    let what = format!("tensor {} is made by no node of the part", self.view(tensor).name);
                    return Err(Refusal::shape(what));
                }
            };
            let known = self.reshaped(known, &from.dims(&shape))?;
            self.transposed(known, &from.to(layout, shape.len()))?
        };
        if whole {
            self.at.insert((tensor, layout), id);
        }
        Ok(id)
    }

    /// A constant as data, its shape as given.
    fn constant(
        &mut self,
        tensor: TensorIndex,
        info: &Info,
        shape: &[usize],
        layout: Layout,
    ) -> Outcome<OperandId> {
        let view = self.view(tensor);
        if info.ty.is_quantised() && info.quant == Quant::default() {
            let what = format!("constant {} has no encoding, or one of several scales", view.name);
            return Err(Refusal::encoding(what));
        }
        let bytes = match view.bytes() {
            Some(bytes) if view.dtype.byte_width() == Some(info.ty.bytes()) => bytes.into_owned(),
            _ => self
                .narrow(tensor)?
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        };
        if bytes.is_empty() {
            return Err(Refusal::shape(format!("constant {} is empty", view.name)));
        }
        let bytes = layout::transpose(&bytes, info.ty.bytes(), shape, &layout.permutation(shape.len()));
        Ok(self.fixed(info.ty, info.quant, &layout.dims(shape), bytes))
    }

    /// The integers of a constant, all of which fit 32 bits.
    fn narrow(&self, tensor: TensorIndex) -> Outcome<Vec<i32>> {
        let fits = |value: i64| {
            i32::try_from(value).map_err(|_| {
                Refusal::dtype(format!(
                    "constant {} holds {value}, beyond 32 bits",
                    self.view(tensor).name
                ))
            })
        };
        self.ints(tensor)?.into_iter().map(fits).collect()
    }

    /// A new tensor for a tensor of the graph, written in an order of axes.
    pub(super) fn write(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let layout = order(layout, info.shape.len());
        let id = self.tensor(info.ty, info.quant, &layout.dims(&info.shape));
        self.at.insert((tensor, layout), id);
        Ok(id)
    }

    /// Makes `id` the graph's tensor in this order: as it is, or converted.
    pub(super) fn settle(&mut self, id: OperandId, tensor: TensorIndex, layout: Layout) -> Outcome<()> {
        let info = self.info(tensor)?;
        let layout = order(layout, info.shape.len());
        let id = self.reshaped(id, &layout.dims(&info.shape))?;
        let id = self.converted(id, info.ty, info.quant)?;
        self.at.insert((tensor, layout), id);
        Ok(())
    }

    pub(super) fn port_in(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let info = self.info(tensor)?;
        let id = self.tensor(info.ty, info.quant, &info.shape);
        self.program.inputs.push(id);
        self.at.insert((tensor, Layout::RowMajor), id);
        Ok(())
    }

    /// Every output is an operand of its own that an operation writes.
    pub(super) fn port_out(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let id = self.read(tensor, Layout::RowMajor)?;
        let made = self
            .program
            .operations
            .iter()
            .any(|operation| operation.outputs.contains(&id));
        let id = if made && !self.program.outputs.contains(&id) {
            id
        } else {
            if matches!(self.ty(id), Type::Bool | Type::I32) {
                return Err(Refusal::dtype(
                    "an output of integers that is an input or constant too",
                ));
            }
            let dims = self.dims(id);
            let to = self.list(&dims);
            self.like(sys::NEURON_RESHAPE, id, &dims, &[id, to])
        };
        self.program.outputs.push(id);
        Ok(())
    }
}

/// Tensors of less than three axes have one order.
fn order(layout: Layout, rank: usize) -> Layout {
    if rank < 3 { Layout::RowMajor } else { layout }
}

/// Extents of a tensor: one of no axes has one of one element, as without extents it would be a scalar.
fn extents(dims: &[usize]) -> Vec<u32> {
    match dims {
        [] => vec![1],
        dims => dims.iter().map(|&dim| dim as u32).collect(),
    }
}

/// The input at a place, which the node must have.
pub(super) fn input(node: &Node, place: usize) -> Outcome<TensorIndex> {
    let missing = || Refusal::attribute(format!("input {place} is left out"));
    node.input(place).ok_or_else(missing)
}

/// The only output.
pub(super) fn output(node: &Node) -> Outcome<TensorIndex> {
    match (node.output(0), node.writes().count()) {
        (Some(output), 1) => Ok(output),
        _ => Err(Refusal::attribute(format!(
            "{} with other outputs than its first",
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
    let beyond = || Refusal::attribute(format!("axis {axis} of a tensor of {rank} axes"));
    polychip_ops::axis::normalise(axis, rank).ok_or_else(beyond)
}
