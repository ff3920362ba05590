//! One stored type per operation: the library computes on operands and results of one type only.
//!
//! A model may mix 8 and 16 bits, signed and unsigned. Operands of the narrower type become the wider one
//! without loss: a step is split into 256. A result is computed in the wider type, 256 steps to one of its own,
//! and converted behind.
//!
//! Invariant: a widened operand stands for the same reals as before.

use super::builder::Lower;
use crate::program::{Quant, Role, TensorId, Type};
use polychip_lowering::{Outcome, Refusal, TensorIndex};

/// What 0 of a type is counted from: unsigned integers of the same width begin at the least.
fn least(ty: Type) -> i64 {
    ty.range().map_or(0, |(least, _)| least)
}

/// The encoding in which type `to` holds what `from` holds, losing nothing.
fn widened(quant: &Quant, from: Type, to: Type) -> Option<Quant> {
    let (scale, offset) = quant.per_tensor()?;
    let ratio = 1i64 << (8 * to.bytes().checked_sub(from.bytes())?);
    // stored' - least' = (stored - least) × ratio
    let offset = (i64::from(offset) + least(from)) * ratio - least(to);
    Some(Quant::PerTensor {
        scale: scale / ratio as f32,
        offset: i32::try_from(offset).ok()?,
    })
}

/// The type that holds all of them.
fn widest(types: &[Type]) -> Option<Type> {
    let first = *types.first()?;
    if types.iter().all(|&ty| ty == first) {
        return Some(first);
    }
    if types.contains(&Type::Ufixed16) {
        Some(Type::Ufixed16)
    } else if types.contains(&Type::Sfixed16) {
        Some(Type::Sfixed16)
    } else {
        Some(Type::Ufixed8)
    }
}

impl Lower<'_> {
    /// A quantised tensor as a type at least as wide.
    fn widen(&mut self, id: TensorId, ty: Type) -> Outcome<TensorId> {
        let from = self.ty_of(id);
        if from == ty {
            return Ok(id);
        }
        let quant = widened(&self.quant_of(id), from, ty).ok_or_else(|| {
            Refusal::encoding(format!(
                "an operand of {from:?} beside {ty:?} has no one scale or is wider"
            ))
        })?;
        Ok(self.converted(id, ty, &quant))
    }

    /// The input of an operation with weights as the type of its output, where that is wider.
    pub(super) fn widened_for(&mut self, id: TensorId, output: TensorIndex) -> Outcome<TensorId> {
        let out = self.info(output)?.ty;
        let own = self.ty_of(id);
        if !own.is_quantised() || !out.is_quantised() {
            return Ok(id);
        }
        match widest(&[own, out]) {
            Some(ty) => self.widen(id, ty),
            None => Ok(id),
        }
    }

    /// Gives each operation from `first` on operands and results of one type.
    pub(super) fn unify(&mut self, first: usize) -> Outcome<()> {
        let operations = self.program.operations.split_off(first);
        for mut operation in operations {
            let operands: Vec<usize> = match operation.kind {
                "Convert" | "Quantize" | "Dequantize" | "Cast" => Vec::new(),
                // weights, biases, scales and shifts have types of their own
                "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected" | "LayerNorm"
                | "RmsNorm" | "InstanceNorm" | "GroupNorm" | "Batchnorm" | "Prelu" => vec![0],
                _ => (0..operation.inputs.len()).collect(),
            };
            let fixed = |id: &TensorId| self.ty_of(*id).is_quantised();
            let operands: Vec<usize> = operands
                .into_iter()
                .filter(|&place| fixed(&operation.inputs[place]))
                .collect();
            let results: Vec<usize> = (0..operation.outputs.len())
                .filter(|&place| !operands.is_empty() && fixed(&operation.outputs[place]))
                .collect();
            let types: Vec<Type> = operands
                .iter()
                .map(|&place| self.ty_of(operation.inputs[place]))
                .chain(results.iter().map(|&place| self.ty_of(operation.outputs[place])))
                .collect();
            let Some(ty) = widest(&types) else {
                self.program.operations.push(operation);
                continue;
            };
            for &place in &operands {
                operation.inputs[place] = self.widen(operation.inputs[place], ty)?;
            }
            let mut behind = Vec::new();
            for &place in &results {
                let own = operation.outputs[place];
                if self.ty_of(own) == ty {
                    continue;
                }
                let quant = widened(&self.quant_of(own), self.ty_of(own), ty)
                    .ok_or_else(|| Refusal::encoding("a result has no one scale"))?;
                let dims = self.dims_of(own);
                let wide = self.native("wide", ty, quant, &dims);
                operation.outputs[place] = wide;
                behind.push((wide, own));
            }
            self.program.operations.push(operation);
            for (wide, own) in behind {
                debug_assert!(!matches!(self.program.tensors[own].role, Role::Static(_)));
                self.convert_into(wide, own);
            }
        }
        for (number, operation) in self.program.operations.iter_mut().enumerate().skip(first) {
            operation.name = format!("{number}_{}", operation.kind);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_widened_encoding_stands_for_the_same_reals() {
        for (from, to) in [
            (Type::Ufixed8, Type::Ufixed16),
            (Type::Sfixed8, Type::Ufixed16),
            (Type::Sfixed8, Type::Sfixed16),
            (Type::Ufixed8, Type::Sfixed16),
            (Type::Sfixed8, Type::Ufixed8),
            (Type::Sfixed16, Type::Ufixed16),
        ] {
            let quant = Quant::PerTensor {
                scale: 0.5,
                offset: -7,
            };
            let wide = widened(&quant, from, to).unwrap();
            let (scale, offset) = wide.per_tensor().unwrap();
            let (low, high) = from.range().unwrap();
            for stored in [low, low + 1, 0.max(low), high] {
                let real = (stored - 7) as f32 * 0.5;
                let wide = real / scale - offset as f32;
                let (least, most) = to.range().unwrap();
                assert_eq!(wide.fract(), 0.0, "{from:?} {to:?}");
                assert!(
                    (least as f32..=most as f32).contains(&wide),
                    "{from:?} {to:?} {wide}"
                );
            }
        }
        assert_eq!(widest(&[Type::Ufixed8, Type::Sfixed8]), Some(Type::Ufixed8));
        assert_eq!(widest(&[]), None);
    }
}
