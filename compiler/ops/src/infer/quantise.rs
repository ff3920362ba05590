//! Shapes and types of ops on quantised tensors.
//!
//! Invariant: a scale is one value, one per axis, or one per block; its zero point has its shape.
//! Not here: rounding (the kernels'), encodings of tensors (`graph`).

use crate::infer::call::{Call, Out, Result, bad_input, bail};
use crate::infer::{convolution, matrix};
use crate::{Attr, DType, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::QuantizeLinear => {
            scales(call)?;
            let stated = call.dtype_attr(Attr::OutputDtype)?;
            let zero_point = call.dtype(2);
            if let (Some(stated), Some(zero_point)) = (stated, zero_point)
                && stated != zero_point
            {
                bail!(
                    call,
                    DType,
                    "output_dtype is {stated}, the zero point {zero_point}"
                );
            }
            let dtype = zero_point.or(stated).unwrap_or(DType::U8);
            Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec)).typed(Some(dtype))])
        }
        Op::DequantizeLinear => {
            scales(call)?;
            let dtype = call.dtype_attr(Attr::OutputDtype)?.or(call.dtype(1));
            Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec)).typed(dtype)])
        }
        Op::DynamicQuantizeLinear => {
            let y = Out::new(call.dims(0).map(<[_]>::to_vec));
            Ok(vec![y, Out::scalar(), Out::scalar()])
        }
        Op::QLinearConv => {
            let shape = convolution::plain(call, 0, 3, usize::MAX)?;
            if let Some(shape) = &shape {
                call.rank_is(8, 1)?;
                call.expect_dim(8, 0, &shape[1])?;
            }
            for index in [1, 2, 6, 7] {
                call.check_scalar(index)?;
            }
            Ok(vec![Out::new(shape)])
        }
        _ => Ok(vec![Out::new(matrix::product(call, 0, 3)?)]),
    }
}

/// Checks that scale and zero point are per tensor, per axis or per block.
fn scales(call: &Call<'_>) -> Result<()> {
    let block = call.int(Attr::BlockSize);
    if block < 0 {
        bail!(call, Attribute, "block_size is {block}, less than 0");
    }
    let Some(scale) = call.dims(1) else { return Ok(()) };
    call.expect_dims_or_one(2, scale)?;
    let Some(dims) = call.dims(0) else { return Ok(()) };
    let single = scale.iter().all(|dim| *dim == Dim::Known(1)) && scale.len() <= 1;
    if single && block == 0 {
        return Ok(());
    }
    if dims.is_empty() && block == 0 {
        // one value, whatever the axis
        call.rank_is(1, 1)?;
        return call.expect_dim(1, 0, &Dim::Known(1));
    }
    let axis = call.axis(call.int(Attr::Axis), dims.len());
    if block == 0 {
        call.rank_is(1, 1)?;
        // With rank 1 the whole tensor is quantised by what must then be one value or its length.
        let axis = if dims.len() == 1 { 0 } else { axis? };
        return call.expect_dim(1, 0, &dims[axis]);
    }
    let axis = axis?;
    call.rank_is(1, dims.len())?;
    for (place, (dim, scale)) in dims.iter().zip(scale).enumerate() {
        if place != axis {
            call.expect_dim(1, place, dim)?;
        } else if let (Some(size), Some(count)) = (dim.known(), scale.known()) {
            let block = call.size_from(block, 1, "block_size")?;
            if size.div_ceil(block) != count {
                bad_input!(
                    call,
                    1,
                    "{count} blocks of {block} do not make axis {axis} of {size}"
                );
            }
        }
    }
    Ok(())
}

impl Call<'_> {
    /// An error unless an input has this shape, or both are a single value.
    fn expect_dims_or_one(&self, index: usize, want: &[Dim]) -> Result<()> {
        let one = |dims: &[Dim]| dims.len() <= 1 && dims.iter().all(|dim| *dim == Dim::Known(1));
        match self.dims(index) {
            Some(dims) if one(dims) && one(want) => Ok(()),
            _ => self.expect_dims(index, want),
        }
    }
}
