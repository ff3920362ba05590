//! Nodes that compute element by element, with broadcasting.
//!
//! Invariants:
//! 1. Operands are brought to one order of axes.
//! 2. Where a chip fixes the encoding of a result, the node's own is had by a conversion behind.

use polychip_ops::operator::{Alpha, HardSigmoid, Mod};
use polychip_ops::{Op, Operator};

use super::builder::{Domain, Lower, widened};
use super::program::{Kind, OperandId, Quant};
use crate::{Layout, Node, Outcome, Refusal, TensorIndex};

impl Lower<'_> {
    /// A step of one operand whose result has its extents.
    pub(super) fn computed(
        &mut self,
        kind: Kind,
        op: Op,
        from: OperandId,
        tensor: TensorIndex,
        order: Layout,
    ) -> Outcome<()> {
        let (ty, quant) = (self.ty(from), self.quant(from));
        let own = if ty.is_quantised() {
            self.vendor.own_quant(op, ty, &quant)
        } else {
            None
        };
        let Some(own) = own else {
            return self.result_of(kind, &[from], &self.dims(from), tensor, order);
        };
        let out = self.like(kind, &[from], &self.dims(from));
        self.program.operands[out].quant = own;
        self.settle(out, tensor, order)
    }

    pub(super) fn unary(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        let numbers = match node.operator()? {
            Operator::HardSigmoid(HardSigmoid { alpha, beta }) => [alpha, beta],
            Operator::Celu(Alpha { alpha })
            | Operator::Elu(Alpha { alpha })
            | Operator::LeakyRelu(Alpha { alpha })
            | Operator::ThresholdedRelu(Alpha { alpha }) => [alpha, 0.0],
            _ => [0.0; 2],
        };
        let from = self.read(self.input(node, 0)?, order)?;
        let to = self.output(node)?;
        if self.vendor.has(node.op) {
            return self.computed(Kind::Unary(node.op, numbers), node.op, from, to, order);
        }
        let dims = self.dims(from);
        let out = match node.op {
            Op::LeakyRelu => {
                let slope = self.one(numbers[0], domain)?;
                return self.result(Kind::Binary(Op::PRelu), &[from, slope], to, order);
            }
            Op::Reciprocal => {
                let one = self.one(1.0, domain)?;
                return self.result(Kind::Binary(Op::Div), &[one, from], to, order);
            }
            // max(0, min(1, alpha x + beta))
            Op::HardSigmoid if matches!(domain, Domain::Float(_)) => {
                let mut at = from;
                for (op, number) in [(Op::Mul, numbers[0]), (Op::Add, numbers[1])] {
                    let number = self.one(number, domain)?;
                    at = self.like(Kind::Binary(op), &[at, number], &dims);
                }
                self.clipped(at, [0.0, 1.0], domain)?
            }
            _ => return Err(Refusal::encoding(format!("{} of integers", node.op_name))),
        };
        self.settle(out, to, order)
    }

    pub(super) fn binary(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        let kind = match node.op {
            Op::Sum => Kind::Binary(Op::Add),
            Op::Mod => Kind::Remainder(node.typed::<Mod>()?.fmod),
            op => Kind::Binary(op),
        };
        let to = self.output(node)?;
        match self.chain(&kind, node, order, domain)? {
            (only, None) => self.settle(only, to, order),
            (left, Some(right)) => self.result(kind, &[left, right], to, order),
        }
    }

    /// All operands but the last as one, and the last.
    fn chain(
        &mut self,
        kind: &Kind,
        node: &Node,
        order: Layout,
        domain: Domain,
    ) -> Outcome<(OperandId, Option<OperandId>)> {
        let info = self.info(self.output(node)?)?;
        let rank = info.shape.len();
        let operands: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
        // maxima and minima commute with the rounding and clamping of the result's encoding
        let exact = matches!(node.op, Op::Max | Op::Min) || !matches!(domain, Domain::Fixed(_));
        if operands.len() > 2 && !exact {
            let what = format!(
                "{} of {} quantised operands: the sums between have no encoding",
                node.op_name,
                operands.len()
            );
            return Err(Refusal::encoding(what));
        }
        let [first, rest @ ..] = &operands[..] else {
            return Err(Refusal::attribute("no operand"));
        };
        let mut left = self.operand_of(*first, order, rank, domain)?;
        let [between @ .., last] = rest else {
            return Ok((left, None));
        };
        let mut shape = self.shape(*first)?.to_vec();
        for &next in between {
            let right = self.operand_of(next, order, rank, domain)?;
            shape = polychip_ops::broadcast::shapes(&[&shape, self.shape(next)?]).unwrap_or_default();
            let dims = match order {
                Layout::ChannelsLast if rank >= 3 => order.dims(&widened(&shape, rank)),
                _ => shape.clone(),
            };
            let sum = self.inner("chain", info.ty, info.quant.clone(), &dims);
            self.program.operands[sum].image = order == Layout::ChannelsLast && dims.len() == 4;
            self.step(kind.clone(), &[left, right], &[sum]);
            left = sum;
        }
        Ok((left, Some(self.operand_of(*last, order, rank, domain)?)))
    }

    /// The sum of floats, divided by how many they are.
    pub(super) fn mean(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        if !matches!(domain, Domain::Float(_)) {
            return Err(Refusal::encoding("Mean of integers: the sum has no encoding"));
        }
        let to = self.output(node)?;
        let sum = match self.chain(&Kind::Binary(Op::Add), node, order, domain)? {
            (only, None) => only,
            (left, Some(right)) => {
                let shape = self.shape(to)?;
                let dims = super::builder::of_rank(order, shape.len()).dims(shape);
                self.like(Kind::Binary(Op::Add), &[left, right], &dims)
            }
        };
        let count = self.one(node.inputs.iter().flatten().count() as f32, domain)?;
        self.result(Kind::Binary(Op::Div), &[sum, count], to, order)
    }

    pub(super) fn same(&mut self, node: &Node, order: Layout) -> Outcome<()> {
        if let Some(training) = node.input(2)
            && self.reals(training)? != [0.0]
        {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let id = self.read(self.input(node, 0)?, order)?;
        self.settle(id, self.output(node)?, order)
    }

    pub(super) fn clip(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        let bound = |place: usize, none: f32| -> Outcome<f32> {
            match node.input(place) {
                None => Ok(none),
                Some(tensor) => Ok(self.reals(tensor)?.first().copied().unwrap_or(none)),
            }
        };
        let range = [
            bound(1, f32::MIN)?.max(f32::MIN),
            bound(2, f32::MAX)?.min(f32::MAX),
        ];
        if domain == Domain::Whole {
            return Err(Refusal::dtype("Clip of integers"));
        }
        let from = self.read(self.input(node, 0)?, order)?;
        let to = self.output(node)?;
        if self.vendor.clips(range) && range[0] <= range[1] {
            return self.computed(Kind::Clip(range[0], range[1]), Op::Clip, from, to, order);
        }
        if range == [0.0, f32::MAX] {
            return self.computed(Kind::Unary(Op::Relu, [0.0; 2]), Op::Relu, from, to, order);
        }
        if !matches!(domain, Domain::Float(_)) {
            return Err(Refusal::attribute(format!("Clip of integers to {range:?}")));
        }
        let out = self.clipped(from, range, domain)?;
        self.settle(out, to, order)
    }

    /// Floats clipped by a maximum and a minimum: in this order, bounds that have changed places give the upper one.
    fn clipped(&mut self, from: OperandId, range: [f32; 2], domain: Domain) -> Outcome<OperandId> {
        let dims = self.dims(from);
        let mut at = from;
        for (op, bound) in [(Op::Max, range[0]), (Op::Min, range[1])] {
            if bound.abs() < f32::MAX {
                let bound = self.one(bound, domain)?;
                at = self.like(Kind::Binary(op), &[at, bound], &dims);
            }
        }
        Ok(at)
    }

    pub(super) fn select(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        let to = self.output(node)?;
        let info = self.info(to)?;
        let rank = info.shape.len();
        let mut operands = Vec::with_capacity(3);
        for place in 0..3 {
            let tensor = self.input(node, place)?;
            if !self.vendor.traits().selects_broadcast && self.shape(tensor)? != info.shape {
                return Err(Refusal::shape("Where that repeats an operand"));
            }
            let id = self.operand_of(tensor, order, rank, domain)?;
            operands.push(match place {
                0 => id,
                _ if self.vendor.traits().mixes => id,
                _ => self.converted(id, info.ty, &info.quant),
            });
        }
        self.result(Kind::Select, &operands, to, order)
    }

    /// x × sigmoid(x): the sigmoid between has no encoding, so floats only.
    pub(super) fn swish(&mut self, node: &Node, order: Layout, domain: Domain) -> Outcome<()> {
        if !matches!(domain, Domain::Float(_)) || node.typed::<Alpha>()?.alpha != 1.0 {
            return Err(Refusal::encoding(
                "Swish of quantised tensors or with alpha: the sigmoid between has no encoding",
            ));
        }
        let from = self.read(self.input(node, 0)?, order)?;
        let gate = self.like(Kind::Unary(Op::Sigmoid, [0.0; 2]), &[from], &self.dims(from));
        debug_assert_eq!(self.quant(gate), Quant::None);
        self.result(Kind::Binary(Op::Mul), &[from, gate], self.output(node)?, order)
    }
}
