//! Sequences whose elements the graph knows.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, DType, Dim, Literal, Op};

use super::build::Build;
use super::{Options, canonical, nodes_of, proven};

fn axis(axis: i64) -> (Attr, AttrValue) {
    (Attr::Axis, AttrValue::Int(axis))
}

fn position(b: &mut Build, at: i64) -> crate::TensorId {
    b.literal(&format!("at{at}"), &Literal::scalar_i64(at))
}

#[test]
fn pieces_at_constant_positions_are_those_of_a_split() {
    let mut b = Build::new();
    let x = b.input("x", &[3, 2, 4]);
    let keepdims = (Attr::Keepdims, AttrValue::Int(0));
    let sequence = b.op_with(Op::SplitToSequence, &[x], &[axis(0), keepdims]);
    let mut results = Vec::new();
    for at in [0, 1, -1] {
        let at = position(&mut b, at);
        let element = b.op(Op::SequenceAt, &[sequence, at]);
        results.push(b.op(Op::Relu, &[element]));
    }
    let (after, _) = proven(&b.finish(&results), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t0.piece0, t0.piece1, t0.piece2 = Split(x, t0.sizes) axis=Int(0)
    t0.element0 = Squeeze(t0.piece0, t0.axes)
    y0 = Relu(t0.element0)
    t0.element1 = Squeeze(t0.piece1, t0.axes)
    y1 = Relu(t0.element1)
    t0.element2 = Squeeze(t0.piece2, t0.axes)
    y2 = Relu(t0.element2)
    ");
    assert_eq!(after.tensor(after.outputs[2]).ty.sizes(), Some(vec![2, 4]));
}

#[test]
fn pieces_of_given_sizes_are_those_of_a_split() {
    for (name, sizes) in [
        ("one", Literal::scalar_i64(2)),
        ("list", Literal::i64s(&[2, 2, 1])),
    ] {
        let mut b = Build::new();
        let x = b.input("x", &[3, 5]);
        let sizes = b.literal(name, &sizes);
        let sequence = b.op_with(Op::SplitToSequence, &[x, sizes], &[axis(-1)]);
        let (last, first) = (position(&mut b, -1), position(&mut b, 0));
        let last = b.op(Op::SequenceAt, &[sequence, last]);
        let first = b.op(Op::SequenceAt, &[sequence, first]);
        let y = b.op(Op::Add, &[first, last]);
        let whole = b.op_with(Op::ConcatFromSequence, &[sequence], &[axis(1)]);
        let whole = b.op(Op::Relu, &[whole]);
        let (after, _) = proven(&b.finish(&[y, whole]), &Options::default());
        let nodes = [
            "t0.piece0, t0.piece1, t0.piece2 = Split(x, t0.sizes) axis=Int(1)",
            "y0 = Add(t0.piece0, t0.piece2)",
            "t4 = Concat(t0.piece0, t0.piece1, t0.piece2) axis=Int(1)",
            "y1 = Relu(t4)",
        ];
        assert_eq!(nodes_of(&after).lines().collect::<Vec<_>>(), nodes);
    }
}

#[test]
fn elements_of_edited_sequences_are_found() {
    let mut b = Build::new();
    let (x, z) = (b.input("x", &[2, 3]), b.input("z", &[2, 3]));
    let empty = b.op(Op::SequenceEmpty, &[]);
    let one = b.op(Op::SequenceInsert, &[empty, x]);
    let front = position(&mut b, 0);
    let two = b.op(Op::SequenceInsert, &[one, z, front]);
    let three = b.op(Op::SequenceInsert, &[two, x]);
    let new_axis = (Attr::NewAxis, AttrValue::Int(1));
    let stacked = b.op_with(Op::ConcatFromSequence, &[three], &[axis(1), new_axis]);
    let erased = b.op(Op::SequenceErase, &[three, front]);
    let element = b.op(Op::SequenceAt, &[erased, front]);
    let element = b.op(Op::Relu, &[element]);
    let length = b.op(Op::SequenceLength, &[erased]);
    let to = (Attr::To, AttrValue::Int(DType::F32.code().into()));
    let length = b.op_with(Op::Cast, &[length], &[to]);
    let scaled = b.op(Op::Mul, &[element, length]);
    let (after, _) = proven(&b.finish(&[stacked, scaled]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    y0.row0 = Unsqueeze(z, y0.axes)
    y0.row1 = Unsqueeze(x, y0.axes)
    y0 = Concat(y0.row0, y0.row1, y0.row1) axis=Int(1)
    t7 = Relu(x)
    y1 = Mul(t7, t9)
    ");
}

#[test]
fn pieces_at_computed_positions_are_gathered() {
    let mut b = Build::new();
    let x = b.input("x", &[3, 4]);
    b.graph.tensor_mut(x).ty.shape = Some(vec![3.into(), Dim::symbol("n")]);
    let at = b.typed_input("at", DType::I64, &[]);
    let squeezed = (Attr::Keepdims, AttrValue::Int(0));
    let rows = b.op_with(Op::SplitToSequence, &[x], &[axis(0)]);
    let row = b.op(Op::SequenceAt, &[rows, at]);
    let columns = b.op_with(Op::SplitToSequence, &[x], &[axis(1), squeezed]);
    let column = b.op(Op::SequenceAt, &[columns, at]);
    let (after, _) = canonical(&b.finish(&[row, column]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    y0.position = Reshape(at, y0.position.shape)
    y0 = Gather(x, y0.position) axis=Int(0)
    y1 = Gather(x, at) axis=Int(1)
    ");
    assert_eq!(after.tensor(after.outputs[1]).ty.sizes(), Some(vec![3]));
}

#[test]
fn positions_out_of_range_are_left_to_the_run() {
    let mut b = Build::new();
    let (x, z) = (b.input("x", &[2]), b.input("z", &[2]));
    let sequence = b.op(Op::SequenceConstruct, &[x, z]);
    let far = position(&mut b, 2);
    let y = b.op(Op::SequenceAt, &[sequence, far]);
    let (after, _) = canonical(&b.finish(&[y]), &Options::default());
    assert_eq!(after.node_count(), 2);
}
