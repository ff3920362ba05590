//! Nodes whose work the kernel of their reader does: a normalisation before products of few rows, a product that
//! only gates another, and what stands between the products and the attention of a few tokens (rotation of queries
//! and keys, rounding of new rows to 16 bits).
//!
//! Why: in decoding a launch that waits for another costs some microseconds, more than what these nodes compute.
//!
//! Invariants:
//! 1. A deferred node is lowered by itself where its result is asked for after all: nothing depends on a reader's
//!    kernel being there.
//! 2. Constants are placed where lowering in order would place them, so that programs of few rows and of many rows
//!    of a model have the same constants.
//!
//! Not here: putting a node off and lowering it after all (`deferred`), the kernels' lowering (`few_rows`, `attention`).

use std::collections::HashMap;

use polychip_gpu_kernels::Gemv;
use polychip_lowering::{Node, Part, TensorIndex};
use polychip_ops::{DType, Op, Operator, operator};

use super::values::quants_of;

/// Most queries of an attention that rotates and rounds its rows itself.
const QUERIES: usize = 4;

/// Where attention reads its new rows.
#[derive(Debug, Clone)]
pub(super) struct AttentionRows {
    /// Queries, keys and values.
    pub(super) rows: [TensorIndex; 3],
    /// The node that rotates the queries; the keys are rotated likewise.
    pub(super) rotary: Option<usize>,
    /// Whether the new rows of the KV cache are rounded to 16 bits.
    pub(super) rounded: bool,
    /// The rounded rows, if they are outputs of the part.
    pub(super) halves: Vec<TensorIndex>,
}

/// The nodes of a part that are deferred.
#[derive(Debug, Default)]
pub(super) struct Deferrals {
    /// By node.
    nodes: Vec<bool>,
    /// By output of the attention.
    attention: HashMap<TensorIndex, AttentionRows>,
}

/// A part with who reads and who computes each tensor.
struct Uses<'a> {
    part: &'a Part,
    readers: Vec<Vec<usize>>,
    producers: Vec<Option<usize>>,
    leaves: Vec<bool>,
}

impl<'a> Uses<'a> {
    fn producer(&self, tensor: TensorIndex, op: Op) -> Option<(usize, &'a Node)> {
        let index = self.producers[tensor]?;
        let node = &self.part.nodes[index];
        (node.op == op).then_some((index, node))
    }

    /// The readers of a tensor that leaves the part nowhere else.
    fn inner_readers(&self, tensor: TensorIndex) -> Option<&[usize]> {
        (!self.leaves[tensor] && !self.readers[tensor].is_empty()).then_some(&self.readers[tensor])
    }

    fn only_reader(&self, tensor: TensorIndex) -> Option<usize> {
        match self.inner_readers(tensor)? {
            [reader] => Some(*reader),
            _ => None,
        }
    }

    /// Whether a node is a product of few rows that reads weights in blocks.
    fn is_few_rows(&self, node: &Node) -> bool {
        let part = self.part;
        let (Some(a), Some(b)) = (node.input(0), node.input(1)) else {
            return false;
        };
        let gemm = node.operator().ok().and_then(|operator| operator.product());
        let (Some(gemm), Some(&[m, k])) = (gemm, part.dims(a)) else {
            return false;
        };
        let fits = |quants: polychip_gpu_kernels::Quants| (k as u64).is_multiple_of(quants.elements());
        node.op == Op::Gemm
            && gemm.trans_b
            && gemm.alpha == 1.0
            && !gemm.trans_a
            && m > 0
            && m <= Gemv::MOST as usize
            && part.is_constant(b)
            && part.real(a) == DType::F32
            && part.tensors[a].encoding.is_none()
            && quants_of(part, b).is_some_and(fits)
    }

    /// Whether a node normalises the rows of products of few rows only.
    fn is_norm(&self, node: &Node) -> bool {
        let part = self.part;
        let (Some(x), Some(scale), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
            return false;
        };
        let Ok(Operator::RMSNormalization(own)) = node.operator() else {
            return false;
        };
        let plain = node.inputs.len() == 2
            && node.outputs.len() == 1
            && part.dims(x).is_some_and(|dims| {
                dims.len() == 2 && [-1, 1].contains(&own.axis) && part.dims(scale) == Some(&dims[1..])
            })
            && [x, scale, y]
                .iter()
                .all(|&t| part.real(t) == DType::F32 && part.tensors[t].encoding.is_none());
        let reads = |&reader: &usize| {
            let reader = &part.nodes[reader];
            reader.input(0) == Some(y) && reader.input(2) != Some(y) && self.is_few_rows(reader)
        };
        plain
            && self
                .inner_readers(y)
                .is_some_and(|readers| readers.iter().all(reads))
    }

    /// Whether a product only gates another of the same rows: both are read by one multiplication, the other through
    /// a function.
    fn is_gated(&self, node: &Node) -> bool {
        let part = self.part;
        let Some(y) = node
            .output(0)
            .filter(|_| self.is_few_rows(node) && node.inputs.len() == 2)
        else {
            return false;
        };
        let Some(reader) = self.only_reader(y).map(|reader| (reader, &part.nodes[reader])) else {
            return false;
        };
        let (index, product) = reader;
        let other = match (product.input(0), product.input(1)) {
            (Some(a), Some(b)) if product.op == Op::Mul && a == y && b != y => b,
            (Some(a), Some(b)) if product.op == Op::Mul && b == y && a != y => a,
            _ => return false,
        };
        let function = |op| {
            self.producer(other, op)
                .filter(|_| self.only_reader(other) == Some(index))
        };
        let gate = [Op::Swish, Op::Gelu, Op::Relu, Op::Sigmoid]
            .into_iter()
            .find_map(function)
            .and_then(|(index, function)| {
                let gate = function.input(0)?;
                let (_, product) = self.producer(gate, Op::Gemm)?;
                (self.only_reader(gate) == Some(index)).then_some(product)
            });
        gate.is_some_and(|gate| is_pair(part, gate, node) && self.is_few_rows(gate))
    }

    /// What a tensor is that was rounded to 16 bits and widened again, with both nodes.
    fn rounded(&self, tensor: TensorIndex) -> Option<(TensorIndex, TensorIndex, [usize; 2])> {
        let part = self.part;
        let (wide, widens) = self.producer(tensor, Op::Cast)?;
        let half = widens.input(0)?;
        let (narrow, narrows) = self.producer(half, Op::Cast)?;
        let x = narrows.input(0)?;
        let fits = part.real(tensor) == DType::F32
            && part.tensors[half].dtype == DType::F16
            && part.real(x) == DType::F32
            && [tensor, half, x]
                .iter()
                .all(|&t| part.tensors[t].encoding.is_none() && !part.is_constant(t));
        fits.then_some((x, half, [narrow, wide]))
    }

    /// Whether a node is an attention of few queries over a past.
    fn is_step(&self, node: &Node) -> bool {
        let dims = node.input(0).and_then(|q| self.part.dims(q));
        let queries = match dims {
            Some(&[_, rows, _]) => rows,
            Some(&[_, _, rows, _]) => rows,
            _ => return false,
        };
        let same = node.input(0).zip(node.input(1)).is_some_and(|(q, k)| {
            // `[batch, rows, width]` or `[batch, heads, rows, size]`
            let of = |t: TensorIndex| match self.part.dims(t) {
                Some(&[_, rows, _]) | Some(&[_, _, rows, _]) => Some(rows),
                _ => None,
            };
            of(q) == of(k)
        });
        node.op == Op::Attention
            && same
            && (1..=QUERIES).contains(&queries)
            && [3, 4, 5].iter().all(|&i| node.input(i).is_some())
    }

    /// Whether only attentions of few queries read a tensor, as this input.
    fn is_read_as(&self, tensor: TensorIndex, input: usize) -> bool {
        self.inner_readers(tensor).is_some_and(|readers| {
            readers.iter().all(|&reader| {
                let reader = &self.part.nodes[reader];
                let mut inputs = (0..reader.inputs.len()).filter(|&i| reader.input(i) == Some(tensor));
                self.is_step(reader) && inputs.next() == Some(input) && inputs.next().is_none()
            })
        })
    }

    /// Where an attention reads its new rows, and the nodes that need not run for it.
    fn attention(&self, node: &Node) -> Option<(AttentionRows, Vec<usize>)> {
        let part = self.part;
        if !self.is_step(node) {
            return None;
        }
        let [q, k, v] = [node.input(0)?, node.input(1)?, node.input(2)?];
        let mut deferred = Vec::new();
        let mut halves = Vec::new();
        let (mut rows, mut rounded) = ([q, k, v], false);
        if let (Some(keys), Some(values)) = (self.rounded(k), self.rounded(v))
            && self.is_read_as(k, 1)
            && self.is_read_as(v, 2)
        {
            rounded = true;
            for (row, (x, half, nodes)) in rows[1..].iter_mut().zip([keys, values]) {
                *row = x;
                if self.leaves[half] {
                    halves.push(half);
                }
                deferred.extend(nodes);
            }
        }
        let rotations =
            (self.producer(q, Op::RotaryEmbedding)).zip(self.producer(rows[1], Op::RotaryEmbedding));
        let mut rotary = None;
        if let Some(((of_q, q_node), (of_k, k_node))) = rotations
            && self.is_read_as(q, 0)
            && (self.only_reader(rows[1]) == deferred.first().copied() && rounded
                || !rounded && self.is_read_as(rows[1], 1))
            && let (Some(from_q), Some(from_k)) = (q_node.input(0), k_node.input(0))
            && rotates_alike(node, q_node, k_node)
            && part.real(q) == DType::F32
        {
            rotary = Some(of_q);
            rows[0] = from_q;
            rows[1] = from_k;
            deferred.extend([of_q, of_k]);
        }
        let found = AttentionRows {
            rows,
            rotary,
            rounded,
            halves,
        };
        (!deferred.is_empty()).then_some((found, deferred))
    }
}

/// Whether two products are of the same rows and sizes, with weights in the same blocks.
fn is_pair(part: &Part, a: &Node, b: &Node) -> bool {
    let weights = |node: &Node| node.input(1);
    let (Some(of_a), Some(of_b)) = (weights(a), weights(b)) else {
        return false;
    };
    a.input(0) == b.input(0)
        && a.inputs.len() == 2
        && b.inputs.len() == 2
        && part.dims(of_a) == part.dims(of_b)
        && quants_of(part, of_a).is_some()
        && quants_of(part, of_a) == quants_of(part, of_b)
        && a.operator().ok().and_then(|operator| operator.product())
            == b.operator().ok().and_then(|operator| operator.product())
}

/// Whether queries and keys are rotated by the same tables and positions, in the order of the attention's heads.
fn rotates_alike(attention: &Node, q: &Node, k: &Node) -> bool {
    let (Ok(of_q), Ok(of_k)) = (q.typed::<operator::Rotary>(), k.typed::<operator::Rotary>()) else {
        return false;
    };
    let Ok(own) = attention.typed::<operator::Attention>() else {
        return false;
    };
    let heads = |rotary: Option<usize>, own: Option<usize>| match own {
        Some(count) => rotary == Some(count),
        None => true,
    };
    (1..4).all(|i| q.input(i).is_some() && q.input(i) == k.input(i))
        && of_q.interleaved == of_k.interleaved
        && of_q.rotated == of_k.rotated
        && heads(of_q.heads, own.q_heads)
        && heads(of_k.heads, own.kv_heads)
}

impl Deferrals {
    /// The nodes of a part that are deferred.
    pub(super) fn of(part: &Part) -> Deferrals {
        let products = part.nodes.iter().any(|node| {
            node.op == Op::Attention
                || node
                    .input(1)
                    .is_some_and(|weights| quants_of(part, weights).is_some())
        });
        let mut made = Deferrals {
            nodes: vec![false; part.nodes.len()],
            attention: HashMap::new(),
        };
        if !products {
            return made;
        }
        let mut leaves = vec![false; part.tensors.len()];
        for &output in &part.outputs {
            leaves[output] = true;
        }
        let uses = Uses {
            part,
            readers: part.readers(),
            producers: part.producers(),
            leaves,
        };
        for (index, node) in part.nodes.iter().enumerate() {
            made.nodes[index] |= uses.is_norm(node) || uses.is_gated(node);
            if let (Some((rows, deferred)), Some(y)) = (uses.attention(node), node.output(0)) {
                for index in deferred {
                    made.nodes[index] = true;
                }
                made.attention.insert(y, rows);
            }
        }
        made
    }

    /// Whether a node widens rounded keys or values again, which attention does itself.
    pub(super) fn widens(&self, part: &Part, node: usize) -> bool {
        let to = part.nodes[node].output(0);
        self.nodes[node]
            && part.nodes[node].op == Op::Cast
            && to.is_some_and(|t| part.tensors[t].dtype == DType::F32)
    }

    /// Whether a node is deferred.
    pub(super) fn has(&self, node: usize) -> bool {
        self.nodes[node]
    }

    /// Where the attention that computes a tensor reads its new rows.
    pub(super) fn attention(&self, output: TensorIndex) -> Option<&AttentionRows> {
        self.attention.get(&output)
    }
}
