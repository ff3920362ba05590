//! Which encoding a product's codes get: that of their own scales and zero points, of any float type.

use polychip_graph::infer;

use super::*;

const ROWS: usize = 2;
const COLUMNS: usize = 4;
const DEPTH: usize = 32;

/// A product of `x` with codes in one block a row, as the importer says it.
fn product(draft: &mut Draft, x: TensorId, parts: [TensorId; 3], dtype: DType) -> TensorId {
    let blocked = Attributes::new()
        .with_int(Attr::Axis, 1)
        .with_int(Attr::BlockSize, DEPTH as i64);
    let weights = draft.node(Op::DequantizeLinear, &parts, blocked, dtype, &[COLUMNS, DEPTH]);
    let turn = Attributes::new().with_ints(Attr::Perm, &[1, 0]);
    let weights = draft.node(Op::Transpose, &[weights], turn, dtype, &[DEPTH, COLUMNS]);
    let shape = [1, ROWS, COLUMNS];
    draft.node(Op::MatMul, &[x, weights], Attributes::new(), dtype, &shape)
}

fn constant(draft: &mut Draft, name: &str, dtype: DType, dims: &[usize], bytes: Vec<u8>) -> TensorId {
    // not `Draft::constant`: a file may call several tensors by one name
    let mut tensor = polychip_graph::Tensor::new(name, polychip_ops::TensorType::known(dtype, dims));
    tensor.data = Some(Constant::new(bytes));
    draft.graph_mut().add_tensor(tensor)
}

fn codes_of(draft: &mut Draft, name: &str) -> TensorId {
    let codes = vec![7; COLUMNS * DEPTH];
    constant(draft, name, DType::U8, &[COLUMNS, DEPTH], codes)
}

fn scales_of(draft: &mut Draft, name: &str, scale: f32, dtype: DType) -> TensorId {
    let bytes = match dtype {
        DType::F32 => scale.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f32(scale).to_le_bytes().to_vec(),
        _ => bf16::from_f32(scale).to_le_bytes().to_vec(),
    };
    constant(draft, name, dtype, &[COLUMNS, 1], bytes.repeat(COLUMNS))
}

fn zeros_of(draft: &mut Draft, name: &str, zero: u8) -> TensorId {
    constant(draft, name, DType::U8, &[COLUMNS, 1], vec![zero; COLUMNS])
}

/// The scale and zero point that each product multiplies with, in the order of outputs.
fn encodings(mut draft: Draft, outputs: &[TensorId], known: &Known) -> Vec<(f32, i32)> {
    draft.graph_mut().outputs.extend(outputs);
    let mut graph = draft.finish();
    infer(&mut graph).unwrap();
    let graph = blocks(graph, known).unwrap();
    let outputs = graph.outputs.clone();
    outputs
        .iter()
        .map(|&output| {
            let mut at = output;
            let gemm = loop {
                let node = graph.node(graph.producer(at).unwrap());
                match node.op {
                    Op::Gemm => break node,
                    Op::Reshape | Op::Cast => at = node.input(0).unwrap(),
                    other => panic!("{other:?} and no product with codes"),
                }
            };
            let encoding = graph.tensor(gemm.input(1).unwrap()).encoding.as_ref().unwrap();
            assert_eq!(encoding.scales.len(), COLUMNS);
            (encoding.scales[0], encoding.zero_points[0])
        })
        .collect()
}

#[test]
fn codes_may_be_read_with_several_scales() {
    let known = Known::default();
    // as a second size of chunk does, which finds what the first has made
    let bytes = |value: u8| Bytes::from(vec![value; COLUMNS * DEPTH]);
    let shared = bytes(3);
    for _ in 0..2 {
        let mut draft = Draft::new("two scales", Vec::new());
        let x = draft.input("x", DType::F32, &[1, ROWS, DEPTH]);
        let codes = codes_of(&mut draft, "codes");
        draft.graph_mut().tensor_mut(codes).data = Some(Constant::new(shared.clone()));
        let zeros = zeros_of(&mut draft, "zeros", 8);
        let others = zeros_of(&mut draft, "others", 9);
        let outputs = [(0.5, zeros), (0.25, zeros), (0.25, others)].map(|(scale, zeros)| {
            let scales = scales_of(&mut draft, &format!("scales {scale}"), scale, DType::F32);
            product(&mut draft, x, [codes, scales, zeros], DType::F32)
        });
        let found = encodings(draft, &outputs, &known);
        assert_eq!(found, [(0.5, 8), (0.25, 8), (0.25, 9)]);
    }
}

#[test]
fn initializer_names_do_not_affect_codes() {
    let mut draft = Draft::new("one name", Vec::new());
    let x = draft.input("x", DType::F32, &[1, ROWS, DEPTH]);
    let outputs = [(0.5, 8), (0.25, 9)].map(|(scale, zero)| {
        let codes = codes_of(&mut draft, "y.codes");
        let scales = scales_of(&mut draft, "y.scales", scale, DType::F32);
        let zeros = zeros_of(&mut draft, "y.zeros", zero);
        product(&mut draft, x, [codes, scales, zeros], DType::F32)
    });
    let found = encodings(draft, &outputs, &Known::default());
    assert_eq!(found, [(0.5, 8), (0.25, 9)]);
}

#[test]
fn graphs_share_converted_weights() {
    let known = Known::default();
    let mut draft = Draft::new("one", Vec::new());
    let x = draft.input("x", DType::F32, &[1, ROWS, DEPTH]);
    let codes = codes_of(&mut draft, "codes");
    let scales = scales_of(&mut draft, "scales", 0.5, DType::F32);
    let zeros = zeros_of(&mut draft, "zeros", 8);
    let y = product(&mut draft, x, [codes, scales, zeros], DType::F32);
    let graph = draft.graph().clone();
    encodings(draft, &[y], &known);
    encodings(Draft::over(graph), &[y], &known);
    assert_eq!(known.0.lock().unwrap().len(), 1);
}

#[test]
fn scales_of_16_bits_are_read() {
    for dtype in [DType::F16, DType::BF16] {
        let mut draft = Draft::new("16 bits", Vec::new());
        let x = draft.input("x", dtype, &[1, ROWS, DEPTH]);
        let codes = codes_of(&mut draft, "codes");
        let scales = scales_of(&mut draft, "scales", 0.375, dtype);
        let zeros = zeros_of(&mut draft, "zeros", 8);
        let y = product(&mut draft, x, [codes, scales, zeros], dtype);
        assert_eq!(encodings(draft, &[y], &Known::default()), [(0.375, 8)], "{dtype}");
    }
}
