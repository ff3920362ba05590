//! Which nodes are computed in one kernel: element-wise nodes behind a product or convolution, or by themselves.
//!
//! Not here: how groups grow (the front end's [`Fusion`]).

use polychip_lowering::{Epilogue, Fusion, Group, TensorIndex};
use polychip_ops::Op;

use super::builder::Lowering;
use super::values::is_float;
use super::{conv, elementwise, matmul};

/// What a group grows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Conv,
    Product,
    Elementwise,
}

/// The groups of a part, each at the place of its last node.
pub(super) fn plan(l: &Lowering<'_>) -> Vec<Option<Group<()>>> {
    let part = l.part;
    let anchors: Vec<Option<Anchor>> = part
        .nodes
        .iter()
        .map(|node| match node.op {
            Op::Conv | Op::ConvTranspose if conv::takes_epilogues(l, node) => Some(Anchor::Conv),
            Op::MatMul | Op::Gemm if matmul::takes_epilogues(l, node) => Some(Anchor::Product),
            _ if elementwise::is_fusable(l, node) => Some(Anchor::Elementwise),
            _ => None,
        })
        .enumerate()
        // what a reader's kernel computes is in no group but its own
        .map(|(index, anchor)| {
            let is_deferred = matches!(anchor, Some(Anchor::Elementwise)) && l.deferrals.has(index);
            anchor.filter(|_| !is_deferred)
        })
        .collect();
    let mut fusion = Fusion::new(part);
    let mut groups = vec![None; part.nodes.len()];
    // products first: what stands behind one is cheaper there than in a kernel of its own
    for elementwise in [false, true] {
        for (index, anchor) in anchors.iter().enumerate() {
            let anchor = anchor.filter(|&anchor| (anchor == Anchor::Elementwise) == elementwise);
            if let (Some(anchor), false) = (anchor, fusion.is_taken(index)) {
                let kernel = Kernel { l, anchor };
                let group = fusion.grow(&kernel, kernel.alone(index));
                let last = group.last();
                groups[last] = Some(group);
            }
        }
    }
    for (index, group) in groups.iter_mut().enumerate() {
        if !fusion.is_taken(index) {
            *group = Some(Group {
                output: None,
                ..Group::behind(part, index, ())
            });
        }
    }
    groups
}

/// What the kernel of a group's anchor can do.
struct Kernel<'a, 'b> {
    l: &'a Lowering<'b>,
    anchor: Anchor,
}

impl Kernel<'_, '_> {
    fn alone(&self, index: usize) -> Group<()> {
        let part = self.l.part;
        if self.anchor != Anchor::Elementwise {
            return Group::behind(part, index, ());
        }
        let mut operands: Vec<TensorIndex> = part.nodes[index]
            .reads()
            .filter(|&tensor| !self.is_text(tensor))
            .collect();
        operands.sort_unstable();
        operands.dedup();
        Group::among(part, index, operands, ())
    }

    /// Whether the kernel can read such a tensor beside a result like the group's first.
    fn admits(&self, tensor: TensorIndex, group: &Group<()>) -> bool {
        let part = self.l.part;
        let first = group.inside.first().and_then(|&first| part.dims(first));
        let (Some(dims), Some(whole)) = (part.dims(tensor), first) else {
            return false;
        };
        match self.anchor {
            Anchor::Conv => conv::admits(self.l, tensor, dims, whole),
            Anchor::Product => matmul::admits(self.l, tensor, dims, whole),
            Anchor::Elementwise => true,
        }
    }
}

impl Epilogue for Kernel<'_, '_> {
    type State = ();

    const MOST: usize = 24;

    fn join(&self, _group: &Group<()>, node: usize, _through: TensorIndex) -> Option<()> {
        if self.l.deferrals.has(node) {
            return None;
        }
        let node = &self.l.part.nodes[node];
        // what ends a product is computed in floats
        let floats = self.anchor == Anchor::Elementwise || is_float(self.l.part.real(node.output(0)?));
        (floats && elementwise::is_fusable(self.l, node)).then_some(())
    }

    fn pulls(&self, group: &Group<()>, node: usize) -> bool {
        if self.l.deferrals.has(node) {
            return false;
        }
        let node = &self.l.part.nodes[node];
        let read = |tensor| self.is_text(tensor) || self.admits(tensor, group);
        elementwise::is_fusable(self.l, node) && node.reads().all(read)
    }

    /// A constant of one element becomes part of the text.
    fn is_text(&self, tensor: TensorIndex) -> bool {
        elementwise::number(self.l, tensor).is_some()
    }

    fn fits(&self, group: &Group<()>) -> bool {
        let bindings = self.l.target.limits.bindings as usize;
        let own = if self.anchor == Anchor::Elementwise { 1 } else { 4 };
        let readable = |&tensor: &TensorIndex| self.admits(tensor, group);
        group.operands.len() <= bindings.saturating_sub(own) && group.operands.iter().all(readable)
    }
}
