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
    /// The same without the positions before the window, if layers have one.
    windowed: Vec<TensorId>,
    pub(crate) last: Option<TensorId>,
}

/// What is added to the scores of all positions, and of one more that is each head's sink: 0 and the
/// sink's score, `[1, heads, 1, positions + 1]`.
#[derive(Clone, Copy)]
pub(crate) struct Sinks(pub(crate) TensorId);

/// Heads of an attention.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) size: usize,
    /// Factor on scores, if it is not the inverse square root of the head size.
    pub(crate) scale: Option<f32>,
    /// Limit of scores.
    pub(crate) cap: Option<f32>,
    /// Whether the positions before the window are hidden, if the graph has one.
    pub(crate) is_windowed: bool,
    pub(crate) sinks: Option<Sinks>,
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
            windowed: Vec::new(),
            last,
        };
        (embedded, ports)
    }

    /// Adds masks that also hide the positions before the last `window` of each row; with
    /// `as_booleans`, always as booleans.
    pub(crate) fn add_window(&mut self, draft: &mut Draft, window: u32, as_booleans: bool) {
        let Shape { rows, capacity, .. } = self.shape;
        let past: Vec<i64> = (0..capacity as i64).collect();
        let past = draft.integers("past positions", &[1, capacity], &past);
        let width = draft.integers(&format!("window {window}"), &[1, 1], &[i64::from(window)]);
        let own = match self.of {
            Rows::OfMany if rows > 1 => draft.split(self.positions, 1, rows, DType::I64, &[1, 1]),
            _ => vec![self.positions],
        };
        let new = match self.of {
            Rows::OfOne => rows,
            Rows::OfMany => 1,
        };
        let masks = self.masks.iter().zip(own).map(|(&mask, own)| {
            let axis = Attributes::new().with_int(Attr::Axis, 1);
            let all = [1, capacity + new];
            let all = draft.node(Op::Concat, &[past, own], axis, DType::I64, &all);
            let own = draft.reshape(own, DType::I64, &[new, 1]);
            let none = Attributes::new;
            let before = draft.node(Op::Sub, &[own, width], none(), DType::I64, &[new, 1]);
            let shape = [new, capacity + new];
            let is_near = draft.node(Op::Greater, &[all, before], none(), DType::Bool, &shape);
            let seen = draft.node(Op::And, &[mask, is_near], none(), DType::Bool, &shape);
            if new == 1 || as_booleans {
                return seen;
            }
            // rows that see different pasts: as what is added to scores, it is computed in blocks
            let [seen_adds, hidden_adds] = [0.0, f32::NEG_INFINITY].map(|value| draft.scalar(value));
            draft.node(
                Op::Where,
                &[seen, seen_adds, hidden_adds],
                none(),
                DType::F32,
                &shape,
            )
        });
        self.windowed = masks.collect();
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
        let masks = if heads.is_windowed && !self.windowed.is_empty() {
            &self.windowed
        } else {
            &self.masks
        };
        if self.of == Rows::OfOne {
            return self.attend(draft, &layer.to_string(), heads, qkv, (masks[0], rows));
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
                self.attend(draft, &name, heads, qkv, (masks[row], 1))
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
        if let Some(cap) = heads.cap {
            attributes = attributes.with_float(Attr::Softcap, cap);
        }
        let [k, v, mask] = match heads.sinks {
            None => [k, v, mask],
            Some(sinks) => self.with_sink(draft, heads, sinks, [k, v, mask], rows),
        };
        let inputs = [q, k, v, mask, past_k, past_v];
        let shape = [1, rows, heads.heads * heads.size];
        draft.node(Op::Attention, &inputs, attributes, DType::F32, &shape)
    }
}

impl Ports {
    /// K and V with one more position of zeros, whose score is the head's sink, and the mask
    /// as what is added to scores, `[1, heads, rows, capacity + rows + 1]`.
    fn with_sink(
        &self,
        draft: &mut Draft,
        heads: Heads,
        Sinks(added): Sinks,
        [k, v, mask]: [TensorId; 3],
        rows: usize,
    ) -> [TensorId; 3] {
        let width = heads.kv_heads * heads.size;
        let positions = self.shape.capacity + rows;
        let axis = || Attributes::new().with_int(Attr::Axis, 1);
        let zeros = draft.floats("sink", &[1, 1, width], &vec![0.0; width]);
        let mut longer = |x: TensorId| {
            let shape = [1, rows + 1, width];
            draft.node(Op::Concat, &[x, zeros], axis(), DType::F32, &shape)
        };
        let [k, v] = [k, v].map(&mut longer);
        let shown = draft.constant(
            &format!("shown to {rows}"),
            DType::Bool,
            &[rows, 1],
            vec![1; rows].into(),
        );
        let shape = [rows, positions + 1];
        let mask = draft.node(Op::Concat, &[mask, shown], axis(), DType::Bool, &shape);
        let hidden = draft.scalar(f32::NEG_INFINITY);
        let shape = [1, heads.heads, rows, positions + 1];
        let inputs = [mask, added, hidden];
        let mask = draft.node(Op::Where, &inputs, Attributes::new(), DType::F32, &shape);
        [k, v, mask]
    }
}

/// A tensor rounded to f16, as f16 and converted back to f32.
pub(crate) fn rounded(draft: &mut Draft, x: TensorId, shape: &[usize]) -> (TensorId, TensorId) {
    let half = draft.cast(x, DType::F16, shape);
    (half, draft.cast(half, DType::F32, shape))
}
