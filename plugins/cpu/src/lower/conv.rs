//! Convolutions: channels last, packed weights, everything behind them in the epilogue; computed weights are packed in each
//! run, and stand alone.

use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan};
use polychip_cpu_kernels::gemm::Elements;
use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::Conv;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error, shape_error, storage_of};
use super::encoding::stands_for_f32;
use super::epilogue::FusedEpilogue;
use super::in_place::InPlaceConcat;
use super::window::window;
use crate::part::{Node, Part, Tensor, TensorIndex};
use crate::step::ValueId;
use crate::weights::Recipe;
use crate::work::Class;

/// Whether these kernels cover a node.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    let covered = || -> Option<bool> {
        let (x, w, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
        let dims = part.dims(x)?;
        let weights = part.dims(w)?;
        let constant = |t: usize| part.tensors[t].is_constant() && stands_for_f32(part, t);
        Some(
            node.op == Op::Conv
                && part.dims(y).is_some()
                && stands_for_f32(part, x)
                && stands_for_f32(part, y)
                && constant(w)
                && node.input(2).is_none_or(constant)
                && (3..=5).contains(&dims.len())
                && weights.len() == dims.len(),
        )
    };
    covered().unwrap_or(false)
}

/// Lowers a convolution with its epilogue.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node, fused: &FusedEpilogue) -> Result<bool> {
    let part = l.part;
    if !covers(part, node) {
        return Ok(false);
    }
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let mut params = extent(l, node, [x, w, y])?;
    let target = fused.output.unwrap_or(y);
    let elements = match fused.residual {
        Some(residual) => l.elements(&[x, y, target, residual]),
        None => l.elements(&[x, y, target]),
    };
    let storage = storage_of(elements);
    // what a kernel copies anyway it reads as it is
    let plan = ConvPlan::of(elements, l.isa, params).map_err(kernel_error)?;
    let input_storage = if plan.reads_f32() && !l.is_bf16(x) {
        Storage::Real
    } else {
        storage
    };
    // other readers of the image want it channels last
    let planar = plan.planar().is_some() && !l.has_channels(x) && part.uses()[x] == 1;
    let (mut input, mut in_stride) = if planar {
        (l.read(x, Layout::RowMajor, input_storage)?, params.in_channels)
    } else {
        l.image(x, input_storage)?
    };
    let mut residual = None;
    let mut beside = None;
    let mut place = None;
    if let Some(concat) = l.concat_of(target, storage) {
        let whole = l.begin_concat(concat, storage)?;
        let fits = match fused.residual {
            None => true,
            Some(tensor) => {
                let (value, stride) = l.image(tensor, storage)?;
                beside = distance(l, value, whole, concat).filter(|&first| first >= params.out_channels);
                residual = Some(value);
                stride == concat.channels && (beside.is_some() || !l.are_together(value, whole))
            }
        };
        if fits {
            params.out_stride = concat.channels;
            if l.are_together(input, whole) && !planar {
                (input, in_stride) = (
                    l.read(x, Layout::ChannelsLast, input_storage)?,
                    params.in_channels,
                );
            }
            place = Some(l.write_in_place(target, concat, storage)?);
        }
    }
    if place.is_none() {
        beside = None;
        residual = match fused.residual {
            Some(residual) => Some(l.read(residual, Layout::ChannelsLast, storage)?),
            None => None,
        };
    }
    params.in_stride = in_stride;
    let plan = if storage == Storage::Bf16 {
        ConvPlan::of(elements, l.isa, params)
    } else {
        let algorithm = l.choices.algorithm(l.algorithms.len(), l.isa, l.pool, &params)?;
        // codes are small numbers
        l.algorithms.push(algorithm.code() as u8);
        ConvPlan::with_algorithm(l.isa, params, algorithm)
    };
    let plan = plan.map_err(kernel_error)?;
    let plan = plan.planar().filter(|_| planar).unwrap_or(plan);

    let (kernel, bias) = (
        l.source(w)?,
        node.input(2).or(fused.bias).map(|b| l.source(b)).transpose()?,
    );
    let packer = plan.clone();
    let recipe = Recipe::new("conv")
        .by((elements, l.isa.code(), plan.algorithm(), planar))
        .by_params(&params)
        .of(&kernel)
        .of_any(bias.as_ref());
    let pack = move |target: &mut [f32]| {
        let bias = bias.as_ref().map(Tensor::reals).transpose()?;
        packer.pack(&kernel.reals()?, bias.as_deref(), target);
        Ok(())
    };
    let packed = match elements {
        Elements::F32 => l.packed_floats(vec![plan.packed_len()], recipe, pack)?,
        Elements::Bf16 => l.packed(vec![plan.packed_len()], recipe, pack)?,
    };
    let mut reads = vec![input, packed];
    let output = match (place, beside, residual) {
        // the residual's first channel is where what is written begins
        (Some(_), Some(_), Some(residual)) => residual,
        (Some(place), _, _) => place,
        (None, _, _) => l.write(target, Layout::ChannelsLast, storage)?,
    };
    if beside.is_none() {
        reads.extend(residual);
    }
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let epilogue = fused.epilogue();
    let has_residual = fused.residual.is_some();
    let class = class_of(&plan, storage);
    // the short sums of groups leave most of a tile's time to its ends
    let products = plan.multiply_adds()
        * if params.groups > 1 && class == Class::Product {
            3
        } else {
            1
        };
    if let Some(first) = beside {
        l.step(
            "conv",
            &reads,
            &[output],
            scratch,
            Box::new(move |o| {
                let (image, scratch) = (o.slice_mut(0), o.scratch(1));
                plan.run_beside(o.pool, o.read(1), o.slice(0), epilogue, image, first, scratch);
                Ok(())
            }),
        )
        .does(class, products);
        return Ok(true);
    }
    l.step(
        "conv",
        &reads,
        &[output],
        scratch,
        Box::new(move |o| {
            let residual = has_residual.then(|| o.slice(2));
            let (y, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(o.pool, o.read(1), o.slice(0), residual, epilogue, y, scratch);
            Ok(())
        }),
    )
    .does(class, products);
    Ok(true)
}

/// The convolution that a node of these operands is.
fn extent(l: &Lowering<'_>, node: &Node, [x, w, y]: [TensorIndex; 3]) -> Result<ConvParams> {
    let (dims, weights, out) = (l.shape(x)?, l.shape(w)?, l.shape(y)?);
    let conv: Conv = node.typed().map_err(shape_error)?;
    let groups = conv.groups.get();
    let shape = conv.window.over(&weights[2..]).map_err(shape_error)?;
    let placement = shape.resolve(&dims[2..]).map_err(shape_error)?;
    if placement.output[..] != out[2..]
        || out[1] != weights[0]
        || dims[1] != weights[1].saturating_mul(groups)
    {
        return Err(Error::bad_argument(format!(
            "a convolution of {dims:?} with {weights:?} in {groups} groups does not give {out:?}"
        )));
    }
    Ok(ConvParams::dense(
        dims[0],
        dims[1],
        weights[0],
        groups,
        window(&shape, &dims[2..], &placement)?,
    ))
}

/// Lowers a convolution whose weights or bias a node computes: they are packed in every run.
pub(super) fn lower_computed(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let rank = l.shape(x)?.len();
    if node.op != Op::Conv || !l.all_f32(node) || !(3..=5).contains(&rank) || l.shape(w)?.len() != rank {
        return Ok(false);
    }
    let mut params = extent(l, node, [x, w, y])?;
    let (input, in_stride) = l.image(x, Storage::Real)?;
    params.in_stride = in_stride;
    let plan = ConvPlan::with_algorithm(l.isa, params, Algorithm::Direct).map_err(kernel_error)?;
    let mut sources = vec![l.rows(w)?];
    if let Some(bias) = node.input(2) {
        sources.push(l.rows(bias)?);
    }
    let packed = l.fresh(DType::F32, vec![plan.packed_len()])?;
    let (packer, has_bias) = (plan.clone(), sources.len() > 1);
    l.step(
        "pack",
        &sources,
        &[packed],
        None,
        Box::new(move |o| {
            let packed = o.write::<f32>(0);
            packed.fill(0.0);
            packer.pack(o.read(0), has_bias.then(|| o.read(1)), packed);
            Ok(())
        }),
    )
    .is(Class::Permute);
    let output = l.write(y, Layout::ChannelsLast, Storage::Real)?;
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let (class, products) = (class_of(&plan, Storage::Real), plan.multiply_adds());
    l.step(
        "conv",
        &[input, packed],
        &[output],
        scratch,
        Box::new(move |o| {
            let (y, scratch) = (o.slice_mut(0), o.scratch(1));
            plan.run(
                o.pool,
                o.read(1),
                o.slice(0),
                None,
                FusedEpilogue::NONE.epilogue(),
                y,
                scratch,
            );
            Ok(())
        }),
    )
    .does(class, products);
    Ok(true)
}

/// The class of a convolution's loops.
pub(super) fn class_of(plan: &ConvPlan, storage: Storage) -> Class {
    match (plan.is_depthwise(), plan.algorithm()) {
        (true, _) => Class::Depthwise,
        (_, Algorithm::Direct) if storage == Storage::Bf16 => Class::ProductBf16,
        (_, Algorithm::Direct) => Class::Product,
        _ => Class::Winograd,
    }
}

/// How many elements a place in a concatenation lies behind a value in the same memory.
fn distance(l: &Lowering<'_>, value: ValueId, whole: ValueId, place: InPlaceConcat) -> Option<usize> {
    let offset = |value: ValueId| l.values[value.0 as usize].offset;
    let width = l.width(whole);
    let bytes = (offset(whole) + place.first * width).checked_sub(offset(value))?;
    l.are_together(value, whole).then_some(bytes / width)
}
