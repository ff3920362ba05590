//! Quantising ops with their constants, and constants as a model holds them.

use std::borrow::Cow;

use polychip_ops::{Attr, DType};

use super::message::{head, simple};
use super::options::{Quantised, Weights};
use super::schema::{ADDRESS, EXTERNAL, field};
use super::wire::Wire;
use crate::{EncodingKind, EncodingView, Error, Result, TensorView};

/// Shift from unsigned to signed bytes.
const SIGN: i32 = 128;

/// Element type of a tensor in the model.
pub(super) fn stored_dtype(tensor: &TensorView<'_>, quantised: Quantised) -> DType {
    let real = tensor.encoding().map(|encoding| encoding.real_dtype());
    match (tensor.dtype(), real) {
        (dtype, _) if quantised == Quantised::Stored => dtype,
        (DType::U8, Some(_)) => DType::I8,
        (DType::I32, Some(DType::F32)) if tensor.is_constant() => DType::F32,
        (dtype, _) => dtype,
    }
}

/// The reals that 32-bit integers encode, as bytes of f32; `None` unless the scales are per tensor or per axis.
fn reals<'b>(encoding: &EncodingView<'_>, dims: &[usize], bytes: &[u8]) -> Option<Cow<'b, [u8]>> {
    let (scales, zero_points) = (encoding.scales(), encoding.zero_points());
    let inner: usize = match encoding.kind() {
        EncodingKind::PerTensor => bytes.len().max(1),
        EncodingKind::PerAxis { axis } if dims.get(axis) == Some(&scales.len()) => {
            dims[axis + 1..].iter().product::<usize>().max(1)
        }
        _ => return None,
    };
    let value = |(at, bytes): (usize, &[u8])| -> Option<[u8; 4]> {
        let which = at / inner % scales.len().max(1);
        let zero = i64::from(zero_points.get(which).copied().unwrap_or(0));
        let steps = i64::from(i32::from_le_bytes(bytes.try_into().ok()?)) - zero;
        let real = steps as f64 * f64::from(*scales.get(which)?);
        Some((real as f32).to_le_bytes())
    };
    let values: Option<Vec<[u8; 4]>> = bytes.chunks_exact(4).enumerate().map(value).collect();
    Some(Cow::Owned(values?.concat()))
}

/// Scales are f32: a tensor that encodes another float type needs a cast in between.
pub(super) fn cast_tail(name: &str, encoding: &EncodingView<'_>) -> Option<String> {
    (encoding.real_dtype() != DType::F32).then(|| format!("{name}.f32"))
}

/// A QuantizeLinear or DequantizeLinear with its constants.
pub(super) fn quantising(
    wire: &mut Wire,
    op: &str,
    tensor: &TensorView<'_>,
    encoding: &EncodingView<'_>,
    quantised: Quantised,
    from: &str,
    to: &str,
) -> Result<()> {
    let unsupported = |what: &str| {
        Error::unsupported(format!("the encoding of tensor {}: {what}", tensor.name()))
            .at_tensor(tensor.index())
    };
    let dtype = stored_dtype(tensor, quantised);
    if dtype == DType::I32 && op == "QuantizeLinear" {
        return Err(unsupported("ONNX quantises nothing to i32"));
    }
    let (scales, zero_points) = (encoding.scales(), encoding.zero_points());
    let mut attributes = Vec::new();
    let dims: Vec<usize> = match encoding.kind() {
        EncodingKind::PerTensor => Vec::new(),
        EncodingKind::PerAxis { axis } => {
            attributes.push((Attr::Axis.name(), axis as i64));
            vec![scales.len()]
        }
        EncodingKind::PerBlock { axis, block } => {
            attributes.push((Attr::Axis.name(), axis as i64));
            attributes.push((Attr::BlockSize.name(), block as i64));
            let mut dims = tensor
                .shape()
                .ok_or_else(|| unsupported("blocks of an unknown shape"))?;
            let along = dims.get_mut(axis).ok_or_else(|| unsupported("no such axis"))?;
            *along = along.div_ceil(block.max(1));
            dims
        }
        EncodingKind::Blocks(layout) => {
            return Err(unsupported(&format!("ONNX has no blocks of {layout}")));
        }
    };
    if dims.iter().product::<usize>() != scales.len() {
        return Err(unsupported("the number of scales is not that of its blocks"));
    }
    let scale = format!("{to}.scale");
    wire.message(field::GRAPH_INITIALIZER, |wire| {
        head(wire, &scale, DType::F32, &dims);
        let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        wire.bytes(field::TENSOR_RAW, &bytes)
    })?;
    let zero = format!("{to}.zero");
    let mut inputs = vec![from, &*scale];
    // where it may be left out it says the type
    if dtype != DType::I32 {
        let mut values = match zero_points {
            [] => vec![0; scales.len()],
            given => given.to_vec(),
        };
        if dtype != tensor.dtype() {
            values.iter_mut().for_each(|zero| *zero -= SIGN);
        }
        let bytes = packed(dtype, &values).ok_or_else(|| unsupported("zero points of this type"))?;
        wire.message(field::GRAPH_INITIALIZER, |wire| {
            head(wire, &zero, dtype, &dims);
            wire.bytes(field::TENSOR_RAW, &bytes)
        })?;
        inputs.push(&zero);
    } else if zero_points.iter().any(|&zero| zero != 0) {
        return Err(unsupported("zero points of i32"));
    }
    simple(wire, &format!("{to}.{op}"), op, &inputs, to, &attributes)
}

/// Integers as raw data of a type.
fn packed(dtype: DType, values: &[i32]) -> Option<Vec<u8>> {
    let bits = dtype.bits()?;
    let integer = matches!(
        dtype,
        DType::U2 | DType::I2 | DType::U4 | DType::I4 | DType::U8 | DType::I8 | DType::U16 | DType::I16
    );
    let float8 = dtype.is_float() && values.iter().all(|&value| value == 0);
    if !integer && !float8 {
        return None;
    }
    let mut bytes = vec![0u8; dtype.byte_len(values.len())?];
    for (index, &value) in values.iter().enumerate() {
        let at = index * bits;
        if bits >= 8 {
            let width = bits / 8;
            bytes[at / 8..at / 8 + width].copy_from_slice(&value.to_le_bytes()[..width]);
        } else {
            bytes[at / 8] |= (value as u8 & ((1 << bits) - 1)) << (at % 8);
        }
    }
    Some(bytes)
}

/// A constant.
pub(super) fn constant(
    wire: &mut Wire,
    at: u32,
    name: &str,
    tensor: &TensorView<'_>,
    (weights, quantised): (Weights, Quantised),
) -> Result<()> {
    let refused = |what: &str| {
        Error::unsupported(format!("constant {} {what}", tensor.name())).at_tensor(tensor.index())
    };
    if tensor.dtype() == DType::String {
        return Err(refused("is of strings"));
    }
    let dims = tensor.shape().ok_or_else(|| refused("has no known shape"))?;
    let data = tensor.constant().ok_or_else(|| refused("has no data"))?;
    let dtype = stored_dtype(tensor, quantised);
    let bytes = match tensor.encoding() {
        Some(encoding) if dtype == DType::F32 => reals(&encoding, &dims, data.bytes()),
        Some(_) if dtype != tensor.dtype() => Some(data.bytes().iter().map(|byte| byte ^ 0x80).collect()),
        _ => Some(Cow::Borrowed(data.bytes())),
    };
    let bytes = bytes.ok_or_else(|| refused("has scales that do not fit it"))?;
    wire.message(at, |wire| {
        head(wire, name, dtype, &dims);
        let address = match weights {
            Weights::Address(least) if bytes.len() >= least.max(1) => bytes.as_ptr() as usize,
            Weights::Placeholder(least) if bytes.len() >= least.max(1) => 1,
            _ => return wire.bytes(field::TENSOR_RAW, &bytes),
        };
        let pairs = [
            ("location", ADDRESS.to_owned()),
            ("offset", address.to_string()),
            ("length", bytes.len().to_string()),
        ];
        for (key, value) in &pairs {
            wire.message(field::TENSOR_EXTERNAL, |wire| {
                wire.text(field::PAIR_KEY, key);
                wire.text(field::PAIR_VALUE, value);
                Ok(())
            })?;
        }
        wire.int(field::TENSOR_LOCATION, EXTERNAL);
        Ok(())
    })
}
