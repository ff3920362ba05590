//! Convolutions and matrix products, and their weights and biases.
//!
//! Invariants:
//! 1. Images are channels last; filters are `[out, kh, kw, in]`, of depthwise ones `[1, kh, kw, out]`; weights of a fully
//!    connected layer `[units, in]`.
//! 2. A quantised bias is of 32 bits with the product of the scales of input and weights, of 0 where these are per channel.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex, layout};
use polychip_ops::geometry::{TransposedWindow, Window};
use polychip_ops::{Attr, DType, InferError};
use polychip_sdk::{EncodingKind, Reason};
use polychip_sys::neuron::bindings as sys;

use super::builder::{Lower, input, int, output};
use crate::program::{OperandId, Quant, Type};

/// Weights, with one scale or one per output channel; none for floats.
struct Weights {
    id: OperandId,
    scales: Vec<f32>,
}

/// How a window lies on an image.
pub(super) struct Place {
    pub(super) kernel: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// Rows above and below, columns left and right.
    pub(super) pads: [(usize, usize); 2],
    /// The code of pads that the library finds itself.
    pub(super) scheme: Option<u32>,
}

pub(super) fn geometry(error: InferError) -> Refusal {
    Refusal::attribute(error.to_string())
}

/// Two values per window, of an image of two spatial axes.
pub(super) fn two(values: &[usize]) -> Outcome<[usize; 2]> {
    let wrong = |_| {
        Refusal::new(
            Reason::Rank,
            format!("a window of {} axes; 2 are offered", values.len()),
        )
    };
    values.try_into().map_err(wrong)
}

impl Place {
    pub(super) fn of(window: &Window, spatial: &[usize]) -> Outcome<Place> {
        let placed = window.resolve(spatial).map_err(geometry)?;
        let (kernel, strides) = (two(&window.kernel)?, two(&window.strides)?);
        let mut pads = [(0, 0); 2];
        let mut same = true;
        for axis in 0..2 {
            let extent = window.extent(axis).unwrap_or(usize::MAX);
            let reach = (placed.output[axis] - 1) * strides[axis] + extent;
            // a last window that only begins inside the image is had by padding more behind
            let end = reach.saturating_sub(spatial[axis] + placed.begin[axis]);
            let end = if window.ceil { end } else { placed.end[axis] };
            pads[axis] = (placed.begin[axis], end);
            let total = (spatial[axis].div_ceil(strides[axis]) - 1) * strides[axis] + extent;
            let total = total.saturating_sub(spatial[axis]);
            same &= pads[axis] == (total / 2, total - total / 2);
        }
        let scheme = match (pads == [(0, 0); 2], same) {
            (true, _) => Some(sys::NEURON_PADDING_VALID),
            (_, true) => Some(sys::NEURON_PADDING_SAME),
            _ => None,
        };
        Ok(Place {
            kernel,
            strides,
            dilations: two(&window.dilations)?,
            pads,
            scheme,
        })
    }
}

impl Lower<'_> {
    /// Pads, as code or as numbers, and steps: columns before rows.
    pub(super) fn window(&mut self, place: &Place) -> Vec<OperandId> {
        let [(top, bottom), (left, right)] = place.pads;
        let mut numbers = match place.scheme {
            Some(scheme) => vec![scheme as usize],
            None => vec![left, right, top, bottom],
        };
        numbers.extend([place.strides[1], place.strides[0]]);
        numbers.into_iter().map(|value| self.int(value)).collect()
    }

    /// A constant as weights: its axes in the order of `permutation`, `channel` the place of the output's. `activations` is
    /// what they are multiplied with.
    fn weights(
        &mut self,
        tensor: TensorIndex,
        permutation: &[usize],
        channel: usize,
        activations: Type,
        factor: f32,
    ) -> Outcome<Weights> {
        let view = self.view(tensor);
        let shape = self.shape(tensor)?;
        if !view.is_constant() {
            return Err(Refusal::constant(format!("weights {}", view.name)));
        }
        let dims: Vec<usize> = permutation.iter().map(|&axis| shape[axis]).collect();
        if activations.is_float() {
            let reals: Vec<f32> = view.reals()?.into_iter().map(|real| real * factor).collect();
            let id = self.floats(activations, &reals, shape, permutation);
            return Ok(Weights {
                id,
                scales: Vec::new(),
            });
        }
        let Some(encoding) = &view.encoding else {
            return Err(Refusal::encoding(format!(
                "weights {} have no encoding",
                view.name
            )));
        };
        let per_axis = match encoding.kind {
            EncodingKind::PerTensor => false,
            EncodingKind::PerAxis { axis } if axis == permutation[channel] => true,
            kind => {
                return Err(Refusal::encoding(format!(
                    "weights {} have scales {kind:?}",
                    view.name
                )));
            }
        };
        let shift = match (view.dtype, activations) {
            (DType::I8, _) | (DType::U8, Type::U8) if !per_axis || view.dtype == DType::I8 => 0,
            // symmetric but for its storage
            (DType::U8, _) => 128,
            (dtype, _) => return Err(Refusal::encoding(format!("weights {} are of {dtype}", view.name))),
        };
        let stored: Vec<i32> = view.integers()?.into_iter().map(|value| value - shift).collect();
        let scales: Vec<f32> = encoding.scales.iter().map(|scale| scale * factor).collect();
        let zero = |place: usize| encoding.zero_points.get(place).copied().unwrap_or(0) - shift;
        let signed = view.dtype == DType::I8 || shift == 128;
        let symmetric = (0..scales.len()).all(|place| zero(place) == 0);
        // of one scale and the activations' own type, they are as any tensor; else one scale per channel, and no zero point
        let alike = !per_axis && signed == (activations == Type::S8);
        if !alike && !symmetric {
            let what = format!(
                "weights {} have a zero point, and another type or more scales than the input",
                view.name
            );
            return Err(Refusal::encoding(what));
        }
        let bytes: Vec<u8> = stored.iter().map(|&value| value as u8).collect();
        let bytes = layout::transpose(&bytes, 1, shape, permutation);
        if alike {
            let quant = Quant {
                scale: scales[0],
                zero: zero(0),
            };
            let id = self.fixed(activations, quant, &dims, bytes);
            return Ok(Weights { id, scales });
        }
        let id = self.fixed(Type::S8, Quant::default(), &dims, bytes);
        let scales = if per_axis {
            scales
        } else {
            vec![scales[0]; dims[channel]]
        };
        let operand = &mut self.program.operands[id];
        operand.code = sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL;
        operand.channels = Some((channel as u32, scales.clone()));
        Ok(Weights { id, scales })
    }

    /// Constant floats in an order of axes.
    pub(super) fn floats(
        &mut self,
        ty: Type,
        reals: &[f32],
        shape: &[usize],
        permutation: &[usize],
    ) -> OperandId {
        let bytes: Vec<u8> = match ty {
            Type::F16 => {
                let half = |&real: &f32| half::f16::from_f32(real).to_le_bytes();
                reals.iter().flat_map(half).collect()
            }
            _ => reals.iter().flat_map(|real| real.to_le_bytes()).collect(),
        };
        let dims: Vec<usize> = permutation.iter().map(|&axis| shape[axis]).collect();
        let bytes = layout::transpose(&bytes, ty.bytes(), shape, permutation);
        self.fixed(ty, Quant::default(), &dims, bytes)
    }

    /// A constant as the bias of `channels` channels, zeros where there is none.
    fn bias(
        &mut self,
        tensor: Option<TensorIndex>,
        channels: usize,
        input: OperandId,
        weights: &Weights,
        factor: f32,
    ) -> Outcome<OperandId> {
        let mut reals = match tensor {
            // integers of the steps that the products have
            Some(tensor) if self.view(tensor).encoding.is_none() && !self.view(tensor).dtype.is_float() => {
                return Err(Refusal::encoding(format!(
                    "bias {} has no encoding",
                    self.view(tensor).name
                )));
            }
            Some(tensor) => self.view(tensor).reals()?,
            None => vec![0.0],
        };
        if reals.len() == 1 {
            reals = vec![reals[0]; channels];
        }
        if reals.len() != channels {
            return Err(Refusal::shape(format!(
                "a bias of {} elements for {channels} channels",
                reals.len()
            )));
        }
        reals.iter_mut().for_each(|real| *real *= factor);
        let ty = self.ty(input);
        if ty.is_float() {
            return Ok(self.floats(ty, &reals, &[channels], &[0]));
        }
        let scale = self.quant(input).scale;
        let step =
            |channel: usize| f64::from(scale) * f64::from(weights.scales[channel % weights.scales.len()]);
        let mut bytes = Vec::with_capacity(4 * channels);
        for (channel, &real) in reals.iter().enumerate() {
            let value = (f64::from(real) / step(channel)).round_ties_even();
            if value.is_nan() || value.abs() > f64::from(i32::MAX) {
                return Err(Refusal::encoding(format!(
                    "a bias of {real} is beyond 32 bits of its scale"
                )));
            }
            bytes.extend_from_slice(&(value as i32).to_le_bytes());
        }
        let one = self.program.operands[weights.id].channels.is_none();
        let scale = if one { scale * weights.scales[0] } else { 0.0 };
        Ok(self.fixed(Type::I32, Quant { scale, zero: 0 }, &[channels], bytes))
    }

    /// The image of a node as `[n, h, w, c]`, and its ONNX shape.
    pub(super) fn image(&mut self, node: &Node) -> Outcome<(OperandId, Vec<usize>)> {
        let tensor = input(node, 0)?;
        let shape = self.shape(tensor)?.to_vec();
        if shape.len() != 4 {
            let what = format!("{} of {} axes; 4 are offered", node.op_name, shape.len());
            return Err(Refusal::new(Reason::Rank, what));
        }
        Ok((self.read(tensor, Layout::ChannelsLast)?, shape))
    }

    pub(super) fn conv(&mut self, node: &Node) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let filter = input(node, 1)?;
        let kernel = self.shape(filter)?;
        let window = Window::new(node.op, &node.attributes, &kernel[2..]).map_err(geometry)?;
        let place = Place::of(&window, &shape[2..])?;
        let group = int(node, Attr::Group, 1).max(1) as usize;
        let depthwise = group > 1 && group == shape[1];
        let (permutation, channel) = if depthwise {
            ([1, 2, 3, 0], 3)
        } else {
            ([0, 2, 3, 1], 0)
        };
        let weights = self.weights(filter, &permutation, channel, self.ty(image), 1.0)?;
        let bias = self.bias(node.input(2), kernel[0], image, &weights, 1.0)?;
        let mut inputs = vec![image, weights.id, bias];
        inputs.extend(self.window(&place));
        let code = if depthwise {
            inputs.push(self.int(kernel[0] / group));
            sys::NEURON_DEPTHWISE_CONV_2D
        } else if group > 1 {
            inputs.push(self.int(group));
            sys::NEURON_GROUPED_CONV_2D
        } else {
            sys::NEURON_CONV_2D
        };
        inputs.extend([self.unfused(), self.truth(false)]);
        if code != sys::NEURON_GROUPED_CONV_2D {
            inputs.extend([self.int(place.dilations[1]), self.int(place.dilations[0])]);
        } else if place.dilations != [1, 1] {
            return Err(Refusal::attribute("dilations of a grouped convolution"));
        }
        let out = self.write(output(node)?, Layout::ChannelsLast)?;
        self.op(code, &inputs, &[out]);
        Ok(())
    }

    pub(super) fn conv_transpose(&mut self, node: &Node) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let filter = input(node, 1)?;
        let kernel = self.shape(filter)?;
        let window = TransposedWindow::new(node.op, &node.attributes, &kernel[2..]).map_err(geometry)?;
        let placed = window.resolve(&shape[2..]).map_err(geometry)?;
        if int(node, Attr::Group, 1) != 1 || window.window.dilations != [1, 1] {
            return Err(Refusal::attribute(
                "groups or dilations of a transposed convolution",
            ));
        }
        let to = output(node)?;
        let strides = two(&window.window.strides)?;
        let mut pads = [(0, 0); 2];
        for axis in 0..2 {
            let reach = (shape[2 + axis] - 1) * strides[axis] + kernel[2 + axis];
            let (begin, wanted) = (placed.begin[axis], self.shape(to)?[2 + axis]);
            let end = reach.checked_sub(begin + wanted);
            let what = "a transposed convolution with more behind its last window";
            pads[axis] = (begin, end.ok_or_else(|| Refusal::attribute(what))?);
        }
        let place = Place {
            kernel: two(&kernel[2..])?,
            strides,
            dilations: [1, 1],
            pads,
            scheme: None,
        };
        let weights = self.weights(filter, &[1, 2, 3, 0], 0, self.ty(image), 1.0)?;
        let bias = self.bias(node.input(2), kernel[1], image, &weights, 1.0)?;
        let mut inputs = vec![image, weights.id, bias];
        inputs.extend(self.window(&place));
        inputs.extend([self.unfused(), self.truth(false)]);
        let out = self.write(to, Layout::ChannelsLast)?;
        self.op(sys::NEURON_TRANSPOSE_CONV_2D, &inputs, &[out]);
        Ok(())
    }

    /// `[rows, in] × weights`, with a bias.
    fn connected(
        &mut self,
        from: OperandId,
        matrix: TensorIndex,
        transposed: bool,
        bias: Option<TensorIndex>,
        (alpha, beta): (f32, f32),
        to: TensorIndex,
    ) -> Outcome<()> {
        let shape = self.shape(matrix)?;
        let permutation = if transposed { [0, 1] } else { [1, 0] };
        let (units, inner) = (shape[permutation[0]], shape[permutation[1]]);
        let rows = self.dims(from).iter().product::<usize>() / inner.max(1);
        let from = self.reshaped(from, &[rows, inner])?;
        let weights = self.weights(matrix, &permutation, 0, self.ty(from), alpha)?;
        let bias = self.bias(bias, units, from, &weights, beta)?;
        let unfused = self.unfused();
        let info = self.info(to)?;
        let out = self.tensor(info.ty, info.quant, &[rows, units]);
        self.op(
            sys::NEURON_FULLY_CONNECTED,
            &[from, weights.id, bias, unfused],
            &[out],
        );
        self.settle(out, to, Layout::RowMajor)
    }

    pub(super) fn gemm(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (left, right) = (input(node, 0)?, input(node, 1)?);
        let factors = [Attr::Alpha, Attr::Beta].map(|attr| node.attributes.float(attr).unwrap_or(1.0));
        let flags = [Attr::TransA, Attr::TransB].map(|attr| int(node, attr, 0) != 0);
        let units = self.shape(to)?[1];
        let row = |shape: &[usize]| {
            matches!(shape, [] | [1] | [1, 1])
                || shape.iter().product::<usize>() == units && shape.last() == Some(&units)
        };
        let folds = match node.input(2) {
            Some(sum) => self.part.is_constant(sum) && row(self.shape(sum)?),
            None => true,
        };
        if self.part.is_constant(right) && folds && factors[0] > 0.0 {
            let mut from = self.read(left, Layout::RowMajor)?;
            if flags[0] {
                from = self.transposed(from, &[1, 0])?;
            }
            return self.connected(from, right, flags[1], node.input(2), (factors[0], factors[1]), to);
        }
        if factors != [1.0, 1.0] || node.input(2).is_some() {
            return Err(Refusal::attribute(
                "factors or a sum of a product of computed tensors",
            ));
        }
        self.batched(left, right, flags, to)
    }

    /// A product of tensors whose batches are alike.
    fn batched(
        &mut self,
        left: TensorIndex,
        right: TensorIndex,
        flags: [bool; 2],
        to: TensorIndex,
    ) -> Outcome<()> {
        let mut sides = Vec::new();
        for tensor in [left, right] {
            let (shape, rank) = (self.shape(tensor)?, self.shape(to)?.len());
            if shape.len() < 2 || shape.len() != rank || shape[..rank - 2] != self.shape(to)?[..rank - 2] {
                return Err(Refusal::shape(format!(
                    "a product of {shape:?} that is repeated, or of a vector"
                )));
            }
            if self.info(tensor)?.ty == Type::I32 {
                return Err(Refusal::dtype("a product of plain integers"));
            }
            sides.push(self.read(tensor, Layout::RowMajor)?);
        }
        let flags = flags.map(|flag| self.truth(flag));
        let out = self.write(to, Layout::RowMajor)?;
        self.op(
            sys::NEURON_BATCH_MATMUL,
            &[sides[0], sides[1], flags[0], flags[1]],
            &[out],
        );
        Ok(())
    }

    pub(super) fn matmul(&mut self, node: &Node) -> Outcome<()> {
        let to = output(node)?;
        let (left, right) = (input(node, 0)?, input(node, 1)?);
        if self.part.is_constant(right) && self.shape(right)?.len() == 2 && !self.part.is_constant(left) {
            if self.info(left)?.ty == Type::I32 {
                return Err(Refusal::dtype("a product of plain integers"));
            }
            let from = self.read(left, Layout::RowMajor)?;
            return self.connected(from, right, false, None, (1.0, 1.0), to);
        }
        self.batched(left, right, [false, false], to)
    }

    /// Scale and shift per channel of a normalisation by known statistics.
    pub(super) fn batch_norm(&mut self, node: &Node) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let ty = self.ty(image);
        if !ty.is_float() {
            return Err(Refusal::encoding("BatchNormalization of integers"));
        }
        let mut reals = Vec::new();
        for place in 1..5 {
            reals.push(self.view(input(node, place)?).reals()?);
        }
        let epsilon = node.attributes.float(Attr::Epsilon).unwrap_or(1e-5);
        let factors: Vec<f32> = (0..shape[1])
            .map(|c| reals[0][c] / (reals[3][c] + epsilon).sqrt())
            .collect();
        let shifts: Vec<f32> = (0..shape[1])
            .map(|c| reals[1][c] - reals[2][c] * factors[c])
            .collect();
        let dims = self.dims(image);
        let [factors, shifts] = [factors, shifts].map(|values| self.floats(ty, &values, &[shape[1]], &[0]));
        let unfused = self.unfused();
        let scaled = self.like(sys::NEURON_MUL, image, &dims, &[image, factors, unfused]);
        let unfused = self.unfused();
        let out = self.like(sys::NEURON_ADD, image, &dims, &[scaled, shifts, unfused]);
        self.settle(out, output(node)?, Layout::ChannelsLast)
    }
}
