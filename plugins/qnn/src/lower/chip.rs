//! Capabilities and requirements of the HTP, for the operand-graph front end.
//!
//! Invariants:
//! 1. f32 is not quantised, nor cast to integers, nor given to functions with steps: the library rounds it to 16 bits
//!    first, which moves results by a step. Integers become f32 only where 16-bit accuracy is allowed.
//! 2. Beside 16-bit activations, weights are symmetric integers of 8 bits or fewer: others are off by tens of steps on
//!    every chip that was tried.

use polychip_lowering::operands::{Domain, Lower, OperandId, Quant, Stored, Stores, Traits, Type, Vendor};
use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::operator::{Gelu, GeluForm};
use polychip_ops::{DType, Op};
use polychip_sdk::Reason;

use super::encode;
use crate::soc::Soc;

/// Target of the compilation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// The chip.
    pub(crate) soc: Soc,
    /// Whether tensors of f32 may be computed in 16-bit floats.
    pub(crate) reduced: bool,
    /// Whether normalisations of 16-bit data take a scale of 16 bits.
    pub(crate) wide_scales: bool,
}

const TRAITS: Traits = Traits {
    most_axes: usize::MAX,
    wide_ports: true,
    mixes: true,
    signed_bytes: false,
    requantises: true,
    softmax_last: true,
    drops_axes: true,
    splits_unevenly: true,
    selects_broadcast: true,
    means_keep_encoding: false,
    needs_bias: false,
    filters: ["hwio"; 3],
};

impl Stores for Target {
    fn traits(&self) -> &'static Traits {
        &TRAITS
    }

    fn stores(&self, _: Type) -> bool {
        true
    }
}

impl Vendor for Target {
    fn has(&self, op: Op) -> bool {
        encode::has(op)
    }

    fn clips(&self, _: [f32; 2]) -> bool {
        true
    }

    fn check(&self, lower: &Lower<'_>, node: &Node, domain: Option<Domain>) -> Outcome<()> {
        match node.op {
            Op::Ceil | Op::Floor | Op::Round | Op::Mod if domain == Some(Domain::Float(Type::Float32)) => {
                Err(Refusal::dtype(format!(
                    "{} of f32, which the NPU rounds to 16 bits: a step may fall elsewhere",
                    node.op_name
                )))
            }
            Op::Gelu => {
                // the two differ by at most 0.0005, which 8 bits do not show
                let coarse = matches!(domain, Some(Domain::Fixed(Type::Ufixed8 | Type::Sfixed8)));
                match node.typed::<Gelu>()?.form {
                    GeluForm::Tanh if !coarse => Err(Refusal::attribute(
                        "approximate is tanh; the library's Gelu is exact",
                    )),
                    GeluForm::Tanh | GeluForm::Exact => Ok(()),
                }
            }
            Op::Softmax => {
                let info = lower.info(lower.output(node)?)?;
                // a quirk of the library: it computes as if the zero point were -128
                match (info.ty, info.quant.per_tensor()) {
                    (Type::Sfixed8, Some((_, zero))) if zero != -128 => Err(Refusal::new(
                        Reason::Quarantined,
                        format!(
                            "Softmax of signed 8 bits with zero point {zero}: the library takes it for -128"
                        ),
                    )),
                    _ => Ok(()),
                }
            }
            Op::QuantizeLinear | Op::DequantizeLinear | Op::Cast => {
                let (from, to) = (
                    lower.info(lower.input(node, 0)?)?.ty,
                    lower.info(lower.output(node)?)?.ty,
                );
                let into = from == Type::Float32 && !to.is_float();
                let out_of = to == Type::Float32 && from.is_quantised() && !self.reduced;
                if !into && !out_of {
                    return Ok(());
                }
                let what = format!("{} with f32, which the NPU rounds to 16 bits", node.op_name);
                Err(Refusal::dtype(what))
            }
            _ => Ok(()),
        }
    }

    /// Refuses floats that the chip does not compute in.
    fn floats(&self, ty: Type, name: &str) -> Outcome<()> {
        if !self.soc.floats {
            let what = format!(
                "tensor {name} has no encoding, and {} computes in integers only: quantise the model",
                self.soc.title()
            );
            return Err(Refusal::encoding(what));
        }
        if ty == Type::Float32 && !self.reduced {
            return Err(Refusal::dtype(format!(
                "tensor {name} is of f32, which the NPU computes in 16 bits; precision \"reduced\" allows it"
            )));
        }
        Ok(())
    }

    fn weights(&self, stored: &Stored<'_>) -> Outcome<(Type, i32, Quant)> {
        let name = stored.name;
        let (ty, shift) = match stored.dtype {
            // symmetric but for its storage
            DType::U8 if stored.zeros.iter().all(|&zero| zero == 128) => (Type::Sfixed8, 128),
            DType::U8 => (Type::Ufixed8, 0),
            DType::U4 => (Type::Sfixed8, 8),
            DType::I8 | DType::I4 => (Type::Sfixed8, 0),
            DType::I16 => (Type::Sfixed16, 0),
            DType::U16 => (Type::Ufixed16, 0),
            dtype => return Err(Refusal::encoding(format!("weights {name} are of {dtype}"))),
        };
        let wide = matches!(stored.activations, Type::Ufixed16 | Type::Sfixed16);
        if wide && (ty != Type::Sfixed8 || stored.zeros.iter().any(|&zero| zero != shift)) {
            return Err(Refusal::encoding(format!(
                "weights {name} are asymmetric or of 16 bits; beside 16-bit activations the NPU wants symmetric \
                 integers of 8 bits"
            )));
        }
        let quant = match stored.dtype {
            DType::I4 | DType::U4 => stored.spread(shift, Some(4)),
            _ if stored.per_axis => stored.spread(shift, None),
            _ => stored.single(shift),
        };
        Ok((ty, shift, quant))
    }

    fn scale_type(&self, data: Type) -> Type {
        match data {
            Type::Ufixed16 | Type::Sfixed16 if self.wide_scales => Type::Ufixed16,
            _ => Type::Ufixed8,
        }
    }

    fn widened(&self, lower: &mut Lower<'_>, id: OperandId, result: Type) -> Outcome<OperandId> {
        super::unify::widened_for(lower, id, result)
    }

    fn unify(&self, lower: &mut Lower<'_>, first: usize) -> Outcome<()> {
        super::unify::unify(lower, first)
    }
}
