//! Small models for the test programs, written as ONNX files.

use std::path::Path;

// `polychip_sdk::protobuf`; `cargo xtask doors` reads this file too, and that one by its path
use super::protobuf::Message;

/// An input or output: a row of f32, whose length the model names, or states.
fn row(name: &str, length: &str) -> Message {
    let dimension = match length.parse() {
        Ok(size) => Message::new().number(1, size),
        Err(_) => Message::new().text(2, length),
    };
    let shape = Message::new().message(1, &dimension);
    let tensor = Message::new().number(1, 1).message(2, &shape);
    Message::new()
        .text(1, name)
        .message(2, &Message::new().message(1, &tensor))
}

/// A node.
fn node(op: &str, inputs: &[&str], output: &str) -> Message {
    let read = inputs
        .iter()
        .fold(Message::new(), |node, input| node.text(1, input));
    read.text(2, output).text(4, op)
}

/// A model of these nodes, inputs and outputs.
fn model(nodes: &[Message], inputs: &[Message], outputs: &[Message]) -> Vec<u8> {
    let all = |graph: Message, field: u32, parts: &[Message]| {
        parts.iter().fold(graph, |graph, part| graph.message(field, part))
    };
    let graph = all(Message::new(), 1, nodes).text(2, "graph");
    let graph = all(all(graph, 11, inputs), 12, outputs);
    Message::new()
        .number(1, 8)
        .message(7, &graph)
        .message(8, &Message::new().text(1, "").number(2, 17))
        .into_bytes()
}

/// Writes `relu.onnx` (y = max(x, 0)), `twice.onnx` (y = x + x), `sum.onnx` (t = x + s, z = t), and
/// a file that has a plugin's name but is not a plugin.
pub(crate) fn write(folder: &Path) -> std::io::Result<()> {
    let relu = model(&[node("Relu", &["x"], "y")], &[row("x", "N")], &[row("y", "N")]);
    let twice = model(
        &[node("Add", &["x", "x"], "y")],
        &[row("x", "N")],
        &[row("y", "N")],
    );
    let sum = model(
        &[
            node("Add", &["x", "s"], "t"),
            node("Neg", &["t"], "n"),
            node("Neg", &["n"], "z"),
        ],
        &[row("x", "2"), row("s", "2")],
        &[row("t", "2"), row("z", "2")],
    );
    std::fs::write(folder.join("relu.onnx"), relu)?;
    std::fs::write(folder.join("twice.onnx"), twice)?;
    std::fs::write(folder.join("sum.onnx"), sum)?;
    std::fs::write(folder.join("libpolychip_plugin_none.so"), "this is no library")
}
