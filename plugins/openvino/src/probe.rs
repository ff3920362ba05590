//! Hand-written f32 models of one node, which probe the library and the chip before there is a
//! part.
//!
//! Invariant: every length fits the bytes in which it is written; names are single letters.
//!
//! Not here: models of parts (`polychip_sdk::onnx`).

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn int(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

fn message(field: u8, body: &[u8]) -> Vec<u8> {
    [vec![field << 3 | 2], varint(body.len() as u64), body.to_vec()].concat()
}

/// An input or output with its shape.
fn value(field: u8, name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| message(1, &int(1, dim))).collect();
    let tensor = message(1, &[int(1, 1), message(2, &dims)].concat());
    message(
        field,
        &[message(1, name.as_bytes()), message(2, &tensor)].concat(),
    )
}

/// `y = op(inputs)`, where `x` is the input of the model.
fn model(op: &str, inputs: &[&str], dims: &[u64], constants: &[u8]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs
        .iter()
        .flat_map(|name| message(1, name.as_bytes()))
        .collect();
    let node = [inputs, message(2, b"y"), message(4, op.as_bytes())].concat();
    let graph = [
        message(1, &node),
        message(2, b"probe"),
        constants.to_vec(),
        value(11, "x", dims),
        value(12, "y", dims),
    ]
    .concat();
    let opset = [message(1, b""), int(2, 14)].concat();
    [int(1, 8), message(7, &graph), message(8, &opset)].concat()
}

/// The sum of four numbers and a constant that is named by its address.
pub(crate) fn sum_with(constant: &[f32; 4]) -> Vec<u8> {
    let address = (constant.as_ptr() as usize).to_string();
    let pair = |key: &str, value: &str| {
        message(
            13,
            &[message(1, key.as_bytes()), message(2, value.as_bytes())].concat(),
        )
    };
    let tensor = [
        int(1, 4),
        int(2, 1),
        message(8, b"c"),
        pair("location", "*/_ORT_MEM_ADDR_/*"),
        pair("offset", &address),
        pair("length", "16"),
        int(14, 1),
    ]
    .concat();
    model("Add", &["x", "c"], &[4], &message(5, &tensor))
}

/// The product of a square matrix with itself.
pub(crate) fn product(side: u64) -> Vec<u8> {
    model("MatMul", &["x", "x"], &[side, side], &[])
}

/// A vector with its signs turned.
pub(crate) fn negation(words: u64) -> Vec<u8> {
    model("Neg", &["x"], &[words], &[])
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
