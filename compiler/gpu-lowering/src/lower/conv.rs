//! Convolutions with constant weights: channels last, packed weights, everything behind them in the epilogue.

use polychip_gpu_kernels::{
    Binary, Broadcast, Conv, ConvTile, Depthwise, Direction, Epilogue, Image, ImageLayout, Kernel, Scalar,
    Window,
};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::TransposedSpec;
use polychip_ops::{Op, Operator};
use polychip_sdk::{EncodingKind, Reason};

use super::builder::{Lowering, of_kernel};
use super::column_split::{self, ColumnRange};
use super::epilogue::{self, EpilogueBuilder, Sheet};
use super::launch_split::SplitExtent;
use super::values::{ValueId, float_bytes, is_float};
use super::{encoding, image};

/// Whether a node is an anchor of this family.
pub(super) fn takes_epilogues(l: &Lowering<'_>, node: &Node) -> bool {
    let real = |i| node.input(i).is_some_and(|t| is_float(l.part.real(t)));
    matches!(node.op, Op::Conv | Op::ConvTranspose) && real(0) && real(1)
}

/// Whether a tensor can be read by the end of a convolution.
pub(super) fn admits(l: &Lowering<'_>, tensor: TensorIndex, dims: &[usize], out: &[usize]) -> bool {
    epilogue::admits(l, tensor, Sheet::Image, dims, out)
}

/// Lowers a convolution alone.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    match node.output(0) {
        Some(output) => fused(l, node, &[], output),
        None => Ok(false),
    }
}

/// Lowers a convolution with the nodes behind it.
pub(super) fn fused(
    l: &mut Lowering<'_>,
    node: &Node,
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    if !matches!(node.op, Op::Conv | Op::ConvTranspose) {
        return Ok(false);
    }
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Err(Refusal::op("a convolution without operands"));
    };
    for tensor in [Some(x), Some(w), Some(y), node.input(2)].into_iter().flatten() {
        if !is_float(l.part.real(tensor)) {
            return Err(Refusal::dtype(format!(
                "a convolution of {} is not offered",
                l.part.real(tensor).name()
            )));
        }
    }
    if !l.part.is_constant(w) {
        return Err(Refusal::constant(
            "the weights of a convolution come from the run",
        ));
    }
    let shape = Shape::of(l, node, x, w, y)?;
    if integers(l, &shape, node, (x, w, y), members, output)? {
        return Ok(true);
    }
    let scalar = l.scalar(x)?;
    // a first layer of few channels reads the image as the app gave it
    let few = shape.image.channels < 8
        && !shape.is_depthwise()
        && l.forms[x].get(Layout::ChannelsLast, Storage::Real).is_none();
    let source = if few && !l.is_channels_only(x) {
        ImageLayout::ChannelsFirst
    } else {
        ImageLayout::ChannelsLast
    };
    let layout = match source {
        ImageLayout::ChannelsFirst => Layout::RowMajor,
        ImageLayout::ChannelsLast => Layout::ChannelsLast,
    };
    let from = l.get(x, layout, Storage::Real)?;
    let mut end = EpilogueBuilder::new();
    bias(l, &mut end, node, y)?;
    let (epilogue, operands, target) = end.finish(l, members, y, output, Sheet::Image)?;
    let part = l.part;
    let ends = End {
        epilogue,
        operands,
        target,
    };
    let mut weights = Vec::new();
    if !l.dry {
        weights = part.tensors[w].reals()?;
    }
    shape.launch(l, (scalar, source, 0), from, &ends, |filters, range| {
        filters.floats(&range.of(&weights, shape.inner()))
    })?;
    Ok(true)
}

/// What stands behind the sums.
#[derive(Clone)]
struct End {
    epilogue: Epilogue,
    operands: Vec<ValueId>,
    target: ValueId,
}

/// A convolution of either sort, to pack weights for.
enum Filters {
    Product(Conv),
    Single(Depthwise),
}

impl Filters {
    fn output(&self) -> Image {
        match self {
            Filters::Product(conv) => conv.output(),
            Filters::Single(depthwise) => depthwise.output(),
        }
    }

    fn floats(&self, weights: &[f32]) -> Outcome<Vec<u8>> {
        Ok(match self {
            Filters::Product(conv) => conv.pack_weights(weights).map_err(of_kernel)?,
            Filters::Single(depthwise) => depthwise.pack_weights(weights).map_err(of_kernel)?,
        })
    }

    fn bytes(&self, weights: &[i8]) -> Outcome<Vec<u8>> {
        Ok(match self {
            Filters::Product(conv) => conv.pack_bytes(weights).map_err(of_kernel)?,
            Filters::Single(depthwise) => depthwise.pack_bytes(weights).map_err(of_kernel)?,
        })
    }
}

/// Adds a bias per channel.
fn bias(l: &mut Lowering<'_>, end: &mut EpilogueBuilder, node: &Node, y: TensorIndex) -> Outcome<()> {
    let Some(b) = node.input(2) else { return Ok(()) };
    let channels = l.dims(y)?.get(1).copied().unwrap_or(0);
    if l.dims(b)? != [channels] {
        return Err(Refusal::shape(format!(
            "a bias of {:?} for {channels} channels",
            l.dims(b)?
        )));
    }
    let value = if l.part.is_constant(b) {
        // sums are in f32, and so is what is added to them
        let part = l.part;
        l.constant(Scalar::F32, &[channels], || {
            Ok(float_bytes(Scalar::F32, &part.tensors[b].reals()?))
        })?
    } else {
        l.rows(b)?
    };
    let operand = end.operand(l, value, Broadcast::Column);
    end.change(|sum| sum.binary(Binary::Add, operand));
    Ok(())
}

/// Sizes of a convolution.
struct Shape {
    image: Image,
    window: Window,
    direction: Direction,
    channels_out: u32,
    groups: u32,
}

impl Shape {
    fn of(l: &Lowering<'_>, node: &Node, x: TensorIndex, w: TensorIndex, y: TensorIndex) -> Outcome<Shape> {
        let (dims, weights, out) = (l.dims(x)?, l.dims(w)?, l.dims(y)?);
        if !(3..=4).contains(&dims.len()) || weights.len() != dims.len() || out.len() != dims.len() {
            return Err(Refusal::new(
                Reason::Rank,
                format!(
                    "convolutions of rank {} are not offered, the limit is 4",
                    dims.len()
                ),
            ));
        }
        let (groups, (window, direction)) = match node.operator()? {
            Operator::Conv(conv) => {
                let (window, _) = image::window(&conv.window.over(&weights[2..])?, dims, out)?;
                (conv.groups, (window, Direction::Forward))
            }
            Operator::ConvTranspose(conv) => {
                let window = transposed(&conv.window, &weights[2..], dims, out)?;
                (conv.groups, window)
            }
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        let groups = u32::try_from(groups.get())
            .ok()
            .ok_or_else(|| Refusal::attribute(format!("{groups} groups")))?;
        let image = image::image(dims)?;
        let channels_out = image::image(out)?.channels;
        let per_group = |channels: usize| channels as u64 / u64::from(groups);
        let right = match direction {
            Direction::Forward => weights[0] == out[1] && weights[1] as u64 == per_group(dims[1]),
            Direction::Transposed { .. } => weights[0] == dims[1] && weights[1] as u64 == per_group(out[1]),
        };
        if !right || dims[0] != out[0] {
            return Err(Refusal::shape(format!(
                "a convolution of {dims:?} with {weights:?} in {groups} groups does not give {out:?}"
            )));
        }
        Ok(Shape {
            image,
            window,
            direction,
            channels_out,
            groups,
        })
    }

    /// Whether each filter sees one channel.
    fn is_depthwise(&self) -> bool {
        self.groups == self.image.channels && self.groups > 1 && self.direction == Direction::Forward
    }

    /// Weights, in ONNX's order, of one channel of the output to those of the next.
    fn inner(&self) -> usize {
        let taps = self.window.taps() as usize;
        match self.direction {
            Direction::Forward => (self.image.channels / self.groups) as usize * taps,
            Direction::Transposed { .. } => taps,
        }
    }

    /// Launches it for all channels of the output at once, or for some each where the weights are many.
    fn launch(
        &self,
        l: &mut Lowering<'_>,
        read: (Scalar, ImageLayout, i32),
        from: ValueId,
        end: &End,
        pack: impl Fn(&Filters, ColumnRange) -> Outcome<Vec<u8>>,
    ) -> Outcome<()> {
        let ranges = if self.groups == 1 {
            let steps = u64::from(self.image.channels) * u64::from(self.window.taps());
            // of bytes, what a zero point adds stands behind
            let four = match read.0 {
                Scalar::I8 | Scalar::U8 => 16 * (steps.div_ceil(4) + 1),
                float => 4 * steps.next_multiple_of(4) * float.bytes(),
            };
            column_split::cut(&l.target.limits, self.channels_out, four)
        } else {
            vec![ColumnRange::whole(self.channels_out)]
        };
        for range in ranges {
            let some = Shape {
                channels_out: range.count(),
                ..*self
            };
            let end = End {
                epilogue: range.epilogue(&end.epilogue),
                ..end.clone()
            };
            some.launch_columns(l, read, from, &end, |filters| pack(filters, range))?;
        }
        Ok(())
    }

    /// Launches it over all images at once, or split into some images each.
    fn launch_columns(
        &self,
        l: &mut Lowering<'_>,
        (scalar, source, zero): (Scalar, ImageLayout, i32),
        from: ValueId,
        end: &End,
        pack: impl FnOnce(&Filters) -> Outcome<Vec<u8>>,
    ) -> Outcome<()> {
        let (kernel, filters) = self.kernel(l, scalar, source, zero, end.epilogue.clone())?;
        let packed = l.packed(kernel.bindings[1].bytes, || pack(&filters))?;
        let mut values = end.operands.clone();
        values.push(end.target);
        let output = filters.output();
        let columns = end
            .epilogue
            .columns
            .map_or(output.channels, |columns| columns.all);
        let whole = SplitExtent {
            units: self.image.batch,
            rows: u64::from(output.height) * u64::from(output.width),
            columns: columns.into(),
        };
        if let Some(launches) = l.split_launch(scalar, kernel.work, whole) {
            let mark = l.mark();
            let done = self.launch_by_images(
                l,
                (scalar, source, zero),
                (from, packed),
                end,
                whole,
                &launches,
                &values,
            );
            if done.is_ok() {
                return Ok(());
            }
            l.back_to(mark);
        }
        let mut all = vec![from, packed];
        all.extend(values);
        l.launch_kernel(kernel, &all)
    }

    #[allow(clippy::too_many_arguments, reason = "one call, of what it was made for")]
    fn launch_by_images(
        &self,
        l: &mut Lowering<'_>,
        (scalar, source, zero): (Scalar, ImageLayout, i32),
        (from, packed): (ValueId, ValueId),
        end: &End,
        whole: SplitExtent,
        launches: &[u32],
        values: &[ValueId],
    ) -> Outcome<()> {
        let none = || Refusal::shape("images that do not start where a binding can");
        let one = Image {
            batch: 1,
            ..self.image
        };
        let bytes = one.elements() * l.stored(from).scalar.bytes();
        let mut first = 0;
        for &images in launches {
            let part = Shape {
                image: Image {
                    batch: images,
                    ..self.image
                },
                ..*self
            };
            let (kernel, _) = part.kernel(l, scalar, source, zero, end.epilogue.clone())?;
            let own = l
                .subview(from, u64::from(first) * bytes, u64::from(images) * bytes)
                .ok_or_else(none)?;
            let mut all = vec![own, packed];
            let ends = l.epilogue_subviews(whole, (first, images), &end.epilogue.operands, values);
            all.extend(ends.ok_or_else(none)?);
            l.launch_kernel(kernel, &all)?;
            first += images;
        }
        Ok(())
    }

    /// The kernel by rule, and what packs its weights.
    fn kernel(
        &self,
        l: &Lowering<'_>,
        scalar: Scalar,
        source: ImageLayout,
        zero_point: i32,
        epilogue: Epilogue,
    ) -> Outcome<(Kernel, Filters)> {
        let limits = &l.target.limits;
        if self.is_depthwise() && source == ImageLayout::ChannelsLast {
            let depthwise = Depthwise {
                image: self.image,
                channels_out: self.channels_out,
                window: self.window,
                scalar,
                zero_point,
                epilogue: epilogue.clone(),
                strip: 1,
            };
            let strips = depthwise.candidates(limits).into_iter();
            let ways = strips.map(|strip| Depthwise {
                strip,
                ..depthwise.clone()
            });
            if let Ok((depthwise, kernel)) = l.first(depthwise.clone(), ways) {
                return Ok((kernel, Filters::Single(depthwise)));
            }
        }
        let conv = Conv {
            image: self.image,
            source,
            channels_out: self.channels_out,
            window: self.window,
            direction: self.direction,
            groups: self.groups,
            scalar,
            zero_point,
            epilogue,
            tile: ConvTile::Direct {
                threads: polychip_gpu_kernels::Threads {
                    rows: 4,
                    quads: 1,
                    down: 4,
                    across: 4,
                    slices: 1,
                },
                ahead: 1,
            },
        };
        let tiles = conv.candidates(limits).into_iter();
        let ways = tiles.map(|tile| Conv { tile, ..conv.clone() });
        let (conv, kernel) = l.first(conv.clone(), ways)?;
        Ok((kernel, Filters::Product(conv)))
    }
}

/// The window of a transposed convolution.
fn transposed(
    window: &TransposedSpec,
    kernel: &[usize],
    dims: &[usize],
    out: &[usize],
) -> Outcome<(Window, Direction)> {
    let shape = window.over(kernel)?;
    let placement = shape.resolve(&dims[2..])?;
    if placement.output != out[2..] {
        return Err(Refusal::shape(format!(
            "a transposed convolution gives {:?}, not {out:?}",
            placement.output
        )));
    }
    let axes = kernel.len();
    let pair = |fill: u32, value: &dyn Fn(usize) -> usize| -> Outcome<[u32; 2]> {
        let mut pair = [fill; 2];
        for axis in 0..axes {
            pair[2 - axes + axis] =
                u32::try_from(value(axis)).map_err(|_| Refusal::shape("a window beyond 32 bits"))?;
        }
        Ok(pair)
    };
    let window = &shape.window;
    let mut extra = [0; 2];
    for axis in 0..axes {
        let least = dims[2 + axis].saturating_sub(1) * window.strides[axis]
            + (window.kernel[axis] - 1) * window.dilations[axis]
            + 1;
        let whole = out[2 + axis] + placement.begin[axis] + placement.end[axis];
        extra[2 - axes + axis] = whole
            .checked_sub(least)
            .and_then(|extra| u32::try_from(extra).ok())
            .ok_or_else(|| Refusal::attribute("a transposed convolution that cuts more than its pads"))?;
    }
    let window = Window {
        kernel: pair(1, &|axis| window.kernel[axis])?,
        strides: pair(1, &|axis| window.strides[axis])?,
        dilations: pair(1, &|axis| window.dilations[axis])?,
        begin: pair(0, &|axis| placement.begin[axis])?,
        end: pair(0, &|axis| placement.end[axis])?,
    };
    Ok((window, Direction::Transposed { extra }))
}

/// Signed bytes of constant weights, and their scale for each output channel.
pub(super) fn bytes_of_weights(
    l: &Lowering<'_>,
    w: TensorIndex,
    axis: usize,
    channels: usize,
) -> Option<(Vec<i8>, Vec<f32>)> {
    let tensor = &l.part.tensors[w];
    let encoding = tensor.encoding.as_ref()?;
    let scales = match encoding.kind {
        EncodingKind::PerTensor => vec![*encoding.scales.first()?; channels],
        EncodingKind::PerAxis { axis: along } if along == axis && encoding.scales.len() == channels => {
            encoding.scales.clone()
        }
        _ => return None,
    };
    let zero = match tensor.dtype {
        polychip_ops::DType::I8 => 0,
        polychip_ops::DType::U8 => 128,
        _ => return None,
    };
    let zeros_fit = if encoding.zero_points.is_empty() {
        zero == 0
    } else {
        encoding.zero_points.iter().all(|&point| point == zero)
    };
    if !zeros_fit {
        return None;
    }
    if l.dry {
        return Some((Vec::new(), scales));
    }
    let values = tensor.integers().ok()?;
    let signed = values.into_iter().map(|value| (value - zero) as i8).collect();
    Some((signed, scales))
}

/// Lowers a convolution of bytes; `false` where the tensors' encodings are not of its sort.
fn integers(
    l: &mut Lowering<'_>,
    shape: &Shape,
    node: &Node,
    (x, w, y): (TensorIndex, TensorIndex, TensorIndex),
    members: &[usize],
    output: TensorIndex,
) -> Outcome<bool> {
    let Some((scale, zero)) = encoding::single(l, x) else {
        return Ok(false);
    };
    let scalar = l.stored_scalar(x)?;
    let is_bytes = matches!(scalar, Scalar::I8 | Scalar::U8);
    if !is_bytes || node.op != Op::Conv || l.part.is_constant(x) {
        return Ok(false);
    }
    let channels = shape.channels_out as usize;
    let Some((bytes, scales)) = bytes_of_weights(l, w, 0, channels) else {
        return Ok(false);
    };
    let mark = l.mark();
    let done = (|| -> Outcome<()> {
        let from = l.get(x, Layout::ChannelsLast, Storage::Stored)?;
        let mut end = EpilogueBuilder::new();
        let factors: Vec<f32> = scales.iter().map(|weight| weight * scale).collect();
        let factors: ValueId = l.constant(Scalar::F32, &[channels], || {
            Ok(float_bytes(Scalar::F32, &factors))
        })?;
        let factor = end.operand(l, factors, Broadcast::Column);
        end.change(|sum| sum.binary(Binary::Mul, factor));
        bias(l, &mut end, node, y)?;
        let (epilogue, operands, target) = end.finish(l, members, y, output, Sheet::Image)?;
        let ends = End {
            epilogue,
            operands,
            target,
        };
        let read = (scalar, ImageLayout::ChannelsLast, zero);
        shape.launch(l, read, from, &ends, |filters, range| {
            filters.bytes(&range.of(&bytes, shape.inner()))
        })
    })();
    if done.is_err() {
        l.back_to(mark);
    }
    Ok(done.is_ok())
}
