//! Patterns that quantisation tools write, in the text form: each node inside sees integers with encodings
//! afterwards, and the graph computes the same.

use insta::assert_snapshot;

use super::{Options, canonical, execute, nodes_of, proven};
use crate::{Graph, infer, text};

/// Grids that the patterns below use: a scale and a zero point each.
const GRIDS: &str = r#"
  const t900 "s": f32[] = [0.02]
  const t901 "u8": u8[] = [100]
  const t902 "u16": u16[] = [32768]
  const t903 "i16": i16[] = [0]
  const t904 "i8": i8[] = [0]
  const t905 "fine": f32[] = [0.0001]
  const t906 "six": f32[] = [0.023529412]
  const t907 "low": u8[] = [0]
  const t908 "s4": f32[4] = [0.01, 0.012, 0.014, 0.016]
  const t909 "b4": f32[4] = [0.0002, 0.00024, 0.00028, 0.00032]
"#;

/// A graph from its lines; types of what nodes make are inferred.
fn graph(lines: &str) -> Graph {
    let mut graph = text::parse(&format!("graph \"g\" {{{GRIDS}{lines}\n}}\n")).unwrap();
    infer(&mut graph).unwrap();
    graph.sort().unwrap();
    graph
}

fn folded(lines: &str) -> String {
    let (after, _) = proven(&graph(lines), &Options::default());
    nodes_of(&after)
}

#[test]
fn sixteen_bit_activations_with_weights_per_channel_and_wide_biases() {
    let convolution = |stored: &str| {
        format!(
            r#"
  input t0 "x": f32[1, 3, 5, 5]
  const t1 "w": i8[4, 3, 3, 3] = seed 0x01
  const t2 "b": i32[4] = [7, -7, 100, 3]
  t3 "xq": untyped = QuantizeLinear ""(t0, t905, {stored})
  t4 "xr": untyped = DequantizeLinear ""(t3, t905, {stored})
  t5 "wr": untyped = DequantizeLinear ""(t1, t908) {{axis: 0}}
  t6 "br": untyped = DequantizeLinear ""(t2, t909) {{axis: 0}}
  t7 "y": untyped = Conv ""(t4, t5, t6)
  t8 "yq": untyped = QuantizeLinear ""(t7, t900, {stored})
  t9 "yr": untyped = DequantizeLinear ""(t8, t900, {stored})
  output t9"#
        )
    };
    let unsigned = folded(&convolution("t902"));
    assert_snapshot!(unsigned, @r"
    ~xq = QuantizeLinear(x, fine, u16)
    ~yq = Conv(~xq, ~w, ~b)
    yr = DequantizeLinear(~yq, s, u16)
    ");
    assert_snapshot!(folded(&convolution("t903")), @r"
    ~xq = QuantizeLinear(x, fine, i16)
    ~yq = Conv(~xq, ~w, ~b)
    yr = DequantizeLinear(~yq, s, i16)
    ");
}

#[test]
fn moves_between_computing_nodes_are_on_integers() {
    let all = folded(
        r#"
  input t0 "x": f32[1, 4, 8, 8]
  const t1 "w": i8[4, 4, 1, 1] = seed 0x02
  const t2 "shape": i64[3] = [1, 4, 4]
  const t3 "halves": i64[2] = [2, 2]
  const t4 "rows": i64[2] = [0, 2]
  t10 "wr": untyped = DequantizeLinear ""(t1, t900, t904)
  t11 "xq": untyped = QuantizeLinear ""(t0, t900, t901)
  t12 "xr": untyped = DequantizeLinear ""(t11, t900, t901)
  t13 "pool": untyped = MaxPool ""(t12) {kernel_shape: ints [2, 2], strides: ints [4, 4]}
  t14 "y": untyped = Conv ""(t13, t10)
  t15 "flat": untyped = Reshape ""(t14, t2)
  t16 "turned": untyped = Transpose ""(t15) {perm: ints [0, 2, 1]}
  t17 "yq": untyped = QuantizeLinear ""(t16, t900, t901)
  t18 "yr": untyped = DequantizeLinear ""(t17, t900, t901)
  t19 "left": untyped, t20 "right": untyped = Split ""(t18, t3) {axis: 1}
  t21 "joined": untyped = Concat ""(t20, t19) {axis: 2}
  t22 "picked": untyped = Gather ""(t21, t4) {axis: 2}
  t23 "z": untyped = Sigmoid ""(t22)
  t24 "zq": untyped = QuantizeLinear ""(t23, t900, t901)
  output t24"#,
    );
    assert_snapshot!(all, @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~pool.stored = MaxPool(~xq) kernel_shape=Ints([2, 2]) strides=Ints([4, 4])
    ~y.rounded.stored = Conv(~pool.stored, ~w)
    ~flat.rounded.stored = Reshape(~y.rounded.stored, shape)
    ~yq = Transpose(~flat.rounded.stored) perm=Ints([0, 2, 1])
    ~left.stored, ~right.stored = Split(~yq, halves) axis=Int(1)
    ~joined.stored = Concat(~right.stored, ~left.stored) axis=Int(2)
    ~picked.stored = Gather(~joined.stored, rows) axis=Int(2)
    ~zq = Sigmoid(~picked.stored)
    ");
}

#[test]
fn another_grid_is_an_identity_between_encodings() {
    let all = folded(
        r#"
  input t0 "x": f32[2, 4]
  t1 "a": untyped = QuantizeLinear ""(t0, t900, t901)
  t2 "ar": untyped = DequantizeLinear ""(t1, t900, t901)
  t3 "n": untyped = Neg ""(t2)
  t4 "b": untyped = QuantizeLinear ""(t3, t900, t901)
  t5 "br": untyped = DequantizeLinear ""(t4, t900, t901)
  t6 "c": untyped = QuantizeLinear ""(t5, t905, t902)
  t7 "cr": untyped = DequantizeLinear ""(t6, t905, t902)
  t8 "m": untyped = Mul ""(t7, t5)
  t9 "d": untyped = QuantizeLinear ""(t8, t905, t902)
  t10 "dr": untyped = DequantizeLinear ""(t9, t905, t902)
  output t10"#,
    );
    assert_snapshot!(all, @r"
    ~a = QuantizeLinear(x, s, u8)
    ~b = Neg(~a)
    ~c = Identity(~b)
    ~d = Mul(~c, ~b)
    dr = DequantizeLinear(~d, fine, u16)
    ");
}

#[test]
fn activations_are_the_clamp_of_the_encoding_where_they_can() {
    let limited = |op: &str, scale: &str, zero: &str| {
        folded(&format!(
            r#"
  input t0 "x": f32[1, 3, 5, 5]
  const t1 "w": i8[4, 3, 3, 3] = seed 0x01
  const t2 "zero": f32[] = [0.0]
  const t3 "top": f32[] = [6.0]
  t4 "xq": untyped = QuantizeLinear ""(t0, t900, t901)
  t5 "xr": untyped = DequantizeLinear ""(t4, t900, t901)
  t6 "wr": untyped = DequantizeLinear ""(t1, t908) {{axis: 0}}
  t7 "y": untyped = Conv ""(t5, t6)
  t8 "r": untyped = {op}
  t9 "rq": untyped = QuantizeLinear ""(t8, {scale}, {zero})
  output t9"#
        ))
    };
    assert_snapshot!(limited("Relu \"\"(t7)", "t900", "t907"), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~rq = Conv(~xq, ~w)
    ");
    assert_snapshot!(limited("Clip \"\"(t7, t2, t3)", "t906", "t907"), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~rq = Conv(~xq, ~w)
    ");
    // more than the limits: the op stays, on the grid of its result
    assert_snapshot!(limited("Clip \"\"(t7, t2, t3)", "t900", "t901"), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~y = Conv(~xq, ~w)
    ~rq = Clip(~y, zero, top)
    ");
    assert_snapshot!(limited("Relu \"\"(t7)", "t900", "t904"), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~y = Conv(~xq, ~w)
    ~rq = Relu(~y)
    ");
}

#[test]
fn one_tensor_for_many_readers() {
    let all = folded(
        r#"
  input t0 "x": f32[2, 4]
  t1 "q1": untyped = QuantizeLinear ""(t0, t900, t901)
  t2 "q2": untyped = QuantizeLinear ""(t0, t900, t901)
  t3 "r1": untyped = DequantizeLinear ""(t1, t900, t901)
  t4 "r2": untyped = DequantizeLinear ""(t2, t900, t901)
  t5 "r3": untyped = DequantizeLinear ""(t1, t900, t901)
  t6 "a": untyped = Tanh ""(t3)
  t7 "b": untyped = Neg ""(t4)
  t8 "aq": untyped = QuantizeLinear ""(t6, t900, t901)
  t9 "bq": untyped = QuantizeLinear ""(t7, t900, t901)
  t10 "ar": untyped = DequantizeLinear ""(t8, t900, t901)
  t11 "br": untyped = DequantizeLinear ""(t9, t900, t901)
  t12 "sum": untyped = Add ""(t10, t11)
  t13 "sq": untyped = QuantizeLinear ""(t12, t900, t901)
  t14 "sr": untyped = DequantizeLinear ""(t13, t900, t901)
  t15 "all": untyped = Add ""(t14, t5)
  t16 "allq": untyped = QuantizeLinear ""(t15, t900, t901)
  output t16"#,
    );
    assert_snapshot!(all, @r"
    ~q1 = QuantizeLinear(x, s, u8)
    ~aq = Tanh(~q1)
    ~bq = Neg(~q1)
    ~sq = Add(~aq, ~bq)
    ~allq = Add(~sq, ~q1)
    ");
}

#[test]
fn products_of_two_activations_and_softmax() {
    let all = folded(
        r#"
  input t0 "q": f32[1, 2, 3, 4]
  input t1 "k": f32[1, 2, 3, 4]
  const t2 "half": u16[] = [65535]
  const t3 "halfscale": f32[] = [7.6295109e-06]
  t4 "qq": untyped = QuantizeLinear ""(t0, t905, t902)
  t5 "kq": untyped = QuantizeLinear ""(t1, t905, t902)
  t6 "qr": untyped = DequantizeLinear ""(t4, t905, t902)
  t7 "kr": untyped = DequantizeLinear ""(t5, t905, t902)
  t8 "kt": untyped = Transpose ""(t7) {perm: ints [0, 1, 3, 2]}
  t9 "dot": untyped = MatMul ""(t6, t8)
  t10 "dotq": untyped = QuantizeLinear ""(t9, t905, t902)
  t11 "dotr": untyped = DequantizeLinear ""(t10, t905, t902)
  t12 "hr": untyped = DequantizeLinear ""(t2, t3)
  t13 "scaled": untyped = Mul ""(t11, t12)
  t14 "scaledq": untyped = QuantizeLinear ""(t13, t905, t902)
  t15 "scaledr": untyped = DequantizeLinear ""(t14, t905, t902)
  t16 "soft": untyped = Softmax ""(t15)
  t17 "softq": untyped = QuantizeLinear ""(t16, t905, t902)
  t18 "softr": untyped = DequantizeLinear ""(t17, t905, t902)
  t19 "out": untyped = MatMul ""(t18, t7)
  t20 "outq": untyped = QuantizeLinear ""(t19, t905, t902)
  output t20"#,
    );
    assert_snapshot!(all, @r"
    ~qq = QuantizeLinear(q, fine, u16)
    ~kq = QuantizeLinear(k, fine, u16)
    ~kt.stored = Transpose(~kq) perm=Ints([0, 1, 3, 2])
    ~dotq = MatMul(~qq, ~kt.stored)
    ~scaledq = Mul(~dotq, ~half)
    ~softq = Softmax(~scaledq)
    ~outq = MatMul(~softq, ~kq)
    ");
}

#[test]
fn classifiers_and_normalisations_with_quantised_parameters() {
    let all = folded(
        r#"
  input t0 "x": f32[2, 4]
  const t1 "gain": i8[4] = [100, 90, 80, -70]
  const t2 "shift": i32[4] = [10, 20, -30, 40]
  const t3 "w": i8[3, 4] = seed 0x03
  const t4 "b": i32[3] = [1000, -1000, 0]
  const t5 "bs": f32[] = [0.0004]
  t6 "xq": untyped = QuantizeLinear ""(t0, t905, t902)
  t7 "xr": untyped = DequantizeLinear ""(t6, t905, t902)
  t8 "gr": untyped = DequantizeLinear ""(t1, t900, t904)
  t9 "sr": untyped = DequantizeLinear ""(t2, t905)
  t10 "n": untyped = LayerNormalization ""(t7, t8, t9)
  t11 "nq": untyped = QuantizeLinear ""(t10, t905, t902)
  t12 "nr": untyped = DequantizeLinear ""(t11, t905, t902)
  t13 "wr": untyped = DequantizeLinear ""(t3, t900, t904)
  t14 "br": untyped = DequantizeLinear ""(t4, t5)
  t15 "y": untyped = Gemm ""(t12, t13, t14) {transB: 1}
  t16 "yq": untyped = QuantizeLinear ""(t15, t905, t902)
  t17 "yr": untyped = DequantizeLinear ""(t16, t905, t902)
  output t17"#,
    );
    assert_snapshot!(all, @r"
    ~xq = QuantizeLinear(x, fine, u16)
    ~nq = LayerNormalization(~xq, ~gain, ~shift)
    ~yq = Gemm(~nq, ~w, ~b) transB=Int(1)
    yr = DequantizeLinear(~yq, fine, u16)
    ");
}

#[test]
fn four_bit_weights_are_turned_with_their_scales() {
    let all = folded(
        r#"
  input t0 "x": f32[2, 3]
  const t1 "w": i4[4, 3] = hex "8107d36529f2"
  t2 "wr": untyped = DequantizeLinear ""(t1, t908) {axis: 0}
  t3 "wt": untyped = Transpose ""(t2) {perm: ints [1, 0]}
  t4 "y": untyped = MatMul ""(t0, t3)
  output t4"#,
    );
    assert_snapshot!(all, @"y = MatMul(x, ~wt.stored)");
}

/// The largest difference between the outputs before and after, on the scale of outputs near 1.
fn apart(graph: &Graph, after: &Graph) -> f64 {
    let inputs = execute::inputs(graph, 5);
    let outputs = |graph: &Graph, apart: bool| -> Vec<f64> {
        execute::run(graph, &inputs, apart)
            .iter()
            .flat_map(|output| output.to_f64s().unwrap())
            .collect()
    };
    let want = outputs(graph, false);
    let mut most = 0.0f64;
    for decomposed in [false, true] {
        for (have, want) in outputs(after, decomposed).iter().zip(&want) {
            most = most.max((have - want).abs());
        }
    }
    most
}

#[test]
fn a_gelu_of_rounded_steps_is_a_gelu() {
    // the pairs of 8 bits around every step: √2 and the other constants quantised, too
    let lines = r#"
  input t0 "x": f32[2, 8]
  const t1 "root": u8[] = [255]
  const t2 "rootscale": f32[] = [0.0055459353]
  const t3 "one": u8[] = [255]
  const t4 "onescale": f32[] = [0.003921569]
  const t5 "half": u8[] = [255]
  const t6 "halfscale": f32[] = [0.0019607844]
  const t7 "unit": f32[] = [0.0078431377]
  const t8 "mid": u8[] = [128]
  t10 "xq": untyped = QuantizeLinear ""(t0, t900, t901)
  t11 "xr": untyped = DequantizeLinear ""(t10, t900, t901)
  t12 "rr": untyped = DequantizeLinear ""(t1, t2)
  t13 "d": untyped = Div ""(t11, t12)
  t14 "dq": untyped = QuantizeLinear ""(t13, t900, t901)
  t15 "dr": untyped = DequantizeLinear ""(t14, t900, t901)
  t16 "e": untyped = Erf ""(t15)
  t17 "eq": untyped = QuantizeLinear ""(t16, t7, t8)
  t18 "er": untyped = DequantizeLinear ""(t17, t7, t8)
  t19 "or": untyped = DequantizeLinear ""(t3, t4)
  t20 "p": untyped = Add ""(t18, t19)
  t21 "pq": untyped = QuantizeLinear ""(t20, t7, t907)
  t22 "pr": untyped = DequantizeLinear ""(t21, t7, t907)
  t23 "m": untyped = Mul ""(t11, t22)
  t24 "mq": untyped = QuantizeLinear ""(t23, t900, t901)
  t25 "mr": untyped = DequantizeLinear ""(t24, t900, t901)
  t26 "hr": untyped = DequantizeLinear ""(t5, t6)
  t27 "g": untyped = Mul ""(t25, t26)
  t28 "gq": untyped = QuantizeLinear ""(t27, t900, t901)
  t29 "gr": untyped = DequantizeLinear ""(t28, t900, t901)
  output t29"#;
    let graph = graph(lines);
    let (after, report) = canonical(&graph, &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~gq = Gelu(~xq) of 5
    gr = DequantizeLinear(~gq, s, u8)
    ");
    assert_eq!(report.changes("recompose rounded"), 1);
    let apart = apart(&graph, &after);
    assert!(apart <= 0.0401, "{apart}: more than two steps of 0.02");
    // without recomposition the steps stay, each on integers
    let options = Options {
        recompose: false,
        ..Options::default()
    };
    let (after, _) = proven(&graph, &options);
    assert_snapshot!(nodes_of(&after), @r"
    ~xq = QuantizeLinear(x, s, u8)
    ~dq = Div(~xq, ~root)
    ~eq = Erf(~dq)
    ~pq = Add(~eq, ~root)
    ~mq = Mul(~xq, ~pq)
    ~gq = Mul(~mq, ~root)
    gr = DequantizeLinear(~gq, s, u8)
    ");
}

#[test]
fn a_normalisation_of_rounded_steps_is_a_normalisation() {
    let lines = r#"
  input t0 "x": f32[3, 4]
  const t1 "axes": i64[1] = [-1]
  const t2 "two": f32[] = [2.0]
  const t3 "eps": f32[] = [1e-05]
  const t4 "gain": u8[4] = [200, 150, 100, 50]
  const t5 "shift": f32[4] = [0.1, 0.2, -0.3, 0.4]
  t10 "xq": untyped = QuantizeLinear ""(t0, t905, t902)
  t11 "xr": untyped = DequantizeLinear ""(t10, t905, t902)
  t12 "m": untyped = ReduceMean ""(t11, t1)
  t13 "mq": untyped = QuantizeLinear ""(t12, t905, t902)
  t14 "mr": untyped = DequantizeLinear ""(t13, t905, t902)
  t15 "c": untyped = Sub ""(t11, t14)
  t16 "cq": untyped = QuantizeLinear ""(t15, t905, t902)
  t17 "cr": untyped = DequantizeLinear ""(t16, t905, t902)
  t18 "p": untyped = Pow ""(t17, t2)
  t19 "pq": untyped = QuantizeLinear ""(t18, t905, t902)
  t20 "pr": untyped = DequantizeLinear ""(t19, t905, t902)
  t21 "v": untyped = ReduceMean ""(t20, t1)
  t22 "vq": untyped = QuantizeLinear ""(t21, t905, t902)
  t23 "vr": untyped = DequantizeLinear ""(t22, t905, t902)
  t24 "ve": untyped = Add ""(t23, t3)
  t25 "r": untyped = Sqrt ""(t24)
  t26 "rq": untyped = QuantizeLinear ""(t25, t905, t902)
  t27 "rr": untyped = DequantizeLinear ""(t26, t905, t902)
  t28 "n": untyped = Div ""(t17, t27)
  t29 "nq": untyped = QuantizeLinear ""(t28, t905, t902)
  t30 "nr": untyped = DequantizeLinear ""(t29, t905, t902)
  t31 "gr": untyped = DequantizeLinear ""(t4, t906, t907)
  t32 "g": untyped = Mul ""(t30, t31)
  t33 "gq": untyped = QuantizeLinear ""(t32, t900, t902)
  t34 "gqr": untyped = DequantizeLinear ""(t33, t900, t902)
  t35 "y": untyped = Add ""(t34, t5)
  t36 "yq": untyped = QuantizeLinear ""(t35, t900, t902)
  t37 "yr": untyped = DequantizeLinear ""(t36, t900, t902)
  output t37"#;
    let graph = graph(lines);
    let (after, report) = canonical(&graph, &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~xq = QuantizeLinear(x, fine, u16)
    ~yq = LayerNormalization(~xq, ~gain, shift) epsilon=Float(1e-5) of 9
    yr = DequantizeLinear(~yq, s, u16)
    ");
    assert_eq!(report.changes("recompose rounded"), 1);
    let apart = apart(&graph, &after);
    assert!(apart <= 0.0401, "{apart}: more than two steps of 0.02");
}
