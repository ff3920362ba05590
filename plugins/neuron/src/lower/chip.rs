//! Capabilities and requirements of the chip, for the operand-graph front end.
//!
//! Invariant: beside integers, weights of one scale and the activations' own type are as any tensor; others have one scale
//! per channel and no zero point.

use polychip_lowering::operands::{Domain, Lower, Quant, Stored, Stores, Traits, Type, Vendor};
use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::operator::Cast;
use polychip_ops::{DType, Op};

use super::encode;

/// MediaTek's chips.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chip;

const TRAITS: Traits = Traits {
    most_axes: 4,
    wide_ports: false,
    mixes: false,
    signed_bytes: false,
    requantises: false,
    softmax_last: false,
    drops_axes: false,
    splits_unevenly: false,
    selects_broadcast: false,
    means_keep_encoding: true,
    needs_bias: true,
    filters: ["ohwi", "ihwo", "ohwi"],
};

impl Stores for Chip {
    fn traits(&self) -> &'static Traits {
        &TRAITS
    }

    fn stores(&self, ty: Type) -> bool {
        encode::code(ty).is_some()
    }
}

impl Vendor for Chip {
    fn has(&self, op: Op) -> bool {
        encode::has(op)
    }

    fn clips(&self, range: [f32; 2]) -> bool {
        [[0.0, 6.0], [-1.0, 1.0]].contains(&range)
    }

    fn order(&self, op: Op, _: usize) -> Option<Layout> {
        // the library moves no truth values
        let truths = matches!(
            op,
            Op::Equal
                | Op::Greater
                | Op::GreaterOrEqual
                | Op::Less
                | Op::LessOrEqual
                | Op::And
                | Op::Or
                | Op::Not
                | Op::Where
        );
        truths.then_some(Layout::RowMajor)
    }

    fn own_quant(&self, op: Op, ty: Type, operand: &Quant) -> Option<Quant> {
        let unsigned = ty == Type::Ufixed8;
        // the library's own encodings of what lies in [0, 1] and [-1, 1]
        let (scale, zero) = match op {
            Op::Sigmoid | Op::Softmax => (1.0 / 256.0, if unsigned { 0 } else { -128 }),
            Op::Tanh => (1.0 / 128.0, if unsigned { 128 } else { 0 }),
            Op::Relu | Op::Clip => return Some(operand.clone()),
            _ => return None,
        };
        Some(Quant::PerTensor { scale, zero })
    }

    fn check(&self, lower: &Lower<'_>, node: &Node, _: Option<Domain>) -> Outcome<()> {
        if node.op != Op::Cast {
            return Ok(());
        }
        let (from, to) = (
            lower.info(lower.input(node, 0)?)?.ty,
            lower.info(lower.output(node)?)?.ty,
        );
        let plain = |ty: Type| ty.is_float() || ty == Type::Int32;
        if !plain(from) || !plain(to) || !node.typed::<Cast>()?.saturate {
            return Err(Refusal::dtype(format!("Cast of {from:?} to {to:?}")));
        }
        Ok(())
    }

    fn weights(&self, stored: &Stored<'_>) -> Outcome<(Type, i32, Quant)> {
        let name = stored.name;
        let shift = match (stored.dtype, stored.activations) {
            (DType::I8, _) => 0,
            (DType::U8, Type::Ufixed8) if !stored.per_axis => 0,
            // symmetric but for its storage
            (DType::U8, _) => 128,
            (dtype, _) => return Err(Refusal::encoding(format!("weights {name} are of {dtype}"))),
        };
        let signed = stored.dtype == DType::I8 || shift == 128;
        if !stored.per_axis && signed == (stored.activations == Type::Sfixed8) {
            return Ok((stored.activations, shift, stored.single(shift)));
        }
        if stored.zeros.iter().any(|&zero| zero != shift) {
            return Err(Refusal::encoding(format!(
                "weights {name} have a zero point, and another type or more scales than the input"
            )));
        }
        Ok((Type::Sfixed8, shift, stored.spread(shift, None)))
    }
}
