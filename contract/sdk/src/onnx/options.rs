//! Options for writing a model.

use crate::NodeView;

/// The opset of graphs, in which models are written.
pub const OPSET: i64 = 28;
/// The version of the file format that introduced this opset.
pub const IR_VERSION: i64 = 13;

/// The ONNX release that a model states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The opset of ONNX's own ops.
    pub opset: i64,
    /// The file format's version.
    pub ir_version: i64,
}

impl Release {
    /// The opset of graphs.
    pub const NEWEST: Release = Release {
        opset: OPSET,
        ir_version: IR_VERSION,
    };
}

/// Location of large constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// In the model.
    Inline,
    /// Those of this many bytes and more stay where they are: the model names their address, as ONNX Runtime and
    /// OpenVINO read it (external data of location `*/_ORT_MEM_ADDR_/*`). The bytes of the model are good only in
    /// this process, and only as long as the graph's constants live.
    Address(usize),
    /// As `Address`, but every address is 1: the same part gives the same bytes in each process. No library can
    /// read it; it is for comparing.
    Placeholder(usize),
}

/// Form of quantised tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quantised {
    /// As they are stored: ports of integers, constants with all their bits.
    #[default]
    Stored,
    /// As training that knows of the quantisation leaves it: every port is f32, quantised and dequantised behind an input and
    /// before an output; bytes without a sign are moved by 128, with their zero points, so that all integers of 8 bits are
    /// signed; constants of 32 bits, which are biases, are what they stand for. Nodes that quantise are named after their
    /// tensors.
    Fake,
}

/// Options for writing a model.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Location of large constants.
    pub weights: Weights,
    /// Form of quantised tensors.
    pub quantised: Quantised,
    /// Whether a node is written as the primitive ops that it was recomposed from, if it has them.
    pub decompose: &'a dyn Fn(&NodeView<'_>) -> bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            weights: Weights::Inline,
            quantised: Quantised::Stored,
            decompose: &|_| false,
        }
    }
}
