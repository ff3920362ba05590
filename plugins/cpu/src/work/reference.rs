//! How often the loops of the reference evaluator turn for a node, by what its kernels do (`cpu-kernels/src/reference`).
//!
//! Invariants:
//! 1. Extents that only the run tells count with their bounds, and without bounds as one.
//! 2. Every op has a count; an op without a line of its own is a loop over its elements.

use polychip_ops::operator::{
    Einsum, Gemm, GridSample, Interpolation, LinearAttention, Lrn, MaxRoiPool, RoiAlign, Scan, TopK,
};
use polychip_ops::{Attr, DType, Op, Operator};

use super::{Boxed, Class, Loop, Work, product};
use crate::part::{Node, Part, Programs, TensorIndex};

fn extents(part: &Part, tensor: TensorIndex) -> &[usize] {
    part.tensors[tensor].bounds.as_deref().unwrap_or(&[])
}

fn elements(part: &Part, tensor: TensorIndex) -> u64 {
    product(extents(part, tensor))
}

/// The only number of a constant of one integer.
fn scalar(part: &Part, tensor: TensorIndex) -> Option<i64> {
    // the length is looked at first: large constants are not read
    if part.dims(tensor)?.iter().any(|&size| size != 1) {
        return None;
    }
    part.integers(tensor)?.first().copied()
}

/// What the evaluator does for a node without bodies.
pub(crate) fn of_node(part: &Part, node: &Node) -> Work {
    let (turn, units) = turns(part, node);
    Work {
        class: Class::Reference(turn),
        units,
        bytes: 0,
        boxed: boxed(part, node),
    }
}

/// What a node takes and gives.
fn boxed(part: &Part, node: &Node) -> Boxed {
    let mut boxed = Boxed::default();
    let mut count = |tensor: TensorIndex, given: bool| {
        let t = &part.tensors[tensor];
        let (count, plain) = (elements(part, tensor), t.encoding.is_none());
        let is_half = plain && t.dtype.is_float() && t.dtype.bits().is_some_and(|bits| bits <= 16);
        let place = match (is_half, given) {
            (false, _) => &mut boxed.plain,
            (true, false) => &mut boxed.halves_taken,
            (true, true) => &mut boxed.halves_given,
        };
        *place = place.saturating_add(count);
        let width = match t.dtype {
            DType::Bool => 1,
            dtype if plain && dtype.is_int() => 16,
            _ => 8,
        };
        boxed.wide_bytes = boxed.wide_bytes.saturating_add(count.saturating_mul(width));
    };
    for tensor in node.reads() {
        count(tensor, false);
    }
    for &tensor in node.outputs.iter().flatten() {
        count(tensor, true);
    }
    boxed
}

/// Elements whose price a call of the evaluator has, within a body.
const CALL: u64 = 100;

/// What the evaluator does for a node with bodies: each round computes the body's nodes.
pub(crate) fn of_body(part: &Part, programs: &Programs, node: &Node) -> Work {
    let rounds = rounds(part, node);
    let nodes: u64 = programs
        .bodies(node)
        .iter()
        .filter_map(|program| program.as_ref().ok())
        .map(|program| program.node_count() as u64)
        .sum();
    // one of the bodies of an If runs; both cost about as much
    let nodes = if node.op == Op::If {
        nodes.div_ceil(2)
    } else {
        nodes
    };
    // what a body's nodes compute on is not known here: as much as the largest of what it takes
    let each = carried(part, node).saturating_add(CALL);
    Work {
        class: Class::Reference(Loop::Body),
        units: rounds.saturating_mul(nodes.max(1)).saturating_mul(each),
        bytes: 0,
        boxed: boxed(part, node),
    }
}

/// Elements of the largest tensor that one round of a body takes or gives.
fn carried(part: &Part, node: &Node) -> u64 {
    let states = match node.op {
        Op::Scan => return widest_scanned(part, node),
        Op::Loop => 2,
        _ => 0,
    };
    let passed = node.inputs.iter().skip(states).copied().flatten();
    let captured = node
        .bodies
        .iter()
        .flat_map(|body| body.captured.iter().copied().flatten());
    passed
        .chain(captured)
        .map(|t| elements(part, t))
        .max()
        .unwrap_or(1)
}

/// Elements of the largest state of a Scan, or of one step of what it scans.
fn widest_scanned(part: &Part, node: &Node) -> u64 {
    let scanned = node.typed::<Scan>().map_or(1, |scan| scan.scan_inputs);
    let states = node.inputs.len().saturating_sub(scanned);
    let rounds = rounds(part, node).max(1);
    let each = node.inputs.iter().enumerate().filter_map(|(i, input)| {
        let all = elements(part, (*input)?);
        Some(if i < states { all } else { all / rounds })
    });
    each.max().unwrap_or(1)
}

/// How often a body runs.
pub(crate) fn rounds(part: &Part, node: &Node) -> u64 {
    match node.op {
        Op::Loop => node
            .input(0)
            .and_then(|trips| scalar(part, trips))
            .map_or(UNKNOWN_ROUNDS, |trips| trips.clamp(0, MOST_ROUNDS) as u64),
        Op::Scan => {
            let last = node.inputs.iter().rev().copied().flatten().next();
            last.and_then(|t| extents(part, t).first().copied())
                .map_or(UNKNOWN_ROUNDS, |steps| steps as u64)
        }
        Op::SequenceMap => UNKNOWN_ROUNDS,
        _ => 1,
    }
}

/// Rounds of a loop whose number only the run tells: detectors and decoders loop over some tens of things.
const UNKNOWN_ROUNDS: u64 = 10;
/// A loop that runs until its condition says stop often names an endless number.
const MOST_ROUNDS: i64 = 1_000;

/// The loop in which the node spends its time, and its turns.
fn turns(part: &Part, node: &Node) -> (Loop, u64) {
    let dims = |i: usize| node.input(i).map_or(&[][..], |t| extents(part, t));
    let count = |i: usize| node.input(i).map_or(0, |t| elements(part, t));
    let result = node.output(0).map_or(0, |t| elements(part, t));
    let results: u64 = node
        .outputs
        .iter()
        .flatten()
        .map(|&t| elements(part, t))
        .max()
        .unwrap_or(0);
    let is_int = node.input(0).is_some_and(|t| {
        let t = &part.tensors[t];
        t.encoding.is_none() && t.dtype.is_int() && t.dtype != DType::Bool
    });
    let of = |float: Loop, integer: Loop| if is_int { integer } else { float };
    let operands = node.inputs.iter().flatten().count().max(1) as u64;
    let taps = |kernel: &[usize]| product(kernel).max(1);
    let kernel_shape = || -> u64 {
        let window = match node.operator() {
            Ok(Operator::MaxPool(pool)) => Some(pool.window),
            Ok(Operator::AveragePool(pool)) => Some(pool.window),
            Ok(Operator::LpPool(pool)) => Some(pool.window),
            _ => None,
        };
        window
            .iter()
            .flat_map(|window| &window.kernel_shape)
            .fold(1, |count: u64, &size| count.saturating_mul(size.max(1) as u64))
    };
    match node.op {
        Op::MatMul | Op::MatMulInteger | Op::QLinearMatMul => {
            let depth = dims(0).last().copied().unwrap_or(1) as u64;
            let turn = if is_int { Loop::IntegerRow } else { Loop::Row };
            (turn, result.saturating_mul(depth))
        }
        Op::Gemm => {
            let transposed = node.typed::<Gemm>().is_ok_and(|gemm| gemm.trans_a);
            let depth = if transposed {
                dims(0).first()
            } else {
                dims(0).last()
            };
            (
                Loop::Row,
                result.saturating_mul(depth.copied().unwrap_or(1) as u64),
            )
        }
        Op::TreeEnsemble | Op::TreeEnsembleRegressor => {
            let nodes = node
                .attributes
                .ints(Attr::NodesFeatureids)
                .map_or(0, <[i64]>::len) as u64;
            let trees = match node.attributes.ints(Attr::TreeRoots) {
                Some(roots) => roots.len(),
                None => node
                    .attributes
                    .ints(Attr::NodesTreeids)
                    .map_or(0, |ids| ids.chunk_by(PartialEq::eq).count()),
            };
            // each row takes some ten steps in each tree; the trees are put together for each run
            let rows = dims(0).first().copied().unwrap_or(1) as u64;
            let steps = rows.saturating_mul(trees as u64).saturating_mul(10);
            (Loop::Place, steps.saturating_add(nodes))
        }
        Op::Einsum => (
            Loop::Gathered,
            einsum(part, node).saturating_add(result.saturating_mul(2)),
        ),
        Op::Det => {
            let n = dims(0).last().copied().unwrap_or(1) as u64;
            (Loop::Place, count(0).saturating_mul(n) / 3)
        }
        Op::Conv | Op::ConvInteger => (
            Loop::Tap,
            result.saturating_mul(product(dims(1).get(1..).unwrap_or(&[]))),
        ),
        Op::QLinearConv => (
            // codes are made numbers of 128 bits
            Loop::IntegerRow,
            result.saturating_mul(product(dims(3).get(1..).unwrap_or(&[]))),
        ),
        Op::ConvTranspose => (
            Loop::Place,
            count(0).saturating_mul(product(dims(1).get(1..).unwrap_or(&[]))),
        ),
        Op::DeformConv => {
            let w = dims(1);
            let [outputs, per_group] =
                [w.first(), w.get(1)].map(|size| size.copied().unwrap_or(1).max(1) as u64);
            let places = result / outputs;
            let channels = dims(0).get(1).copied().unwrap_or(1) as u64;
            let window = taps(w.get(2..).unwrap_or(&[]));
            let samples = places.saturating_mul(channels).saturating_mul(window);
            let products = result.saturating_mul(per_group).saturating_mul(window);
            (
                Loop::Sample,
                samples.saturating_mul(3).saturating_add(products / 4),
            )
        }
        Op::Col2Im => (Loop::Place, count(0)),
        Op::CausalConvWithState => (
            Loop::Place,
            result.saturating_mul(dims(1).last().copied().unwrap_or(1) as u64),
        ),
        Op::MaxPool | Op::AveragePool => (Loop::Window, result.saturating_mul(kernel_shape())),
        Op::LpPool => (Loop::Divide, result.saturating_mul(kernel_shape())),
        Op::GlobalAveragePool | Op::GlobalMaxPool => (Loop::Reduce, count(0)),
        Op::GlobalLpPool => (Loop::Divide, count(0)),
        Op::RoiAlign => {
            let ratio = node
                .typed::<RoiAlign>()
                .map_or(0, |align| align.sampling_ratio as u64);
            // without a ratio, a sample per pixel of the region
            let samples = if ratio == 0 {
                4
            } else {
                ratio.saturating_mul(ratio)
            };
            (Loop::Sample, result.saturating_mul(samples).saturating_mul(8))
        }
        Op::MaxRoiPool => {
            let image = product(dims(0).get(2..).unwrap_or(&[]));
            let cells = node
                .typed::<MaxRoiPool>()
                .map(|pool| pool.pooled_shape)
                .unwrap_or_default();
            let cells = cells
                .iter()
                .fold(4, |all: u64, &size| all.saturating_mul(size.max(1) as u64));
            // regions are about half as large as the image along each side
            (Loop::Place, result.saturating_mul((image / cells).max(1)))
        }
        Op::Resize | Op::Upsample => {
            let mode = match node.operator() {
                Ok(Operator::Resize(resize)) => resize.interpolation,
                Ok(Operator::Upsample(upsample)) => upsample.interpolation,
                _ => Interpolation::Nearest,
            };
            let each = if mode == Interpolation::Cubic { 4 } else { 2 };
            if mode == Interpolation::Nearest {
                (Loop::Index, result.saturating_mul(2))
            } else {
                // one pass per axis that changes; what is made smaller is read whole
                (
                    Loop::Gathered,
                    result.saturating_mul(each).max(count(0)).saturating_mul(2),
                )
            }
        }
        Op::GridSample => {
            let rank = dims(0).len().saturating_sub(2) as u32;
            let each: u64 = match node.typed::<GridSample>().map(|sample| sample.interpolation) {
                Ok(Interpolation::Nearest) => 1,
                Ok(Interpolation::Cubic) => 4u64.saturating_pow(rank),
                _ => 2u64.saturating_pow(rank),
            };
            (
                Loop::Sample,
                result
                    .saturating_mul(each)
                    .saturating_add(result.saturating_mul(5) / 2),
            )
        }
        Op::AffineGrid => (Loop::Sample, result.saturating_mul(5)),
        Op::LSTM | Op::GRU | Op::RNN => {
            let x = dims(0);
            let [steps, batch, input] = std::array::from_fn(|i| x.get(i).copied().unwrap_or(1) as u64);
            let w = dims(1);
            let [directions, rows] = std::array::from_fn(|i| w.get(i).copied().unwrap_or(1) as u64);
            let hidden = dims(2).last().copied().unwrap_or(1) as u64;
            let cells = steps.saturating_mul(batch).saturating_mul(directions);
            (
                Loop::Dot,
                cells
                    .saturating_mul(rows)
                    .saturating_mul(input.saturating_add(hidden)),
            )
        }
        Op::Attention => {
            let (q, k) = (dims(0), dims(1));
            let keys = k.len().checked_sub(2).map_or(1, |i| k[i]) as u64;
            let keys = keys.saturating_add(dims(4).get(2).copied().unwrap_or(0) as u64);
            let scores = product(q).saturating_mul(keys);
            (Loop::Dot, scores.saturating_mul(2))
        }
        Op::LinearAttention => {
            let heads = node
                .typed::<LinearAttention>()
                .map_or(1, |linear| linear.kv_heads.max(1) as u64);
            let width = dims(1).last().copied().unwrap_or(1) as u64 / heads;
            (Loop::Dot, count(2).saturating_mul(width.max(1)).saturating_mul(2))
        }
        Op::TopK => {
            let top = node.typed::<TopK>().ok();
            let axis = top.and_then(|top| polychip_ops::axis::normalise(top.axis, dims(0).len()));
            let along = axis.map_or(1, |axis| dims(0)[axis] as u64);
            (Loop::Compare, count(0).saturating_mul(depth(along)))
        }
        Op::Unique => (Loop::Compare, count(0).saturating_mul(depth(count(0)))),
        Op::NonMaxSuppression => {
            let (boxes, scores) = (dims(1).last().copied().unwrap_or(1) as u64, count(1));
            let chosen = node
                .input(2)
                .and_then(|t| scalar(part, t))
                .map_or(boxes, |most| most.clamp(0, i64::MAX) as u64)
                .min(boxes);
            (
                Loop::Pair,
                scores
                    .saturating_mul(chosen / 2)
                    .saturating_add(scores.saturating_mul(depth(boxes))),
            )
        }
        Op::DFT => {
            let x = dims(0);
            let along = node.input(2).and_then(|t| scalar(part, t)).unwrap_or(-2);
            let size = polychip_ops::axis::normalise(along, x.len()).map_or(1, |axis| x[axis] as u64);
            // every value of the result is a sum over the whole line
            (Loop::Angle, (result / 2).saturating_mul(size))
        }
        Op::STFT => {
            let frame = node
                .input(3)
                .and_then(|t| scalar(part, t))
                .map_or_else(|| count(2), |frame| frame.max(1) as u64);
            (Loop::Angle, (result / 2).saturating_mul(frame.max(1)))
        }
        Op::LRN => {
            let size = node.typed::<Lrn>().map_or(1, |lrn| lrn.size.get() as u64);
            (Loop::Place, count(0).saturating_mul(size.saturating_add(8)))
        }
        Op::Erf | Op::Gelu => (Loop::Series, result),
        Op::Acos
        | Op::Asin
        | Op::Atan
        | Op::Cos
        | Op::Cosh
        | Op::Exp
        | Op::Log
        | Op::Sin
        | Op::Sinh
        | Op::Tan
        | Op::Tanh
        | Op::Sigmoid
        | Op::Softplus
        | Op::Elu
        | Op::Selu
        | Op::Celu
        | Op::Mish
        | Op::Swish
        | Op::SwiGLU
        | Op::Pow => (Loop::Function, result),
        // several functions each
        Op::Acosh | Op::Asinh | Op::Atanh => (Loop::Divide, result.saturating_mul(2)),
        Op::Softmax | Op::LogSoftmax | Op::ReduceLogSumExp => (Loop::Function, count(0)),
        Op::SoftmaxCrossEntropyLoss => (Loop::Function, count(0)),
        Op::QuantizeLinear | Op::DequantizeLinear | Op::DynamicQuantizeLinear => (Loop::Quantise, result),
        Op::Expand
        | Op::Tile
        | Op::Slice
        | Op::Split
        | Op::Concat
        | Op::Transpose
        | Op::Gather
        | Op::GatherND
        | Op::DepthToSpace
        | Op::SpaceToDepth
        | Op::Trilu
        | Op::EyeLike
        | Op::Compress
        | Op::Where => (Loop::Index, results),
        Op::OneHot => (Loop::Index, result),
        Op::CenterCropPad => (Loop::Index, result.saturating_mul(2)),
        Op::Pad | Op::GatherElements | Op::ReverseSequence => (Loop::Coordinates, result),
        // a list of coordinates for each that is found
        Op::NonZero => (Loop::Coordinates, count(0).saturating_mul(3)),
        Op::ScatterElements | Op::Scatter => (Loop::Coordinates, count(2)),
        Op::ScatterND | Op::TensorScatter => (Loop::Index, count(2).max(count(1)).saturating_mul(2)),
        Op::Not => (Loop::Pass, result / 8),
        Op::IsNaN | Op::IsInf | Op::CastLike | Op::BitCast | Op::Identity | Op::Reshape => {
            (Loop::Pass, result)
        }
        Op::Cast => {
            let to = node.output(0).map(|t| part.tensors[t].dtype);
            let to_int = to.is_some_and(DType::is_int);
            (
                if to_int || is_int {
                    Loop::Element
                } else {
                    Loop::Reduce
                },
                result,
            )
        }
        Op::ReduceSum
        | Op::ReduceMean
        | Op::ReduceMax
        | Op::ReduceMin
        | Op::ReduceProd
        | Op::ReduceL1
        | Op::ReduceL2
        | Op::ReduceLogSum
        | Op::ReduceSumSquare
        | Op::ArgMax
        | Op::ArgMin
        | Op::CumSum
        | Op::CumProd => (of(Loop::Reduce, Loop::IntegerPass), count(0)),
        Op::Abs | Op::Neg | Op::Sign | Op::Relu | Op::BitwiseNot => {
            (of(Loop::Pass, Loop::IntegerPass), result)
        }
        Op::Floor | Op::Ceil | Op::Round | Op::Sqrt | Op::Reciprocal => (Loop::Reduce, result),
        Op::Mod => (Loop::Divide, result),
        Op::Div => (of(Loop::Element, Loop::Divide), result),
        Op::Clip => (of(Loop::Element, Loop::Divide), result),
        Op::Sum | Op::Mean | Op::Max | Op::Min => {
            (of(Loop::Element, Loop::Integer), result.saturating_mul(operands))
        }
        _ => (of(Loop::Element, Loop::Integer), results.max(count(0))),
    }
}

/// Comparisons of a sort, per element.
fn depth(elements: u64) -> u64 {
    u64::from(u64::BITS - elements.leading_zeros())
}

/// Turns of an Einstein sum: the product of the extents of all its labels.
fn einsum(part: &Part, node: &Node) -> u64 {
    let equation = node
        .typed::<Einsum>()
        .map(|einsum| einsum.equation)
        .unwrap_or_default();
    let left = equation.split("->").next().unwrap_or_default();
    let mut sizes: Vec<(char, usize)> = Vec::new();
    let mut leading = 1u64;
    for (term, input) in left.split(',').zip(&node.inputs) {
        let dims = input.map_or(&[][..], |t| extents(part, t));
        let letters: Vec<char> = term.chars().filter(char::is_ascii_alphabetic).collect();
        let ellipsis = dims.len().saturating_sub(letters.len());
        let before = term
            .split("...")
            .next()
            .map_or(0, |text| text.chars().filter(char::is_ascii_alphabetic).count())
            .min(dims.len());
        if term.contains("...") {
            let all = product(dims.get(before..before + ellipsis).unwrap_or(&[]));
            leading = leading.max(all);
        }
        let places = dims[..before.min(dims.len())].iter().chain(
            dims.get(before + if term.contains("...") { ellipsis } else { 0 }..)
                .unwrap_or(&[]),
        );
        for (&letter, &size) in letters.iter().zip(places) {
            match sizes.iter_mut().find(|(known, _)| *known == letter) {
                Some((_, known)) => *known = size.max(*known),
                None => sizes.push((letter, size)),
            }
        }
    }
    sizes
        .iter()
        .fold(leading, |all, &(_, size)| all.saturating_mul(size as u64))
}
