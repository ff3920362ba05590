//! What counts and what does not.

use bytes::Bytes;
use polychip_ops::{DType, TensorType};
use proptest::prelude::*;

use super::{ConstantHashes, LARGE, content, content_with, structure};
use crate::{Constant, Graph, Tensor, arbitrary, text};

fn graph(text: &str) -> Graph {
    text::parse(text).unwrap()
}

const BASE: &str = r#"graph "g" {
  input t0 "x": f32[n, 4]
  const t1 "w": f32[4] = [1.0, 2.0, 3.0, 4.0]
  t2 "a": f32[n, 4] = Mul "m"(t0, t1)
  t3 "b": f32[n, 4] = Neg "p"(t2)
  t4 "c": f32[n, 4] = Abs "q"(t2)
  t5 "d": f32[n, 4] = Sub "r"(t3, t4)
  output t5
  group elementwise [n1, n2]
}
"#;

#[test]
fn names_and_order_do_not_count() {
    let base = graph(BASE);
    for (from, to) in [
        ("\"x\"", "\"image\""),
        ("\"g\"", "\"h\""),
        ("\"m\"", "\"mul\""),
        ("[n, 4]", "[batch, 4]"),
    ] {
        let other = graph(&BASE.replace(from, to));
        assert_eq!(structure(&other), structure(&base), "{from}");
        assert_eq!(content(&other), content(&base), "{from}");
    }
    let lines = BASE.replace(
        "  t3 \"b\": f32[n, 4] = Neg \"p\"(t2)\n  t4 \"c\": f32[n, 4] = Abs \"q\"(t2)\n",
        "  t4 \"c\": f32[n, 4] = Abs \"q\"(t2)\n  t3 \"b\": f32[n, 4] = Neg \"p\"(t2)\n",
    );
    assert_ne!(lines, BASE);
    assert_eq!(content(&graph(&lines)), content(&base));
}

#[test]
fn everything_else_counts() {
    let base = graph(BASE);
    for (from, to) in [
        ("Neg", "Exp"),
        ("(t3, t4)", "(t4, t3)"),
        ("[n, 4]", "[2, 4]"),
        ("\"q\"(t2)", "\"q\"(t2) {axis: 1}"),
        ("\"q\"(t2)", "\"q\"(t0)"),
        (
            "\"d\": f32[n, 4] =",
            "\"d\": f32[n, 4] encoded f32 per tensor [0.5] [] =",
        ),
        ("group elementwise [n1, n2]", "group elementwise [n1, n3]"),
        ("output t5", "output t5\n  output t3"),
        ("output t5", "output t5\n  state t0 -> t5"),
    ] {
        let other = graph(&BASE.replace(from, to));
        assert_ne!(structure(&other), structure(&base), "{from} -> {to}");
        assert_ne!(content(&other), content(&base), "{from} -> {to}");
    }
    let weights = graph(&BASE.replace("4.0]", "5.0]"));
    assert_eq!(structure(&weights), structure(&base));
    assert_ne!(content(&weights), content(&base));
}

#[test]
fn axes_given_as_constants_are_structure() {
    let of = |axis: i64| {
        structure(&graph(&format!(
            "graph \"g\" {{\n input t0 \"x\": f32[4, 4]\n const t1 \"a\": i64[1] = [{axis}]\n t2 \"y\": f32[1, 4] = ReduceSum \"\"(t0, t1)\n output t2\n}}"
        )))
    };
    assert_ne!(of(0), of(1));
}

#[test]
fn shared_nodes_are_told_from_copies() {
    // three readers of two equal nodes, dealt out in two ways
    let of = |deal: [&str; 3]| {
        let [a, b, c] = deal;
        content(&graph(&format!(
            "graph \"g\" {{\n input t0 \"x\": f32[]\n t1 \"p\": f32[] = Neg \"\"(t0)\n t2 \"q\": f32[] = Neg \"\"(t0)\n \
             t3 \"a\": f32[] = Abs \"\"({a})\n t4 \"b\": f32[] = Exp \"\"({b})\n t5 \"c\": f32[] = Log \"\"({c})\n \
             output t3\n output t4\n output t5\n}}"
        )))
    };
    assert_ne!(of(["t1", "t1", "t2"]), of(["t1", "t2", "t2"]));
    assert_eq!(of(["t1", "t1", "t2"]), of(["t2", "t2", "t1"]));
}

#[test]
fn bodies_count_and_their_captures_have_no_order() {
    let of = |captures: &str, inputs: &str, op: &str| {
        content(&graph(&format!(
            "graph \"g\" {{\n input t0 \"x\": f32[]\n input t1 \"y\": f32[]\n input t2 \"c\": bool[]\n \
             t3 \"z\": f32[] = If \"\"(t2)\n body then_branch({captures}) \"t\" {{\n {inputs}\n t2 \"s\": f32[] = {op} \"\"(t0, t1)\n output t2\n }}\n \
             body else_branch(t0 -> t0) \"e\" {{\n input t0 \"a\": f32[]\n output t0\n }}\n output t3\n}}"
        )))
    };
    let (a, b) = ("input t0 \"a\": f32[]", "input t1 \"b\": f32[]");
    let base = of("t0 -> t0, t1 -> t1", &format!("{a}\n{b}"), "Sub");
    assert_eq!(of("t1 -> t1, t0 -> t0", &format!("{b}\n{a}"), "Sub"), base);
    assert_ne!(of("t0 -> t0, t1 -> t1", &format!("{a}\n{b}"), "Mul"), base);
    assert_ne!(of("t1 -> t1, t0 -> t0", &format!("{a}\n{b}"), "Sub"), base);
}

#[test]
fn known_hashes_of_large_constants_are_used() {
    let with = |bytes: &Bytes| {
        let mut graph = graph(BASE);
        let ty = TensorType::known(DType::U8, &[bytes.len()]);
        let large = graph.add_tensor(Tensor::constant("l", ty, Constant::new(bytes.clone())));
        graph.outputs.push(large);
        graph
    };
    let [one, other] = [1u8, 2].map(|value| Bytes::from(vec![value; LARGE]));
    let hashes = |of: &Bytes, at: &Bytes| {
        let mut hashes = ConstantHashes::default();
        hashes.add(at.clone(), *blake3::hash(of).as_bytes());
        hashes
    };
    assert_ne!(content(&with(&one)), content(&with(&other)));
    assert_eq!(
        content_with(&with(&one), &hashes(&one, &one)),
        content(&with(&one))
    );
    // the bytes are not read
    assert_eq!(
        content_with(&with(&one), &hashes(&other, &one)),
        content(&with(&other))
    );
    // the same bytes elsewhere are
    let copy = Bytes::copy_from_slice(&one);
    assert_eq!(
        content_with(&with(&copy), &hashes(&other, &one)),
        content(&with(&one))
    );
}

proptest! {
    #[test]
    fn renaming_and_reordering_keep_both(graph in arbitrary::graphs(24), seed: u64) {
        let mut other = arbitrary::shuffled(&graph, seed);
        prop_assert_eq!(structure(&other), structure(&graph));
        prop_assert_eq!(content(&other), content(&graph));
        other.sort().unwrap();
        prop_assert_eq!(content(&other), content(&graph));
    }
}
