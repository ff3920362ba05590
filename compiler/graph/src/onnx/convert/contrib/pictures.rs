//! Ops over pictures: channels last, groups of channels, crops.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers; what has no kernel for the CPU there by its description.

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

impl Foreign<'_, '_> {
    /// A convolution whose channels come last; filters too, in the older of both ops.
    pub(super) fn conv_channels_last(&mut self, filters: bool) -> Result<bool, Error> {
        let (Some(x), Some(weights)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let name = self.text("activation").unwrap_or_default();
        let activation = self.activation(&name, &self.floats("activation_params"));
        let (Some(rank), Some(activation)) = (self.rank(x).filter(|&rank| rank >= 3), activation) else {
            return Ok(false);
        };
        let attributes = self.kept(super::CONVOLUTION);
        let Some(x) = self.channels_first(x, "x.first")? else {
            return Ok(false);
        };
        let weights = if filters {
            self.channels_first(weights, "w.first")?.unwrap_or(weights)
        } else {
            weights
        };
        let inputs = vec![Some(x), Some(weights), self.input(2)];
        let mut y = self.node(Op::Conv, inputs, "product", attributes)?;
        if let Some(added) = self.input(3) {
            let added = self.channels_first(added, "added.first")?.unwrap_or(added);
            y = self.step(Op::Add, &[y, added], "sum")?;
        }
        let (op, attributes, limits) = activation;
        if op != Op::Identity {
            let mut inputs = vec![y];
            for (limit, role) in limits.into_iter().zip(["low", "high"]) {
                inputs.push(self.number(limit, y, role)?);
            }
            y = self.with(op, &inputs, attributes, "activated")?;
        }
        self.last_channels_last(y, rank)
    }

    pub(super) fn max_pool_channels_last(&mut self) -> Result<bool, Error> {
        let Some((x, rank)) = self.input(0).and_then(|x| Some((x, self.rank(x)?))) else {
            return Ok(false);
        };
        let attributes = self.0.node.attributes.clone();
        let Some(x) = self.channels_first(x, "x.first")? else {
            return Ok(false);
        };
        let y = self.with(Op::MaxPool, &[x], attributes, "pooled")?;
        self.last_channels_last(y, rank)
    }

    /// A deconvolution whose padding is an input; it has to be a constant.
    pub(super) fn deconv_of_pads(&mut self) -> Result<bool, Error> {
        let mut attributes = self.kept(&[
            "auto_pad",
            "dilations",
            "group",
            "kernel_shape",
            "output_padding",
            "strides",
        ]);
        if !self.has(&[0, 1]) {
            return Ok(false);
        }
        if let Some(pads) = self.input(2) {
            let tensor = self.0.target.graph.tensor(pads);
            let values = tensor
                .data
                .as_ref()
                .and_then(|data| data.to_literal(&tensor.ty)?.as_i64s());
            let Some(values) = values else { return Ok(false) };
            attributes = attributes.with_ints(Attr::Pads, &values);
        }
        let inputs = vec![self.input(0), self.input(1), self.input(3)];
        self.last(Op::ConvTranspose, inputs, attributes)
    }

    pub(super) fn grid_sample(&mut self) -> Result<bool, Error> {
        let mode = match self.text("mode").as_deref() {
            None | Some("bilinear") => "linear",
            Some("bicubic") => "cubic",
            Some("nearest") => "nearest",
            _ => return Ok(false),
        };
        let mut attributes = self.kept(&["align_corners", "padding_mode"]);
        attributes = attributes.with_str(Attr::Mode, mode);
        let inputs = vec![self.input(0), self.input(1)];
        self.last(Op::GridSample, inputs, attributes)
    }

    /// Normalisation of groups of channels; of a sum, with `skip`.
    pub(super) fn group_norm(&mut self, skip: bool) -> Result<bool, Error> {
        let (Some(x), Some(scale), Some(shift)) = (self.input(0), self.input(1), self.input(2)) else {
            return Ok(false);
        };
        let (Some(rank), Some(groups)) = (self.rank(x).filter(|&rank| rank >= 3), self.int("groups")) else {
            return Ok(false);
        };
        let channels_last = self.int("channels_last").unwrap_or(1) != 0;
        let mut sum = x;
        if skip {
            let Some(added) = self.input(3) else {
                return Ok(false);
            };
            let added = match self.rank(added) {
                Some(2) if channels_last => self.unsqueezed(added, &[1, 2], "skip")?,
                Some(2) => self.unsqueezed(added, &[2, 3], "skip")?,
                Some(_) => added,
                None => return Ok(false),
            };
            sum = self.step(Op::Add, &[x, added], "sum")?;
            if let Some(bias) = self.input(4) {
                let bias = if channels_last {
                    bias
                } else {
                    self.reshaped(bias, &[-1, 1, 1], "bias")?
                };
                sum = self.step(Op::Add, &[sum, bias], "sum.biased")?;
            }
            self.give_output(1, sum)?;
        }
        let wide = self.as_type(sum, DType::F32, "wide")?;
        let scale = self.as_type(scale, DType::F32, "scale.wide")?;
        let shift = self.as_type(shift, DType::F32, "shift.wide")?;
        let wide = match self.channels_first(wide, "first")?.filter(|_| channels_last) {
            Some(first) => first,
            None => wide,
        };
        let attributes = Attributes::new()
            .with_int(Attr::NumGroups, groups)
            .with_float(Attr::Epsilon, self.float("epsilon").unwrap_or(1e-5));
        let mut y = self.with(
            Op::GroupNormalization,
            &[wide, scale, shift],
            attributes,
            "normal",
        )?;
        if self.int("activation").unwrap_or(0) != 0 {
            let gate = self.step(Op::Sigmoid, &[y], "gate")?;
            y = self.step(Op::Mul, &[y, gate], "activated")?;
        }
        if channels_last {
            let rank = rank as i64;
            let perm: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
            y = self.permuted(y, &perm, "back")?;
        }
        self.last(Op::CastLike, vec![Some(y), Some(x)], Attributes::new())
    }

    pub(super) fn bias_add(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1, 2]) {
            return Ok(false);
        }
        let sum = self.step(Op::Add, &[self.0.input(0)?, self.0.input(1)?], "sum")?;
        self.last(Op::Add, vec![Some(sum), self.input(2)], Attributes::new())
    }

    /// The left half times the Gelu of the right one.
    pub(super) fn split_gelu(&mut self) -> Result<bool, Error> {
        if !self.has(&[0, 1]) {
            return Ok(false);
        }
        let sum = self.step(Op::Add, &[self.0.input(0)?, self.0.input(1)?], "sum")?;
        let halves = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_int(Attr::NumOutputs, 2);
        let parts = self.several(Op::Split, vec![Some(sum)], halves, &["left", "right"])?;
        let right = self.step(Op::Gelu, &[parts[1]], "gelu")?;
        self.last(Op::Mul, vec![Some(parts[0]), Some(right)], Attributes::new())
    }

    /// Boxes of pictures, sampled corner to corner.
    pub(super) fn crops(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(boxes), Some(which), Some(size)) =
            (self.input(0), self.input(1), self.input(2), self.input(3))
        else {
            return Ok(false);
        };
        let tensor = self.0.target.graph.tensor(size);
        let size = tensor
            .data
            .as_ref()
            .and_then(|data| data.to_literal(&tensor.ty)?.as_i64s());
        let mode = match self.text("mode").as_deref() {
            None | Some("bilinear") => "linear",
            Some("nearest") => "nearest",
            _ => return Ok(false),
        };
        let Some([height, width]) = size.and_then(|size| <[i64; 2]>::try_from(size).ok()) else {
            return Ok(false);
        };
        if !(1..=super::MAX_PLACES).contains(&height) || !(1..=super::MAX_PLACES).contains(&width) {
            return Ok(false);
        }
        let pictures = self.step(Op::Gather, &[x, which], "pictures")?;
        let sides = self.split(boxes, 1, &[1, 1, 1, 1], &["top", "left", "bottom", "right"])?;
        let rows = self.places([sides[0], sides[2]], height, "rows")?;
        let columns = self.places([sides[1], sides[3]], width, "columns")?;
        let (rows, columns) = (
            self.unsqueezed(rows, &[2], "rows.tall")?,
            self.unsqueezed(columns, &[1], "columns.wide")?,
        );
        // both for each place
        let none = self.step(Op::Sub, &[rows, rows], "rows.none")?;
        let across = self.step(Op::Add, &[columns, none], "columns.all")?;
        let none = self.step(Op::Sub, &[columns, columns], "columns.none")?;
        let down = self.step(Op::Add, &[rows, none], "rows.all")?;
        let mut grid = Vec::new();
        for (x, role) in [(across, "grid.x"), (down, "grid.y")] {
            let twice = self.by(Op::Mul, x, 2.0, &format!("{role}.twice"))?;
            let x = self.by(Op::Sub, twice, 1.0, &format!("{role}.centred"))?;
            grid.push(self.unsqueezed(x, &[3], role)?);
        }
        let grid = self.joined(&grid, 3, "grid")?;
        let attributes = Attributes::new()
            .with_int(Attr::AlignCorners, 1)
            .with_str(Attr::Mode, mode)
            .with_str(Attr::PaddingMode, "border");
        let inner = self.with(Op::GridSample, &[pictures, grid], attributes, "inner")?;
        let mut outside = Vec::new();
        for (part, axis, role) in [(across, 3, "out.x"), (down, 2, "out.y")] {
            let size = self.extent(x, axis, &format!("{role}.size"))?;
            let size = self.step(Op::CastLike, &[size, part], &format!("{role}.real"))?;
            let last = self.by(Op::Sub, size, 1.0, &format!("{role}.last"))?;
            // in pixels: of one pixel, no place is outside
            let place = self.step(Op::Mul, &[part, last], &format!("{role}.place"))?;
            let zero = self.number(0.0, place, &format!("{role}.zero"))?;
            let low = self.step(Op::Less, &[place, zero], &format!("{role}.low"))?;
            let high = self.step(Op::Greater, &[place, last], &format!("{role}.high"))?;
            outside.push(self.step(Op::Or, &[low, high], role)?);
        }
        let outside = self.step(Op::Or, &outside, "outside")?;
        let outside = self.unsqueezed(outside, &[1], "outside.all")?;
        let value = self.number(self.float("extrapolation_value").unwrap_or(0.0), inner, "value")?;
        self.last(
            Op::Where,
            vec![Some(outside), Some(value), Some(inner)],
            Attributes::new(),
        )
    }

    /// So many places between two sides of boxes, each box a row; their middle where it is one.
    fn places(&mut self, [low, high]: [TensorId; 2], count: i64, role: &str) -> Result<TensorId, Error> {
        let steps: Vec<f32> = match count {
            1 => vec![0.5],
            _ => (0..count)
                .map(|index| index as f32 / (count - 1) as f32)
                .collect(),
        };
        let steps = self.0.constant(&format!("{role}.steps"), &Literal::f32s(&steps));
        let steps = self.step(Op::CastLike, &[steps, low], &format!("{role}.like"))?;
        let length = self.step(Op::Sub, &[high, low], &format!("{role}.length"))?;
        let along = self.step(Op::Mul, &[length, steps], &format!("{role}.along"))?;
        self.step(Op::Add, &[low, along], role)
    }
}
