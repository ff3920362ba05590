//! Nodes that compute element by element, with broadcasting.
//!
//! Invariant: operands are brought to one order of axes; a constant float beside quantised operands is
//! quantised over its own range.

use polychip_lowering::{Layout, Node, Outcome, Refusal, TensorIndex};
use polychip_ops::{Attr, Op};
use polychip_sdk::Reason;

use super::builder::{Compute, Domain, Lower, int};
use crate::program::{Param, Quant, Type};

/// Operations of one operand and no parameters.
fn unary(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Abs => "ElementWiseAbs",
        Op::Asin => "ElementWiseAsin",
        Op::Atan => "ElementWiseAtan",
        Op::Ceil => "ElementWiseCeil",
        Op::Cos => "ElementWiseCos",
        Op::Exp => "ElementWiseExp",
        Op::Floor => "ElementWiseFloor",
        Op::HardSwish => "HardSwish",
        Op::IsNaN => "IsNan",
        Op::Log => "ElementWiseLog",
        Op::Neg => "ElementWiseNeg",
        Op::Not => "ElementWiseNot",
        Op::Relu => "Relu",
        Op::Round => "ElementWiseRound",
        Op::Sigmoid => "Sigmoid",
        Op::Sign => "ElementWiseSign",
        Op::Sin => "ElementWiseSin",
        Op::Sqrt => "ElementWiseSquareRoot",
        Op::Tanh => "Tanh",
        _ => return None,
    })
}

/// Operations of two operands, or of a chain of them.
fn binary(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Add | Op::Sum => "ElementWiseAdd",
        Op::And => "ElementWiseAnd",
        Op::Div => "ElementWiseDivide",
        Op::Equal => "ElementWiseEqual",
        Op::Greater => "ElementWiseGreater",
        Op::GreaterOrEqual => "ElementWiseGreaterEqual",
        Op::Less => "ElementWiseLess",
        Op::LessOrEqual => "ElementWiseLessEqual",
        Op::Max => "ElementWiseMaximum",
        Op::Min => "ElementWiseMinimum",
        Op::Mul => "ElementWiseMultiply",
        Op::Or => "ElementWiseOr",
        Op::Pow => "ElementWisePower",
        Op::PRelu => "Prelu",
        Op::Sub => "ElementWiseSubtract",
        Op::Xor => "ElementWiseXor",
        _ => return None,
    })
}

/// What lowers an op that is computed element by element.
pub(super) fn compute<'a>(op: Op) -> Option<Compute<'a>> {
    let compute: Compute<'a> = match op {
        Op::Clip => Lower::clip,
        Op::Dropout | Op::Identity => |l, node, layout, _| l.same(node, layout),
        Op::Elu => |l, node, layout, _| {
            let alpha = node.attributes.float(Attr::Alpha).unwrap_or(1.0);
            l.unary("Elu", vec![("alpha", Param::F32(alpha))], node, layout)
        },
        Op::Gelu => Lower::gelu,
        Op::HardSigmoid => |l, node, layout, _| {
            let float = |attr, default| Param::F32(node.attributes.float(attr).unwrap_or(default));
            let params = vec![
                ("operation", Param::U32(2)),
                ("alpha", float(Attr::Alpha, 0.2)),
                ("beta", float(Attr::Beta, 0.5)),
            ];
            l.unary("ElementWiseNeuron", params, node, layout)
        },
        Op::LeakyRelu => Lower::leaky_relu,
        Op::Mean => Lower::mean,
        Op::Mod => Lower::modulo,
        Op::Reciprocal => |l, node, layout, _| {
            let params = vec![("operation", Param::U32(10))];
            l.unary("ElementWiseUnary", params, node, layout)
        },
        Op::Softplus => |l, node, layout, _| {
            let params = vec![("operation", Param::U32(7))];
            l.unary("ElementWiseNeuron", params, node, layout)
        },
        Op::Swish => Lower::swish,
        Op::Where => Lower::select,
        _ if unary(op).is_some() || binary(op).is_some() => Lower::named,
        _ => return None,
    };
    Some(compute)
}

impl Lower<'_> {
    /// An operation that the library has a name for, without parameters.
    fn named(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        if matches!(node.op, Op::Ceil | Op::Floor | Op::Round) {
            exact_steps(node, domain)?;
        }
        match (unary(node.op), binary(node.op)) {
            (Some(kind), _) => self.unary(kind, Vec::new(), node, layout),
            (None, Some(kind)) => self.binary(kind, node, layout, domain),
            (None, None) => Err(Refusal::op(format!("op not offered: {}", node.op_name))),
        }
    }

    fn modulo(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        exact_steps(node, domain)?;
        let kind = match int(node, Attr::Fmod, 0) {
            0 => "ElementWiseMod",
            _ => "ElementWiseFmod",
        };
        self.binary(kind, node, layout, domain)
    }

    fn same(&mut self, node: &Node, layout: Layout) -> Outcome<()> {
        self.no_output(node, 1)?;
        if let Some(training) = node.input(2)
            && self.constant_reals(training)? != [0.0]
        {
            return Err(Refusal::attribute("training_mode 1"));
        }
        let input = self.input(node, 0)?;
        let id = self.read(input, layout)?;
        self.settle(id, self.output(node, 0)?, layout)
    }

    fn unary(
        &mut self,
        kind: &'static str,
        params: Vec<(&'static str, Param)>,
        node: &Node,
        layout: Layout,
    ) -> Outcome<()> {
        let input = self.input(node, 0)?;
        let from = self.read(input, layout)?;
        let to = self.write(self.output(node, 0)?, layout)?;
        self.op(kind, params, &[from], &[to]);
        Ok(())
    }

    fn binary(&mut self, kind: &'static str, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let output = self.output(node, 0)?;
        let info = self.info(output)?;
        let rank = info.shape.len();
        let operands: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
        let exact = matches!(node.op, Op::Max | Op::Min);
        if operands.len() > 2 && !exact && matches!(domain, Domain::Fixed(_)) {
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
        let mut left = self.operand(*first, layout, rank, domain)?;
        let [between @ .., last] = rest else {
            return self.settle(left, output, layout);
        };
        let mut shape = self.shape(*first)?;
        for &next in between {
            // maxima and minima commute with the rounding and clamping of the result's encoding
            let right = self.operand(next, layout, rank, domain)?;
            let both = [&shape[..], &self.shape(next)?[..]];
            shape = polychip_ops::broadcast::shapes(&both).unwrap_or_default();
            let mut dims = shape.clone();
            if layout == Layout::ChannelsLast {
                while dims.len() < rank {
                    dims.insert(0, 1);
                }
            }
            let sum = self.native("chain", info.ty, info.quant.clone(), &layout.dims(&dims));
            self.op(kind, Vec::new(), &[left, right], &[sum]);
            left = sum;
        }
        let right = self.operand(*last, layout, rank, domain)?;
        let to = self.write(output, layout)?;
        self.op(kind, Vec::new(), &[left, right], &[to]);
        Ok(())
    }

    /// The sum of floats, divided by how many they are.
    fn mean(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let Domain::Float(ty) = domain else {
            return Err(Refusal::encoding(
                "Mean of quantised operands: the sum has no encoding",
            ));
        };
        let first = self.program.operations.len();
        self.binary("ElementWiseAdd", node, layout, domain)?;
        let count = node.inputs.iter().copied().flatten().count() as f32;
        let output = self.output(node, 0)?;
        let Some(last) = self.program.operations.get_mut(first..).and_then(<[_]>::last_mut) else {
            return Ok(());
        };
        // the sum goes elsewhere, and its share to the output
        let out = last.outputs[0];
        let info = self.info(output)?;
        let sum = self.native("sum", ty, Quant::None, &layout.dims(&info.shape));
        if let Some(last) = self.program.operations.last_mut() {
            last.outputs[0] = sum;
        }
        let bytes = crate::constant::store_floats(ty, &[count]);
        let count = self.fixed("count", ty, Quant::None, &[1], bytes);
        self.op("ElementWiseDivide", Vec::new(), &[sum, count], &[out]);
        Ok(())
    }

    /// A bound of Clip, which must be constant.
    fn bound(&self, node: &Node, place: usize, default: f32) -> Outcome<f32> {
        match node.input(place) {
            None => Ok(default),
            Some(tensor) => Ok(self.constant_reals(tensor)?.first().copied().unwrap_or(default)),
        }
    }

    fn clip(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        if domain == Domain::Whole {
            return Err(Refusal::new(Reason::DType, "Clip of integers"));
        }
        let (low, high) = (
            self.bound(node, 1, f32::MIN)?.max(f32::MIN),
            self.bound(node, 2, f32::MAX)?.min(f32::MAX),
        );
        let ordered = low <= high;
        if !ordered {
            return Err(Refusal::attribute(format!("Clip to [{low}, {high}]")));
        }
        let params = vec![("min_value", Param::F32(low)), ("max_value", Param::F32(high))];
        self.unary("ReluMinMax", params, node, layout)
    }

    fn gelu(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let attributes = &node.attributes;
        let tanh = attributes.str(Attr::Approximate) == Some("tanh");
        // the two differ by at most 0.0005, which 8 bits do not show
        let coarse = matches!(domain, Domain::Fixed(Type::Ufixed8 | Type::Sfixed8));
        if tanh && !coarse {
            return Err(Refusal::attribute(
                "approximate is tanh; the library's Gelu is exact",
            ));
        }
        self.unary("Gelu", Vec::new(), node, layout)
    }

    fn leaky_relu(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let alpha = node.attributes.float(Attr::Alpha).unwrap_or(0.01);
        let input = self.input(node, 0)?;
        let from = self.read(input, layout)?;
        let slope = match domain {
            Domain::Fixed(ty) => {
                let bad = || Refusal::attribute(format!("alpha {alpha} cannot be quantised"));
                let quant = crate::constant::spanning(ty, &[alpha]).ok_or_else(bad)?;
                let stored = crate::constant::quantise(ty, &quant, &[alpha]).ok_or_else(bad)?;
                let bytes = crate::constant::store(ty, &stored);
                self.fixed("slope", ty, quant, &[1], bytes)
            }
            Domain::Float(ty) => {
                let bytes = crate::constant::store_floats(ty, &[alpha]);
                self.fixed("slope", ty, Quant::None, &[1], bytes)
            }
            Domain::Whole => return Err(Refusal::new(Reason::DType, "LeakyRelu of integers")),
        };
        let to = self.write(self.output(node, 0)?, layout)?;
        self.op("Prelu", Vec::new(), &[from, slope], &[to]);
        Ok(())
    }

    fn select(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        let output = self.output(node, 0)?;
        let rank = self.shape(output)?.len();
        let mut operands = Vec::with_capacity(3);
        for place in 0..3 {
            let input = self.input(node, place)?;
            operands.push(self.operand(input, layout, rank, domain)?);
        }
        let to = self.write(output, layout)?;
        self.op("ElementWiseSelect", Vec::new(), &operands, &[to]);
        Ok(())
    }

    /// x × sigmoid(x): the sigmoid between has no encoding, so floats only.
    fn swish(&mut self, node: &Node, layout: Layout, domain: Domain) -> Outcome<()> {
        if !matches!(domain, Domain::Float(_)) || node.attributes.float(Attr::Alpha).unwrap_or(1.0) != 1.0 {
            return Err(Refusal::encoding(
                "Swish of quantised tensors or with alpha: the sigmoid between has no encoding",
            ));
        }
        let input = self.input(node, 0)?;
        let from = self.read(input, layout)?;
        let dims = self.dims_of(from);
        let gate = self.native("gate", self.ty_of(from), Quant::None, &dims);
        self.op("Sigmoid", Vec::new(), &[from], &[gate]);
        let to = self.write(self.output(node, 0)?, layout)?;
        self.op("ElementWiseMultiply", Vec::new(), &[from, gate], &[to]);
        Ok(())
    }
}

/// Refuses a function with steps of f32, which the NPU rounds to 16 bits.
fn exact_steps(node: &Node, domain: Domain) -> Outcome<()> {
    if domain != Domain::Float(Type::Float32) {
        return Ok(());
    }
    let what = format!(
        "{} of f32, which the NPU rounds to 16 bits: a step may fall elsewhere",
        node.op_name
    );
    Err(Refusal::dtype(what))
}
