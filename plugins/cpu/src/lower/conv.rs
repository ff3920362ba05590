//! Convolutions with constant weights: channels last, packed weights, everything behind them in the epilogue.

use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::{Epilogue, Residual};
use polychip_ops::{Op, geometry};
use polychip_sdk::{Error, Result};

use super::convert::stands_for_f32;
use super::fuse::Tail;
use super::{Form, Lowering, kernel_error, shape_error};
use crate::part::{Node, Part, Tensor};
use crate::work::Class;

/// Whether this family covers a node.
pub(crate) fn covers(part: &Part, node: &Node) -> bool {
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

/// A window of 1 to 3 spatial dimensions, extended in front.
pub(super) fn window(
    window: &geometry::Window,
    input: &[usize],
    placement: &geometry::Placement,
) -> Result<Window> {
    let extend = |values: &[usize], fill: usize| -> Result<[usize; 3]> {
        let mut all = [fill; 3];
        let first = 3usize
            .checked_sub(values.len())
            .ok_or_else(|| Error::unsupported(format!("{} spatial dimensions", values.len())))?;
        all[first..].copy_from_slice(values);
        Ok(all)
    };
    Ok(Window {
        input: extend(input, 1)?,
        output: extend(&placement.output, 1)?,
        kernel: extend(&window.kernel, 1)?,
        strides: extend(&window.strides, 1)?,
        dilations: extend(&window.dilations, 1)?,
        pads: extend(&placement.begin, 0)?,
    })
}

/// Lowers a convolution with its tail.
pub(crate) fn lower(l: &mut Lowering<'_>, node: &Node, tail: &Tail) -> Result<bool> {
    let part = l.part;
    if !covers(part, node) {
        return Ok(false);
    }
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Ok(false);
    };
    let (dims, weights, out) = (l.shape(x)?, l.shape(w)?, l.shape(y)?);
    let groups = usize::try_from(node.attributes.int(polychip_ops::Attr::Group).unwrap_or(1))
        .map_err(|_| Error::unsupported("a negative group count"))?;
    let shape = geometry::Window::new(node.op, &node.attributes, &weights[2..]).map_err(shape_error)?;
    let placement = shape.resolve(&dims[2..]).map_err(shape_error)?;
    if placement.output[..] != out[2..]
        || out[1] != weights[0]
        || dims[1] != weights[1].saturating_mul(groups)
    {
        return Err(Error::bad_argument(format!(
            "a convolution of {dims:?} with {weights:?} in {groups} groups does not give {out:?}"
        )));
    }
    let mut params = ConvParams::dense(
        dims[0],
        dims[1],
        weights[0],
        groups,
        window(&shape, &dims[2..], &placement)?,
    );
    let target = tail.output.unwrap_or(y);
    let elements = match tail.residual {
        Some(residual) => l.elements(&[x, y, target, residual]),
        None => l.elements(&[x, y, target]),
    };
    let brief = elements == Elements::Bf16;
    // what a kernel copies anyway it reads as it is
    let plan = ConvPlan::of(elements, l.isa, params).map_err(kernel_error)?;
    let as_it_is = plan.reads_f32() && !l.is_brief(x);
    // whoever else reads the image wants it channels last
    let planar = plan.planar().is_some() && !l.has_channels(x) && part.uses()[x] == 1;
    let (mut input, mut in_stride) = if planar {
        (l.form_as(x, Form::Rows, brief && !as_it_is)?, params.in_channels)
    } else {
        l.image(x, brief && !as_it_is)?
    };
    let join = l.joins[target]
        .filter(|_| part.plain_f32(target))
        .filter(|join| super::concat::admits(l, *join, brief));
    let mut residual = None;
    let mut beside = None;
    let mut place = None;
    if let Some(join) = join {
        let whole = super::concat::begin(l, join, brief)?;
        let fits = match tail.residual {
            None => true,
            Some(tensor) => {
                let (value, stride) = l.image(tensor, brief)?;
                beside = super::concat::distance(l, value, whole, join, brief)
                    .filter(|&first| first >= params.out_channels);
                residual = Some(value);
                stride == join.channels && (beside.is_some() || !l.are_together(value, whole))
            }
        };
        if fits {
            params.out_stride = join.channels;
            if l.are_together(input, whole) && !planar {
                (input, in_stride) = (
                    l.form_as(x, Form::Channels, brief && !as_it_is)?,
                    params.in_channels,
                );
            }
            place = Some(super::concat::place_of(l, target, join, brief)?);
        }
    }
    if place.is_none() {
        beside = None;
        residual = match tail.residual {
            Some(residual) => Some(l.form_as(residual, Form::Channels, brief)?),
            None => None,
        };
    }
    params.in_stride = in_stride;
    let plan = if brief {
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
        node.input(2).or(tail.bias).map(|b| l.source(b)).transpose()?,
    );
    let packer = plan.clone();
    let packed = l.packed(vec![plan.packed_len()], move |target| {
        let bias = bias.as_ref().map(Tensor::reals).transpose()?;
        packer.pack(&kernel.reals()?, bias.as_deref(), target);
        Ok(())
    })?;
    let mut reads = vec![input, packed];
    let output = match (place, beside, residual) {
        // the residual's first channel is where what is written begins
        (Some(_), Some(_), Some(residual)) => residual,
        (Some(place), _, _) => place,
        (None, _, _) => l.result_as(target, Form::Channels, brief)?,
    };
    if beside.is_none() {
        reads.extend(residual);
    }
    let scratch = l.scratch(plan.scratch_len(l.pool))?;
    let epilogue = Epilogue {
        activation: tail.activation,
        residual: if tail.after {
            Residual::AfterActivation
        } else {
            Residual::BeforeActivation
        },
    };
    let has_residual = tail.residual.is_some();
    let class = match (plan.is_depthwise(), plan.algorithm()) {
        (true, _) => Class::Depthwise,
        (_, Algorithm::Direct) if brief => Class::ProductBf16,
        (_, Algorithm::Direct) => Class::Product,
        _ => Class::Winograd,
    };
    // the short sums of groups leave most of a tile's time to its ends
    let products = plan.multiply_adds()
        * if groups > 1 && class == Class::Product {
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
