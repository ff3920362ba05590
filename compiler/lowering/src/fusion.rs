//! Groups of nodes that one kernel computes: a product or convolution with what is behind it, or element-wise nodes
//! among themselves.
//!
//! Invariants:
//! 1. Of the tensors inside a group one is read outside of it, and a group is emitted at the place of its last node,
//!    so that what its nodes read from outside exists by then.
//! 2. A tensor inside a group has no encoding, unless it is the one that leaves it.
//! 3. A node is in one group.
//! 4. The same part and the same [`Epilogue`] give the same groups.
//!
//! The graph's own groups are hints of the same patterns; the groups are found here, from the nodes themselves,
//! because they depend on what a device's kernels can do behind their results.
//!
//! Not here: what a kernel can do (an [`Epilogue`] is the device's), where groups start and in which order.

use crate::{Part, TensorIndex};

/// What a device's kernels can compute behind the node that a group grows from.
pub trait Epilogue {
    /// What a device must know of a group while it grows.
    type State: Clone;

    /// Most members of a group.
    const MOST: usize;

    /// What a group is with one more node, which reads `through` of it; nothing where the kernel cannot compute that.
    /// The node's result has the extents of the first tensor inside.
    fn join(&self, group: &Group<Self::State>, node: usize, through: TensorIndex) -> Option<Self::State>;

    /// Whether a node that computes an operand of the group, and that nothing else reads, is computed there, too.
    fn pulls(&self, _group: &Group<Self::State>, _node: usize) -> bool {
        false
    }

    /// Whether a tensor is part of the kernel's text, and no operand.
    fn is_text(&self, _tensor: TensorIndex) -> bool {
        false
    }

    /// Whether the kernel can read all operands that a group has.
    fn fits(&self, _group: &Group<Self::State>) -> bool {
        true
    }
}

/// Nodes that become one kernel.
#[derive(Debug, Clone)]
pub struct Group<S> {
    /// The node that it grew from.
    pub anchor: usize,
    /// The nodes that joined, in node order once the group is grown; the anchor is among them where it is computed as
    /// they are.
    pub members: Vec<usize>,
    /// Tensors computed inside, the anchor's result first.
    pub inside: Vec<TensorIndex>,
    /// Tensors read from outside by the nodes that joined.
    pub operands: Vec<TensorIndex>,
    /// What the device keeps of it.
    pub state: S,
    /// The tensor that leaves the group.
    pub output: Option<TensorIndex>,
}

impl<S> Group<S> {
    /// A node with a kernel of its own sort, behind whose result others join.
    pub fn behind(part: &Part, anchor: usize, state: S) -> Group<S> {
        let output = part.nodes[anchor].output(0);
        Group {
            anchor,
            members: Vec::new(),
            inside: output.into_iter().collect(),
            operands: Vec::new(),
            state,
            output,
        }
    }

    /// A node that is computed as those are that join it; these may also compute its operands.
    pub fn among(part: &Part, anchor: usize, operands: Vec<TensorIndex>, state: S) -> Group<S> {
        Group {
            members: vec![anchor],
            operands,
            ..Group::behind(part, anchor, state)
        }
    }

    /// The place at which the group is emitted.
    pub fn last(&self) -> usize {
        self.members.iter().copied().fold(self.anchor, usize::max)
    }

    fn has(&self, node: usize) -> bool {
        self.members.contains(&node)
    }
}

/// Grows the groups of a part.
#[derive(Debug)]
pub struct Fusion<'a> {
    part: &'a Part,
    readers: Vec<Vec<usize>>,
    producers: Vec<Option<usize>>,
    /// Whether each tensor is an output of the part.
    leaves: Vec<bool>,
    /// Whether each node is in a group.
    taken: Vec<bool>,
}

impl<'a> Fusion<'a> {
    /// No groups yet.
    pub fn new(part: &'a Part) -> Fusion<'a> {
        let mut leaves = vec![false; part.tensors.len()];
        for &output in &part.outputs {
            leaves[output] = true;
        }
        Fusion {
            part,
            readers: part.readers(),
            producers: part.producers(),
            leaves,
            taken: vec![false; part.nodes.len()],
        }
    }

    /// Whether a node is in a group.
    pub fn is_taken(&self, node: usize) -> bool {
        self.taken[node]
    }

    /// Puts a node into a group that was found otherwise.
    pub fn take(&mut self, node: usize) {
        self.taken[node] = true;
    }

    /// The only node that reads a tensor, where nothing else does.
    pub fn only_reader(&self, tensor: TensorIndex) -> Option<usize> {
        match self.readers[tensor][..] {
            [reader] if !self.leaves[tensor] => Some(reader),
            _ => None,
        }
    }

    /// The node that computes a tensor.
    pub fn producer(&self, tensor: TensorIndex) -> Option<usize> {
        self.producers[tensor]
    }

    /// The nodes that read a tensor, in order.
    pub fn readers(&self, tensor: TensorIndex) -> &[usize] {
        &self.readers[tensor]
    }

    /// The largest group that grows from a node and of which one tensor leaves; its nodes are in it from now on.
    pub fn grow<E: Epilogue>(&mut self, epilogue: &E, alone: Group<E::State>) -> Group<E::State> {
        self.taken[alone.anchor] = true;
        let Some(&first) = alone.inside.first() else {
            return alone;
        };
        let mut group = alone.clone();
        for operand in alone.operands.clone() {
            self.pull(epilogue, &mut group, operand, first);
        }
        let mut best = self.leaving(&group).map(|_| group.clone());
        while group.members.len() < E::MOST {
            let Some(next) = self.joined(epilogue, &group, first) else {
                break;
            };
            group = next;
            if self.leaving(&group).is_some() {
                best = Some(group.clone());
            }
        }
        let Some(mut best) = best.filter(|best| best.members.len() > alone.members.len()) else {
            return alone;
        };
        best.members.sort_unstable();
        for &member in &best.members {
            self.taken[member] = true;
        }
        best.output = self.leaving(&best);
        best
    }

    /// The group with the first node in order that reads something inside and can join.
    fn joined<E: Epilogue>(
        &self,
        epilogue: &E,
        group: &Group<E::State>,
        first: TensorIndex,
    ) -> Option<Group<E::State>> {
        let open = |tensor: &&TensorIndex| self.part.tensors[**tensor].encoding.is_none();
        let mut candidates: Vec<(usize, TensorIndex)> = group
            .inside
            .iter()
            .filter(open)
            .flat_map(|&tensor| self.readers[tensor].iter().map(move |&node| (node, tensor)))
            .filter(|&(node, _)| !group.has(node) && !self.taken[node])
            .collect();
        candidates.sort_unstable();
        candidates.dedup_by_key(|(node, _)| *node);
        candidates
            .into_iter()
            .find_map(|(node, through)| self.join(epilogue, group, node, through, first))
    }

    fn join<E: Epilogue>(
        &self,
        epilogue: &E,
        group: &Group<E::State>,
        node: usize,
        through: TensorIndex,
        first: TensorIndex,
    ) -> Option<Group<E::State>> {
        let output = self.part.nodes[node].output(0)?;
        if self.part.dims(output)? != self.part.dims(first)? {
            return None;
        }
        let mut next = group.clone();
        next.state = epilogue.join(group, node, through)?;
        self.add(epilogue, &mut next, node, output, first);
        (epilogue.fits(&next) && next.members.len() <= E::MOST).then_some(next)
    }

    /// Adds a node, and the nodes that compute what it alone reads.
    fn add<E: Epilogue>(
        &self,
        epilogue: &E,
        group: &mut Group<E::State>,
        node: usize,
        output: TensorIndex,
        first: TensorIndex,
    ) {
        group.members.push(node);
        group.inside.push(output);
        for tensor in self.part.nodes[node].reads() {
            let known = group.inside.contains(&tensor) || group.operands.contains(&tensor);
            if !known && !epilogue.is_text(tensor) {
                group.operands.push(tensor);
                self.pull(epilogue, group, tensor, first);
            }
        }
    }

    /// Takes the node in that computes an operand, where only this group reads it.
    fn pull<E: Epilogue>(
        &self,
        epilogue: &E,
        group: &mut Group<E::State>,
        tensor: TensorIndex,
        first: TensorIndex,
    ) {
        let Some(index) = self.producers[tensor] else {
            return;
        };
        let part = self.part;
        let inner = self.readers[tensor].iter().all(|&reader| group.has(reader))
            && !self.leaves[tensor]
            && part.tensors[tensor].encoding.is_none()
            && part.dims(tensor) == part.dims(first);
        if !inner
            || self.taken[index]
            || group.has(index)
            || group.members.len() >= E::MOST
            || part.nodes[index].reads().any(|read| group.inside.contains(&read))
            || !epilogue.pulls(group, index)
        {
            return;
        }
        group.operands.retain(|&operand| operand != tensor);
        self.add(epilogue, group, index, tensor, first);
    }

    /// The one tensor that is read outside of the group; nothing where there are more.
    fn leaving<S>(&self, group: &Group<S>) -> Option<TensorIndex> {
        let leaves = |&&tensor: &&TensorIndex| {
            let readers = &self.readers[tensor];
            self.leaves[tensor]
                || self.part.tensors[tensor].encoding.is_some()
                || readers.is_empty()
                || readers.iter().any(|&reader| !group.has(reader))
        };
        let mut leaving = group.inside.iter().filter(leaves);
        match (leaving.next(), leaving.next()) {
            (Some(&tensor), None) => Some(tensor),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::{DType, Op};

    use super::*;
    use crate::{Node, Tensor};

    /// A kernel behind which `Relu` and `Add` are computed, with at most so many operands.
    struct Kernel<'a> {
        part: &'a Part,
        room: usize,
        pulls: bool,
    }

    impl Epilogue for Kernel<'_> {
        type State = usize;

        const MOST: usize = 4;

        fn join(&self, group: &Group<usize>, node: usize, _through: TensorIndex) -> Option<usize> {
            matches!(self.part.nodes[node].op, Op::Relu | Op::Add).then_some(group.state + 1)
        }

        fn pulls(&self, _group: &Group<usize>, node: usize) -> bool {
            self.pulls && self.part.nodes[node].op == Op::Relu
        }

        fn fits(&self, group: &Group<usize>) -> bool {
            group.operands.len() <= self.room
        }
    }

    fn part(tensors: usize, nodes: &[(Op, &[TensorIndex], TensorIndex)], outputs: &[TensorIndex]) -> Part {
        Part {
            nodes: nodes
                .iter()
                .map(|&(op, reads, write)| Node::new(op, reads, &[write]))
                .collect(),
            tensors: vec![Tensor::new(DType::F32, Some(vec![2])); tensors],
            outputs: outputs.to_vec(),
            ..Part::default()
        }
    }

    /// What grows from node 0: its members, its operands, and what leaves it.
    fn grown(part: &Part, room: usize, pulls: bool) -> (Vec<usize>, Vec<TensorIndex>, Option<TensorIndex>) {
        let mut fusion = Fusion::new(part);
        let group = fusion.grow(&Kernel { part, room, pulls }, Group::behind(part, 0, 0));
        assert!(group.members.iter().all(|&member| fusion.is_taken(member)));
        assert!(group.members.len() == group.state || pulls);
        (group.members, group.operands, group.output)
    }

    #[test]
    fn a_chain_ends_where_its_result_is_read_twice() {
        // 0 conv → 1 relu → 2, which leaves the part and is read by another relu
        let nodes: &[(Op, &[usize], usize)] =
            &[(Op::Conv, &[0], 1), (Op::Relu, &[1], 2), (Op::Relu, &[2], 3)];
        assert_eq!(
            grown(&part(4, nodes, &[3]), 9, false),
            (vec![1, 2], vec![], Some(3))
        );
        // both leave: only the first is inside of the largest group that one tensor leaves
        assert_eq!(
            grown(&part(4, nodes, &[2, 3]), 9, false),
            (vec![1], vec![], Some(2))
        );
    }

    #[test]
    fn branches_that_join_again_are_inside() {
        let nodes: &[(Op, &[usize], usize)] = &[
            (Op::Conv, &[0], 1),
            (Op::Relu, &[1], 2),
            (Op::Relu, &[1], 3),
            (Op::Add, &[2, 3], 4),
        ];
        assert_eq!(
            grown(&part(5, nodes, &[4]), 9, false),
            (vec![1, 2, 3], vec![], Some(4))
        );
    }

    #[test]
    fn operands_are_counted_and_pulled() {
        let nodes: &[(Op, &[usize], usize)] =
            &[(Op::Conv, &[0], 1), (Op::Relu, &[2], 3), (Op::Add, &[1, 3], 4)];
        let part = part(5, nodes, &[4]);
        assert_eq!(grown(&part, 0, false), (vec![], vec![], Some(1)));
        assert_eq!(grown(&part, 1, false), (vec![2], vec![3], Some(4)));
        assert_eq!(grown(&part, 1, true), (vec![1, 2], vec![2], Some(4)));
    }

    #[test]
    fn an_encoding_ends_a_group() {
        let nodes: &[(Op, &[usize], usize)] =
            &[(Op::Conv, &[0], 1), (Op::Relu, &[1], 2), (Op::Relu, &[2], 3)];
        let mut part = part(4, nodes, &[3]);
        part.tensors[2].encoding = Some(polychip_sdk::Encoding {
            kind: polychip_sdk::EncodingKind::PerTensor,
            scales: vec![1.0],
            zero_points: Vec::new(),
            real_dtype: DType::F32,
        });
        assert_eq!(grown(&part, 9, false), (vec![1], vec![], Some(2)));
    }
}
