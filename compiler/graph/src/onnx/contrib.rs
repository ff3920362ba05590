//! Ops that ONNX Runtime keeps in its own domain and that mean what an op of ONNX means.
//!
//! Its quantisation tool writes QuantizeLinear and DequantizeLinear there where the model's opset is
//! older than their 16 and 4 bit types.
//!
//! Invariant: an op is listed only where inputs, attributes and values are those of the ONNX op of the
//! newest opset.

use polychip_ops::Op;

pub(super) const DOMAIN: &str = "com.microsoft";

/// The domain of layouts that ONNX Runtime chooses for the CPU that it runs on.
pub(super) const ONE_CPU: &str = "com.microsoft.nchwc";

/// The ONNX op that an op of another domain is.
pub(super) fn equal(domain: &str, op_type: &str) -> Option<Op> {
    let op = Op::from_name(op_type).filter(|_| domain == DOMAIN)?;
    matches!(
        op,
        Op::QuantizeLinear | Op::DequantizeLinear | Op::Gelu | Op::Trilu
    )
    .then_some(op)
}

/// Whether an op is of a decoder whose cache and table the caller may keep.
pub(super) fn is_decoder_op(domain: &str, op_type: &str) -> bool {
    domain == DOMAIN && matches!(op_type, "GroupQueryAttention" | "GatherBlockQuantized")
}
