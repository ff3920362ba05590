//! Attention over heads as ONNX Runtime's optimisers write it: Attention, MultiHeadAttention and their relatives, said by
//! ONNX's Attention.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers.
//!
//! Invariants:
//! 1. A key that a mask hides gets `mask_filter_value` added, a finite number: a row that sees no key keeps the order of its
//!    scores, as there.
//! 2. Buffers that past and present share, and beams, are not expressed: such a node is left as it is.
//!
//! Not here: attention over a cache by lengths (`grouped`).

use polychip_ops::{Attr, Attributes, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

/// Where MultiHeadAttention and its relatives have their inputs.
struct Slots {
    bias: usize,
    mask: usize,
    scores_bias: usize,
    past: [usize; 2],
    /// Inputs of buffers and beams.
    refused: &'static [usize],
}

const MULTI_HEAD: Slots = Slots {
    bias: 3,
    mask: 4,
    scores_bias: 5,
    past: [6, 7],
    refused: &[8, 9],
};

const ONE_TOKEN: Slots = Slots {
    bias: 10,
    mask: 3,
    scores_bias: 4,
    past: [5, 6],
    refused: &[7, 9],
};

/// What one attention is of.
struct Heads {
    /// Query, key and value, all `[batch, length, heads * size]` or all `[batch, heads, length, size]`.
    qkv: [TensorId; 3],
    count: i64,
    mask: Option<TensorId>,
    past: Option<[TensorId; 2]>,
    causal: bool,
}

impl Foreign<'_, '_> {
    /// What is added to scores for keys that a mask hides: `[batch, 1, 1 or queries, keys]`. `keys` is their number, a vector
    /// of one, which a mask of lengths needs.
    fn hidden(
        &mut self,
        mask: TensorId,
        x: TensorId,
        keys: Option<TensorId>,
        filter: f32,
    ) -> Result<TensorId, Error> {
        let kept = match (self.rank(mask), keys) {
            (Some(1), Some(keys)) => self.inside(mask, x, keys)?,
            (rank, _) => {
                let dtype = self.dtype(mask).unwrap_or(polychip_ops::DType::I32);
                let kept = self.by_int(Op::Greater, mask, (dtype, 0), Attributes::new(), "mask.kept")?;
                let axes: &[i64] = if rank == Some(3) { &[1] } else { &[1, 2] };
                self.unsqueezed(kept, axes, "mask.wide")?
            }
        };
        let zero = self.number(0.0, x, "mask.zero")?;
        let filter = self.number(filter, x, "mask.filter")?;
        self.step(Op::Where, &[kept, zero, filter], "mask")
    }

    /// Keys before the ends that a vector holds, and from the starts that it may hold behind them.
    fn inside(&mut self, mask: TensorId, x: TensorId, keys: TensorId) -> Result<TensorId, Error> {
        let i64 = polychip_ops::DType::I64;
        let mask = self.as_type(mask, i64, "mask.lengths")?;
        let places = self.counted(keys, "mask.places")?;
        let batch = self.extent(x, 0, "mask.batch")?;
        // with as many zeros behind it, what is no start is one
        let zero = self.list(&[0], "mask.none");
        let zeros = self.step(Op::Expand, &[zero, batch], "mask.zeros")?;
        let both = self.joined(&[mask, zeros], 0, "mask.both")?;
        let twice = self.step(Op::Add, &[batch, batch], "mask.twice")?;
        let ends = self.step(Op::Slice, &[both, zero, batch], "mask.ends")?;
        let starts = self.step(Op::Slice, &[both, batch, twice], "mask.starts")?;
        // of a vector with more than that, these are other numbers
        let length = self.extent(mask, 0, "mask.length")?;
        let has_starts = self.step(Op::Equal, &[length, twice], "mask.paired")?;
        let starts = self.step(Op::Where, &[has_starts, starts, zero], "mask.starts.given")?;
        let ends = self.unsqueezed(ends, &[1], "mask.ends.column")?;
        let starts = self.unsqueezed(starts, &[1], "mask.starts.column")?;
        let before = self.step(Op::Less, &[places, ends], "mask.before")?;
        let behind = self.step(Op::GreaterOrEqual, &[places, starts], "mask.behind")?;
        let kept = self.step(Op::And, &[before, behind], "mask.kept")?;
        self.unsqueezed(kept, &[1, 2], "mask.wide")
    }

    /// Sum of what both add to the scores.
    fn together(
        &mut self,
        mask: Option<TensorId>,
        bias: Option<TensorId>,
    ) -> Result<Option<TensorId>, Error> {
        match (mask, bias) {
            (Some(mask), Some(bias)) => self.step(Op::Add, &[mask, bias], "mask.biased").map(Some),
            (mask, bias) => Ok(mask.or(bias)),
        }
    }

    /// Adds the attention; gives its output and, where the node has such outputs, keys, values and scores.
    fn attend(&mut self, heads: &Heads, wanted: usize) -> Result<Vec<TensorId>, Error> {
        let [q, k, v] = heads.qkv;
        let mut attributes = Attributes::new();
        if self.rank(q) == Some(3) {
            attributes = attributes
                .with_int(Attr::QNumHeads, heads.count)
                .with_int(Attr::KvNumHeads, heads.count);
        }
        if let Some(scale) = self.float("scale").filter(|&scale| scale != 0.0) {
            attributes = attributes.with_float(Attr::Scale, scale);
        }
        if heads.causal {
            attributes = attributes.with_int(Attr::IsCausal, 1);
        }
        if wanted == 4 {
            attributes = attributes.with_int(Attr::QkMatmulOutputMode, 2);
        }
        let mut inputs = vec![Some(q), Some(k), Some(v), heads.mask];
        inputs.extend(heads.past.into_iter().flatten().map(Some));
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let roles = ["attended", "keys", "values", "scores"];
        self.several(Op::Attention, inputs, attributes, &roles[..wanted])
    }

    /// Keys of the past and those that are new, as a vector of one.
    fn keys(&mut self, k: TensorId, past: Option<[TensorId; 2]>) -> Result<TensorId, Error> {
        let axis = if self.rank(k) == Some(3) { 1 } else { 2 };
        let new = self.extent(k, axis, "keys.new")?;
        match past {
            None => Ok(new),
            Some([past, _]) => {
                let old = self.extent(past, 2, "keys.old")?;
                self.step(Op::Add, &[old, new], "keys.count")
            }
        }
    }

    /// One projection to all of query, key and value, and attention.
    pub(super) fn attention(&mut self) -> Result<bool, Error> {
        let (Some(x), Some(weights)) = (self.input(0), self.input(1)) else {
            return Ok(false);
        };
        let Some(sizes) = self.thirds(self.size(weights, 1)) else {
            return Ok(false);
        };
        if !self.plain_heads(3, 4) || self.input(6).is_some() {
            return Ok(false);
        }
        let mut qkv = self.step(Op::MatMul, &[x, weights], "qkv.product")?;
        if let Some(bias) = self.input(2) {
            qkv = self.step(Op::Add, &[qkv, bias], "qkv")?;
        }
        self.projected(qkv, &sizes, [self.input(3), self.input(5), self.input(4)])
    }

    /// As [`Self::attention`], of codes.
    pub(super) fn quantised_attention(&mut self) -> Result<bool, Error> {
        let (Some(weights), true) = (self.input(1), self.has(&[0, 3, 4])) else {
            return Ok(false);
        };
        let Some(sizes) = self.thirds(self.size(weights, 1)) else {
            return Ok(false);
        };
        let Some(scale) = self.input(4) else {
            return Ok(false);
        };
        let scales = self.sizes(scale).map(|sizes| sizes.iter().product::<i64>());
        let (Some(scales), true) = (scales, self.plain_heads(5, 8)) else {
            return Ok(false);
        };
        let x = self.dequantised([0, 3, 6], None, "x")?;
        let weights = self.dequantised([1, 4, 7], (scales != 1).then_some(1), "w")?;
        let mut qkv = self.step(Op::MatMul, &[x, weights], "qkv.product")?;
        if let Some(bias) = self.input(2) {
            qkv = self.step(Op::Add, &[qkv, bias], "qkv")?;
        }
        self.projected(qkv, &sizes, [self.input(5), None, self.input(8)])
    }

    /// The widths of query, key and value.
    fn thirds(&self, all: Option<i64>) -> Option<[i64; 3]> {
        match (self.ints("qkv_hidden_sizes")[..].try_into(), all) {
            (Ok(sizes), _) => Some(sizes),
            (Err(_), Some(all)) if all % 3 == 0 => Some([all / 3; 3]),
            _ => None,
        }
    }

    /// Whether what is stated of heads, mask and past is expressed here.
    fn plain_heads(&self, mask: usize, past: usize) -> bool {
        let flag = |name: &str| self.int(name).unwrap_or(0) != 0;
        let mask = self.input(mask).map_or(Some(1), |mask| self.rank(mask));
        let past = self.input(past).is_none_or(|past| self.rank(past) == Some(5));
        self.int("num_heads").is_some_and(|heads| heads > 0)
            && !flag("do_rotary")
            && !flag("past_present_share_buffer")
            && matches!(mask, Some(1..=3))
            && past
    }

    fn filter(&self) -> f32 {
        self.float("mask_filter_value").unwrap_or(-10000.0)
    }

    fn projected(
        &mut self,
        qkv: TensorId,
        sizes: &[i64; 3],
        [mask, bias, past]: [Option<TensorId>; 3],
    ) -> Result<bool, Error> {
        let parts = self.split(qkv, -1, sizes, &["q", "k", "v"])?;
        let [q, k, v] = parts[..] else { return Ok(false) };
        let past = match past {
            None => None,
            Some(past) => {
                let halves = self.split(past, 0, &[1, 1], &["past.k.outer", "past.v.outer"])?;
                let k = self.squeezed(halves[0], &[0], "past.k")?;
                let v = self.squeezed(halves[1], &[0], "past.v")?;
                Some([k, v])
            }
        };
        let mask = match mask {
            None => None,
            Some(mask) => {
                let keys = self.keys(k, past)?;
                Some(self.hidden(mask, q, Some(keys), self.filter())?)
            }
        };
        let mask = self.together(mask, bias)?;
        let heads = Heads {
            qkv: [q, k, v],
            count: self.int("num_heads").unwrap_or(1),
            mask,
            past,
            causal: self.int("unidirectional").unwrap_or(0) != 0,
        };
        let outputs = self.attend(&heads, if self.gives(1) { 3 } else { 1 })?;
        if let [_, k, v] = outputs[..] {
            let k = self.unsqueezed(k, &[0], "present.k")?;
            let v = self.unsqueezed(v, &[0], "present.v")?;
            let present = self.joined(&[k, v], 0, "present")?;
            self.give_output(1, present)?;
        }
        self.last(Op::Identity, vec![Some(outputs[0])], Attributes::new())
    }

    pub(super) fn multi_head(&mut self) -> Result<bool, Error> {
        self.over_heads(&MULTI_HEAD)
    }

    pub(super) fn one_token(&mut self) -> Result<bool, Error> {
        if self.int("past_present_share_buffer").unwrap_or(0) != 0 {
            return Ok(false);
        }
        self.over_heads(&ONE_TOKEN)
    }

    /// Attention of what is projected already, with the bias of the projection.
    fn over_heads(&mut self, slots: &Slots) -> Result<bool, Error> {
        let (Some(q), Some(count)) = (self.input(0), self.int("num_heads").filter(|&count| count > 0)) else {
            return Ok(false);
        };
        let (k, v) = (self.input(1), self.input(2));
        let ranks = (self.rank(q), k.map(|k| self.rank(k)), v.map(|v| self.rank(v)));
        let given = self.input(slots.mask);
        let mask_rank = given.map_or(Some(2), |mask| self.rank(mask));
        let past = match slots.past.map(|slot| self.input(slot)) {
            [Some(k), Some(v)] => Some([k, v]),
            [None, None] => None,
            _ => return Ok(false),
        };
        if slots.refused.iter().any(|&slot| self.input(slot).is_some()) || !matches!(mask_rank, Some(1..=3)) {
            return Ok(false);
        }
        // a length for each row of the batch; packed rows have others
        if let Some(mask) = given.filter(|_| mask_rank == Some(1)) {
            let (rows, batch) = (self.size(mask, 0), self.size(q, 0));
            if rows.zip(batch).is_some_and(|(rows, batch)| rows != batch) {
                return Ok(false);
            }
        }
        let bias = self.input(slots.bias);
        let widths = bias.and_then(|bias| self.widths(bias, q, k, v));
        let (q, k, v) = match (ranks, k, v) {
            ((Some(5), None, None), ..) => {
                let parts = self.split(q, 3, &[1, 1, 1], &["q.packed", "k.packed", "v.packed"])?;
                (
                    self.unpacked(parts[0], "q.flat")?,
                    self.unpacked(parts[1], "k.flat")?,
                    self.unpacked(parts[2], "v.flat")?,
                )
            }
            ((Some(3), Some(Some(5)), None), Some(kv), _) => {
                let parts = self.split(kv, 3, &[1, 1], &["k.packed", "v.packed"])?;
                (
                    q,
                    self.unpacked(parts[0], "k.flat")?,
                    self.unpacked(parts[1], "v.flat")?,
                )
            }
            (
                (Some(3), Some(Some(3)), Some(Some(3))) | (Some(3), Some(Some(4)), Some(Some(4))),
                Some(k),
                Some(v),
            ) => (q, k, v),
            _ => return Ok(false),
        };
        let crossed = self.rank(k) == Some(4);
        let [mut q, mut k, mut v] = [q, k, v];
        if let Some(bias) = bias {
            let widths = match widths {
                Some(widths) => self.list(&widths, "widths"),
                None => self.found_widths(bias, q)?,
            };
            let along = Attributes::new().with_int(Attr::Axis, 0);
            let roles = ["q.bias", "k.bias", "v.bias"];
            let parts = self.several(Op::Split, vec![Some(bias), Some(widths)], along, &roles)?;
            q = self.step(Op::Add, &[q, parts[0]], "q.biased")?;
            // keys that an encoder left behind have theirs
            if !crossed {
                k = self.step(Op::Add, &[k, parts[1]], "k.biased")?;
                v = self.step(Op::Add, &[v, parts[2]], "v.biased")?;
            }
        }
        if crossed {
            let split = self.reshaped(q, &[0, 0, count, -1], "q.split")?;
            q = self.permuted(split, &[0, 2, 1, 3], "q.heads")?;
        }
        let mask = match given {
            None => None,
            Some(mask) => {
                let keys = (mask_rank == Some(1)).then(|| self.keys(k, past)).transpose()?;
                Some(self.hidden(mask, q, keys, self.filter())?)
            }
        };
        let mask = self.together(mask, self.input(slots.scores_bias))?;
        let heads = Heads {
            qkv: [q, k, v],
            count,
            mask,
            past,
            causal: self.int("unidirectional").unwrap_or(0) != 0,
        };
        let wanted = if self.gives(3) {
            4
        } else if self.gives(1) || self.gives(2) {
            3
        } else {
            1
        };
        let outputs = self.attend(&heads, wanted)?;
        for (slot, &output) in outputs.iter().enumerate().skip(1) {
            self.give_output(slot, output)?;
        }
        let mut y = outputs[0];
        if crossed {
            let turned = self.permuted(y, &[0, 2, 1, 3], "y.heads")?;
            y = self.reshaped(turned, &[0, 0, -1], "y.flat")?;
        }
        self.last(Op::Identity, vec![Some(y)], Attributes::new())
    }

    /// `[batch, length, heads, 1, size]` as `[batch, length, heads * size]`.
    fn unpacked(&mut self, x: TensorId, role: &str) -> Result<TensorId, Error> {
        self.reshaped(x, &[0, 0, -1], role)
    }

    /// As [`Self::widths`], while running.
    fn found_widths(&mut self, bias: TensorId, q: TensorId) -> Result<TensorId, Error> {
        let query = self.extent(q, 2, "width.query")?;
        let all = self.extent(bias, 0, "width.all")?;
        let both = self.step(Op::Add, &[query, query], "width.both")?;
        let value = self.step(Op::Sub, &[all, both], "width.value")?;
        self.joined(&[query, query, value], 0, "widths")
    }

    /// How a bias divides into those of query, key and value.
    fn widths(
        &self,
        bias: TensorId,
        q: TensorId,
        k: Option<TensorId>,
        v: Option<TensorId>,
    ) -> Option<[i64; 3]> {
        let all = self.size(bias, 0)?;
        let flat = |x: Option<TensorId>| {
            x.filter(|&x| self.rank(x) == Some(3))
                .and_then(|x| self.size(x, 2))
        };
        let query = flat(Some(q)).or_else(|| flat(k));
        let value = flat(v);
        let query = match (query, value) {
            (Some(query), _) => query,
            (None, Some(value)) => (all - value) / 2,
            // packed, or an encoder's: all of one width
            (None, None) if all % 3 == 0 => all / 3,
            (None, None) => return None,
        };
        let value = all - 2 * query;
        (query > 0 && value > 0).then_some([query, query, value])
    }
}
