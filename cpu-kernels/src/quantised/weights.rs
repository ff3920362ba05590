//! Constant weights of codes, as the caller has them.

/// Constant weights and what belongs to each output channel.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// `[out_channels, in_channels / groups, kernel...]` (ONNX order), less their zero.
    pub values: &'a [i8],
    /// The code of zero in the input.
    pub input_zero: u8,
    /// Added to the sum, `[out_channels]`.
    pub bias: &'a [i32],
    /// What a step of the sum is in steps of the result, `[out_channels]`.
    pub factor: &'a [f32],
    /// Added to the product of sum and factor, `[out_channels]`.
    pub shift: &'a [f32],
    /// What is left to take off each value, `[out_channels]`, of a plan that [keeps zeros](super::ConvPlan::keeping_zeros); else
    /// empty.
    pub zeros: &'a [i32],
}
