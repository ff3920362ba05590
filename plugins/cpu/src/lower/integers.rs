//! Ops that name their integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, DynamicQuantizeLinear.
//!
//! Invariants:
//! 1. Sums are exact; a result of QLinear ops is within one code of ONNX's formula in exact arithmetic.
//! 2. The right operand and every scale and zero are constants, but the zero of the left operand of MatMulInteger and
//!    ConvInteger, which DynamicQuantizeLinear computes.
//! 3. Weights that less their zero do not fit 8 signed bits keep it: one more output sums the rows up, and their zeros times
//!    that are taken off the sums. Those of grouped convolutions are sums of several bytes instead.
//!
//! Not here: other granularities of scales and zeros, computed right operands; they fall to the reference.

use polychip_cpu_kernels::quantised::{self, CodeRange, ConvPlan, Output, Weights};
use polychip_lowering::{Layout, Storage, integers};
use polychip_ops::operator::Conv;
use polychip_ops::{DType, Op};
use polychip_sdk::{Encoding, EncodingKind, Error, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::flipped;
use super::filter::{Filter, extent, products};
use super::quantise;
use crate::part::{Node, Part, TensorIndex};
use crate::step::{Operands, ValueId};
use crate::weights::Recipe;
use crate::work::Class;

/// The zero of the left operand, as a code.
#[derive(Clone, Copy)]
enum Zero {
    Known(u8),
    Computed(TensorIndex),
}

/// What becomes of the sums.
enum Finish {
    Sums,
    /// Steps of a sum in steps of the result, per output or for all; the zero of the result.
    Codes(Vec<f32>, u8),
}

struct Product {
    x: TensorIndex,
    zero: Zero,
    filter: Filter,
    bias: Option<TensorIndex>,
    y: TensorIndex,
    finish: Finish,
}

/// The numbers of a constant: one, or as many as there are outputs.
fn numbers(part: &Part, tensor: Option<TensorIndex>, outputs: usize) -> Option<Vec<f64>> {
    let values = match tensor {
        None => vec![0.0],
        Some(t) => part.numbers(t)?,
    };
    (values.len() == 1 || values.len() == outputs).then_some(values)
}

fn single(part: &Part, tensor: Option<TensorIndex>) -> Option<f64> {
    match tensor {
        None => Some(0.0),
        Some(t) => part.scalar(t),
    }
}

fn product(part: &Part, node: &Node) -> Option<Product> {
    let linear = matches!(node.op, Op::QLinearConv | Op::QLinearMatMul);
    let columns = matches!(node.op, Op::MatMulInteger | Op::QLinearMatMul);
    if !linear && !matches!(node.op, Op::MatMulInteger | Op::ConvInteger) {
        return None;
    }
    let (w, zeros) = if linear { (3, [2, 5]) } else { (1, [2, 3]) };
    let (x, w, y) = (node.input(0)?, node.input(w)?, node.output(0)?);
    let plain = |t: TensorIndex| part.tensors[t].encoding.is_none() && part.dims(t).is_some();
    let (dims, right, out) = (part.dims(x)?, part.dims(w)?, part.dims(y)?);
    if !(plain(x) && plain(w) && plain(y)) || dims.contains(&0) || out.contains(&0) || right.contains(&0) {
        return None;
    }
    let outputs = *right.get(usize::from(columns))?;
    let top = flipped(part.tensors[x].dtype)?;
    let zero = match node.input(zeros[0]) {
        Some(t) if !linear && !part.tensors[t].is_constant() => {
            let one = part.dims(t)?.iter().product::<usize>() == 1;
            (one && part.tensors[t].dtype == part.tensors[x].dtype).then_some(Zero::Computed(t))?
        }
        t => Zero::Known(u8::try_from(single(part, t)? as i32 + top).ok()?),
    };
    let zero_points: Vec<i32> = numbers(part, node.input(zeros[1]), outputs)?
        .iter()
        .map(|&zero| zero as i32)
        .collect();
    let scales: Vec<f64> = if linear {
        numbers(part, Some(node.input(4)?), outputs)?
    } else {
        vec![1.0]
    };
    // one kind of granularity for both
    let spread = |values: Vec<f64>| match values.len() {
        1 => vec![values[0]; outputs],
        _ => values,
    };
    let encoding = Encoding {
        kind: EncodingKind::PerAxis {
            axis: usize::from(columns),
        },
        scales: spread(scales).iter().map(|&scale| scale as f32).collect(),
        zero_points: spread(zero_points.iter().map(|&zero| f64::from(zero)).collect())
            .iter()
            .map(|&zero| zero as i32)
            .collect(),
        real_dtype: DType::F32,
    };
    let mut filter = Filter::of(part, w, encoding, columns)?;
    let depth = filter.depth()?;
    let grouped = !columns && node.typed::<Conv>().ok()?.groups.get() != 1;
    if grouped {
        filter = filter.summed()?;
    }
    let shapes = if columns {
        right.len() == 2
            && dims.len() >= 2
            && dims.last() == Some(&depth)
            && out.last() == Some(&outputs)
            && dims[..dims.len() - 1] == out[..out.len() - 1]
    } else {
        (3..=5).contains(&dims.len()) && right.len() == dims.len()
    };
    let bias = node.input(8).filter(|_| node.op == Op::QLinearConv);
    let fits = |t: TensorIndex| {
        let t = &part.tensors[t];
        t.dtype == DType::I32 && t.constant.is_some() && t.dims.as_deref() == Some(&[outputs])
    };
    if !shapes || !bias.is_none_or(fits) {
        return None;
    }
    let finish = if linear {
        let (from, to) = (
            single(part, Some(node.input(1)?))?,
            single(part, Some(node.input(6)?))?,
        );
        let out_top = flipped(part.tensors[y].dtype)?;
        let zero = u8::try_from(single(part, node.input(7))? as i32 + out_top).ok()?;
        let factor: Vec<f32> = (0..outputs)
            .map(|output| (from * f64::from(filter.scale(output)) / to) as f32)
            .collect();
        let sound = factor.iter().all(|factor| factor.is_finite());
        sound.then_some(Finish::Codes(factor, zero))?
    } else {
        (part.tensors[y].dtype == DType::I32).then_some(Finish::Sums)?
    };
    Some(Product {
        x,
        zero,
        filter,
        bias,
        y,
        finish,
    })
}

fn dynamic(part: &Part, node: &Node) -> Option<[TensorIndex; 2]> {
    let (x, y) = (node.input(0)?, node.output(0)?);
    (node.op == Op::DynamicQuantizeLinear && part.plain_f32(x) && part.dims(y) == part.dims(x))
        .then_some([x, y])
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    if let Some([x, y]) = dynamic(l.part, node) {
        lower_dynamic(l, node, x, y)?;
        return Ok(true);
    }
    let Some(product) = product(l.part, node) else {
        return Ok(false);
    };
    lower_product(l, node, product)?;
    Ok(true)
}

fn lower_dynamic(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<()> {
    let layout = l.layout(x);
    let input = l.read(x, layout, Storage::Real)?;
    let mut writes = vec![l.write(y, layout, Storage::Real)?];
    for (i, dtype) in [(1, DType::F32), (2, DType::U8)] {
        writes.push(match node.output(i) {
            Some(t) => l.write_rows(t)?,
            None => l.fresh(dtype, vec![1])?,
        });
    }
    let isa = l.isa;
    l.step(
        "quantise dynamically",
        &[input],
        &writes,
        None,
        Box::new(move |o| {
            let (scale, zero) = quantised::dynamic(isa, o.pool, o.read(0), o.write(0));
            o.write::<f32>(1)[0] = scale;
            o.write::<u8>(2)[0] = zero;
            Ok(())
        }),
    )
    .is(Class::Codes);
    Ok(())
}

/// The codes of plain bytes: themselves, or signed ones flipped.
fn codes(l: &mut Lowering<'_>, tensor: TensorIndex, layout: Layout) -> Result<ValueId> {
    let bytes = l.read(tensor, layout, Storage::Real)?;
    if l.dtype(tensor) == DType::U8 {
        return Ok(bytes);
    }
    let shape = l.value_shape(bytes).to_vec();
    let flipped = l.fresh(DType::U8, shape)?;
    quantise::flip(l, bytes, flipped);
    Ok(flipped)
}

fn lower_product(l: &mut Lowering<'_>, node: &Node, product: Product) -> Result<()> {
    let Product {
        x,
        zero,
        filter,
        bias,
        y,
        finish,
    } = product;
    let (mut params, layout) = extent(node, &filter, l.shape(x)?, l.shape(y)?)?;
    let (factor, to) = match finish {
        Finish::Sums => (vec![1.0; filter.outputs()], None),
        Finish::Codes(factor, zero) => (factor, Some(zero)),
    };
    let zeros = filter.zeros();
    let outputs = filter.outputs();
    // one more output, which sums the rows up
    let summed = usize::from(zeros.is_some());
    params.out_channels += summed;
    params.out_stride += summed;
    let plan = ConvPlan::new(l.isa, params).map_err(kernel_error)?;
    let bias = bias.map(|t| l.source(t)).transpose()?;
    let known = match zero {
        Zero::Known(zero) => zero,
        Zero::Computed(_) => 0,
    };
    let packer = plan.clone();
    let computed = matches!(zero, Zero::Computed(_));
    // the sums of the columns too, where the zero is computed
    let extra = if computed { outputs + summed } else { 0 };
    let factors = if zeros.is_some() {
        vec![1.0; outputs]
    } else {
        factor.clone()
    };
    let recipe = filter
        .named(Recipe::new("integers").by(l.isa.code()).by_params(&params))
        .by((known, computed, outputs, summed))
        .by(&factors)
        .of_any(bias.as_ref());
    let packed = l.packed(vec![plan.packed_len() + extra], recipe, move |packed| {
        let mut values = filter.values()?;
        let mut bias = match &bias {
            None => vec![0; outputs],
            Some(bias) => {
                let stored = bias.constant.as_ref().ok_or_else(missing)?;
                integers(DType::I32, outputs, stored.bytes())?
            }
        };
        let depth = values.len() / outputs;
        values.extend(std::iter::repeat_n(1, depth * summed));
        bias.extend(std::iter::repeat_n(0, summed));
        let mut factor = factors.clone();
        factor.extend(std::iter::repeat_n(1.0, summed));
        let (packed, columns) = packed.split_at_mut(packer.packed_len());
        packer.pack(
            &Weights {
                values: &values,
                input_zero: known,
                bias: &bias,
                factor: &factor,
                shift: &vec![0.0; outputs + summed],
                zeros: &[],
            },
            packed,
        );
        for (column, own) in columns.iter_mut().zip(values.chunks_exact(depth)) {
            let sum: i32 = own.iter().map(|&value| i32::from(value)).sum();
            *column = f32::from_bits(sum as u32);
        }
        Ok(())
    })?;
    let mut reads = vec![codes(l, x, layout)?, packed];
    let signed = l.dtype(x) == DType::I8;
    if let Zero::Computed(zero) = zero {
        reads.push(l.rows(zero)?);
    }
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let result = l.write(y, layout, Storage::Real)?;
    let target = if to.is_none() || l.dtype(y) == DType::U8 {
        result
    } else {
        let shape = l.value_shape(result).to_vec();
        l.fresh(DType::U8, shape)?
    };
    let mut writes = vec![target];
    if zeros.is_some() {
        let rows = l.value_shape(target).iter().product::<usize>() / outputs;
        writes.push(l.fresh(DType::I32, vec![rows, outputs + 1])?);
    }
    let (name, isa) = (node.op.name(), l.isa);
    let (class, products) = products(&plan);
    let scratch_at = writes.len();
    let run = move |o: &mut Operands<'_>| {
        let whole = o.read::<f32>(1);
        let packed = &whole[..plan.packed_len()];
        let zero = if computed {
            o.read::<u8>(2)[0] ^ if signed { 0x80 } else { 0 }
        } else {
            known
        };
        let columns = computed.then(|| (zero, &o.read::<i32>(1)[plan.packed_len()..]));
        let scratch = o.scratch(scratch_at);
        let Some(zeros) = &zeros else {
            match to {
                Some(to) => {
                    let output = Output::Codes(o.write(0), CodeRange::all(to));
                    plan.run(o.pool, packed, o.read(0), zero, None, output, scratch);
                }
                None => {
                    let sums = o.write::<i32>(0);
                    plan.run(o.pool, packed, o.read(0), zero, None, Output::Sums(sums), scratch);
                    if let Some((zero, columns)) = columns {
                        quantised::subtract_zero(o.pool, sums, columns, zero);
                    }
                }
            }
            return Ok(());
        };
        let sums = o.write::<i32>(1);
        plan.run(o.pool, packed, o.read(0), zero, None, Output::Sums(sums), scratch);
        let zeros = quantised::Zeros {
            weights: zeros,
            rows: columns,
        };
        match to {
            Some(to) => zeros.codes(isa, o.pool, sums, &factor, to, o.write(0)),
            None => zeros.sums(isa, o.pool, sums, o.write(0)),
        }
        Ok(())
    };
    l.step(name, &reads, &writes, scratch, Box::new(run))
        .does(class, products);
    if target != result {
        quantise::flip(l, target, result);
    }
    Ok(())
}

fn missing() -> Error {
    Error::bad_argument("a bias that is no constant")
}
