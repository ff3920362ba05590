//! Small f32 models of one node, which probe the library and the chip before there is a
//! part.
//!
//! Not here: models of parts (`polychip_sdk::onnx`).

use polychip_sdk::protobuf::Message;

/// An input or output with its shape.
fn value(name: &str, dims: &[u64]) -> Message {
    let size = |&dim: &u64| Message::new().number(1, dim);
    let shape = dims
        .iter()
        .map(size)
        .fold(Message::new(), |shape, dim| shape.message(1, &dim));
    let tensor = Message::new().number(1, 1).message(2, &shape);
    Message::new()
        .text(1, name)
        .message(2, &Message::new().message(1, &tensor))
}

/// `y = op(inputs)`, where `x` is the input of the model.
fn model(op: &str, inputs: &[&str], dims: &[u64], constants: &Message) -> Vec<u8> {
    let inputs = inputs
        .iter()
        .fold(Message::new(), |node, name| node.text(1, name));
    let node = inputs.text(2, "y").text(4, op);
    let graph = Message::new()
        .message(1, &node)
        .text(2, "probe")
        .extended(constants)
        .message(11, &value("x", dims))
        .message(12, &value("y", dims));
    let opset = Message::new().text(1, "").number(2, 14);
    let model = Message::new().number(1, 8).message(7, &graph);
    model.message(8, &opset).into_bytes()
}

/// The sum of four numbers and a constant that is named by its address.
pub(crate) fn sum_with(constant: &[f32; 4]) -> Vec<u8> {
    let address = (constant.as_ptr() as usize).to_string();
    let pair = |key: &str, value: &str| Message::new().text(1, key).text(2, value);
    let tensor = Message::new()
        .number(1, 4)
        .number(2, 1)
        .text(8, "c")
        .message(13, &pair("location", "*/_ORT_MEM_ADDR_/*"))
        .message(13, &pair("offset", &address))
        .message(13, &pair("length", "16"))
        .number(14, 1);
    model("Add", &["x", "c"], &[4], &Message::new().message(5, &tensor))
}

/// The product of a square matrix with itself.
pub(crate) fn product(side: u64) -> Vec<u8> {
    model("MatMul", &["x", "x"], &[side, side], &Message::new())
}

/// A vector with its signs turned.
pub(crate) fn negation(words: u64) -> Vec<u8> {
    model("Neg", &["x"], &[words], &Message::new())
}

#[cfg(test)]
mod tests {
    use polychip_graph::onnx;

    use super::*;

    #[test]
    fn the_models_are_onnx() {
        for (bytes, op) in [(product(300), "MatMul"), (negation(1 << 20), "Neg")] {
            let graph = onnx::import(bytes.into(), &onnx::NoExternalData, &onnx::Options::default()).unwrap();
            assert_eq!(graph.nodes().next().unwrap().1.op.name(), op);
        }
    }
}
