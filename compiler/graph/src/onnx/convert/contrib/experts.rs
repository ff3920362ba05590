//! Mixtures of experts: all experts are computed, and each token takes the sum that its router weighs. The weight of an
//! expert that was not chosen is zero.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers.
//!
//! Not here: routing that samples (`use_sparse_mixer`), and codes of small floats.

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};

use crate::onnx::convert::foreign::Foreign;
use crate::{Constant, Error, Tensor, TensorId};

/// Where a node has its inputs.
struct Slots {
    weights: [usize; 3],
    bias: [usize; 3],
    /// Scales and zero points of codes.
    codes: Option<([usize; 3], [usize; 3])>,
}

/// What an expert does between its products.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Op(Op),
    Silu,
    /// A gate and what passes it: in turn, or one behind the other.
    Gated {
        in_turn: bool,
    },
    /// A gate of the first product for what the third gives.
    Apart,
}

impl Foreign<'_, '_> {
    pub(super) fn experts(&mut self) -> Result<bool, Error> {
        self.mixture(&Slots {
            weights: [2, 4, 6],
            bias: [3, 5, 7],
            codes: None,
        })
    }

    pub(super) fn quantised_experts(&mut self) -> Result<bool, Error> {
        if self.text("quant_type").is_some_and(|kind| kind != "int")
            || self.int("weights_prepacked") == Some(1)
        {
            return Ok(false);
        }
        self.mixture(&Slots {
            weights: [2, 5, 8],
            bias: [4, 7, 10],
            codes: Some(([3, 6, 9], [11, 12, 13])),
        })
    }

    fn between(&self, third: bool) -> Option<Between> {
        let name = self.text("activation_type");
        Some(
            match (
                name.as_deref().unwrap_or("relu"),
                self.int("swiglu_fusion").unwrap_or(0),
            ) {
                ("relu", _) => Between::Op(Op::Relu),
                ("gelu", _) => Between::Op(Op::Gelu),
                ("identity", _) => Between::Op(Op::Identity),
                ("silu", _) => Between::Silu,
                ("swiglu", 1) if !third => Between::Gated { in_turn: true },
                ("swiglu", 2) if !third => Between::Gated { in_turn: false },
                ("swiglu", 0) if third => Between::Apart,
                _ => return None,
            },
        )
    }

    fn mixture(&mut self, slots: &Slots) -> Result<bool, Error> {
        let flag = |name: &str| self.int(name).unwrap_or(0) != 0;
        let third = self.input(slots.weights[2]).is_some();
        let (Some(x), Some(router), Some(between)) = (self.input(0), self.input(1), self.between(third))
        else {
            return Ok(false);
        };
        let chosen = self.int("k").unwrap_or(1);
        if flag("use_sparse_mixer") || flag("swiglu_limit_after_activation") || chosen < 1 {
            return Ok(false);
        }
        let width = slots
            .codes
            .and_then(|_| self.size(x, self.rank(x).unwrap_or(1) - 1));
        let count = if third { 3 } else { 2 };
        let mut weights = Vec::new();
        for place in 0..count {
            let slot = slots.weights[place];
            let made = match slots.codes {
                None => self.input(slot),
                Some((scales, zeros)) => {
                    let inputs = [slot, scales[place], zeros[place]];
                    self.coded(inputs, width.filter(|_| place != 1), ["w1", "w2", "w3"][place])?
                }
            };
            let Some(made) = made else { return Ok(false) };
            weights.push(made);
        }
        let Some(hidden) = self.size(weights[1], 1) else {
            return Ok(false);
        };
        let rows = self.reshaped(x, &[-1, hidden], "rows")?;
        let shares = self.routing(router, chosen)?;
        let all = self.unsqueezed(rows, &[0], "rows.all")?;
        let inner = self.projection(all, weights[0], self.input(slots.bias[0]), "first")?;
        let limit = self.float("swiglu_limit").filter(|limit| limit.is_finite());
        let inner = match between {
            Between::Op(op) => {
                let attributes = match op {
                    Op::Gelu => Attributes::new().with_str(Attr::Approximate, "tanh"),
                    _ => Attributes::new(),
                };
                self.with(op, &[inner], attributes, "between")?
            }
            Between::Silu => {
                let gate = self.step(Op::Sigmoid, &[inner], "gate")?;
                self.step(Op::Mul, &[inner, gate], "between")?
            }
            Between::Gated { in_turn: true } => {
                let pairs = self.reshaped_pairs(inner)?;
                let parts = self.split(pairs, -1, &[1, 1], &["gate.pair", "linear.pair"])?;
                let gate = self.squeezed(parts[0], &[-1], "gate.half")?;
                let linear = self.squeezed(parts[1], &[-1], "linear.half")?;
                self.gated(gate, linear, limit)?
            }
            Between::Gated { in_turn: false } => {
                let halves = Attributes::new()
                    .with_int(Attr::Axis, -1)
                    .with_int(Attr::NumOutputs, 2);
                let parts = self.several(
                    Op::Split,
                    vec![Some(inner)],
                    halves,
                    &["gate.half", "linear.half"],
                )?;
                self.gated(parts[0], parts[1], limit)?
            }
            Between::Apart => {
                let linear = self.projection(all, weights[2], self.input(slots.bias[2]), "third")?;
                self.gated(inner, linear, limit)?
            }
        };
        // without a function of two, the third is a factor
        let inner = match (third, between) {
            (true, Between::Op(_) | Between::Silu) => {
                let factor = self.projection(all, weights[2], self.input(slots.bias[2]), "third")?;
                self.step(Op::Mul, &[inner, factor], "between.factor")?
            }
            _ => inner,
        };
        let outer = self.projection(inner, weights[1], self.input(slots.bias[1]), "second")?;
        let shares = self.permuted(shares, &[1, 0], "shares.turned")?;
        let shares = self.unsqueezed(shares, &[2], "shares.column")?;
        let weighed = self.step(Op::Mul, &[outer, shares], "weighed")?;
        let sum = self.reduced(Op::ReduceSum, weighed, &[0], false, "sum")?;
        let shape = self.with(Op::Shape, &[x], Attributes::new(), "shape")?;
        self.last(Op::Reshape, vec![Some(sum), Some(shape)], Attributes::new())
    }

    fn reshaped_pairs(&mut self, x: TensorId) -> Result<TensorId, Error> {
        self.reshaped(x, &[0, 0, -1, 2], "pairs")
    }

    /// `x · wᵀ + bias`, of each expert.
    fn projection(
        &mut self,
        x: TensorId,
        weights: TensorId,
        bias: Option<TensorId>,
        role: &str,
    ) -> Result<TensorId, Error> {
        let turned = self.permuted(weights, &[0, 2, 1], &format!("{role}.turned"))?;
        let product = self.step(Op::MatMul, &[x, turned], &format!("{role}.product"))?;
        match bias {
            None => Ok(product),
            Some(bias) => {
                let bias = self.unsqueezed(bias, &[1], &format!("{role}.bias"))?;
                self.step(Op::Add, &[product, bias], role)
            }
        }
    }

    /// The weight of each expert for each token, `[tokens, experts]`.
    fn routing(&mut self, router: TensorId, chosen: i64) -> Result<TensorId, Error> {
        let count = self.list(&[chosen], "chosen.count");
        let last = Attributes::new().with_int(Attr::Axis, -1);
        let of_codes = self.0.node.op_name.as_ref() == "QMoE";
        let separate = self.input(14).filter(|_| of_codes);
        let best = self.several(
            Op::TopK,
            vec![Some(router), Some(count)],
            last.clone(),
            &["chosen.scores", "chosen"],
        )?;
        let normal = self.int("normalize_routing_weights").unwrap_or(0) != 0;
        let picked = match separate {
            Some(weights) => {
                let picked = self.with(Op::GatherElements, &[weights, best[1]], last.clone(), "picked")?;
                if normal { self.portions(picked)? } else { picked }
            }
            // of those that were chosen, or of all; with codes, always of those
            None if normal || of_codes => self.with(Op::Softmax, &[best[0]], last.clone(), "picked")?,
            None => {
                let all = self.with(Op::Softmax, &[router], last.clone(), "probabilities")?;
                self.with(Op::GatherElements, &[all, best[1]], last.clone(), "picked")?
            }
        };
        let none = self.step(Op::Sub, &[router, router], "shares.none")?;
        self.with(Op::ScatterElements, &[none, best[1], picked], last, "shares")
    }

    fn portions(&mut self, picked: TensorId) -> Result<TensorId, Error> {
        let sum = self.reduced(Op::ReduceSum, picked, &[-1], true, "picked.sum")?;
        self.step(Op::Div, &[picked, sum], "picked.portions")
    }

    /// The real weights of codes `[experts, n, k * bits / 8]`; `None` where they are no constants of this form.
    fn coded(
        &mut self,
        [codes, scales, zeros]: [usize; 3],
        width: Option<i64>,
        role: &str,
    ) -> Result<Option<TensorId>, Error> {
        let first = role == "w1" || role == "w3";
        let own = if first {
            "fc1_expert_weight_bits"
        } else {
            "fc2_expert_weight_bits"
        };
        let bits = self
            .int(own)
            .or_else(|| self.int("expert_weight_bits"))
            .unwrap_or(4);
        let (dtype, middle) = match bits {
            2 => (DType::U2, 0b1010_1010),
            4 => (DType::U4, 0x88),
            8 => (DType::U8, 0x80),
            _ => return Ok(None),
        };
        let (Some(codes), Some(scales)) = (self.input(codes), self.input(scales)) else {
            return Ok(None);
        };
        let (Some(sizes), Some(data)) = (self.sizes(codes), self.stored(codes, DType::U8)) else {
            return Ok(None);
        };
        let &[experts, n, bytes] = sizes.as_slice() else {
            return Ok(None);
        };
        let k = bytes * 8 / bits;
        if width.is_some_and(|width| width != k) {
            return Ok(None);
        }
        let Some(scale_sizes) = self.sizes(scales) else {
            return Ok(None);
        };
        let blocks = match scale_sizes.as_slice() {
            [_, _] => 1,
            &[_, _, blocks] if blocks > 0 => blocks,
            _ => return Ok(None),
        };
        if k % blocks != 0 {
            return Ok(None);
        }
        let dims = [experts, n, k].map(|size| size as usize);
        let grid = [experts, n, blocks].map(|size| size as usize);
        let needed = (grid.iter().product::<usize>() * bits as usize).div_ceil(8);
        let zeros = match self.input(zeros) {
            None => Constant::new(vec![middle; needed]),
            // rows of whole bytes; of one block, codes of all rows lie side by side
            Some(zeros) => match self.stored(zeros, DType::U8) {
                Some(data) if data.bytes.len() == needed && (blocks == 1 || blocks * bits % 8 == 0) => data,
                _ => return Ok(None),
            },
        };
        let mut add = |part: &str, dims: &[usize], data: Constant| {
            let name = self.0.name(&format!("{role}.{part}"));
            let ty = TensorType::known(dtype, dims);
            self.0.target.graph.add_tensor(Tensor::constant(name, ty, data))
        };
        let codes = add("codes", &dims, data);
        let zeros = add("zeros", &grid, zeros);
        let shape = self
            .0
            .constant(&format!("{role}.grid"), &Literal::i64s(&[experts, n, blocks]));
        let scales = self.step(Op::Reshape, &[scales, shape], &format!("{role}.scales"))?;
        let blocked = Attributes::new()
            .with_int(Attr::Axis, 2)
            .with_int(Attr::BlockSize, k / blocks);
        let inputs = vec![Some(codes), Some(scales), Some(zeros)];
        let real = self.node(Op::DequantizeLinear, inputs, &format!("{role}.real"), blocked)?;
        self.step(Op::CastLike, &[real, self.0.input(0)?], role).map(Some)
    }
}
