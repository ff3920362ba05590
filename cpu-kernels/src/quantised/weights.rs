//! Constant weights of codes, as the caller has them.

/// Constant weights, and the parameters of each output channel.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a> {
    /// `[out_channels, in_channels / groups, kernel...]` (ONNX order), with zero points subtracted.
    pub values: &'a [i8],
    /// The code of zero in the input.
    pub input_zero: u8,
    /// Added to the sum, `[out_channels]`.
    pub bias: &'a [i32],
    /// Scale of the sum relative to the result's, `[out_channels]`.
    pub factor: &'a [f32],
    /// Added to the product of sum and factor, `[out_channels]`.
    pub shift: &'a [f32],
    /// Zero points still to subtract from each value, `[out_channels]`, for a plan that [keeps
    /// zeros](super::ConvPlan::keeping_zeros); else empty.
    pub zeros: &'a [i32],
}
