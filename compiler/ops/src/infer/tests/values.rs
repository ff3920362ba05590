//! Shape arithmetic: what is known of values after ops on shapes.
//!
//! Invariant: symbols pass unchanged or become unknown.
//! Not here: sizes alone (`classes`).

use super::*;

#[test]
fn shapes_become_values_and_come_back() {
    gives(Op::Shape, &none(), &["f32[n, 3, 8]"], "i64[3] = {n, 3, 8}");
    let part = none().with_int(Attr::Start, -2).with_int(Attr::End, 9);
    gives(Op::Shape, &part, &["f32[n, 3, 8]"], "i64[2] = {3, 8}");
    gives(Op::Shape, &none(), &["f32[]"], "i64[0] = {}");
    gives(Op::Shape, &none(), &["f32[..]"], "i64[?]");
    gives(Op::Size, &none(), &["f32[2, 3]"], "i64[] = {6}");
    gives(Op::Size, &none(), &["f32[n, 1]"], "i64[] = {n}");
    gives(
        Op::Gather,
        &none(),
        &["i64[3] = {n, 3, 8}", "i64[] = {0}"],
        "i64[] = {n}",
    );
    gives(
        Op::Gather,
        &none(),
        &["i64[3] = {n, 3, 8}", "i64[2] = {-1, 1}"],
        "i64[2] = {8, 3}",
    );
    gives(
        Op::Unsqueeze,
        &none(),
        &["i64[] = {n}", "i64[1] = {0}"],
        "i64[1] = {n}",
    );
    gives(
        Op::Squeeze,
        &none(),
        &["i64[1] = {n}", "i64[1] = {0}"],
        "i64[] = {n}",
    );
    let inputs = ["i64[1] = {n}", "i64[1]", "i64[1] = {-1}"];
    gives(Op::Concat, &axis(0), &inputs, "i64[3] = {n, ?, -1}");
    gives(
        Op::Reshape,
        &none(),
        &["f32[n, 3, 8]", "i64[2] = {n, -1}"],
        "f32[n, 24]",
    );
    gives(
        Op::Expand,
        &none(),
        &["f32[1, 3]", "i64[2] = {n, 1}"],
        "f32[n, 3]",
    );
}

#[test]
fn slices_and_splits_of_shapes() {
    let slice = |from: &str, to: &str, expected: &str| {
        let (from, to) = (format!("i64[1] = {{{from}}}"), format!("i64[1] = {{{to}}}"));
        gives(
            Op::Slice,
            &none(),
            &["i64[4] = {n, 3, 8, 9}", &from, &to],
            expected,
        );
    };
    slice("0", "2", "i64[2] = {n, 3}");
    slice("-2", "9223372036854775807", "i64[2] = {8, 9}");
    slice("3", "1", "i64[0] = {}");
    let back = [
        "i64[3] = {1, 2, 3}",
        "i64[1] = {-1}",
        "i64[1] = {-9}",
        "i64[1] = {0}",
        "i64[1] = {-1}",
    ];
    gives(Op::Slice, &none(), &back, "i64[3] = {3, 2, 1}");
    let split = ["i64[3] = {n, 3, 8}", "i64[2] = {1, 2}"];
    gives(Op::Split, &none(), &split, "i64[1] = {n}; i64[2] = {3, 8}");
}

#[test]
fn arithmetic_keeps_what_it_can() {
    gives(
        Op::Mul,
        &none(),
        &["i64[2] = {n, 4}", "i64[] = {1}"],
        "i64[2] = {n, 4}",
    );
    gives(
        Op::Mul,
        &none(),
        &["i64[2] = {n, 4}", "i64[2] = {2, 2}"],
        "i64[2] = {?, 8}",
    );
    gives(Op::Div, &none(), &["i64[] = {9}", "i64[] = {2}"], "i64[] = {4}");
    gives(Op::Add, &none(), &["i64[1]", "i64[1] = {1}"], "i64[1]");
    gives(
        Op::Cast,
        &none().with_int(Attr::To, 6),
        &["i64[2] = {n, 4}"],
        "i32[2] = {n, 4}",
    );
    gives(
        Op::Cast,
        &none().with_int(Attr::To, 1),
        &["i64[2] = {n, 4}"],
        "f32[2]",
    );
    gives(
        Op::Equal,
        &none(),
        &["i64[2] = {n, -1}", "i64[] = {-1}"],
        "bool[2] = {0, 1}",
    );
    let choose = ["bool[2] = {0, 1}", "i64[2] = {1, 1}", "i64[2] = {n, -1}"];
    gives(Op::Where, &none(), &choose, "i64[2] = {n, 1}");
    let keep = none().with_int(Attr::Keepdims, 0);
    gives(Op::ReduceProd, &keep, &["i64[2] = {3, 4}"], "i64[] = {12}");
    gives(Op::Identity, &none(), &["i64[2] = {n, 4}"], "i64[2] = {n, 4}");
    gives(
        Op::Sub,
        &none(),
        &["f32[2] = {1, 2}", "f32[2] = {1, 2}"],
        "f32[2]",
    );
}

#[test]
fn casts_by_way_of_floats() {
    let to = |code| none().with_int(Attr::To, code);
    gives(Op::Cast, &to(7), &["f32[2] = {2.9, -2.9}"], "i64[2] = {2, -2}");
    gives(Op::Cast, &to(7), &["f32[1] = {NaN}"], "i64[1]");
    gives(Op::Cast, &to(2), &["i64[1] = {300}"], "u8[1]");
    gives(Op::Cast, &to(2), &["i64[2] = {n, 3}"], "u8[2] = {?, 3}");
    let outs = run(Op::Cast, &to(1), &["i64[2] = {3, 4}"], 1).unwrap();
    assert_eq!(outs[0].value.as_ref().unwrap().as_f64s(), Some(vec![3.0, 4.0]));
    let outs = run(Op::Cast, &to(1), &["i64[1] = {16777217}"], 1).unwrap();
    assert_eq!(outs[0].value, None);
}

#[test]
fn made_values() {
    let one = none().with(Attr::Value, crate::AttrValue::Tensor(Literal::i64s(&[1])));
    gives(Op::ConstantOfShape, &one, &["i64[1] = {3}"], "i64[3] = {1, 1, 1}");
    gives(Op::ConstantOfShape, &none(), &["i64[2] = {n, 0}"], "f32[n, 0]");
    gives(Op::ConstantOfShape, &none(), &["i64[0] = {}"], "f32[]");
    gives(
        Op::Range,
        &none(),
        &["i64[] = {5}", "i64[] = {0}", "i64[] = {-2}"],
        "i64[3] = {5, 3, 1}",
    );
    gives(
        Op::Range,
        &none(),
        &["i64[] = {0}", "i64[] = {n}", "i64[] = {1}"],
        "i64[n]",
    );
    gives(
        Op::Range,
        &none(),
        &["f32[] = {0}", "f32[] = {1}", "f32[] = {0.3}"],
        "f32[4]",
    );
    gives(
        Op::Constant,
        &none().with_ints(Attr::ValueInts, &[7, 8]),
        &[],
        "i64[2] = {7, 8}",
    );
    let text = none().with_str(Attr::ValueString, "word");
    gives(Op::Constant, &text, &[], "string[]");
}
