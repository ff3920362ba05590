//! What ops make of NaN, infinities and integers at the end of their range: cases that random graphs found
//! (`cargo xtask differ`).

use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_reference::{Tensor, element, evaluate};

const NAN: f64 = f64::NAN;

fn floats(values: &[f64]) -> Tensor {
    Tensor::from_f64s(element(DType::F32), vec![values.len()], values).unwrap()
}

fn i32s(values: &[i128]) -> Tensor {
    Tensor::from_i128s(element(DType::I32), vec![values.len()], values).unwrap()
}

fn of(op: Op, attributes: Attributes, inputs: &[&Tensor]) -> Vec<f64> {
    let inputs: Vec<_> = inputs.iter().map(|&tensor| Some(tensor)).collect();
    evaluate(op, &attributes, &inputs, 1).unwrap()[0]
        .to_f64s()
        .unwrap()
}

fn same(found: &[f64], wanted: &[f64]) {
    let equal = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(
        found.len() == wanted.len() && found.iter().zip(wanted).all(equal),
        "{found:?} instead of {wanted:?}"
    );
}

#[test]
fn nan_is_above_no_threshold_and_larger_than_nothing() {
    let x = floats(&[NAN, 2.0, 0.5]);
    same(
        &of(Op::ThresholdedRelu, Attributes::new(), &[&x]),
        &[0.0, 2.0, 0.0],
    );
    let image = floats(&[1.0, NAN, 3.0, NAN, 2.0, 5.0])
        .reshaped(vec![1, 1, 6])
        .unwrap();
    let window = Attributes::new()
        .with_ints(Attr::KernelShape, &[3])
        .with_ints(Attr::Strides, &[3]);
    same(&of(Op::MaxPool, window, &[&image]), &[3.0, NAN]);
}

#[test]
fn nan_goes_through_celu_and_comes_of_padding_by_a_weight_that_is_nan() {
    let x = floats(&[NAN, 2.0, f64::NEG_INFINITY]);
    same(&of(Op::Celu, Attributes::new(), &[&x]), &[NAN, 2.0, -1.0]);
    let row = floats(&[1.0, 2.0]).reshaped(vec![1, 1, 2]).unwrap();
    let weight = floats(&[NAN, 3.0]).reshaped(vec![1, 1, 2]).unwrap();
    let padded = Attributes::new().with_ints(Attr::Pads, &[1, 0]);
    same(&of(Op::Conv, padded, &[&row, &weight]), &[NAN, NAN]);
    let infinite = floats(&[f64::INFINITY, 3.0]).reshaped(vec![1, 1, 2]).unwrap();
    let padded = Attributes::new().with_ints(Attr::Pads, &[1, 0]);
    same(&of(Op::Conv, padded, &[&row, &infinite]), &[NAN, f64::INFINITY]);
}

#[test]
fn nan_goes_through_sums_of_exponentials_and_is_the_extreme_that_is_sought() {
    let axis = Attributes::new().with_int(Attr::Axis, 0);
    let x = floats(&[NAN, f64::INFINITY, 0.0]);
    same(&of(Op::ReduceLogSumExp, Attributes::new(), &[&x]), &[NAN]);
    let x = floats(&[9.0, NAN, 0.0, NAN]);
    same(&of(Op::ArgMax, axis.clone(), &[&x]), &[1.0]);
    same(&of(Op::ArgMin, axis.clone(), &[&x]), &[1.0]);
    same(
        &of(Op::ArgMax, axis.with_int(Attr::SelectLastIndex, 1), &[&x]),
        &[3.0],
    );
}

#[test]
fn limits_that_are_left_out_are_finite() {
    let x = floats(&[f64::NEG_INFINITY, 1.0, f64::INFINITY, NAN]);
    let largest = f64::from(f32::MAX);
    same(
        &of(Op::Clip, Attributes::new(), &[&x]),
        &[-largest, 1.0, largest, NAN],
    );
    let x = i32s(&[i128::from(i32::MIN), 7]);
    same(
        &of(Op::Clip, Attributes::new(), &[&x]),
        &[f64::from(i32::MIN), 7.0],
    );
}

#[test]
fn nothing_comes_of_c_where_beta_is_zero() {
    let one = floats(&[2.0]).reshaped(vec![1, 1]).unwrap();
    let c = floats(&[NAN]).reshaped(vec![1, 1]).unwrap();
    let none = Attributes::new().with_float(Attr::Beta, 0.0);
    same(&of(Op::Gemm, none, &[&one, &one, &c]), &[4.0]);
}

#[test]
fn integers_wrap_and_what_is_no_integer_is_the_least() {
    let x = i32s(&[-780, 5]);
    let slope = i32s(&[i128::from(i32::MAX), 3]);
    same(&of(Op::PRelu, Attributes::new(), &[&x, &slope]), &[780.0, 5.0]);
    let least = f64::from(i32::MIN);
    // a root of a negative number, and a power that is too large
    let power = of(
        Op::Pow,
        Attributes::new(),
        &[&i32s(&[-2, 1000]), &floats(&[0.5, 4.0])],
    );
    same(&power, &[least, least]);
    same(
        &of(Op::ReduceLogSum, Attributes::new(), &[&i32s(&[3, 5])]),
        &[2.0],
    );
    same(&of(Op::ReduceLogSum, Attributes::new(), &[&i32s(&[0])]), &[least]);
}

#[test]
fn a_window_of_one_element_that_is_not_periodic_is_zero_by_zero() {
    let size = Tensor::from_i64s(vec![], vec![1]).unwrap();
    let attributes = Attributes::new().with_int(Attr::Periodic, 0);
    same(&of(Op::BlackmanWindow, attributes, &[&size]), &[NAN]);
}

#[test]
fn blackmans_window_is_zero_at_its_end_and_one_in_its_middle() {
    let size = Tensor::from_i128s(element(DType::I64), vec![], &[6]).unwrap();
    let wide = Attributes::new().with_int(Attr::OutputDatatype, 11);
    let found = of(Op::BlackmanWindow, wide, &[&size]);
    assert_eq!([found[0], found[3]], [0.0, 1.0]);
}

#[test]
fn nan_is_quantised_to_the_least_code_and_infinity_to_the_last() {
    let x = floats(&[NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0]);
    let scale = floats(&[1.0]).reshaped(vec![]).unwrap();
    for (dtype, codes) in [
        (DType::I8, [-128.0, 127.0, -128.0, -93.0]),
        (DType::U8, [0.0, 255.0, 0.0, 12.0]),
    ] {
        let zero = if dtype == DType::I8 { -95 } else { 10 };
        let zero = Tensor::from_i128s(element(dtype), vec![], &[zero]).unwrap();
        let found = of(Op::QuantizeLinear, Attributes::new(), &[&x, &scale, &zero]);
        same(&found, &codes);
    }
}

#[test]
fn a_symmetric_coordinate_that_lies_on_a_pixel_is_that_pixel() {
    let rows = floats(&[0.0, 1.0, 2.0, 3.0, 4.0]);
    let half = floats(&[0.5]);
    let attributes = Attributes::new()
        .with_str(Attr::Mode, "nearest")
        .with_str(Attr::NearestMode, "floor")
        .with_str(Attr::CoordinateTransformationMode, "half_pixel_symmetric");
    let inputs = [Some(&rows), None, Some(&half)];
    let found = evaluate(Op::Resize, &attributes, &inputs, 1).unwrap();
    // 5 / 2 * (1 - 2 / 2.5) + (x + 0.5) / 0.5 - 0.5
    same(&found[0].to_f64s().unwrap(), &[1.0, 3.0]);
}
