//! Errors: each names the op, the port and the sizes or types seen.
//!
//! Invariant: a wrong node is an error of the right kind, never a shape.
//! Not here: errors of windows (`geometry`).

use super::*;

#[test]
fn types_and_arity() {
    fails(
        Op::Relu,
        &none(),
        &["bool[2]"],
        "Relu: input 0 (X) is bool, not one of f32, i8, i16, i32, i64, f16, f64, bf16",
    );
    fails(
        Op::Add,
        &none(),
        &["f32[2]", "f16[2]"],
        "Add: input 1 (B) is f16, other inputs of type T are f32",
    );
    fails(Op::Add, &none(), &["f32[2]"], "Add: has 1 inputs, takes 2");
    fails(
        Op::Conv,
        &none(),
        &["-", "f32[1, 1, 1]"],
        "Conv: input 0 (X) is missing",
    );
    fails(
        Op::Concat,
        &none(),
        &["f32[2]"],
        "Concat: attribute 'axis' is missing",
    );
    let wrong = none().with_float(Attr::Axis, 1.0);
    fails(
        Op::Softmax,
        &wrong,
        &["f32[2]"],
        "Softmax: attribute 'axis' is not an int",
    );
    fails(Op::Relu, &axis(0), &["f32[2]"], "Relu: has no attribute 'axis'");
    let to = none().with_int(Attr::To, 99);
    fails(
        Op::Cast,
        &to,
        &["f32[2]"],
        "Cast: to is 99, which is no element type",
    );
    let to = none().with_int(Attr::To, 14);
    let error = run(Op::Cast, &to, &["f32[2]"], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DType);
    assert_eq!(
        run(Op::Relu, &none(), &["f32[2]"], 2).unwrap_err().kind(),
        ErrorKind::Arity
    );
}

#[test]
fn shapes() {
    fails(
        Op::Add,
        &none(),
        &["f32[2, 3]", "f32[n, 4]"],
        "Add: shapes [2, 3] and [n, 4] do not broadcast: axis 1 is 3 and 4",
    );
    fails(
        Op::MatMul,
        &none(),
        &["f32[2, 3]", "f32[4, 5]"],
        "MatMul: inner sizes differ: 3 of [2, 3] and 4 of [4, 5]",
    );
    fails(
        Op::Conv,
        &none(),
        &["f32[1, 3, 8]", "f32[4, 2, 3]"],
        "Conv: input 1 (W) is f32[4, 2, 3], takes 1 groups of 2 channels, the image has 3",
    );
    fails(
        Op::Reshape,
        &none(),
        &["f32[2, 3]", "i64[2] = {4, -1}"],
        "Reshape: input 0 (data) is f32[2, 3], of 6 elements, which 4 of the other sizes do not divide",
    );
    fails(
        Op::Reshape,
        &none(),
        &["f32[2, 3]", "i64[1] = {5}"],
        "Reshape: input 0 (data) is f32[2, 3], of 6 elements, not the 5 of [5]",
    );
    fails(
        Op::Reshape,
        &none(),
        &["f32[2]", "i64[2] = {-1, -1}"],
        "Reshape: shape holds -1 at 0 and at 1",
    );
    fails(
        Op::Softmax,
        &axis(2),
        &["f32[2, 3]"],
        "Softmax: axis 2 is outside rank 2",
    );
    fails(
        Op::Concat,
        &axis(0),
        &["f32[2, 3]", "f32[2, 4]"],
        "Concat: input 1 (inputs) is f32[2, 4], axis 1 is 3 in the inputs before",
    );
    fails(
        Op::Gather,
        &none(),
        &["f32[3]", "i64[1] = {-4}"],
        "Gather: index -4 is outside axis 0 of size 3",
    );
    let inputs = ["f32[5]", "i64[] = {6}"];
    let error = run(Op::TopK, &none(), &inputs, 2).unwrap_err();
    assert_eq!(error.to_string(), "TopK: K is 6, axis 0 has only 5");
    assert_eq!(error.kind(), ErrorKind::Value);
    let zero_step = ["f32[5]", "i64[1] = {0}", "i64[1] = {1}", "-", "i64[1] = {0}"];
    fails(Op::Slice, &none(), &zero_step, "Slice: the step on axis 0 is 0");
    let huge = usize::MAX / 2;
    let input = format!("f32[{huge}, 3]");
    let error = run(Op::Flatten, &axis(0), &[&input], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overflow);
}

#[test]
fn ops_that_shapes_do_not_tell() {
    let kind = |op, inputs: &[&str]| run(op, &none(), inputs, 1).unwrap_err().kind();
    assert_eq!(kind(Op::If, &["bool[]"]), ErrorKind::NeedsBody);
    assert_eq!(kind(Op::Loop, &["i64[]", "bool[]"]), ErrorKind::NeedsBody);
    assert_eq!(kind(Op::SequenceConstruct, &["f32[2]"]), ErrorKind::NotTensor);
    assert_eq!(kind(Op::SequenceLength, &["f32[2]"]), ErrorKind::NotTensor);
    assert_eq!(kind(Op::Custom, &["f32[2]"]), ErrorKind::Custom);
    fails(
        Op::SequenceEmpty,
        &none(),
        &[],
        "SequenceEmpty: works on sequences or optionals, which are not tensors",
    );
}
