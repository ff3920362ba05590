//! Inference over graphs: bounds, values, branches, declared sizes.

use polychip_ops::{Dim, Value};

use super::infer;
use crate::{ErrorKind, Graph, text};

fn graph(text: &str) -> Graph {
    text::parse(text).unwrap()
}

/// The types of the graph's outputs after inference.
fn outputs(source: &str) -> Vec<String> {
    let mut graph = graph(source);
    infer(&mut graph).unwrap();
    let show = |id: &crate::TensorId| {
        let tensor = graph.tensor(*id);
        format!("{}{}", tensor.ty, if tensor.upper_bound { " bound" } else { "" })
    };
    graph.outputs.iter().map(show).collect()
}

#[test]
fn shape_arithmetic_gives_sizes() {
    let source = r#"graph "g" {
      input t0 "x": f32[n, 3, 4]
      t1 "s": untyped = Shape ""(t0)
      const t2 "first": i64[1] = [0]
      t3 "n": untyped = Gather ""(t1, t2) {axis: 0}
      const t4 "rest": i64[1] = [12]
      t5 "shape": untyped = Concat ""(t3, t4) {axis: 0}
      t6 "y": untyped = Reshape ""(t0, t5)
      output t6
    }"#;
    assert_eq!(outputs(source), ["f32[n, 12]"]);
    let mut parsed = graph(source);
    let values = infer(&mut parsed).unwrap();
    let shape = parsed.tensors().find(|(_, tensor)| tensor.name == "s").unwrap().0;
    let Some(Value::Dims(elements, _)) = values.get(shape) else {
        panic!("{:?}", values.get(shape))
    };
    assert_eq!(elements[0].dim(), Some(Dim::symbol("n")));
}

#[test]
fn too_many_axes_are_refused_before_any_rule_looks_at_them() {
    // so many that a rule which looks at each among all of them would take minutes
    let axes = "1, ".repeat(1_000_000);
    let source = format!(
        "graph \"g\" {{\n input t0 \"x\": f32[{axes}1]\n t1 \"y\": untyped = ReduceMax \"\"(t0)\n output t1\n}}"
    );
    let error = infer(&mut graph(&source)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"x\" has 1000001 axes; at most 16 are supported"
    );
}

#[test]
fn bounds_stay_bounds_and_have_no_known_shape() {
    let source = r#"graph "g" {
      input t0 "x": f32[2, 3]
      t1 "where": untyped = NonZero ""(t0)
      t2 "turned": untyped = Transpose ""(t1)
      t3 "sizes": untyped = Shape ""(t1)
      t4 "filled": untyped = ConstantOfShape ""(t3)
      output t1
      output t2
      output t4
    }"#;
    let found = outputs(source);
    assert_eq!(found[..2], ["i64[2, 6] bound", "i64[6, 2] bound"]);
    // nothing of it may be taken for exact
    assert!(found[2].starts_with("f32[?"), "{found:?}");
}

#[test]
fn bounds_that_do_not_fit_may_fit_at_run_time() {
    let source = r#"graph "g" {
      input t0 "x": f32[6]
      input t1 "y": i64[1, 4]
      t2 "where": untyped = NonZero ""(t0)
      t3 "sum": untyped = Add ""(t2, t1)
      output t3
    }"#;
    assert_eq!(outputs(source).len(), 1);
    let exact = source.replace("NonZero", "Cast").replace("(t0)", "(t0) {to: 7}");
    let error = infer(&mut graph(&exact)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Inference);
    assert!(
        error.to_string().starts_with("node Add of \"sum\": Add: "),
        "{error}"
    );
}

#[test]
fn declared_sizes_fill_what_inference_cannot_tell() {
    let source = r#"graph "g" {
      input t0 "x": f32[2, 3]
      input t1 "shape": i64[2]
      t2 "y": f32[3, 2] = Reshape ""(t0, t1)
      t3 "z": f32[9, 9] = Neg ""(t2)
      t4 "w": f32[7] = custom "d" "Op" ""(t3)
      t5 "v": untyped = Neg ""(t4)
      output t2
      output t3
      output t5
    }"#;
    // what inference knows wins; a custom op is what it is declared as
    assert_eq!(outputs(source), ["f32[3, 2]", "f32[3, 2]", "f32[7]"]);
    let wrong = source.replace("\"z\": f32[9, 9]", "\"z\": i8[9, 9]");
    assert_eq!(
        infer(&mut graph(&wrong)).unwrap_err().to_string(),
        "node Neg of \"z\": output \"z\" is declared as i8, but is f32"
    );
}

/// Two branches that reshape in their own way.
fn choice(condition: &str) -> String {
    format!(
        r#"graph "g" {{
      {condition}
      input t1 "x": f32[2, 6]
      t2 "y": untyped = If ""(t0)
        body then_branch(t1 -> t0) "t" {{
          input t0 "a": untyped
          const t1 "s": i64[2] = [2, 6]
          t2 "b": untyped = Reshape ""(t0, t1)
          output t2
        }}
        body else_branch(t1 -> t0) "e" {{
          input t0 "a": untyped
          const t1 "s": i64[2] = [2, 5]
          t2 "b": untyped = Reshape ""(t0, t1)
          output t2
        }}
      output t2
    }}"#
    )
}

#[test]
fn a_branch_that_cannot_run_is_no_error_where_another_can() {
    let open = choice("input t0 \"c\": bool[]");
    assert_eq!(outputs(&open), ["f32[2, 6]"]);
    let other = open.replace("[2, 5]", "[3, 4]");
    assert_eq!(outputs(&other), ["f32[?, ?]"]);
    // a known condition chooses
    let known = choice("const t0 \"c\": bool[] = [1]").replace("[2, 5]", "[3, 4]");
    assert_eq!(outputs(&known), ["f32[2, 6]"]);
    let wrong = choice("const t0 \"c\": bool[] = [0]");
    let error = infer(&mut graph(&wrong)).unwrap_err();
    assert!(
        error.to_string().starts_with("node Reshape of \"b\": "),
        "{error}"
    );
}

#[test]
fn pieces_and_concatenations_know_what_the_split_leaves() {
    let source = r#"graph "g" {
      input t0 "x": f32[6, n]
      input t1 "i": i64[]
      input t2 "sizes": i64[k]
      const t3 "two": i64[] = [2]
      const t4 "four": i64[] = [4]
      const t5 "thirds": i64[3] = [2, 2, 2]
      t6 "ones": untyped = SplitToSequence ""(t0) {axis: 0, keepdims: 0}
      t7 "a": untyped = SequenceAt ""(t6, t1)
      t8 "twos": untyped = SplitToSequence ""(t0, t3) {axis: 0}
      t9 "b": untyped = SequenceAt ""(t8, t1)
      t10 "fours": untyped = SplitToSequence ""(t0, t4) {axis: 0}
      t11 "c": untyped = SequenceAt ""(t10, t1)
      t12 "equal": untyped = SplitToSequence ""(t0, t5) {axis: -2}
      t13 "d": untyped = SequenceAt ""(t12, t1)
      t14 "any": untyped = SplitToSequence ""(t0, t2) {axis: 1}
      t15 "e": untyped = SequenceAt ""(t14, t1)
      t16 "f": untyped = ConcatFromSequence ""(t14) {axis: 1}
      t17 "g": untyped = ConcatFromSequence ""(t8) {axis: 0, new_axis: 1}
      output t7
      output t9
      output t11
      output t13
      output t15
      output t16
      output t17
    }"#;
    let found = [
        "f32[n]",
        "f32[2, n]",
        "f32[?, n]",
        "f32[2, n]",
        "f32[6, ?]",
        "f32[6, ?]",
        "f32[?, 2, n]",
    ];
    assert_eq!(outputs(source), found);
}

#[test]
fn sequences_know_their_elements() {
    let source = r#"graph "g" {
      input t0 "x": f32[2, 3]
      input t1 "i": i64[]
      t2 "s": untyped = SequenceConstruct ""(t0, t0)
      t3 "y": untyped = SequenceAt ""(t2, t1)
      t4 "n": untyped = SequenceLength ""(t2)
      t5 "o": untyped = Optional ""(t2)
      t6 "back": untyped = OptionalGetElement ""(t5)
      output t3
      output t4
      output t6
    }"#;
    assert_eq!(outputs(source), ["f32[2, 3]", "i64[]", "f32[2, 3]"]);
    let mut parsed = graph(source);
    infer(&mut parsed).unwrap();
    let containers: Vec<&str> = parsed
        .tensors()
        .map(|(_, tensor)| tensor.container.name())
        .collect();
    assert_eq!(
        containers,
        [
            "tensor",
            "tensor",
            "sequence",
            "tensor",
            "tensor",
            "optional_sequence",
            "sequence"
        ]
    );
}
