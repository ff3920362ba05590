//! Nodes computed in integers, on tensors of 8-bit codes.
//!
//! Invariants:
//! 1. A result is within one code of what dequantising, the op in f32 and quantising give.
//! 2. [`chain`] decides which chains are computed in integers, and checks all that the kernels need; a chain whose inner
//!    tensors have encodings is lowered only here.
//!
//! Not here: codes of other widths than 8 bits, and ops without an integer form, which compute in f32 between
//! conversions (`materialize`).

use polychip_cpu_kernels::conv::Window;
use polychip_cpu_kernels::pool::PoolParams;
use polychip_cpu_kernels::quantised::{self, Added, AveragePlan, CodeRange, ConvPlan, Output, Sum, Weights};
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{Isa, ThreadPool, Unary, elementwise as kernel};
use polychip_lowering::{Layout, Storage, integers};
use polychip_ops::operator::{Along, AveragePool, Conv, Transpose};
use polychip_ops::{DType, Op, Operator, axis};
use polychip_sdk::{Constant, Encoding, Result};

use super::builder::{Lowering, image, kernel_error};
use super::encoding::{Grid, grid, is_rounded, stands_for_f32};
use super::epilogue::{FusedEpilogue, IDENTITY};
use super::filter::{Filter, extent, products};
use super::function::activation;
use super::steps::{dense, strided};
use super::{conv, steps, window};
use crate::part::{Node, Part, Tensor, TensorIndex};
use crate::step::ValueId;
use crate::weights::Recipe;
use crate::work::Class;

/// The result of a chain.
#[derive(Clone, Copy, PartialEq)]
enum Result8 {
    /// Codes, after the limits of an activation.
    Codes(Grid, CodeRange),
    /// f32 between limits.
    Floats(f32, f32),
}

/// A product that is computed in integers.
struct Chain {
    x: TensorIndex,
    input: Grid,
    filter: Filter,
    bias: Option<TensorIndex>,
    target: TensorIndex,
    result: Result8,
    /// What is added, and the grid that the product is rounded to before.
    residual: Option<(TensorIndex, Grid, Grid)>,
}

/// Whether `sum = anchor + other` with an encoded tensor between is one chain of integers.
pub(super) fn adds_residual(part: &Part, node: &Node, sum: &Node, other: TensorIndex) -> Option<TensorIndex> {
    let output = sum.output(0)?;
    let fused = FusedEpilogue {
        residual: Some(other),
        output: Some(output),
        ..FusedEpilogue::NONE
    };
    chain(part, node, &fused).map(|_| output)
}

fn chain(part: &Part, node: &Node, fused: &FusedEpilogue) -> Option<Chain> {
    let (x, w, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let input = grid(part, x)?;
    let target = fused.output.unwrap_or(y);
    let (dims, out) = (part.dims(x)?, part.dims(y)?);
    let constant = |t: TensorIndex| part.tensors[t].is_constant() && stands_for_f32(part, t);
    if part.dims(target)? != out || out.contains(&0) || dims.contains(&0) {
        return None;
    }
    let operator = node.operator().ok()?;
    let filter = match &operator {
        Operator::Conv(of) if conv::covers(part, node) => {
            let filter = Filter::new(part, w, false)?;
            if of.groups.get() == 1 {
                filter
            } else {
                filter.summed()?
            }
        }
        Operator::Gemm(gemm) if dims.len() == 2 && !gemm.trans_a && (gemm.alpha, gemm.beta) == (1.0, 1.0) => {
            Filter::new(part, w, !gemm.trans_b)?
        }
        Operator::MatMul if dims.len() >= 2 => Filter::new(part, w, true)?,
        _ => return None,
    };
    let depth = filter.depth()?;
    if node.op != Op::Conv {
        let fits =
            filter.dims.len() == 2 && dims.last() == Some(&depth) && out.last() == Some(&filter.outputs());
        if !fits || dims[..dims.len() - 1] != out[..out.len() - 1] {
            return None;
        }
    }
    let bias = node.input(2).or(fused.bias);
    let outputs = filter.outputs();
    let per_output = |t: TensorIndex| {
        constant(t)
            && part
                .dims(t)
                .is_some_and(|dims| dims.iter().product::<usize>() == outputs)
    };
    if !bias.is_none_or(per_output)
        || fused.after
        || fused.alpha != 1.0
        || (node.input(2).is_some() && fused.bias.is_some())
    {
        return None;
    }
    let (low, high) = match fused.activation {
        Unary::Identity => (f32::NEG_INFINITY, f32::INFINITY),
        Unary::Relu => (0.0, f32::INFINITY),
        Unary::Clip { low, high } if low <= high => (low, high),
        _ => return None,
    };
    let result = match grid(part, target) {
        Some(grid) => Result8::Codes(grid, clamped(grid, low, high)),
        None if part.plain_f32(target) => Result8::Floats(low, high),
        None => return None,
    };
    let residual = match fused.residual {
        None => None,
        Some(other) => {
            // depthwise kernels add nothing
            let dense = match &operator {
                Operator::Conv(Conv { groups, .. }) => groups.get() == 1,
                _ => true,
            };
            let same = part.dims(other)? == out && fused.activation == IDENTITY && other != y;
            if !dense || !same || !matches!(result, Result8::Codes(..)) {
                return None;
            }
            Some((other, grid(part, other)?, grid(part, y)?))
        }
    };
    Some(Chain {
        x,
        input,
        filter,
        bias,
        target,
        result,
        residual,
    })
}

/// The codes between two real limits.
fn clamped(grid: Grid, low: f32, high: f32) -> CodeRange {
    let code = |x: f32| ((x / grid.scale).round_ties_even() + f32::from(grid.zero)).clamp(0.0, 255.0) as u8;
    CodeRange {
        zero: grid.zero,
        low: code(low),
        high: code(high),
    }
}

/// Lowers a node that has an integer layout.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    if let Some(chain) = chain(l.part, node, fused) {
        product(l, node, chain)?;
        return Ok(true);
    }
    if fused.output.is_some() {
        return Ok(false);
    }
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let (Some(from), Some(to)) = (grid(l.part, x), grid(l.part, y)) else {
        return Ok(false);
    };
    if l.shape(x)?.contains(&0) || l.shape(y)?.contains(&0) {
        return Ok(false);
    }
    match node.op {
        Op::Add | Op::Mul | Op::Sub => two(l, node, y, to),
        Op::MaxPool | Op::AveragePool | Op::GlobalAveragePool => pool(l, node, (x, from), (y, to)),
        Op::Identity | Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze
            if is_rounded(l.part, node, y) =>
        {
            if node
                .input(1)
                .is_some_and(|t| l.part.tensors[t].constant.is_none())
                || l.shape(x)?.iter().product::<usize>() != l.shape(y)?.iter().product::<usize>()
            {
                return Ok(false);
            }
            let rows = l.read(x, Layout::RowMajor, Storage::Codes)?;
            let shape = l.shape(y)?.to_vec();
            let view = l.view(rows, shape);
            l.tensor_forms[y].set(Layout::RowMajor, Storage::Codes, view);
            Ok(true)
        }
        Op::Concat => concat(l, node, (y, to)),
        Op::Transpose if is_rounded(l.part, node, y) => transpose(l, node, x, y),
        _ => table(l, node, (x, from), (y, to)),
    }
}

fn product(l: &mut Lowering<'_>, node: &Node, chain: Chain) -> Result<()> {
    let Chain {
        x,
        input,
        filter,
        bias,
        target,
        result,
        residual,
    } = chain;
    let (dims, y) = (l.shape(x)?, l.shape(target)?);
    let (params, layout) = extent(node, &filter, dims, y)?;
    let mut plan = ConvPlan::new(l.isa, params).map_err(kernel_error)?;
    let zeros = filter.zeros().unwrap_or_default();
    if !zeros.is_empty() {
        plan = plan.keeping_zeros();
    }
    // the product is rounded to this grid first
    let first = residual.map(|(_, _, between)| between).or(match result {
        Result8::Codes(grid, _) => Some(grid),
        Result8::Floats(..) => None,
    });
    let bias = bias.map(|b| Bias::new(l, b)).transpose()?;
    let packer = plan.clone();
    let recipe = filter
        .named(Recipe::new("codes").by(l.isa.code()).by_params(&params))
        .by((input, first))
        .of_any(bias.as_ref().map(|bias| &bias.source));
    let packed = l.packed(vec![plan.packed_len()], recipe, move |packed| {
        let outputs = filter.outputs();
        let step = first.map_or(1.0, |grid| grid.scale);
        let mut factor = Vec::with_capacity(outputs);
        let (mut sums, mut shift) = (vec![0; outputs], vec![0.0; outputs]);
        let whole = bias.as_ref().map(|bias| bias.sums(&filter, input)).transpose()?;
        for output in 0..outputs {
            factor.push((f64::from(input.scale) * f64::from(filter.scale(output)) / f64::from(step)) as f32);
        }
        match (whole, &bias) {
            (Some(Some(whole)), _) => sums = whole,
            (Some(None), Some(bias)) => {
                for (shift, value) in shift.iter_mut().zip(bias.source.reals()?) {
                    *shift = value / step;
                }
            }
            _ => {}
        }
        let weights = Weights {
            values: &filter.values()?,
            input_zero: input.zero,
            bias: &sums,
            factor: &factor,
            shift: &shift,
            zeros: &zeros,
        };
        packer.pack(&weights, packed);
        Ok(())
    })?;
    let mut reads = vec![l.read(x, layout, Storage::Codes)?, packed];
    if let Some((other, ..)) = residual {
        reads.push(l.read(other, layout, Storage::Codes)?);
    }
    let output = match result {
        Result8::Codes(..) => l.write(target, layout, Storage::Codes)?,
        Result8::Floats(..) => l.write(target, layout, Storage::Real)?,
    };
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let name = if node.op == Op::Conv {
        "conv of codes"
    } else {
        "gemm of codes"
    };
    let (class, products) = products(&plan);
    l.step(
        name,
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let (x, packed) = (o.read::<u8>(0), o.read(1));
            let added = residual.map(|(_, other, between)| {
                let Result8::Codes(grid, _) = result else {
                    unreachable!("invariant: something is added to codes only")
                };
                Added {
                    codes: o.read(2),
                    factor: other.over(grid),
                    shift: -f32::from(other.zero) * other.over(grid),
                    rounded: (between.codes(), between.over(grid)),
                }
            });
            let output = match result {
                Result8::Codes(_, codes) => Output::Codes(o.write(0), codes),
                Result8::Floats(low, high) => Output::Floats(o.write(0), low, high),
            };
            let scratch = o.scratch(1);
            plan.run(o.pool, packed, x, input.zero, added, output, scratch);
            Ok(())
        }),
    )
    .does(class, products);
    Ok(())
}

/// A constant that is added per output.
struct Bias {
    source: Tensor,
    /// The integers and their scales, where it is stored so.
    stored: Option<(Constant, Encoding)>,
}

impl Bias {
    fn new(l: &Lowering<'_>, tensor: TensorIndex) -> Result<Self> {
        let t = &l.part.tensors[tensor];
        let stored = match (t.dtype, t.constant, &t.encoding) {
            (DType::I32, Some(constant), Some(encoding)) => Some((constant, encoding.clone())),
            _ => None,
        };
        Ok(Self {
            source: l.source(tensor)?,
            stored,
        })
    }

    /// The bias in steps of the sums, where it is stored so.
    fn sums(&self, filter: &Filter, input: Grid) -> Result<Option<Vec<i32>>> {
        let Some((constant, encoding)) = &self.stored else {
            return Ok(None);
        };
        let scales = &encoding.scales;
        let same = (0..filter.outputs()).all(|output| {
            let own = scales.get(if scales.len() == 1 { 0 } else { output });
            let step = input.scale * filter.scale(output);
            own.is_some_and(|own| (own - step).abs() <= 1e-6 * step.abs())
        });
        if !same || encoding.zero_points.iter().any(|&zero| zero != 0) {
            return Ok(None);
        }
        Ok(Some(integers(DType::I32, filter.outputs(), constant.bytes())?))
    }
}

/// Sums, differences and products of two tensors.
fn two(l: &mut Lowering<'_>, node: &Node, y: TensorIndex, to: Grid) -> Result<bool> {
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else {
        return Ok(false);
    };
    let (Some(left), Some(right)) = (grid(l.part, a), grid(l.part, b)) else {
        return Ok(false);
    };
    let (out, isa) = (l.shape(y)?, l.isa);
    let same = l.shape(a)? == out && l.shape(b)? == out;
    let layout = l.code_layout(a).max(l.code_layout(b));
    if node.op == Op::Mul {
        // the shorter operand is repeated: a value for all, or one per channel of the only image
        let repeats = |dims: &[usize]| {
            dims.iter().product::<usize>() == 1
                || (layout == Layout::ChannelsLast
                    && dims.len() == out.len()
                    && dims[0] == 1
                    && out[0] == 1
                    && { dims[1] == out[1] && dims[2..].iter().all(|&size| size == 1) })
        };
        let (a, b, left, right) = match (l.shape(a)? == out, l.shape(b)? == out) {
            (true, true) => (a, b, left, right),
            (true, false) if repeats(l.shape(b)?) => (a, b, left, right),
            (false, true) if repeats(l.shape(a)?) => (b, a, right, left),
            _ => return Ok(false),
        };
        let one = l.shape(b)?.len() < 3 && l.shape(b)? != out;
        let reads = [
            l.read(a, layout, Storage::Codes)?,
            l.read(b, if one { Layout::RowMajor } else { layout }, Storage::Codes)?,
        ];
        let output = l.write(y, layout, Storage::Codes)?;
        let factor = left.scale * right.scale / to.scale;
        l.step(
            "product of codes",
            &reads,
            &[output],
            None,
            Box::new(move |o| {
                let (a, b): (&[u8], &[u8]) = (o.read(0), o.read(1));
                let zeros = [left.zero, right.zero];
                quantised::multiply(isa, o.pool, (a, b), zeros, factor, to.codes(), o.write(0));
                Ok(())
            }),
        )
        .is(Class::Codes);
        return Ok(true);
    }
    if !same {
        return Ok(false);
    }
    let sign = if node.op == Op::Sub { -1.0 } else { 1.0 };
    let (by_a, by_b) = (left.over(to), sign * right.over(to));
    let sum = Sum {
        a: by_a,
        b: by_b,
        shift: -(f32::from(left.zero) * by_a + f32::from(right.zero) * by_b),
    };
    let reads = [
        l.read(a, layout, Storage::Codes)?,
        l.read(b, layout, Storage::Codes)?,
    ];
    let output = l.write(y, layout, Storage::Codes)?;
    l.step(
        "sum of codes",
        &reads,
        &[output],
        None,
        Box::new(move |o| {
            quantised::add(isa, o.pool, o.read(0), o.read(1), sum, to.codes(), o.write(0));
            Ok(())
        }),
    )
    .is(Class::Codes);
    Ok(true)
}

/// Pools over windows and whole images.
fn pool(
    l: &mut Lowering<'_>,
    node: &Node,
    (x, from): (TensorIndex, Grid),
    (y, to): (TensorIndex, Grid),
) -> Result<bool> {
    let dims = l.shape(x)?;
    if !(3..=5).contains(&dims.len()) || node.output(1).is_some() {
        return Ok(false);
    }
    let maximum = node.op == Op::MaxPool;
    if maximum && !is_rounded(l.part, node, y) {
        return Ok(false);
    }
    let count_padding = match node.typed::<AveragePool>() {
        Ok(pool) => pool.count_include_pad,
        Err(_) if node.op == Op::AveragePool => return Ok(false),
        Err(_) => false,
    };
    let [n, c, spatial] = image(dims)?;
    let params = if node.op == Op::GlobalAveragePool {
        PoolParams {
            batch: n,
            channels: c,
            window: Window::new_2d([1, spatial], [1, 1], [1, spatial], [1, 1], [1, 1], [0, 0]),
            pads_end: [0; 3],
        }
    } else {
        window::pool(l, node, x, y)?
    };
    let isa = l.isa;
    let plan = AveragePlan::new(params, count_padding).map_err(kernel_error)?;
    let (input, output) = (
        l.read(x, Layout::ChannelsLast, Storage::Codes)?,
        l.write(y, Layout::ChannelsLast, Storage::Codes)?,
    );
    let factor = from.over(to);
    let seen = window::taps(dims, l.shape(y)?, node);
    l.step(
        "pool of codes",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            let (x, y) = (o.read(0), o.write(0));
            if maximum {
                quantised::max_pool(isa, o.pool, (n, c), &params.window, x, y);
            } else {
                plan.run(isa, o.pool, x, from.zero, factor, to.codes(), y);
            }
            Ok(())
        }),
    )
    .does(Class::PoolCodes, seen);
    Ok(true)
}

/// Another order of dimensions: that of images for nothing, where the codes exist so.
fn transpose(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (dims, shape) = (l.shape(x)?, l.shape(y)?.to_vec());
    let rank = dims.len();
    let Ok(Transpose { perm }) = node.typed() else {
        return Ok(false);
    };
    let permutation: Vec<usize> = match perm {
        Some(perm) => match axis::normalise_all(&perm, rank) {
            Some(perm) => perm,
            None => return Ok(false),
        },
        None => (0..rank).rev().collect(),
    };
    if permutation.len() != rank
        || permutation
            .iter()
            .map(|&axis| dims[axis])
            .ne(shape.iter().copied())
    {
        return Ok(false);
    }
    let image = rank >= 3;
    if image
        && permutation == Layout::ChannelsLast.permutation(rank)
        && l.code_layout(x) == Layout::ChannelsLast
    {
        let value = l.read(x, Layout::ChannelsLast, Storage::Codes)?;
        let view = l.view(value, shape);
        l.tensor_forms[y].set(Layout::RowMajor, Storage::Codes, view);
        return Ok(true);
    }
    let rows = l.read(x, Layout::RowMajor, Storage::Codes)?;
    let from_last = image && permutation == Layout::ChannelsLast.to(Layout::RowMajor, rank);
    if from_last && l.wishes[y].is_none() {
        let view = l.view(rows, Layout::ChannelsLast.dims(&shape));
        l.tensor_forms[y].set(Layout::ChannelsLast, Storage::Codes, view);
        return Ok(true);
    }
    let plan = TransposePlan::new(dims, &permutation).map_err(kernel_error)?;
    let result = l.write(y, Layout::RowMajor, Storage::Codes)?;
    steps::transpose(l, "transpose of codes", plan, rows, result);
    Ok(true)
}

/// Tensors side by side: copied, or moved to the grid of the result.
fn concat(l: &mut Lowering<'_>, node: &Node, (y, to): (TensorIndex, Grid)) -> Result<bool> {
    let inputs: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    let out = l.shape(y)?;
    let along = node.typed::<Along>().ok();
    let Some(axis) = along.and_then(|along| axis::normalise(along.axis, out.len())) else {
        return Ok(false);
    };
    let (mut layout, mut sum) = (Layout::RowMajor, 0);
    for &input in &inputs {
        let dims = l.shape(input)?;
        let fits = dims.len() == out.len() && (0..out.len()).all(|i| i == axis || dims[i] == out[i]);
        if grid(l.part, input).is_none() || !fits {
            return Ok(false);
        }
        sum += dims[axis];
        if l.code_layout(input) == Layout::ChannelsLast {
            layout = Layout::ChannelsLast;
        }
    }
    if sum != out[axis] {
        return Ok(false);
    }
    let at = layout.place(axis, out.len());
    let mut values = Vec::new();
    for &input in &inputs {
        let from = grid(l.part, input).ok_or_else(|| l.not_computed(input))?;
        values.push((l.read(input, layout, Storage::Codes)?, from));
    }
    let result = l.write(y, layout, Storage::Codes)?;
    let strides = dense(l.value_shape(result))?;
    let mut offset = 0;
    for (value, from) in values {
        let shape = l.value_shape(value).to_vec();
        if from == to {
            let dense = dense(&shape)?;
            strided(
                l,
                "concat of codes",
                &shape,
                (value, 0, &dense),
                (result, offset, &strides),
            )?;
        } else {
            let stride = if at == 0 { 0 } else { strides[at - 1] as usize };
            requantise(
                l,
                (value, from),
                (result, to),
                shape[at..].iter().product(),
                (offset, stride),
            );
        }
        offset += shape[at] * strides[at] as usize;
    }
    Ok(true)
}

/// Adds a step that moves rows of so many codes to another grid, and to places that lie `stride` apart.
fn requantise(
    l: &mut Lowering<'_>,
    (value, from): (ValueId, Grid),
    (result, to): (ValueId, Grid),
    len: usize,
    (offset, stride): (usize, usize),
) {
    let isa = l.isa;
    let elements = l.value_shape(value).iter().product::<usize>();
    let step = l.step(
        "codes to another grid",
        &[value],
        &[result],
        None,
        Box::new(move |o| {
            let rows = quantised::Rows { len, offset, stride };
            let from = (from.scale, from.zero);
            quantised::requantise(
                isa,
                o.pool,
                o.read(0),
                from,
                to.scale,
                to.codes(),
                rows,
                o.write(0),
            );
            Ok(())
        }),
    );
    step.does(Class::Codes, elements).work.bytes = 2 * elements as u64;
}

/// The table of a function of one code.
fn tabulate(isa: Isa, function: Unary, from: Grid, to: Grid) -> [u8; 256] {
    let pool = ThreadPool::new(1);
    let x: [f32; 256] = std::array::from_fn(|code| (code as f32 - f32::from(from.zero)) * from.scale);
    let (mut y, mut table) = ([0.0; 256], [0; 256]);
    kernel::unary(isa, &pool, function, &x, &mut y);
    quantised::quantise(isa, &pool, &y, to.scale, to.codes(), &mut table);
    table
}

/// Functions of one value, by a table of all codes.
fn table(
    l: &mut Lowering<'_>,
    node: &Node,
    (x, from): (TensorIndex, Grid),
    (y, to): (TensorIndex, Grid),
) -> Result<bool> {
    let Some(function) = activation(l.part, node) else {
        return Ok(false);
    };
    if l.shape(x)? != l.shape(y)? {
        return Ok(false);
    }
    let table = tabulate(l.isa, function, from, to);
    let layout = l.code_layout(x);
    let (input, output) = (
        l.read(x, layout, Storage::Codes)?,
        l.write(y, layout, Storage::Codes)?,
    );
    l.step(
        "table of codes",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            quantised::map(o.pool, &table, o.read(0), o.write(0));
            Ok(())
        }),
    )
    .is(Class::Codes);
    Ok(true)
}
