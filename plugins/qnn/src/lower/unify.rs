//! One stored type per operation: the library computes on operands and results of one type only.
//!
//! A model may mix 8 and 16 bits, signed and unsigned. Operands of the narrower type become the wider one
//! without loss: a step is split into 256. A result is computed in the wider type, 256 steps to one of its own,
//! and converted behind.
//!
//! Invariant: a widened operand encodes the same reals as before.

use polychip_lowering::operands::{Kind, Lower, OperandId, Quant, Role, Step, Type};
use polychip_lowering::{Outcome, Refusal};
use polychip_ops::Op;

/// What 0 of a type is counted from: unsigned integers of the same width begin at the least.
fn least(ty: Type) -> i64 {
    ty.range().map_or(0, |(least, _)| least)
}

/// The encoding in which type `to` holds what `from` holds, losing nothing.
fn widened(quant: &Quant, from: Type, to: Type) -> Option<Quant> {
    let (scale, zero) = quant.per_tensor()?;
    let ratio = 1i64 << (8 * to.bytes().checked_sub(from.bytes())?);
    // stored' - least' = (stored - least) × ratio
    let zero = (i64::from(zero) - least(from)) * ratio + least(to);
    Some(Quant::PerTensor {
        scale: scale / ratio as f32,
        zero: i32::try_from(zero).ok()?,
    })
}

/// The type that holds all of them.
fn widest(types: &[Type]) -> Option<Type> {
    let first = *types.first()?;
    let wide = [Type::Ufixed16, Type::Sfixed16];
    if types.iter().all(|&ty| ty == first) {
        Some(first)
    } else {
        wide.into_iter()
            .find(|ty| types.contains(ty))
            .or(Some(Type::Ufixed8))
    }
}

/// A quantised operand as a type at least as wide.
fn widen(l: &mut Lower<'_>, id: OperandId, ty: Type) -> Outcome<OperandId> {
    let from = l.ty(id);
    if from == ty {
        return Ok(id);
    }
    let quant = widened(&l.quant(id), from, ty).ok_or_else(|| {
        Refusal::encoding(format!(
            "an operand of {from:?} beside {ty:?} has no one scale or is wider"
        ))
    })?;
    Ok(l.converted(id, ty, &quant))
}

/// The input of an operation with weights as the type of its result, where that is wider.
pub(super) fn widened_for(l: &mut Lower<'_>, id: OperandId, result: Type) -> Outcome<OperandId> {
    let own = l.ty(id);
    match widest(&[own, result]) {
        Some(ty) if own.is_quantised() && result.is_quantised() => widen(l, id, ty),
        _ => Ok(id),
    }
}

/// How many operands of a step are data: weights, biases, scales and shifts have types of their own.
fn data(step: &Step) -> usize {
    match step.kind {
        Kind::Convert => 0,
        Kind::Conv(..)
        | Kind::ConvTranspose(..)
        | Kind::Connected
        | Kind::Norm(..)
        | Kind::Binary(Op::PRelu) => 1,
        _ => step.inputs.len(),
    }
}

/// Gives each step from `first` on operands and results of one type.
pub(super) fn unify(l: &mut Lower<'_>, first: usize) -> Outcome<()> {
    for mut step in l.program.steps.split_off(first) {
        let fixed = |id: OperandId| l.ty(id).is_quantised();
        let operands: Vec<usize> = (0..data(&step))
            .filter(|&place| fixed(step.inputs[place]))
            .collect();
        let results: Vec<usize> = (0..step.outputs.len())
            .filter(|&place| !operands.is_empty() && fixed(step.outputs[place]))
            .collect();
        let inputs = operands.iter().map(|&place| step.inputs[place]);
        let outputs = results.iter().map(|&place| step.outputs[place]);
        let types: Vec<Type> = inputs.chain(outputs).map(|id| l.ty(id)).collect();
        let Some(ty) = widest(&types) else {
            l.program.steps.push(step);
            continue;
        };
        for place in operands {
            step.inputs[place] = widen(l, step.inputs[place], ty)?;
        }
        let mut behind = Vec::new();
        for place in results {
            let own = step.outputs[place];
            if l.ty(own) == ty {
                continue;
            }
            let quant = widened(&l.quant(own), l.ty(own), ty)
                .ok_or_else(|| Refusal::encoding("a result has no one scale"))?;
            let wide = l.inner("wide", ty, quant, &l.dims(own));
            step.outputs[place] = wide;
            behind.push((wide, own));
        }
        l.program.steps.push(step);
        for (wide, own) in behind {
            debug_assert!(!matches!(l.program.operands[own].role, Role::Data(_)));
            l.step(Kind::Convert, &[wide], &[own]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widened_encoding_represents_the_same_reals() {
        for (from, to) in [
            (Type::Ufixed8, Type::Ufixed16),
            (Type::Sfixed8, Type::Ufixed16),
            (Type::Sfixed8, Type::Sfixed16),
            (Type::Ufixed8, Type::Sfixed16),
            (Type::Sfixed8, Type::Ufixed8),
            (Type::Sfixed16, Type::Ufixed16),
        ] {
            let quant = Quant::PerTensor { scale: 0.5, zero: 7 };
            let wide = widened(&quant, from, to).unwrap();
            let (scale, zero) = wide.per_tensor().unwrap();
            let (low, high) = from.range().unwrap();
            for stored in [low, low + 1, 0.max(low), high] {
                let real = (stored - 7) as f32 * 0.5;
                let wide = real / scale + zero as f32;
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
