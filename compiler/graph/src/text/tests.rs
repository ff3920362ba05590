//! The text form round-trips on graphs that use every part of it, and bad text names its line.

use proptest::prelude::*;

use super::parse::parse_within;
use super::{parse, print, print_full};
use crate::arbitrary::Gene;
use crate::{ErrorKind, verify};

const EVERYTHING: &str = r#"graph "all \"parts\"" {
  input t0 "x": f32[n, 4]
  input t1 "cond": bool[]
  input t2 "past": f16["odd name", ?] bound
  const t3 "w": f32[4] = [1.0, -0.5, 1e-7, inf]
  const t4 "words": string[2] = ["a", "b\n"]
  t5 "a": f32[n, 4], _, t6 "s": sequence f32[..] = custom "my.domain" "Op" "first"(t0, _, t3, t4) {alpha: 0.5, axis: -1, mode: "x", pads: ints [1, 2], value: i64[2] = [3, 4], empty: ints [], "odd key": strings ["p", "q"], scale: floats [NaN, bits 0x7fc00001]}
  t7 "y": f32[n, 4] = If "choose"(t1)
    body then_branch(t5 -> t0) graph "then" {
      input t0 "a": f32[n, 4]
      output t0
    }
    body else_branch(t5 -> t0) graph "else" {
      input t0 "a": f32[n, 4]
      t1 "b": f32[n, 4] = Neg ""(t0)
      output t1
    }
  t8 "z": untyped = Gelu "gelu"(t7)
    decomposition graph "d" {
      input t0 "p": f32[n, 4]
      t1 "q": f32[n, 4] = Relu ""(t0)
      output t1
    }
  const t9 "big": i8[100] encoded f32 per axis 0 [0.5] [] = seed 0x0000002a
  t10 "q": u8[4] encoded f32 per block 0 2 [0.5, 0.25] [1, 2] = Abs ""(t9)
  const t11 "blocks": u8[1, 32] encoded f32 per blocks q4_0 [] [] = hex "000102030405060708090a0b0c0d0e0f1011"
  output t8
  output t10
  output t2
  state t2 -> t2
  group elementwise [n1, n2]
}
"#;

#[test]
fn every_part_round_trips() {
    let text = EVERYTHING
        .replace(" graph \"then\"", " \"then\"")
        .replace(" graph \"else\"", " \"else\"");
    let text = text.replace("decomposition graph ", "decomposition ");
    let graph = parse(&text).unwrap();
    let printed = print(&graph);
    // attributes print in their own order
    assert_eq!(print(&parse(&printed).unwrap()), printed);
    let lines = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("custom"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&printed), lines(&text));
    let full = print_full(&graph);
    assert_eq!(print_full(&parse(&full).unwrap()), full);
    assert!(full.contains("hex \"2a000000"));
    // sequences and custom ops verify; the encoding of `big` has one scale for an axis of 100
    let error = verify(&graph).unwrap_err();
    assert_eq!(
        error.to_string(),
        "encoding of tensor \"big\" needs 100 scales, but has 1"
    );
}

#[test]
fn large_constants_become_seeds_and_stay_so() {
    let text = "graph \"g\" {\n  const t0 \"w\": f32[64] = seed 0x00000007\n  output t0\n}\n";
    let graph = parse(text).unwrap();
    assert_eq!(print(&graph), text);
    let mut other = graph.clone();
    let id = other.outputs[0];
    other.tensor_mut(id).data = Some(crate::Constant::new(vec![1; 256]));
    let once = print(&other);
    assert_ne!(once, text);
    assert_eq!(print(&parse(&once).unwrap()), once);
}

#[test]
fn bad_text_names_its_line() {
    let deep = format!(
        "graph \"g\" {{\n{}",
        "= Neg \"\"() decomposition \"d\" {\n".repeat(40)
    );
    for (text, message) in [
        ("", "line 1: expected `graph`, not the end"),
        (
            "graph \"g\" {\n  input t0 \"x\": f33[]\n}",
            "line 2: there is no element type `f33`",
        ),
        (
            "graph \"g\" {\n  output t0\n}",
            "line 2: tensor `t0` is not declared before",
        ),
        (
            "graph \"g\" {\n  input x \"x\": f32[]\n}",
            "line 2: expected a tensor as t0, not `x`",
        ),
        (
            "graph \"g\" {\n  = Nope \"\"()\n}",
            "line 2: there is no op `Nope`",
        ),
        (
            "graph \"g\" {\n  const t0 \"w\": f32[2] = [1.0]\n}",
            "line 2: 4 bytes do not fit the type f32[2]",
        ),
        (
            "graph \"g\" {\n  const t0 \"w\": i8[1] = [300]\n}",
            "line 2: a number does not fit i8",
        ),
        (
            "graph \"g\" {\n  const t0 \"w\": f32[99999999999] = seed 0x00000001\n}",
            "line 2: a constant of type f32[99999999999] cannot be drawn from a seed",
        ),
        (
            "graph \"g\" {\n  group conv [n0]\n}",
            "line 2: there is no node `n0` before the group",
        ),
        ("graph \"g\" { } x", "line 1: expected the end, not `x`"),
        (&deep, "line 33: graphs are nested more than 32 deep"),
        (
            "graph \"g\" {\n  input t0 \"x\": f32[]\n  input t0 \"x\": f32[]\n}",
            "line 3: tensor `t0` is declared twice",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Text);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn constants_of_one_text_are_drawn_within_one_limit() {
    let constants = |count: usize| {
        let lines: String = (0..count)
            .map(|number| format!("  const t{number} \"w\": u8[40] = seed 0x1\n"))
            .collect();
        format!("graph \"g\" {{\n{lines}}}\n")
    };
    assert!(parse_within(&constants(3), 120).is_ok());
    let error = parse_within(&constants(4), 120).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 5: a constant of type u8[40] cannot be drawn from a seed"
    );
}

proptest! {
    #[test]
    fn damaged_text_is_an_error_or_a_graph(
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\n]{0,3}"), 1..5),
    ) {
        let mut text: Vec<char> = print(&crate::arbitrary::build(2, &GENES, true)).chars().collect();
        for (place, with) in damage {
            let place = place.index(text.len());
            text.splice(place..=place, with.chars());
            prop_assume!(!text.is_empty());
        }
        let text: String = text.into_iter().collect();
        if let Ok(graph) = parse(&text) {
            let printed = print(&graph);
            if verify(&graph).is_ok() {
                prop_assert_eq!(print(&parse(&printed).unwrap()), printed);
            }
        }
    }
}

/// One node of every kind.
const GENES: [Gene; 12] = {
    let mut genes = [Gene {
        op: 0,
        reads: [1, 2],
        extra: 3,
    }; 12];
    let mut index = 0;
    while index < 12 {
        genes[index].op = index as u8;
        index += 1;
    }
    genes
};
