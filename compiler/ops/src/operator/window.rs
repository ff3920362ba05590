//! Reads the attributes of sliding windows.
//!
//! Invariant: an op without one of the attributes has the window that the attribute leaves as it is.
//! Not here: windows ([`crate::geometry`]), defaults (`table`).

use super::read::{Field, Reader, Result};
use super::words::AutoPad;
use crate::geometry::{TransposedSpec, WindowSpec};
use crate::{Attr, Attributes, Op};

/// The window of a node, its other attributes left aside.
pub(crate) fn window(op: Op, attributes: &Attributes) -> Result<WindowSpec> {
    WindowSpec::read(&Reader::partial(op, attributes), Attr::KernelShape)
}

/// The transposed window of a node, its other attributes left aside.
pub(crate) fn transposed_window(op: Op, attributes: &Attributes) -> Result<TransposedSpec> {
    TransposedSpec::read(&Reader::partial(op, attributes), Attr::KernelShape)
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

impl Field for TransposedSpec {
    fn read(reader: &Reader<'_>, attr: Attr) -> Result<TransposedSpec> {
        Ok(TransposedSpec {
            window: WindowSpec::read(reader, attr)?,
            output_padding: reader.field(Attr::OutputPadding)?,
            output_shape: reader.field(Attr::OutputShape)?,
        })
    }
}
