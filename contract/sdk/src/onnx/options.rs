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
    /// Constants of this many bytes and more stay where they are. The model holds their addresses, in the form that
    /// ONNX Runtime and OpenVINO read (external data of location `*/_ORT_MEM_ADDR_/*`). The model is valid only in
    /// this process, and only as long as the graph's constants live.
    Address(usize),
    /// As `Address`, but every address is 1, so that the same part gives the same bytes in each process. Only for
    /// comparisons: no library can read such a model.
    Placeholder(usize),
}

/// Form of quantised tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quantised {
    /// As the graph stores them: ports are integers, and constants keep all their bits.
    #[default]
    Stored,
    /// As quantisation-aware training writes them:
    ///
    /// - Every port is f32. It is quantised and dequantised after an input and before an output.
    /// - All 8-bit integers are signed: unsigned ones and their zero points are shifted by 128.
    /// - 32-bit constants, which are biases, are written as the reals that they encode.
    ///
    /// Nodes that quantise are named after their tensors.
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
