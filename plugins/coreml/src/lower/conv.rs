//! Windows over images: convolutions, pools, and images of another size.
//!
//! Invariant: padding is always given in numbers, and only as much behind an image as its last window reaches.

use polychip_lowering::{Node, Outcome, Refusal, TensorIndex};
use polychip_ops::geometry::{Placement, Window};
use polychip_ops::operator::{
    BlockMode, Blocks, Conv, ConvTranspose, Coordinates, Interpolation, Resize, Rounding,
};
use polychip_ops::{Op, Operator};

use super::builder::{Args, Lower, ints};
use crate::program::{Arg, ValueId};

/// Padding as Core ML takes it: before and after, axis by axis.
fn pairs(begin: &[usize], end: &[usize]) -> Arg {
    let pairs = begin
        .iter()
        .zip(end)
        .flat_map(|(&begin, &end)| [begin as i32, end as i32]);
    Arg::Ints(pairs.collect())
}

/// What the last window of each axis needs behind an image.
fn behind(window: &Window, placement: &Placement, spatial: &[usize]) -> Vec<usize> {
    let needed = |axis: usize| {
        let extent = (window.kernel[axis] - 1) * window.dilations[axis] + 1;
        let reach = (placement.output[axis].max(1) - 1) * window.strides[axis] + extent;
        reach.saturating_sub(spatial[axis] + placement.begin[axis])
    };
    (0..spatial.len()).map(needed).collect()
}

/// Refuses filters of other axes than the image's.
fn same_axes(filters: &[usize], image: &[usize]) -> Outcome<()> {
    if filters.len() == image.len() {
        return Ok(());
    }
    Err(Refusal::shape(format!(
        "filters of {filters:?} for an image of {image:?}"
    )))
}

impl Lower<'_> {
    /// The image of a node: batch, channels, and one to three more axes.
    fn image(&mut self, node: &Node) -> Outcome<(TensorIndex, Vec<usize>)> {
        let input = self.input(node, 0)?;
        self.floats(input)?;
        let shape = self.shape(input)?.to_vec();
        if !(3..=5).contains(&shape.len()) {
            return Err(Refusal::shape(format!("an image of {shape:?}")));
        }
        Ok((input, shape))
    }

    fn bias(&mut self, node: &Node, args: &mut Args, channels: usize, factor: f32) -> Outcome<()> {
        if let Some(bias) = node.input(2) {
            let bias = self.multiplied(bias, &[channels], factor)?;
            args.push(("bias", Arg::Value(bias)));
        }
        Ok(())
    }

    pub(super) fn conv(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let (weights, output) = (self.input(node, 1)?, self.output(node)?);
        let filters = self.shape(weights)?.to_vec();
        same_axes(&filters, &shape)?;
        let conv: Conv = node.typed()?;
        let window = conv.window.over(&filters[2..])?;
        let placement = window.resolve(&shape[2..])?;
        let end = behind(&window, &placement, &shape[2..]);
        let x = self.read(input)?;
        let [factor, of_bias] = self.factors(input, output)?;
        let weight = self.filters(weights, &filters, factor)?;
        let mut args = vec![("x", Arg::Value(x)), ("weight", Arg::Value(weight))];
        self.bias(node, &mut args, filters[0], of_bias)?;
        args.extend([
            ("strides", Arg::Ints(ints(&window.strides))),
            ("pad_type", Arg::Text("custom")),
            ("pad", pairs(&placement.begin, &end)),
            ("dilations", Arg::Ints(ints(&window.dilations))),
            ("groups", Arg::Int(conv.groups.get() as i32)),
        ]);
        let (ty, dims) = (self.ty_of(x), self.dims(output)?);
        let out = self.op("conv", args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn conv_transpose(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let (weights, output) = (self.input(node, 1)?, self.output(node)?);
        let filters = self.shape(weights)?.to_vec();
        same_axes(&filters, &shape)?;
        let conv: ConvTranspose = node.typed()?;
        let groups = conv.groups.get();
        let window = conv.window.over(&filters[2..])?;
        if window.output_padding.iter().any(|&padding| padding != 0) {
            let words = format!("output_padding {:?}", window.output_padding);
            return Err(Refusal::attribute(words));
        }
        let placement = window.resolve(&shape[2..])?;
        let window = window.window;
        for axis in 0..placement.output.len() {
            let whole = (shape[2 + axis] - 1) * window.strides[axis]
                + (window.kernel[axis] - 1) * window.dilations[axis]
                + 1;
            if placement.output[axis] + placement.begin[axis] + placement.end[axis] != whole {
                return Err(Refusal::attribute("an output that padding alone does not give"));
            }
        }
        let x = self.read(input)?;
        let [factor, of_bias] = self.factors(input, output)?;
        let weight = self.filters(weights, &filters, factor)?;
        let mut args = vec![("x", Arg::Value(x)), ("weight", Arg::Value(weight))];
        self.bias(node, &mut args, filters[1] * groups, of_bias)?;
        args.extend([
            ("strides", Arg::Ints(ints(&window.strides))),
            ("pad_type", Arg::Text("custom")),
            ("pad", pairs(&placement.begin, &placement.end)),
            ("dilations", Arg::Ints(ints(&window.dilations))),
            ("groups", Arg::Int(groups as i32)),
        ]);
        let (ty, dims) = (self.ty_of(x), self.dims(output)?);
        let out = self.op("conv_transpose", args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn pool(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let output = self.output(node)?;
        let (spec, counts) = match node.operator()? {
            Operator::AveragePool(pool) => (pool.window, pool.count_include_pad),
            Operator::MaxPool(pool) => (pool.window, false),
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        let window = spec.stated()?;
        let kernel = window.kernel.clone();
        if window.dilations.iter().any(|&dilation| dilation != 1) {
            return Err(Refusal::attribute(format!("dilations {:?}", window.dilations)));
        }
        let placement = window.resolve(&shape[2..])?;
        let end = behind(&window, &placement, &shape[2..]);
        let average = node.op == Op::AveragePool;
        let padded = |end: &[usize]| placement.begin.iter().chain(end).any(|&pad| pad != 0);
        if counts
            && window.ceil
            && end
                .iter()
                .zip(&placement.end)
                .any(|(needed, given)| needed > given)
        {
            return Err(Refusal::attribute(
                "count_include_pad with a last window beyond the padding",
            ));
        }
        if padded(&end)
            && placement
                .begin
                .iter()
                .chain(&end)
                .zip(kernel.iter().chain(&kernel))
                .any(|(pad, size)| pad >= size)
        {
            return Err(Refusal::attribute("padding as wide as the window"));
        }
        let x = self.read(input)?;
        let mut args = vec![
            ("x", Arg::Value(x)),
            ("kernel_sizes", Arg::Ints(ints(&kernel))),
            ("strides", Arg::Ints(ints(&window.strides))),
            ("pad_type", Arg::Text("custom")),
            ("pad", pairs(&placement.begin, &end)),
            ("ceil_mode", Arg::Bool(false)),
        ];
        if average {
            args.push(("exclude_padding_from_average", Arg::Bool(!counts)));
        }
        let (ty, dims) = (self.ty_of(x), self.dims(output)?);
        let out = self.op(if average { "avg_pool" } else { "max_pool" }, args, ty, &dims);
        self.settle(output, out)
    }

    pub(super) fn global_pool(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let output = self.output(node)?;
        let kind = if node.op == Op::GlobalMaxPool {
            "reduce_max"
        } else {
            "reduce_mean"
        };
        let x = self.read(input)?;
        let axes: Vec<usize> = (2..shape.len()).collect();
        let out = self.reduced(kind, x, &axes);
        self.settle(output, out)
    }

    /// Each pixel over and over, by a whole number of times.
    pub(super) fn resize(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let output = self.output(node)?;
        let to = self.shape(output)?.to_vec();
        let resize: Resize = node.typed()?;
        let exact = matches!(
            (resize.coordinates, resize.rounding),
            (Coordinates::Asymmetric, Rounding::Floor) | (Coordinates::HalfPixel, Rounding::RoundPreferFloor)
        );
        if resize.interpolation != Interpolation::Nearest || !exact {
            let (mode, places) = (resize.interpolation.text(), resize.coordinates.text());
            let rounding = resize.rounding.text();
            return Err(Refusal::attribute(format!("mode {mode}, {places}, {rounding}")));
        }
        let whole = shape.len() == 4
            && to.len() == 4
            && shape[..2] == to[..2]
            && (2..4).all(|axis| to[axis].is_multiple_of(shape[axis]) && to[axis] >= shape[axis]);
        if !whole {
            return Err(Refusal::shape(format!(
                "{shape:?} to {to:?}, which is no whole number of times"
            )));
        }
        // scales that are given must be those whole numbers, not ones that round to them
        if let Some(scales) = node
            .input(2)
            .filter(|&scales| self.view(scales).elements() != Some(0))
        {
            let scales = self.part.numbers(scales).unwrap_or_default();
            let same = |(axis, &scale): (usize, &f64)| scale == (to[axis] / shape[axis]) as f64;
            if scales.len() != 4 || !scales.iter().enumerate().all(same) {
                return Err(Refusal::attribute(format!("scales {scales:?}")));
            }
        }
        let x = self.read(input)?;
        let args = vec![
            ("x", Arg::Value(x)),
            ("scale_factor_height", Arg::Int((to[2] / shape[2]) as i32)),
            ("scale_factor_width", Arg::Int((to[3] / shape[3]) as i32)),
        ];
        let ty = self.ty_of(x);
        let out = self.op("upsample_nearest_neighbor", args, ty, &to);
        self.settle(output, out)
    }

    pub(super) fn depth_space(&mut self, node: &Node) -> Outcome<()> {
        let (input, shape) = self.image(node)?;
        let output = self.output(node)?;
        if shape.len() != 4 {
            return Err(Refusal::shape(format!("an image of {shape:?}")));
        }
        let blocks: Blocks = node.typed()?;
        let (kind, size) = match (node.op, blocks.mode) {
            (Op::SpaceToDepth, _) => ("space_to_depth", "block_size"),
            (_, BlockMode::Dcr) => ("depth_to_space", "block_size"),
            (_, BlockMode::Crd) => ("pixel_shuffle", "upscale_factor"),
        };
        let x: ValueId = self.read(input)?;
        let args = vec![("x", Arg::Value(x)), (size, Arg::Int(blocks.size.get() as i32))];
        let (ty, dims) = (self.ty_of(x), self.dims(output)?);
        let mut out = self.op(kind, args, ty, &dims);
        if node.op == Op::SpaceToDepth && blocks.mode == BlockMode::Crd {
            // a block's places inside each channel, not around them (`pixel_unshuffle` would do it, of an unsigned factor)
            let places = dims[1] / shape[1];
            let apart = self.reshaped(out, &[dims[0], places, shape[1], dims[2], dims[3]]);
            let swapped = [dims[0], shape[1], places, dims[2], dims[3]];
            let args = vec![("x", Arg::Value(apart)), ("perm", Arg::Ints(vec![0, 2, 1, 3, 4]))];
            let grouped = self.op("transpose", args, ty, &swapped);
            out = self.reshaped(grouped, &dims);
        }
        self.settle(output, out)
    }
}
