//! Tensors that are parts of a wider image: what is split of one, and what is computed into its place of a concatenation.
//!
//! Invariant: whoever does not ask for the part by [`Lowering::image`] gets a dense copy, made once.

use polychip_ops::DType;
use polychip_sdk::Result;

use super::{Form, Lowering, channels_last, image, movement};
use crate::part::TensorIndex;
use crate::step::ValueId;

/// A plain tensor in a wider image, from its first channel to the end of that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    pub(super) value: ValueId,
    /// Elements between two pixels.
    pub(super) stride: usize,
    /// Whether they are bf16.
    pub(super) brief: bool,
}

impl Lowering<'_> {
    /// Whether a tensor exists channels last but not row-major.
    pub(super) fn is_channels_only(&self, tensor: TensorIndex) -> bool {
        let forms = &self.forms[tensor];
        self.has_channels(tensor)
            && forms.rows.is_none()
            && forms.brief_rows.is_none()
            && forms.codes[0].is_none()
    }

    /// Whether a tensor exists channels last.
    pub(super) fn has_channels(&self, tensor: TensorIndex) -> bool {
        let forms = &self.forms[tensor];
        forms.channels.is_some()
            || forms.brief_channels.is_some()
            || forms.codes[1].is_some()
            || forms.within.is_some()
    }

    /// Copies a part of a wider image out of it, where that is all there is of the tensor.
    pub(super) fn settle(&mut self, tensor: TensorIndex) -> Result<()> {
        let Some(within) = self.forms[tensor].within else {
            return Ok(());
        };
        if self.forms[tensor].at(Form::Channels, within.brief).is_some() {
            return Ok(());
        }
        let shape = channels_last(self.shape(tensor)?);
        let dtype = if within.brief { DType::BF16 } else { DType::F32 };
        let value = self.fresh(dtype, shape)?;
        *self.forms[tensor].at(Form::Channels, within.brief) = Some(value);
        let [n, c, spatial] = image(self.shape(tensor)?)?;
        let (from, to) = ([within.stride as isize, 1], [c as isize, 1]);
        movement::strided(
            self,
            "part of an image",
            &[n * spatial, c],
            (within.value, 0, &from),
            (value, 0, &to),
        )
    }

    /// The tensor channels last, perhaps as a part of a wider image: the elements between two of its pixels too.
    pub(super) fn image(&mut self, tensor: TensorIndex, brief: bool) -> Result<(ValueId, usize)> {
        let dense = self.forms[tensor].at(Form::Channels, brief).is_some();
        if let Some(within) = self.forms[tensor].within
            && within.brief == brief
            && !dense
        {
            return Ok((within.value, within.stride));
        }
        let channels = image(self.shape(tensor)?)?[1];
        Ok((self.form_as(tensor, Form::Channels, brief)?, channels))
    }

    /// Whether two values lie in the same memory.
    pub(super) fn are_together(&self, a: ValueId, b: ValueId) -> bool {
        self.values[a.0 as usize].storage == self.values[b.0 as usize].storage
    }
}
