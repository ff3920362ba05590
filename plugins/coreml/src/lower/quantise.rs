//! Tensors of bytes that encode reals: 8-bit values between operations, which compute reals.
//!
//! Each operation reads what `dequantize` gives and is read by `quantize`: the pattern in which Core ML itself finds that
//! it may compute integers. Ports are arrays of f16, as no array of iOS 17 holds bytes: they hold the integers, all of which
//! f16 has, and the host widens and narrows them (`widen`).
//!
//! Invariants:
//! 1. An encoding is of 8 bits and one scale; weights may have one scale per index of an axis.
//! 2. What rounding scales to the width of reals does to a product is taken back in its weights (`Lower::factors`).
//! 3. A scale is refused if it is below the normal range of f16, or if its reals exceed the range of f16.

use half::f16;
use polychip_lowering::{Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{DType, Op};
use polychip_sdk::{Encoding, EncodingKind};

use super::builder::Lower;
use crate::program::{Arg, Type, ValueId};

/// How the bytes of a tensor encode reals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Encoded {
    ty: Type,
    scale: f32,
    zero: i32,
}

/// The bytes of a type.
const fn bytes(dtype: DType) -> Option<Type> {
    match dtype {
        DType::I8 => Some(Type::I8),
        DType::U8 => Some(Type::U8),
        _ => None,
    }
}

/// Whether all that a scale makes of bytes is of full precision in a type.
fn holds(ty: Type, scale: f32) -> bool {
    let most = f32::from(f16::MAX) / 256.0;
    match ty {
        Type::F16 => (f32::from(f16::MIN_POSITIVE)..most).contains(&scale),
        _ => scale.is_normal() && scale > 0.0,
    }
}

impl Lower<'_> {
    /// The encoding of a tensor that a run makes or reads; none of a tensor of plain elements.
    pub(super) fn encoded(&self, tensor: TensorIndex) -> Outcome<Option<Encoded>> {
        let view = self.view(tensor);
        let Some(encoding) = view.encoding.as_ref().filter(|_| !view.is_constant()) else {
            return Ok(None);
        };
        let named = |what: &str| Refusal::encoding(format!("tensor {} {what}", view.name));
        let ty = bytes(view.dtype).ok_or_else(|| named("encodes reals in other than 8 bits"))?;
        let (EncodingKind::PerTensor, Some(&scale)) = (encoding.kind, encoding.scales.first()) else {
            return Err(named("has more than one scale; only weights may"));
        };
        let zero = encoding.zero_points.first().copied().unwrap_or(0);
        let encoded = Encoded { ty, scale, zero };
        Ok(Some(encoded))
    }

    /// Refuses a scale that the type of a tensor's reals does not hold.
    pub(super) fn holds(&self, tensor: TensorIndex, ty: Type) -> Outcome<()> {
        match self.encoded(tensor)? {
            Some(Encoded { scale, .. }) if !holds(ty, scale) => Err(Refusal::encoding(format!(
                "tensor {} has scale {scale}, which 16-bit floats do not hold",
                self.view(tensor).name
            ))),
            _ => Ok(()),
        }
    }

    fn parameters(encoded: Encoded, real: Type) -> [(&'static str, Arg); 2] {
        [
            ("scale", Arg::Real(real, encoded.scale)),
            ("zero_point", Arg::Real(encoded.ty, encoded.zero as f32)),
        ]
    }

    /// The reals of a value of bytes.
    pub(super) fn dequantised(&mut self, id: ValueId, encoded: Encoded, real: Type) -> ValueId {
        let mut args = vec![("input", Arg::Value(id))];
        args.extend(Self::parameters(encoded, real));
        let dims = self.dims_of(id).to_vec();
        self.op("dequantize", args, real, &dims)
    }

    /// The bytes of a value of reals.
    pub(super) fn quantised(&mut self, id: ValueId, encoded: Encoded) -> ValueId {
        let mut args = vec![("input", Arg::Value(id))];
        args.extend(Self::parameters(encoded, self.ty_of(id)));
        args.push(("output_dtype", Arg::Text(encoded.ty.word())));
        let dims = self.dims_of(id).to_vec();
        self.op("quantize", args, encoded.ty, &dims)
    }

    /// The bytes of an array of f16 at a port.
    pub(super) fn narrowed(&mut self, id: ValueId, encoded: Encoded) -> ValueId {
        self.cast(id, encoded.ty)
    }

    /// QuantizeLinear and DequantizeLinear, of the encoding that their tensor has.
    pub(super) fn border_of_integers(&mut self, node: &Node) -> Outcome<()> {
        let (input, output) = (self.input(node, 0)?, self.output(node)?);
        let (integers, reals) = match node.op {
            Op::QuantizeLinear => (output, input),
            _ => (input, output),
        };
        self.floats(reals)?;
        let encoded = self.encoded(integers)?.ok_or_else(|| {
            let name = &self.view(integers).name;
            Refusal::encoding(format!("tensor {name} has no encoding, or is a constant"))
        })?;
        let scale = self.input(node, 1)?;
        let scale = if self.view(scale).is_constant() {
            self.number(scale)?
        } else {
            let name = &self.view(scale).name;
            return Err(Refusal::constant(format!(
                "tensor {name} would have to be a constant"
            )));
        };
        let zero = match node.input(2) {
            Some(zero) => self.integers(zero)?.first().copied().unwrap_or(0),
            None => 0,
        };
        if scale != encoded.scale || zero != i64::from(encoded.zero) {
            return Err(Refusal::encoding(format!(
                "{} with another encoding than its tensor has elsewhere",
                node.op_name
            )));
        }
        let id = self.read(input)?;
        self.settle(output, id)
    }

    /// By how much the reals of a tensor are off for the rounding of its scale.
    fn rounding(&self, tensor: TensorIndex) -> Outcome<f32> {
        Ok(match (self.encoded(tensor)?, self.ty(tensor)?) {
            (Some(Encoded { scale, .. }), Type::F16) => f16::from_f32(scale).to_f32() / scale,
            _ => 1.0,
        })
    }

    /// What weights and bias of a product are multiplied with, so that its result is off as its tensor's scale is.
    pub(super) fn factors(&self, input: TensorIndex, output: TensorIndex) -> Outcome<[f32; 2]> {
        let (from, to) = (self.rounding(input)?, self.rounding(output)?);
        Ok([to / from, to])
    }

    /// Reals of a constant tensor, all multiplied by a factor.
    pub(super) fn multiplied(
        &mut self,
        tensor: TensorIndex,
        dims: &[usize],
        factor: f32,
    ) -> Outcome<ValueId> {
        let ty = self.floats(tensor)?;
        let reals: Vec<f32> = self.reals(tensor)?.iter().map(|real| real * factor).collect();
        Ok(self.constant(ty, dims, &reals))
    }

    /// Weights of a product or a convolution, multiplied by a factor: bytes stay such in the package, and Core ML makes reals of them.
    pub(super) fn filters(&mut self, tensor: TensorIndex, dims: &[usize], factor: f32) -> Outcome<ValueId> {
        let ty = self.floats(tensor)?;
        let view = self.view(tensor);
        let packed = view.encoding.as_ref().zip(bytes(view.dtype));
        let packed = packed.filter(|_| view.dims.as_deref() == Some(dims));
        match packed {
            Some((encoding, stored)) if encoding.scales.iter().all(|&scale| holds(ty, scale * factor)) => {
                self.packed(tensor, dims, encoding, stored, factor)
            }
            _ => self.multiplied(tensor, dims, factor),
        }
    }

    fn packed(
        &mut self,
        tensor: TensorIndex,
        dims: &[usize],
        encoding: &Encoding,
        stored: Type,
        factor: f32,
    ) -> Outcome<ValueId> {
        let ty = self.floats(tensor)?;
        let (axis, of) = match encoding.kind {
            EncodingKind::PerTensor => (0, vec![]),
            EncodingKind::PerAxis { axis } => (axis, vec![encoding.scales.len()]),
            // blocks of scales came with a later opset
            _ => return self.multiplied(tensor, dims, factor),
        };
        let scales: Vec<f32> = encoding.scales.iter().map(|scale| scale * factor).collect();
        let mut zeros = encoding.zero_points.clone();
        zeros.resize(encoding.scales.len(), 0);
        let zeros: Vec<f32> = zeros.into_iter().map(|zero| zero as f32).collect();
        let data = self.bytes(tensor, stored, dims)?;
        let scale = self.constant(ty, &of, &scales);
        let zero = self.constant(stored, &of, &zeros);
        let args = vec![
            ("quantized_data", Arg::Value(data)),
            ("zero_point", Arg::Value(zero)),
            ("scale", Arg::Value(scale)),
            ("axis", Arg::Int(axis as i32)),
        ];
        Ok(self.op("constexpr_affine_dequantize", args, ty, dims))
    }
}
