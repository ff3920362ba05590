//! Convolutions and matrix products.

use polychip_emulator_chip::program::{Id, Linear, Spec};
use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_sys::neuron::bindings as sys;

use super::{Lower, Outcome, from_front, ints, is_quantised};
use crate::model::BIAS_PER_CHANNEL;

/// Rows above and below, columns left and right.
pub(super) type Pads = [(usize, usize); 2];

/// A window on an image.
pub(super) struct Window {
    pub(super) kernel: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// Rows above and below, columns left and right; `None` if the library computes them.
    pads: Option<Pads>,
    same: bool,
}

impl Window {
    fn extent(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    /// Pads of an image of these extents, and the extents of the result.
    pub(super) fn place(&self, size: [usize; 2]) -> Outcome<(Pads, [usize; 2])> {
        let (mut pads, mut out) = ([(0, 0); 2], [0; 2]);
        for axis in 0..2 {
            let stride = self.strides[axis];
            if stride == 0 || self.kernel[axis] == 0 || self.dilations[axis] == 0 {
                return Err("a window without extent or step".to_owned());
            }
            if let Some(own) = self.pads {
                pads[axis] = own[axis];
            } else if self.same {
                let reach = (size[axis].div_ceil(stride) - 1) * stride + self.extent(axis);
                let total = reach.saturating_sub(size[axis]);
                pads[axis] = (total / 2, total - total / 2);
            }
            let whole = size[axis] + pads[axis].0 + pads[axis].1;
            let rest = whole
                .checked_sub(self.extent(axis))
                .ok_or("a window larger than its image")?;
            out[axis] = rest / stride + 1;
        }
        Ok((pads, out))
    }

    pub(super) fn attributes(&self, pads: Pads) -> Attributes {
        let (pad, list) = ints(Attr::Pads, vec![pads[0].0, pads[1].0, pads[0].1, pads[1].1]);
        let (stride, strides) = ints(Attr::Strides, self.strides.to_vec());
        Attributes::new().with(pad, list).with(stride, strides)
    }
}

impl Lower<'_> {
    /// Reads pads and strides from input `at` on. Also returns the index of the next input.
    pub(super) fn window(&self, at: usize, explicit: bool, kernel: [usize; 2]) -> Outcome<(Window, usize)> {
        let (pads, same, next) = if explicit {
            let pads = [
                (self.size(at + 2)?, self.size(at + 3)?),
                (self.size(at)?, self.size(at + 1)?),
            ];
            (Some(pads), false, at + 4)
        } else {
            match u32::try_from(self.int(at)?).unwrap_or(0) {
                sys::NEURON_PADDING_SAME => (None, true, at + 1),
                sys::NEURON_PADDING_VALID => (None, false, at + 1),
                scheme => return Err(format!("padding scheme {scheme}")),
            }
        };
        let window = Window {
            kernel,
            strides: [self.size(next + 1)?, self.size(next)?],
            dilations: [1, 1],
            pads,
            same,
        };
        Ok((window, next + 2))
    }

    /// The scales of weights: none of floats.
    fn weight_scales(&self, place: usize) -> Outcome<Vec<f32>> {
        let (activations, weights) = (self.operand(0)?, self.operand(place)?);
        if let Some((_, scales)) = &weights.channels {
            return if is_quantised(activations) {
                Ok(scales.clone())
            } else {
                Err("weights per channel beside floats".to_owned())
            };
        }
        let signed = |ty| {
            matches!(
                ty,
                sys::NEURON_TENSOR_QUANT8_SYMM | sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED
            )
        };
        if weights.ty != activations.ty && !(signed(weights.ty) && is_quantised(activations)) {
            return Err(format!(
                "weights of type {} beside {}",
                weights.ty, activations.ty
            ));
        }
        Ok(if is_quantised(activations) {
            vec![weights.scale]
        } else {
            Vec::new()
        })
    }

    /// Reads the bias for this number of channels.
    fn bias(&mut self, place: usize, channels: usize, scales: &[f32]) -> Outcome<Id> {
        if self.shape(place)? != [channels] {
            return Err(format!(
                "a bias of {:?} for {channels} channels",
                self.shape(place)?
            ));
        }
        if scales.is_empty() {
            return if self.operand(place)?.ty == self.operand(0)?.ty {
                self.value(place)
            } else {
                Err("a bias of another type than the input".to_owned())
            };
        }
        let (bias, input) = (self.operand(place)?, self.operand(0)?);
        let own = bias.channels.as_ref().map(|(_, own)| own);
        if !matches!(bias.ty, sys::NEURON_TENSOR_INT32 | BIAS_PER_CHANNEL) || bias.zero != 0 {
            return Err("a bias beside integers is of 32 bits without a zero point".to_owned());
        }
        let steps: Vec<f32> = scales.iter().map(|scale| scale * input.scale).collect();
        let fits = match steps[..] {
            [one] => (bias.scale - one).abs() <= one * 1e-5,
            // its own scales, or none: the products'
            _ => bias.scale == 0.0 && own.is_none_or(|own| *own == steps),
        };
        if !fits {
            return Err(format!(
                "a bias of scale {} where the products have {steps:?}",
                bias.scale
            ));
        }
        let bytes = bias.value.clone().ok_or("a bias that is no constant")?;
        let encoding = match steps[..] {
            [one] => Linear::whole(one, 0),
            _ => Linear {
                axis: Some(0),
                zero_points: vec![0; steps.len()],
                scales: steps,
            },
        };
        let spec = Spec {
            encoding: Some(encoding),
            ..Spec::plain(DType::I32, [channels])
        };
        self.builder.constant(spec, &bytes)
    }

    pub(super) fn conv(&mut self, code: u32) -> Outcome<()> {
        self.reals(0)?;
        let (shape, filter) = (self.shape(0)?, self.shape(1)?);
        let ([n, h, w, c], [f0, kh, kw, f3]) = (four(&shape)?, four(&filter)?);
        let given = self.inputs.len();
        let (explicit, extra) = match code {
            sys::NEURON_CONV_2D => (given >= 11 || (given == 10 && !self.is_truth(7)), 0),
            sys::NEURON_DEPTHWISE_CONV_2D => (given >= 12 || (given == 11 && !self.is_truth(8)), 1),
            _ => (given >= 12, 1),
        };
        let (mut window, at) = self.window(3, explicit, [kh, kw])?;
        let number = if extra == 1 { self.size(at)? } else { 1 };
        let at = at + extra;
        if self.truth(at + 1)? {
            return Err("images with channels first".to_owned());
        }
        if code != sys::NEURON_GROUPED_CONV_2D && given > at + 2 {
            window.dilations = [self.size(at + 3)?, self.size(at + 2)?];
        }
        let (group, out, perm, channel) = match code {
            sys::NEURON_CONV_2D => (c / f3.max(1), f0, [0, 3, 1, 2], 0),
            sys::NEURON_DEPTHWISE_CONV_2D if f0 == 1 && c * number == f3 => (c, f3, [3, 0, 1, 2], 3),
            sys::NEURON_GROUPED_CONV_2D if number > 0 && f3 * number == c && f0.is_multiple_of(number) => {
                (number, f0, [0, 3, 1, 2], 0)
            }
            _ => return Err(format!("a filter of {filter:?} for {c} channels and {number}")),
        };
        if code == sys::NEURON_CONV_2D && f3 != c {
            return Err(format!("a filter of {filter:?} for {c} channels"));
        }
        if self
            .operand(1)?
            .channels
            .as_ref()
            .is_some_and(|(axis, _)| *axis != channel)
        {
            return Err("scales along another axis than the result's channels".to_owned());
        }
        let (pads, [oh, ow]) = window.place([h, w])?;
        self.fits(&[n, oh, ow, out])?;
        let scales = self.weight_scales(1)?;
        let bias = self.bias(2, out, &scales)?;
        let (image, filter) = (self.value(0)?, self.value(1)?);
        let image = self.builder.channels_first(image, 4);
        let filter = self.builder.transpose(filter, &perm);
        let (dilation, dilations) = ints(Attr::Dilations, window.dilations.to_vec());
        let attributes = window
            .attributes(pads)
            .with(dilation, dilations)
            .with_int(Attr::Group, group as i64);
        let result = self.step(Op::Conv, attributes, &[image, filter, bias]);
        let result = self.activated(result, at)?;
        let result = self.builder.channels_last(result, 4);
        self.give(result, 0)
    }

    pub(super) fn conv_transpose(&mut self) -> Outcome<()> {
        self.reals(0)?;
        let ([n, h, w, c], [out, kh, kw, inner]) = (four(&self.shape(0)?)?, four(&self.shape(1)?)?);
        let explicit = self.inputs.len() == 11;
        let (window, at) = self.window(if explicit { 3 } else { 4 }, explicit, [kh, kw])?;
        if inner != c || self.truth(at + 1)? {
            return Err("a filter for other channels, or channels first".to_owned());
        }
        let [_, oh, ow, _] = four(&self.out().shape())?;
        if !explicit && self.list(3)? != [n, oh, ow, out].map(|extent| extent as i64) {
            return Err("another shape of the result than declared".to_owned());
        }
        let mut pads = [(0, 0); 2];
        for (axis, (size, wanted)) in [(h, oh), (w, ow)].into_iter().enumerate() {
            let reach = (size - 1) * window.strides[axis] + window.kernel[axis];
            pads[axis] = match window.pads {
                Some(pads) => pads[axis],
                None => {
                    let total = reach.checked_sub(wanted).ok_or("a result beyond the windows")?;
                    (total / 2, total - total / 2)
                }
            };
            if reach != wanted + pads[axis].0 + pads[axis].1 {
                return Err(format!("a result of {wanted} where the windows reach {reach}"));
            }
        }
        self.fits(&[n, oh, ow, out])?;
        let scales = self.weight_scales(1)?;
        let bias = self.bias(2, out, &scales)?;
        let (image, filter) = (self.value(0)?, self.value(1)?);
        let image = self.builder.channels_first(image, 4);
        let filter = self.builder.transpose(filter, &[3, 0, 1, 2]);
        let result = self.step(Op::ConvTranspose, window.attributes(pads), &[image, filter, bias]);
        let result = self.activated(result, at)?;
        let result = self.builder.channels_last(result, 4);
        self.give(result, 0)
    }

    pub(super) fn connected(&mut self) -> Outcome<()> {
        self.reals(0)?;
        let (shape, weights) = (self.shape(0)?, self.shape(1)?);
        let [units, inner] = weights[..] else {
            return Err(format!("weights of {weights:?}"));
        };
        let elements: usize = shape.iter().product();
        let rows = elements / inner.max(1);
        if rows * inner != elements || self.out().shape().iter().product::<usize>() != rows * units {
            return Err(format!("{shape:?} by {weights:?} gives {:?}", self.out().shape()));
        }
        let scales = self.weight_scales(1)?;
        let bias = self.bias(2, units, &scales)?;
        let (from, weights) = (self.value(0)?, self.value(1)?);
        let list = self.known(&[rows as i64, inner as i64])?;
        let from = self.step(Op::Reshape, Attributes::new(), &[from, list]);
        let attributes = Attributes::new().with_int(Attr::TransB, 1);
        let result = self.step(Op::Gemm, attributes, &[from, weights, bias]);
        let result = self.activated(result, 3)?;
        self.give(result, 0)
    }

    pub(super) fn matmul(&mut self) -> Outcome<()> {
        self.reals(0)?;
        self.reals(1)?;
        let mut sides = Vec::new();
        let mut shapes = Vec::new();
        for place in 0..2 {
            let mut shape = self.shape(place)?;
            let rank = shape.len();
            if !(2..=4).contains(&rank) {
                return Err(format!("a product of {shape:?}"));
            }
            let mut id = self.value(place)?;
            if self.truth(2 + place)? {
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.swap(rank - 1, rank - 2);
                shape.swap(rank - 1, rank - 2);
                id = self.builder.transpose(id, &perm);
            }
            sides.push(id);
            shapes.push(shape);
        }
        let rank = shapes[0].len();
        if shapes[1].len() != rank || shapes[0][..rank - 2] != shapes[1][..rank - 2] {
            return Err(format!("a product of {:?} and {:?}", shapes[0], shapes[1]));
        }
        if shapes[0][rank - 1] != shapes[1][rank - 2] {
            return Err(format!("a product of {:?} and {:?}", shapes[0], shapes[1]));
        }
        let mut wanted = shapes[0].clone();
        wanted[rank - 1] = shapes[1][rank - 1];
        self.fits(&wanted)?;
        let result = self.step(Op::MatMul, Attributes::new(), &sides);
        self.give(result, 0)
    }

    pub(super) fn softmax(&mut self) -> Outcome<()> {
        self.reals(0)?;
        let shape = self.shape(0)?;
        self.fits(&shape)?;
        self.fixed(1.0 / 256.0, 0, -128)?;
        let beta = self.real(1)?;
        let axis = if self.inputs.len() > 2 { self.int(2)? } else { -1 };
        let axis = from_front(axis, shape.len())?;
        let mut from = self.value(0)?;
        if beta != 1.0 {
            let beta = self.builder.literal(&polychip_ops::Literal::scalar_f32(beta))?;
            from = self.step(Op::Mul, Attributes::new(), &[from, beta]);
        }
        let attributes = Attributes::new().with_int(Attr::Axis, axis as i64);
        let result = self.step(Op::Softmax, attributes, &[from]);
        self.give(result, 0)
    }

    /// Checks that a quantised result has the fixed encoding that the library requires.
    pub(super) fn fixed(&self, scale: f32, unsigned: i32, signed: i32) -> Outcome<()> {
        let out = self.out();
        let zero = match out.ty {
            sys::NEURON_TENSOR_QUANT8_ASYMM => unsigned,
            sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED => signed,
            _ => return Ok(()),
        };
        if (out.scale, out.zero) != (scale, zero) {
            return Err(format!(
                "a result of {}, {} where {scale}, {zero} are fixed",
                out.scale, out.zero
            ));
        }
        Ok(())
    }
}

/// The extents of an image or a filter.
pub(super) fn four(shape: &[usize]) -> Outcome<[usize; 4]> {
    shape
        .try_into()
        .map_err(|_| format!("{shape:?} where four axes are wanted"))
}
