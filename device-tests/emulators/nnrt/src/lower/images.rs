//! Operations on images `[n, h, w, c]`, and normalisations and products beside them.

use polychip_emulator_chip::program::Id;
use polychip_ops::{Attr, Attributes, Op};
use polychip_sys::nnrt::bindings as sys;

use super::{Lower, Outcome, ints, with_axis};

/// The runtime's pads (above, below, left, right) as ONNX's.
fn pads(values: &[i64]) -> Vec<i64> {
    vec![values[0], values[2], values[1], values[3]]
}

impl Lower<'_> {
    /// The first input, an image of reals, channels first; and its shape as given.
    fn image(&mut self) -> Outcome<(Id, Vec<usize>)> {
        self.reals(0)?;
        let shape = self.shape(0)?;
        if shape.len() != 4 {
            return Err(format!("{shape:?} is no image"));
        }
        let value = self.value(0)?;
        Ok((self.builder.channels_first(value, 4), shape))
    }

    /// Stores an image that is channels first.
    fn give_image(&mut self, value: Id) -> Outcome<()> {
        let value = self.builder.channels_last(value, 4);
        self.give(value, 0)
    }

    pub(super) fn conv(&mut self) -> Outcome<()> {
        self.takes(3)?;
        let params = self.params()?;
        let (image, shape) = self.image()?;
        let filter = self.shape(1)?;
        let depthwise = self.operation.code == sys::OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE;
        let (stride, pad, dilation, activation) = if depthwise {
            (
                sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES,
                sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD,
                sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION,
                sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE,
            )
        } else {
            (
                sys::OH_NN_CONV2D_STRIDES,
                sys::OH_NN_CONV2D_PAD,
                sys::OH_NN_CONV2D_DILATION,
                sys::OH_NN_CONV2D_ACTIVATION_TYPE,
            )
        };
        let group = if depthwise {
            shape[3]
        } else {
            params.long(sys::OH_NN_CONV2D_GROUP)?.max(1) as usize
        };
        let fits = filter.len() == 4 && filter[3] * group == shape[3] && filter[0].is_multiple_of(group);
        if !fits || self.shape(2)? != [filter[0]] {
            return Err(format!("a filter {filter:?} in {group} groups on {shape:?}"));
        }
        let attributes = Attributes::new()
            .with(Attr::Strides, ints(params.longs(stride, 2)?))
            .with(Attr::Dilations, ints(params.longs(dilation, 2)?))
            .with(Attr::Pads, ints(pads(&params.longs(pad, 4)?)))
            .with_int(Attr::Group, group as i64);
        let (weights, bias) = (self.value(1)?, self.bias()?);
        let weights = self.builder.transpose(weights, &[0, 3, 1, 2]);
        let out = self.step(Op::Conv, attributes, &[image, weights, bias]);
        let out = self.activated(out, params.byte(activation))?;
        self.give_image(out)
    }

    pub(super) fn pool(&mut self) -> Outcome<()> {
        self.takes(1)?;
        let params = self.params()?;
        let (image, _) = self.image()?;
        let average = self.operation.code == sys::OH_NN_OPS_AVG_POOL;
        let (op, kernel, stride, pad, round, activation) = if average {
            (
                Op::AveragePool,
                sys::OH_NN_AVG_POOL_KERNEL_SIZE,
                sys::OH_NN_AVG_POOL_STRIDE,
                sys::OH_NN_AVG_POOL_PAD,
                sys::OH_NN_AVG_POOL_ROUND_MODE,
                sys::OH_NN_AVG_POOL_ACTIVATION_TYPE,
            )
        } else {
            (
                Op::MaxPool,
                sys::OH_NN_MAX_POOL_KERNEL_SIZE,
                sys::OH_NN_MAX_POOL_STRIDE,
                sys::OH_NN_MAX_POOL_PAD,
                sys::OH_NN_MAX_POOL_ROUND_MODE,
                sys::OH_NN_MAX_POOL_ACTIVATION_TYPE,
            )
        };
        let padded = params.longs(pad, 4)?;
        if average && padded.iter().any(|&pad| pad != 0) {
            return Err("what an average over pads counts is not known".to_owned());
        }
        let attributes = Attributes::new()
            .with(Attr::KernelShape, ints(params.longs(kernel, 2)?))
            .with(Attr::Strides, ints(params.longs(stride, 2)?))
            .with(Attr::Pads, ints(pads(&padded)))
            .with_int(Attr::CeilMode, params.int(round).unwrap_or(0).into());
        let out = self.step(op, attributes, &[image]);
        let out = self.activated(out, params.byte(activation))?;
        self.give_image(out)
    }

    pub(super) fn resize(&mut self) -> Outcome<()> {
        self.takes(1)?;
        self.floats(0)?;
        let params = self.params()?;
        let (image, shape) = self.image()?;
        let centres = match params.byte(sys::OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE) {
            Some(0) => "asymmetric",
            Some(1) => "align_corners",
            Some(2) => "half_pixel",
            other => return Err(format!("coordinates by {other:?}")),
        };
        let plain = !params.truth(sys::OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO)
            && params.long(sys::OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE)? == 0;
        if !plain {
            return Err("an aspect ratio that is preserved, or weights outside".to_owned());
        }
        let sizes = [
            shape[0] as i64,
            shape[3] as i64,
            params.long(sys::OH_NN_RESIZE_BILINEAR_NEW_HEIGHT)?,
            params.long(sys::OH_NN_RESIZE_BILINEAR_NEW_WIDTH)?,
        ];
        let attributes = Attributes::new()
            .with_str(Attr::Mode, "linear")
            .with_str(Attr::CoordinateTransformationMode, centres);
        let sizes = self.known(&sizes)?;
        let out = self.builder.between();
        let inputs = [Some(image), None, None, Some(sizes)];
        self.builder.step_to(Op::Resize, attributes, &inputs, &[out]);
        self.give_image(out)
    }

    pub(super) fn blocks(&mut self) -> Outcome<()> {
        self.takes(1)?;
        let params = self.params()?;
        let (image, _) = self.image()?;
        let (op, size, mode) = match self.operation.code {
            sys::OH_NN_OPS_DEPTH_TO_SPACE => {
                let mode = match params.int(sys::OH_NN_DEPTH_TO_SPACE_MODE) {
                    None | Some(0) => "DCR",
                    Some(1) => "CRD",
                    Some(mode) => return Err(format!("mode {mode}")),
                };
                (Op::DepthToSpace, sys::OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE, mode)
            }
            _ => (Op::SpaceToDepth, sys::OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE, "DCR"),
        };
        let attributes = Attributes::new()
            .with_int(Attr::Blocksize, params.long(size)?)
            .with_str(Attr::Mode, mode);
        let out = self.step(op, attributes, &[image]);
        self.give_image(out)
    }

    pub(super) fn batch_norm(&mut self) -> Outcome<()> {
        self.takes(5)?;
        self.floats(0)?;
        let rank = self.shape(0)?.len();
        if rank < 2 {
            return Err("a list has no channels".to_owned());
        }
        let epsilon = self.params()?.real(sys::OH_NN_BATCH_NORM_EPSILON)?;
        let mut inputs = Vec::new();
        for place in 0..5 {
            inputs.push(self.value(place)?);
        }
        inputs[0] = self.builder.channels_first(inputs[0], rank);
        let attributes = Attributes::new().with_float(Attr::Epsilon, epsilon);
        let out = self.step(Op::BatchNormalization, attributes, &inputs);
        let out = self.builder.channels_last(out, rank);
        self.give(out, 0)
    }

    pub(super) fn layer_norm(&mut self) -> Outcome<()> {
        self.takes(3)?;
        self.floats(0)?;
        let params = self.params()?;
        let shape = self.shape(0)?;
        let axis = params.long(sys::OH_NN_LAYER_NORM_BEGIN_NORM_AXIS)?;
        let first = usize::try_from(axis).unwrap_or(0);
        let same = params.long(sys::OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS)? == axis;
        let inner = shape.get(first..).filter(|inner| first > 0 && !inner.is_empty());
        let inner = inner.ok_or_else(|| format!("axis {axis} of {shape:?}"))?;
        if !same || self.shape(1)? != inner || self.shape(2)? != inner {
            return Err(format!("factors and shifts are not of {inner:?}"));
        }
        let epsilon = params.real(sys::OH_NN_LAYER_NORM_EPSILON)?;
        let inputs = [self.value(0)?, self.value(1)?, self.value(2)?];
        let attributes = with_axis(first).with_float(Attr::Epsilon, epsilon);
        let out = self.step(Op::LayerNormalization, attributes, &inputs);
        self.give(out, 0)
    }

    pub(super) fn connected(&mut self) -> Outcome<()> {
        self.takes(3)?;
        self.reals(0)?;
        let params = self.params()?;
        let (from, weights) = (self.shape(0)?, self.shape(1)?);
        let fits = from.len() == 2 && weights.len() == 2 && from[1] == weights[1];
        if !fits || self.shape(2)? != [weights[0]] || !params.truth(sys::OH_NN_FULL_CONNECTION_HAS_BIAS) {
            return Err(format!("{from:?} by {weights:?}"));
        }
        let inputs = [self.value(0)?, self.value(1)?, self.bias()?];
        let attributes = Attributes::new().with_int(Attr::TransB, 1);
        let out = self.step(Op::Gemm, attributes, &inputs);
        let out = self.activated(out, params.byte(sys::OH_NN_FULL_CONNECTION_ACTIVATIONTYPE))?;
        self.give(out, 0)
    }

    pub(super) fn matmul(&mut self) -> Outcome<()> {
        self.takes(2)?;
        self.reals(0)?;
        self.reals(1)?;
        let params = self.params()?;
        let roles = [sys::OH_NN_MATMUL_TRANSPOSE_A, sys::OH_NN_MATMUL_TRANSPOSE_B];
        let mut sides = Vec::new();
        for (place, role) in roles.into_iter().enumerate() {
            let rank = self.shape(place)?.len();
            let mut value = self.value(place)?;
            if params.truth(role) {
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(rank.saturating_sub(2), rank - 1);
                value = self.builder.transpose(value, &order);
            }
            sides.push(value);
        }
        let out = self.step(Op::MatMul, Attributes::new(), &sides);
        let out = self.activated(out, params.byte(sys::OH_NN_MATMUL_ACTIVATION_TYPE))?;
        self.give(out, 0)
    }
}
