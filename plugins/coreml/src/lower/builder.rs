//! A program in the making: its values and operations, and which value each tensor of the part is so far.
//!
//! Invariants:
//! 1. A tensor is one value. Scalars are of one axis of one element, for ports cannot be of none.
//! 2. A tensor of encoded integers is a value of bytes, and is read as its reals (`quantise`).
//! 3. Reals of a program are of one type: that of the model, or 16 bits where f32 may be computed so.
//!
//! Not here: which operations a node becomes (`dispatch`, and the file of each op class).

use polychip_lowering::{Node, Outcome, Part, Refusal, Tensor, TensorIndex};
use polychip_ops::DType;
use polychip_sdk::Reason;

use crate::program::{Arg, Operation, Program, Type, Value, ValueId};

/// Most axes of a value.
pub(super) const MOST_AXES: usize = 5;

/// Target of the compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// The Neural Engine, and not the GPU.
    pub(crate) ane: bool,
    /// Whether tensors of f32 may be computed in 16-bit floats.
    pub(crate) reduced: bool,
}

/// Arguments of an operation, by name.
pub(super) type Args = Vec<(&'static str, Arg)>;

/// A program in the making.
pub(super) struct Lower<'a> {
    pub(super) part: &'a Part,
    target: Target,
    data: bool,
    pub(super) program: Program,
    at: Vec<Option<ValueId>>,
    /// Reals of tensors that are values of bytes.
    reals_at: Vec<Option<ValueId>>,
    pub(super) current: Option<u32>,
}

impl<'a> Lower<'a> {
    pub(super) fn new(part: &'a Part, target: Target, data: bool) -> Lower<'a> {
        Lower {
            part,
            target,
            data,
            program: Program::default(),
            at: vec![None; part.tensors.len()],
            reals_at: vec![None; part.tensors.len()],
            current: None,
        }
    }

    pub(super) fn view(&self, tensor: TensorIndex) -> &'a Tensor {
        &self.part.tensors[tensor]
    }

    /// Extents as the model has them.
    pub(super) fn shape(&self, tensor: TensorIndex) -> Outcome<&'a [usize]> {
        let view = self.view(tensor);
        let words = || Refusal::new(Reason::DynamicShape, format!("tensor {}", view.name));
        view.dims.as_deref().ok_or_else(words)
    }

    /// Extents as a value has them.
    pub(super) fn dims(&self, tensor: TensorIndex) -> Outcome<Vec<usize>> {
        let dims = self.shape(tensor)?;
        Ok(if dims.is_empty() { vec![1] } else { dims.to_vec() })
    }

    /// Type that a tensor is computed in.
    pub(super) fn ty(&self, tensor: TensorIndex) -> Outcome<Type> {
        let view = self.view(tensor);
        let named = |what: &str| format!("tensor {} {what}", view.name);
        if !view.plain {
            return Err(Refusal::dtype(named("is a sequence or optional")));
        }
        let constant = view.is_constant();
        self.encoded(tensor)?;
        match view.real() {
            DType::F16 => Ok(Type::F16),
            DType::F32 if self.target.reduced => Ok(Type::F16),
            DType::F32 if self.target.ane => Err(Refusal::dtype(named(
                "is of f32, which the Neural Engine computes in 16 bits; precision \"reduced\" allows it",
            ))),
            DType::F32 => Ok(Type::F32),
            DType::I32 if self.target.ane && !constant => Err(Refusal::dtype(named(
                "is of i32, and the Neural Engine computes in 16-bit floats",
            ))),
            DType::I32 => Ok(Type::I32),
            other => Err(Refusal::dtype(named(&format!("is of {other}")))),
        }
    }

    /// Refuses a tensor that cannot be a value.
    pub(super) fn check(&self, tensor: TensorIndex) -> Outcome<()> {
        let ty = self.ty(tensor)?;
        self.holds(tensor, ty)?;
        let (name, shape) = (&self.view(tensor).name, self.shape(tensor)?);
        if shape.len() > MOST_AXES {
            let words = format!("tensor {name}: rank {}, at most {MOST_AXES}", shape.len());
            return Err(Refusal::new(Reason::Rank, words));
        }
        let elements = shape.iter().try_fold(1usize, |all, &dim| all.checked_mul(dim));
        match elements.filter(|&all| i32::try_from(all).is_ok()) {
            Some(0) => Err(Refusal::shape(format!("tensor {name} has no elements"))),
            Some(_) => Ok(()),
            None => Err(Refusal::shape(format!("tensor {name} of {shape:?} is too large"))),
        }
    }

    /// The input at a place, which the node must have.
    pub(super) fn input(&self, node: &Node, place: usize) -> Outcome<TensorIndex> {
        let words = || Refusal::attribute(format!("input {place} is left out"));
        node.input(place).ok_or_else(words)
    }

    /// The first output, which somebody must want, and that there is no other.
    pub(super) fn output(&self, node: &Node) -> Outcome<TensorIndex> {
        if let Some(tensor) = node.outputs.iter().skip(1).copied().flatten().next() {
            let name = &self.view(tensor).name;
            return Err(Refusal::attribute(format!("output {name} is not offered")));
        }
        let words = || Refusal::attribute("output 0 is left out");
        node.output(0).ok_or_else(words)
    }

    /// Refuses tensors of other types than floats.
    pub(super) fn floats(&self, tensor: TensorIndex) -> Outcome<Type> {
        match self.ty(tensor)? {
            ty if ty.is_float() => Ok(ty),
            _ => Err(Refusal::dtype(format!(
                "tensor {} is of i32",
                self.view(tensor).name
            ))),
        }
    }

    /// The integers of an input that must be constant.
    pub(super) fn integers(&self, tensor: TensorIndex) -> Outcome<Vec<i64>> {
        let view = self.view(tensor);
        let words = || Refusal::constant(format!("tensor {} would have to be a constant", view.name));
        view.wide_integers().ok_or_else(words)
    }

    /// The reals of an input that must be constant, of `count` elements; nothing where data is not wanted.
    pub(super) fn reals(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        let view = self.view(tensor);
        if !view.is_constant() {
            let words = format!("tensor {} would have to be a constant", view.name);
            return Err(Refusal::constant(words));
        }
        self.floats(tensor)?;
        if self.data { view.reals() } else { Ok(Vec::new()) }
    }

    /// The one number of an input that must be constant.
    pub(super) fn number(&self, tensor: TensorIndex) -> Outcome<f32> {
        let view = self.view(tensor);
        if view.elements() != Some(1) {
            let words = format!("tensor {} is no single number", view.name);
            return Err(Refusal::shape(words));
        }
        let reals = view.reals()?;
        reals
            .first()
            .copied()
            .ok_or_else(|| Refusal::shape("a number without a value"))
    }

    fn push(&mut self, ty: Type, dims: &[usize], data: Option<Vec<u8>>) -> ValueId {
        let id = self.program.values.len();
        self.program.values.push(Value {
            name: format!("v{id}"),
            ty,
            dims: dims.to_vec(),
            data,
        });
        id
    }

    /// A constant of reals.
    pub(super) fn constant(&mut self, ty: Type, dims: &[usize], reals: &[f32]) -> ValueId {
        self.push(ty, dims, Some(ty.store(reals)))
    }

    /// A constant of one number.
    pub(super) fn scalar(&mut self, ty: Type, real: f32) -> ValueId {
        self.constant(ty, &[1], &[real])
    }

    /// Reals of a constant tensor as a constant with other extents.
    pub(super) fn weights(&mut self, tensor: TensorIndex, dims: &[usize]) -> Outcome<ValueId> {
        let (ty, reals) = (self.floats(tensor)?, self.reals(tensor)?);
        Ok(self.constant(ty, dims, &reals))
    }

    /// A constant of integers.
    pub(super) fn whole_numbers(&mut self, dims: &[usize], values: &[i32]) -> ValueId {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.push(Type::I32, dims, Some(bytes))
    }

    /// The stored bytes of a constant tensor.
    pub(super) fn bytes(&mut self, tensor: TensorIndex, ty: Type, dims: &[usize]) -> Outcome<ValueId> {
        let values = if self.data {
            self.integers(tensor)?
        } else {
            Vec::new()
        };
        let bytes = values.into_iter().map(|value| value as u8).collect();
        Ok(self.push(ty, dims, Some(bytes)))
    }

    pub(super) fn dims_of(&self, id: ValueId) -> &[usize] {
        &self.program.values[id].dims
    }

    pub(super) fn ty_of(&self, id: ValueId) -> Type {
        self.program.values[id].ty
    }

    /// A new operation of one result.
    pub(super) fn op(&mut self, kind: &'static str, args: Args, ty: Type, dims: &[usize]) -> ValueId {
        self.ops(kind, args, ty, &[dims.to_vec()])[0]
    }

    /// A new operation of some results.
    pub(super) fn ops(
        &mut self,
        kind: &'static str,
        args: Args,
        ty: Type,
        dims: &[Vec<usize>],
    ) -> Vec<ValueId> {
        let outputs: Vec<ValueId> = dims.iter().map(|dims| self.push(ty, dims, None)).collect();
        self.program.operations.push(Operation {
            kind,
            args,
            outputs: outputs.clone(),
            node: self.current,
        });
        outputs
    }

    /// A new operation that keeps type and extents of `x`.
    pub(super) fn like(&mut self, kind: &'static str, x: ValueId, mut args: Args) -> ValueId {
        args.insert(0, ("x", Arg::Value(x)));
        let (ty, dims) = (self.ty_of(x), self.dims_of(x).to_vec());
        self.op(kind, args, ty, &dims)
    }

    /// The same elements with other extents.
    pub(super) fn reshaped(&mut self, id: ValueId, dims: &[usize]) -> ValueId {
        let dims = if dims.is_empty() { &[1] } else { dims };
        if self.dims_of(id) == dims {
            return id;
        }
        let ty = self.ty_of(id);
        let args = vec![("x", Arg::Value(id)), ("shape", Arg::Ints(ints(dims)))];
        self.op("reshape", args, ty, dims)
    }

    /// The value of a tensor, of encoded integers its reals; a constant becomes one.
    pub(super) fn read(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        if let Some(encoded) = self.encoded(tensor)? {
            if let Some(id) = self.reals_at[tensor] {
                return Ok(id);
            }
            let (stored, ty) = (self.stored(tensor)?, self.ty(tensor)?);
            let id = self.dequantised(stored, encoded, ty);
            self.reals_at[tensor] = Some(id);
            return Ok(id);
        }
        self.stored(tensor)
    }

    /// The value of a tensor as it is stored between operations.
    fn stored(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        if let Some(id) = self.at[tensor] {
            return Ok(id);
        }
        let view = self.view(tensor);
        if !view.is_constant() {
            let words = format!("tensor {} is made by no node of the part", view.name);
            return Err(Refusal::shape(words));
        }
        self.check(tensor)?;
        let (ty, dims) = (self.ty(tensor)?, self.dims(tensor)?);
        let id = match ty {
            Type::I32 => {
                let values: Vec<i32> = self
                    .integers(tensor)?
                    .into_iter()
                    .map(|value| value as i32)
                    .collect();
                self.whole_numbers(&dims, &values)
            }
            _ => self.weights(tensor, &dims)?,
        };
        self.at[tensor] = Some(id);
        Ok(id)
    }

    /// Makes a value, of as many elements, a tensor of the part.
    pub(super) fn settle(&mut self, tensor: TensorIndex, id: ValueId) -> Outcome<()> {
        let dims = self.dims(tensor)?;
        let id = self.reshaped(id, &dims);
        let id = match self.encoded(tensor)? {
            Some(encoded) => self.quantised(id, encoded),
            None => id,
        };
        self.at[tensor] = Some(id);
        Ok(())
    }

    pub(super) fn cast(&mut self, id: ValueId, to: Type) -> ValueId {
        if self.ty_of(id) == to {
            return id;
        }
        let dims = self.dims_of(id).to_vec();
        self.op(
            "cast",
            vec![("x", Arg::Value(id)), ("dtype", Arg::Text(to.word()))],
            to,
            &dims,
        )
    }

    /// Type of a port: that of the contract's tensor, whatever is computed in.
    fn port_type(&self, tensor: TensorIndex) -> Outcome<Type> {
        self.check(tensor)?;
        Ok(match self.view(tensor).dtype {
            DType::F32 => Type::F32,
            _ if self.encoded(tensor)?.is_some() => Type::F16,
            _ => self.ty(tensor)?,
        })
    }

    pub(super) fn port_in(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let (port, dims) = (self.port_type(tensor)?, self.dims(tensor)?);
        let id = self.push(port, &dims, None);
        self.program.values[id].name = format!("in{}", self.program.inputs.len());
        self.program.inputs.push(id);
        let inner = match self.encoded(tensor)? {
            Some(encoded) => self.narrowed(id, encoded),
            None => {
                let to = self.ty(tensor)?;
                self.cast(id, to)
            }
        };
        self.at[tensor] = Some(inner);
        Ok(())
    }

    pub(super) fn port_out(&mut self, tensor: TensorIndex) -> Outcome<()> {
        self.current = None;
        let port = self.port_type(tensor)?;
        let view = self.view(tensor);
        if view.is_constant() && view.encoding.is_some() {
            let words = format!("tensor {} is a constant of encoded integers", view.name);
            return Err(Refusal::constant(words));
        }
        let id = self.stored(tensor)?;
        let mut out = self.cast(id, port);
        let taken = self.program.inputs.contains(&out) || self.program.outputs.contains(&out);
        if taken || self.program.values[out].data.is_some() {
            out = self.like("identity", out, Vec::new());
        }
        self.program.values[out].name = format!("out{}", self.program.outputs.len());
        self.program.outputs.push(out);
        Ok(())
    }
}

/// Extents, places or counts as arguments.
pub(super) fn ints(values: &[usize]) -> Vec<i32> {
    values.iter().map(|&value| value as i32).collect()
}

/// An axis counted from the front.
pub(super) fn place(axis: i64, rank: usize) -> Outcome<usize> {
    let words = || Refusal::attribute(format!("axis {axis} of a tensor of {rank}"));
    polychip_ops::axis::normalise(axis, rank).ok_or_else(words)
}
