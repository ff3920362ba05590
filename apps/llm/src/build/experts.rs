//! Feed-forward by experts: a router chooses some for each token and weighs what they give.
//!
//! Invariant: an expert that was not chosen has the weight zero, so that it adds zeros.
//!
//! All experts are computed. The first products of all experts are one product, because their
//! matrices follow each other in the file; the last one is a product for each expert.

use polychip_graph::TensorId;
use polychip_ops::{Attr, Attributes, DType, Op};

use super::Builder;
use super::values::floats;
use crate::Result;
use crate::config::{Experts, Routing};

impl Builder<'_> {
    pub(super) fn experts(&mut self, layer: u32, x: TensorId, experts: Experts) -> Result<TensorId> {
        let rows = self.shape.rows;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (count, inner) = (experts.count as usize, experts.feed_forward as usize);
        let width = self.config.embedding as usize;
        let shares = self.shares(layer, x, experts)?;
        let mut first = |which: &str| -> Result<TensorId> {
            let (weights, columns) = self.weights(&name(&format!("{which}.weight")), None)?;
            let mut inputs = vec![x, weights];
            if experts.has_bias {
                inputs.push(self.vector(&name(&format!("{which}.bias")))?);
            }
            Ok(self.product(&inputs, &[rows, columns]))
        };
        let (gate, up) = (first("ffn_gate_exps")?, first("ffn_up_exps")?);
        let gated = self.gated(gate, up, &[rows, count * inner]);
        let by_expert = [rows, count, inner];
        let gated = self.draft.reshape(gated, DType::F32, &by_expert);
        let column = self.draft.reshape(shares, DType::F32, &[rows, count, 1]);
        let weighed = self.draft.combine(Op::Mul, [gated, column], &by_expert);
        let weighed = self.draft.reshape(weighed, DType::F32, &[rows, count * inner]);
        let parts = self
            .draft
            .pieces(weighed, &vec![inner; count], DType::F32, &[rows]);
        let shape = [rows, width];
        let mut sum = None;
        if experts.has_bias {
            let down = name("ffn_down_exps.bias");
            let values = floats(self.file, &down)?;
            let bias = self.draft.floats(&down, &[count, width], &values);
            let none = Attributes::new();
            sum = Some(
                self.draft
                    .node(Op::Gemm, &[shares, bias], none, DType::F32, &shape),
            );
        }
        for (index, part) in parts.into_iter().enumerate() {
            let of = index * width..(index + 1) * width;
            let (weights, _) = self.weights(&name("ffn_down_exps.weight"), Some(of))?;
            let given = self.product(&[part, weights], &shape);
            sum = Some(match sum {
                None => given,
                Some(sum) => self.draft.combine(Op::Add, [sum, given], &shape),
            });
        }
        let sum = sum.expect("invariant: there are experts");
        match experts.shared {
            None => Ok(sum),
            Some(inner) => {
                let shared = self.shared_expert(layer, x, inner as usize)?;
                Ok(self.draft.combine(Op::Add, [sum, shared], &shape))
            }
        }
    }

    /// The weight of each expert for each token, `[rows, experts]`.
    fn shares(&mut self, layer: u32, x: TensorId, experts: Experts) -> Result<TensorId> {
        let rows = self.shape.rows;
        let (count, used) = (experts.count as usize, experts.used as usize);
        let name = |end: &str| format!("blk.{layer}.ffn_gate_inp.{end}");
        let bias = experts.has_bias.then(|| name("bias"));
        let last = || Attributes::new().with_int(Attr::Axis, -1);
        let mut scores = self.linear(x, &name("weight"), bias, rows)?;
        if experts.routing == Routing::OfAll {
            scores = self.draft.map(Op::Softmax, scores, last(), &[rows, count]);
        }
        let [mut chosen, indices] = self.draft.largest(scores, used, rows);
        if experts.routing == Routing::OfChosen {
            chosen = self.draft.map(Op::Softmax, chosen, last(), &[rows, used]);
        }
        let none = self.draft.floats(
            &format!("no shares of {count}"),
            &[rows, count],
            &vec![0.0; rows * count],
        );
        let inputs = [none, indices, chosen];
        Ok(self
            .draft
            .node(Op::ScatterElements, &inputs, last(), DType::F32, &[rows, count]))
    }

    /// What the expert that every token has gives, times how far its gate is open.
    fn shared_expert(&mut self, layer: u32, x: TensorId, inner: usize) -> Result<TensorId> {
        let rows = self.shape.rows;
        let width = self.config.embedding as usize;
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let gate = self.linear(x, &name("ffn_gate_shexp"), None, rows)?;
        let up = self.linear(x, &name("ffn_up_shexp"), None, rows)?;
        let gated = self.gated(gate, up, &[rows, inner]);
        let given = self.linear(gated, &name("ffn_down_shexp"), None, rows)?;
        let door = name("ffn_gate_inp_shexp");
        let values = floats(self.file, &door)?;
        let weights = self.draft.floats(&door, &[1, width], &values);
        let open = self.product(&[x, weights], &[rows, 1]);
        let open = self.draft.map(Op::Sigmoid, open, Attributes::new(), &[rows, 1]);
        Ok(self.draft.combine(Op::Mul, [given, open], &[rows, width]))
    }
}
