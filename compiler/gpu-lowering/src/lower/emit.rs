//! Steps for one group of nodes: fused where the kernels can, else node by node.
//!
//! Invariants:
//! 1. Behind each op a quantised result exists as stored integers only, so that every later reader sees the
//!    rounded values.
//! 2. A node whose results are empty makes no step.

use polychip_lowering::{Group, Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::Op;
use polychip_sdk::Reason;

use super::builder::Lowering;
use super::{attention, class, values};

impl<'a> Lowering<'a> {
    /// Emits a group.
    pub(super) fn group(&mut self, group: &Group<()>) -> Outcome<()> {
        let part = self.part;
        let anchor = &part.nodes[group.anchor];
        let fuses = group.members.iter().any(|&member| member != group.anchor);
        if fuses && let Some(output) = group.output {
            let mark = self.mark();
            let mut nodes = vec![group.anchor];
            nodes.extend(&group.members);
            let done = nodes
                .iter()
                .try_for_each(|&node| self.check(&part.nodes[node]))
                .and_then(|()| class::fused(self, anchor, &group.members, output))
                .and_then(|()| self.settle(output));
            if done.is_ok() {
                return Ok(());
            }
            self.back_to(mark);
        }
        let mut nodes = group.members.clone();
        if !nodes.contains(&group.anchor) {
            nodes.push(group.anchor);
        }
        nodes.sort_unstable();
        for index in nodes {
            let node = &part.nodes[index];
            self.node = node.index;
            if self.deferrals.has(index) {
                self.check(node)
                    .and_then(|()| self.defer(index))
                    .map_err(|refusal| refusal.at(node.index))?;
                continue;
            }
            self.single(node).map_err(|refusal| refusal.at(node.index))?;
        }
        Ok(())
    }

    fn single(&mut self, node: &'a Node) -> Outcome<()> {
        self.check(node)?;
        let empty = |&t: &TensorIndex| self.part.dims(t).is_some_and(|dims| dims.contains(&0));
        if node.writes().all(|t| empty(&t)) && node.writes().next().is_some() {
            for tensor in node.writes() {
                let kind = self.outer_kind(tensor);
                let (_, value) = self.destination(tensor, Layout::RowMajor, kind)?;
                self.define(tensor, Layout::RowMajor, kind, value)?;
                self.define(tensor, Layout::ChannelsLast, kind, value)?;
            }
            return Ok(());
        }
        if node.writes().all(|t| self.part.is_constant(t)) && node.writes().next().is_some() {
            // its readers store it themselves, as a constant
            return node.writes().try_for_each(|t| self.stored_scalar(t).map(|_| ()));
        }
        if attention::widened(self.part, node).is_some() {
            // attention reads the tensor that it was widened from
            return Ok(());
        }
        class::lower(self, node)?;
        for tensor in node.writes() {
            self.settle(tensor)?;
        }
        Ok(())
    }

    /// Refuses what no class lowers.
    fn check(&self, node: &Node) -> Outcome<()> {
        let name = &node.op_name;
        if node.op == Op::Custom {
            return Err(Refusal::op(format!("{name} is no op of the ONNX standard")));
        }
        for tensor in node.reads().chain(node.writes()) {
            let t = &self.part.tensors[tensor];
            if !t.plain {
                return Err(Refusal::dtype(format!("'{}' is no plain tensor", t.name)));
            }
            let dims = self.dims(tensor)?;
            if dims.len() > 8 {
                return Err(Refusal::new(
                    Reason::Rank,
                    format!("'{}' has rank {}, the limit is 8", t.name, dims.len()),
                ));
            }
            if !t.is_constant() {
                self.stored_scalar(tensor)?;
            }
            if t.encoding.is_some() {
                self.scalar(tensor)?;
            }
            values::count(dims)?;
        }
        Ok(())
    }

    /// Brings a quantised result to its integers.
    fn settle(&mut self, tensor: TensorIndex) -> Outcome<()> {
        if self.outer_kind(tensor) == Storage::Real {
            return Ok(());
        }
        let forms = self.forms[tensor];
        let stored = |layout| forms.get(layout, Storage::Stored).is_some();
        if !stored(Layout::RowMajor) && !stored(Layout::ChannelsLast) {
            let layout = if forms.get(Layout::ChannelsLast, Storage::Real).is_some() {
                Layout::ChannelsLast
            } else {
                Layout::RowMajor
            };
            self.get(tensor, layout, Storage::Stored)?;
        }
        self.forms[tensor].forget_real();
        Ok(())
    }
}
