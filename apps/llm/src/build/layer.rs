//! One layer: attention and feed-forward, as the architecture's row describes them.
//!
//! Not here: experts (`experts`), products and norms (`product`), the caches (`memory`).

use polychip_graph::TensorId;
use polychip_ops::{Attr, Attributes, DType, Op};

use super::memory::{self, Heads, Sinks};
use super::values::floats;
use super::{Builder, Rotation, Shared};
use crate::Result;
use crate::config::{Activation, QkNorm, RopePairing};

/// Factor in the gate of [`Activation::ClampedSwish`], and the limit of its operands: OpenAI's
/// description of gpt-oss.
const STEEP: f32 = 1.702;
const LIMIT: f32 = 7.0;

impl Builder<'_> {
    /// Adds one block of attention and feed-forward; returns the stream after it, and its tokens' K
    /// and V.
    pub(super) fn layer(
        &mut self,
        layer: u32,
        x: TensorId,
        shared: &Shared,
    ) -> Result<(TensorId, TensorId, TensorId)> {
        let norms = self.config.norms;
        let normed = self.normed(layer, norms.attention, x)?;
        let (attended, keys, values) = self.attention(layer, normed, shared)?;
        let attended = self.normed(layer, norms.attended, attended)?;
        let x = self.joined(x, attended);
        let normed = self.normed(layer, norms.feed_forward, x)?;
        let fed = match self.config.experts {
            Some(experts) => self.experts(layer, normed, experts)?,
            None => self.feed_forward(layer, normed)?,
        };
        let fed = self.normed(layer, norms.fed, fed)?;
        Ok((self.joined(x, fed), keys, values))
    }

    /// The stream, normalized if there is a norm.
    fn normed(&mut self, layer: u32, norm: Option<&str>, x: TensorId) -> Result<TensorId> {
        let shape = [self.shape.rows, self.config.embedding as usize];
        match norm {
            Some(norm) => self.norm(x, &format!("blk.{layer}.{norm}.weight"), &shape),
            None => Ok(x),
        }
    }

    /// The stream with what a block adds.
    fn joined(&mut self, x: TensorId, added: TensorId) -> TensorId {
        let shape = [self.shape.rows, self.config.embedding as usize];
        let added = self.scaled(added, self.config.residual_scale, &shape);
        self.draft.combine(Op::Add, [x, added], &shape)
    }

    fn attention(
        &mut self,
        layer: u32,
        x: TensorId,
        shared: &Shared,
    ) -> Result<(TensorId, TensorId, TensorId)> {
        let config = self.config;
        let rows = self.shape.rows;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let size = config.head_size as usize;
        let widths = [config.heads, config.kv_heads, config.kv_heads].map(|heads| heads as usize * size);
        let [q, k, v] = if config.is_fused {
            let all = self.linear(x, &name("attn_qkv.weight"), None, rows)?;
            let pieces = self.draft.pieces(all, &widths, DType::F32, &[rows]);
            [pieces[0], pieces[1], pieces[2]]
        } else {
            let bias = |part: &str| config.qkv_bias.then(|| name(part));
            [
                self.linear(x, &name("attn_q.weight"), bias("attn_q.bias"), rows)?,
                self.linear(x, &name("attn_k.weight"), bias("attn_k.bias"), rows)?,
                self.linear(x, &name("attn_v.weight"), bias("attn_v.bias"), rows)?,
            ]
        };
        let window = config.window_of(layer);
        let rotation = config.is_rotated(layer).then_some(match window {
            Some(_) => shared.windowed,
            None => shared.full,
        });
        let mut placed = |x: TensorId, heads: u32, norm: &str| -> Result<TensorId> {
            let x = self.qk_normed(x, heads, &name(norm))?;
            Ok(self.rotated(x, heads, rotation, shared.ports.positions))
        };
        let q = placed(q, config.heads, "attn_q_norm.weight")?;
        let k = placed(k, config.kv_heads, "attn_k_norm.weight")?;
        let v = self.draft.reshape(v, DType::F32, &[1, rows, widths[2]]);
        let [(keys, k), (values, v)] =
            [k, v].map(|x| memory::rounded(&mut self.draft, x, &[1, rows, widths[1]]));
        let heads = Heads {
            heads: config.heads as usize,
            kv_heads: config.kv_heads as usize,
            size,
            scale: config.attention_scale,
            cap: config.attention_cap,
            is_windowed: window.is_some(),
            sinks: if config.has_sinks {
                Some(self.sinks(layer)?)
            } else {
                None
            },
        };
        let attended = shared.ports.attention(&mut self.draft, layer, heads, [q, k, v]);
        let attended = self.draft.reshape(attended, DType::F32, &[rows, widths[0]]);
        let bias = config.output_bias.then(|| name("attn_output.bias"));
        let attended = self.linear(attended, &name("attn_output.weight"), bias, rows)?;
        Ok((attended, keys, values))
    }

    /// Queries or keys `[rows, heads * size]`, normalized if the architecture requires it.
    fn qk_normed(&mut self, x: TensorId, heads: u32, norm: &str) -> Result<TensorId> {
        let (rows, size) = (self.shape.rows, self.config.head_size as usize);
        let heads = heads as usize;
        match self.config.qk_norm {
            None => Ok(x),
            Some(QkNorm::Whole) => self.norm(x, norm, &[rows, heads * size]),
            Some(QkNorm::PerHead) => {
                let by_head = [rows * heads, size];
                let x = self.draft.reshape(x, DType::F32, &by_head);
                self.norm(x, norm, &by_head)
            }
        }
    }

    /// Queries or keys as `[1, rows, heads * size]`, rotated if the layer rotates.
    fn rotated(
        &mut self,
        x: TensorId,
        heads: u32,
        rotation: Option<Rotation>,
        positions: TensorId,
    ) -> TensorId {
        let config = self.config;
        let shape = [1, self.shape.rows, heads as usize * config.head_size as usize];
        let x = self.draft.reshape(x, DType::F32, &shape);
        let Some(Rotation { cosines, sines }) = rotation else {
            return x;
        };
        let dims = if config.rope_dims == config.head_size {
            0
        } else {
            i64::from(config.rope_dims)
        };
        let is_interleaved = config.rope_pairing == RopePairing::Interleaved;
        let attributes = Attributes::new()
            .with_int(Attr::NumHeads, i64::from(heads))
            .with_int(Attr::Interleaved, i64::from(is_interleaved))
            .with_int(Attr::RotaryEmbeddingDim, dims);
        let inputs = [x, cosines, sines, positions];
        self.draft
            .node(Op::RotaryEmbedding, &inputs, attributes, DType::F32, &shape)
    }

    /// What is added to the scores of all positions and of one more, which is each head's sink.
    fn sinks(&mut self, layer: u32) -> Result<Sinks> {
        let name = format!("blk.{layer}.attn_sinks.weight");
        let sinks = floats(self.file, &name)?;
        let new = match self.of {
            memory::Rows::OfOne => self.shape.rows,
            memory::Rows::OfMany => 1,
        };
        let positions = self.shape.capacity + new + 1;
        let mut added = vec![0.0; sinks.len() * positions];
        let rows = added.chunks_exact_mut(positions);
        rows.zip(&sinks)
            .for_each(|(row, sink)| row[positions - 1] = *sink);
        let dims = [1, sinks.len(), 1, positions];
        Ok(Sinks(self.draft.floats(&name, &dims, &added)))
    }

    fn feed_forward(&mut self, layer: u32, x: TensorId) -> Result<TensorId> {
        let rows = self.shape.rows;
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let inner = self.config.feed_forward as usize;
        let [gate, up] = if self.config.is_fused {
            let both = self.linear(x, &name("ffn_up"), None, rows)?;
            let pieces = self.draft.pieces(both, &[inner, inner], DType::F32, &[rows]);
            [pieces[0], pieces[1]]
        } else {
            [
                self.linear(x, &name("ffn_gate"), None, rows)?,
                self.linear(x, &name("ffn_up"), None, rows)?,
            ]
        };
        let gated = self.gated(gate, up, &[rows, inner]);
        self.linear(gated, &name("ffn_down"), None, rows)
    }

    /// What passes the gate.
    pub(super) fn gated(&mut self, gate: TensorId, up: TensorId, shape: &[usize]) -> TensorId {
        let none = Attributes::new;
        let (gate, up) = match self.config.activation {
            Activation::Silu => (self.draft.map(Op::Swish, gate, none(), shape), up),
            Activation::GeluTanh => {
                let tanh = none().with_str(Attr::Approximate, "tanh");
                (self.draft.map(Op::Gelu, gate, tanh, shape), up)
            }
            Activation::ClampedSwish => {
                let [low, high, one] = [-LIMIT, LIMIT, 1.0].map(|value| self.draft.scalar(value));
                let gate = self.draft.combine(Op::Min, [gate, high], shape);
                let gate = self
                    .draft
                    .map(Op::Swish, gate, none().with_float(Attr::Alpha, STEEP), shape);
                let up = self.draft.combine(Op::Min, [up, high], shape);
                let up = self.draft.combine(Op::Max, [up, low], shape);
                (gate, self.draft.combine(Op::Add, [up, one], shape))
            }
        };
        self.draft.combine(Op::Mul, [gate, up], shape)
    }
}
