//! The forms in which a tensor exists: ONNX order or channels last, real values or stored integers.
//!
//! Invariants:
//! 1. A form that is asked for twice is made once.
//! 2. Where both orders are the same memory, no kernel runs.

use half::f16;
use polychip_gpu_kernels::Scalar;
use polychip_lowering::{Outcome, TensorIndex};
use polychip_ops::DType;

use super::{Lowering, ValueId, map};
use crate::program::Home;

/// In what order a tensor's elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// ONNX order.
    Rows,
    /// `[n, spatial..., c]`.
    Channels,
}

/// What a tensor's elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What an op sees.
    Real,
    /// Integers with an encoding.
    Stored,
}

/// The forms in which a tensor exists so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Forms {
    values: [Option<ValueId>; 4],
    /// The value at an input port, in the port's layout, until it is first read.
    port: Option<ValueId>,
    /// The real values in another order of axes, until someone wants them in ONNX order.
    pub(super) permuted: Option<Permuted>,
}

/// A tensor that lies as another one whose axes were permuted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permuted {
    /// The value; axis `i` of the tensor is axis `order[i]` of it.
    pub(super) value: ValueId,
    order: [u8; 8],
}

impl Permuted {
    pub(super) fn new(value: ValueId, order: &[usize]) -> Option<Permuted> {
        let mut all = [0; 8];
        for (place, &axis) in all.get_mut(..order.len())?.iter_mut().zip(order) {
            *place = u8::try_from(axis).ok()?;
        }
        Some(Permuted { value, order: all })
    }

    pub(super) fn order(&self, rank: usize) -> Vec<usize> {
        self.order[..rank].iter().map(|&axis| usize::from(axis)).collect()
    }
}

impl Forms {
    fn at(form: Form, kind: Kind) -> usize {
        (form == Form::Channels) as usize + 2 * (kind == Kind::Stored) as usize
    }

    pub(super) fn get(&self, form: Form, kind: Kind) -> Option<ValueId> {
        self.values[Forms::at(form, kind)]
    }

    pub(super) fn set(&mut self, form: Form, kind: Kind, value: ValueId) {
        self.values[Forms::at(form, kind)] = Some(value);
    }

    pub(super) fn forget_real(&mut self) {
        for form in [Form::Rows, Form::Channels] {
            self.values[Forms::at(form, Kind::Real)] = None;
        }
        self.permuted = None;
    }
}

impl Lowering<'_> {
    /// Makes values of the input ports.
    pub(super) fn feed(&mut self) -> Outcome<()> {
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let scalar = self.stored_scalar(tensor)?;
            let dims = arranged(self.dims(tensor)?, self.layouts[port]);
            let value = self.value(Home::Port(port as u32, 0), scalar, &dims)?;
            self.ports[port] = Some(value);
            let form = self.layouts[port];
            let kind = if self.part.tensors[tensor].encoding.is_some() {
                Kind::Stored
            } else {
                Kind::Real
            };
            if !self.target.discrete && (kind == Kind::Stored || scalar == self.scalar(tensor)?) {
                self.forms[tensor].set(form, kind, value);
            } else {
                self.forms[tensor].port = Some(value);
            }
        }
        Ok(())
    }

    /// Layout of the port that feeds a tensor.
    fn port_form(&self, tensor: TensorIndex) -> Form {
        let port = self.part.inputs.iter().position(|&t| t == tensor);
        port.map_or(Form::Rows, |port| self.layouts[port])
    }

    /// Kind of a tensor's elements in memory outside of the part.
    pub(super) fn outer_kind(&self, tensor: TensorIndex) -> Kind {
        if self.part.tensors[tensor].encoding.is_some() {
            Kind::Stored
        } else {
            Kind::Real
        }
    }

    /// The real values of a tensor, in ONNX order.
    pub(super) fn rows(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        self.get(tensor, Form::Rows, Kind::Real)
    }

    /// The real values of a tensor, channels last.
    pub(super) fn channels(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        self.get(tensor, Form::Channels, Kind::Real)
    }

    /// Whether a tensor exists, of this kind, channels last only.
    pub(super) fn is_channels_only(&self, tensor: TensorIndex) -> bool {
        let forms = &self.forms[tensor];
        let has = |form| forms.get(form, Kind::Real).is_some() || forms.get(form, Kind::Stored).is_some();
        let fed = forms.port.is_some();
        (has(Form::Channels) && !has(Form::Rows) && !fed)
            || (fed && self.port_form(tensor) == Form::Channels && !has(Form::Rows))
    }

    /// A tensor in a form, converted where it is in another.
    pub(super) fn get(&mut self, tensor: TensorIndex, form: Form, kind: Kind) -> Outcome<ValueId> {
        let dims = self.dims(tensor)?;
        let form = if is_same(dims) { Form::Rows } else { form };
        if let Some(value) = self.forms[tensor].get(form, kind) {
            return Ok(value);
        }
        let value = self.make(tensor, dims, form, kind)?;
        self.forms[tensor].set(form, kind, value);
        Ok(value)
    }

    fn make(&mut self, tensor: TensorIndex, dims: &[usize], form: Form, kind: Kind) -> Outcome<ValueId> {
        let outer = self.outer_kind(tensor);
        if self.part.is_constant(tensor) {
            return self.constant_form(tensor, form, kind);
        }
        // another order of the same elements
        let other = if form == Form::Rows {
            Form::Channels
        } else {
            Form::Rows
        };
        if let Some(value) = self.forms[tensor].get(other, kind) {
            let (_, value_target) = self.destination(tensor, form, kind)?;
            self.relayout(value, dims, other, form, value_target)?;
            return Ok(value_target);
        }
        if kind == Kind::Real
            && let Some(permuted) = self.forms[tensor].permuted
        {
            let order = permuted.order(dims.len());
            let mut shape = vec![0; dims.len()];
            for (&axis, &size) in order.iter().zip(dims) {
                shape[axis] = size;
            }
            let (_, rows) = self.destination(tensor, Form::Rows, kind)?;
            map::permute(self, permuted.value, &shape, &order, rows)?;
            self.forms[tensor].set(Form::Rows, kind, rows);
            return self.get(tensor, form, kind);
        }
        if let Some(port) = self.forms[tensor].port {
            let from = if is_same(dims) {
                Form::Rows
            } else {
                self.port_form(tensor)
            };
            if kind == outer {
                let scalar = match kind {
                    Kind::Stored => self.stored_scalar(tensor)?,
                    Kind::Real => self.scalar(tensor)?,
                };
                let target = self.fresh(scalar, &arranged(dims, form))?;
                self.relayout(port, dims, from, form, target)?;
                return Ok(target);
            }
        }
        if kind == Kind::Real && outer == Kind::Stored {
            // decode in the order in which the integers lie
            let from = if self.forms[tensor].get(form, Kind::Stored).is_some()
                || self.forms[tensor].port.is_some()
            {
                form
            } else {
                other
            };
            let stored = self.get(tensor, from, Kind::Stored)?;
            let scalar = self.scalar(tensor)?;
            let real = self.fresh(scalar, &arranged(dims, from))?;
            self.decode(tensor, stored, from, real)?;
            if from != form {
                self.forms[tensor].set(from, Kind::Real, real);
                return self.get(tensor, form, Kind::Real);
            }
            return Ok(real);
        }
        if kind == Kind::Stored && outer == Kind::Stored {
            let from = if self.forms[tensor].get(form, Kind::Real).is_some() {
                form
            } else {
                other
            };
            if let Some(real) = self.forms[tensor].get(from, Kind::Real) {
                let (_, stored) = self.destination(tensor, from, Kind::Stored)?;
                self.encode(tensor, real, from, stored)?;
                if from != form {
                    self.forms[tensor].set(from, Kind::Stored, stored);
                    return self.get(tensor, form, Kind::Stored);
                }
                return Ok(stored);
            }
        }
        Err(self.not_computed(tensor))
    }

    /// Where a tensor of this form is to be computed: at its port where that is possible, else in the arena. The
    /// scalar is that of the place: a port keeps its own type.
    pub(super) fn destination(
        &mut self,
        tensor: TensorIndex,
        form: Form,
        kind: Kind,
    ) -> Outcome<(Scalar, ValueId)> {
        let dims = self.dims(tensor)?;
        let form = if is_same(dims) { Form::Rows } else { form };
        let scalar = match kind {
            Kind::Stored => self.stored_scalar(tensor)?,
            Kind::Real => self.scalar(tensor)?,
        };
        if let Some(port) = self.wishes[tensor]
            && self.ports[port].is_none()
            && (self.layouts[port] == form || is_same(dims))
            && self.outer_kind(tensor) == kind
            && self.outer_kind(self.part.outputs[port - self.part.inputs.len()]) == kind
            && self.stored_scalar(tensor)? == scalar
        {
            let value = self.value(Home::Port(port as u32, 0), scalar, &arranged(dims, form))?;
            self.ports[port] = Some(value);
            return Ok((scalar, value));
        }
        let value = self.fresh(scalar, &arranged(dims, form))?;
        Ok((scalar, value))
    }

    /// States that a value holds a tensor in a form.
    pub(super) fn define(
        &mut self,
        tensor: TensorIndex,
        form: Form,
        kind: Kind,
        value: ValueId,
    ) -> Outcome<()> {
        let form = if is_same(self.dims(tensor)?) {
            Form::Rows
        } else {
            form
        };
        self.forms[tensor].set(form, kind, value);
        Ok(())
    }

    /// A place for the real values of a result, which holds them from now on.
    pub(super) fn result(&mut self, tensor: TensorIndex, form: Form) -> Outcome<ValueId> {
        let (_, value) = self.destination(tensor, form, Kind::Real)?;
        self.define(tensor, form, Kind::Real, value)?;
        Ok(value)
    }

    /// A constant in a form.
    fn constant_form(&mut self, tensor: TensorIndex, form: Form, kind: Kind) -> Outcome<ValueId> {
        let part = self.part;
        let dims = self.dims(tensor)?;
        let arranged = arranged(dims, form);
        if kind == Kind::Stored || !is_float(part.real(tensor)) {
            let scalar = self.stored_scalar(tensor)?;
            return self.constant(scalar, &arranged, || {
                let bytes = part.tensors[tensor].bytes().unwrap_or_default();
                let width = scalar.bytes() as usize;
                if form == Form::Rows {
                    return Ok(bytes.to_vec());
                }
                let [n, c, s] = image(dims);
                let mut moved = Vec::with_capacity(bytes.len());
                for (n, s, c) in positions(n, s, c) {
                    let at = ((n * dims[1] + c) * image(dims)[2] + s) * width;
                    moved.extend_from_slice(&bytes[at..at + width]);
                }
                Ok(moved)
            });
        }
        let scalar = self.scalar(tensor)?;
        self.constant(scalar, &arranged, || {
            let values = part.tensors[tensor].reals()?;
            let values = match form {
                Form::Rows => values,
                Form::Channels => {
                    let [n, c, s] = image(dims);
                    positions(n, s, c)
                        .map(|(n, s, c)| values[(n * dims[1] + c) * image(dims)[2] + s])
                        .collect()
                }
            };
            Ok(float_bytes(scalar, &values))
        })
    }

    /// The constant real values of a tensor, as f32.
    pub(super) fn floats(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        self.part.tensors[tensor].reals()
    }
}

fn positions(n: usize, s: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..n).flat_map(move |n| (0..s).flat_map(move |s| (0..c).map(move |c| (n, s, c))))
}

/// Floats as bytes of this type.
pub(super) fn float_bytes(scalar: Scalar, values: &[f32]) -> Vec<u8> {
    match scalar {
        Scalar::F16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// Whether a type is one of the floats that kernels compute on.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16)
}

/// Extents in the order of memory.
pub(super) fn arranged(dims: &[usize], form: Form) -> Vec<usize> {
    match form {
        Form::Rows => dims.to_vec(),
        Form::Channels => channels_last(dims),
    }
}

/// `[n, c, spatial...]` as `[n, spatial..., c]`; other ranks stay.
pub(super) fn channels_last(dims: &[usize]) -> Vec<usize> {
    let mut moved = dims.to_vec();
    if moved.len() >= 3 {
        moved[1..].rotate_left(1);
    }
    moved
}

/// Where an axis of ONNX order stands in a form.
pub(super) fn place(form: Form, axis: usize, rank: usize) -> usize {
    match (form, axis) {
        (Form::Channels, 1) if rank >= 3 => rank - 1,
        (Form::Channels, axis) if rank >= 3 && axis > 1 => axis - 1,
        _ => axis,
    }
}

/// Batch, channels and the product of the spatial extents.
pub(super) fn image(dims: &[usize]) -> [usize; 3] {
    match dims {
        [n, c, spatial @ ..] => [*n, *c, spatial.iter().product()],
        [n] => [*n, 1, 1],
        [] => [1, 1, 1],
    }
}

/// Whether both orders are the same memory.
pub(super) fn is_same(dims: &[usize]) -> bool {
    let [_, c, s] = image(dims);
    dims.len() < 3 || c == 1 || s == 1
}
