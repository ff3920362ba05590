//! GroupQueryAttention over a cache that is an input, said by ONNX's Attention: new keys are written behind the old ones of
//! each row of the batch, and a mask shows each query what lies before it.
//!
//! Source: ContribOperators.md and ONNX Runtime 1.32's answers.
//!
//! Invariant: caches of codes, caches of a window and padded chunks are not expressed: such a node is left as it is.
//! Not here: generation, where the cache is ours (`polychip-llm`).

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

/// The sizes that a node states.
struct Sizes {
    heads: i64,
    kv_heads: i64,
    window: i64,
    causal: bool,
}

impl Foreign<'_, '_> {
    fn stated(&self) -> Option<Sizes> {
        let flag = |name: &str| self.int(name).unwrap_or(0) > 0;
        let coded = |name: &str| self.text(name).is_some_and(|kind| kind != "NONE");
        let refused = flag("sliding_window_cache")
            || flag("qk_output")
            || flag("kv_cache_bit_width")
            || coded("k_quant_type")
            || coded("v_quant_type")
            || [12, 13, 16].iter().any(|&slot| self.input(slot).is_some())
            || self.gives(3)
            || self.input(3).is_some() != self.input(4).is_some()
            || self.input(1).is_some() != self.input(2).is_some();
        let sizes = Sizes {
            heads: self.int("num_heads")?,
            kv_heads: self.int("kv_num_heads")?,
            window: self.int("local_window_size").unwrap_or(-1),
            causal: self.int("causal").unwrap_or(1) != 0,
        };
        (!refused && self.has(&[0, 5, 6]) && sizes.heads > 0 && sizes.kv_heads > 0).then_some(sizes)
    }

    pub(super) fn grouped(&mut self) -> Result<bool, Error> {
        let Some(sizes) = self.stated() else {
            return Ok(false);
        };
        let rotated = self.int("do_rotary").unwrap_or(0) != 0;
        let half = self.input(7).and_then(|cos| self.size(cos, 1));
        if rotated && (half.is_none() || self.input(8).is_none())
            || self.input(14).is_some() != self.input(15).is_some()
        {
            return Ok(false);
        }
        let parts = self.by_head(&sizes)?;
        let new = self.extent(parts[0], 1, "new")?;
        let [mut q, mut k, mut v] = [parts[0], parts[1], parts[2]];
        if let (Some(q_norm), Some(k_norm)) = (self.input(14), self.input(15)) {
            q = self.head_norm(q, q_norm, "q_norm_epsilon", "q.normal")?;
            k = self.head_norm(k, k_norm, "k_norm_epsilon", "k.normal")?;
        }
        q = self.permuted(q, &[0, 2, 1, 3], "q.heads")?;
        k = self.permuted(k, &[0, 2, 1, 3], "k.heads")?;
        v = self.permuted(v, &[0, 2, 1, 3], "v.heads")?;
        let [ends, pasts, all] = self.lengths(new)?;
        let rows = self.counted(new, "rows")?;
        let column = self.unsqueezed(pasts, &[1], "pasts.column")?;
        let places = self.step(Op::Add, &[column, rows], "places")?;
        if let (true, Some(half), Some(cos), Some(sin)) = (rotated, half, self.input(7), self.input(8)) {
            let given = match self.input(9) {
                Some(given) => self.as_type(given, DType::I64, "positions")?,
                None => places,
            };
            let attributes = Attributes::new()
                .with_int(Attr::Interleaved, self.int("rotary_interleaved").unwrap_or(0))
                .with_int(Attr::RotaryEmbeddingDim, 2 * half);
            q = self.with(
                Op::RotaryEmbedding,
                &[q, cos, sin, given],
                attributes.clone(),
                "q.turned",
            )?;
            k = self.with(Op::RotaryEmbedding, &[k, cos, sin, given], attributes, "k.turned")?;
        }
        let mut width = all;
        let cached = self.input(3).zip(self.input(4));
        if let Some((past_k, past_v)) = cached {
            let held = self.extent(past_k, 2, "held")?;
            width = self.step(Op::Max, &[held, all], "width")?;
            let more = self.step(Op::Sub, &[width, held], "more")?;
            // what lies behind a row's keys is zero, as there
            let key = self.counted(width, "held.key")?;
            let key = self.unsqueezed(key, &[1], "held.key.column")?;
            let ends = self.unsqueezed(ends, &[1, 2, 3], "held.ends")?;
            let used = self.step(Op::Less, &[key, ends], "held.used")?;
            k = self.written(past_k, k, [more, pasts, used], "k")?;
            v = self.written(past_v, v, [more, pasts, used], "v")?;
        }
        self.give_output(1, k)?;
        self.give_output(2, v)?;
        let smooth = self.input(11).is_some() || self.int("smooth_softmax").unwrap_or(0) > 0;
        let plain = cached.is_none() && sizes.causal && sizes.window < 0;
        let mut attributes = Attributes::new();
        if let Some(scale) = self.float("scale").filter(|&scale| scale != 0.0) {
            attributes = attributes.with_float(Attr::Scale, scale);
        }
        if let Some(cap) = self.float("softcap").filter(|&cap| cap != 0.0) {
            attributes = attributes.with_float(Attr::Softcap, cap);
        }
        let mut inputs = vec![q, k, v];
        if plain && !smooth && self.input(10).is_none() {
            attributes = attributes.with_int(Attr::IsCausal, 1);
        } else {
            let keys = if cached.is_some() { width } else { new };
            let seen = self.seen(&sizes, keys, ends, places)?;
            let mut mask = self.weighed(seen, q, [all, keys], smooth)?;
            if smooth {
                let pads = self.list(&[0, 1], "sink.pads");
                let axis = self.list(&[2], "sink.axis");
                for (place, role) in [(1, "k.sink"), (2, "v.sink")] {
                    let padded = vec![Some(inputs[place]), Some(pads), None, Some(axis)];
                    inputs[place] = self.node(Op::Pad, padded, role, Attributes::new())?;
                }
                mask = self.sink(mask, keys, sizes.heads)?;
            }
            inputs.push(mask);
        }
        let y = self.with(Op::Attention, &inputs, attributes, "attended")?;
        let y = self.permuted(y, &[0, 2, 1, 3], "y.heads")?;
        let shape = self.list(&[0, 0, -1], "y.shape");
        self.last(Op::Reshape, vec![Some(y), Some(shape)], Attributes::new())
    }

    /// Query, key and value, each `[batch, length, heads, size]`.
    fn by_head(&mut self, sizes: &Sizes) -> Result<Vec<TensorId>, Error> {
        let q = self.0.input(0)?;
        match (self.input(1), self.input(2)) {
            (Some(k), Some(v)) => Ok(vec![
                self.reshaped(q, &[0, 0, sizes.heads, -1], "q")?,
                self.reshaped(k, &[0, 0, sizes.kv_heads, -1], "k")?,
                self.reshaped(v, &[0, 0, sizes.kv_heads, -1], "v")?,
            ]),
            _ => {
                let each = [sizes.heads, sizes.kv_heads, sizes.kv_heads];
                let all = self.reshaped(q, &[0, 0, each.iter().sum(), -1], "qkv")?;
                self.split(all, 2, &each, &["q", "k", "v"])
            }
        }
    }

    fn head_norm(
        &mut self,
        x: TensorId,
        weight: TensorId,
        epsilon: &str,
        role: &str,
    ) -> Result<TensorId, Error> {
        let epsilon = self.float(epsilon).or_else(|| self.float("qk_norm_epsilon"));
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, epsilon.unwrap_or(1e-6));
        self.with(Op::RMSNormalization, &[x, weight], attributes, role)
    }

    /// Of each row of the batch, its keys and those of them that are old; and the most keys, a vector of one.
    fn lengths(&mut self, new: TensorId) -> Result<[TensorId; 3], Error> {
        let (last, most) = (self.0.input(5)?, self.0.input(6)?);
        let last = self.as_type(last, DType::I64, "last")?;
        let last = self.reshaped(last, &[-1], "last.flat")?;
        let most = self.as_type(most, DType::I64, "most.wide")?;
        let most = self.reshaped(most, &[1], "most")?;
        let ends = self.by_int(Op::Add, last, (DType::I64, 1), Attributes::new(), "ends")?;
        let old = self.step(Op::Sub, &[ends, new], "old")?;
        // a first prompt may end in padding
        let first = self.step(Op::Equal, &[most, new], "first")?;
        let zero = self.list(&[0], "zero");
        let pasts = self.step(Op::Where, &[first, zero, old], "pasts")?;
        Ok([ends, pasts, most])
    }

    /// A cache with room for what is new, and that in it.
    fn written(
        &mut self,
        past: TensorId,
        new: TensorId,
        [more, pasts, used]: [TensorId; 3],
        role: &str,
    ) -> Result<TensorId, Error> {
        let zero = self.list(&[0], &format!("{role}.front"));
        let pads = self.joined(&[zero, more], 0, &format!("{role}.pads"))?;
        let axis = self.list(&[2], &format!("{role}.axis"));
        let room = vec![Some(past), Some(pads), None, Some(axis)];
        let room = self.node(Op::Pad, room, &format!("{role}.room"), Attributes::new())?;
        let axis = Attributes::new().with_int(Attr::Axis, 2);
        let cache = self.with(
            Op::TensorScatter,
            &[room, new, pasts],
            axis,
            &format!("{role}.written"),
        )?;
        let zero = self.number(0.0, cache, &format!("{role}.zero"))?;
        self.step(Op::Where, &[used, cache, zero], &format!("{role}.cache"))
    }

    /// Which keys each query sees: `[batch, 1, queries, keys]`.
    fn seen(
        &mut self,
        sizes: &Sizes,
        keys: TensorId,
        ends: TensorId,
        places: TensorId,
    ) -> Result<TensorId, Error> {
        let key = self.counted(keys, "key")?;
        if !sizes.causal {
            let ends = self.unsqueezed(ends, &[1, 2, 3], "ends.wide")?;
            return self.step(Op::Less, &[key, ends], "seen");
        }
        let place = self.unsqueezed(places, &[1, 3], "places.wide")?;
        let seen = self.step(Op::LessOrEqual, &[key, place], "seen")?;
        if sizes.window < 0 {
            return Ok(seen);
        }
        let window = (DType::I64, sizes.window);
        let first = self.by_int(Op::Sub, place, window, Attributes::new(), "window.first")?;
        let near = self.step(Op::Greater, &[key, first], "window")?;
        self.step(Op::And, &[seen, near], "seen.window")
    }

    /// What is added to scores: the node's own bias where a key is seen.
    fn weighed(
        &mut self,
        seen: TensorId,
        q: TensorId,
        [all, keys]: [TensorId; 2],
        real: bool,
    ) -> Result<TensorId, Error> {
        let bias = match self.input(10) {
            None if !real => return Ok(seen),
            None => self.number(0.0, q, "mask.zero")?,
            Some(bias) => {
                // a cache may be wider than what is in it
                let more = self.step(Op::Sub, &[keys, all], "bias.more")?;
                let zero = self.list(&[0], "bias.front");
                let more = self.step(Op::Max, &[more, zero], "bias.wider")?;
                let pads = self.joined(&[zero, more], 0, "bias.pads")?;
                let axis = self.list(&[3], "bias.axis");
                let padded = vec![Some(bias), Some(pads), None, Some(axis)];
                self.node(Op::Pad, padded, "bias", Attributes::new())?
            }
        };
        let never = self.number(f32::NEG_INFINITY, q, "mask.never")?;
        self.step(Op::Where, &[seen, bias, never], "mask")
    }

    /// The mask with one more key, whose score is the head's own or zero: it takes part of the probability.
    fn sink(&mut self, mask: TensorId, keys: TensorId, heads: i64) -> Result<TensorId, Error> {
        let pads = self.list(&[0, 1], "mask.pads");
        let axis = self.list(&[3], "mask.axis");
        let padded = vec![Some(mask), Some(pads), None, Some(axis)];
        let padded = self.node(Op::Pad, padded, "mask.padded", Attributes::new())?;
        let Some(sink) = self.input(11) else {
            return Ok(padded);
        };
        let sink = self.reshaped(sink, &[1, heads, 1, 1], "sink")?;
        let one = self.list(&[1], "sink.one");
        let wider = self.step(Op::Add, &[keys, one], "sink.keys")?;
        let key = self.counted(wider, "sink.key")?;
        let here = self.step(Op::Equal, &[key, keys], "sink.here")?;
        self.step(Op::Where, &[here, sink, padded], "mask.sink")
    }
}
