//! Programs made of flat graphs as the contract hands them over: bodies with captures, parts of a recomposed
//! node, encodings, constants, refusals.
//!
//! Invariant: graphs are leaked, so that every pointer stays readable for the whole test.

use polychip_abi as abi;
use polychip_abi::Sized as _;
use polychip_ops::{Attr, DType, Op};
use polychip_reference::{ErrorKind, Program, Tensor, element};
use polychip_sdk::GraphView;

fn leak<T: 'static>(v: Vec<T>) -> (*const T, u64) {
    let v: &'static [T] = v.leak();
    (v.as_ptr(), v.len() as u64)
}

fn text(s: &'static str) -> abi::polychip_text {
    abi::polychip_text {
        data: s.as_ptr(),
        len: s.len() as u64,
    }
}

#[derive(Default)]
struct Flat {
    tensors: Vec<abi::polychip_tensor>,
    nodes: Vec<abi::polychip_node>,
}

impl Flat {
    fn tensor(&mut self, dtype: DType, dims: &[i64]) -> u32 {
        let (dims, rank) = leak(dims.to_vec());
        self.tensors.push(abi::polychip_tensor {
            dtype: dtype.code(),
            rank: rank as u32,
            dims,
            name: text("t"),
            ..abi::polychip_tensor::sized()
        });
        self.tensors.len() as u32 - 1
    }

    fn constant(&mut self, value: &Tensor) -> u32 {
        let dims: Vec<i64> = value.shape().iter().map(|&d| d as i64).collect();
        let at = self.tensor(DType::from_code(value.element().code()).unwrap(), &dims);
        let (data, bytes) = leak(value.to_bytes());
        let t = &mut self.tensors[at as usize];
        (t.data, t.data_bytes, t.flags) = (data, bytes, abi::POLYCHIP_TENSOR_CONSTANT);
        at
    }

    fn encode(&mut self, t: u32, scale: f32, zero: i32) {
        let (scales, scale_count) = leak(vec![scale]);
        let (zero_points, zero_point_count) = leak(vec![zero]);
        let encoding = abi::polychip_encoding {
            kind: abi::POLYCHIP_ENCODING_PER_TENSOR,
            scales,
            scale_count,
            zero_points,
            zero_point_count,
            real_dtype: DType::F32.code(),
            ..abi::polychip_encoding::sized()
        };
        self.tensors[t as usize].encoding = leak(vec![encoding]).0;
    }

    fn node(&mut self, op: Op, inputs: &[u32], outputs: &[u32]) -> &mut abi::polychip_node {
        let (inputs, input_count) = leak(inputs.to_vec());
        let (outputs, output_count) = leak(outputs.to_vec());
        self.nodes.push(abi::polychip_node {
            op: op.code(),
            op_name: text(op.name()),
            inputs,
            input_count,
            outputs,
            output_count,
            ..abi::polychip_node::sized()
        });
        self.nodes.last_mut().unwrap()
    }

    fn graph(self, inputs: &[u32], outputs: &[u32]) -> *const abi::polychip_graph {
        let (nodes, node_count) = leak(self.nodes);
        let (tensors, tensor_count) = leak(self.tensors);
        let (inputs, input_count) = leak(inputs.to_vec());
        let (outputs, output_count) = leak(outputs.to_vec());
        leak(vec![abi::polychip_graph {
            nodes,
            node_count,
            node_stride: size_of::<abi::polychip_node>() as u64,
            tensors,
            tensor_count,
            tensor_stride: size_of::<abi::polychip_tensor>() as u64,
            inputs,
            input_count,
            outputs,
            output_count,
            ..abi::polychip_graph::sized()
        }])
        .0
    }
}

fn body(attr: Attr, graph: *const abi::polychip_graph, captures: &[(u32, u32)]) -> abi::polychip_body {
    let (captures, capture_count) = leak(
        captures
            .iter()
            .map(|&(outer, inner)| abi::polychip_capture { outer, inner })
            .collect(),
    );
    abi::polychip_body {
        attribute: attr.code(),
        graph,
        captures,
        capture_count,
        ..abi::polychip_body::sized()
    }
}

fn give_bodies(node: &mut abi::polychip_node, bodies: Vec<abi::polychip_body>) {
    (node.bodies, node.body_count) = leak(bodies);
    node.body_stride = size_of::<abi::polychip_body>() as u64;
}

fn view(graph: *const abi::polychip_graph) -> GraphView<'static> {
    // SAFETY: every pointer comes from a leaked vector that nobody writes.
    unsafe { GraphView::new(graph) }.unwrap()
}

fn floats(v: &[f64]) -> Tensor {
    Tensor::from_f64s(element(DType::F32), vec![v.len()], v).unwrap()
}

#[test]
fn branches_capture_outer_tensors() {
    // if c: x + x, else: x * k
    let branch = |op| {
        let mut flat = Flat::default();
        let inner = flat.tensor(DType::F32, &[2]);
        let other = if op == Op::Mul {
            flat.constant(&floats(&[10.0, 10.0]))
        } else {
            inner
        };
        let out = flat.tensor(DType::F32, &[2]);
        flat.node(op, &[inner, other], &[out]);
        (flat.graph(&[inner], &[out]), inner)
    };
    let mut flat = Flat::default();
    let c = flat.tensor(DType::Bool, &[]);
    let x = flat.tensor(DType::F32, &[2]);
    let y = flat.tensor(DType::F32, &[2]);
    let ((then_graph, then_in), (else_graph, else_in)) = (branch(Op::Add), branch(Op::Mul));
    let bodies = vec![
        body(Attr::ElseBranch, else_graph, &[(x, else_in)]),
        body(Attr::ThenBranch, then_graph, &[(x, then_in)]),
    ];
    give_bodies(flat.node(Op::If, &[c], &[y]), bodies);
    let program = Program::new(&view(flat.graph(&[c, x], &[y]))).unwrap();
    for (condition, wanted) in [(true, [2.0, 4.0]), (false, [10.0, 20.0])] {
        let c = Tensor::from_bools(vec![], vec![condition]).unwrap();
        assert_eq!(
            program.run(vec![c, floats(&[1.0, 2.0])]).unwrap(),
            [floats(&wanted)]
        );
    }
}

#[test]
fn loops_mix_passed_and_captured_inputs() {
    // v = v + x, three times; the captured x stands first among the body's inputs
    let mut inner = Flat::default();
    let x_in = inner.tensor(DType::F32, &[1]);
    let i = inner.tensor(DType::I64, &[]);
    let going = inner.tensor(DType::Bool, &[]);
    let v_in = inner.tensor(DType::F32, &[1]);
    let v_out = inner.tensor(DType::F32, &[1]);
    inner.node(Op::Add, &[v_in, x_in], &[v_out]);
    let inner_graph = inner.graph(&[x_in, i, going, v_in], &[going, v_out, v_out]);
    let mut flat = Flat::default();
    let most = flat.constant(&Tensor::from_i64s(vec![], vec![3]).unwrap());
    let x = flat.tensor(DType::F32, &[1]);
    let v = flat.tensor(DType::F32, &[1]);
    let last = flat.tensor(DType::F32, &[1]);
    let all = flat.tensor(DType::F32, &[-1, 1]);
    let node = flat.node(Op::Loop, &[most, abi::POLYCHIP_NO_INDEX, v], &[last, all]);
    give_bodies(node, vec![body(Attr::Body, inner_graph, &[(x, x_in)])]);
    let program = Program::new(&view(flat.graph(&[x, v], &[last, all]))).unwrap();
    let out = program.run(vec![floats(&[2.0]), floats(&[1.0])]).unwrap();
    assert_eq!(out[0], floats(&[7.0]));
    assert_eq!(out[1], floats(&[3.0, 5.0, 7.0]).reshaped(vec![3, 1]).unwrap());
}

#[test]
fn a_refused_node_runs_as_its_parts() {
    let mut parts = Flat::default();
    let (a, b) = (parts.tensor(DType::F32, &[2]), parts.tensor(DType::F32, &[2]));
    parts.node(Op::Neg, &[a], &[b]);
    let mut flat = Flat::default();
    let (x, y) = (flat.tensor(DType::F32, &[2]), flat.tensor(DType::F32, &[2]));
    let parts = parts.graph(&[a], &[b]);
    flat.node(Op::Custom, &[x], &[y]).decomposition = parts;
    let program = Program::new(&view(flat.graph(&[x], &[y]))).unwrap();
    assert_eq!(
        program.run(vec![floats(&[1.0, -2.0])]).unwrap(),
        [floats(&[-1.0, 2.0])]
    );

    let mut alone = Flat::default();
    let (x, y) = (alone.tensor(DType::F32, &[2]), alone.tensor(DType::F32, &[2]));
    alone.node(Op::Custom, &[x], &[y]);
    let error = Program::new(&view(alone.graph(&[x], &[y]))).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Unsupported, Op::Custom));
}

#[test]
fn encoded_tensors_are_codes_outside_and_reals_inside() {
    let mut flat = Flat::default();
    let (x, y) = (flat.tensor(DType::U8, &[3]), flat.tensor(DType::I8, &[3]));
    flat.encode(x, 0.5, 10);
    flat.encode(y, 0.25, -1);
    flat.node(Op::Neg, &[x], &[y]);
    let program = Program::new(&view(flat.graph(&[x], &[y]))).unwrap();
    let codes = |dtype, v: &[i128]| Tensor::from_i128s(element(dtype), vec![3], v).unwrap();
    // (12 - 10) * 0.5 = 1, negated -1, / 0.25 - 1 = -5; 255 saturates
    let out = program.run(vec![codes(DType::U8, &[12, 10, 255])]).unwrap();
    assert_eq!(out, [codes(DType::I8, &[-5, -1, -128])]);
    let wrong = program.run(vec![codes(DType::I8, &[0, 0, 0])]).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::BadInput);
    assert!(program.run(vec![]).is_err());
}

#[test]
fn what_quantises_by_itself_sees_the_codes_of_an_encoding() {
    // found by a random graph that was split (issue 16): the codes were quantised once more
    let mut flat = Flat::default();
    let scalar = |dtype, v: i128| Tensor::from_i128s(element(dtype), vec![], &[v]).unwrap();
    let scale = flat.constant(&Tensor::from_f64s(element(DType::F32), vec![], &[0.5]).unwrap());
    let zero = flat.constant(&scalar(DType::I8, -21));
    let extents = flat.constant(&Tensor::from_i64s(vec![1], vec![2]).unwrap());
    let (x, one) = (flat.tensor(DType::F32, &[]), flat.tensor(DType::I8, &[]));
    let (both, y) = (flat.tensor(DType::I8, &[2]), flat.tensor(DType::F32, &[2]));
    flat.encode(one, 0.5, -21);
    flat.encode(both, 0.5, -21);
    flat.node(Op::QuantizeLinear, &[x, scale, zero], &[one]);
    flat.node(Op::Expand, &[one, extents], &[both]);
    flat.node(Op::DequantizeLinear, &[both, scale, zero], &[y]);
    let program = Program::new(&view(flat.graph(&[x], &[both, y]))).unwrap();
    let x = Tensor::from_f64s(element(DType::F32), vec![], &[-1.0]).unwrap();
    let codes = Tensor::from_i128s(element(DType::I8), vec![2], &[-23, -23]).unwrap();
    assert_eq!(program.run(vec![x]).unwrap(), [codes, floats(&[-1.0, -1.0])]);
}
