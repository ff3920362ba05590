//! Normalisations.
//!
//! Invariant: scale and shift are constants. Beside quantised data, a scale of floats is quantised over its own range to
//! the chip's type for that, and a shift to 32 bits.

use polychip_ops::operator::{BatchNorm, GroupNorm, InstanceNorm, Norm};
use polychip_ops::{Op, Operator};

use super::builder::{Domain, Lower, axis};
use super::program::{Kind, OperandId, Type};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

impl Lower<'_> {
    fn scale_type(&self, domain: Domain) -> Type {
        match domain {
            Domain::Fixed(ty) => self.vendor.scale_type(ty),
            _ => Type::Ufixed8,
        }
    }

    /// The scale of a normalisation, of these extents: as the model quantised it, or quantised here.
    fn scale(&mut self, tensor: TensorIndex, dims: &[usize], domain: Domain) -> Outcome<OperandId> {
        let info = self.info(tensor)?;
        let ty = self.scale_type(domain);
        let known = matches!(info.ty, Type::Ufixed8 | Type::Sfixed8) || info.ty == ty;
        let quantised = info.quant.per_tensor().is_some() && matches!(domain, Domain::Fixed(_));
        if known && quantised && self.part.is_constant(tensor) {
            return self.data(tensor, info, dims, Layout::RowMajor);
        }
        let reals = self.reals(tensor)?;
        self.real("scale", &reals, dims, domain, ty)
    }

    fn shift(&mut self, tensor: Option<TensorIndex>, dims: &[usize], domain: Domain) -> Outcome<OperandId> {
        let reals = match tensor {
            Some(tensor) => self.reals(tensor)?,
            None => vec![0.0; dims.iter().product()],
        };
        self.real("shift", &reals, dims, domain, Type::Sfixed32)
    }

    pub(super) fn layer_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let to = self.output(node)?;
        let (tensor, scale) = (self.input(node, 0)?, self.input(node, 1)?);
        let shape = self.shape(tensor)?;
        let norm: Norm = node.typed()?;
        let axis = axis(norm.axis, shape.len())?;
        let inner = &shape[axis..];
        let layer = node.op == Op::LayerNormalization;
        if !layer && axis + 1 != shape.len() {
            let what =
                format!("axis {axis}; chips normalise by the root mean square along the last axis only");
            return Err(Refusal::attribute(what));
        }
        let given = self.shape(scale)?;
        if given.iter().product::<usize>() != inner.iter().product() {
            return Err(Refusal::shape(format!("a scale of {given:?} for axes {inner:?}")));
        }
        let from = self.read(tensor, Layout::RowMajor)?;
        let scale = self.scale(scale, inner, domain)?;
        let shift = self.shift(node.input(2).filter(|_| layer), inner, domain)?;
        let kind = Kind::Norm(node.op, (axis..shape.len()).collect(), 1, norm.epsilon);
        self.result(kind, &[from, scale, shift], to, Layout::RowMajor)
    }

    pub(super) fn group_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let (image, _) = self.image(node)?;
        let learned = self.input(node, 1)?;
        let dims = [self.shape(learned)?.iter().product()];
        let scale = self.scale(learned, &dims, domain)?;
        let shift = self.shift(node.input(2), &dims, domain)?;
        let (groups, epsilon) = match node.operator()? {
            Operator::GroupNormalization(GroupNorm { groups, epsilon, .. }) => (groups.get(), epsilon),
            Operator::InstanceNormalization(InstanceNorm { epsilon }) => (1, epsilon),
            _ => return Err(Refusal::op(node.op_name.clone())),
        };
        let kind = Kind::Norm(node.op, Vec::new(), groups, epsilon);
        self.image_result(kind, &[image, scale, shift], self.output(node)?)
    }

    /// One multiply and add per channel, by known statistics.
    pub(super) fn batch_norm(&mut self, node: &Node, domain: Domain) -> Outcome<()> {
        let to = self.output(node)?;
        let norm: BatchNorm = node.typed()?;
        if norm.training {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let tensor = self.input(node, 0)?;
        if self.rank(tensor)? < 2 {
            return Err(Refusal::shape("BatchNormalization of a list"));
        }
        let mut learned = Vec::with_capacity(4);
        for place in 1..5 {
            learned.push(self.reals(self.input(node, place)?)?);
        }
        let channels = learned[0].len();
        let factor: Vec<f32> = (0..channels)
            .map(|channel| learned[0][channel] / (learned[3][channel] + norm.epsilon).sqrt())
            .collect();
        let shift: Vec<f32> = (0..channels)
            .map(|channel| learned[1][channel] - learned[2][channel] * factor[channel])
            .collect();
        let from = self.read(tensor, Layout::ChannelsLast)?;
        let factor = self.real("scale", &factor, &[channels], domain, self.scale_type(domain))?;
        let shift = self.real("shift", &shift, &[channels], domain, Type::Sfixed32)?;
        if self.vendor.has(node.op) {
            let kind = Kind::Norm(node.op, Vec::new(), 1, 0.0);
            return self.result(kind, &[from, factor, shift], to, Layout::ChannelsLast);
        }
        if !matches!(domain, Domain::Float(_)) {
            return Err(Refusal::encoding("BatchNormalization of integers"));
        }
        let dims = self.dims(from);
        let scaled = self.like(Kind::Binary(Op::Mul), &[from, factor], &dims);
        self.result(Kind::Binary(Op::Add), &[scaled, shift], to, Layout::ChannelsLast)
    }
}
