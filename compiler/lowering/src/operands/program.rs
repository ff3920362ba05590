//! A part as operands and steps: plain data, independent of any vendor.
//!
//! Invariants:
//! 1. Steps are in an order in which each operand is written before it is read.
//! 2. `inputs` and `outputs` are operands of the roles [`Role::Input`] and [`Role::Output`], in the order of ports.
//! 3. Axes that a step names are places in memory, of its first input.
//!
//! Not here: how nodes become steps (the files beside this one), what a vendor calls them (each plugin's `encode`).

use polychip_ops::Op;
use polychip_ops::operator::{Coordinates, Interpolation, Outside, PadMode, Rounding};

use crate::TensorIndex;

/// Index of an operand in its program.
pub type OperandId = usize;

/// Type of stored elements; the `fixed` ones represent reals through an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Type {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Float16,
    Float32,
    Sfixed8,
    Sfixed16,
    Sfixed32,
    Ufixed8,
    Ufixed16,
    Bool8,
}

impl Type {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Type::Int8 | Type::Uint8 | Type::Sfixed8 | Type::Ufixed8 | Type::Bool8 => 1,
            Type::Int16 | Type::Uint16 | Type::Float16 | Type::Sfixed16 | Type::Ufixed16 => 2,
            Type::Int32 | Type::Uint32 | Type::Float32 | Type::Sfixed32 => 4,
            Type::Int64 => 8,
        }
    }

    /// Whether elements represent reals through an encoding.
    pub const fn is_quantised(self) -> bool {
        matches!(
            self,
            Type::Sfixed8 | Type::Sfixed16 | Type::Sfixed32 | Type::Ufixed8 | Type::Ufixed16
        )
    }

    /// The type of these integers where they encode reals.
    pub const fn fixed(self) -> Option<Type> {
        Some(match self {
            Type::Uint8 | Type::Ufixed8 => Type::Ufixed8,
            Type::Int8 | Type::Sfixed8 => Type::Sfixed8,
            Type::Uint16 | Type::Ufixed16 => Type::Ufixed16,
            Type::Int16 | Type::Sfixed16 => Type::Sfixed16,
            Type::Sfixed32 => Type::Sfixed32,
            _ => return None,
        })
    }

    /// Whether elements are floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Type::Float16 | Type::Float32)
    }

    /// Least and largest stored integer; `None` for floats, truth values and 64 bits.
    pub const fn range(self) -> Option<(i64, i64)> {
        Some(match self {
            Type::Sfixed8 | Type::Int8 => (-128, 127),
            Type::Ufixed8 | Type::Uint8 => (0, 255),
            Type::Sfixed16 | Type::Int16 => (-32768, 32767),
            Type::Ufixed16 | Type::Uint16 => (0, 65535),
            Type::Sfixed32 | Type::Int32 => (i32::MIN as i64, i32::MAX as i64),
            _ => return None,
        })
    }
}

/// How stored integers encode reals: (stored - zero) × scale.
#[derive(Debug, Clone, PartialEq)]
pub enum Quant {
    /// They do not.
    None,
    /// One scale.
    PerTensor {
        /// The real value of one step.
        scale: f32,
        /// The integer that encodes 0.
        zero: i32,
    },
    /// One scale per index of an axis.
    PerAxis {
        /// Place of the axis.
        axis: usize,
        /// The real value of one step.
        scales: Vec<f32>,
        /// The integer that encodes 0.
        zeros: Vec<i32>,
        /// How many low bits of an element count, where not all do.
        bits: Option<u32>,
    },
}

impl Quant {
    /// Scale and zero point, where there is one.
    pub fn per_tensor(&self) -> Option<(f32, i32)> {
        match *self {
            Quant::PerTensor { scale, zero } => Some((scale, zero)),
            _ => None,
        }
    }
}

/// What an operand is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// An input port.
    Input,
    /// An output port.
    Output,
    /// Between steps.
    Inner,
    /// A constant: its elements, row-major. Empty where a program is only asked about.
    Data(Vec<u8>),
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// A word for people, or the name of a port.
    pub name: String,
    /// Type of its elements.
    pub ty: Type,
    /// How they encode reals.
    pub quant: Quant,
    /// Extents, outermost first; a scalar has one of 1.
    pub dims: Vec<usize>,
    /// Whether it is an image, channels last.
    pub image: bool,
    /// What it is for.
    pub role: Role,
}

/// How a window lies on an image of two spatial axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its extents.
    pub kernel: [usize; 2],
    /// Its steps.
    pub strides: [usize; 2],
    /// Steps inside it.
    pub dilations: [usize; 2],
    /// Rows above and below, columns left and right.
    pub pads: [(usize, usize); 2],
}

/// How an image is resampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resampling {
    /// Between pixels; else the nearest.
    pub linear: bool,
    /// `coordinate_transformation_mode`.
    pub centres: Coordinates,
    /// `nearest_mode`.
    pub rounding: Rounding,
    /// `exclude_outside`.
    pub exclude: bool,
    /// Whether each extent becomes a multiple of itself.
    pub whole: bool,
}

impl Resampling {
    /// For a refusal.
    pub fn words(&self) -> String {
        let mode = if self.linear { "linear" } else { "nearest" };
        let (centres, rounding) = (self.centres.text(), self.rounding.text());
        format!("Resize with {mode}, {centres}, {rounding}")
    }
}

/// What a step computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// The same elements with other extents.
    Reshape,
    /// Place `i` of the result is place `[i]`.
    Transpose(Vec<usize>),
    /// To another type or encoding.
    Convert,
    /// An op of one operand, its alpha and beta.
    Unary(Op, [f32; 2]),
    /// Into a range.
    Clip(f32, f32),
    /// An op of two operands that broadcast.
    Binary(Op),
    /// What is left of a division, with the sign of the first operand or of the second.
    Remainder(bool),
    /// The second operand where the first is true, else the third.
    Select,
    /// Along an axis.
    Concat(usize),
    /// Along an axis, into pieces of these extents.
    Split(usize, Vec<usize>),
    /// Where each axis begins and ends, and its step.
    Slice([Vec<usize>; 3]),
    /// What stands outside, amounts before and behind, and the real that fills.
    Pad(PadMode, Vec<(usize, usize)>, f32),
    /// So many times.
    Tile(Vec<usize>),
    /// Gather, GatherElements: along an axis; GatherND: behind so many axes.
    Gather(Op, usize),
    /// ScatterElements: along an axis; ScatterND.
    Scatter(Op, usize),
    /// Input, filter and bias; groups, and whether each is one channel.
    Conv(Place, usize, bool),
    /// The same, spread; what the output has beyond the last window.
    ConvTranspose(Place, usize, [usize; 2]),
    /// MaxPool or AveragePool; whether pads count.
    Pool(Op, Place, bool),
    /// Of an image.
    Resize(Resampling),
    /// DepthToSpace or SpaceToDepth, the size of a block, and whether its columns come before its rows.
    Blocks(Op, usize, bool),
    /// `[rows, in]` by weights `[units, in]`, and a bias.
    Connected,
    /// Two matrices, or stacks of them, each transposed or not.
    Product([bool; 2]),
    /// Softmax or LogSoftmax along an axis.
    Softmax(Op, usize),
    /// Along axes, which stay as ones or go.
    Reduce(Op, Vec<usize>, bool),
    /// ArgMax or ArgMin along an axis, which stays or goes.
    Arg(Op, usize, bool),
    /// So many along the last axis, the largest or the least.
    TopK(u32, bool),
    /// Along an axis, without the element itself, from behind.
    CumSum(usize, bool, bool),
    /// Vectors along an axis divided by their length.
    Unit(usize),
    /// Data, scale and shift of a normalisation over axes or groups, with its epsilon.
    Norm(Op, Vec<usize>, usize, f32),
    /// How samples are interpolated, what stands outside, and whether corners are aligned.
    GridSample(Interpolation, Outside, bool),
    /// Size, alpha, beta, bias.
    Lrn(usize, [f32; 3]),
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it computes.
    pub kind: Kind,
    /// What it reads.
    pub inputs: Vec<OperandId>,
    /// What it writes.
    pub outputs: Vec<OperandId>,
    /// The range that its result is clipped to.
    pub activation: Option<[f32; 2]>,
    /// The node of the call's graph that it was made for; `None` for what the border of the part needs.
    pub node: Option<u32>,
}

/// A part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    /// Operands.
    pub operands: Vec<Operand>,
    /// Steps.
    pub steps: Vec<Step>,
    /// Input ports.
    pub inputs: Vec<OperandId>,
    /// Output ports.
    pub outputs: Vec<OperandId>,
}

impl Program {
    /// Computes Relus and Clips with the step before them, where that `takes` one and nothing else reads the tensor
    /// between them.
    pub fn fuse(&mut self, takes: impl Fn(&Kind) -> bool, offers: impl Fn([f32; 2]) -> bool) {
        let mut readers = vec![0usize; self.operands.len()];
        for &id in self
            .steps
            .iter()
            .flat_map(|step| &step.inputs)
            .chain(&self.outputs)
        {
            readers[id] += 1;
        }
        let mut kept: Vec<Step> = Vec::with_capacity(self.steps.len());
        for step in std::mem::take(&mut self.steps) {
            let range = match step.kind {
                Kind::Unary(Op::Relu, _) => Some([0.0, f32::MAX]),
                Kind::Clip(low, high) => Some([low, high]),
                _ => None,
            };
            let before = range.filter(|range| offers(*range)).and_then(|_| {
                let between = step.inputs[0];
                let same = self.operands[between].quant == self.operands[step.outputs[0]].quant;
                let before = kept.iter_mut().find(|before| before.outputs == [between])?;
                let fits = takes(&before.kind) && before.activation.is_none();
                (fits && same && readers[between] == 1).then_some(before)
            });
            match before {
                Some(before) => {
                    before.activation = range;
                    before.outputs = step.outputs;
                }
                None => kept.push(step),
            }
        }
        self.steps = kept;
    }
}

/// A tensor of the graph in an order of axes.
pub(super) type Key = (TensorIndex, crate::Layout);
