//! The emulator's record of calls, and the operations in it as texts that can be compared.
//!
//! Invariants:
//! 1. A text holds all that an operation says but for the names and numbers of tensors, which are numbered in the order in
//!    which operations name them.
//! 2. An operation that has a name of its own and one among a family's stands under the family's.
//! 3. A parameter that is written with the value that it has where it is left out is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

/// What a parameter is where it is left out: some clients write it all the same.
const DEFAULTS: [(&str, &str, f64); 15] = [
    ("DepthToSpace", "mode", 0.0),
    ("Conv2d", "group", 1.0),
    ("TransposeConv2d", "group", 1.0),
    ("FullyConnected", "keep_dims", 0.0),
    ("MatMul", "transpose_in0", 0.0),
    ("MatMul", "transpose_in1", 0.0),
    ("Softmax", "beta", 1.0),
    ("ReduceMean", "keep_dims", 0.0),
    ("PoolAvg2d", "count_pad_for_edges", 0.0),
    ("StridedSlice", "begin_mask", 0.0),
    ("StridedSlice", "end_mask", 0.0),
    ("StridedSlice", "shrink_axes", 0.0),
    ("StridedSlice", "new_axes_mask", 0.0),
    ("ResizeBilinear", "align_corners", 0.0),
    ("ResizeNearestNeighbor", "align_corners", 0.0),
];

/// Names of operations that a family has, too: name, family, and its number there.
const FAMILIES: [(&str, &str, u32); 15] = [
    ("ElementWiseAbs", "ElementWiseUnary", 0),
    ("ElementWiseExp", "ElementWiseUnary", 5),
    ("ElementWiseNeg", "ElementWiseUnary", 8),
    ("ElementWiseAdd", "ElementWiseBinary", 0),
    ("ElementWiseDivide", "ElementWiseBinary", 2),
    ("ElementWiseMaximum", "ElementWiseBinary", 10),
    ("ElementWiseMinimum", "ElementWiseBinary", 11),
    ("ElementWiseMultiply", "ElementWiseBinary", 13),
    ("ElementWiseSubtract", "ElementWiseBinary", 18),
    ("Gelu", "ElementWiseNeuron", 1),
    ("HardSwish", "ElementWiseNeuron", 3),
    ("Relu", "ElementWiseNeuron", 4),
    ("ReluMinMax", "ElementWiseNeuron", 5),
    ("Sigmoid", "ElementWiseNeuron", 6),
    ("Tanh", "ElementWiseNeuron", 8),
];

/// An operation.
#[derive(Debug, Deserialize)]
pub(crate) struct Added {
    op: String,
    package: String,
    params: BTreeMap<String, Value>,
    inputs: Vec<Option<Tensor>>,
    outputs: Vec<Option<Tensor>>,
}

#[derive(Debug, Deserialize)]
struct Tensor {
    id: u64,
    kind: String,
    format: u64,
    dtype: String,
    dims: Vec<u64>,
    encoding: Value,
    values: Option<Value>,
}

/// A graph that was finalized, or not.
#[derive(Debug, Deserialize)]
pub(crate) struct Finalized {
    pub(crate) code: u64,
}

/// What was called.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) added: Vec<Added>,
    pub(crate) finalized: Vec<Finalized>,
    /// How many binaries were taken.
    pub(crate) serialised: usize,
}

/// Reads lines of a trace.
pub(crate) fn parse(text: &str) -> Result<Seen> {
    let mut seen = Seen::default();
    for line in text.lines() {
        let call: Value = serde_json::from_str(line)?;
        match call["call"].as_str() {
            Some("addNode") => seen.added.push(serde_json::from_value(call)?),
            Some("finalize") => seen.finalized.push(serde_json::from_value(call)?),
            Some("getBinary") => seen.serialised += 1,
            _ => {}
        }
    }
    Ok(seen)
}

/// Operations as a text: one line each, and one per operand.
pub(crate) fn text(added: &[Added]) -> String {
    let mut text = String::new();
    let mut numbers = BTreeMap::new();
    for node in added {
        let mut params: BTreeMap<&str, String> = node
            .params
            .iter()
            .filter(|(name, value)| !is_default(node, name, value))
            .map(|(name, value)| (name.as_str(), param(value)))
            .collect();
        let mut op = node.op.as_str();
        if let Some((_, family, number)) = FAMILIES.iter().find(|(name, ..)| *name == op) {
            op = family;
            params.insert("operation", format!("Uint32({number})"));
        }
        let _ = write!(text, "{}:{op}", node.package);
        for (name, value) in params {
            let _ = write!(text, " {name}={value}");
        }
        text.push('\n');
        for (side, operands) in [("<", &node.inputs), (">", &node.outputs)] {
            for operand in operands {
                let operand = operand.as_ref().map(|tensor| operand_text(tensor, &mut numbers));
                let _ = writeln!(text, "  {side} {}", operand.as_deref().unwrap_or("none"));
            }
        }
    }
    text
}

fn is_default(node: &Added, name: &str, value: &Value) -> bool {
    let scalar = value["value"].as_f64();
    // the axis of a softmax is the last one, of what it reads
    let last = node
        .inputs
        .first()
        .and_then(Option::as_ref)
        .map(|x| x.dims.len() as f64 - 1.0);
    if (node.op.as_str(), name) == ("Softmax", "axis") && scalar.is_some() && scalar == last {
        return true;
    }
    DEFAULTS
        .iter()
        .any(|&(op, param, default)| op == node.op && param == name && scalar == Some(default))
}

fn param(value: &Value) -> String {
    if value.get("dims").is_some() {
        return match serde_json::from_value::<Tensor>(value.clone()) {
            Ok(tensor) => contents(&tensor),
            Err(error) => error.to_string(),
        };
    }
    let dtype = value["dtype"].as_str().unwrap_or_default();
    format!("{dtype}({})", value["value"])
}

fn operand_text(tensor: &Tensor, numbers: &mut BTreeMap<u64, usize>) -> String {
    if tensor.values.is_some() {
        return contents(tensor);
    }
    let next = numbers.len();
    let number = *numbers.entry(tensor.id).or_insert(next);
    // an output that is read within the graph, too, is one all the same
    let role = match tensor.kind.as_str() {
        "AppWrite" => "in",
        "AppRead" => "out",
        "AppReadWrite" => "in-out",
        _ => "tensor",
    };
    format!("{role} {number} {}", contents(tensor))
}

/// All but which tensor it is.
fn contents(tensor: &Tensor) -> String {
    let mut text = format!("{}{:?}", tensor.dtype, tensor.dims).replace(", ", ",");
    if tensor.format != 0 {
        let _ = write!(text, " format {}", tensor.format);
    }
    if !tensor.encoding.is_null() {
        let mut encoding = tensor.encoding.clone();
        // whether fields keep an order of their own is a feature that other packages of a build turn on
        encoding.sort_all_objects();
        let _ = write!(text, " {encoding}");
    }
    if let Some(values) = &tensor.values {
        let _ = write!(text, " = {values}");
    }
    text
}
