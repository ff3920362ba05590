//! Nodes that are put off: their constants are placed at once, and they are lowered by themselves where their result is
//! asked for after all.
//!
//! Not here: which nodes are put off (`deferrals`).

use polychip_lowering::TensorIndex;
use polychip_lowering::{Node, Outcome};
use polychip_ops::{DType, Op};

use super::builder::Lowering;
use super::deferrals::AttentionRows;
use super::{class, rotary};

impl<'a> Lowering<'a> {
    /// Puts a node off until its result is asked for.
    pub(super) fn defer(&mut self, index: usize) -> Outcome<()> {
        let node = &self.part.nodes[index];
        for tensor in node.writes() {
            self.deferred.insert(tensor, index);
        }
        let tables = match node.op {
            Op::RMSNormalization => &node.inputs[1..],
            Op::RotaryEmbedding => node.inputs.get(1..3).unwrap_or_default(),
            _ => &[],
        };
        for &table in tables.iter().flatten() {
            if self.part.is_constant(table) {
                self.rows(table)?;
            }
        }
        Ok(())
    }

    /// The deferred node that computes a tensor without a value yet.
    pub(super) fn deferred(&self, tensor: TensorIndex) -> Option<&'a Node> {
        let index = *self.deferred.get(&tensor)?;
        (!self.forms[tensor].exists()).then_some(&self.part.nodes[index])
    }

    /// Lowers the deferred node of a tensor by itself; keys that are rotated only to be rounded are so in one launch.
    pub(super) fn undefer(&mut self, node: &'a Node, tensor: TensorIndex) -> Outcome<()> {
        let from = node.input(0);
        let rotation = from.and_then(|from| self.deferred(from));
        if let Some(rotation) =
            rotation.filter(|rotation| rotation.op == Op::RotaryEmbedding && node.op == Op::Cast)
            && self.part.tensors[tensor].dtype == DType::F16
        {
            return rotary::rotated(self, rotation, tensor);
        }
        class::lower(self, node)
    }

    /// The rounded rows of an attention that are outputs: behind it, so that it does not wait for them.
    pub(super) fn halves(&mut self, rows: &AttentionRows) -> Outcome<()> {
        for &half in &rows.halves {
            self.rows(half)?;
        }
        Ok(())
    }
}
