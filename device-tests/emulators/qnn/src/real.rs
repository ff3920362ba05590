//! Conversion between the bytes of QNN tensors and tensors of the scalar reference (the *oracle*).
//!
//! Invariants:
//! 1. `real = (q + offset) * scale`, computed in `f64`; back: divide, round half away from zero, clamp.
//! 2. A fixed-point tensor becomes the node's real type, an integer or truth value stays what it is.
//!
//! Not here: which bytes a tensor has (`execute`).

use half::f16;
use polychip_cpu_kernels::reference::{Element, Error, Storage};
use polychip_emulator_qnn_format::{Dtype, Encoding, Linear, Tensor as Spec};
use polychip_ops::DType;
use polychip_reference::Tensor;

/// Reason why bytes do not fit a tensor's description.
pub(crate) type Refused = String;

const RAW: Linear = Linear {
    scale: 1.0,
    offset: 0,
};

/// The oracle's type of a tensor in a node that computes reals as `real`.
pub(crate) fn oracle_dtype(dtype: Dtype, real: DType) -> DType {
    match dtype {
        Dtype::Int8 => DType::I8,
        Dtype::Int16 => DType::I16,
        Dtype::Int32 => DType::I32,
        Dtype::Int64 => DType::I64,
        Dtype::Uint8 => DType::U8,
        Dtype::Uint16 => DType::U16,
        Dtype::Uint32 => DType::U32,
        Dtype::Uint64 => DType::U64,
        Dtype::Bool8 => DType::Bool,
        _ => real,
    }
}

/// Calls `f` with each number of a fixed-point or integer tensor in turn.
pub(crate) fn each(spec: &Spec, dtype: Dtype, bytes: &[u8], mut f: impl FnMut(i64)) {
    macro_rules! words {
        ($ty:ty) => {
            bytes
                .as_chunks::<{ size_of::<$ty>() }>()
                .0
                .iter()
                .for_each(|word| f(<$ty>::from_le_bytes(*word) as i64))
        };
    }
    match dtype {
        Dtype::Sfixed4 | Dtype::Ufixed4 => {
            let count = spec.elements().unwrap_or(0);
            for i in 0..count {
                let nibble = bytes.get(i / 2).copied().unwrap_or(0) >> (i % 2 * 4) & 15;
                f(match dtype {
                    Dtype::Sfixed4 if nibble > 7 => i64::from(nibble) - 16,
                    _ => nibble.into(),
                });
            }
        }
        Dtype::Int8 | Dtype::Sfixed8 => match spec.encoding.bits() {
            Some(bits @ 1..8) => {
                let shift = 8 - bits;
                bytes
                    .iter()
                    .for_each(|&b| f(((b << shift) as i8 >> shift).into()));
            }
            _ => words!(i8),
        },
        Dtype::Int16 | Dtype::Sfixed16 => words!(i16),
        Dtype::Int32 | Dtype::Sfixed32 => words!(i32),
        Dtype::Int64 => words!(i64),
        Dtype::Uint8 | Dtype::Ufixed8 | Dtype::Bool8 => words!(u8),
        Dtype::Uint16 | Dtype::Ufixed16 => words!(u16),
        Dtype::Uint32 | Dtype::Ufixed32 => words!(u32),
        Dtype::Uint64 => words!(u64),
        Dtype::Float16 | Dtype::Float32 | Dtype::Float64 => {}
    }
}

/// The numbers of a fixed-point or integer tensor.
pub(crate) fn numbers(spec: &Spec, bytes: &[u8]) -> Result<Vec<i64>, Refused> {
    let dtype = known(spec)?;
    if dtype.is_float() {
        return Err(format!("tensor {:?} is of floats", spec.name));
    }
    let mut out = Vec::with_capacity(spec.elements().unwrap_or(0));
    each(spec, dtype, bytes, |q| out.push(q));
    Ok(out)
}

fn known(spec: &Spec) -> Result<Dtype, Refused> {
    spec.known_dtype()
        .ok_or_else(|| format!("tensor {:?} has data type {:#06x}", spec.name, spec.dtype))
}

/// The steps of an encoding along the elements: (elements between two indices of the axis, steps).
fn strides(spec: &Spec) -> Result<(usize, Vec<Linear>), Refused> {
    match spec.encoding.steps() {
        None => Ok((1, vec![RAW])),
        Some((None, steps)) => Ok((1, steps.to_vec())),
        Some((Some(axis), steps)) => {
            let shape = spec.shape();
            if shape.get(axis) != Some(&steps.len()) {
                return Err(format!(
                    "tensor {:?} of shape {shape:?} has {} steps on axis {axis}",
                    spec.name,
                    steps.len()
                ));
            }
            Ok((shape[axis + 1..].iter().product(), steps.to_vec()))
        }
    }
}

/// The oracle's tensor of these bytes; with `half`, floats are rounded to 16 bits first.
pub(crate) fn load(spec: &Spec, bytes: &[u8], real: DType, half: bool) -> Result<Tensor, Refused> {
    let dtype = known(spec)?;
    let shape = spec.shape();
    if spec.byte_len() != Some(bytes.len()) {
        return Err(format!("tensor {:?} has {} bytes", spec.name, bytes.len()));
    }
    let oracle = oracle_dtype(dtype, real);
    if oracle != real {
        return Tensor::from_bytes(polychip_reference::element(oracle), shape, bytes)
            .map_err(|e| e.to_string());
    }
    let round = |v: f32| if half { f16::from_f32(v).to_f32() } else { v };
    let mut values: Vec<f64> = Vec::with_capacity(spec.elements().unwrap_or(0));
    match dtype {
        Dtype::Float16 => values.extend(
            bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f64()),
        ),
        Dtype::Float32 => values.extend(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f64::from(round(f32::from_le_bytes(*b)))),
        ),
        Dtype::Float64 => values.extend(bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b))),
        _ => {
            let (inner, steps) = strides(spec)?;
            let many = steps.len();
            if let [step] = steps[..] {
                let (offset, scale) = (i64::from(step.offset), f64::from(step.scale));
                each(spec, dtype, bytes, |q| values.push((q + offset) as f64 * scale));
            } else {
                let mut i = 0;
                each(spec, dtype, bytes, |q| {
                    let step = steps[i / inner.max(1) % many];
                    values.push((q + i64::from(step.offset)) as f64 * f64::from(step.scale));
                    i += 1;
                });
            }
        }
    }
    let data = match real {
        DType::F64 => Storage::F64(values),
        _ => Storage::F32(values.into_iter().map(|v| v as f32).collect()),
    };
    Tensor::new(shape, data).map_err(|e| e.to_string())
}

/// A real number as a fixed-point one.
pub(crate) fn quantise(real: f64, step: Linear, (low, high): (i64, i64)) -> i64 {
    let steps = (real / f64::from(step.scale)).round();
    // a cast saturates, and makes 0 of NaN
    (steps as i64).saturating_sub(step.offset.into()).clamp(low, high)
}

/// The least and the greatest number that a tensor may hold.
pub(crate) fn range(spec: &Spec, dtype: Dtype) -> (i64, i64) {
    match (spec.encoding.bits(), dtype.range()) {
        (Some(bits @ 1..=31), (low, _)) if low < 0 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (Some(bits @ 1..=31), _) => (0, (1 << bits) - 1),
        (_, range) => range,
    }
}

/// Writes numbers as elements of `dtype`, which is not a float.
pub(crate) fn pack(dtype: Dtype, numbers: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
    match dtype.bits() {
        4 => {
            let mut low = None;
            for q in numbers {
                let nibble = (q & 15) as u8;
                match low.take() {
                    None => low = Some(nibble),
                    Some(first) => out.push(first | nibble << 4),
                }
            }
            out.extend(low);
        }
        8 => out.extend(numbers.map(|q| q as u8)),
        16 => numbers.for_each(|q| out.extend_from_slice(&(q as u16).to_le_bytes())),
        32 => numbers.for_each(|q| out.extend_from_slice(&(q as u32).to_le_bytes())),
        _ => numbers.for_each(|q| out.extend_from_slice(&q.to_le_bytes())),
    }
}

/// The bytes of an oracle's tensor as this tensor holds them.
pub(crate) fn store(tensor: &Tensor, spec: &Spec, half: bool) -> Result<Vec<u8>, Refused> {
    let dtype = known(spec)?;
    if spec.elements() != Some(tensor.len()) {
        return Err(format!(
            "tensor {:?} of shape {:?} gets {} elements",
            spec.name,
            spec.shape(),
            tensor.len()
        ));
    }
    let bytes = dtype.bytes(tensor.len()).unwrap_or(0);
    let mut out = Vec::with_capacity(bytes);
    let text = |e: Error| e.to_string();
    if !dtype.is_float() && !dtype.is_fixed() {
        let numbers = match tensor.element() {
            Element::Bool => tensor
                .to_bools()
                .map_err(text)?
                .into_iter()
                .map(i64::from)
                .collect(),
            Element::F32 | Element::F64 => {
                let (low, high) = dtype.range();
                tensor
                    .to_f64s()
                    .map_err(text)?
                    .into_iter()
                    .map(|v| (v as i64).clamp(low, high))
                    .collect()
            }
            _ => tensor.to_i64s().map_err(text)?,
        };
        let truth = dtype == Dtype::Bool8;
        pack(
            dtype,
            numbers
                .into_iter()
                .map(|q| if truth { i64::from(q != 0) } else { q }),
            &mut out,
        );
        return Ok(out);
    }
    let values: Vec<f64> = match tensor.element() {
        Element::F32 | Element::F64 => tensor.to_f64s().map_err(text)?,
        Element::Bool => tensor
            .to_bools()
            .map_err(text)?
            .into_iter()
            .map(f64::from)
            .collect(),
        _ => tensor
            .to_i64s()
            .map_err(text)?
            .into_iter()
            .map(|v| v as f64)
            .collect(),
    };
    match dtype {
        Dtype::Float16 => {
            values
                .iter()
                .for_each(|&v| out.extend_from_slice(&f16::from_f64(v).to_le_bytes()));
        }
        Dtype::Float32 => {
            for v in values {
                let v = if half { f16::from_f64(v).to_f32() } else { v as f32 };
                out.extend_from_slice(&v.to_le_bytes());
            }
        }
        Dtype::Float64 => values
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        _ => {
            let range = range(spec, dtype);
            let (inner, steps) = strides(spec)?;
            let many = steps.len();
            let numbers = values.iter().enumerate().map(|(i, &v)| {
                let step = if many == 1 {
                    steps[0]
                } else {
                    steps[i / inner.max(1) % many]
                };
                quantise(v, step, range)
            });
            pack(dtype, numbers, &mut out);
        }
    }
    Ok(out)
}

/// The one step of a tensor that has one for all.
pub(crate) fn one_step(spec: &Spec) -> Option<Linear> {
    match &spec.encoding {
        Encoding::PerTensor(step) | Encoding::BitsPerTensor { step, .. } => Some(*step),
        _ => None,
    }
}
