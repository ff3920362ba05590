//! Convolutions of images as products: rows are the output's pixels, columns its channels, and the
//! sum runs over the window and the input's channels. The image is read in place, without
//! unfolding.
//!
//! Invariants:
//! 1. The output has channels last; floats are summed in f32, bytes in i32.
//! 2. Weights are packed once by [`Conv::pack_weights`] or [`Conv::pack_bytes`]: each group has
//!    rows of four neighbouring columns; the number of rows is rounded up to a multiple of four
//!    steps of the sum and filled with zeros.
//! 3. Padding is zero; for bytes it is the zero point.
//!
//! Not here: one filter per channel (`depthwise`).
//! Start reading at [`Conv`], then `conv/text`.

mod candidates;
mod matrix;
mod numbers;
mod pack;
mod stage;
mod truth;
mod wgsl;

use serde::{Deserialize, Serialize};

use crate::{Epilogue, Error, Generate, Image, ImageLayout, Kernel, Limits, Result, Sample, Scalar, Window};

/// Whether a convolution is transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// A convolution.
    Forward,
    /// A transposed convolution: strides insert distance between the input's pixels.
    Transposed {
        /// Rows and columns added to the smallest possible output, `[vertical, horizontal]` (ONNX
        /// `output_padding`).
        extra: [u32; 2],
    },
}

/// The threads of a workgroup, and the work of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Threads {
    /// Pixels per thread.
    pub rows: u32,
    /// Groups of four channels per thread.
    pub quads: u32,
    /// Threads along the pixels.
    pub down: u32,
    /// Threads along the channels.
    pub across: u32,
    /// Number of slices of the sum; each slice has its own threads.
    pub slices: u32,
}

/// How a convolution is divided among workgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConvTile {
    /// Threads read image and weights directly from memory.
    Direct {
        /// Threads.
        threads: Threads,
        /// Number of groups of four steps whose reads are in flight at once.
        ahead: u32,
    },
    /// A workgroup stages shared operands in workgroup memory.
    Staged {
        /// Threads.
        threads: Threads,
        /// Number of groups of four steps that are staged at once.
        depth: u32,
    },
    /// Matrix units, for f16 only; sizes are in tiles of side `Features::cooperative`.
    Matrix {
        /// Pixels per subgroup, in tiles.
        rows: u32,
        /// Channels per subgroup, in tiles.
        columns: u32,
        /// Subgroups along the pixels.
        down: u32,
        /// Subgroups along the channels.
        across: u32,
        /// Number of slices of the sum; each slice has its own subgroups.
        slices: u32,
        /// Steps of the sum that a slice stages at once, in tiles.
        depth: u32,
        /// Whether the weights are staged, too. If not, subgroups read tiles of them directly from
        /// memory, which requires that channels and steps fill whole tiles.
        filters: bool,
    },
}

/// A convolution.
///
/// Bindings: the image, the packed weights, the operands of the epilogue, the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conv {
    /// The input.
    pub image: Image,
    /// Memory layout of the input. Bytes must have channels last; floats may have them first or
    /// last.
    pub source: ImageLayout,
    /// Channels of the output.
    pub channels_out: u32,
    /// The window.
    pub window: Window,
    /// Whether it is transposed.
    pub direction: Direction,
    /// Number of groups; divides the number of input and of output channels.
    pub groups: u32,
    /// Element type: F32 or F16 with weights of the same type, or I8 or U8 with weights in I8.
    pub scalar: Scalar,
    /// For bytes: the zero point of the input.
    pub zero_point: i32,
    /// Applied to each sum before it is stored; rows are pixels, columns are channels. For bytes,
    /// the sum is that of integer products after subtraction of both zero points, exact up to 2^24;
    /// the epilogue must apply the scale.
    pub epilogue: Epilogue,
    /// Tile.
    pub tile: ConvTile,
}

/// Sizes that follow from the parameters.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Pixels of the output, in all.
    rows: u64,
    /// Groups that are computed apart.
    groups: u32,
    /// Channels of the input per group.
    inside: u32,
    /// Channels of the output per group.
    outside: u32,
    /// Steps of the sum.
    depth: u32,
    /// Steps of the sum in fours.
    fours: u32,
    /// Channels of the output per group in fours.
    quads: u32,
    /// Whether four steps of the sum lie side by side in the image.
    whole: bool,
}

impl Conv {
    /// Size of the output.
    #[must_use]
    pub fn output(&self) -> Image {
        let size = [self.image.height, self.image.width];
        let [height, width] = match self.direction {
            Direction::Forward => self.window.output(size, false),
            Direction::Transposed { extra } => std::array::from_fn(|axis| {
                let w = &self.window;
                let spread = u64::from(size[axis].saturating_sub(1)) * u64::from(w.strides[axis]);
                let extent = u64::from(w.kernel[axis].saturating_sub(1)) * u64::from(w.dilations[axis]) + 1;
                let pads = u64::from(w.begin[axis]) + u64::from(w.end[axis]);
                let all = (spread + extent + u64::from(extra[axis])).saturating_sub(pads);
                u32::try_from(all).unwrap_or(u32::MAX)
            }),
        };
        Image {
            batch: self.image.batch,
            height,
            width,
            channels: self.channels_out,
        }
    }

    /// Whether bytes are multiplied.
    fn is_bytes(&self) -> bool {
        matches!(self.scalar, Scalar::I8 | Scalar::U8)
    }

    /// Refuses parameters that contradict each other.
    fn sizes(&self) -> Result<Sizes> {
        self.image.check("an image")?;
        self.window.check()?;
        let output = self.output();
        output.check("a convolved image")?;
        let (c, m, g) = (self.image.channels, self.channels_out, self.groups);
        if g == 0 || !c.is_multiple_of(g) || !m.is_multiple_of(g) {
            return Err(Error::new(format!(
                "a convolution of {c} to {m} channels in {g} groups"
            )));
        }
        if !(self.is_bytes() || matches!(self.scalar, Scalar::F32 | Scalar::F16)) {
            return Err(Error::new(format!("a convolution of {}", self.scalar.name())));
        }
        // groups of few channels are computed as one, with zeros between them: fours would straddle them
        let groups = if (m / g).is_multiple_of(4) { g } else { 1 };
        let (inside, outside) = (c / groups, m / groups);
        let depth = u64::from(inside) * u64::from(self.window.taps());
        let packed = depth * u64::from(outside) * u64::from(groups);
        if packed > 1 << 30 {
            return Err(Error::new(format!(
                "a convolution has {packed} weights, kernels take 2^30"
            )));
        }
        let whole = inside.is_multiple_of(4) && self.source == ImageLayout::ChannelsLast;
        Ok(Sizes {
            rows: output.pixels(),
            groups,
            inside,
            outside,
            depth: depth as u32,
            fours: depth.div_ceil(4) as u32,
            quads: outside.div_ceil(4),
            whole,
        })
    }
}

impl Generate for Conv {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        match self.tile {
            ConvTile::Matrix { .. } => self.matrix_kernel(limits),
            _ => self.scalar_kernel(limits),
        }
    }

    fn sample(&self) -> Sample {
        self.truth()
    }
}
