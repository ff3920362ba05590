//! The forms of a tensor that exist so far while a part is lowered: which value holds it in which layout and storage.
//!
//! Not here: conversions between forms (`materialize`).

use polychip_lowering::{Forms, Layout, Storage};

use crate::step::ValueId;

/// The forms of a tensor that exist so far. A tensor without known shape is boxed: its real values in ONNX order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TensorForms {
    forms: Forms<ValueId>,
    /// A slice of a wider image, channels last.
    pub(super) channel_slice: Option<ChannelSlice>,
}

/// A range of the channels of a wider image; the value starts at the first channel and ends with the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChannelSlice {
    pub(super) value: ValueId,
    /// Elements between two pixels.
    pub(super) stride: usize,
    pub(super) storage: Storage,
}

impl TensorForms {
    /// A tensor that exists as real values in ONNX order.
    pub(super) fn at(value: ValueId) -> Self {
        let mut forms = Self::default();
        forms.set(Layout::RowMajor, Storage::Real, value);
        forms
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
        self.forms.exists(Layout::ChannelsLast) || self.channel_slice.is_some()
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
            || self
                .channel_slice
                .is_some_and(|slice| slice.storage == Storage::Bf16)
    }

    /// Whether it exists as codes.
    pub(super) fn has_codes(&self) -> bool {
        let layouts = [Layout::RowMajor, Layout::ChannelsLast];
        layouts
            .iter()
            .any(|&layout| self.get(layout, Storage::Codes).is_some())
    }
}
