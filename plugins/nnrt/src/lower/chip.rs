//! Capabilities and requirements of the runtime's chips, for the operand-graph front end.

use polychip_lowering::operands::{Quant, Stored, Stores, Traits, Type, Vendor};
use polychip_lowering::{Layout, Outcome, Refusal};
use polychip_ops::{DType, Op};

use super::encode;

/// Chips behind the runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chip;

const TRAITS: Traits = Traits {
    most_axes: 7,
    wide_ports: false,
    mixes: false,
    signed_bytes: true,
    requantises: false,
    softmax_last: false,
    drops_axes: false,
    splits_unevenly: true,
    selects_broadcast: false,
    means_keep_encoding: true,
    needs_bias: true,
    filters: ["ohwi"; 3],
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
        range == [0.0, 6.0]
    }

    fn order(&self, op: Op, rank: usize) -> Option<Layout> {
        match op {
            // the runtime does not say that it moves truth values
            Op::Equal
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::Less
            | Op::LessOrEqual
            | Op::And
            | Op::Or
            | Op::Not
            | Op::Where => Some(Layout::RowMajor),
            // the channels must be last, and of an image they are elsewhere
            Op::PRelu if rank >= 3 => Some(Layout::ChannelsLast),
            _ => None,
        }
    }

    fn weights(&self, stored: &Stored<'_>) -> Outcome<(Type, i32, Quant)> {
        let shift = match stored.dtype {
            DType::I8 => 0,
            DType::U8 => 128,
            dtype => {
                let what = format!("weights {} are of {dtype}", stored.name);
                return Err(Refusal::encoding(what));
            }
        };
        // what zero points per channel mean is not said
        if stored.per_axis && stored.zeros.iter().any(|&zero| zero != shift) {
            let what = format!("weights {} have zero points per channel", stored.name);
            return Err(Refusal::encoding(what));
        }
        Ok(if stored.per_axis {
            (Type::Sfixed8, shift, stored.spread(shift, None))
        } else {
            (Type::Sfixed8, shift, stored.single(shift))
        })
    }
}
