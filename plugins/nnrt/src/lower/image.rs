//! Pools, resampling and blocks of images, without weights; reductions and softmax.

use polychip_lowering::{Layout, Node, Outcome, Refusal};
use polychip_ops::geometry::Window;
use polychip_ops::{Attr, Attributes, InferError, Op};
use polychip_sdk::Reason;
use polychip_sys::nnrt::bindings as sys;

use super::builder::{Lower, Param, axes, axis, input, int, of_rank, output};
use crate::program::{TensorId, Type};

pub(super) fn geometry(error: InferError) -> Refusal {
    Refusal::attribute(error.to_string())
}

/// A window's numbers on an image of two spatial axes.
pub(super) struct Place {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    /// Rows above and below, columns left and right.
    pub(super) pads: Vec<i64>,
}

impl Place {
    pub(super) fn of(window: &Window, spatial: &[usize]) -> Outcome<Place> {
        if spatial.len() != 2 {
            let what = format!("a window of {} axes; 2 are offered", spatial.len());
            return Err(Refusal::new(Reason::Rank, what));
        }
        let placed = window.resolve(spatial).map_err(geometry)?;
        let mut pads = Vec::new();
        for (axis, &size) in spatial.iter().enumerate() {
            let reach =
                (placed.output[axis] - 1) * window.strides[axis] + window.extent(axis).unwrap_or(usize::MAX);
            // where extents are rounded up, the last window reaches behind the image: as if more were padded
            let end = match window.ceil {
                true => reach.saturating_sub(size + placed.begin[axis]),
                false => placed.end[axis],
            };
            pads.extend([placed.begin[axis] as i64, end as i64]);
        }
        let longs = |values: &[usize]| values.iter().map(|&value| value as i64).collect();
        Ok(Place {
            kernel: longs(&window.kernel),
            strides: longs(&window.strides),
            dilations: longs(&window.dilations),
            pads,
        })
    }

    pub(super) fn is_padded(&self) -> bool {
        self.pads.iter().any(|&pad| pad != 0)
    }
}

impl Lower<'_> {
    /// The image of a node, channels last, and its ONNX shape.
    pub(super) fn image(&mut self, node: &Node) -> Outcome<(TensorId, Vec<usize>)> {
        let tensor = input(node, 0)?;
        let info = self.info(tensor)?;
        if info.shape.len() != 4 || !info.ty.is_float() {
            let what = format!(
                "{} of {:?} {:?}; images of floats are offered",
                node.op_name, info.ty, info.shape
            );
            return Err(Refusal::new(Reason::Rank, what));
        }
        Ok((self.read(tensor, Layout::ChannelsLast)?, info.shape.clone()))
    }

    pub(super) fn pool(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, shape) = self.image(node)?;
        let window = if matches!(node.op, Op::GlobalAveragePool | Op::GlobalMaxPool) {
            Window::new(node.op, &Attributes::new(), &shape[2..])
        } else {
            let kernel = node.attributes.ints(Attr::KernelShape).unwrap_or(&[]);
            let kernel: Vec<usize> = kernel.iter().map(|&extent| extent.max(0) as usize).collect();
            Window::new(node.op, &node.attributes, &kernel)
        };
        let place = Place::of(&window.map_err(geometry)?, &shape[2..])?;
        if place.dilations != [1, 1] || int(node, Attr::StorageOrder, 0) != 0 {
            return Err(Refusal::attribute("dilations or a storage order of a pool"));
        }
        let averages = matches!(node.op, Op::AveragePool | Op::GlobalAveragePool);
        // the runtime does not say whether what it pads counts
        if averages && place.is_padded() {
            return Err(Refusal::attribute("an average over pads"));
        }
        let (code, kernel, stride, pad, round, activation) = match averages {
            true => (
                sys::OH_NN_OPS_AVG_POOL,
                sys::OH_NN_AVG_POOL_KERNEL_SIZE,
                sys::OH_NN_AVG_POOL_STRIDE,
                sys::OH_NN_AVG_POOL_PAD,
                sys::OH_NN_AVG_POOL_ROUND_MODE,
                sys::OH_NN_AVG_POOL_ACTIVATION_TYPE,
            ),
            false => (
                sys::OH_NN_OPS_MAX_POOL,
                sys::OH_NN_MAX_POOL_KERNEL_SIZE,
                sys::OH_NN_MAX_POOL_STRIDE,
                sys::OH_NN_MAX_POOL_PAD,
                sys::OH_NN_MAX_POOL_ROUND_MODE,
                sys::OH_NN_MAX_POOL_ACTIVATION_TYPE,
            ),
        };
        let params = vec![
            Param::Longs(kernel, place.kernel),
            Param::Longs(stride, place.strides),
            Param::Longs(pad, place.pads),
            Param::Int(round, 0),
            Param::unfused(activation),
        ];
        let out = self.write(to, Layout::ChannelsLast)?;
        self.op(code, &[image], &[out], params);
        Ok(())
    }

    pub(super) fn resize(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, from) = self.image(node)?;
        let wanted = self.shape(to)?.to_vec();
        let word = |attr, default| node.attributes.str(attr).unwrap_or(default);
        let (mode, centres) = (
            word(Attr::Mode, "nearest"),
            word(Attr::CoordinateTransformationMode, "half_pixel"),
        );
        let transform = match (mode, centres) {
            ("linear", "asymmetric") => 0,
            ("linear", "align_corners") => 1,
            ("linear", "half_pixel") => 2,
            _ => return Err(Refusal::attribute(format!("Resize with {mode} and {centres}"))),
        };
        let other = int(node, Attr::Antialias, 0) != 0
            || int(node, Attr::ExcludeOutside, 0) != 0
            || node.attributes.ints(Attr::Axes).is_some();
        if other || from[..2] != wanted[..2] {
            return Err(Refusal::attribute(
                "Resize of batch or channels, of some axes, or with other weights",
            ));
        }
        // the runtime knows sizes only: scales must be theirs
        if let (Some(scales), None) = (node.input(2), node.input(3)) {
            let scales = self.reals(scales)?;
            let exact = |((&scale, &from), &to): ((&f32, &usize), &usize)| from as f32 * scale == to as f32;
            if !scales.iter().zip(&from).zip(&wanted).all(exact) {
                return Err(Refusal::attribute(format!(
                    "scales {scales:?} are not those of the sizes"
                )));
            }
        }
        let params = vec![
            Param::Long(sys::OH_NN_RESIZE_BILINEAR_NEW_HEIGHT, wanted[2] as i64),
            Param::Long(sys::OH_NN_RESIZE_BILINEAR_NEW_WIDTH, wanted[3] as i64),
            Param::Truth(sys::OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO, false),
            Param::Byte(sys::OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE, transform),
            Param::Long(sys::OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE, 0),
        ];
        let out = self.write(to, Layout::ChannelsLast)?;
        self.op(sys::OH_NN_OPS_RESIZE_BILINEAR, &[image], &[out], params);
        Ok(())
    }

    /// DepthToSpace and SpaceToDepth.
    pub(super) fn blocks(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (image, _) = self.image(node)?;
        let size = int(node, Attr::Blocksize, 1);
        let columns = node.attributes.str(Attr::Mode).unwrap_or("DCR") == "CRD";
        let (code, params) = match node.op {
            Op::DepthToSpace => (
                sys::OH_NN_OPS_DEPTH_TO_SPACE,
                vec![
                    Param::Long(sys::OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE, size),
                    Param::Int(sys::OH_NN_DEPTH_TO_SPACE_MODE, i32::from(columns)),
                ],
            ),
            _ if columns => return Err(Refusal::attribute("SpaceToDepth with columns before rows (CRD)")),
            _ => (
                sys::OH_NN_OPS_SPACE_TO_DEPTH,
                vec![Param::Long(sys::OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE, size)],
            ),
        };
        let out = self.write(to, Layout::ChannelsLast)?;
        self.op(code, &[image], &[out], params);
        Ok(())
    }

    pub(super) fn softmax(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let tensor = input(node, 0)?;
        let rank = self.rank(tensor)?;
        let order = of_rank(layout, rank);
        let place = order.place(axis(node, -1, rank)?, rank) as i64;
        let from = self.read(tensor, order)?;
        let (code, role) = match node.op {
            Op::Softmax => (sys::OH_NN_OPS_SOFTMAX, sys::OH_NN_SOFTMAX_AXIS),
            _ => (sys::OH_NN_OPS_LOG_SOFTMAX, sys::OH_NN_LOG_SOFTMAX_AXIS),
        };
        let dims = self.dims(from);
        let out = self.like(code, from, &dims, &[from], vec![Param::Long(role, place)]);
        self.settle(out, output(node)?, order)
    }

    pub(super) fn reduce(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let rank = self.rank(tensor)?;
        let order = of_rank(layout, rank);
        let given = node.input(1).is_some() || node.attributes.ints(Attr::Axes).is_some();
        if rank == 0 || (int(node, Attr::NoopWithEmptyAxes, 0) != 0 && !given) {
            return Err(Refusal::attribute("a reduction of no axes"));
        }
        let from = self.read(tensor, order)?;
        let ty = self.ty(from);
        if !(ty.is_float() || ty == Type::I32 && matches!(node.op, Op::ReduceMax | Op::ReduceMin)) {
            return Err(Refusal::dtype(format!("{} of {ty:?}", node.op_name)));
        }
        let (code, role) = match node.op {
            Op::ReduceMean => (sys::OH_NN_OPS_REDUCE_MEAN, sys::OH_NN_REDUCE_MEAN_KEEP_DIMS),
            Op::ReduceMax => (sys::OH_NN_OPS_REDUCE_MAX, sys::OH_NN_REDUCE_MAX_KEEP_DIMS),
            Op::ReduceMin => (sys::OH_NN_OPS_REDUCE_MIN, sys::OH_NN_REDUCE_MIN_KEEP_DIMS),
            Op::ReduceProd => (sys::OH_NN_OPS_REDUCE_PROD, sys::OH_NN_REDUCE_PROD_KEEP_DIMS),
            _ => (sys::OH_NN_OPS_REDUCE_SUM, sys::OH_NN_REDUCE_SUM_KEEP_DIMS),
        };
        let mut places: Vec<usize> = axes(self, node, 1, rank)?
            .into_iter()
            .map(|axis| order.place(axis, rank))
            .collect();
        places.sort_unstable();
        let mut dims = self.dims(from);
        for &place in &places {
            dims[place] = 1;
        }
        // axes of 1 stay, and go by another shape: with them gone, the order of the others would be a question
        let list = self.list(&places);
        let out = self.like(code, from, &dims, &[from, list], vec![Param::Truth(role, true)]);
        self.settle(out, to, order)
    }
}
