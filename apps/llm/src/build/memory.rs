//! The ports of a graph, and attention over the KV caches among them.
//!
//! Invariant: a row attends to the positions that its mask shows, whatever cache they are in.
//!
//! Not here: computing queries, keys and values.

use polychip_graph::TensorId;
use polychip_ops::{Attr, Attributes, DType, Op};

use super::draft::Draft;
use super::shape::{Logits, Shape};

/// Whose tokens the rows of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Consecutive tokens of one sequence.
    OfOne,
    /// One token each of as many sequences.
    OfMany,
}

/// The ports of a graph, except its KV caches, which attention adds.
pub(crate) struct Ports {
    shape: Shape,
    of: Rows,
    pub(crate) positions: TensorId,
    /// One for all rows, or one per row.
    masks: Vec<TensorId>,
    pub(crate) last: Option<TensorId>,
}

/// Heads of an attention.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) size: usize,
    /// Factor on scores, if it is not the inverse square root of the head size.
    pub(crate) scale: Option<f32>,
}

impl Ports {
    /// Adds the ports, and returns them with the embedded tokens `[rows, width]`.
    pub(crate) fn add(draft: &mut Draft, shape: Shape, of: Rows, width: usize) -> (TensorId, Ports) {
        let Shape { rows, capacity, .. } = shape;
        let embedded = draft.input("embedded", DType::F32, &[rows, width]);
        let positions = draft.input("positions", DType::I64, &[1, rows]);
        let masks = match of {
            Rows::OfOne => vec![draft.input("mask", DType::Bool, &[rows, capacity + rows])],
            Rows::OfMany => (0..rows)
                .map(|row| draft.input(&format!("mask.{row}"), DType::Bool, &[1, capacity + 1]))
                .collect(),
        };
        let last = (shape.logits == Logits::Last).then(|| draft.input("last", DType::I64, &[1]));
        let ports = Ports {
            shape,
            of,
            positions,
            masks,
            last,
        };
        (embedded, ports)
    }

    /// Adds the attention of all rows, each `[1, rows, heads * size]`: of a chunk at once, of a
    /// step each over its own sequence's cache.
    pub(crate) fn attention(
        &self,
        draft: &mut Draft,
        layer: u32,
        heads: Heads,
        qkv: [TensorId; 3],
    ) -> TensorId {
        let rows = self.shape.rows;
        if self.of == Rows::OfOne {
            return self.attend(draft, &layer.to_string(), heads, qkv, (self.masks[0], rows));
        }
        let [q, k, v] = [
            (qkv[0], heads.heads),
            (qkv[1], heads.kv_heads),
            (qkv[2], heads.kv_heads),
        ]
        .map(|(x, count)| match rows {
            1 => vec![x],
            _ => draft.split(x, 1, rows, DType::F32, &[1, 1, count * heads.size]),
        });
        let attended: Vec<TensorId> = (0..rows)
            .map(|row| {
                let name = format!("{layer}.{row}");
                let qkv = [q[row], k[row], v[row]];
                self.attend(draft, &name, heads, qkv, (self.masks[row], 1))
            })
            .collect();
        let axis = Attributes::new().with_int(Attr::Axis, 1);
        let shape = [1, rows, heads.heads * heads.size];
        draft.node(Op::Concat, &attended, axis, DType::F32, &shape)
    }

    /// Adds attention over the cache of this name.
    fn attend(
        &self,
        draft: &mut Draft,
        name: &str,
        heads: Heads,
        [q, k, v]: [TensorId; 3],
        (mask, rows): (TensorId, usize),
    ) -> TensorId {
        let past = [1, heads.kv_heads, self.shape.capacity, heads.size];
        let [past_k, past_v] = ["key", "value"].map(|which| {
            let stored = draft.input(&format!("past_{which}.{name}"), DType::F16, &past);
            draft.cast(stored, DType::F32, &past)
        });
        let mut attributes = Attributes::new()
            .with_int(Attr::QNumHeads, heads.heads as i64)
            .with_int(Attr::KvNumHeads, heads.kv_heads as i64);
        if let Some(scale) = heads.scale {
            attributes = attributes.with_float(Attr::Scale, scale);
        }
        let inputs = [q, k, v, mask, past_k, past_v];
        let shape = [1, rows, heads.heads * heads.size];
        draft.node(Op::Attention, &inputs, attributes, DType::F32, &shape)
    }
}

/// A tensor rounded to f16, as f16 and converted back to f32.
pub(crate) fn rounded(draft: &mut Draft, x: TensorId, shape: &[usize]) -> (TensorId, TensorId) {
    let half = draft.cast(x, DType::F16, shape);
    (half, draft.cast(half, DType::F32, shape))
}
