//! Pools, resampling and the other nodes on images without weights.
//!
//! Invariants:
//! 1. An image along one axis is one of height 1.
//! 2. A last window that only begins inside the image (`ceil_mode`) is had by padding more behind.

use polychip_ops::geometry::{Placement, Window};
use polychip_ops::operator::{BlockMode, Blocks, GridSample, Interpolation, Lrn, Resize};
use polychip_ops::{Op, Operator};
use polychip_sdk::Reason;

use super::builder::Lower;
use super::program::{Kind, OperandId, Place, Resampling};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

/// Values per spatial axis, for two of them: the axis that is not there has `none`.
pub(super) fn two<T: Copy>(values: &[T], none: T) -> Outcome<[T; 2]> {
    match *values {
        [only] => Ok([none, only]),
        [first, second] => Ok([first, second]),
        _ => Err(Refusal::new(
            Reason::Rank,
            format!("a window of {} axes; 1 and 2 are offered", values.len()),
        )),
    }
}

/// How a window lies, its pads as given.
pub(super) fn place(window: &Window, placed: &Placement) -> Outcome<Place> {
    let pads: Vec<(usize, usize)> = placed
        .begin
        .iter()
        .copied()
        .zip(placed.end.iter().copied())
        .collect();
    Ok(Place {
        kernel: two(&window.kernel, 1)?,
        strides: two(&window.strides, 1)?,
        dilations: two(&window.dilations, 1)?,
        pads: two(&pads, (0, 0))?,
    })
}

impl Lower<'_> {
    /// The image of a node as `[n, h, w, c]`, and its ONNX shape.
    pub(super) fn image(&mut self, node: &Node) -> Outcome<(OperandId, Vec<usize>)> {
        let tensor = self.input(node, 0)?;
        let shape = self.shape(tensor)?;
        if !(3..=4).contains(&shape.len()) {
            let what = format!("{} of {} axes; 3 and 4 are offered", node.op_name, shape.len());
            return Err(Refusal::new(Reason::Rank, what));
        }
        let id = self.read(tensor, Layout::ChannelsLast)?;
        let id = match *shape {
            [n, c, w] => self.reshaped(id, &[n, 1, w, c]),
            _ => id,
        };
        self.program.operands[id].image = true;
        Ok((id, shape.to_vec()))
    }

    /// The extents of a result as `[n, h, w, c]`.
    fn image_dims(&self, tensor: TensorIndex) -> Outcome<Vec<usize>> {
        let shape = self.shape(tensor)?;
        Ok(match *shape {
            [n, c, w] => vec![n, 1, w, c],
            _ => Layout::ChannelsLast.dims(shape),
        })
    }

    /// A step whose result is an image, in the graph's type and encoding.
    pub(super) fn image_result(
        &mut self,
        kind: Kind,
        inputs: &[OperandId],
        tensor: TensorIndex,
    ) -> Outcome<()> {
        let dims = self.image_dims(tensor)?;
        self.result_of(kind, inputs, &dims, tensor, Layout::ChannelsLast)
    }

    /// The same with those of its first input.
    fn image_moved(&mut self, kind: Kind, inputs: &[OperandId], tensor: TensorIndex) -> Outcome<()> {
        let dims = self.image_dims(tensor)?;
        let out = self.like(kind, inputs, &dims);
        self.settle(out, tensor, Layout::ChannelsLast)
    }

    pub(super) fn pool(&mut self, node: &Node) -> Outcome<()> {
        let to = self.output(node)?;
        let (image, shape) = self.image(node)?;
        let average = matches!(node.op, Op::AveragePool | Op::GlobalAveragePool);
        let (window, columns, counted) = match node.operator()? {
            Operator::MaxPool(pool) => (pool.window.stated()?, pool.column_major, false),
            Operator::AveragePool(pool) => (pool.window.stated()?, false, pool.count_include_pad),
            _ => (Window::whole(node.op, &shape[2..])?, false, false),
        };
        let mut placed = window.resolve(&shape[2..])?;
        if window.dilations.iter().any(|&dilation| dilation != 1) || columns {
            return Err(Refusal::attribute("dilations or a storage order of a pool"));
        }
        for (axis, &size) in shape[2..].iter().enumerate().filter(|_| window.ceil) {
            let reach = (placed.output[axis] - 1) * window.strides[axis] + window.kernel[axis];
            let end = reach.saturating_sub(size + placed.begin[axis]);
            if counted && end > placed.end[axis] {
                return Err(Refusal::attribute(
                    "ceil_mode with count_include_pad: the last window reaches past the padding",
                ));
            }
            placed.end[axis] = end;
        }
        let place = place(&window, &placed)?;
        if !average {
            return self.image_moved(Kind::Pool(Op::MaxPool, place, false), &[image], to);
        }
        let kind = Kind::Pool(Op::AveragePool, place, counted);
        let image = self.averaged(image, to)?;
        if self.vendor.traits().means_keep_encoding {
            self.image_moved(kind, &[image], to)
        } else {
            self.image_result(kind, &[image], to)
        }
    }

    pub(super) fn resize(&mut self, node: &Node) -> Outcome<()> {
        let (tensor, to) = (self.input(node, 0)?, self.output(node)?);
        let (from, wanted) = (self.shape(tensor)?, self.shape(to)?);
        if from.len() != 4 {
            return Err(Refusal::new(
                Reason::Rank,
                format!("Resize of {} axes", from.len()),
            ));
        }
        let resize: Resize = node.typed()?;
        if from[..2] != wanted[..2] || resize.antialias {
            return Err(Refusal::attribute(
                "Resize of batch or channels, or with antialias",
            ));
        }
        self.exact_scales(node, resize.axes.as_deref(), from, wanted)?;
        let mode = resize.interpolation;
        if mode == Interpolation::Cubic {
            return Err(Refusal::attribute(format!("Resize with {}", mode.text())));
        }
        let kind = Kind::Resize(Resampling {
            linear: mode == Interpolation::Linear,
            centres: resize.coordinates,
            rounding: resize.rounding,
            exclude: resize.exclude_outside,
            whole: (2..4).all(|axis| wanted[axis].is_multiple_of(from[axis])),
        });
        let image = self.read(tensor, Layout::ChannelsLast)?;
        if mode == Interpolation::Nearest || !self.vendor.traits().requantises {
            self.image_moved(kind, &[image], to)
        } else {
            self.image_result(kind, &[image], to)
        }
    }

    /// Chips derive scales from the sizes: refuses others.
    fn exact_scales(&self, node: &Node, axes: Option<&[i64]>, from: &[usize], to: &[usize]) -> Outcome<()> {
        let Some(scales) = node.input(2).filter(|_| node.input(3).is_none()) else {
            return Ok(());
        };
        let scales = self.reals(scales)?;
        let axes: Vec<usize> = match axes {
            Some(axes) => super::builder::axes_of(axes, 4)?,
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

    /// DepthToSpace and SpaceToDepth.
    pub(super) fn blocks(&mut self, node: &Node) -> Outcome<()> {
        let blocks: Blocks = node.typed()?;
        let (size, columns) = (blocks.size.get(), blocks.mode == BlockMode::Crd);
        let image = self.read(self.input(node, 0)?, Layout::ChannelsLast)?;
        self.image_moved(Kind::Blocks(node.op, size, columns), &[image], self.output(node)?)
    }

    pub(super) fn grid_sample(&mut self, node: &Node) -> Outcome<()> {
        let (tensor, grid) = (self.input(node, 0)?, self.input(node, 1)?);
        if self.rank(tensor)? != 4 {
            return Err(Refusal::new(Reason::Rank, "GridSample of other than 4 axes"));
        }
        let image = self.read(tensor, Layout::ChannelsLast)?;
        let grid = self.read(grid, Layout::RowMajor)?;
        let sample: GridSample = node.typed()?;
        let kind = Kind::GridSample(sample.interpolation, sample.outside, sample.align_corners);
        self.result(kind, &[image, grid], self.output(node)?, Layout::ChannelsLast)
    }

    pub(super) fn lrn(&mut self, node: &Node) -> Outcome<()> {
        let lrn: Lrn = node.typed()?;
        let size = lrn.size.get();
        if size.is_multiple_of(2) {
            return Err(Refusal::attribute(format!("size {size} is even")));
        }
        let (image, _) = self.image(node)?;
        let numbers = [lrn.alpha, lrn.beta, lrn.bias];
        self.image_result(Kind::Lrn(size, numbers), &[image], self.output(node)?)
    }
}
