//! Weights and biases of everything that multiplies by constants.
//!
//! Invariant: a quantised bias is of 32 bits with the product of the scales of input and weights.

use polychip_ops::DType;
use polychip_sdk::{Encoding, EncodingKind};

use super::builder::{Lower, not_constant};
use super::constant;
use super::program::{OperandId, Quant, Type};
use super::traits::Stored;
use crate::{Outcome, Refusal, TensorIndex, layout};

/// Constant weights as a chip wants them.
pub(super) struct Weights {
    pub(super) id: OperandId,
    /// One scale, or one per output channel; empty for floats.
    scales: Vec<f32>,
}

impl Lower<'_> {
    /// A constant of this shape as weights: its axes in the order of `permutation`, `axis` the output channels, with this
    /// encoding, all of it multiplied by a positive `factor`, beside activations of type `beside`.
    pub(super) fn weights(
        &mut self,
        tensor: TensorIndex,
        shape: &[usize],
        permutation: &[usize],
        axis: usize,
        beside: Type,
        encoding: Option<&Encoding>,
        factor: f32,
    ) -> Outcome<Weights> {
        let view = self.view(tensor);
        let name = &view.name;
        if !view.is_constant() {
            return Err(not_constant(name));
        }
        let dims: Vec<usize> = permutation.iter().map(|&place| shape[place]).collect();
        if beside.is_float() {
            let reals: Vec<f32> = self.reals(tensor)?.iter().map(|real| real * factor).collect();
            let bytes = constant::store_floats(beside, &reals);
            let bytes = layout::transpose(&bytes, beside.bytes(), shape, permutation);
            let id = self.fixed("weights", beside, Quant::None, &dims, bytes);
            return Ok(Weights {
                id,
                scales: Vec::new(),
            });
        }
        let bare = || Refusal::encoding(format!("weights {name} have no encoding"));
        let encoding = encoding.filter(|_| beside.is_quantised()).ok_or_else(bare)?;
        let per_axis = match encoding.kind {
            EncodingKind::PerTensor => false,
            EncodingKind::PerAxis { axis: of } if of == axis => true,
            kind => {
                return Err(Refusal::encoding(format!(
                    "weights {name} have scales {kind:?}; chips want one, or one per output channel"
                )));
            }
        };
        let scales: Vec<f32> = encoding.scales.iter().map(|scale| scale * factor).collect();
        let mut zeros = encoding.zero_points.clone();
        zeros.resize(scales.len(), 0);
        let (ty, shift, quant) = self.vendor.weights(&Stored {
            name,
            dtype: view.dtype,
            activations: beside,
            scales: &scales,
            zeros: &zeros,
            per_axis,
            axis: permutation.iter().position(|&from| from == axis).unwrap_or(0),
            channels: shape[axis],
        })?;
        let mut integers = self.ints(tensor)?;
        integers.iter_mut().for_each(|value| *value -= i64::from(shift));
        let bytes = constant::store(ty, &integers);
        let bytes = layout::transpose(&bytes, ty.bytes(), shape, permutation);
        let id = self.fixed("weights", ty, quant, &dims, bytes);
        Ok(Weights { id, scales })
    }

    /// A constant as the bias of `channels` output channels, all of it multiplied by `factor`: nothing or zeros where there
    /// is none.
    pub(super) fn bias(
        &mut self,
        tensor: Option<TensorIndex>,
        channels: usize,
        input: OperandId,
        weights: &Weights,
        factor: f32,
    ) -> Outcome<Option<OperandId>> {
        let needs = self.vendor.traits().needs_bias;
        let (mut reals, name, steps) = match tensor {
            Some(tensor) => {
                let view = self.view(tensor);
                // of 32-bit integers without an encoding, the steps are ours already
                let steps = view.dtype == DType::I32 && view.encoding.is_none();
                (self.reals(tensor)?, &*view.name, steps)
            }
            None if needs => (vec![0.0], "", false),
            None => return Ok(None),
        };
        reals.iter_mut().for_each(|real| *real *= factor);
        if reals.len() == 1 {
            reals = vec![reals[0]; channels];
        }
        if reals.len() != channels {
            let what = format!("bias {name} has {} elements for {channels} channels", reals.len());
            return Err(Refusal::shape(what));
        }
        let ty = self.ty(input);
        if ty.is_float() {
            let bytes = constant::store_floats(ty, &reals);
            return Ok(Some(self.fixed("bias", ty, Quant::None, &[channels], bytes)));
        }
        let lone = || Refusal::encoding(format!("the input beside bias {name} has no scale"));
        let (scale, _) = self.quant(input).per_tensor().ok_or_else(lone)?;
        let step = |channel: usize| scale * weights.scales[channel.min(weights.scales.len() - 1)];
        let mut stored = Vec::with_capacity(channels);
        for (channel, &real) in reals.iter().enumerate() {
            let step = if steps { 1.0 } else { step(channel) };
            let value = (f64::from(real) / f64::from(step)).round_ties_even();
            if !value.is_finite() || value.abs() > f64::from(i32::MAX) {
                let what = format!("bias {name} holds {real}, beyond 32 bits of scale {step}");
                return Err(Refusal::encoding(what));
            }
            stored.push(value as i64);
        }
        let quant = match self.quant(weights.id) {
            Quant::PerAxis { bits, .. } if bits.is_none() || weights.scales.len() > 1 => Quant::PerAxis {
                axis: 0,
                scales: (0..channels).map(step).collect(),
                zeros: vec![0; channels],
                bits: None,
            },
            _ => Quant::PerTensor {
                scale: step(0),
                zero: 0,
            },
        };
        let bytes = constant::store(Type::Sfixed32, &stored);
        Ok(Some(self.fixed(
            "bias",
            Type::Sfixed32,
            quant,
            &[channels],
            bytes,
        )))
    }
}
