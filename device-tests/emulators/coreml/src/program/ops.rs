//! The ops of a program, as ONNX ops.
//!
//! Names, arguments and meanings are those of the Model Intermediate Language as Apple documents it.

use polychip_ops::{Attr, Attributes, DType, Op};

use super::args::Args;
use super::maker::{Known, Maker};
use super::quantised;
use crate::package::{Operation, Type};

/// Ops of one operand and no other argument, of floats.
fn plain(kind: &str) -> Option<Op> {
    Some(match kind {
        "abs" => Op::Abs,
        "acos" => Op::Acos,
        "asin" => Op::Asin,
        "atan" => Op::Atan,
        "atanh" => Op::Atanh,
        "ceil" => Op::Ceil,
        "cos" => Op::Cos,
        "cosh" => Op::Cosh,
        "erf" => Op::Erf,
        "exp" => Op::Exp,
        "floor" => Op::Floor,
        "identity" => Op::Identity,
        "relu" => Op::Relu,
        "round" => Op::Round,
        "sigmoid" => Op::Sigmoid,
        "sign" => Op::Sign,
        "silu" => Op::Swish,
        "sin" => Op::Sin,
        "sinh" => Op::Sinh,
        "softplus" => Op::Softplus,
        "softsign" => Op::Softsign,
        "sqrt" => Op::Sqrt,
        "tan" => Op::Tan,
        "tanh" => Op::Tanh,
        _ => return None,
    })
}

fn binary(kind: &str) -> Option<Op> {
    Some(match kind {
        "add" => Op::Add,
        "sub" => Op::Sub,
        "mul" => Op::Mul,
        "real_div" => Op::Div,
        "pow" => Op::Pow,
        "maximum" => Op::Max,
        "minimum" => Op::Min,
        _ => return None,
    })
}

fn reduction(kind: &str) -> Option<Op> {
    Some(match kind {
        "reduce_max" => Op::ReduceMax,
        "reduce_min" => Op::ReduceMin,
        "reduce_mean" => Op::ReduceMean,
        "reduce_sum" => Op::ReduceSum,
        "reduce_prod" => Op::ReduceProd,
        "reduce_sum_square" => Op::ReduceSumSquare,
        "reduce_l1_norm" => Op::ReduceL1,
        "reduce_l2_norm" => Op::ReduceL2,
        "reduce_log_sum" => Op::ReduceLogSum,
        "reduce_log_sum_exp" => Op::ReduceLogSumExp,
        _ => return None,
    })
}

/// Adds an operation.
pub(super) fn operation(maker: &mut Maker<'_>, operation: &Operation) -> Result<(), String> {
    let main = maker.main;
    let args = Args::of(operation, main);
    let kind = &*operation.kind;
    let ty = operation
        .outputs
        .first()
        .map(|(_, of)| of.ty)
        .ok_or("no output")?;
    if operation.outputs.iter().any(|(_, of)| of.ty != ty) {
        return Err("outputs of several types".to_owned());
    }
    if quantised::is(kind) {
        quantised::operation(maker, operation, &args, ty)?;
        return args.finish();
    }
    // what an operation gives is of the type of its operand; only a cast's is not
    let operand = ["x", "values"]
        .into_iter()
        .find(|name| args.is_given(name))
        .ok_or("x is not given")?;
    for name in args.names(operand) {
        let given = maker.named(name)?.dtype;
        if kind != "cast" && Some(given) != ty.dtype() {
            return Err(format!("declared of {ty:?}, and {operand} is of {given}"));
        }
    }
    if !matches!(ty, Type::F16 | Type::F32) && !takes_integers(kind) {
        return Err(format!("it does not compute {ty:?}"));
    }
    let one = Attributes::new();
    if let Some(op) = plain(kind) {
        let x = maker.arg(&args, "x")?;
        maker.finish(op, one, &[Some(&x)], operation)?;
    } else if let Some(op) = binary(kind) {
        let (x, y) = (maker.arg(&args, "x")?, maker.arg(&args, "y")?);
        if x.dtype != y.dtype {
            return Err(format!("x is of {} and y of {}", x.dtype, y.dtype));
        }
        maker.finish(op, one, &[Some(&x), Some(&y)], operation)?;
    } else if let Some(op) = reduction(kind) {
        let x = maker.arg(&args, "x")?;
        let axes = maker.numbers(&args.ints("axes")?)?;
        let attributes = one.with_int(Attr::Keepdims, args.truth("keep_dims")?.into());
        maker.finish(op, attributes, &[Some(&x), Some(&axes)], operation)?;
    } else {
        other(maker, operation, &args, ty)?;
    }
    args.finish()
}

fn takes_integers(kind: &str) -> bool {
    matches!(
        kind,
        "add"
            | "sub"
            | "mul"
            | "maximum"
            | "minimum"
            | "cast"
            | "identity"
            | "reshape"
            | "transpose"
            | "concat"
            | "split"
            | "slice_by_index"
            | "tile"
            | "gather"
    )
}

fn other(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>, ty: Type) -> Result<(), String> {
    let one = Attributes::new();
    match &*operation.kind {
        "conv" | "conv_transpose" => window(maker, operation, args),
        "max_pool" | "avg_pool" => pool(maker, operation, args),
        "linear" => {
            let (x, weight) = (maker.arg(args, "x")?, maker.arg(args, "weight")?);
            if weight.dims.len() != 2 || !(1..=3).contains(&x.dims.len()) {
                return Err(format!("x of {:?}, weight of {:?}", x.dims, weight.dims));
            }
            let transposed = maker.step(
                Op::Transpose,
                one.clone().with_ints(Attr::Perm, &[1, 0]),
                &[&weight],
            )?;
            if !args.is_given("bias") {
                return maker.finish(Op::MatMul, one, &[Some(&x), Some(&transposed)], operation);
            }
            let product = maker.step(Op::MatMul, one.clone(), &[&x, &transposed])?;
            let bias = maker.arg(args, "bias")?;
            maker.finish(Op::Add, one, &[Some(&product), Some(&bias)], operation)
        }
        "matmul" => {
            let mut operands = Vec::new();
            for (name, turns) in [("x", "transpose_x"), ("y", "transpose_y")] {
                let mut operand = maker.arg(args, name)?;
                if args.truth(turns)? {
                    let rank = operand.dims.len();
                    let mut perm: Vec<i64> = (0..rank as i64).collect();
                    perm.swap(rank - 1, rank - 2);
                    operand = maker.step(
                        Op::Transpose,
                        one.clone().with_ints(Attr::Perm, &perm),
                        &[&operand],
                    )?;
                }
                operands.push(operand);
            }
            maker.finish(
                Op::MatMul,
                one,
                &[Some(&operands[0]), Some(&operands[1])],
                operation,
            )
        }
        "cast" => {
            let x = maker.arg(args, "x")?;
            let said = match args.text("dtype")? {
                "fp16" => Type::F16,
                "fp32" => Type::F32,
                "int32" => Type::I32,
                "int8" => Type::I8,
                "uint8" => Type::U8,
                other => return Err(format!("dtype {other:?}")),
            };
            if said != ty {
                return Err(format!("declared of {ty:?}, and cast to {said:?}"));
            }
            match (x.dtype, ty) {
                (DType::I32, Type::I32) => maker.finish(Op::Identity, one, &[Some(&x)], operation),
                (DType::I8 | DType::U8, _) => cast(maker, operation, &x, DType::F32),
                (_, Type::I8) => cast(maker, operation, &x, DType::I8),
                (_, Type::U8) => cast(maker, operation, &x, DType::U8),
                (_, Type::I32) => cast(maker, operation, &x, DType::I32),
                (DType::I32, _) => cast(maker, operation, &x, DType::F32),
                _ => maker.finish(Op::Identity, one, &[Some(&x)], operation),
            }
        }
        "log" => {
            let x = maker.arg(args, "x")?;
            let epsilon = args.real("epsilon", ty)?;
            let epsilon = maker.reals(&[epsilon], true)?;
            let sum = maker.step(Op::Add, one.clone(), &[&x, &epsilon])?;
            maker.finish(Op::Log, one, &[Some(&sum)], operation)
        }
        "leaky_relu" | "elu" => {
            let x = maker.arg(args, "x")?;
            let attributes = one.with_float(Attr::Alpha, args.real("alpha", ty)?);
            let op = if operation.kind == "elu" {
                Op::Elu
            } else {
                Op::LeakyRelu
            };
            maker.finish(op, attributes, &[Some(&x)], operation)
        }
        "sigmoid_hard" => {
            let x = maker.arg(args, "x")?;
            let attributes = one
                .with_float(Attr::Alpha, args.real("alpha", ty)?)
                .with_float(Attr::Beta, args.real("beta", ty)?);
            maker.finish(Op::HardSigmoid, attributes, &[Some(&x)], operation)
        }
        "gelu" => {
            let x = maker.arg(args, "x")?;
            let approximate = match args.text("mode")? {
                "EXACT" => "none",
                "TANH_APPROXIMATION" => "tanh",
                other => return Err(format!("mode {other:?}")),
            };
            maker.finish(
                Op::Gelu,
                one.with_str(Attr::Approximate, approximate),
                &[Some(&x)],
                operation,
            )
        }
        "clip" => {
            let x = maker.arg(args, "x")?;
            let (low, high) = (args.real("alpha", ty)?, args.real("beta", ty)?);
            let (low, high) = (maker.reals(&[low], true)?, maker.reals(&[high], true)?);
            maker.finish(Op::Clip, one, &[Some(&x), Some(&low), Some(&high)], operation)
        }
        "prelu" => {
            let x = maker.arg(args, "x")?;
            let [name] = args.names("alpha") else {
                return Err("alpha is not given".to_owned());
            };
            let mut dims = args.constant("alpha")?.of.dims.clone();
            if dims.len() != 1 || x.dims.len() != 4 {
                return Err(format!("alpha of {dims:?} for {:?}", x.dims));
            }
            dims.resize(x.dims.len() - 1, 1);
            let slope = maker.constant(name, dims)?;
            maker.finish(Op::PRelu, one, &[Some(&x), Some(&slope)], operation)
        }
        "softmax" => {
            let x = maker.arg(args, "x")?;
            let attributes = one.with_int(Attr::Axis, args.int("axis")?);
            maker.finish(Op::Softmax, attributes, &[Some(&x)], operation)
        }
        "layer_norm" => layer_norm(maker, operation, args, ty),
        "instance_norm" | "batch_norm" => channel_norm(maker, operation, args, ty),
        _ => movement(maker, operation, args, ty),
    }
}

fn cast(maker: &mut Maker<'_>, operation: &Operation, x: &Known, to: DType) -> Result<(), String> {
    let attributes = Attributes::new().with_int(Attr::To, to.code().into());
    maker.finish(Op::Cast, attributes, &[Some(x)], operation)
}

/// Pads in ONNX order: before each axis, then after each.
fn pads(args: &Args<'_>, axes: usize) -> Result<Vec<i64>, String> {
    if args.text("pad_type")? != "custom" {
        return Err("a pad_type that is not executed here".to_owned());
    }
    let pairs = args.ints("pad")?;
    if pairs.len() != 2 * axes || pairs.iter().any(|&pad| pad < 0) {
        return Err(format!("pad {pairs:?} for {axes} axes"));
    }
    let side = |side| pairs.iter().skip(side).step_by(2).copied();
    Ok(side(0).chain(side(1)).collect())
}

fn window(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>) -> Result<(), String> {
    let (x, weight) = (maker.arg(args, "x")?, maker.arg(args, "weight")?);
    args.known("weight")?;
    if !(3..=5).contains(&x.dims.len()) {
        return Err(format!("x of {:?}", x.dims));
    }
    let axes = x.dims.len() - 2;
    let attributes = Attributes::new()
        .with_ints(Attr::Strides, &args.ints("strides")?)
        .with_ints(Attr::Dilations, &args.ints("dilations")?)
        .with_ints(Attr::Pads, &pads(args, axes)?)
        .with_int(Attr::Group, args.int("groups")?);
    let op = if operation.kind == "conv" {
        Op::Conv
    } else {
        Op::ConvTranspose
    };
    let bias = args
        .is_given("bias")
        .then(|| maker.arg(args, "bias"))
        .transpose()?;
    let mut inputs = vec![Some(&x), Some(&weight)];
    inputs.extend(bias.as_ref().map(Some));
    maker.finish(op, attributes, &inputs, operation)
}

fn pool(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>) -> Result<(), String> {
    let x = maker.arg(args, "x")?;
    if !(3..=5).contains(&x.dims.len()) {
        return Err(format!("x of {:?}", x.dims));
    }
    let kernel = args.ints("kernel_sizes")?;
    let mut attributes = Attributes::new()
        .with_ints(Attr::KernelShape, &kernel)
        .with_ints(Attr::Strides, &args.ints("strides")?)
        .with_ints(Attr::Pads, &pads(args, kernel.len())?)
        .with_int(Attr::CeilMode, args.truth("ceil_mode")?.into());
    let mut op = Op::MaxPool;
    if operation.kind == "avg_pool" {
        op = Op::AveragePool;
        let counts = !args.truth("exclude_padding_from_average")?;
        attributes = attributes.with_int(Attr::CountIncludePad, counts.into());
    }
    maker.finish(op, attributes, &[Some(&x)], operation)
}

fn layer_norm(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>, ty: Type) -> Result<(), String> {
    let x = maker.arg(args, "x")?;
    let axes = args.ints("axes")?;
    let first = x.dims.len() as i64 - axes.len() as i64;
    if axes.is_empty() || !axes.iter().copied().eq(first..x.dims.len() as i64) {
        return Err(format!("axes {axes:?} of {:?}", x.dims));
    }
    let epsilon = args.real("epsilon", ty)?;
    let attributes = Attributes::new()
        .with_int(Attr::Axis, first)
        .with_float(Attr::Epsilon, epsilon);
    let scale = if args.is_given("gamma") {
        maker.arg(args, "gamma")?
    } else {
        maker.reals(&[1.0], false)?
    };
    let mut inputs = vec![Some(&scale)];
    let shift = args
        .is_given("beta")
        .then(|| maker.arg(args, "beta"))
        .transpose()?;
    inputs.insert(0, Some(&x));
    inputs.extend(shift.as_ref().map(Some));
    for learned in inputs[1..].iter().flatten().filter(|learned| learned.dims != [1]) {
        if learned.dims != x.dims[first as usize..] {
            return Err(format!(
                "gamma or beta of {:?} for axes {axes:?} of {:?}",
                learned.dims, x.dims
            ));
        }
    }
    maker.finish(Op::LayerNormalization, attributes, &inputs, operation)
}

fn channel_norm(
    maker: &mut Maker<'_>,
    operation: &Operation,
    args: &Args<'_>,
    ty: Type,
) -> Result<(), String> {
    let x = maker.arg(args, "x")?;
    let attributes = Attributes::new().with_float(Attr::Epsilon, args.real("epsilon", ty)?);
    let (gamma, beta) = (maker.arg(args, "gamma")?, maker.arg(args, "beta")?);
    if operation.kind == "instance_norm" {
        return maker.finish(
            Op::InstanceNormalization,
            attributes,
            &[Some(&x), Some(&gamma), Some(&beta)],
            operation,
        );
    }
    let (mean, variance) = (maker.arg(args, "mean")?, maker.arg(args, "variance")?);
    let inputs = [&x, &gamma, &beta, &mean, &variance].map(Some);
    maker.finish(Op::BatchNormalization, attributes, &inputs, operation)
}

fn movement(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>, ty: Type) -> Result<(), String> {
    let one = Attributes::new();
    match &*operation.kind {
        "concat" => {
            let mut values = Vec::new();
            for name in args.names("values") {
                values.push(maker.named(name)?);
            }
            if args.truth("interleave")? {
                return Err("interleave is not executed here".to_owned());
            }
            let attributes = one.with_int(Attr::Axis, args.int("axis")?);
            let inputs: Vec<Option<&Known>> = values.iter().map(Some).collect();
            maker.finish(Op::Concat, attributes, &inputs, operation)
        }
        "reshape" => {
            let (x, shape) = (maker.arg(args, "x")?, maker.numbers(&args.ints("shape")?)?);
            maker.finish(Op::Reshape, one, &[Some(&x), Some(&shape)], operation)
        }
        "transpose" => {
            let x = maker.arg(args, "x")?;
            let attributes = one.with_ints(Attr::Perm, &args.ints("perm")?);
            maker.finish(Op::Transpose, attributes, &[Some(&x)], operation)
        }
        "split" => {
            let (x, sizes) = (maker.arg(args, "x")?, maker.numbers(&args.ints("split_sizes")?)?);
            let attributes = one.with_int(Attr::Axis, args.int("axis")?);
            maker.finish(Op::Split, attributes, &[Some(&x), Some(&sizes)], operation)
        }
        "slice_by_index" => {
            let x = maker.arg(args, "x")?;
            let (begin, end, stride) = (args.ints("begin")?, args.ints("end")?, args.ints("stride")?);
            if [begin.len(), end.len(), stride.len()] != [x.dims.len(); 3]
                || stride.iter().any(|&stride| stride < 1)
            {
                return Err(format!("begin {begin:?}, end {end:?}, stride {stride:?}"));
            }
            let axes: Vec<i64> = (0..x.dims.len() as i64).collect();
            let (begin, end) = (maker.numbers(&begin)?, maker.numbers(&end)?);
            let (axes, stride) = (maker.numbers(&axes)?, maker.numbers(&stride)?);
            let inputs = [&x, &begin, &end, &axes, &stride].map(Some);
            maker.finish(Op::Slice, one, &inputs, operation)
        }
        "pad" => pad(maker, operation, args, ty),
        "tile" => {
            let (x, reps) = (maker.arg(args, "x")?, maker.numbers(&args.ints("reps")?)?);
            maker.finish(Op::Tile, one, &[Some(&x), Some(&reps)], operation)
        }
        "gather" => {
            let (x, indices) = (maker.arg(args, "x")?, maker.arg(args, "indices")?);
            args.truth("validate_indices")?;
            if args.int("batch_dims")? != 0 || indices.dtype != DType::I32 {
                return Err("batch_dims, or indices that are not of i32".to_owned());
            }
            let attributes = one.with_int(Attr::Axis, args.int("axis")?);
            maker.finish(Op::Gather, attributes, &[Some(&x), Some(&indices)], operation)
        }
        "upsample_nearest_neighbor" => {
            let x = maker.arg(args, "x")?;
            let (height, width) = (args.int("scale_factor_height")?, args.int("scale_factor_width")?);
            let scales = maker.reals(&[1.0, 1.0, height as f32, width as f32], false)?;
            let attributes = one
                .with_str(Attr::Mode, "nearest")
                .with_str(Attr::CoordinateTransformationMode, "asymmetric")
                .with_str(Attr::NearestMode, "floor");
            maker.finish(
                Op::Resize,
                attributes,
                &[Some(&x), None, Some(&scales)],
                operation,
            )
        }
        "depth_to_space" | "pixel_shuffle" | "space_to_depth" => {
            let x = maker.arg(args, "x")?;
            let (op, size, mode) = match &*operation.kind {
                "pixel_shuffle" => (Op::DepthToSpace, "upscale_factor", "CRD"),
                "depth_to_space" => (Op::DepthToSpace, "block_size", "DCR"),
                _ => (Op::SpaceToDepth, "block_size", "DCR"),
            };
            let attributes = one
                .with_int(Attr::Blocksize, args.int(size)?)
                .with_str(Attr::Mode, mode);
            maker.finish(op, attributes, &[Some(&x)], operation)
        }
        _ => Err("no such op".to_owned()),
    }
}

fn pad(maker: &mut Maker<'_>, operation: &Operation, args: &Args<'_>, ty: Type) -> Result<(), String> {
    let x = maker.arg(args, "x")?;
    let pairs = args.ints("pad")?;
    let axes = pairs.len() / 2;
    let mode = args.text("mode")?;
    if !pairs.len().is_multiple_of(2) || axes > x.dims.len() || (mode != "constant" && axes > 2) {
        return Err(format!("pad {pairs:?} of {:?} by {mode}", x.dims));
    }
    let attributes = Attributes::new().with_str(
        Attr::Mode,
        match mode {
            "constant" => "constant",
            "reflect" => "reflect",
            "replicate" => "edge",
            other => return Err(format!("mode {other:?}")),
        },
    );
    let value = args.real("constant_val", ty)?;
    let value = maker.reals(&[value], true)?;
    // the last axes, each before and after
    let front = vec![0; x.dims.len() - axes];
    let side = |side| {
        front
            .iter()
            .copied()
            .chain(pairs.iter().skip(side).step_by(2).copied())
    };
    let amounts: Vec<i64> = side(0).chain(side(1)).collect();
    let amounts = maker.numbers(&amounts)?;
    maker.finish(
        Op::Pad,
        attributes,
        &[Some(&x), Some(&amounts), Some(&value)],
        operation,
    )
}
