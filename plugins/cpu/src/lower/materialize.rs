//! Converts a tensor to the layout and storage that a step asks for.
//!
//! Invariants:
//! 1. Each form of a tensor is made once, at its first use.
//! 2. Only plain f32 tensors are kept as bf16; ports, encodings and nodes on the reference evaluator see f32. Code
//!    that does not handle bf16 asks for real values and gets f32.
//! 3. An op on quantised tensors means dequantise, op, quantise: behind each op the values of a quantised result are
//!    rounded to what its integers can hold ([`Lowering::round_to_encoding`]), so that every later reader sees those. A
//!    tensor with one 8-bit grid lives as codes from then on.
//! 4. 16-bit floats ([`is_half`]) are computed on as f32 and rounded where they are stored: at ports, by Cast, and for steps
//!    that read elements as they are ([`Lowering::as_is`]). They are not rounded between two ops.
//! 5. A step that does not ask for a slice of a wider image by [`Lowering::image`] gets a dense copy, made once.
//!
//! Not here: the steps (`steps`, `quantise`), where results go (the builder's `write`).

use polychip_cpu_kernels::Unary;
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_lowering::{Layout, Storage};
use polychip_ops::DType;
use polychip_sdk::Result;

use super::builder::{Lowering, image, kernel_error};
use super::encoding::{grid, is_half, is_unrounded};
use super::in_place::InPlaceConcat;
use super::tensor_forms::ChannelSlice;
use super::{quantise, steps};
use crate::part::TensorIndex;
use crate::step::{Home, ValueId};

use Layout::{ChannelsLast, RowMajor};
use Storage::{Bf16, Codes, Real, Stored};

impl Lowering<'_> {
    /// The real values of a tensor, row-major; the boxed tensor where its shape is not known.
    pub(super) fn rows(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.read(tensor, RowMajor, Real)
    }

    /// The real values of a tensor of rank 3 or more, channels last.
    pub(super) fn channels(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.read(tensor, ChannelsLast, Real)
    }

    /// The elements of a tensor in the type that the model states, row-major; of a quantised one the real values.
    pub(super) fn as_is(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        self.read(tensor, RowMajor, self.stated(tensor))
    }

    /// The tensor in a form. As it is stored, it is row-major, and what has no encoding is its real values, but for 16-bit
    /// floats.
    pub(super) fn read(&mut self, tensor: TensorIndex, layout: Layout, storage: Storage) -> Result<ValueId> {
        let half = is_half(self.part, tensor);
        if storage == Stored && self.part.tensors[tensor].encoding.is_none() && !half {
            return self.read(tensor, layout, Real);
        }
        if let Some(value) = self.tensor_forms[tensor].get(layout, storage) {
            return Ok(value);
        }
        if matches!(storage, Real | Bf16) {
            self.settle(tensor)?;
            if let Some(value) = self.tensor_forms[tensor].get(layout, storage) {
                return Ok(value);
            }
        }
        let value = match (storage, layout) {
            (Real, RowMajor) if half && self.tensor_forms[tensor].get(ChannelsLast, Real).is_none() => {
                self.widened_half(tensor)?
            }
            (Stored, _) if half => self.narrowed_half(tensor)?,
            (Real, _) if self.is_bf16(tensor) => self.widened(tensor, layout)?,
            (Real, RowMajor) => self.real_rows(tensor)?,
            (Real, ChannelsLast) => self.real_channels(tensor)?,
            (Bf16, _) => self.bf16(tensor, layout)?,
            (Codes, _) => self.codes(tensor, layout)?,
            (Stored, _) => self.stored(tensor)?,
        };
        self.tensor_forms[tensor].set(layout, storage, value);
        Ok(value)
    }

    fn real_rows(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        if let Some(value) = self.tensor_forms[tensor].get(ChannelsLast, Real) {
            let dims = self.shape(tensor)?;
            if Layout::is_same(dims) {
                return Ok(self.view(value, dims.to_vec()));
            }
            let result = self.target(tensor, RowMajor)?;
            self.relayout(IMAGES, dims, RowMajor, value, result)?;
            Ok(result)
        } else if t.constant.is_some() && t.encoding.is_none() {
            self.constant(tensor)
        } else if t.is_constant() {
            self.decoded_constant(tensor, RowMajor)
        } else if let Some(value) = self.decoded_codes(tensor, RowMajor)? {
            Ok(value)
        } else if let Some(stored) = self.tensor_forms[tensor].get(RowMajor, Stored)
            && let Some(encoding) = &t.encoding
        {
            let dims = self.shape(tensor)?;
            let result = self.fresh(DType::F32, dims.to_vec())?;
            quantise::dequantise(self, t.dtype, dims, encoding.clone(), stored, result)?;
            Ok(result)
        } else {
            Err(self.not_computed(tensor))
        }
    }

    fn real_channels(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        let dims = self.shape(tensor)?;
        if Layout::is_same(dims) {
            let rows = self.rows(tensor)?;
            return Ok(self.view(rows, ChannelsLast.dims(dims)));
        }
        if self.part.tensors[tensor].is_constant() && self.is_f32(tensor) {
            return self.decoded_constant(tensor, ChannelsLast);
        }
        if self.tensor_forms[tensor].get(RowMajor, Real).is_none()
            && let Some(value) = self.decoded_codes(tensor, ChannelsLast)?
        {
            return Ok(value);
        }
        let rows = self.rows(tensor)?;
        let result = self.target(tensor, ChannelsLast)?;
        self.relayout(IMAGES, dims, ChannelsLast, rows, result)?;
        Ok(result)
    }

    /// f32 of stored 16-bit floats.
    fn widened_half(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        if self.part.tensors[tensor].is_constant() {
            return self.decoded_constant(tensor, RowMajor);
        }
        let stored = self.tensor_forms[tensor].get(RowMajor, Stored);
        let stored = stored.ok_or_else(|| self.not_computed(tensor))?;
        let shape = self.value_shape(stored).to_vec();
        let result = self.fresh(DType::F32, shape)?;
        steps::widen(self, stored, result);
        Ok(result)
    }

    /// The stored 16-bit floats of a tensor, in the memory of its output port where it has one.
    fn narrowed_half(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        if t.constant.is_some() {
            return self.constant(tensor);
        }
        let real = self.rows(tensor)?;
        let home = self.own_port(tensor);
        let result = self.value(t.dtype, self.shape(tensor)?.to_vec(), home)?;
        steps::narrow(self, real, result);
        Ok(result)
    }

    /// The memory of a tensor's own output port, else the arena: a wish that came through a view is for another tensor's.
    pub(super) fn own_port(&self, tensor: TensorIndex) -> Home {
        let inputs = self.part.inputs.len();
        match self.wishes[tensor] {
            Some(port) if self.part.outputs.get(port - inputs) == Some(&tensor) => Home::Port(port),
            _ => Home::Arena(0),
        }
    }

    /// Where codes of a tensor are computed: in the memory of its own output port, where those are the bytes that are stored.
    pub(super) fn code_home(&self, tensor: TensorIndex, layout: Layout) -> Home {
        let t = &self.part.tensors[tensor];
        let same = t.dtype == DType::U8 && t.encoding.is_some() && t.dims.is_some();
        if same && layout == RowMajor && grid(self.part, tensor).is_some() {
            self.own_port(tensor)
        } else {
            Home::Arena(0)
        }
    }

    /// f32 of bf16, in the memory of the tensor's output port where that wants this form.
    fn widened(&mut self, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
        let from = self.read(tensor, layout, Bf16)?;
        let result = self.target(tensor, layout)?;
        steps::unary(self, Unary::Identity, from, result);
        Ok(result)
    }

    /// A value rounded to bf16.
    fn narrowed(&mut self, wide: ValueId) -> Result<ValueId> {
        let shape = self.value_shape(wide).to_vec();
        let result = self.fresh(DType::BF16, shape)?;
        steps::unary(self, Unary::Identity, wide, result);
        Ok(result)
    }

    fn bf16(&mut self, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
        let forms = self.tensor_forms[tensor];
        let other = layout.other();
        if let Some(wide) = forms.get(layout, Real) {
            return self.narrowed(wide);
        }
        let from = match (forms.get(other, Bf16), forms.get(other, Real)) {
            (Some(from), _) => from,
            (None, _) if self.part.tensors[tensor].is_constant() => {
                let wide = self.read(tensor, layout, Real)?;
                return self.narrowed(wide);
            }
            // moved as bf16, which is half as much
            (None, Some(wide)) => {
                let from = self.narrowed(wide)?;
                self.tensor_forms[tensor].set(other, Bf16, from);
                from
            }
            (None, None) => return Err(self.not_computed(tensor)),
        };
        self.moved(IMAGES, tensor, layout, from)
    }

    fn codes(&mut self, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
        let other = layout.other();
        if let Some(from) = self.tensor_forms[tensor].get(other, Codes) {
            return self.moved(CODES, tensor, layout, from);
        }
        if self.code_source(tensor) == Some(other) {
            self.read(tensor, other, Codes)?;
            return self.read(tensor, layout, Codes);
        }
        // of stored bytes or of f32 values, which exist in this layout
        let t = &self.part.tensors[tensor];
        let grid = grid(self.part, tensor).ok_or_else(|| self.not_computed(tensor))?;
        let forms = self.tensor_forms[tensor];
        let stored = match forms.get(RowMajor, Stored) {
            _ if layout == ChannelsLast => None,
            None if t.constant.is_some() => Some(self.constant(tensor)?),
            stored => stored,
        };
        match stored {
            Some(stored) if t.dtype == DType::U8 => Ok(stored),
            Some(stored) => {
                let result = self.write(tensor, layout, Codes)?;
                quantise::flip(self, stored, result);
                Ok(result)
            }
            None => {
                let real = forms.get(layout, Real).ok_or_else(|| self.not_computed(tensor))?;
                let result = self.write(tensor, layout, Codes)?;
                quantise::encode(self, grid, real, result);
                Ok(result)
            }
        }
    }

    /// The layout in which something exists that codes can be made of.
    fn code_source(&self, tensor: TensorIndex) -> Option<Layout> {
        let exists = |layout, storage| self.tensor_forms[tensor].get(layout, storage).is_some();
        if exists(RowMajor, Stored) || exists(RowMajor, Real) || self.part.tensors[tensor].is_constant() {
            Some(RowMajor)
        } else {
            exists(ChannelsLast, Real).then_some(ChannelsLast)
        }
    }

    /// The f32 values of a tensor whose codes exist or can be made in this layout; nothing otherwise.
    fn decoded_codes(&mut self, tensor: TensorIndex, layout: Layout) -> Result<Option<ValueId>> {
        let forms = &self.tensor_forms[tensor];
        let exist = forms.has_codes() || forms.get(RowMajor, Stored).is_some();
        let Some(grid) = grid(self.part, tensor).filter(|_| exist) else {
            return Ok(None);
        };
        let codes = self.read(tensor, layout, Codes)?;
        let shape = self.value_shape(codes).to_vec();
        let result = self.fresh(DType::F32, shape)?;
        quantise::decode(self, grid, codes, result);
        Ok(Some(result))
    }

    /// The integers of a quantised tensor, in the memory of its output port where it has one.
    fn stored(&mut self, tensor: TensorIndex) -> Result<ValueId> {
        let t = &self.part.tensors[tensor];
        let dims = self.shape(tensor)?;
        if t.constant.is_some() {
            return self.constant(tensor);
        }
        if grid(self.part, tensor).is_some() {
            let rows = self.read(tensor, RowMajor, Codes)?;
            if t.dtype == DType::U8 {
                return Ok(rows);
            }
            let bytes = self.fresh(DType::I8, dims.to_vec())?;
            quantise::flip(self, rows, bytes);
            return Ok(bytes);
        }
        let encoding = t.encoding.clone();
        let encoding = encoding.expect("invariant: asked of quantised tensors only");
        let real = self.rows(tensor)?;
        let home = self.own_port(tensor);
        let result = self.value(t.dtype, dims.to_vec(), home)?;
        quantise::quantise(self, t.dtype, dims, encoding, real, result)?;
        Ok(result)
    }

    /// Rounds the f32 values of a quantised tensor to what its integers can hold.
    pub(super) fn round_to_encoding(&mut self, tensor: TensorIndex) -> Result<()> {
        let t = &self.part.tensors[tensor];
        let Some(encoding) = t.encoding.clone() else {
            return Ok(());
        };
        if grid(self.part, tensor).is_some() {
            return self.round_to_codes(tensor);
        }
        let forms = self.tensor_forms[tensor];
        let (value, layout) = match [
            forms.get(RowMajor, Stored),
            forms.get(RowMajor, Real),
            forms.get(ChannelsLast, Real),
        ] {
            [None, Some(value), _] => (value, RowMajor),
            [None, None, Some(value)] => (value, ChannelsLast),
            _ => return Ok(()),
        };
        let dims = self.shape(tensor)?;
        // memory that something else also sees (a view, an operand) is left alone
        let shape = self.value_shape(value).to_vec();
        let result = self.fresh(DType::F32, shape)?;
        quantise::round(self, t.dtype, dims, encoding, layout, (value, result))?;
        // what was made of the unrounded values is of no use
        self.tensor_forms[tensor].forget(layout.other(), Real);
        self.tensor_forms[tensor].set(layout, Real, result);
        Ok(())
    }

    /// Rounds what a node computed in f32 to codes, which take its place.
    fn round_to_codes(&mut self, tensor: TensorIndex) -> Result<()> {
        if !self.tensor_forms[tensor].has_codes() {
            if self.code_source(tensor).is_none() {
                return Ok(());
            }
            self.read(tensor, self.layout(tensor), Codes)?;
        }
        self.tensor_forms[tensor].forget(RowMajor, Real);
        self.tensor_forms[tensor].forget(ChannelsLast, Real);
        Ok(())
    }

    /// The layout in which a tensor's codes exist, or what they are made of; row-major where it is both.
    pub(super) fn code_layout(&self, tensor: TensorIndex) -> Layout {
        let has = |layout| self.tensor_forms[tensor].get(layout, Codes).is_some();
        if has(ChannelsLast) && !has(RowMajor) {
            ChannelsLast
        } else {
            self.layout(tensor)
        }
    }

    /// A tensor's elements in another layout, in the arena.
    fn moved(
        &mut self,
        names: [&'static str; 2],
        tensor: TensorIndex,
        layout: Layout,
        from: ValueId,
    ) -> Result<ValueId> {
        let dims = self.shape(tensor)?;
        let shape = layout.dims(dims);
        if Layout::is_same(dims) {
            return Ok(self.view(from, shape));
        }
        let dtype = self.values[from.0 as usize].dtype;
        let home = match dtype {
            DType::U8 => self.code_home(tensor, layout),
            _ => Home::Arena(0),
        };
        let result = self.value(dtype, shape, home)?;
        self.relayout(names, dims, layout, from, result)?;
        Ok(result)
    }

    /// Adds a transposition of an image of these extents to a layout; `names` is of the one to each.
    pub(super) fn relayout(
        &mut self,
        names: [&'static str; 2],
        dims: &[usize],
        layout: Layout,
        from: ValueId,
        to: ValueId,
    ) -> Result<()> {
        let [n, c, spatial] = image(dims)?;
        let plan = match layout {
            RowMajor => TransposePlan::channels_first(n, c, spatial),
            ChannelsLast => TransposePlan::channels_last(n, c, spatial),
        };
        steps::transpose(
            self,
            names[layout as usize],
            plan.map_err(kernel_error)?,
            from,
            to,
        );
        Ok(())
    }

    /// Copies a part of a wider image out of it, where that is all there is of the tensor.
    fn settle(&mut self, tensor: TensorIndex) -> Result<()> {
        let Some(slice) = self.tensor_forms[tensor].channel_slice else {
            return Ok(());
        };
        if self.tensor_forms[tensor]
            .get(ChannelsLast, slice.storage)
            .is_some()
        {
            return Ok(());
        }
        let dims = self.shape(tensor)?;
        let dtype = self.stored_as(tensor, slice.storage);
        let value = self.fresh(dtype, ChannelsLast.dims(dims))?;
        self.tensor_forms[tensor].set(ChannelsLast, slice.storage, value);
        let [n, c, spatial] = image(dims)?;
        let (from, to) = ([slice.stride as isize, 1], [c as isize, 1]);
        steps::strided(
            self,
            "part of an image",
            &[n * spatial, c],
            (slice.value, 0, &from),
            (value, 0, &to),
        )
    }

    /// The tensor channels last, perhaps as a part of a wider image: the elements between two of its pixels too.
    pub(super) fn image(&mut self, tensor: TensorIndex, storage: Storage) -> Result<(ValueId, usize)> {
        if let Some(slice) = self.tensor_forms[tensor].channel_slice
            && slice.storage == storage
            && self.tensor_forms[tensor].get(ChannelsLast, storage).is_none()
        {
            return Ok((slice.value, slice.stride));
        }
        let channels = image(self.shape(tensor)?)?[1];
        Ok((self.read(tensor, ChannelsLast, storage)?, channels))
    }

    /// The concatenation in which a tensor may be computed in place: all there are of the storage of the first.
    pub(super) fn concat_of(&self, tensor: TensorIndex, storage: Storage) -> Option<InPlaceConcat> {
        let admits =
            |output: TensorIndex| !self.has_channels(output) || self.is_bf16(output) == (storage == Bf16);
        self.in_place[tensor].filter(|place| is_unrounded(self.part, tensor) && admits(place.output))
    }

    /// The concatenation's result, channels last.
    pub(super) fn begin_concat(&mut self, place: InPlaceConcat, storage: Storage) -> Result<ValueId> {
        match self.tensor_forms[place.output].get(ChannelsLast, storage) {
            Some(value) => Ok(value),
            None => self.write(place.output, ChannelsLast, storage),
        }
    }

    /// Where a tensor is computed in a concatenation: from its first channel to the end.
    pub(super) fn write_in_place(
        &mut self,
        tensor: TensorIndex,
        place: InPlaceConcat,
        storage: Storage,
    ) -> Result<ValueId> {
        let whole = self.begin_concat(place, storage)?;
        let len = self.shape(place.output)?.iter().product::<usize>() - place.first;
        let value = self.subview(whole, place.first, vec![len])?;
        self.tensor_forms[tensor].channel_slice = Some(ChannelSlice {
            value,
            stride: place.channels,
            storage,
        });
        Ok(value)
    }
}

/// Names of the transpositions to each layout.
pub(super) const IMAGES: [&str; 2] = ["to row-major", "to channels last"];
/// Names of those of codes.
const CODES: [&str; 2] = ["codes to row-major", "codes to channels last"];
