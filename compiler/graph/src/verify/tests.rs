//! Each rule is broken once, and the message is exact.

use polychip_ops::{Attr, DType, Op, TensorType};

use super::verify;
use crate::{
    Body, Capture, Constant, Encoding, EncodingAxis, Graph, Group, GroupKind, Node, NodeId, State, Tensor,
    TensorId,
};

fn tensor(graph: &mut Graph, name: &str) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[2])))
}

/// `y = neg(x)`.
fn simple() -> (Graph, TensorId, TensorId, NodeId) {
    let mut graph = Graph::new("g");
    let x = tensor(&mut graph, "x");
    let y = tensor(&mut graph, "y");
    let node = graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(y)]).named("neg"));
    graph.inputs.push(x);
    graph.outputs.push(y);
    (graph, x, y, node)
}

fn message(graph: &Graph) -> String {
    verify(graph).unwrap_err().to_string()
}

#[test]
fn good_graphs_pass() {
    verify(&simple().0).unwrap();
    verify(&Graph::new("empty")).unwrap();
}

#[test]
fn tensors_that_nothing_makes() {
    let (mut graph, _, _, _) = simple();
    graph.inputs.clear();
    assert_eq!(
        message(&graph),
        "node \"neg\" (Neg) needs tensor \"x\", which nothing makes"
    );
    let (mut graph, _, y, node) = simple();
    graph.remove_node(node);
    assert_eq!(
        message(&graph),
        "graph \"g\" needs tensor \"y\", which nothing makes"
    );
    let z = tensor(&mut graph, "z");
    graph.add_node(Node::new(Op::Abs, vec![Some(z)], vec![Some(y)]));
    let x = graph.inputs[0];
    graph.add_node(Node::new(Op::Exp, vec![Some(x)], vec![Some(z)]));
    assert_eq!(
        message(&graph),
        "node Abs of \"y\" needs tensor \"z\", which is made only later"
    );
    graph.sort().unwrap();
    verify(&graph).unwrap();
}

#[test]
fn more_inputs_than_the_op_takes() {
    let (mut graph, x, y, node) = simple();
    graph.remove_node(node);
    graph.add_node(Node::new(Op::Neg, vec![Some(x); 3], vec![Some(y)]).named("neg"));
    assert_eq!(
        message(&graph),
        "node \"neg\" (Neg) has 3 inputs, Neg takes at most 1"
    );
}

#[test]
fn more_axes_than_a_tensor_may_have() {
    let (mut graph, _, y, _) = simple();
    graph.tensor_mut(y).ty = TensorType::known(DType::F32, &[1; 16]);
    verify(&graph).unwrap();
    graph.tensor_mut(y).ty = TensorType::known(DType::F32, &[1; 17]);
    assert_eq!(
        message(&graph),
        "tensor \"y\" has 17 axes; at most 16 are supported"
    );
}

#[test]
fn ports() {
    let (mut graph, x, y, _) = simple();
    graph.inputs.push(x);
    assert_eq!(message(&graph), "input \"x\" is listed twice");
    graph.inputs = vec![x, y];
    assert_eq!(message(&graph), "input \"y\" is made by node \"neg\" (Neg)");
    let (mut graph, x, _, _) = simple();
    graph.tensor_mut(x).data = Some(Constant::new(vec![0; 8]));
    assert_eq!(message(&graph), "input \"x\" is a constant");
    let (mut graph, x, _, _) = simple();
    graph.tensor_mut(x).name = "y".to_owned();
    graph.outputs.push(x);
    assert_eq!(message(&graph), "two outputs are called \"y\"");
    let (mut graph, x, y, _) = simple();
    graph.states.push(State { input: y, output: x });
    assert_eq!(
        message(&graph),
        "a state joins t1 and t0, which are not an input and an output"
    );
    graph.states[0] = State { input: x, output: y };
    verify(&graph).unwrap();
    graph.tensor_mut(y).ty.dtype = DType::F16;
    assert_eq!(
        message(&graph),
        "state \"x\" is f32, but its next value \"y\" is f16"
    );
}

#[test]
fn constants_and_encodings() {
    let (mut graph, _, _, _) = simple();
    let c = graph.add_tensor(Tensor::constant(
        "c",
        TensorType::known(DType::F32, &[3]),
        Constant::new(vec![0; 8]),
    ));
    assert_eq!(
        message(&graph),
        "tensor \"c\" of type f32[3] needs 12 bytes, but has 8"
    );
    graph.tensor_mut(c).ty = TensorType::unranked(DType::F32);
    assert_eq!(message(&graph), "tensor \"c\" is a constant of type f32[..]");
    let (mut graph, x, y, _) = simple();
    graph.tensor_mut(y).data = Some(Constant::new(vec![0; 8]));
    assert_eq!(message(&graph), "tensor \"y\" is a constant, but made by a node");
    graph.tensor_mut(y).data = None;
    let mut encoding = Encoding {
        axis: EncodingAxis::PerAxis(1),
        scales: [1.0].into(),
        zero_points: [].into(),
        real: DType::F32,
    };
    let mut put = |encoding: &Encoding| {
        graph.tensor_mut(x).encoding = Some(encoding.clone());
        verify(&graph).map_err(|error| error.to_string())
    };
    assert_eq!(
        put(&encoding),
        Err("encoding of tensor \"x\" has axis 1, but the tensor has 1 dimensions".to_owned())
    );
    encoding.axis = EncodingAxis::PerAxis(0);
    assert_eq!(
        put(&encoding),
        Err("encoding of tensor \"x\" needs 2 scales, but has 1".to_owned())
    );
    encoding.axis = EncodingAxis::PerBlock { axis: 0, block: 2 };
    assert_eq!(put(&encoding), Ok(()));
    encoding.zero_points = [1, 2].into();
    assert_eq!(
        put(&encoding),
        Err("encoding of tensor \"x\" has 1 scales, but 2 zero points".to_owned())
    );
    encoding.axis = EncodingAxis::PerBlock { axis: 0, block: 0 };
    assert_eq!(
        put(&encoding),
        Err("encoding of tensor \"x\" has blocks of 0 elements".to_owned())
    );
}

#[test]
fn blocks_are_whole_and_of_constants() {
    use polychip_ops::BlockLayout;
    let put = |dtype: DType, dims: &[usize], bytes: usize, encoding: Encoding| {
        let (mut graph, _, _, _) = simple();
        let mut weights = Tensor::new("w", TensorType::known(dtype, dims));
        weights.data = (bytes > 0).then(|| Constant::new(vec![0; bytes]));
        weights.encoding = Some(encoding);
        let w = graph.add_tensor(weights);
        if bytes == 0 {
            graph.inputs.push(w);
        }
        verify(&graph).map_err(|error| error.to_string())
    };
    let blocks = || Encoding::blocks(BlockLayout::Q4_0);
    assert_eq!(put(DType::U8, &[3, 64], 3 * 2 * 18, blocks()), Ok(()));
    let short = put(DType::U8, &[3, 64], 3 * 64, blocks()).unwrap_err();
    assert!(short.contains("needs 108 bytes, but has 192"), "{short}");
    let scaled = Encoding {
        scales: [1.0].into(),
        ..blocks()
    };
    for wrong in [
        put(DType::U8, &[64, 3], 108, blocks()),
        put(DType::I8, &[3, 64], 108, blocks()),
        put(DType::U8, &[3, 64], 108, scaled),
        put(DType::U8, &[3, 64], 0, blocks()),
    ] {
        let words = wrong.unwrap_err();
        assert!(
            words.contains("is blocks of q4_0") || words.contains("needs"),
            "{words}"
        );
    }
}

#[test]
fn groups_name_nodes_once() {
    let (mut graph, _, _, node) = simple();
    let group = Group {
        kind: GroupKind::Conv,
        nodes: vec![node],
    };
    graph.groups = vec![group.clone(), group];
    assert_eq!(message(&graph), "node \"neg\" (Neg) is in two groups");
    graph.groups = vec![Group {
        kind: GroupKind::MatMul,
        nodes: vec![NodeId::new(9)],
    }];
    assert_eq!(message(&graph), "a matmul group names the removed node n9");
    graph.groups = vec![Group {
        kind: GroupKind::Conv,
        nodes: vec![],
    }];
    assert_eq!(message(&graph), "a conv group is empty or out of order");
}

#[test]
fn bodies_and_decompositions() {
    let (mut graph, x, y, node) = simple();
    graph.edit_node(node, |node| {
        node.op = Op::If;
        node.op_name = "If".into();
    });
    assert_eq!(
        message(&graph),
        "node \"neg\" (If) has 0 body graphs instead of 2"
    );
    let branch = |attr: Attr| {
        let (mut inner, a, _, _) = simple();
        inner.name = "branch".to_owned();
        let captures = vec![Capture { outer: x, inner: a }];
        Body {
            attr,
            graph: std::mem::take(&mut inner),
            captures,
        }
    };
    let bodies = vec![branch(Attr::ThenBranch), branch(Attr::ElseBranch)];
    graph.edit_node(node, |node| node.bodies = bodies.clone());
    verify(&graph).unwrap();
    graph.edit_node(node, |node| node.bodies[1].graph.outputs.clear());
    assert_eq!(
        message(&graph),
        "node \"neg\" (If) wants 1 outputs of its else_branch, which has 0"
    );
    graph.edit_node(node, |node| {
        node.bodies = bodies.clone();
        node.bodies[0].captures[0].inner = y;
    });
    assert_eq!(
        message(&graph),
        "node \"neg\" (If) has a then_branch whose last inputs are not its captures"
    );
    graph.edit_node(node, |node| {
        node.bodies = bodies;
        node.bodies[0].captures.clear();
    });
    assert_eq!(
        message(&graph),
        "node \"neg\" (If) passes 0 inputs to its then_branch, which has 1"
    );
    let (mut graph, _, _, node) = simple();
    graph.edit_node(node, |node| {
        node.decomposition = Some(Box::new(Graph::new("inner")))
    });
    assert_eq!(
        message(&graph),
        "node \"neg\" (Neg) has 1 inputs and 1 outputs, but its decomposition 0 and 0"
    );
}
