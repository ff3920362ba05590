//! Steps between real values, stored integers and 8-bit codes.
//!
//! Invariant: rounding is to nearest even and saturates, as ONNX says of QuantizeLinear.
//!
//! Not here: which tensors are rounded, and when (`materialize`).

use polychip_cpu_kernels::quantised as kernel;
use polychip_lowering::{Layout, ScaleIndex, integers};
use polychip_ops::DType;
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use super::encoding::{Grid, range};
use crate::part::Encoding;
use crate::step::{Operands, Plain, ValueId};
use crate::work::Class;

/// Adds a step `result = real(stored)`.
pub(super) fn dequantise(
    l: &mut Lowering<'_>,
    dtype: DType,
    dims: &[usize],
    encoding: Encoding,
    stored: ValueId,
    result: ValueId,
) -> Result<()> {
    let index = ScaleIndex::new(&encoding, dims, Layout::RowMajor)?;
    let elements: usize = dims.iter().product();
    l.step(
        "dequantise",
        &[stored],
        &[result],
        None,
        Box::new(move |o| {
            let y = o.write::<f32>(0);
            fn each<T: Plain>(o: &Operands<'_>, encoding: &Encoding, index: &ScaleIndex, y: &mut [f32])
            where
                f32: FromLossy<T>,
            {
                let x = o.read::<T>(0);
                index.runs(encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = (f32::from_lossy(x) - zero) * scale;
                    }
                });
            }
            match dtype {
                DType::I8 => each::<i8>(o, &encoding, &index, y),
                DType::U8 => each::<u8>(o, &encoding, &index, y),
                DType::I16 => each::<i16>(o, &encoding, &index, y),
                DType::U16 => each::<u16>(o, &encoding, &index, y),
                DType::I32 => {
                    // the difference is taken in integers, which f32 cannot hold
                    let x = o.read::<i32>(0);
                    for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
                        *y = x.wrapping_sub(zero) as f32 * encoding.scales[at];
                    }
                }
                _ => {
                    let stored = integers(dtype, elements, o.read::<u8>(0))?;
                    for (i, (y, x)) in y.iter_mut().zip(stored).enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
                        *y = (x - zero) as f32 * encoding.scales[at];
                    }
                }
            }
            Ok(())
        }),
    )
    .is(Class::Dequantise);
    Ok(())
}

fn limits(dtype: DType) -> Result<(f32, f32)> {
    range(dtype).ok_or_else(|| Error::unsupported(format!("an encoding of {} is not computed", dtype.name())))
}

/// Adds a step `result = stored(real)`.
pub(super) fn quantise(
    l: &mut Lowering<'_>,
    dtype: DType,
    dims: &[usize],
    encoding: Encoding,
    real: ValueId,
    result: ValueId,
) -> Result<()> {
    let (low, high) = limits(dtype)?;
    let index = ScaleIndex::new(&encoding, dims, Layout::RowMajor)?;
    l.step(
        "quantise",
        &[real],
        &[result],
        None,
        Box::new(move |o| {
            let x = o.read::<f32>(0);
            fn each<T: Plain + FromLossy<f32>>(
                o: &mut Operands<'_>,
                encoding: &Encoding,
                index: &ScaleIndex,
                x: &[f32],
                (low, high): (f32, f32),
            ) {
                let y = o.write::<T>(0);
                index.runs(encoding, x.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = T::from_lossy(quantised(x, scale, low - zero, high - zero) + zero);
                    }
                });
            }
            let limits = (low, high);
            match dtype {
                DType::I8 => each::<i8>(o, &encoding, &index, x, limits),
                DType::U8 => each::<u8>(o, &encoding, &index, x, limits),
                DType::I16 => each::<i16>(o, &encoding, &index, x, limits),
                DType::U16 => each::<u16>(o, &encoding, &index, x, limits),
                DType::I32 => each::<i32>(o, &encoding, &index, x, limits),
                _ => {
                    let bits = dtype.bits().unwrap_or(8).min(8);
                    let per_byte = 8 / bits;
                    let y = o.write::<u8>(0);
                    y.fill(0);
                    for (i, &x) in x.iter().enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0) as f32;
                        let code = (quantised(x, encoding.scales[at], low - zero, high - zero) + zero) as i32;
                        y[i / per_byte] |= ((code & ((1 << bits) - 1)) << (i % per_byte * bits)) as u8;
                    }
                }
            }
            Ok(())
        }),
    )
    .is(Class::Quantise);
    Ok(())
}

/// The integer that stands for `x`, before the zero point is added; `low` and `high` are less it.
#[inline(always)]
fn quantised(x: f32, scale: f32, low: f32, high: f32) -> f32 {
    // adding 1.5 * 2^23 leaves no bit for a fraction, and so rounds to nearest even up to 2^22; the library's
    // function is a call per element where the instruction set is not known to have one
    const SHIFT: f32 = 12_582_912.0;
    let x = (x / scale).max(low).min(high);
    if low > -4_000_000.0 && high < 4_000_000.0 {
        (x + SHIFT) - SHIFT
    } else {
        x.round_ties_even()
    }
}

/// Adds a step `result = real(stored(x))`, in a layout.
pub(super) fn round(
    l: &mut Lowering<'_>,
    dtype: DType,
    dims: &[usize],
    encoding: Encoding,
    layout: Layout,
    (x, result): (ValueId, ValueId),
) -> Result<()> {
    let (low, high) = limits(dtype)?;
    let index = ScaleIndex::new(&encoding, dims, layout)?;
    l.step(
        "round to encoding",
        &[x],
        &[result],
        None,
        Box::new(move |o| {
            if o.shared().is_none() {
                let x = o.read::<f32>(0);
                let y = o.write::<f32>(0);
                index.runs(&encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = quantised(x, scale, low - zero, high - zero) * scale;
                    }
                });
            } else {
                let y = o.write::<f32>(0);
                index.runs(&encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for y in &mut y[range] {
                        *y = quantised(*y, scale, low - zero, high - zero) * scale;
                    }
                });
            }
            Ok(())
        }),
    )
    .is(Class::Quantise)
    .may_share = vec![0];
    Ok(())
}

/// Adds a step `codes = code(real)`.
pub(super) fn encode(l: &mut Lowering<'_>, grid: Grid, real: ValueId, codes: ValueId) {
    let isa = l.isa;
    l.step(
        "quantise",
        &[real],
        &[codes],
        None,
        Box::new(move |o| {
            kernel::quantise(isa, o.pool, o.read(0), grid.scale, grid.codes(), o.write(0));
            Ok(())
        }),
    )
    .is(Class::Codes);
}

/// Adds a step `real = real(codes)`.
pub(super) fn decode(l: &mut Lowering<'_>, grid: Grid, codes: ValueId, real: ValueId) {
    let isa = l.isa;
    l.step(
        "dequantise",
        &[codes],
        &[real],
        None,
        Box::new(move |o| {
            kernel::dequantise(isa, o.pool, o.read(0), grid.scale, grid.zero, o.write(0));
            Ok(())
        }),
    )
    .is(Class::Codes);
}

/// Adds a step between codes and signed bytes.
pub(super) fn flip(l: &mut Lowering<'_>, from: ValueId, to: ValueId) {
    l.step(
        "flip signs",
        &[from],
        &[to],
        None,
        Box::new(|o| {
            kernel::flip(o.pool, o.read(0), o.write(0));
            Ok(())
        }),
    )
    .is(Class::Codes);
}

/// Numeric conversion that saturates and truncates, as `as` does.
pub(crate) trait FromLossy<T> {
    /// The nearest value of this type.
    fn from_lossy(value: T) -> Self;
}

macro_rules! lossy {
    ($($from:ty => $($to:ty),+;)+) => {$($(
        impl FromLossy<$from> for $to {
            #[inline(always)]
            fn from_lossy(value: $from) -> $to {
                value as $to
            }
        }
    )+)+};
}
lossy! {
    f32 => f32, i8, u8, i16, u16, i32, u32, i64, u64;
    i8 => f32;
    u8 => f32, i32, i64;
    i16 => f32;
    u16 => f32;
    i32 => f32, i32, i64;
    u32 => f32;
    i64 => f32, i32, i64;
    u64 => f32;
}

#[cfg(test)]
mod tests {
    use super::quantised;

    #[test]
    fn rounding_is_to_nearest_even_and_saturates() {
        for (low, high) in [(-128.0, 127.0), (-2_147_483_648.0f32, 2_147_483_647.0f32)] {
            for i in -600..600 {
                let x = i as f32 / 4.0;
                assert_eq!(
                    quantised(x, 0.5, low, high),
                    (x / 0.5).round_ties_even().clamp(low, high),
                    "{x}"
                );
            }
        }
    }
}
