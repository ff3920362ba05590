//! Transposed convolutions with constant weights: a convolution of the image as it is, and copies that interleave.
//!
//! The elements of the result whose place has one remainder by the stride (a *phase*) see the same taps. All phases are
//! output channels of one convolution of stride 1, whose kernel has a tap for every input that any phase sees (Shi et al.,
//! "Is the deconvolution layer the same as a convolutional layer?", 2016); phases then move to their places, where padding
//! is cut off. Taps that a phase lacks are zeros.
//!
//! Where phases have few channels, a product gives the results of each tap instead, and those are added where they belong.

use polychip_cpu_kernels::Unary;
use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::gemm::{Elements, MAX_BATCH_DIMS, MatMulParams, Strides};
use polychip_cpu_kernels::sample::ColumnsPlan;
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::ConvTranspose;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error, shape_error};
use super::encoding::stands_for_f32;
use super::epilogue::FusedEpilogue;
use super::steps::{dense, strided};
use super::{conv, matmul};
use crate::part::{Node, Part, Tensor, TensorIndex};
use crate::step::ValueId;
use crate::weights::Recipe;
use crate::work::Class;

/// Phases beyond which the reference evaluator computes a node: each is a copy.
const MOST_PHASES: usize = 1 << 10;
/// Elements of the convolution's kernel, zeros and all, beyond which the reference evaluator computes a node.
const MOST_WEIGHTS: usize = 1 << 28;

/// Results of all taps beyond which they are not kept side by side.
const MOST_COLUMNS: usize = 1 << 22;

/// One spatial axis.
#[derive(Clone, Copy)]
struct Axis {
    /// Sizes of the image and of the result.
    input: usize,
    output: usize,
    /// Taps of the node's kernel, and how far apart its results are.
    kernel: usize,
    dilation: usize,
    stride: usize,
    /// What is cut off in front.
    begin: usize,
    /// Taps of the convolution, and how far apart they are.
    taps: usize,
    step: usize,
    /// The first element of the convolution that any phase takes, and how many there are.
    first: usize,
    len: usize,
}

impl Axis {
    fn new(input: usize, output: usize, kernel: usize, dilation: usize, stride: usize, begin: usize) -> Axis {
        let first = begin / stride;
        let last = (output + begin - 1) / stride;
        // without phases, taps are as far apart as the kernel's
        let step = if stride == 1 { dilation } else { 1 };
        let reach = (kernel - 1) * dilation / stride / step + 1;
        Axis {
            input,
            output,
            kernel,
            dilation,
            stride,
            begin,
            // the convolution may begin at its first tap at the earliest
            taps: reach.max(first.div_ceil(step) + 1),
            step,
            first,
            len: last - first + 1,
        }
    }

    /// The node's tap that a phase has at a tap of the convolution.
    fn tap(&self, phase: usize, tap: usize) -> Option<usize> {
        let back = (self.taps - 1 - tap) * self.step;
        let at = back * self.stride + phase;
        let k = at / self.dilation;
        (at.is_multiple_of(self.dilation) && k < self.kernel).then_some(k)
    }

    /// Zeros in front of the image.
    fn pads(&self) -> usize {
        (self.taps - 1) * self.step - self.first
    }

    /// What a phase has of the result: its first element there, its first element in the convolution, and the count.
    fn places(&self, phase: usize) -> (usize, usize, usize) {
        let begin = self.begin;
        let first = begin.saturating_sub(phase).div_ceil(self.stride);
        let at = first * self.stride + phase - begin;
        let count = self.output.saturating_sub(at).div_ceil(self.stride);
        (at, first - self.first, count)
    }
}

/// Shapes of a transposed convolution: three axes, those that it lacks in front.
#[derive(Clone)]
struct Shape {
    batch: usize,
    groups: usize,
    /// Channels of the image and of the result in a group.
    channels: usize,
    outputs: usize,
    axes: [Axis; 3],
}

impl Shape {
    fn phases(&self) -> [usize; 3] {
        self.axes.map(|axis| axis.stride)
    }

    fn all_phases(&self) -> usize {
        self.phases().iter().product()
    }

    /// Taps of the node's kernel.
    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// Results of all taps.
    fn columns(&self) -> usize {
        let inputs: usize = self.axes.iter().map(|axis| axis.input).product();
        let planes = self.batch * self.groups * self.outputs;
        planes.saturating_mul(inputs).saturating_mul(self.taps())
    }

    /// The convolution.
    fn params(&self) -> ConvParams {
        let window = Window {
            input: self.axes.map(|axis| axis.input),
            output: self.axes.map(|axis| axis.len),
            kernel: self.axes.map(|axis| axis.taps),
            strides: [1; 3],
            dilations: self.axes.map(|axis| axis.step),
            pads: self.axes.map(|axis| axis.pads()),
        };
        ConvParams::dense(
            self.batch,
            self.groups * self.channels,
            self.groups * self.all_phases() * self.outputs,
            self.groups,
            window,
        )
    }

    /// Calls `f` with the number of each phase and its place on each axis.
    fn each_phase(&self, mut f: impl FnMut(usize, [usize; 3])) {
        let [a, b, c] = self.phases();
        for phase in 0..a * b * c {
            f(phase, [phase / (b * c), phase / c % b, phase % c]);
        }
    }

    /// The convolution's kernel `[groups · phases · outputs, channels, taps]` of the node's
    /// `[groups · channels, outputs, kernel]`.
    fn kernel(&self, weights: &[f32]) -> Vec<f32> {
        let Shape {
            groups,
            channels,
            outputs,
            axes,
            ..
        } = self;
        let [d, h, w] = axes.map(|axis| axis.taps);
        let [_, kernel_h, kernel_w] = axes.map(|axis| axis.kernel);
        let window: usize = axes.iter().map(|axis| axis.kernel).product();
        let mut kernel = vec![0.0; groups * self.all_phases() * outputs * channels * d * h * w];
        self.each_phase(|phase, place| {
            for tap in 0..d * h * w {
                let at = [tap / (h * w), tap / w % h, tap % w];
                let own: Option<Vec<usize>> = (0..3).map(|i| axes[i].tap(place[i], at[i])).collect();
                let Some([z, y, x]) = own.as_deref() else {
                    continue;
                };
                let from = (z * kernel_h + y) * kernel_w + x;
                for group in 0..*groups {
                    for output in 0..*outputs {
                        let row = (group * self.all_phases() + phase) * outputs + output;
                        for channel in 0..*channels {
                            let source = (group * channels + channel) * outputs + output;
                            kernel[(row * channels + channel) * d * h * w + tap] =
                                weights[source * window + from];
                        }
                    }
                }
            }
        });
        kernel
    }

    /// The convolution's bias of the node's: each phase has it.
    fn bias(&self, bias: &[f32]) -> Vec<f32> {
        let groups = bias.chunks_exact(self.outputs);
        groups.flat_map(|group| group.repeat(self.all_phases())).collect()
    }
}

fn shape(
    l: &Lowering<'_>,
    node: &Node,
    x: TensorIndex,
    w: TensorIndex,
    y: TensorIndex,
) -> Result<Option<Shape>> {
    let (dims, weights, out) = (l.shape(x)?, l.shape(w)?, l.shape(y)?);
    let conv: ConvTranspose = node.typed().map_err(shape_error)?;
    let groups = conv.groups.get();
    let transposed = conv.window.over(&weights[2..]).map_err(shape_error)?;
    let placement = transposed.resolve(&dims[2..]).map_err(shape_error)?;
    if placement.output[..] != out[2..]
        || dims[1] != weights[0]
        || !dims[1].is_multiple_of(groups)
        || out[1] != weights[1].saturating_mul(groups)
    {
        return Err(Error::bad_argument(format!(
            "a transposed convolution of {dims:?} with {weights:?} in {groups} groups does not give {out:?}"
        )));
    }
    if [dims, weights, out].iter().any(|dims| dims.contains(&0)) {
        return Ok(None);
    }
    let window = &transposed.window;
    let mut axes = [Axis::new(1, 1, 1, 1, 1, 0); 3];
    let lacking = 3 - placement.output.len();
    for (i, axis) in axes[lacking..].iter_mut().enumerate() {
        *axis = Axis::new(
            dims[2 + i],
            out[2 + i],
            window.kernel[i],
            window.dilations[i],
            window.strides[i],
            placement.begin[i],
        );
    }
    let shape = Shape {
        batch: dims[0],
        groups,
        channels: dims[1] / groups,
        outputs: weights[1],
        axes,
    };
    let taps = axes.iter().map(|axis| axis.taps.saturating_mul(axis.stride));
    let all = taps.fold(dims[1].saturating_mul(weights[1]), usize::saturating_mul);
    // in this order: the count of phases of what has more weights may not fit a word
    Ok((all <= MOST_WEIGHTS && shape.all_phases() <= MOST_PHASES).then_some(shape))
}

fn covers(part: &Part, node: &Node) -> bool {
    let known = |t: &Option<TensorIndex>| t.is_none_or(|t| stands_for_f32(part, t));
    let constant = |i: usize| node.input(i).is_none_or(|t| part.is_constant(t));
    let rank = node.input(0).and_then(|x| part.dims(x)).map_or(0, <[usize]>::len);
    node.op == Op::ConvTranspose
        && node.inputs.iter().chain(&node.outputs).all(known)
        && (3..=5).contains(&rank)
        && node.input(1).and_then(|w| part.dims(w)).map(<[usize]>::len) == Some(rank)
        && constant(1)
        && constant(2)
}

/// Lowers a transposed convolution.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    if !covers(l.part, node) {
        return Ok(false);
    }
    let Some(shape) = shape(l, node, x, w, y)? else {
        return Ok(false);
    };
    let params = shape.params();
    if lower_columns(l, &shape, [x, w, y], node.input(2))? {
        return Ok(true);
    }
    let algorithm = l.choices.algorithm(l.algorithms.len(), l.isa, l.pool, &params)?;
    let plan = ConvPlan::with_algorithm(l.isa, params, algorithm).map_err(kernel_error)?;
    l.algorithms.push(algorithm.code() as u8);
    let weights = l.source(w)?;
    let bias = node.input(2).map(|b| l.source(b)).transpose()?;
    let (packer, from) = (plan.clone(), shape.clone());
    let axes = shape.axes.map(|axis| (axis.kernel, axis.dilation, axis.stride));
    let recipe = Recipe::new("transposed conv")
        .by((l.isa.code(), algorithm))
        .by_params(&params)
        .by((shape.groups, shape.channels, shape.outputs, axes))
        .of(&weights)
        .of_any(bias.as_ref());
    let packed = l.packed_floats(vec![plan.packed_len()], recipe, move |target| {
        let bias = bias.as_ref().map(Tensor::reals).transpose()?;
        let bias = bias.map(|bias| from.bias(&bias));
        packer.pack(&from.kernel(&weights.reals()?), bias.as_deref(), target);
        Ok(())
    })?;
    let input = l.channels(x)?;
    let is_alone = shape.all_phases() == 1;
    let grid = shape.axes.map(|axis| axis.len);
    let all = if is_alone {
        l.write_channels(y)?
    } else {
        let mut sizes = vec![shape.batch];
        sizes.extend(grid);
        sizes.push(params.out_channels);
        l.fresh(DType::F32, sizes)?
    };
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let class = conv::class_of(&plan, Storage::Real);
    let (products, epilogue) = (plan.multiply_adds(), FusedEpilogue::NONE.epilogue());
    l.step(
        "conv",
        &[input, packed],
        &[all],
        scratch,
        Box::new(move |o| {
            let (y, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(o.pool, o.read(1), o.slice(0), None, epilogue, y, scratch);
            Ok(())
        }),
    )
    .does(class, products);
    if is_alone {
        return Ok(true);
    }
    interleave(l, &shape, all, y)?;
    Ok(true)
}

/// Whether a product for each tap, whose results are added where they belong, clearly takes less time than phases do: where
/// many taps of phases are zeros, and rows are long.
///
/// Times are fitted to both ways of 120 random shapes on one thread of a Zen 4 with AVX-512 (`polychip-ops-bench --only
/// ConvTranspose --random 120`): half of the measured times are within 11 % of them.
fn prefers_columns(l: &Lowering<'_>, shape: &Shape, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    /// Picoseconds of a multiply-add, of an element that changes its layout, of one that leaves its phase, of one that is
    /// added, and of a row of these.
    const MULTIPLY: usize = 18;
    const PERMUTE: usize = 220;
    const INTERLEAVE: usize = 570;
    const ADD: usize = 350;
    const ROW: usize = 15_700;
    let plan = ConvPlan::with_algorithm(l.isa, shape.params(), Algorithm::Direct).map_err(kernel_error)?;
    let pixels = |size: fn(&Axis) -> usize| shape.batch * shape.axes.iter().map(size).product::<usize>();
    let input = pixels(|axis| axis.input) * shape.groups * shape.channels;
    let output = pixels(|axis| axis.output) * shape.groups * shape.outputs;
    let columns = shape.columns();
    let rows = columns / shape.axes[2].input.max(1);
    let by_rows = l.wishes[y].is_some_and(|port| l.layouts[port] == Layout::RowMajor);
    let (read, written) = if l.has_channels(x) { (0, input) } else { (input, 0) };
    let (moved, direct) = if by_rows { (0, output) } else { (output, 0) };
    let placed = match shape.all_phases() {
        1 => PERMUTE * direct,
        _ => INTERLEAVE * output,
    };
    let phases = MULTIPLY * plan.multiply_adds() + PERMUTE * read + placed;
    let products =
        MULTIPLY * columns * shape.channels + ADD * columns + ROW * rows + PERMUTE * (written + moved);
    Ok(products < phases / 10 * 9)
}

/// Lowers a transposed convolution to a product for each tap; `false` where phases are better.
fn lower_columns(
    l: &mut Lowering<'_>,
    shape: &Shape,
    [x, w, y]: [TensorIndex; 3],
    bias: Option<TensorIndex>,
) -> Result<bool> {
    let plain = [Some(x), Some(w), Some(y), bias];
    let [depth, down, across] = shape.axes;
    let is_flat = depth.input == 1 && depth.kernel == 1 && depth.output == 1;
    if !plain.into_iter().flatten().all(|t| l.part.plain_f32(t))
        || !is_flat
        || shape.columns() > MOST_COLUMNS
        || !prefers_columns(l, shape, x, y)?
    {
        return Ok(false);
    }
    let (pixels, rows) = (down.input * across.input, shape.outputs * shape.taps());
    let batch = |image: usize, group: usize| {
        let mut strides = [0; MAX_BATCH_DIMS];
        strides[MAX_BATCH_DIMS - 2..].copy_from_slice(&[image, group]);
        strides
    };
    let strides = |batch, row, column| Strides { batch, row, column };
    let mut sizes = [1; MAX_BATCH_DIMS];
    sizes[MAX_BATCH_DIMS - 2..].copy_from_slice(&[shape.batch, shape.groups]);
    let (own, all) = (shape.channels * pixels, shape.groups * rows * pixels);
    let params = MatMulParams {
        batch: sizes,
        m: rows,
        k: shape.channels,
        n: pixels,
        a: strides(batch(0, shape.channels * rows), 1, rows),
        b: strides(batch(shape.groups * own, own), pixels, 1),
        c: strides(batch(all, rows * pixels), pixels, 1),
        alpha: 1.0,
        activation: Unary::Identity,
    };
    let plan = ColumnsPlan {
        size: [down.output, across.output],
        kernel: [down.kernel, across.kernel],
        windows: [down.input, across.input],
        strides: [down.stride, across.stride],
        dilations: [down.dilation, across.dilation],
        pads: [down.begin as i64, across.begin as i64],
    };
    let (weights, image) = (l.rows(w)?, l.rows(x)?);
    let columns = l.fresh(DType::F32, vec![shape.batch * all])?;
    matmul::product(l, Elements::F32, params, weights, image, columns)?;
    let mut reads = vec![columns];
    if let Some(bias) = bias {
        reads.push(l.rows(bias)?);
    }
    let (isa, to) = (l.isa, l.write_rows(y)?);
    l.step(
        "add columns",
        &reads,
        &[to],
        None,
        Box::new(move |o| {
            let bias = if bias.is_some() { o.read(1) } else { &[] };
            plan.run(isa, o.pool, o.read(0), bias, o.write(0));
            Ok(())
        }),
    )
    .does(Class::Arithmetic, shape.columns());
    Ok(true)
}

/// Moves the phases to their places, in the layout that an output port wants.
fn interleave(l: &mut Lowering<'_>, shape: &Shape, all: ValueId, y: TensorIndex) -> Result<()> {
    let at_port = l.wishes[y].filter(|_| l.at_port(y) == Storage::Real);
    let layout = match at_port {
        Some(port) if l.layouts[port] == Layout::RowMajor => Layout::RowMajor,
        _ => Layout::ChannelsLast,
    };
    let result = l.write(y, layout, Storage::Real)?;
    let grid = shape.axes.map(|axis| axis.len);
    let (phases, channels) = (shape.all_phases(), shape.groups * shape.outputs);
    let from = dense(&[
        shape.batch,
        grid[0],
        grid[1],
        grid[2],
        shape.groups,
        phases * shape.outputs,
    ])?;
    let [d, h, w] = shape.axes.map(|axis| axis.output);
    // strides of the result by batch, spatial axes, groups and channels
    let to = match layout {
        Layout::ChannelsLast => {
            let own = dense(&[shape.batch, d, h, w, shape.groups, shape.outputs])?;
            [own[0], own[1], own[2], own[3], own[4], own[5]]
        }
        Layout::RowMajor => {
            let own = dense(&[shape.batch, channels, d, h, w])?;
            [
                own[0],
                own[2],
                own[3],
                own[4],
                own[1] * shape.outputs as isize,
                own[1],
            ]
        }
    };
    let mut copies = Vec::new();
    shape.each_phase(|phase, place| {
        let places: Vec<_> = (0..3).map(|i| shape.axes[i].places(place[i])).collect();
        let mut sizes = vec![shape.batch];
        sizes.extend(places.iter().map(|&(_, _, count)| count));
        sizes.extend([shape.groups, shape.outputs]);
        let offset = |at: &dyn Fn(usize) -> usize, strides: &[isize]| -> usize {
            (0..3).map(|i| at(i) * strides[1 + i] as usize).sum()
        };
        let source = offset(&|i| places[i].1, &from) + phase * shape.outputs;
        let target = offset(&|i| places[i].0, &to);
        let mut strides = to;
        for (stride, axis) in strides[1..4].iter_mut().zip(&shape.axes) {
            *stride *= axis.stride as isize;
        }
        copies.push((sizes, source, target, strides));
    });
    for (sizes, source, target, strides) in copies {
        strided(
            l,
            "interleave",
            &sizes,
            (all, source, &from),
            (result, target, &strides),
        )?;
    }
    Ok(())
}
