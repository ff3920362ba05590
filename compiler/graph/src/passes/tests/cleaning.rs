//! Folding, ops without effect, duplicates and dead code.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, DType, Dim, Literal, Op};

use super::build::{Build, ints};
use super::{Options, Reference, canonical, nodes_of, proven};
use crate::{Body, Capture, Graph, passes::canonicalise};

#[test]
fn constants_are_computed_once() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    let (one, two) = (b.weights("one", &[3, 2]), b.weights("two", &[3, 2]));
    let sum = b.op(Op::Add, &[one, two]);
    let turned = b.op_with(Op::Transpose, &[sum], &[(Attr::Perm, ints(&[1, 0]))]);
    let y = b.op(Op::Mul, &[x, turned]);
    let (after, report) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = Mul(x, t1)");
    assert!(report.changes("fold") >= 2, "{report:?}");
}

#[test]
fn shapes_fold_where_sizes_are_known() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3, 4]);
    let shape = b.op_with(Op::Shape, &[x], &[(Attr::Start, AttrValue::Int(-2))]);
    let size = b.op(Op::Size, &[x]);
    let flat = b.list(&[-1]);
    let size = b.op(Op::Reshape, &[size, flat]);
    let all = b.op_with(Op::Concat, &[shape, size], &[(Attr::Axis, AttrValue::Int(0))]);
    let (after, _) = proven(&b.finish(&[all]), &Options::default());
    assert_eq!(after.node_count(), 0);
    let output = after.tensor(after.outputs[0]);
    assert_eq!(
        output.data.as_ref().unwrap().to_literal(&output.ty),
        Some(Literal::i64s(&[3, 4, 24]))
    );
}

#[test]
fn a_known_size_of_a_partly_known_shape_folds() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    b.graph.tensor_mut(x).ty.shape = Some(vec![Dim::symbol("n"), 3.into()]);
    let shape = b.op(Op::Shape, &[x]);
    let (zero, one) = (b.list(&[0]), b.list(&[1]));
    let known = b.op(Op::Gather, &[shape, one]);
    let named = b.op(Op::Gather, &[shape, zero]);
    let known = b.op(Op::Mul, &[known, known]);
    let known = b.op_with(
        Op::Cast,
        &[known],
        &[(Attr::To, AttrValue::Int(DType::F32.code().into()))],
    );
    let (after, _) = proven(&b.finish(&[known, named]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t0 = Shape(x)
    y1 = Gather(t0, [0])
    ");
}

#[test]
fn bodies_are_canonical_too() {
    let mut inner = Build::new();
    let x = inner.input("inner", &[2]);
    let (one, two) = (inner.number(1.0), inner.number(2.0));
    let three = inner.op(Op::Add, &[one, two]);
    let t = inner.op(Op::Identity, &[x]);
    let t = inner.op(Op::Mul, &[t, three]);
    let body = inner.finish(&[t]);
    let mut b = Build::new();
    let condition = b.typed_input("condition", DType::Bool, &[]);
    let x = b.input("x", &[2]);
    let outer = b.op(Op::Identity, &[x]);
    let y = b.op(Op::If, &[condition]);
    let id = b.graph.producer(y).unwrap();
    b.graph.edit_node(id, |node| {
        for attr in [Attr::ThenBranch, Attr::ElseBranch] {
            let capture = Capture {
                outer,
                inner: body.inputs[0],
            };
            node.bodies.push(Body {
                attr,
                graph: body.clone(),
                captures: vec![capture],
            });
        }
    });
    let (after, report) = canonical(&b.finish(&[y]), &Options::default());
    let (_, node) = after.nodes().next().unwrap();
    assert_eq!((after.node_count(), node.op), (1, Op::If));
    assert_eq!(node.bodies[0].captures[0].outer, after.inputs[1]);
    assert_snapshot!(nodes_of(&node.bodies[0].graph), @"y0 = Mul(inner, t0)");
    assert_eq!(report.changes("fold"), 2);
}

#[test]
fn large_results_and_random_numbers_are_not_stored() {
    let mut b = Build::new();
    let shape = b.list(&[64, 64]);
    let zeros = b.op(Op::ConstantOfShape, &[shape]);
    let x = b.input("x", &[64, 64]);
    let noise = b.op(Op::RandomNormalLike, &[zeros]);
    let sum = b.op(Op::Sub, &[zeros, x]);
    let graph = b.finish(&[sum, noise]);
    let options = Options {
        fold_limit: 64 * 64 * 4 - 1,
        ..Options::default()
    };
    let (after, _) = canonical(&graph, &options);
    let ops: Vec<Op> = after.nodes().map(|(_, node)| node.op).collect();
    assert_eq!(ops, [Op::ConstantOfShape, Op::Sub, Op::RandomNormalLike]);
    let (after, _) = canonical(&graph, &Options::default());
    let ops: Vec<Op> = after.nodes().map(|(_, node)| node.op).collect();
    assert_eq!(ops, [Op::Sub, Op::RandomNormalLike]);
}

#[test]
fn large_weights_of_16_bits_stay_so_where_that_is_asked_for() {
    let graph = |shape: [usize; 2], read_twice: bool| {
        let mut b = Build::new();
        let x = b.input("x", &[3, shape[0]]);
        let literal = Literal {
            shape: shape.to_vec(),
            dtype: DType::BF16,
            bytes: vec![0x3f; 2 * shape[0] * shape[1]].into(),
        };
        let stored = b.literal("w", &literal);
        let to_f32 = [(Attr::To, AttrValue::Int(DType::F32.code().into()))];
        let wide = b.op_with(Op::Cast, &[stored], &to_f32);
        let mut outputs = vec![b.op(Op::MatMul, &[x, wide])];
        if read_twice {
            outputs.push(b.op(Op::Relu, &[wide]));
        }
        b.finish(&outputs)
    };
    let casts = |graph: &Graph, keep_halves: bool| {
        let options = Options {
            keep_halves,
            ..Options::default()
        };
        let (after, _) = proven(graph, &options);
        after.nodes().filter(|(_, node)| node.op == Op::Cast).count()
    };
    let large = graph([128, 160], false);
    assert_eq!([casts(&large, true), casts(&large, false)], [1, 0]);
    // what is small, and what others read as f32, gains nothing
    assert_eq!(casts(&graph([128, 16], false), true), 0);
    assert_eq!(casts(&graph([128, 160], true), true), 0);
}

#[test]
fn a_small_file_cannot_ask_for_all_memory_or_for_hours() {
    // a hundred constants of 4 kB each, all read
    let mut b = Build::new();
    let x = b.input("x", &[1]);
    let mut outputs = Vec::new();
    for k in 0..100 {
        let shape = b.list(&[1000 + k]);
        let zeros = b.op(Op::ConstantOfShape, &[shape]);
        outputs.push(b.op(Op::Add, &[zeros, x]));
    }
    let graph = b.finish(&outputs);
    let options = Options {
        fold_bytes: 30_000,
        ..Options::default()
    };
    let mut after = graph.clone();
    canonicalise(&mut after, &Reference, &options).unwrap();
    let made = after
        .tensors()
        .filter_map(|(_, tensor)| Some(tensor.data.as_ref()?.bytes.len()));
    let made: Vec<usize> = made.filter(|&bytes| bytes >= 4000).collect();
    // 800 bytes of shapes count for eight each
    let all: usize = made.iter().sum();
    assert!(made.len() > 5 && all <= 30_000 + 8 * 800, "{made:?}");
    // a chain of products
    let mut b = Build::new();
    let shape = b.list(&[30, 30]);
    let mut t = b.op(Op::ConstantOfShape, &[shape]);
    for _ in 0..40 {
        t = b.op(Op::MatMul, &[t, t]);
    }
    let options = Options {
        // ten products of 27,000 multiply-adds and 10,800 bytes
        fold_work: 378_000,
        ..Options::default()
    };
    let mut after = b.finish(&[t]);
    canonicalise(&mut after, &Reference, &options).unwrap();
    let products = after.nodes().filter(|(_, node)| node.op == Op::MatMul).count();
    assert!((29..=31).contains(&products), "{products}");
}

#[test]
fn ops_without_effect_go_and_outputs_keep_their_names() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3, 4]);
    let to_f32 = [(Attr::To, AttrValue::Int(DType::F32.code().into()))];
    let mut t = b.op_with(Op::Cast, &[x], &to_f32);
    t = b.op(Op::Dropout, &[t]);
    let shape = b.list(&[2, -1, 4]);
    t = b.op(Op::Reshape, &[t, shape]);
    t = b.op_with(Op::Transpose, &[t], &[(Attr::Perm, ints(&[1, 2, 0]))]);
    t = b.op_with(Op::Transpose, &[t], &[(Attr::Perm, ints(&[2, 0, 1]))]);
    let pads = b.list(&[0; 6]);
    t = b.op(Op::Pad, &[t, pads]);
    let (one, zero) = (b.number(1.0), b.number(0.0));
    t = b.op(Op::Mul, &[one, t]);
    t = b.op(Op::Sub, &[t, zero]);
    t = b.op(Op::Neg, &[t]);
    t = b.op_with(Op::Concat, &[t], &[(Attr::Axis, AttrValue::Int(0))]);
    let y = b.op(Op::Identity, &[t]);
    // an input given back keeps its node
    let same = b.op(Op::Identity, &[x]);
    let (after, _) = proven(&b.finish(&[y, same]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    y0 = Neg(x)
    y1 = Identity(x)
    ");
}

#[test]
fn what_looks_without_effect_but_is_not_stays() {
    let mut b = Build::new();
    let x = b.input("x", &[3, 3]);
    let (start, end, axis, back) = (b.list(&[-1]), b.list(&[i64::MIN]), b.list(&[0]), b.list(&[-1]));
    let turned = b.op(Op::Slice, &[x, start, end, axis, back]);
    let pads = b.list(&[1, 0, -1, 0]);
    let moved = b.op(Op::Pad, &[x, pads]);
    let swapped = b.op(Op::Transpose, &[x]);
    let wide = b.weights("wide", &[2, 3, 3]);
    let zero = b.op(Op::Sub, &[wide, wide]);
    let spread = b.op(Op::Add, &[x, zero]);
    let (after, _) = proven(&b.finish(&[turned, moved, swapped, spread]), &Options::default());
    assert_eq!(after.node_count(), 4);
}

#[test]
fn outputs_that_nobody_reads_leave_their_place() {
    let mut b = Build::new();
    let x = b.input("x", &[6]);
    let (sizes, k) = (b.list(&[1, 2, 3]), b.list(&[2]));
    let axis = [(Attr::Axis, AttrValue::Int(0))];
    let parts = b.ops(Op::Split, &[x, sizes], &axis, 3);
    let best = b.ops(Op::TopK, &[x, k], &axis, 2);
    // shapes are known, so that the last outputs have no reader in the end
    let shapes = [b.op(Op::Shape, &[parts[2]]), b.op(Op::Shape, &[best[1]])];
    let graph = b.finish(&[parts[0], best[0], shapes[0], shapes[1]]);
    let (after, _) = proven(&graph, &Options::default());
    assert_eq!(after.node_count(), 2);
    for (_, node) in after.nodes() {
        let outputs = if node.op == Op::Split { 3 } else { 2 };
        assert_eq!(node.outputs.len(), outputs, "{}", node.op);
    }
}

#[test]
fn limits_of_clip_and_a_weight_of_zero() {
    let mut b = Build::new();
    let (x, c) = (b.input("x", &[2, 2]), b.input("c", &[2]));
    // infinities become the last finite numbers
    let clipped = b.op(Op::Clip, &[x]);
    let y = b.op_with(Op::Gemm, &[clipped, x, c], &[(Attr::Beta, AttrValue::Float(0.0))]);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t0 = Clip(x)
    y0 = Gemm(t0, x) beta=Float(0.0)
    ");
}

#[test]
fn reshapes_of_reshapes_become_one() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3, 4]);
    let flat = b.op_with(Op::Flatten, &[x], &[(Attr::Axis, AttrValue::Int(1))]);
    let shape = b.list(&[4, -1]);
    let y = b.op(Op::Reshape, &[flat, shape]);
    let keep = b.list(&[0, 2, -1]);
    let z = b.op(Op::Reshape, &[flat, keep]);
    let (after, _) = proven(&b.finish(&[y, z]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    y0 = Reshape(x, [4, -1])
    t0 = Flatten(x) axis=Int(1)
    y1 = Reshape(t0, [0, 2, -1])
    ");
}

#[test]
fn equal_nodes_become_one() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    let (first, second) = (b.number(2.0), b.number(2.0));
    let (p, q) = (b.op(Op::Mul, &[x, first]), b.op(Op::Mul, &[x, second]));
    let (p, q) = (b.op(Op::Exp, &[p]), b.op(Op::Exp, &[q]));
    let other = b.op(Op::Exp, &[x]);
    let sum = b.op(Op::Add, &[p, q]);
    let y = b.op(Op::Div, &[sum, other]);
    let dead = b.op(Op::Sqrt, &[other]);
    b.op(Op::Neg, &[dead]);
    let (after, report) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t0 = Mul(x, 2)
    t2 = Exp(t0)
    t5 = Add(t2, t2)
    t4 = Exp(x)
    y0 = Div(t5, t4)
    ");
    assert_eq!((report.changes("duplicate"), report.changes("dead")), (3, 2));
}

#[test]
fn bounds_and_unknown_sizes_are_not_equal() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    b.graph.tensor_mut(x).ty.shape = Some(vec![Dim::symbol("n"), 3.into()]);
    let found = b.op(Op::NonZero, &[x]);
    let flat = b.list(&[2, -1]);
    let y = b.op(Op::Reshape, &[found, flat]);
    let shape = b.op(Op::Shape, &[x]);
    let z = b.op(Op::Reshape, &[x, shape]);
    let graph = b.finish(&[y, z]);
    let (after, _) = canonical(&graph, &Options::default());
    // the second reshape keeps the named size, so that it goes; the first depends on values
    let ops: Vec<Op> = after.nodes().map(|(_, node)| node.op).collect();
    assert!(ops.starts_with(&[Op::NonZero, Op::Reshape]), "{ops:?}");
}

#[test]
fn padding_by_a_word_is_written_out() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 2, 7, 7]);
    let w = b.weights("w", &[2, 2, 3, 2]);
    let word = |word: &str| (Attr::AutoPad, AttrValue::String(word.into()));
    let two = || (Attr::Strides, ints(&[2, 2]));
    let upper = b.op_with(Op::Conv, &[x, w], &[word("SAME_UPPER"), two()]);
    let lower = b.op_with(Op::Conv, &[x, w], &[word("SAME_LOWER"), two()]);
    let both = b.op(Op::Add, &[upper, lower]);
    let kernel = || (Attr::KernelShape, ints(&[2, 3]));
    let pool = b.op_with(Op::AveragePool, &[both], &[kernel(), word("SAME_LOWER")]);
    let valid = b.op_with(Op::MaxPool, &[pool], &[kernel(), word("VALID")]);
    let ceil = [kernel(), word("SAME_UPPER"), (Attr::CeilMode, AttrValue::Int(1))];
    let stays = b.op_with(Op::MaxPool, &[pool], &ceil);
    let (after, report) = proven(&b.finish(&[valid, stays]), &Options::default());
    assert_eq!(report.changes("padding"), 4);
    let pads: Vec<_> = after
        .nodes()
        .map(|(_, node)| node.attributes.ints(Attr::Pads))
        .collect();
    let upper: &[i64] = &[1, 0, 1, 1];
    let wanted = [
        Some(upper),
        Some(&[1, 1, 1, 0]),
        None,
        Some(&[1, 1, 0, 1]),
        Some(&[0, 0, 0, 0]),
        None,
    ];
    assert_eq!(pads, wanted);
}

/// `if size(x) == 6 then (if p then x + 3 else x) else -x`, where only a run knows `p`.
#[test]
fn a_branch_that_sizes_decide_stands_in_place_of_its_if() {
    let both = |attrs: [Attr; 2], bodies: [&crate::Graph; 2], outer: &[crate::TensorId]| -> Vec<Body> {
        let body = |(attr, graph): (Attr, &crate::Graph)| Body {
            attr,
            graph: graph.clone(),
            captures: graph
                .inputs
                .iter()
                .zip(outer)
                .map(|(&inner, &outer)| Capture { outer, inner })
                .collect(),
        };
        attrs.into_iter().zip(bodies).map(body).collect()
    };
    let branches = [Attr::ThenBranch, Attr::ElseBranch];
    let branch = |op: Option<Op>| {
        let mut b = Build::new();
        let x = b.input("inner", &[2, 3]);
        b.typed_input("p", DType::Bool, &[]);
        let y = match op {
            Some(Op::Add) => {
                let three = b.number(3.0);
                b.op(Op::Add, &[x, three])
            }
            Some(op) => b.op(op, &[x]),
            None => x,
        };
        b.finish(&[y])
    };
    let mut b = Build::new();
    let x = b.input("inner", &[2, 3]);
    let p = b.typed_input("p", DType::Bool, &[]);
    let y = b.op(Op::If, &[p]);
    let id = b.graph.producer(y).unwrap();
    let bodies = both(branches, [&branch(Some(Op::Add)), &branch(None)], &[x, p]);
    b.graph.edit_node(id, |node| node.bodies = bodies);
    let outer = b.finish(&[y]);

    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    let p = b.typed_input("p", DType::Bool, &[]);
    let (size, six) = (b.op(Op::Size, &[x]), b.list(&[6]));
    let is_six = b.op(Op::Equal, &[size, six]);
    let y = b.op(Op::If, &[is_six]);
    let id = b.graph.producer(y).unwrap();
    let bodies = both(branches, [&outer, &branch(Some(Op::Neg))], &[x, p]);
    b.graph.edit_node(id, |node| node.bodies = bodies);
    let (after, report) = canonical(&b.finish(&[y]), &Options::default());
    assert_eq!(report.changes("branch"), 1);
    let (_, node) = after.nodes().next().unwrap();
    assert_eq!(
        (after.node_count(), node.op, node.input(0)),
        (1, Op::If, Some(after.inputs[1]))
    );
    assert_eq!(after.outputs, node.writes().collect::<Vec<_>>());
    assert_snapshot!(nodes_of(&node.bodies[0].graph), @"y0 = Add(inner, 3)");
    assert!(
        node.bodies
            .iter()
            .all(|body| body.captures.iter().all(|c| after.is_input(c.outer)))
    );
}

/// `for i in 0..n { s = s · wᵀ }` with `w` among the states, as exporters write it.
#[test]
fn a_loop_captures_what_it_does_not_change_and_its_body_owns_constants() {
    let source = |start: &str| {
        format!(
            r#"graph "g" {{
          input t0 "n": i64[]
          input t1 "x": f32[2, 3]
          {start}
          const t3 "yes": bool[] = [1]
          t4 "s": f32[2, 3], t5 "w after": f32[3, 3] = Loop ""(t0, t3, t1, t2)
            body body() "b" {{
              input t0 "i": i64[]
              input t1 "c": bool[]
              input t2 "s": f32[2, 3]
              input t3 "w": f32[3, 3]
              t4 "turned": f32[3, 3] = Transpose ""(t3) {{perm: ints [1, 0]}}
              t5 "more": f32[2, 3] = MatMul ""(t2, t4)
              t6 "same": f32[3, 3] = Identity ""(t3)
              output t1
              output t5
              output t6
            }}
          output t4
          output t5
        }}"#
        )
    };
    let looped = |start: &str| {
        let (after, report) = canonical(&crate::text::parse(&source(start)).unwrap(), &Options::default());
        let node = after
            .nodes()
            .find(|(_, node)| node.op == Op::Loop)
            .unwrap()
            .1
            .clone();
        assert_eq!((node.inputs.len(), node.outputs.len()), (3, 1), "{report:?}");
        assert_eq!(node.bodies[0].graph.outputs.len(), 2);
        (after, node.bodies[0].clone())
    };
    // a constant: the body has it, transposed
    let (after, body) = looped(r#"const t2 "w": f32[3, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]"#);
    assert!(body.captures.is_empty());
    let ops = |body: &Body| body.graph.nodes().map(|(_, node)| node.op).collect::<Vec<_>>();
    assert_eq!(ops(&body), [Op::MatMul]);
    assert!(after.tensor(after.outputs[1]).data.is_some());
    // an input: captured, and handed on by no round
    let (after, body) = looped(r#"input t2 "w": f32[3, 3]"#);
    assert_eq!(body.captures.len(), 1);
    assert_eq!(body.captures[0].outer, after.inputs[2]);
    assert_eq!(ops(&body), [Op::Transpose, Op::MatMul]);
    let last = after.producer(after.outputs[1]).unwrap();
    assert_eq!(
        (after.node(last).op, after.node(last).input(0)),
        (Op::Identity, Some(after.inputs[2]))
    );
}
