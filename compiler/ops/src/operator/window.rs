//! The attributes of sliding windows, before the kernel's size is known.
//!
//! Invariant: an empty list means what ONNX means by none: strides and dilations of 1, no pads.
//! Not here: where windows lie over an image ([`crate::geometry`]).

use super::read::{Field, Reader, Result};
use super::words::AutoPad;
use crate::geometry::{TransposedWindow, Window};
use crate::{Attr, Op};

/// The window of a convolution or pool as its attributes state it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowSpec {
    pub(crate) op: Op,
    /// Elements per spatial axis; empty where the shape of the weights tells (`kernel_shape`).
    pub kernel_shape: Vec<i64>,
    /// Steps per spatial axis, in elements; empty for 1.
    pub strides: Vec<i64>,
    /// Distance of neighbouring kernel elements per spatial axis, in elements; empty for 1.
    pub dilations: Vec<i64>,
    /// Elements before each spatial axis, then after each; empty for none.
    pub pads: Vec<i64>,
    /// Whether `pads` counts, or what replaces it.
    pub auto_pad: AutoPad,
    /// Whether a last window that only begins inside the image counts (`ceil_mode`).
    pub ceil: bool,
}

impl WindowSpec {
    /// The window with a kernel of these sizes.
    ///
    /// # Errors
    /// Where a list has the wrong length, or a value is out of range.
    pub fn over(&self, kernel: &[usize]) -> Result<Window> {
        Window::of(self, kernel)
    }

    /// The window with the kernel that `kernel_shape` names, as pools have.
    ///
    /// # Errors
    /// As [`WindowSpec::over`].
    pub fn stated(&self) -> Result<Window> {
        let axes = self.kernel_shape.len();
        let kernel = crate::geometry::sizes(self.op, Attr::KernelShape, &self.kernel_shape, axes, 1)?;
        self.over(&kernel)
    }
}

impl Field for WindowSpec {
    fn read(reader: &Reader<'_>, _: Attr) -> Result<WindowSpec> {
        Ok(WindowSpec {
            op: reader.op,
            kernel_shape: reader.field(Attr::KernelShape)?,
            strides: reader.field(Attr::Strides)?,
            dilations: reader.field(Attr::Dilations)?,
            pads: reader.field(Attr::Pads)?,
            auto_pad: reader.field_or(Attr::AutoPad, AutoPad::NotSet)?,
            ceil: reader.field_or(Attr::CeilMode, false)?,
        })
    }
}

/// The window of a transposed convolution as its attributes state it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransposedSpec {
    /// Kernel, strides, dilations and pads.
    pub window: WindowSpec,
    /// Elements added after each spatial axis of the output; empty for none.
    pub output_padding: Vec<i64>,
    /// Sizes of the output, from which pads follow; empty where pads decide.
    pub output_shape: Vec<i64>,
}

impl TransposedSpec {
    /// The window with a kernel of these sizes.
    ///
    /// # Errors
    /// As [`WindowSpec::over`].
    pub fn over(&self, kernel: &[usize]) -> Result<TransposedWindow> {
        TransposedWindow::of(self, kernel)
    }
}

impl Field for TransposedSpec {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<TransposedSpec> {
        Ok(TransposedSpec {
            window: WindowSpec::read(reader, attr)?,
            output_padding: reader.field(Attr::OutputPadding)?,
            output_shape: reader.field(Attr::OutputShape)?,
        })
    }
}
