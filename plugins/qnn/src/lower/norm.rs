//! Normalisations.
//!
//! Invariant: scale and shift are constants. Beside quantised data, a scale of floats is quantised over its own
//! range to 8 bits, or to 16 beside data of 16 where the library takes that, and a shift to 32.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Attr, Op};
use polychip_sdk::Reason;

use super::builder::{Domain, Lower, axis, int, u32s};
use crate::constant;
use crate::program::{Param, Quant, TensorId, Type};

impl Lower<'_> {
    /// Reals as a parameter tensor beside data of this domain.
    fn learned(&mut self, name: &str, reals: &[f32], domain: Domain, ty: Type) -> Outcome<TensorId> {
        let dims = [reals.len()];
        match domain {
            Domain::Float(ty) => {
                let bytes = constant::store_floats(ty, reals);
                Ok(self.fixed(name, ty, Quant::None, &dims, bytes))
            }
            Domain::Fixed(_) => {
                let bad = || Refusal::encoding(format!("the {name} cannot be quantised"));
                let quant = constant::spanning(ty, reals).ok_or_else(bad)?;
                let stored = constant::quantise(ty, &quant, reals).ok_or_else(bad)?;
                let bytes = constant::store(ty, &stored);
                Ok(self.fixed(name, ty, quant, &dims, bytes))
            }
            Domain::Whole => Err(Refusal::new(Reason::DType, "a normalisation of integers")),
        }
    }

    /// The scale of a normalisation: as the model quantised it, or quantised here.
    fn scale(&mut self, tensor: TensorIndex, domain: Domain) -> Outcome<TensorId> {
        let info = self.info(tensor)?;
        let known = matches!(info.ty, Type::Ufixed8 | Type::Sfixed8) || info.ty == self.scale_type(domain);
        if known
            && info.quant.per_tensor().is_some()
            && matches!(domain, Domain::Fixed(_))
            && self.view(tensor).is_constant()
        {
            let elements: usize = info.shape.iter().product();
            return self.static_data(tensor, &info, &[elements], Layout::RowMajor);
        }
        let reals = self.constant_reals(tensor)?;
        let ty = self.scale_type(domain);
        self.learned("scale", &reals, domain, ty)
    }

    /// The type that a scale of floats is quantised to.
    fn scale_type(&self, domain: Domain) -> Type {
        match domain {
            Domain::Fixed(Type::Ufixed16 | Type::Sfixed16) if self.target.wide_scales => Type::Ufixed16,
            _ => Type::Ufixed8,
        }
    }

    fn shift(&mut self, tensor: Option<TensorIndex>, elements: usize, domain: Domain) -> Outcome<TensorId> {
        let reals = match tensor {
            Some(tensor) => self.constant_reals(tensor)?,
            None => vec![0.0; elements],
        };
        self.learned("shift", &reals, domain, Type::Sfixed32)
    }

    pub(super) fn layer_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        self.no_output(node, 1)?;
        let (input, scale) = (self.input(node, 0)?, self.input(node, 1)?);
        let shape = self.shape(input)?;
        let axis = axis(node, -1, shape.len())?;
        let elements: usize = shape[axis..].iter().product();
        let layer = node.op == Op::LayerNormalization;
        if !layer && axis + 1 != shape.len() {
            return Err(Refusal::attribute(format!(
                "axis {axis}; the NPU normalises by the root mean square along the last axis only"
            )));
        }
        let from = self.read(input, Layout::RowMajor)?;
        let scale_shape = self.shape(scale)?;
        if scale_shape.iter().product::<usize>() != elements {
            return Err(Refusal::shape(format!(
                "a scale of {scale_shape:?} for axes {:?}",
                &shape[axis..]
            )));
        }
        let weights = self.scale(scale, domain)?;
        let bias = self.shift(node.input(2).filter(|_| layer), elements, domain)?;
        if axis + 1 < shape.len() {
            for id in [weights, bias] {
                self.program.tensors[id].dims = shape[axis..].iter().map(|&dim| dim as u32).collect();
            }
        }
        let out = self.write(self.output(node, 0)?, Layout::RowMajor)?;
        let axes: Vec<usize> = (axis..shape.len()).collect();
        let params = vec![
            (
                "epsilon",
                Param::F32(node.attributes.float(Attr::Epsilon).unwrap_or(1e-5)),
            ),
            ("axes", u32s(&axes)),
        ];
        let kind = if layer { "LayerNorm" } else { "RmsNorm" };
        self.op(kind, params, &[from, weights, bias], &[out]);
        Ok(())
    }

    pub(super) fn group_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let (image, shape) = self.image(node)?;
        let weights = self.scale(self.input(node, 1)?, domain)?;
        let bias = self.shift(node.input(2), shape[1], domain)?;
        let output = self.output(node, 0)?;
        let out = self.image_out(output)?;
        let epsilon = Param::F32(node.attributes.float(Attr::Epsilon).unwrap_or(1e-5));
        let mut params = vec![("epsilon", epsilon)];
        let kind = if node.op == Op::GroupNormalization {
            let groups = int(node, Attr::NumGroups, 1).max(1);
            params.push(("group", Param::U32(groups as u32)));
            "GroupNorm"
        } else {
            "InstanceNorm"
        };
        self.op(kind, params, &[image, weights, bias], &[out]);
        self.settle(out, output, Layout::ChannelsLast)
    }

    /// One multiply and add per channel.
    pub(super) fn batch_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        self.no_output(node, 1)?;
        if int(node, Attr::TrainingMode, 0) != 0 {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let input = self.input(node, 0)?;
        let mut learned = Vec::with_capacity(4);
        for place in 1..5 {
            learned.push(self.constant_reals(self.input(node, place)?)?);
        }
        let epsilon = node.attributes.float(Attr::Epsilon).unwrap_or(1e-5);
        let channels = learned[0].len();
        let factor: Vec<f32> = (0..channels)
            .map(|channel| learned[0][channel] / (learned[3][channel] + epsilon).sqrt())
            .collect();
        let shift: Vec<f32> = (0..channels)
            .map(|channel| learned[1][channel] - learned[2][channel] * factor[channel])
            .collect();
        let from = self.read(input, Layout::ChannelsLast)?;
        let ty = self.scale_type(domain);
        let weights = self.learned("scale", &factor, domain, ty)?;
        let bias = self.learned("shift", &shift, domain, Type::Sfixed32)?;
        let out = self.write(self.output(node, 0)?, Layout::ChannelsLast)?;
        self.op("Batchnorm", Vec::new(), &[from, weights, bias], &[out]);
        Ok(())
    }
}
