//! Planted values: evidence excuses only its own element, and other wrong values are still reported.

use super::*;
use crate::known::{self, Facts, Side};
use crate::verdict::What;

fn one(values: &[f32]) -> Tensors {
    Tensors::from([("y".to_owned(), Literal::f32s(values))])
}

/// Products of factors, as `evidence.py` describes them.
fn products(factors: &[&[f64]]) -> Products {
    let size = |x: f64| {
        if x == 0.0 || !x.is_finite() {
            0.0
        } else {
            x.abs().log2()
        }
    };
    let sums = |of: fn(f64) -> f64| {
        let sum = |one: &&[f64]| one.iter().map(|&x| of(size(x))).sum();
        factors.iter().map(sum).collect()
    };
    let any = |of: fn(f64) -> bool| factors.iter().map(|one| one.iter().any(|&x| of(x))).collect();
    Products {
        over: sums(|x| x.max(0.0)),
        under: sums(|x| x.min(0.0)),
        zero: any(|x| x == 0.0),
        special: any(|x| !x.is_finite()),
        negative: factors
            .iter()
            .map(|one| one.iter().filter(|x| x.is_sign_negative()).count() % 2 == 1)
            .collect(),
    }
}

/// Why a lone node is known that differs so, and with whom the referee sides.
fn reason(op: &str, side: Side, found: Found) -> Option<String> {
    let facts = Facts {
        ops: &[op.to_owned()],
        what: What::Values,
        attributes: &std::collections::BTreeMap::new(),
        extreme: false,
        not_finite: false,
        words: "",
        side,
        found,
    };
    known::reason(&known::classes().unwrap(), &facts)
}

#[test]
fn overflowing_partial_sum_excuses_any_order() {
    let large = products(&[&[1e30, 1e30, 0.0], &[1e30, 1e30, 1e-30], &[2.0, -3.0]]);
    let theirs = one(&[f32::NAN, f32::INFINITY, -6.0]);
    for ours in [[0.0, 1e30, -6.0], [0.0, f32::INFINITY, -6.0]] {
        assert!(some_order(&one(&ours), &theirs, &large), "{ours:?}");
    }
    // the other way round: an order that overflows, and one that vanishes
    assert!(some_order(
        &one(&[f32::NAN, f32::INFINITY, -6.0]),
        &one(&[0.0, 1e30, -6.0]),
        &large
    ));
    let small = products(&[&[1e-30, 1e-30, 1e30]]);
    assert!(some_order(&one(&[0.0]), &one(&[1e-30]), &small));
}

#[test]
fn a_wrong_product_is_reported_beside_one_that_overflows() {
    let large = products(&[&[1e30, 1e30, 0.0], &[1e30, 1e30, 1e-30], &[2.0, -3.0]]);
    let theirs = one(&[f32::NAN, f32::INFINITY, -6.0]);
    let planted = [
        // no order of the factors makes these of the first two
        [1.0, 1e30, -6.0],
        [f32::INFINITY, 1e30, -6.0],
        [0.0, 1.01e30, -6.0],
        [0.0, -1e30, -6.0],
        [0.0, 0.0, -6.0],
        [0.0, f32::NAN, -6.0],
        // nothing leaves its type in the third
        [0.0, 1e30, 6.0],
        [0.0, 1e30, f32::NAN],
        [0.0, 1e30, f32::INFINITY],
        [0.0, 1e30, 0.0],
    ];
    for ours in planted {
        let found = Found {
            partial_products: some_order(&one(&ours), &theirs, &large),
            ..Found::default()
        };
        for side in [Side::Theirs, Side::Neither, Side::Silent] {
            assert_eq!(reason("ReduceProd", side, found), None, "{ours:?}");
        }
    }
    // of NaN and infinities, order changes nothing
    assert!(!some_order(
        &one(&[0.0]),
        &one(&[f32::NAN]),
        &products(&[&[f64::INFINITY, 0.0, 1e30]])
    ));
    let excused = Found {
        partial_products: true,
        ..Found::default()
    };
    assert!(reason("ReduceProd", Side::Theirs, excused).is_some());
}

#[test]
fn each_type_has_its_range() {
    let of =
        |dtype, bytes: &[u8]| Tensors::from([("y".to_owned(), Literal::new(dtype, vec![1], bytes).unwrap())]);
    let [zero, nan] = [0u16, 0x7e00].map(|bits| of(DType::F16, &bits.to_le_bytes()));
    // 2^16 is infinite in 16 bits, 2^15 is not
    assert!(some_order(&nan, &zero, &products(&[&[256.0, 256.0, 0.0]])));
    assert!(!some_order(&nan, &zero, &products(&[&[256.0, 128.0, 0.0]])));
    let [zero, nan] = [0.0, f64::NAN].map(|value| of(DType::F64, &value.to_le_bytes()));
    assert!(some_order(&nan, &zero, &products(&[&[1e300, 1e300, 0.0]])));
    assert!(!some_order(&nan, &zero, &products(&[&[1e30, 1e30, 0.0]])));
}

#[test]
fn only_rounding_differences_are_excused() {
    let theirs = one(&[10.0, 1.0]);
    let samples: Vec<Tensors> = [0.9, 0.95, 1.05, 1.1].iter().map(|&x| one(&[10.0, x])).collect();
    assert!(within_rounding(&one(&[10.0, 1.08]), &theirs, &samples));
    assert!(within_rounding(&one(&[10.0, 1.2]), &theirs, &samples));
    let planted = [
        [10.0, 1.4],
        [10.1, 1.0],
        [10.0, f32::NAN],
        [f32::INFINITY, 1.0],
        [10.0, -1.0],
    ];
    for ours in planted {
        let found = Found {
            rounding: within_rounding(&one(&ours), &theirs, &samples),
            ..Found::default()
        };
        for side in [Side::Theirs, Side::Neither, Side::Silent] {
            assert_eq!(reason("ReduceSum", side, found), None, "{ours:?}");
        }
    }
    // without samples there is no evidence, and none for other outputs
    assert!(!within_rounding(&theirs, &theirs, &[]));
    assert!(!within_rounding(&Tensors::new(), &theirs, &samples));
}

#[test]
fn sizes_integers_and_what_is_not_finite_must_be_in_a_sample() {
    let of = |values: &[i64]| Tensors::from([("y".to_owned(), Literal::i64s(values))]);
    let samples = [of(&[3, 7]), of(&[3, 9]), of(&[3])];
    assert!(within_rounding(&of(&[3, 8]), &of(&[3, 7]), &samples));
    assert!(within_rounding(&of(&[3]), &of(&[3, 7]), &samples));
    assert!(!within_rounding(&of(&[3, 10]), &of(&[3, 7]), &samples));
    assert!(!within_rounding(&of(&[4]), &of(&[3, 7]), &samples));
    assert!(!within_rounding(&of(&[3, 7, 7]), &of(&[3, 7]), &samples));
    let samples = [one(&[f32::INFINITY]), one(&[1e38]), one(&[f32::NAN])];
    for ours in [f32::INFINITY, f32::NAN, 1e38] {
        assert!(within_rounding(&one(&[ours]), &one(&[1e38]), &samples), "{ours}");
    }
    assert!(!within_rounding(
        &one(&[f32::NEG_INFINITY]),
        &one(&[1e38]),
        &samples
    ));
    assert!(!within_rounding(&one(&[f32::NAN]), &one(&[1e38]), &samples[..2]));
}

#[test]
fn recurrent_op_is_excused_only_if_its_equations_agree() {
    for op in ["GRU", "LSTM", "RNN"] {
        assert!(reason(op, Side::Ours, Found::default()).is_some(), "{op}");
        for side in [Side::Theirs, Side::Neither, Side::Silent] {
            assert_eq!(reason(op, side, Found::default()), None, "{op}");
        }
    }
}

#[test]
fn classes_of_single_nodes_say_nothing_of_several() {
    let ops = ["Abs", "LSTM"].map(str::to_owned);
    let classes = known::classes().unwrap();
    let none = std::collections::BTreeMap::new();
    let facts = |found| Facts {
        ops: &ops,
        what: What::Values,
        attributes: &none,
        extreme: true,
        not_finite: false,
        words: "",
        side: Side::Ours,
        found,
    };
    assert_eq!(known::reason(&classes, &facts(Found::default())), None);
    let rounding = Found {
        rounding: true,
        ..Found::default()
    };
    assert!(known::reason(&classes, &facts(rounding)).is_some());
}

#[test]
fn sizes_that_values_decide_must_be_those_of_our_own_nodes() {
    let of = |name: &str, values: &[i64]| Tensors::from([(name.to_owned(), Literal::i64s(values))]);
    let mut made = of("y", &[0, 4]);
    made.extend(of("between", &[7]));
    assert!(is_made(&of("y", &[0, 4]), &made));
    assert!(!is_made(&of("y", &[0, 4, 5]), &made));
    assert!(!is_made(&of("y", &[0, 5]), &made));
    assert!(!is_made(&of("z", &[0, 4]), &made));
}

#[test]
fn pads_are_otherwise_only_with_dilations_or_long_strides() {
    let of = |pad: &str, kernel: &str, strides: &str, dilations: &str| {
        let words = [
            ("auto_pad", pad),
            ("kernel_shape", kernel),
            ("strides", strides),
            ("dilations", dilations),
        ];
        let words = words.iter().filter(|(_, value)| !value.is_empty());
        pads_otherwise(
            &words
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    };
    assert!(of("SAME_UPPER", "[2, 3]", "[1, 1]", "[1, 2]"));
    assert!(of("SAME_LOWER", "[2, 1]", "[2, 3]", ""));
    assert!(!of("SAME_UPPER", "[2, 3]", "[2, 3]", "[1, 1]"));
    assert!(!of("SAME_LOWER", "[2]", "", ""));
    assert!(!of("NOTSET", "[2, 1]", "[2, 3]", "[2, 2]"));
    assert!(!of("", "[2, 1]", "[2, 3]", "[2, 2]"));
}

#[test]
fn a_window_of_nothing_excuses_itself_and_no_other() {
    let of = |values: &[f32], places: &[i64]| {
        let mut tensors = one(values);
        tensors.insert("z".to_owned(), Literal::i64s(places));
        tensors
    };
    let theirs = of(&[f32::MIN, 2.0], &[0, 7]);
    assert!(sees_nothing(&of(&[f32::NEG_INFINITY, 2.0], &[-1, 7]), &theirs));
    assert!(sees_nothing(
        &of(&[f32::NEG_INFINITY], &[0]),
        &of(&[f32::NEG_INFINITY], &[-5])
    ));
    assert!(!sees_nothing(&of(&[f32::NEG_INFINITY, 3.0], &[-1, 7]), &theirs));
    assert!(!sees_nothing(&of(&[f32::NEG_INFINITY, 2.0], &[-1, 8]), &theirs));
    assert!(!sees_nothing(
        &of(&[f32::MIN, f32::NEG_INFINITY], &[0, 7]),
        &theirs
    ));
    assert!(!sees_nothing(&of(&[f32::INFINITY, 2.0], &[0, 7]), &theirs));
    assert!(!sees_nothing(&theirs, &theirs));
}

#[test]
fn an_average_in_the_middle_excuses_its_two_neighbours() {
    let of = |values: &[i64]| Tensors::from([("y".to_owned(), Literal::i64s(values))]);
    let bytes: Vec<u8> = [-736.5f64, 3.2]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let averages = Tensors::from([("y".to_owned(), Literal::new(DType::F64, vec![2], bytes).unwrap())]);
    assert!(in_the_middle(&of(&[-736, 3]), &of(&[-737, 3]), &averages));
    assert!(!in_the_middle(&of(&[-735, 3]), &of(&[-736, 3]), &averages));
    assert!(!in_the_middle(&of(&[-735, 3]), &of(&[-737, 3]), &averages));
    assert!(!in_the_middle(&of(&[-736, 4]), &of(&[-737, 3]), &averages));
    assert!(!in_the_middle(&of(&[-736]), &of(&[-737]), &averages));
}

#[test]
fn codes_may_be_one_step_apart_and_no_further() {
    let codes = |values: &[u8]| {
        let literal = Literal::new(DType::U8, vec![values.len()], values.to_vec()).unwrap();
        Tensors::from([("y".to_owned(), literal)])
    };
    assert!(one_step(&codes(&[3, 255]), &codes(&[4, 254])));
    assert!(!one_step(&codes(&[3, 255]), &codes(&[5, 255])));
    assert!(!one_step(&codes(&[3, 255]), &codes(&[3])));
    // other integers are no codes
    let integers = |value| Tensors::from([("y".to_owned(), Literal::i64s(&[value]))]);
    assert!(!one_step(&integers(3), &integers(4)));
    let found = |one_step| Found {
        one_step,
        ..Found::default()
    };
    let op = "com.microsoft.QLinearAdd";
    assert!(reason(op, Side::Silent, found(true)).is_some());
    assert!(reason(op, Side::Silent, found(false)).is_none());
    assert!(reason("QLinearConv", Side::Silent, found(true)).is_none());
}
