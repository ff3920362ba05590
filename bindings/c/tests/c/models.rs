//! Small models for the test programs, written as ONNX files.

use std::path::Path;

/// A field of a message that holds bytes: text, or another message. `polychip_sdk::protobuf` is the same for packages;
/// `cargo xtask doors` reads this file too, and `xtask` depends on no package.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut out = vec![number << 3 | 2];
    varint(bytes.len(), &mut out);
    out.extend_from_slice(bytes);
    out
}

/// A field that holds a number.
fn number(field: u8, value: usize) -> Vec<u8> {
    let mut out = vec![field << 3];
    varint(value, &mut out);
    out
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An input or output: a row of f32, whose length the model names, or states.
fn row(name: &str, length: &str) -> Vec<u8> {
    let dimension = match length.parse() {
        Ok(size) => number(1, size),
        Err(_) => field(2, length),
    };
    let kind = [number(1, 1), field(2, field(1, dimension))].concat();
    [field(1, name), field(2, field(1, kind))].concat()
}

/// A node.
fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut out: Vec<u8> = inputs.iter().flat_map(|input| field(1, input)).collect();
    out.extend(field(2, output));
    out.extend(field(4, op));
    out
}

/// A model of these nodes, inputs and outputs.
fn model(nodes: &[Vec<u8>], inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
    let mut graph: Vec<u8> = nodes.iter().flat_map(|node| field(1, node)).collect();
    graph.extend(field(2, "graph"));
    graph.extend(inputs.iter().flat_map(|input| field(11, input)));
    graph.extend(outputs.iter().flat_map(|output| field(12, output)));
    [
        number(1, 8),
        field(7, graph),
        field(8, [field(1, ""), number(2, 17)].concat()),
    ]
    .concat()
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
