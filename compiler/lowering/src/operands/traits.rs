//! What chips differ in that a word or a number says, and how integers become their weights.

use polychip_ops::DType;

use super::program::{Quant, Type};

/// What chips differ in that a word says.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// Axes of a tensor.
    pub most_axes: usize,
    /// Ports of 64-bit integers are converted to and from 32.
    pub wide_ports: bool,
    /// A node's operands may be of several types: [`Vendor::unify`] makes them one.
    pub mixes: bool,
    /// Encoded bytes are signed: of unsigned ones 128 is taken off, at ports by a conversion.
    pub signed_bytes: bool,
    /// One step takes integers from one encoding to another.
    pub requantises: bool,
    /// Softmax is along the last axis in memory.
    pub softmax_last: bool,
    /// Reductions may drop their axes.
    pub drops_axes: bool,
    /// Pieces of a Split may differ.
    pub splits_unevenly: bool,
    /// Operands of Where broadcast.
    pub selects_broadcast: bool,
    /// Means of integers have the encoding of what they are made of.
    pub means_keep_encoding: bool,
    /// Weights always need a bias beside them.
    pub needs_bias: bool,
    /// The axes of a filter: of a convolution, of a depthwise one, of a transposed one. Of `h`, `w`, `i`, `o`.
    pub filters: [&'static str; 3],
}

/// What a chip stores.
pub trait Stores {
    /// The chip's traits.
    fn traits(&self) -> &'static Traits;

    /// Whether it stores this type.
    fn stores(&self, ty: Type) -> bool;
}

/// Integers that are to be weights.
#[derive(Debug)]
pub struct Stored<'s> {
    /// Name of the tensor.
    pub name: &'s str,
    /// Their type in the model.
    pub dtype: DType,
    /// The type of what they are multiplied with.
    pub activations: Type,
    /// One scale, or one per channel.
    pub scales: &'s [f32],
    /// As many zero points.
    pub zeros: &'s [i32],
    /// Whether there is one per channel.
    pub per_axis: bool,
    /// The place of the channels in memory.
    pub axis: usize,
    /// How many they are.
    pub channels: usize,
}

impl Stored<'_> {
    /// Scales per channel, the zero points less `shift`, of elements of so many bits where not all count.
    pub fn spread(&self, shift: i32, bits: Option<u32>) -> Quant {
        let zeros: Vec<i32> = self.zeros.iter().map(|zero| zero - shift).collect();
        let (scales, zeros) = if self.per_axis {
            (self.scales.to_vec(), zeros)
        } else {
            (vec![self.scales[0]; self.channels], vec![zeros[0]; self.channels])
        };
        let axis = self.axis;
        Quant::PerAxis {
            axis,
            scales,
            zeros,
            bits,
        }
    }

    /// The one scale.
    pub fn single(&self, shift: i32) -> Quant {
        let (scale, zero) = (self.scales[0], self.zeros[0] - shift);
        Quant::PerTensor { scale, zero }
    }
}
