//! The forms of a tensor that exist so far: ONNX order or channels last, real values or stored integers, or a transposed view.

use polychip_lowering::{Forms, Layout, Storage};

use super::values::ValueId;

/// The forms of a tensor that exist so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TensorForms {
    pub(super) forms: Forms<ValueId>,
    /// The value at an input port, in the port's layout, until it is first read.
    pub(super) port: Option<ValueId>,
    /// The real values in another order of axes, until they are needed in ONNX order.
    pub(super) permuted: Option<Permuted>,
}

/// A transposed view: a tensor stored with its axes in another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permuted {
    /// The value; axis `i` of the tensor is axis `order[i]` of it.
    pub(super) value: ValueId,
    order: [u8; 8],
}

impl Permuted {
    pub(super) fn new(value: ValueId, order: &[usize]) -> Option<Permuted> {
        let mut all = [0; 8];
        for (slot, &axis) in all.get_mut(..order.len())?.iter_mut().zip(order) {
            *slot = u8::try_from(axis).ok()?;
        }
        Some(Permuted { value, order: all })
    }

    pub(super) fn order(&self, rank: usize) -> Vec<usize> {
        self.order[..rank].iter().map(|&axis| usize::from(axis)).collect()
    }
}

impl TensorForms {
    pub(super) fn get(&self, layout: Layout, kind: Storage) -> Option<ValueId> {
        self.forms.get(layout, kind)
    }

    pub(super) fn set(&mut self, layout: Layout, kind: Storage, value: ValueId) {
        self.forms.set(layout, kind, value);
    }

    /// Whether there is any value of it.
    pub(super) fn exists(&self) -> bool {
        let has = |layout| self.forms.exists(layout);
        has(Layout::RowMajor) || has(Layout::ChannelsLast) || self.port.is_some() || self.permuted.is_some()
    }

    pub(super) fn forget_real(&mut self) {
        for layout in [Layout::RowMajor, Layout::ChannelsLast] {
            self.forms.forget(layout, Storage::Real);
        }
        self.permuted = None;
    }
}
