//! Nodes that a device may compute as one: an annotation, never an obligation.

use crate::NodeId;

/// What the nodes of a group are together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum GroupKind {
    /// Convolution with bias, activation or residual sum behind it.
    Conv,
    /// Matrix product (MatMul, Gemm) with bias, activation or residual sum behind it.
    MatMul,
    /// A chain of elementwise ops.
    Elementwise,
    /// Residual sum with the normalisation behind it.
    Normalisation,
}

impl GroupKind {
    /// Every kind.
    pub const ALL: [GroupKind; 4] = [
        GroupKind::Conv,
        GroupKind::MatMul,
        GroupKind::Elementwise,
        GroupKind::Normalisation,
    ];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            GroupKind::Conv => "conv",
            GroupKind::MatMul => "matmul",
            GroupKind::Elementwise => "elementwise",
            GroupKind::Normalisation => "normalisation",
        }
    }
}

/// Nodes that a device may compute as one. A node is in at most one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What they are together.
    pub kind: GroupKind,
    /// The nodes in graph order.
    pub nodes: Vec<NodeId>,
}
