//! Which nodes are computed in one kernel: element-wise nodes behind a product or convolution, or by themselves.
//!
//! Invariants:
//! 1. Of the tensors inside a group one is read outside of it, and the group is emitted at the place of its last
//!    node, so that what its nodes read from outside exists by then.
//! 2. A tensor inside a group has no encoding, unless it is the one that leaves it.
//! 3. A node is in one group.
//!
//! The graph's own groups are hints of the same patterns; the groups are found here, from the nodes themselves,
//! because they depend on what the kernels' endings can do.

use polychip_lowering::TensorIndex;
use polychip_ops::Op;

use super::forms::is_float;
use super::{Lowering, conv, elementwise, matmul};

/// Most nodes behind an anchor.
const MEMBERS: usize = 24;

/// Nodes that become one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The product or convolution, or the first element-wise node.
    pub(super) anchor: usize,
    /// The element-wise nodes, the anchor included where it is one, in node order.
    pub(super) members: Vec<usize>,
    /// The tensor that leaves the group.
    pub(super) output: Option<TensorIndex>,
}

/// What a group grows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Conv,
    Product,
    Elementwise,
}

/// The groups of a part, each at the place of its last node.
pub(super) fn plan(l: &Lowering<'_>) -> Vec<Option<Group>> {
    let part = l.part;
    let mut producer: Vec<Option<usize>> = vec![None; part.tensors.len()];
    for (index, node) in part.nodes.iter().enumerate() {
        for tensor in node.writes() {
            producer[tensor] = Some(index);
        }
    }
    let mut plan = Plan {
        l,
        producer,
        taken: vec![false; part.nodes.len()],
    };
    let anchors: Vec<Option<Anchor>> = part
        .nodes
        .iter()
        .map(|node| match node.op {
            Op::Conv | Op::ConvTranspose if conv::takes_endings(l, node) => Some(Anchor::Conv),
            Op::MatMul | Op::Gemm if matmul::takes_endings(l, node) => Some(Anchor::Product),
            _ if elementwise::joins(l, node) => Some(Anchor::Elementwise),
            _ => None,
        })
        .collect();
    let mut groups = vec![None; part.nodes.len()];
    // products first: what stands behind one is cheaper there than in a kernel of its own
    for elementwise in [false, true] {
        for (index, anchor) in anchors.iter().enumerate() {
            if plan.taken[index] {
                continue;
            }
            let Some(anchor) = anchor.filter(|&anchor| (anchor == Anchor::Elementwise) == elementwise) else {
                continue;
            };
            let group = plan.grow(index, anchor);
            let last = group.members.iter().copied().max().unwrap_or(index).max(index);
            groups[last] = Some(group);
        }
    }
    for (index, group) in groups.iter_mut().enumerate() {
        if !plan.taken[index] && group.is_none() {
            *group = Some(Group {
                anchor: index,
                members: Vec::new(),
                output: None,
            });
        }
    }
    groups
}

struct Plan<'a, 'b> {
    l: &'a Lowering<'b>,
    producer: Vec<Option<usize>>,
    taken: Vec<bool>,
}

/// A group in the making.
#[derive(Clone, Default)]
struct Growth {
    members: Vec<usize>,
    /// Tensors computed inside.
    inside: Vec<TensorIndex>,
    /// Tensors read from outside, without constants of one element.
    outside: Vec<TensorIndex>,
}

impl Plan<'_, '_> {
    fn grow(&mut self, index: usize, anchor: Anchor) -> Group {
        let part = self.l.part;
        let node = &part.nodes[index];
        let alone = Group {
            anchor: index,
            members: if anchor == Anchor::Elementwise {
                vec![index]
            } else {
                Vec::new()
            },
            output: node.output(0),
        };
        self.taken[index] = true;
        let Some(first) = node.output(0) else {
            return alone;
        };
        let bindings = self.l.target.limits.bindings as usize;
        let room = bindings.saturating_sub(if anchor == Anchor::Elementwise { 1 } else { 4 });
        let mut growth = Growth {
            members: alone.members.clone(),
            inside: vec![first],
            outside: Vec::new(),
        };
        if anchor == Anchor::Elementwise {
            growth.outside = node.reads().filter(|&t| !self.is_number(t)).collect();
            growth.outside.sort_unstable();
            growth.outside.dedup();
            let own = growth.outside.clone();
            for tensor in own {
                self.pull(&mut growth, tensor, first, anchor);
            }
        }
        let mut best = self.leaving(&growth).map(|_| growth.clone());
        while growth.members.len() < MEMBERS {
            // the first node in order that reads something inside and can join
            let mut candidates: Vec<usize> = growth
                .inside
                .iter()
                .filter(|&&t| part.tensors[t].encoding.is_none())
                .flat_map(|&t| self.l.readers[t].iter().copied())
                .filter(|node| !growth.members.contains(node) && !self.taken[*node])
                .collect();
            candidates.sort_unstable();
            candidates.dedup();
            let joined = candidates
                .into_iter()
                .find_map(|node| self.join(&growth, node, first, anchor, room));
            let Some(next) = joined else { break };
            growth = next;
            if self.leaving(&growth).is_some() {
                best = Some(growth.clone());
            }
        }
        let Some(best) = best.filter(|best| best.members.len() > alone.members.len()) else {
            return alone;
        };
        let mut members = best.members.clone();
        members.sort_unstable();
        for &member in &members {
            self.taken[member] = true;
        }
        Group {
            anchor: index,
            output: self.leaving(&best),
            members,
        }
    }

    /// The growth with one more node, where it fits.
    fn join(
        &self,
        growth: &Growth,
        index: usize,
        first: TensorIndex,
        anchor: Anchor,
        room: usize,
    ) -> Option<Growth> {
        let (l, part) = (self.l, self.l.part);
        let node = &part.nodes[index];
        let output = node.output(0)?;
        // what ends a product is computed in floats
        let floats = anchor == Anchor::Elementwise || is_float(part.real(output));
        if !floats || !elementwise::joins(l, node) || part.dims(output)? != part.dims(first)? {
            return None;
        }
        let mut next = growth.clone();
        next.members.push(index);
        next.inside.push(output);
        for tensor in node.reads() {
            if next.inside.contains(&tensor) || next.outside.contains(&tensor) || self.is_number(tensor) {
                continue;
            }
            next.outside.push(tensor);
            self.pull(&mut next, tensor, first, anchor);
        }
        let fits = next
            .outside
            .iter()
            .all(|&tensor| self.admits(anchor, tensor, first));
        (fits && next.outside.len() <= room && next.members.len() <= MEMBERS).then_some(next)
    }

    /// Takes the node in that computes a tensor read from outside, where only this group reads it.
    fn pull(&self, growth: &mut Growth, tensor: TensorIndex, first: TensorIndex, anchor: Anchor) {
        let (l, part) = (self.l, self.l.part);
        let Some(index) = self.producer[tensor] else {
            return;
        };
        let node = &part.nodes[index];
        let inner = l.readers[tensor]
            .iter()
            .all(|reader| growth.members.contains(reader))
            && !part.outputs.contains(&tensor)
            && part.tensors[tensor].encoding.is_none()
            && part.dims(tensor) == part.dims(first);
        if !inner
            || self.taken[index]
            || growth.members.contains(&index)
            || growth.members.len() >= MEMBERS
            || !elementwise::joins(l, node)
            || node.reads().any(|t| growth.inside.contains(&t))
            || !node
                .reads()
                .all(|t| self.is_number(t) || self.admits(anchor, t, first))
        {
            return;
        }
        growth.outside.retain(|&t| t != tensor);
        growth.members.push(index);
        growth.inside.push(tensor);
        for read in node.reads() {
            if !growth.outside.contains(&read) && !growth.inside.contains(&read) && !self.is_number(read) {
                growth.outside.push(read);
                self.pull(growth, read, first, anchor);
            }
        }
    }

    /// Whether a tensor is a constant of one element, which becomes part of the text.
    fn is_number(&self, tensor: TensorIndex) -> bool {
        elementwise::number(self.l, tensor).is_some()
    }

    /// Whether the anchor's kernel can read such a tensor.
    fn admits(&self, anchor: Anchor, tensor: TensorIndex, first: TensorIndex) -> bool {
        let part = self.l.part;
        let (Some(dims), Some(whole)) = (part.dims(tensor), part.dims(first)) else {
            return false;
        };
        match anchor {
            Anchor::Conv => conv::admits(self.l, tensor, dims, whole),
            Anchor::Product => matmul::admits(self.l, tensor, dims, whole),
            Anchor::Elementwise => true,
        }
    }

    /// The one tensor that is read outside of the group; nothing where there are more.
    fn leaving(&self, growth: &Growth) -> Option<TensorIndex> {
        let part = self.l.part;
        let leaves = |&&tensor: &&TensorIndex| {
            part.outputs.contains(&tensor)
                || part.tensors[tensor].encoding.is_some()
                || self.l.readers[tensor].is_empty()
                || self.l.readers[tensor]
                    .iter()
                    .any(|reader| !growth.members.contains(reader))
        };
        let mut leaving = growth.inside.iter().filter(leaves);
        match (leaving.next(), leaving.next()) {
            (Some(&tensor), None) => Some(tensor),
            _ => None,
        }
    }
}
