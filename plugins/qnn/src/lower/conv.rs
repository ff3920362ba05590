//! Convolutions, and the weights and biases of everything that multiplies by weights.
//!
//! Invariants:
//! 1. Images are channels last; filters are `[kh, kw, in / group, out]`. A convolution along one axis is one of
//!    height 1.
//! 2. A quantised bias is of 32 bits with the product of the scales of input and weights.
//! 3. Beside 16-bit activations, weights are symmetric integers of 8 bits or fewer: others are off by tens of
//!    steps on every chip that was tried.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex, layout};
use polychip_ops::geometry::{Placement, TransposedWindow, Window};
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::{Encoding, EncodingKind};

use super::builder::{Domain, Lower, int, pairs, u32s};
use crate::constant;
use crate::program::{Param, Quant, TensorId, Type};

/// Constant weights as the library wants them.
pub(super) struct Weights {
    pub(super) id: TensorId,
    /// One scale, or one per output channel; empty for floats.
    pub(super) scales: Vec<f32>,
}

impl Lower<'_> {
    /// A constant as weights: its axes in the order of `permutation`, and `axis` the output channels.
    pub(super) fn weights(
        &mut self,
        tensor: TensorIndex,
        permutation: &[usize],
        axis: usize,
        domain: Domain,
    ) -> Outcome<Weights> {
        let encoding = self.view(tensor).encoding.clone();
        self.scaled_weights(tensor, permutation, axis, domain, encoding, 1.0)
    }

    /// As [`Lower::weights`], with this encoding and all of them multiplied by a positive `factor`.
    pub(super) fn scaled_weights(
        &mut self,
        tensor: TensorIndex,
        permutation: &[usize],
        axis: usize,
        domain: Domain,
        encoding: Option<Encoding>,
        factor: f32,
    ) -> Outcome<Weights> {
        let view = self.view(tensor);
        let name = view.name.to_owned();
        let shape = self.shape(tensor)?;
        let dims: Vec<usize> = permutation.iter().map(|&place| shape[place]).collect();
        let place = permutation.iter().position(|&from| from == axis).unwrap_or(0) as u32;
        let activations = match domain {
            Domain::Float(ty) => {
                let mut reals = self.constant_reals(tensor)?;
                reals.iter_mut().for_each(|real| *real *= factor);
                let bytes = constant::store_floats(ty, &reals);
                let bytes = layout::transpose(&bytes, ty.bytes(), &shape, permutation);
                let id = self.fixed("weights", ty, Quant::None, &dims, bytes);
                return Ok(Weights {
                    id,
                    scales: Vec::new(),
                });
            }
            Domain::Fixed(ty) => ty,
            Domain::Whole => return Err(Refusal::encoding(format!("weights {name} have no encoding"))),
        };
        let mut integers = self.constant_ints(tensor)?;
        let Some(encoding) = encoding else {
            return Err(Refusal::encoding(format!("weights {name} have no encoding")));
        };
        let per_axis = match encoding.kind {
            EncodingKind::PerTensor => false,
            EncodingKind::PerAxis { axis: of } if of == axis => true,
            kind => {
                return Err(Refusal::encoding(format!(
                    "weights {name} have scales {kind:?}; the library wants one, or one per output channel"
                )));
            }
        };
        let scales: Vec<f32> = encoding.scales.iter().map(|scale| scale * factor).collect();
        let mut zeros = encoding.zero_points;
        zeros.resize(scales.len(), 0);
        let mut ty = match view.dtype {
            DType::U8 => Type::Ufixed8,
            DType::I8 | DType::I4 | DType::U4 => Type::Sfixed8,
            DType::I16 => Type::Sfixed16,
            DType::U16 => Type::Ufixed16,
            dtype => return Err(Refusal::encoding(format!("weights {name} are of {dtype}"))),
        };
        let shift = match view.dtype {
            DType::U4 => 8,
            // symmetric but for its storage
            DType::U8 if zeros.iter().all(|&zero| zero == 128) => 128,
            _ => 0,
        };
        if shift != 0 {
            ty = Type::Sfixed8;
            integers.iter_mut().for_each(|value| *value -= shift);
            zeros.iter_mut().for_each(|zero| *zero -= shift as i32);
        }
        let wide = matches!(activations, Type::Ufixed16 | Type::Sfixed16);
        if wide && (ty != Type::Sfixed8 || zeros.iter().any(|&zero| zero != 0)) {
            return Err(Refusal::encoding(format!(
                "weights {name} are asymmetric or of 16 bits; beside 16-bit activations the NPU wants symmetric \
                 integers of 8 bits"
            )));
        }
        let offsets: Vec<i32> = zeros.iter().map(|zero| -zero).collect();
        let channels = shape[axis];
        let spread = |values: &[f32]| match per_axis {
            true => values.to_vec(),
            false => vec![values[0]; channels],
        };
        let quant = if matches!(view.dtype, DType::I4 | DType::U4) {
            Quant::BitsPerAxis {
                bits: 4,
                axis: place,
                scales: spread(&scales),
                offsets: match per_axis {
                    true => offsets,
                    false => vec![offsets[0]; channels],
                },
            }
        } else if per_axis {
            Quant::PerAxis {
                axis: place,
                pairs: scales.iter().copied().zip(offsets).collect(),
            }
        } else {
            Quant::PerTensor {
                scale: scales[0],
                offset: offsets[0],
            }
        };
        let bytes = constant::store(ty, &integers);
        let bytes = layout::transpose(&bytes, ty.bytes(), &shape, permutation);
        let id = self.fixed("weights", ty, quant, &dims, bytes);
        Ok(Weights { id, scales })
    }

    /// A constant as the bias of `channels` output channels.
    pub(super) fn bias(
        &mut self,
        tensor: TensorIndex,
        channels: usize,
        input: TensorId,
        weights: &Weights,
    ) -> Outcome<TensorId> {
        self.scaled_bias(tensor, channels, input, weights, 1.0)
    }

    /// As [`Lower::bias`], with all of it multiplied by `factor`.
    pub(super) fn scaled_bias(
        &mut self,
        tensor: TensorIndex,
        channels: usize,
        input: TensorId,
        weights: &Weights,
        factor: f32,
    ) -> Outcome<TensorId> {
        let name = self.view(tensor).name.to_owned();
        let mut reals = self.constant_reals(tensor)?;
        reals.iter_mut().for_each(|real| *real *= factor);
        if reals.len() == 1 {
            reals = vec![reals[0]; channels];
        }
        if reals.len() != channels {
            return Err(Refusal::shape(format!(
                "bias {name} has {} elements for {channels} channels",
                reals.len()
            )));
        }
        let ty = self.ty_of(input);
        if ty.is_float() {
            let bytes = constant::store_floats(ty, &reals);
            return Ok(self.fixed("bias", ty, Quant::None, &[channels], bytes));
        }
        let (scale, _) = self
            .quant_of(input)
            .per_tensor()
            .ok_or_else(|| Refusal::encoding(format!("the input beside bias {name} has no scale")))?;
        let step = |channel: usize| scale * weights.scales[channel.min(weights.scales.len() - 1)];
        let mut stored = Vec::with_capacity(channels);
        // of 32-bit integers without an encoding, the steps are ours already
        let steps = self.view(tensor).dtype == DType::I32 && self.view(tensor).encoding.is_none();
        for (channel, &real) in reals.iter().enumerate() {
            let step = if steps { 1.0 } else { step(channel) };
            let value = (f64::from(real) / f64::from(step)).round_ties_even();
            if !value.is_finite() || value.abs() > f64::from(i32::MAX) {
                return Err(Refusal::encoding(format!(
                    "bias {name} holds {real}, beyond 32 bits of scale {step}"
                )));
            }
            stored.push(value as i64);
        }
        let quant = if weights.scales.len() > 1 {
            Quant::PerAxis {
                axis: 0,
                pairs: (0..channels).map(|channel| (step(channel), 0)).collect(),
            }
        } else {
            Quant::PerTensor {
                scale: step(0),
                offset: 0,
            }
        };
        let bytes = constant::store(Type::Sfixed32, &stored);
        Ok(self.fixed("bias", Type::Sfixed32, quant, &[channels], bytes))
    }

    /// The image of a node as `[n, h, w, c]`, whether it has one spatial axis or two.
    pub(super) fn image(&mut self, node: &Node) -> Outcome<(TensorId, Vec<usize>)> {
        let input = self.input(node, 0)?;
        let shape = self.shape(input)?;
        if !(3..=4).contains(&shape.len()) {
            return Err(Refusal::new(
                polychip_sdk::Reason::Rank,
                format!("{} of {} axes; 3 and 4 are offered", node.op_name, shape.len()),
            ));
        }
        let id = self.read(input, Layout::ChannelsLast)?;
        let id = match shape[..] {
            [n, c, w] => self.reshaped(id, &[n, 1, w, c]),
            _ => id,
        };
        Ok((id, shape))
    }

    /// A new tensor `[n, h, w, c]` for an output, and what makes it the graph's tensor afterwards.
    pub(super) fn image_out(&mut self, tensor: TensorIndex) -> Outcome<TensorId> {
        let info = self.info(tensor)?;
        match info.shape[..] {
            [n, c, w] => Ok(self.native("image", info.ty, info.quant, &[n, 1, w, c])),
            _ => self.write(tensor, Layout::ChannelsLast),
        }
    }

    pub(super) fn conv(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let filter = self.input(node, 1)?;
        let encoding = self.view(filter).encoding.clone();
        self.conv_of(node, domain, filter, encoding, node.input(2))
    }

    /// A convolution whose filter has this encoding.
    pub(super) fn conv_of(
        &mut self,
        node: &Node,
        domain: Domain,
        filter: TensorIndex,
        encoding: Option<Encoding>,
        bias: Option<TensorIndex>,
    ) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let image = self.widened_for(image, self.output(node, 0)?)?;
        let domain = self.domain_of(image, domain);
        let kernel = self.shape(filter)?;
        let spatial = spatial(&kernel, node.op)?;
        let window = Window::new(node.op, &node.attributes, spatial).map_err(geometry)?;
        let placement = window.resolve(&shape[2..]).map_err(geometry)?;
        let group = int(node, Attr::Group, 1).max(1) as usize;
        let permutation: Vec<usize> = (2..kernel.len()).chain([1, 0]).collect();
        let weights = self.scaled_weights(filter, &permutation, 0, domain, encoding, 1.0)?;
        let id = self.flat_filter(weights.id, kernel.len());
        let mut inputs = vec![image, id];
        if let Some(bias) = bias {
            inputs.push(self.bias(bias, kernel[0], image, &weights)?);
        }
        let output = self.output(node, 0)?;
        let out = self.image_out(output)?;
        let mut params = window_params(&window, &placement);
        params.push(("dilation", u32s(&two(&window.dilations))));
        let depthwise = group == shape[1] && kernel[1] == 1 && group > 1;
        if depthwise {
            self.op("DepthWiseConv2d", params, &inputs, &[out]);
        } else {
            params.push(("group", Param::U32(group as u32)));
            self.op("Conv2d", params, &inputs, &[out]);
        }
        self.settle(out, output, Layout::ChannelsLast)
    }

    pub(super) fn conv_transpose(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let image = self.widened_for(image, self.output(node, 0)?)?;
        let domain = self.domain_of(image, domain);
        let filter = self.input(node, 1)?;
        let kernel = self.shape(filter)?;
        let spatial = spatial(&kernel, node.op)?;
        let window = TransposedWindow::new(node.op, &node.attributes, spatial).map_err(geometry)?;
        let placement = window.resolve(&shape[2..]).map_err(geometry)?;
        if window.window.dilations.iter().any(|&dilation| dilation != 1) {
            return Err(Refusal::attribute(format!(
                "dilations {:?} of a transposed convolution",
                window.window.dilations
            )));
        }
        let group = int(node, Attr::Group, 1).max(1) as usize;
        let permutation: Vec<usize> = (2..kernel.len()).chain([0, 1]).collect();
        let weights = self.weights(filter, &permutation, 1, domain)?;
        if group > 1 && weights.scales.len() > 1 {
            return Err(Refusal::encoding(
                "a grouped transposed convolution has one scale per channel of a group",
            ));
        }
        let id = self.flat_filter(weights.id, kernel.len());
        let mut inputs = vec![image, id];
        if let Some(bias) = node.input(2) {
            inputs.push(self.bias(bias, kernel[1] * group, image, &weights)?);
        }
        let output = self.output(node, 0)?;
        let out = self.image_out(output)?;
        // what the output has beyond stride, kernel and pads
        let wanted = self.shape(output)?;
        let mut more = Vec::new();
        for axis in 0..spatial.len() {
            let reach = (shape[2 + axis] - 1) * window.window.strides[axis] + spatial[axis];
            let cut = placement.begin[axis] + placement.end[axis];
            let extra = (wanted[2 + axis] + cut).checked_sub(reach);
            more.push(extra.ok_or_else(|| {
                Refusal::attribute(format!(
                    "pads of a transposed convolution beyond its reach of {reach}"
                ))
            })?);
        }
        let mut params = window_params(&window.window, &placement);
        params.push(("group", Param::U32(group as u32)));
        let mut padding = more;
        if padding.len() == 1 {
            padding.insert(0, 0);
        }
        params.push(("output_padding", u32s(&padding)));
        self.op("TransposeConv2d", params, &inputs, &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }

    /// A filter along one axis as one of height 1.
    fn flat_filter(&mut self, id: TensorId, rank: usize) -> TensorId {
        if rank == 3 {
            let tensor = &mut self.program.tensors[id];
            tensor.dims.insert(0, 1);
            match &mut tensor.quant {
                Quant::PerAxis { axis, .. } | Quant::BitsPerAxis { axis, .. } => *axis += 1,
                Quant::None | Quant::PerTensor { .. } => {}
            }
        }
        id
    }
}

/// The spatial extents of a filter.
fn spatial(kernel: &[usize], op: Op) -> Outcome<&[usize]> {
    match kernel.len() {
        3 | 4 => Ok(&kernel[2..]),
        rank => Err(Refusal::new(
            polychip_sdk::Reason::Rank,
            format!("{op:?} with a filter of {rank} axes"),
        )),
    }
}

pub(super) fn geometry(error: polychip_ops::InferError) -> Refusal {
    Refusal::attribute(error.to_string())
}

/// Values per spatial axis, for two of them: the axis that is not there has 1.
pub(super) fn two(values: &[usize]) -> Vec<usize> {
    match *values {
        [only] => vec![1, only],
        _ => values.to_vec(),
    }
}

/// Stride and pads of a window.
pub(super) fn window_params(window: &Window, placement: &Placement) -> Vec<(&'static str, Param)> {
    let mut pads: Vec<(usize, usize)> = placement
        .begin
        .iter()
        .copied()
        .zip(placement.end.iter().copied())
        .collect();
    if pads.len() == 1 {
        pads.insert(0, (0, 0));
    }
    vec![
        ("stride", u32s(&two(&window.strides))),
        ("pad_amount", pairs(&pads)),
    ]
}
