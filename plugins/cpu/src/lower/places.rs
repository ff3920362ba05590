//! Where a tensor exists while a part is lowered.
//!
//! Not here: how one form is made of another (`forms`).

use polychip_lowering::{Forms, Layout, Storage};

use crate::step::ValueId;

/// The forms in which a tensor exists so far. A tensor without known shape is boxed, as its real values in ONNX order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    forms: Forms<ValueId>,
    /// As a part of a wider image, channels last.
    pub(super) within: Option<Within>,
}

/// A plain tensor in a wider image, from its first channel to the end of that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    pub(super) value: ValueId,
    /// Elements between two pixels.
    pub(super) stride: usize,
    pub(super) storage: Storage,
}

impl Places {
    /// Where a tensor is whose real values are in ONNX order.
    pub(super) fn at(value: ValueId) -> Self {
        let mut places = Self::default();
        places.set(Layout::RowMajor, Storage::Real, value);
        places
    }

    pub(super) fn get(&self, layout: Layout, storage: Storage) -> Option<ValueId> {
        self.forms.get(layout, storage)
    }

    pub(super) fn set(&mut self, layout: Layout, storage: Storage, value: ValueId) {
        self.forms.set(layout, storage, value);
    }

    pub(super) fn forget(&mut self, layout: Layout, storage: Storage) {
        self.forms.forget(layout, storage);
    }

    /// Whether it exists channels last.
    pub(super) fn has_channels(&self) -> bool {
        self.forms.exists(Layout::ChannelsLast) || self.within.is_some()
    }

    /// Whether it exists channels last and not row-major, but perhaps as the integers of a port.
    pub(super) fn is_channels_only(&self) -> bool {
        let rows = [Storage::Real, Storage::Bf16, Storage::Codes];
        self.has_channels()
            && rows
                .iter()
                .all(|&storage| self.get(Layout::RowMajor, storage).is_none())
    }

    /// Whether it exists as bf16.
    pub(super) fn has_bf16(&self) -> bool {
        let layouts = [Layout::RowMajor, Layout::ChannelsLast];
        layouts
            .iter()
            .any(|&layout| self.get(layout, Storage::Bf16).is_some())
            || self.within.is_some_and(|within| within.storage == Storage::Bf16)
    }

    /// Whether it exists as codes.
    pub(super) fn has_codes(&self) -> bool {
        let layouts = [Layout::RowMajor, Layout::ChannelsLast];
        layouts
            .iter()
            .any(|&layout| self.get(layout, Storage::Codes).is_some())
    }
}
