//! Rules of expressions: types, values at the edges, text.

use super::*;

#[test]
fn erf_matches_known_values() {
    // values of tables
    for (x, y) in [
        (0.5f32, 0.520_499_9),
        (1.0, 0.842_700_8),
        (2.5, 0.999_593),
        (3.5, 0.999_999_3),
    ] {
        let erf = Expression::operand(0).unary(Unary::Erf);
        assert!((erf.value(&[x]) - y).abs() < 1e-6);
        assert!((erf.value(&[-x]) + y).abs() < 1e-6);
    }
}

#[test]
fn nan_stays_nan() {
    let x = Expression::operand(0);
    for function in [
        Unary::Relu,
        Unary::Sign,
        Unary::Erf,
        Unary::Tanh,
        Unary::HardSwish,
    ] {
        assert!(x.clone().unary(function).value(&[f32::NAN]).is_nan());
    }
    assert!(x.clone().clip(Some(0.0), Some(6.0)).value(&[f32::NAN]).is_nan());
    assert!(
        x.binary(Binary::Max, Expression::operand(1))
            .value(&[1.0, f32::NAN])
            .is_nan()
    );
}

#[test]
fn unsupported_types_are_refused() {
    let two = |function| Expression::operand(0).binary(function, Expression::operand(1));
    assert!(two(Binary::Add).kind(&[Type::F32, Type::I32]).is_err());
    assert!(two(Binary::And).kind(&[Type::F32, Type::F32]).is_err());
    assert!(two(Binary::Add).kind(&[Type::Bool, Type::Bool]).is_err());
    assert!(two(Binary::Pow).kind(&[Type::I32, Type::I32]).is_err());
    assert!(two(Binary::Add).kind(&[Type::F32]).is_err());
    assert_eq!(two(Binary::Less).kind(&[Type::I32, Type::I32]), Ok(Type::Bool));
    assert!(
        Expression::operand(0)
            .unary(Unary::Not)
            .kind(&[Type::F32])
            .is_err()
    );
}

#[test]
fn casts_wrap_and_saturation_does_not() {
    let x = Expression::operand(0);
    let of = |e: &Expression, x| e.evaluate(&[Number::F32(x)]);
    assert_eq!(of(&x.clone().cast(Scalar::U8), 257.9), Number::U32(1));
    assert_eq!(of(&x.clone().cast(Scalar::I8), -1.9), Number::I32(-1));
    assert_eq!(of(&x.clone().saturate(Scalar::I8), 300.0), Number::I32(127));
    assert_eq!(of(&x.clone().saturate(Scalar::U8), 2.5), Number::U32(2));
    assert_eq!(of(&x.cast(Scalar::Bool), 0.2), Number::Bool(true));
}

#[test]
fn chained_expression_keeps_its_operands() {
    let first = Expression::operand(0).binary(Binary::Add, Expression::operand(1));
    let second = Expression::operand(0).binary(Binary::Mul, Expression::operand(1));
    let both = first.then(&second, 1);
    assert_eq!(both.operands(), 3);
    assert_eq!(both.value(&[1.0, 2.0, 5.0]), 15.0);
}
