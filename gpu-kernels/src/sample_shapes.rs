//! Sample shapes: smaller instances of a kernel's variant, so that its first use on a device is verified without computing
//! the whole expected result.
//!
//! Invariant: each size keeps its remainder by 32, so tiles and vectors meet the same edges. The caller checks that the
//! variant stays the same.

mod movement;

use crate::gemm::BatchAxis;
use crate::{
    ArgReduce, Attention, Conv, ConvTile, Depthwise, Dequantise, Elementwise, ExpandBlocks, Gemm, GemmInt8,
    Gemv, GlobalPool, GroupNorm, Image, LayerNorm, LpNorm, Lrn, Operand, Past, PastCopy, Pool, Quantise,
    Reduce, Resize, ResizeAxis, Right, Rotary, Softmax, VisiblePast, Window,
};

/// Most elements that the operands of a sample chain span, and that a sample movement moves.
const ELEMENTS: u64 = 1 << 16;

/// A size that is at least `keep` where it was, and less than 32 above it.
fn shrunk(size: u32, keep: u32) -> u32 {
    if size < keep + 32 { size } else { keep + size % 32 }
}

/// The same for sizes of rows.
fn fewer(rows: u64, keep: u64) -> u64 {
    if rows < keep + 32 { rows } else { keep + rows % 32 }
}

fn one_of_each(batch: &[BatchAxis]) -> Vec<BatchAxis> {
    let one = |axis: &BatchAxis| BatchAxis { count: 1, ..*axis };
    batch.iter().map(one).collect()
}

impl Gemm {
    pub(crate) fn smaller(&self) -> Gemm {
        let n = shrunk(self.n, 128);
        let depth = match self.b {
            Right::Quantised(quants) => quants.elements() as u32,
            _ => 32,
        };
        Gemm {
            batch: one_of_each(&self.batch),
            m: shrunk(self.m, 128),
            n,
            k: shrunk(self.k, depth),
            epilogue: self.epilogue.fewer(self.n, n),
            ..self.clone()
        }
    }
}

impl Gemv {
    pub(crate) fn smaller(&self) -> Gemv {
        let n = shrunk(self.n, 128);
        Gemv {
            n,
            // whole blocks of every layout
            k: shrunk(self.k, 512),
            epilogue: self.epilogue.fewer(self.n, n),
            ..self.clone()
        }
    }
}

impl ExpandBlocks {
    pub(crate) fn smaller(&self) -> ExpandBlocks {
        ExpandBlocks {
            n: shrunk(self.n, 32),
            // whole blocks of every layout
            k: shrunk(self.k, 512),
            ..*self
        }
    }
}

impl GemmInt8 {
    pub(crate) fn smaller(&self) -> GemmInt8 {
        let n = shrunk(self.n, 128);
        let mut b_zeros = self.b_zeros.clone();
        b_zeros.truncate(n as usize);
        GemmInt8 {
            batch: one_of_each(&self.batch),
            m: shrunk(self.m, 128),
            n,
            k: shrunk(self.k, 32),
            b_zeros,
            epilogue: self.epilogue.fewer(self.n, n),
            ..self.clone()
        }
    }
}

/// An image of few places of the window.
fn corner(image: Image, window: &Window, channels: u32) -> Image {
    let side = |size: u32, axis: usize| {
        let span = window.kernel[axis]
            .saturating_sub(1)
            .saturating_mul(window.dilations[axis]);
        let places = window.strides[axis].saturating_mul(8);
        size.min(span.saturating_add(places).saturating_add(1))
    };
    Image {
        batch: 1,
        height: side(image.height, 0),
        width: side(image.width, 1),
        channels,
    }
}

impl Conv {
    pub(crate) fn smaller(&self) -> Conv {
        // groups keep their sizes
        let (channels, channels_out) = match self.groups {
            // squares of weights straight from memory need whole tiles of steps
            1 if matches!(self.tile, ConvTile::Matrix { filters: false, .. }) => {
                (self.image.channels, shrunk(self.channels_out, 64))
            }
            1 => (shrunk(self.image.channels, 32), shrunk(self.channels_out, 64)),
            _ => (self.image.channels, self.channels_out),
        };
        Conv {
            image: corner(self.image, &self.window, channels),
            channels_out,
            epilogue: self.epilogue.fewer(self.channels_out, channels_out),
            ..self.clone()
        }
    }
}

impl Depthwise {
    pub(crate) fn smaller(&self) -> Depthwise {
        let multiple = self.channels_out / self.image.channels.max(1);
        let channels = shrunk(self.image.channels, 32);
        Depthwise {
            image: corner(self.image, &self.window, channels),
            channels_out: channels * multiple,
            ..self.clone()
        }
    }
}

/// Sizes of axes, the outermost halved until `reach` of them is small; `stays` are axes that are not.
fn halved(shape: &[u64], stays: &[usize], reach: impl Fn(&[u64]) -> u64) -> Vec<u64> {
    let mut small = shape.to_vec();
    for axis in (0..shape.len()).filter(|axis| !stays.contains(axis)) {
        while small[axis] > 1 && reach(&small) > ELEMENTS {
            small[axis] = small[axis].div_ceil(2);
        }
    }
    small
}

impl Elementwise {
    pub(crate) fn smaller(&self) -> Elementwise {
        let reach = |shape: &[u64]| {
            let of = |operand: &Operand| {
                let steps = shape.iter().zip(&operand.strides);
                steps.fold(operand.offset, |sum, (dim, stride)| {
                    sum.saturating_add(dim.saturating_sub(1).saturating_mul(stride.unsigned_abs()))
                })
            };
            let count = shape.iter().fold(1, |n: u64, dim| n.saturating_mul(*dim));
            self.operands.iter().map(of).fold(count, u64::max)
        };
        Elementwise {
            shape: halved(&self.shape, &[], reach),
            ..self.clone()
        }
    }
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |n, dim| n.saturating_mul(*dim))
}

impl Reduce {
    pub(crate) fn smaller(&self) -> Reduce {
        Reduce {
            shape: halved(&self.shape, &self.axes, elements),
            ..self.clone()
        }
    }
}

impl ArgReduce {
    pub(crate) fn smaller(&self) -> ArgReduce {
        ArgReduce {
            shape: halved(&self.shape, &[self.axis], elements),
            ..self.clone()
        }
    }
}

impl Quantise {
    pub(crate) fn smaller(&self) -> Quantise {
        Quantise {
            shape: halved(&self.shape, self.axis.as_slice(), elements),
            ..self.clone()
        }
    }
}

impl Dequantise {
    pub(crate) fn smaller(&self) -> Dequantise {
        Dequantise {
            shape: halved(&self.shape, self.axis.as_slice(), elements),
            ..self.clone()
        }
    }
}

impl Pool {
    pub(crate) fn smaller(&self) -> Pool {
        Pool {
            image: corner(self.image, &self.window, shrunk(self.image.channels, 32)),
            ..*self
        }
    }
}

impl GlobalPool {
    pub(crate) fn smaller(&self) -> GlobalPool {
        GlobalPool {
            image: Image {
                batch: 1,
                height: self.image.height.min(16),
                width: self.image.width.min(16),
                channels: shrunk(self.image.channels, 32),
            },
            ..*self
        }
    }
}

impl Resize {
    pub(crate) fn smaller(&self) -> Resize {
        // eight outputs of each axis, or as many as eight inputs give
        let side = |size: u32, axis: &ResizeAxis| {
            let inputs = (8.0 / axis.scale).ceil().max(8.0) as u32;
            size.min(inputs)
        };
        let image = Image {
            batch: 1,
            height: side(self.image.height, &self.axes[0]),
            width: side(self.image.width, &self.axes[1]),
            channels: shrunk(self.image.channels, 32),
        };
        let sides = [(self.image.height, image.height), (self.image.width, image.width)];
        let mut axes = self.axes;
        for (axis, (before, side)) in axes.iter_mut().zip(sides) {
            if side != before {
                axis.output = ((f64::from(side) * f64::from(axis.scale)) as u32).clamp(1, axis.output.max(1));
            }
        }
        Resize { image, axes, ..*self }
    }
}

impl Lrn {
    pub(crate) fn smaller(&self) -> Lrn {
        Lrn {
            images: 1,
            channels: fewer(self.channels, 32),
            places: self.places.min(64),
            ..*self
        }
    }
}

impl Softmax {
    pub(crate) fn smaller(&self) -> Softmax {
        Softmax {
            outer: fewer(self.outer, 2),
            inner: if self.inner > 1 { fewer(self.inner, 32) } else { 1 },
            ..*self
        }
    }
}

impl LpNorm {
    pub(crate) fn smaller(&self) -> LpNorm {
        LpNorm {
            outer: fewer(self.outer, 2),
            inner: if self.inner > 1 { fewer(self.inner, 32) } else { 1 },
            ..*self
        }
    }
}

impl LayerNorm {
    pub(crate) fn smaller(&self) -> LayerNorm {
        LayerNorm {
            rows: fewer(self.rows, 2),
            ..*self
        }
    }
}

impl GroupNorm {
    pub(crate) fn smaller(&self) -> GroupNorm {
        let groups = fewer(self.groups, 32);
        GroupNorm {
            images: 1,
            channels: self.channels / self.groups.max(1) * groups,
            groups,
            ..*self
        }
    }
}

impl Attention {
    pub(crate) fn smaller(&self) -> Attention {
        Attention {
            batch: 1,
            heads: self.heads / self.kv_heads.max(1),
            kv_heads: 1,
            queries: fewer(self.queries, 8),
            // with rows that the kernel rotates, a key per query
            keys: fewer(self.keys, if self.new_rows.is_some() { 8 } else { 32 }),
            past: self.past.map(few_positions),
            ..*self
        }
    }
}

fn few_positions(past: Past) -> Past {
    Past {
        capacity: fewer(past.capacity, 32),
        ..past
    }
}

impl VisiblePast {
    pub(crate) fn smaller(&self) -> VisiblePast {
        let capacity = fewer(self.capacity, 32);
        let width = capacity + fewer(self.width - self.capacity, 32);
        VisiblePast {
            rows: fewer(self.rows, 32),
            capacity,
            width,
            ..*self
        }
    }
}

impl PastCopy {
    pub(crate) fn smaller(&self) -> PastCopy {
        PastCopy {
            past: few_positions(self.past),
            heads: self.heads.min(2),
            ..*self
        }
    }
}

impl Rotary {
    pub(crate) fn smaller(&self) -> Rotary {
        Rotary {
            batch: 1,
            heads: self.heads.min(2),
            rows: fewer(self.rows, 8),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epilogue, Expression, GemmTile, Generate, Limits, Scalar, Transpose, Unary};

    #[test]
    fn sample_instance_has_the_same_variant_and_little_work() {
        let limits = Limits {
            invocations: 1024,
            workgroup: [1024, 1024, 64],
            shared_bytes: 48 << 10,
            ..Limits::LEAST
        };
        let relu = Expression::operand(0).unary(Unary::Relu);
        let gemm = Gemm {
            batch: Vec::new(),
            m: 1000,
            n: 2048,
            k: 1001,
            transposed_a: false,
            b: Right::Packed,
            scalar: Scalar::F32,
            epilogue: Epilogue::sum(Scalar::F32),
            tile: GemmTile::Sliced {
                rows: 1,
                down: 1,
                across: 1,
                slices: 1,
            },
        };
        let tile = gemm.candidates(&limits)[0];
        let large: [Box<dyn Generate>; 6] = [
            Box::new(Elementwise::dense(Scalar::F32, &[1, 64, 300, 300], relu)),
            Box::new(gemm.with(tile)),
            Box::new(Softmax {
                scalar: Scalar::F32,
                outer: 50_000,
                count: 384,
                inner: 1,
                log: false,
            }),
            Box::new(Transpose::to_channels_last(Scalar::F32, 70, 64, 1000)),
            Box::new(Reduce {
                scalar: Scalar::F32,
                shape: vec![500, 384, 40],
                axes: vec![1],
                reduction: crate::Reduction::Sum,
            }),
            Box::new(Attention {
                scalar: Scalar::F32,
                batch: 1,
                heads: 12,
                kv_heads: 12,
                queries: 128,
                keys: 128,
                depth: 64,
                value_depth: 64,
                scale: 0.125,
                causal: None,
                mask: None,
                heads_inside: false,
                past: None,
                new_rows: None,
            }),
        ];
        for generator in large {
            let kernel = generator.kernel(&limits).unwrap();
            let small = generator.sample_instance().unwrap().kernel(&limits).unwrap();
            assert_eq!(small.variant, kernel.variant);
            assert!(
                kernel.work > 1 << 21 && small.work < 1 << 21,
                "{}",
                kernel.variant
            );
        }
    }
}
