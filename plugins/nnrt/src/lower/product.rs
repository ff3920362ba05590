//! Convolutions, matrix products and normalisations, and their constants.
//!
//! Invariant: images are channels last; filters are `[out, kh, kw, in / group]`, weights of a full connection `[out, in]`.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::geometry::Window;
use polychip_ops::{Attr, Op};
use polychip_sys::nnrt::bindings as sys;

use super::builder::{Lower, Param, axis, input, int, output};
use super::image::{Place, geometry};
use crate::program::TensorId;

impl Lower<'_> {
    /// A constant's floats, where it is one.
    fn weights(&self, tensor: TensorIndex) -> Outcome<Vec<f32>> {
        match self.part.is_constant(tensor) {
            true => self.reals(tensor),
            false => Err(Refusal::constant(format!(
                "weights {} are computed",
                self.name(tensor)
            ))),
        }
    }

    /// A bias of `channels`, zeros where there is none; one value is for all.
    fn bias(&self, tensor: Option<TensorIndex>, channels: usize, factor: f32) -> Outcome<Vec<f32>> {
        let Some(tensor) = tensor else {
            return Ok(vec![0.0; channels]);
        };
        let reals: Vec<f32> = self.weights(tensor)?.iter().map(|real| real * factor).collect();
        match reals.len() {
            1 => Ok(vec![reals[0]; channels]),
            count if count == channels => Ok(reals),
            count => Err(Refusal::shape(format!(
                "a bias of {count} for {channels} channels"
            ))),
        }
    }

    pub(super) fn conv(&mut self, node: &Node) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let filter = input(node, 1)?;
        let kernel = self.shape(filter)?.to_vec();
        let window = Window::new(node.op, &node.attributes, &kernel[2..]).map_err(geometry)?;
        let place = Place::of(&window, &shape[2..])?;
        let group = int(node, Attr::Group, 1).max(1);
        let depthwise = group > 1 && group as usize == shape[1];
        let reals = self.weights(filter)?;
        let bias = self.bias(node.input(2), kernel[0], 1.0)?;
        let ty = self.ty(image);
        let weights = self.floats(ty, &reals, &kernel, &[0, 2, 3, 1]);
        let bias = self.floats(ty, &bias, &[kernel[0]], &[0]);
        let (code, params) = match depthwise {
            true => (
                sys::OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE,
                vec![
                    Param::Longs(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES, place.strides),
                    Param::Longs(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD, place.pads),
                    Param::Longs(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION, place.dilations),
                    Param::unfused(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE),
                ],
            ),
            false => (
                sys::OH_NN_OPS_CONV2D,
                vec![
                    Param::Longs(sys::OH_NN_CONV2D_STRIDES, place.strides),
                    Param::Longs(sys::OH_NN_CONV2D_PAD, place.pads),
                    Param::Longs(sys::OH_NN_CONV2D_DILATION, place.dilations),
                    Param::Long(sys::OH_NN_CONV2D_GROUP, group),
                    Param::unfused(sys::OH_NN_CONV2D_ACTIVATION_TYPE),
                ],
            ),
        };
        let out = self.write(output(node)?, Layout::ChannelsLast)?;
        self.op(code, &[image, weights, bias], &[out], params);
        Ok(())
    }

    /// `rows × in` by constant weights, with a bias.
    fn connected(
        &mut self,
        from: TensorId,
        matrix: TensorIndex,
        transposed: bool,
        bias: Option<TensorIndex>,
        (alpha, beta): (f32, f32),
        to: TensorIndex,
    ) -> Outcome<()> {
        let shape = self.shape(matrix)?.to_vec();
        let order = if transposed { [0, 1] } else { [1, 0] };
        let (units, inner) = (shape[order[0]], shape[order[1]]);
        let rows = self.dims(from).iter().product::<usize>() / inner.max(1);
        let from = self.reshaped(from, &[rows, inner]);
        let ty = self.ty(from);
        if !ty.is_float() || ty != self.info(to)?.ty {
            return Err(Refusal::dtype(format!("a product of {ty:?}")));
        }
        let reals: Vec<f32> = self.weights(matrix)?.iter().map(|real| real * alpha).collect();
        let weights = self.floats(ty, &reals, &shape, &order);
        let bias = self.bias(bias, units, beta)?;
        let bias = self.floats(ty, &bias, &[units], &[0]);
        let params = vec![
            Param::Truth(sys::OH_NN_FULL_CONNECTION_HAS_BIAS, true),
            Param::unfused(sys::OH_NN_FULL_CONNECTION_ACTIVATIONTYPE),
        ];
        let code = sys::OH_NN_OPS_FULL_CONNECTION;
        let out = self.like(code, from, &[rows, units], &[from, weights, bias], params);
        self.settle(out, to, Layout::RowMajor)
    }

    pub(super) fn gemm(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (left, right) = (input(node, 0)?, input(node, 1)?);
        let factor = |attr| node.attributes.float(attr).unwrap_or(1.0);
        let factors = (factor(Attr::Alpha), factor(Attr::Beta));
        let flags = (int(node, Attr::TransA, 0) != 0, int(node, Attr::TransB, 0) != 0);
        let units = self.shape(to)?[1];
        let is_row = |shape: &[usize]| {
            let elements: usize = shape.iter().product();
            elements == 1 || elements == units && shape.last() == Some(&units)
        };
        let folds = match node.input(2) {
            Some(sum) => self.part.is_constant(sum) && is_row(self.shape(sum)?),
            None => true,
        };
        if self.part.is_constant(right) && folds {
            let mut from = self.read(left, Layout::RowMajor)?;
            if flags.0 {
                from = self.transposed(from, &[1, 0], Layout::RowMajor);
            }
            return self.connected(from, right, flags.1, node.input(2), factors, to);
        }
        if factors != (1.0, 1.0) || node.input(2).is_some() {
            return Err(Refusal::attribute(
                "factors or a sum of a product of computed tensors",
            ));
        }
        self.product((left, right), flags, to)
    }

    /// A product of tensors whose batches are alike.
    fn product(
        &mut self,
        (left, right): (TensorIndex, TensorIndex),
        flags: (bool, bool),
        to: TensorIndex,
    ) -> Outcome<()> {
        let wanted = self.shape(to)?;
        for tensor in [left, right] {
            let info = self.info(tensor)?;
            let batches = info.shape.len() == wanted.len()
                && wanted.len() >= 2
                && info.shape[..wanted.len() - 2] == wanted[..wanted.len() - 2];
            if !batches {
                return Err(Refusal::shape(format!(
                    "a product of {:?} that is repeated",
                    info.shape
                )));
            }
            if !info.ty.is_float() || info.ty != self.info(to)?.ty {
                return Err(Refusal::dtype(format!("a product of {:?}", info.ty)));
            }
        }
        let left = self.read(left, Layout::RowMajor)?;
        let right = self.read(right, Layout::RowMajor)?;
        let params = vec![
            Param::Truth(sys::OH_NN_MATMUL_TRANSPOSE_A, flags.0),
            Param::Truth(sys::OH_NN_MATMUL_TRANSPOSE_B, flags.1),
            Param::unfused(sys::OH_NN_MATMUL_ACTIVATION_TYPE),
        ];
        let out = self.write(to, Layout::RowMajor)?;
        self.op(sys::OH_NN_OPS_MATMUL, &[left, right], &[out], params);
        Ok(())
    }

    pub(super) fn matmul(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (left, right) = (input(node, 0)?, input(node, 1)?);
        if self.part.is_constant(right) && self.rank(right)? == 2 && !self.part.is_constant(left) {
            let from = self.read(left, Layout::RowMajor)?;
            return self.connected(from, right, false, None, (1.0, 1.0), to);
        }
        self.product((left, right), (false, false), to)
    }

    /// A normalisation by known statistics.
    pub(super) fn batch_norm(&mut self, node: &Node) -> Outcome<()> {
        let tensor = input(node, 0)?;
        let rank = self.rank(tensor)?;
        if rank < 2 || !self.info(tensor)?.ty.is_float() {
            return Err(Refusal::shape("BatchNormalization of a list or of integers"));
        }
        if int(node, Attr::TrainingMode, 0) != 0 {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let to = output(node)?;
        let from = self.read(tensor, Layout::ChannelsLast)?;
        let mut inputs = vec![from];
        for place in 1..5 {
            let reals = self.weights(input(node, place)?)?;
            inputs.push(self.floats(self.ty(from), &reals, &[reals.len()], &[0]));
        }
        let epsilon = node.attributes.float(Attr::Epsilon).unwrap_or(1e-5);
        let params = vec![Param::Real(sys::OH_NN_BATCH_NORM_EPSILON, epsilon)];
        let dims = self.dims(from);
        let out = self.like(sys::OH_NN_OPS_BATCH_NORM, from, &dims, &inputs, params);
        self.settle(out, to, Layout::ChannelsLast)
    }

    /// A normalisation of the last axes.
    pub(super) fn layer_norm(&mut self, node: &Node) -> Outcome<()> {
        let (tensor, to) = (input(node, 0)?, output(node)?);
        let shape = self.shape(tensor)?.to_vec();
        let first = axis(node, -1, shape.len())?;
        if first == 0 || !self.info(tensor)?.ty.is_float() || node.op != Op::LayerNormalization {
            return Err(Refusal::attribute(
                "LayerNormalization of all axes, or of integers",
            ));
        }
        let inner = &shape[first..];
        let elements: usize = inner.iter().product();
        let from = self.read(tensor, Layout::RowMajor)?;
        let mut inputs = vec![from];
        for (place, neutral) in [(1, 1.0), (2, 0.0)] {
            let reals = match node.input(place) {
                Some(tensor) => self.weights(tensor)?,
                None => vec![neutral; elements],
            };
            if reals.len() != elements {
                return Err(Refusal::shape(format!(
                    "{} factors or shifts of {inner:?}",
                    reals.len()
                )));
            }
            let every: Vec<usize> = (0..inner.len()).collect();
            inputs.push(self.floats(self.ty(from), &reals, inner, &every));
        }
        let epsilon = node.attributes.float(Attr::Epsilon).unwrap_or(1e-5);
        let params = vec![
            Param::Long(sys::OH_NN_LAYER_NORM_BEGIN_NORM_AXIS, first as i64),
            Param::Real(sys::OH_NN_LAYER_NORM_EPSILON, epsilon),
            Param::Long(sys::OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS, first as i64),
        ];
        let out = self.like(sys::OH_NN_OPS_LAYER_NORM, from, &shape, &inputs, params);
        self.settle(out, to, Layout::RowMajor)
    }
}
