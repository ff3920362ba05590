//! Operations element by element, reductions, and those that only move elements.

use polychip_ops::{Attr, Attributes, Literal, Op};
use polychip_sys::nnrt::bindings as sys;

use super::{Lower, Outcome, from_front, with_axis};

/// Operations with one float operand. Those that also accept 8-bit integers are in [`OF_BYTES`].
const UNARY: &[(u32, Op)] = &[
    (sys::OH_NN_OPS_ABS, Op::Abs),
    (sys::OH_NN_OPS_CEIL, Op::Ceil),
    (sys::OH_NN_OPS_COS, Op::Cos),
    (sys::OH_NN_OPS_ERF, Op::Erf),
    (sys::OH_NN_OPS_EXP, Op::Exp),
    (sys::OH_NN_OPS_FLOOR, Op::Floor),
    (sys::OH_NN_OPS_HSWISH, Op::HardSwish),
    (sys::OH_NN_OPS_LOG, Op::Log),
    (sys::OH_NN_OPS_NEG, Op::Neg),
    (sys::OH_NN_OPS_RECIPROCAL, Op::Reciprocal),
    (sys::OH_NN_OPS_RELU, Op::Relu),
    (sys::OH_NN_OPS_SIGMOID, Op::Sigmoid),
    (sys::OH_NN_OPS_SIN, Op::Sin),
    (sys::OH_NN_OPS_SQRT, Op::Sqrt),
    (sys::OH_NN_OPS_TANH, Op::Tanh),
];

/// Operations that accept quantised 8-bit tensors besides floats.
const OF_BYTES: &[u32] = &[
    sys::OH_NN_OPS_ADD,
    sys::OH_NN_OPS_SUB,
    sys::OH_NN_OPS_MUL,
    sys::OH_NN_OPS_HSWISH,
    sys::OH_NN_OPS_RELU,
    sys::OH_NN_OPS_SIGMOID,
    sys::OH_NN_OPS_TANH,
];

/// Operations with two operands of one type, and the role of the activation, if there is one.
const BINARY: &[(u32, Op, Option<u32>)] = &[
    (sys::OH_NN_OPS_ADD, Op::Add, Some(sys::OH_NN_ADD_ACTIVATIONTYPE)),
    (sys::OH_NN_OPS_SUB, Op::Sub, Some(sys::OH_NN_SUB_ACTIVATIONTYPE)),
    (sys::OH_NN_OPS_MUL, Op::Mul, Some(sys::OH_NN_MUL_ACTIVATION_TYPE)),
    (sys::OH_NN_OPS_DIV, Op::Div, Some(sys::OH_NN_DIV_ACTIVATIONTYPE)),
    (sys::OH_NN_OPS_MAXIMUM, Op::Max, None),
    (sys::OH_NN_OPS_MINIMUM, Op::Min, None),
    (sys::OH_NN_OPS_POW, Op::Pow, None),
    (sys::OH_NN_OPS_EQUAL, Op::Equal, None),
    (sys::OH_NN_OPS_GREATER, Op::Greater, None),
    (sys::OH_NN_OPS_GREATER_EQUAL, Op::GreaterOrEqual, None),
    (sys::OH_NN_OPS_LESS, Op::Less, None),
    (sys::OH_NN_OPS_LESS_EQUAL, Op::LessOrEqual, None),
    (sys::OH_NN_OPS_LOGICAL_AND, Op::And, None),
    (sys::OH_NN_OPS_LOGICAL_OR, Op::Or, None),
];

impl Lower<'_> {
    pub(super) fn elementwise(&mut self, code: u32) -> Outcome<()> {
        if let Some((_, op, activation)) = BINARY.iter().find(|(own, _, _)| *own == code) {
            return self.binary(code, *op, *activation);
        }
        if let Some((_, op)) = UNARY.iter().find(|(own, _)| *own == code) {
            self.takes(1)?;
            if OF_BYTES.contains(&code) {
                self.reals(0)?
            } else {
                self.floats(0)?
            }
            return self.unary(*op, Attributes::new());
        }
        match code {
            sys::OH_NN_OPS_LOGICAL_NOT => {
                self.takes(1)?;
                self.unary(Op::Not, Attributes::new())
            }
            sys::OH_NN_OPS_LEAKY_RELU => {
                self.takes(1)?;
                self.reals(0)?;
                let slope = self.params()?.real(sys::OH_NN_LEAKY_RELU_NEGATIVE_SLOPE)?;
                self.unary(Op::LeakyRelu, Attributes::new().with_float(Attr::Alpha, slope))
            }
            sys::OH_NN_OPS_RELU6 => {
                self.takes(1)?;
                self.reals(0)?;
                let value = self.value(0)?;
                let out = self.activated(value, Some(sys::OH_NN_FUSED_RELU6 as u8))?;
                self.give(out, 0)
            }
            sys::OH_NN_OPS_PRELU => {
                self.takes(2)?;
                self.floats(0)?;
                let (shape, slopes) = (self.shape(0)?, self.shape(1)?);
                let channels = shape.last().copied().unwrap_or(1);
                if slopes != [1] && slopes != [channels] {
                    return Err(format!("slopes {slopes:?} of {shape:?}"));
                }
                let inputs = [self.value(0)?, self.value(1)?];
                let out = self.step(Op::PRelu, Attributes::new(), &inputs);
                self.give(out, 0)
            }
            _ => Err("is not computed".to_owned()),
        }
    }

    fn unary(&mut self, op: Op, attributes: Attributes) -> Outcome<()> {
        let value = self.value(0)?;
        let out = self.step(op, attributes, &[value]);
        self.give(out, 0)
    }

    fn binary(&mut self, code: u32, op: Op, activation: Option<u32>) -> Outcome<()> {
        self.takes(2)?;
        let (left, right) = (self.tensor(0)?.ty, self.tensor(1)?.ty);
        let truths = matches!(op, Op::And | Op::Or);
        if left != right || truths != (left == sys::OH_NN_BOOL) {
            return Err(format!("operands of types {left} and {right}"));
        }
        if left == sys::OH_NN_INT8 {
            // one that is not encoded has no reals
            self.reals(0)?;
            self.reals(1)?;
            if !OF_BYTES.contains(&code) {
                return Err("is not computed of bytes".to_owned());
            }
        }
        let params = self.params()?;
        let inputs = [self.value(0)?, self.value(1)?];
        let out = self.step(op, Attributes::new(), &inputs);
        let out = self.activated(out, activation.and_then(|role| params.byte(role)))?;
        self.give(out, 0)
    }

    pub(super) fn select(&mut self) -> Outcome<()> {
        self.takes(3)?;
        let shape = self.shape(0)?;
        if self.shape(1)? != shape || self.shape(2)? != shape || self.tensor(0)?.ty != sys::OH_NN_BOOL {
            return Err("a choice between tensors of other shapes, or by no truth values".to_owned());
        }
        let inputs = [self.value(0)?, self.value(1)?, self.value(2)?];
        let out = self.step(Op::Where, Attributes::new(), &inputs);
        self.give(out, 0)
    }

    pub(super) fn softmax(&mut self) -> Outcome<()> {
        self.takes(1)?;
        self.floats(0)?;
        let (op, role) = match self.operation.code {
            sys::OH_NN_OPS_SOFTMAX => (Op::Softmax, sys::OH_NN_SOFTMAX_AXIS),
            _ => (Op::LogSoftmax, sys::OH_NN_LOG_SOFTMAX_AXIS),
        };
        let axis = from_front(self.params()?.long(role)?, self.shape(0)?.len())?;
        self.unary(op, with_axis(axis))
    }

    pub(super) fn reduce(&mut self) -> Outcome<()> {
        self.takes(2)?;
        let (op, role) = match self.operation.code {
            sys::OH_NN_OPS_REDUCE_MEAN => (Op::ReduceMean, sys::OH_NN_REDUCE_MEAN_KEEP_DIMS),
            sys::OH_NN_OPS_REDUCE_PROD => (Op::ReduceProd, sys::OH_NN_REDUCE_PROD_KEEP_DIMS),
            sys::OH_NN_OPS_REDUCE_MAX => (Op::ReduceMax, sys::OH_NN_REDUCE_MAX_KEEP_DIMS),
            sys::OH_NN_OPS_REDUCE_MIN => (Op::ReduceMin, sys::OH_NN_REDUCE_MIN_KEEP_DIMS),
            _ => (Op::ReduceSum, sys::OH_NN_REDUCE_SUM_KEEP_DIMS),
        };
        let axes = self.list(1)?;
        let rank = self.shape(0)?.len();
        polychip_ops::axis::normalise_all(&axes, rank).ok_or_else(|| format!("axes {axes:?} of {rank}"))?;
        let keep = i64::from(self.params()?.truth(role));
        let inputs = [self.value(0)?, self.known(&axes)?];
        let out = self.step(op, Attributes::new().with_int(Attr::Keepdims, keep), &inputs);
        self.give(out, 0)
    }

    /// Reshapes the operand to the declared shape.
    pub(super) fn reshape(&mut self) -> Outcome<()> {
        self.takes(2)?;
        let wanted = self.list(1)?;
        let declared: Vec<i64> = self.out().shape().into_iter().map(|dim| dim as i64).collect();
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        if wanted != declared || elements(&self.shape(0)?) != elements(&self.out().shape()) {
            return Err(format!(
                "{:?} as {wanted:?}, declared {declared:?}",
                self.shape(0)?
            ));
        }
        let inputs = [self.value(0)?, self.known(&wanted)?];
        let out = self.step(Op::Reshape, Attributes::new(), &inputs);
        self.give(out, 0)
    }

    pub(super) fn transpose(&mut self) -> Outcome<()> {
        self.takes(2)?;
        let order = self.list(1)?;
        let rank = self.shape(0)?.len();
        let places = polychip_ops::axis::normalise_all(&order, rank).filter(|places| places.len() == rank);
        let places = places.ok_or_else(|| format!("order {order:?} of {rank} axes"))?;
        let value = self.value(0)?;
        let out = self.builder.transpose(value, &places);
        self.give(out, 0)
    }

    pub(super) fn concat(&mut self) -> Outcome<()> {
        let rank = self.shape(0)?.len();
        let axis = from_front(self.params()?.long(sys::OH_NN_CONCAT_AXIS)?, rank)?;
        let mut inputs = Vec::new();
        for place in 0..self.operation.inputs.len() {
            inputs.push(self.value(place)?);
        }
        let out = self.step(Op::Concat, with_axis(axis), &inputs);
        self.give(out, 0)
    }

    pub(super) fn split(&mut self) -> Outcome<()> {
        self.takes(1)?;
        let params = self.params()?;
        let count = self.operation.outputs.len();
        let axis = from_front(params.long(sys::OH_NN_SPLIT_AXIS)?, self.shape(0)?.len())?;
        let sizes = params.longs(sys::OH_NN_SPLIT_SIZE_SPLITS, count)?;
        let sum = sizes.iter().sum::<i64>();
        if params.long(sys::OH_NN_SPLIT_OUTPUT_NUM)? != count as i64 || sum != self.shape(0)?[axis] as i64 {
            return Err(format!("pieces {sizes:?} of {:?}", self.shape(0)?));
        }
        let inputs = [Some(self.value(0)?), Some(self.known(&sizes)?)];
        let outs: Vec<_> = sizes.iter().map(|_| self.builder.between()).collect();
        self.builder.step_to(Op::Split, with_axis(axis), &inputs, &outs);
        for (place, out) in outs.into_iter().enumerate() {
            self.give(out, place)?;
        }
        Ok(())
    }

    /// Slices the operand from `begin` to `end` by `steps`.
    fn cut(&mut self, begin: &[i64], end: &[i64], steps: &[i64]) -> Outcome<()> {
        let shape = self.shape(0)?;
        let lists = [begin, end, steps];
        let inside = |axis: usize| (0..=end[axis]).contains(&begin[axis]) && end[axis] <= shape[axis] as i64;
        if lists.iter().any(|list| list.len() != shape.len()) || !(0..shape.len()).all(inside) {
            return Err(format!("{begin:?} to {end:?} of {shape:?}"));
        }
        let axes: Vec<i64> = (0..shape.len() as i64).collect();
        let inputs = [
            self.value(0)?,
            self.known(begin)?,
            self.known(end)?,
            self.known(&axes)?,
            self.known(steps)?,
        ];
        let out = self.step(Op::Slice, Attributes::new(), &inputs);
        self.give(out, 0)
    }

    pub(super) fn slice(&mut self) -> Outcome<()> {
        self.takes(3)?;
        let (begin, size) = (self.list(1)?, self.list(2)?);
        let end: Vec<i64> = begin
            .iter()
            .zip(&size)
            .map(|(begin, size)| begin + size)
            .collect();
        self.cut(&begin, &end, &vec![1; begin.len()])
    }

    pub(super) fn strided_slice(&mut self) -> Outcome<()> {
        self.takes(4)?;
        let params = self.params()?;
        for role in [
            sys::OH_NN_STRIDED_SLICE_BEGIN_MASK,
            sys::OH_NN_STRIDED_SLICE_END_MASK,
            sys::OH_NN_STRIDED_SLICE_ELLIPSIS_MASK,
            sys::OH_NN_STRIDED_SLICE_NEW_AXIS_MASK,
            sys::OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK,
        ] {
            if params.long(role)? != 0 {
                return Err(format!("mask {role}"));
            }
        }
        let (begin, end, steps) = (self.list(1)?, self.list(2)?, self.list(3)?);
        self.cut(&begin, &end, &steps)
    }

    pub(super) fn pad(&mut self) -> Outcome<()> {
        self.takes(2)?;
        self.floats(0)?;
        let params = self.params()?;
        let amounts = self.list(1)?;
        let rank = self.shape(0)?.len();
        if self.shape(1)? != [rank, 2] {
            return Err(format!("amounts {amounts:?} for {rank} axes"));
        }
        let mode = match params.int(sys::OH_NN_PAD_PADDING_MODE) {
            None | Some(0) => "constant",
            Some(1) => "reflect",
            Some(mode) => return Err(format!("mode {mode}")),
        };
        let sides = [0, 1].map(|side| amounts.iter().skip(side).step_by(2).copied());
        let pads: Vec<i64> = sides.into_iter().flatten().collect();
        let value = Literal::scalar_f32(params.real(sys::OH_NN_PAD_CONSTANT_VALUE)?);
        let inputs = [self.value(0)?, self.known(&pads)?, self.builder.literal(&value)?];
        let attributes = Attributes::new().with_str(Attr::Mode, mode);
        let out = self.step(Op::Pad, attributes, &inputs);
        self.give(out, 0)
    }

    pub(super) fn tile(&mut self) -> Outcome<()> {
        self.takes(2)?;
        let times = self.list(1)?;
        let inputs = [self.value(0)?, self.known(&times)?];
        let out = self.step(Op::Tile, Attributes::new(), &inputs);
        self.give(out, 0)
    }

    pub(super) fn gather(&mut self) -> Outcome<()> {
        self.takes(3)?;
        let shape = self.shape(0)?;
        let axis = match self.list(2)?[..] {
            [axis] => from_front(axis, shape.len())?,
            ref axes => return Err(format!("axes {axes:?}")),
        };
        let places = self.list(1)?;
        if places
            .iter()
            .any(|place| !(0..shape[axis] as i64).contains(place))
        {
            return Err(format!("places {places:?} of {shape:?}"));
        }
        let inputs = [self.value(0)?, self.value(1)?];
        let out = self.step(Op::Gather, with_axis(axis), &inputs);
        self.give(out, 0)
    }
}
