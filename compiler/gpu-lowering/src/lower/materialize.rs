//! Converts a tensor to the form that a step asks for: ONNX order or channels last, real values or stored integers.
//!
//! Invariants:
//! 1. Each form is made once.
//! 2. If both orders are the same memory, no kernel runs.

use polychip_gpu_kernels::Scalar;
use polychip_lowering::{Layout, Outcome, Storage, TensorIndex};

use super::builder::Lowering;
use super::map;
use super::values::{ValueId, float_bytes, image, is_float};
use crate::program::Home;

impl Lowering<'_> {
    /// Makes values of the input ports.
    pub(super) fn feed(&mut self) -> Outcome<()> {
        for (port, &tensor) in self.part.inputs.iter().enumerate() {
            let scalar = self.stored_scalar(tensor)?;
            let dims = self.layouts[port].dims(self.dims(tensor)?);
            let value = self.value(Home::Port(port as u32, 0), scalar, &dims)?;
            self.ports[port] = Some(value);
            let layout = self.layouts[port];
            let kind = if self.part.tensors[tensor].encoding.is_some() {
                Storage::Stored
            } else {
                Storage::Real
            };
            if !self.target.discrete && (kind == Storage::Stored || scalar == self.scalar(tensor)?) {
                self.forms[tensor].set(layout, kind, value);
            } else {
                self.forms[tensor].port = Some(value);
            }
        }
        Ok(())
    }

    /// Layout of the port that feeds a tensor.
    pub(super) fn port_form(&self, tensor: TensorIndex) -> Layout {
        let port = self.part.inputs.iter().position(|&t| t == tensor);
        port.map_or(Layout::RowMajor, |port| self.layouts[port])
    }

    /// Storage of a tensor's elements in memory outside of the part.
    pub(super) fn outer_kind(&self, tensor: TensorIndex) -> Storage {
        if self.part.tensors[tensor].encoding.is_some() {
            Storage::Stored
        } else {
            Storage::Real
        }
    }

    /// The real values of a tensor, in ONNX order.
    pub(super) fn rows(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        self.get(tensor, Layout::RowMajor, Storage::Real)
    }

    /// The real values of a tensor, channels last.
    pub(super) fn channels(&mut self, tensor: TensorIndex) -> Outcome<ValueId> {
        self.get(tensor, Layout::ChannelsLast, Storage::Real)
    }

    /// Whether a tensor exists, of this kind, channels last only.
    pub(super) fn is_channels_only(&self, tensor: TensorIndex) -> bool {
        let forms = &self.forms[tensor];
        let has = |layout| forms.forms.exists(layout);
        let fed = forms.port.is_some();
        (has(Layout::ChannelsLast) && !has(Layout::RowMajor) && !fed)
            || (fed && self.port_form(tensor) == Layout::ChannelsLast && !has(Layout::RowMajor))
    }

    /// A tensor in a form, converted where it is in another.
    pub(super) fn get(&mut self, tensor: TensorIndex, layout: Layout, kind: Storage) -> Outcome<ValueId> {
        let dims = self.dims(tensor)?;
        let layout = if Layout::is_same(dims) {
            Layout::RowMajor
        } else {
            layout
        };
        if let Some(value) = self.forms[tensor].get(layout, kind) {
            return Ok(value);
        }
        let value = self.make(tensor, dims, layout, kind)?;
        self.forms[tensor].set(layout, kind, value);
        Ok(value)
    }

    fn make(
        &mut self,
        tensor: TensorIndex,
        dims: &[usize],
        layout: Layout,
        kind: Storage,
    ) -> Outcome<ValueId> {
        let outer = self.outer_kind(tensor);
        if self.part.is_constant(tensor) {
            return self.constant_form(tensor, layout, kind);
        }
        if let Some(node) = self.deferred(tensor) {
            self.undefer(node, tensor)?;
            return self.get(tensor, layout, kind);
        }
        // another order of the same elements
        let other = layout.other();
        if let Some(value) = self.forms[tensor].get(other, kind) {
            let (_, value_target) = self.destination(tensor, layout, kind)?;
            self.relayout(value, dims, other, layout, value_target)?;
            return Ok(value_target);
        }
        if kind == Storage::Real
            && let Some(permuted) = self.forms[tensor].permuted
        {
            let order = permuted.order(dims.len());
            let mut shape = vec![0; dims.len()];
            for (&axis, &size) in order.iter().zip(dims) {
                shape[axis] = size;
            }
            let (_, rows) = self.destination(tensor, Layout::RowMajor, kind)?;
            map::permute(self, permuted.value, &shape, &order, rows)?;
            self.forms[tensor].set(Layout::RowMajor, kind, rows);
            return self.get(tensor, layout, kind);
        }
        if let Some(port) = self.forms[tensor].port {
            let from = if Layout::is_same(dims) {
                Layout::RowMajor
            } else {
                self.port_form(tensor)
            };
            if kind == outer {
                let scalar = if kind == Storage::Stored {
                    self.stored_scalar(tensor)?
                } else {
                    self.scalar(tensor)?
                };
                let target = self.fresh(scalar, &layout.dims(dims))?;
                self.relayout(port, dims, from, layout, target)?;
                return Ok(target);
            }
        }
        if kind == Storage::Real && outer == Storage::Stored {
            // decode in the order in which the integers lie
            let from = if self.forms[tensor].get(layout, Storage::Stored).is_some()
                || self.forms[tensor].port.is_some()
            {
                layout
            } else {
                other
            };
            let stored = self.get(tensor, from, Storage::Stored)?;
            let scalar = self.scalar(tensor)?;
            let real = self.fresh(scalar, &from.dims(dims))?;
            self.decode(tensor, stored, from, real)?;
            if from != layout {
                self.forms[tensor].set(from, Storage::Real, real);
                return self.get(tensor, layout, Storage::Real);
            }
            return Ok(real);
        }
        if kind == Storage::Stored && outer == Storage::Stored {
            let from = if self.forms[tensor].get(layout, Storage::Real).is_some() {
                layout
            } else {
                other
            };
            if let Some(real) = self.forms[tensor].get(from, Storage::Real) {
                let (_, stored) = self.destination(tensor, from, Storage::Stored)?;
                self.encode(tensor, real, from, stored)?;
                if from != layout {
                    self.forms[tensor].set(from, Storage::Stored, stored);
                    return self.get(tensor, layout, Storage::Stored);
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
        layout: Layout,
        kind: Storage,
    ) -> Outcome<(Scalar, ValueId)> {
        let dims = self.dims(tensor)?;
        let layout = if Layout::is_same(dims) {
            Layout::RowMajor
        } else {
            layout
        };
        let scalar = if kind == Storage::Stored {
            self.stored_scalar(tensor)?
        } else {
            self.scalar(tensor)?
        };
        if let Some(port) = self.wishes[tensor]
            && self.ports[port].is_none()
            && (self.layouts[port] == layout || Layout::is_same(dims))
            && self.outer_kind(tensor) == kind
            && self.outer_kind(self.part.outputs[port - self.part.inputs.len()]) == kind
            && self.stored_scalar(tensor)? == scalar
        {
            let value = self.value(Home::Port(port as u32, 0), scalar, &layout.dims(dims))?;
            self.ports[port] = Some(value);
            return Ok((scalar, value));
        }
        let value = self.fresh(scalar, &layout.dims(dims))?;
        Ok((scalar, value))
    }

    /// States that a value holds a tensor in a form.
    pub(super) fn define(
        &mut self,
        tensor: TensorIndex,
        layout: Layout,
        kind: Storage,
        value: ValueId,
    ) -> Outcome<()> {
        let layout = if Layout::is_same(self.dims(tensor)?) {
            Layout::RowMajor
        } else {
            layout
        };
        self.forms[tensor].set(layout, kind, value);
        Ok(())
    }

    /// A place for the real values of a result, which holds them from now on.
    pub(super) fn result(&mut self, tensor: TensorIndex, layout: Layout) -> Outcome<ValueId> {
        let (_, value) = self.destination(tensor, layout, Storage::Real)?;
        self.define(tensor, layout, Storage::Real, value)?;
        Ok(value)
    }

    /// A constant in a form.
    fn constant_form(&mut self, tensor: TensorIndex, layout: Layout, kind: Storage) -> Outcome<ValueId> {
        let part = self.part;
        let dims = self.dims(tensor)?;
        let arranged = layout.dims(dims);
        if kind == Storage::Stored || !is_float(part.real(tensor)) {
            let scalar = self.stored_scalar(tensor)?;
            return self.constant(scalar, &arranged, || {
                let bytes = part.tensors[tensor].bytes().unwrap_or_default();
                let width = scalar.bytes() as usize;
                if layout == Layout::RowMajor {
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
            let values = match layout {
                Layout::RowMajor => values,
                Layout::ChannelsLast => {
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
