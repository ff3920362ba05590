//! Pools, resampling and the other operations on images without weights.
//!
//! Invariant: a last window that only begins inside the image (`ceil_mode`) is had by padding more behind.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::geometry::{Placement, Window};
use polychip_ops::{Attr, Op};
use polychip_sdk::Reason;

use super::builder::{Lower, int, u32s};
use super::conv::{geometry, two, window_params};
use crate::program::{Param, TensorId};

impl Lower<'_> {
    pub(super) fn pool(&mut self, node: &Node) -> Outcome<()> {
        self.no_output(node, 1)?;
        let (image, shape) = self.image(node)?;
        let attributes = &node.attributes;
        let average = matches!(node.op, Op::AveragePool | Op::GlobalAveragePool);
        let global = matches!(node.op, Op::GlobalMaxPool | Op::GlobalAveragePool);
        let (window, mut placement) = if global {
            let window = Window::new(node.op, &polychip_ops::Attributes::new(), &shape[2..]);
            let window = window.map_err(geometry)?;
            let placement = window.resolve(&shape[2..]).map_err(geometry)?;
            (window, placement)
        } else {
            let kernel = attributes.ints(Attr::KernelShape).unwrap_or(&[]);
            let kernel: Option<Vec<usize>> = kernel.iter().map(|&size| usize::try_from(size).ok()).collect();
            let kernel = kernel.unwrap_or_default();
            let window = Window::new(node.op, attributes, &kernel).map_err(geometry)?;
            let placement = window.resolve(&shape[2..]).map_err(geometry)?;
            (window, placement)
        };
        if window.dilations.iter().any(|&dilation| dilation != 1) {
            return Err(Refusal::attribute(format!(
                "dilations {:?} of a pool",
                window.dilations
            )));
        }
        if int(node, Attr::StorageOrder, 0) != 0 {
            return Err(Refusal::attribute("storage_order 1"));
        }
        let counted = int(node, Attr::CountIncludePad, 0) != 0;
        self.reach(&window, &mut placement, &shape[2..], average && counted)?;
        let mut params = window_params(&window, &placement);
        params.push(("filter_size", u32s(&two(&window.kernel))));
        let output = self.output(node, 0)?;
        if average {
            params.push(("count_pad_for_edges", Param::Bool(counted)));
            let out = self.image_out(output)?;
            self.op("PoolAvg2d", params, &[image], &[out]);
            return self.settle(out, output, Layout::ChannelsLast);
        }
        self.moved_image("PoolMax2d", params, image, output)
    }

    /// Pads behind so that the windows counted downwards are those that the node has.
    fn reach(
        &self,
        window: &Window,
        placement: &mut Placement,
        spatial: &[usize],
        counted: bool,
    ) -> Outcome<()> {
        for (axis, &size) in spatial.iter().enumerate() {
            let reach = (placement.output[axis] - 1) * window.strides[axis] + window.kernel[axis];
            let end = reach.saturating_sub(size + placement.begin[axis]);
            if counted && end > placement.end[axis] {
                return Err(Refusal::attribute(
                    "ceil_mode with count_include_pad: the last window reaches past the padding",
                ));
            }
            placement.end[axis] = end;
        }
        Ok(())
    }

    /// As `moved`, for an image `[n, h, w, c]`.
    fn moved_image(
        &mut self,
        kind: &'static str,
        params: Vec<(&'static str, Param)>,
        image: TensorId,
        output: TensorIndex,
    ) -> Outcome<()> {
        let shape = self.shape(output)?;
        let dims = match shape[..] {
            [n, c, w] => vec![n, 1, w, c],
            _ => Layout::ChannelsLast.dims(&shape),
        };
        let out = self.native("image", self.ty_of(image), self.quant_of(image), &dims);
        self.op(kind, params, &[image], &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }

    pub(super) fn resize(&mut self, node: &Node) -> Outcome<()> {
        let attributes = &node.attributes;
        let text = |attr, default: &'static str| attributes.str(attr).unwrap_or(default).to_owned();
        let input = self.input(node, 0)?;
        let output = self.output(node, 0)?;
        let (from, to) = (self.shape(input)?, self.shape(output)?);
        if from.len() != 4 {
            return Err(Refusal::new(
                Reason::Rank,
                format!("Resize of {} axes", from.len()),
            ));
        }
        if from[..2] != to[..2] {
            return Err(Refusal::shape("Resize of batch or channels"));
        }
        self.exact_scales(node, &from, &to)?;
        if int(node, Attr::Antialias, 0) != 0 {
            return Err(Refusal::attribute("antialias 1"));
        }
        let mode = text(Attr::Mode, "nearest");
        let place = text(Attr::CoordinateTransformationMode, "half_pixel");
        let round = text(Attr::NearestMode, "round_prefer_floor");
        let image = self.read(input, Layout::ChannelsLast)?;
        let corners = Param::Bool(place == "align_corners");
        let half = Param::Bool(place == "half_pixel");
        let plain = matches!(&*place, "align_corners" | "half_pixel" | "asymmetric");
        let simple = vec![("align_corners", corners), ("half_pixel_centers", half)];
        let kind = match &*mode {
            "linear" if plain => "ResizeBilinear",
            // elsewhere the op does not say how it rounds
            "nearest" if place == "asymmetric" && round == "floor" => "ResizeNearestNeighbor",
            _ => return self.general_resize(node, [&mode, &place, &round], image, output),
        };
        if kind == "ResizeNearestNeighbor" {
            return self.moved_image(kind, simple, image, output);
        }
        let out = self.image_out(output)?;
        self.op(kind, simple, &[image], &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }

    /// The library derives scales from the sizes: refuses others.
    fn exact_scales(&self, node: &Node, from: &[usize], to: &[usize]) -> Outcome<()> {
        let Some(scales) = node.input(2).filter(|_| node.input(3).is_none()) else {
            return Ok(());
        };
        let scales = self.constant_reals(scales)?;
        let axes: Vec<usize> = match node.attributes.ints(Attr::Axes) {
            Some(axes) => polychip_ops::axis::normalise_all(axes, 4).unwrap_or_default(),
            None => (0..4).collect(),
        };
        for (&axis, &scale) in axes.iter().zip(&scales) {
            if from[axis] as f32 * scale != to[axis] as f32 {
                return Err(Refusal::attribute(format!(
                    "scale {scale} of axis {axis} is not {} / {}",
                    to[axis], from[axis]
                )));
            }
        }
        Ok(())
    }

    fn general_resize(
        &mut self,
        node: &Node,
        [mode, place, round]: [&str; 3],
        image: TensorId,
        output: TensorIndex,
    ) -> Outcome<()> {
        let index = |list: &[&str], word: &str| {
            let index = list.iter().position(|&entry| entry == word);
            index
                .map(|index| Param::U32(index as u32))
                .ok_or_else(|| Refusal::attribute(format!("Resize with {word}")))
        };
        let mut params = vec![
            (
                "transformation_mode",
                index(
                    &["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"],
                    place,
                )?,
            ),
            ("interpolation_mode", index(&["nearest", "linear"], mode)?),
            (
                "exclude_outside",
                Param::Bool(int(node, Attr::ExcludeOutside, 0) != 0),
            ),
        ];
        if mode == "nearest" {
            let modes = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
            params.push(("nearest_mode", index(&modes, round)?));
            return self.moved_image("Resize", params, image, output);
        }
        let out = self.image_out(output)?;
        self.op("Resize", params, &[image], &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }

    pub(super) fn depth_space(&mut self, node: &Node) -> Outcome<()> {
        let input = self.input(node, 0)?;
        let output = self.output(node, 0)?;
        let block = int(node, Attr::Blocksize, 1).max(1) as usize;
        let attributes = &node.attributes;
        let mode = attributes.str(Attr::Mode).unwrap_or("DCR");
        let mode = match mode {
            "DCR" => 0,
            "CRD" => 1,
            other => return Err(Refusal::attribute(format!("mode {other}"))),
        };
        let image = self.read(input, Layout::ChannelsLast)?;
        let kind = match node.op {
            Op::DepthToSpace => "DepthToSpace",
            _ => "SpaceToDepth",
        };
        let params = vec![("block_size", u32s(&[block, block])), ("mode", Param::U32(mode))];
        self.moved_image(kind, params, image, output)
    }

    pub(super) fn grid_sample(&mut self, node: &Node) -> Outcome<()> {
        let attributes = &node.attributes;
        let index = |attr, default: &str, list: &[&str]| {
            let word = attributes.str(attr).unwrap_or(default).to_owned();
            let place = list.iter().position(|&entry| entry == word);
            place
                .map(|place| Param::U32(place as u32))
                .ok_or_else(|| Refusal::attribute(format!("GridSample with {word}")))
        };
        let mode = index(Attr::Mode, "linear", &["linear", "nearest"])?;
        let padding = index(Attr::PaddingMode, "zeros", &["zeros", "border", "reflection"])?;
        let (input, grid) = (self.input(node, 0)?, self.input(node, 1)?);
        if self.shape(input)?.len() != 4 {
            return Err(Refusal::new(Reason::Rank, "GridSample of other than 4 axes"));
        }
        let image = self.read(input, Layout::ChannelsLast)?;
        let grid = self.read(grid, Layout::RowMajor)?;
        let params = vec![
            (
                "align_corners",
                Param::Bool(int(node, Attr::AlignCorners, 0) != 0),
            ),
            ("mode", mode),
            ("padding_mode", padding),
        ];
        let out = self.write(self.output(node, 0)?, Layout::ChannelsLast)?;
        self.op("GridSample", params, &[image, grid], &[out]);
        Ok(())
    }

    pub(super) fn lrn(&mut self, node: &Node) -> Outcome<()> {
        let size = int(node, Attr::Size, 1);
        if size < 1 || size % 2 == 0 {
            return Err(Refusal::attribute(format!("size {size} is even")));
        }
        let (image, _) = self.image(node)?;
        let float = |attr, default| node.attributes.float(attr).unwrap_or(default);
        let params = vec![
            // the library does not divide by the size
            ("alpha", Param::F32(float(Attr::Alpha, 1e-4) / size as f32)),
            ("beta", Param::F32(float(Attr::Beta, 0.75))),
            ("bias", Param::F32(float(Attr::Bias, 1.0))),
            ("radius", Param::I32(((size - 1) / 2) as i32)),
        ];
        let output = self.output(node, 0)?;
        let out = self.image_out(output)?;
        self.op("Lrn", params, &[image], &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }
}
