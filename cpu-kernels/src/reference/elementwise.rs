//! Elementwise arithmetic: one operand, two that broadcast, or a list.
//!
//! Invariants: integer results are exact, then wrapped to the element type; integer division by zero
//! gives 0 and the remainder by zero gives 0, so that no operand can panic.

use super::error::{Result, refuse, require};
use super::reduce::cut;
use super::{Element, Tensor, Wide, index};

/// A function of one number that keeps the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Ceil,
    Cos,
    Cosh,
    Erf,
    Exp,
    Floor,
    Log,
    Neg,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// The error function, by its series of positive terms (exact to the last bits of `f64`).
#[must_use]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    // erf(x) = 2/sqrt(pi) exp(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1))
    let (mut term, mut sum, mut n) = (a, a, 1.0);
    while term > sum * 1e-18 {
        term *= 2.0 * a * a / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    (std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum)
        .min(1.0)
        .copysign(x)
}

/// Applies `f` to each element of a float tensor.
///
/// # Errors
/// If the elements are not floats.
pub fn map_float(x: &Tensor, f: impl Fn(f64) -> f64) -> Result<Tensor> {
    match x.wide() {
        Wide::Float(mut v) => {
            v.iter_mut().for_each(|e| *e = f(*e));
            Tensor::from_wide(x.element(), x.shape().to_vec(), Wide::Float(v))
        }
        _ => refuse!("floats wanted, {:?} seen", x.element()),
    }
}

fn map_int(x: &Tensor, v: Vec<i128>, f: impl Fn(i128) -> i128) -> Result<Tensor> {
    let v: Vec<i128> = v.into_iter().map(f).collect();
    Tensor::from_i128s(x.element(), x.shape().to_vec(), &v)
}

/// `f` of each element.
///
/// # Errors
/// If `f` is not defined for the element type.
pub fn unary(f: Unary, x: &Tensor) -> Result<Tensor> {
    if let Wide::Int(v) = x.wide() {
        return match f {
            Unary::Abs => map_int(x, v, i128::abs),
            Unary::Neg => map_int(x, v, |a| -a),
            Unary::Sign => map_int(x, v, i128::signum),
            Unary::Ceil | Unary::Floor | Unary::Round => Ok(x.clone()),
            _ => refuse!("{f:?} is not defined for {:?}", x.element()),
        };
    }
    let f: fn(f64) -> f64 = match f {
        Unary::Abs => f64::abs,
        Unary::Acos => f64::acos,
        Unary::Acosh => f64::acosh,
        Unary::Asin => f64::asin,
        Unary::Asinh => f64::asinh,
        Unary::Atan => f64::atan,
        Unary::Atanh => f64::atanh,
        Unary::Ceil => f64::ceil,
        Unary::Cos => f64::cos,
        Unary::Cosh => f64::cosh,
        Unary::Erf => erf,
        Unary::Exp => f64::exp,
        Unary::Floor => f64::floor,
        Unary::Log => f64::ln,
        Unary::Neg => |v| -v,
        Unary::Reciprocal => |v| 1.0 / v,
        Unary::Round => f64::round_ties_even,
        Unary::Sign => |v| {
            if v == 0.0 || v.is_nan() { v } else { v.signum() }
        },
        Unary::Sin => f64::sin,
        Unary::Sinh => f64::sinh,
        Unary::Sqrt => f64::sqrt,
        Unary::Tan => f64::tan,
        Unary::Tanh => f64::tanh,
    };
    map_float(x, f)
}

/// A function of two numbers of one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    /// The remainder with the sign of the divisor.
    Mod,
    /// The remainder with the sign of the dividend.
    Fmod,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

fn binary_float(f: Binary, element: Element) -> Result<fn(f64, f64) -> f64> {
    Ok(match f {
        Binary::Add => |a, b| a + b,
        Binary::Sub => |a, b| a - b,
        Binary::Mul => |a, b| a * b,
        Binary::Div => |a, b| a / b,
        Binary::Max => |a, b| if a.is_nan() || a > b { a } else { b },
        Binary::Min => |a, b| if a.is_nan() || a < b { a } else { b },
        Binary::Mod => |a, b| {
            let r = a % b;
            // a remainder of zero has the sign of the divisor too
            if r == 0.0 {
                0f64.copysign(b)
            } else if (r < 0.0) != (b < 0.0) {
                r + b
            } else {
                r
            }
        },
        Binary::Fmod => |a, b| a % b,
        _ => refuse!("{f:?} is not defined for {element:?}"),
    })
}

fn binary_int(f: Binary, element: Element) -> Result<Box<dyn Fn(i128, i128) -> i128>> {
    let Some((bits, _)) = element.int_bits() else {
        refuse!("{f:?} is not defined for {element:?}");
    };
    let bits = i128::from(bits);
    Ok(match f {
        Binary::Add => Box::new(|a, b| a + b),
        Binary::Sub => Box::new(|a, b| a - b),
        Binary::Mul => Box::new(i128::wrapping_mul),
        Binary::Div => Box::new(|a, b| if b == 0 { 0 } else { a / b }),
        Binary::Max => Box::new(i128::max),
        Binary::Min => Box::new(i128::min),
        Binary::Mod => Box::new(|a, b| {
            if b == 0 {
                return 0;
            }
            let r = a % b;
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }),
        Binary::Fmod => Box::new(|a, b| if b == 0 { 0 } else { a % b }),
        Binary::BitAnd => Box::new(|a, b| a & b),
        Binary::BitOr => Box::new(|a, b| a | b),
        Binary::BitXor => Box::new(|a, b| a ^ b),
        Binary::ShiftLeft => Box::new(move |a, b| if (0..bits).contains(&b) { a << b } else { 0 }),
        Binary::ShiftRight => Box::new(move |a, b| {
            if (0..bits).contains(&b) {
                a >> b
            } else {
                -i128::from(a < 0)
            }
        }),
        _ => refuse!("{f:?} is not defined for {element:?}"),
    })
}

fn binary_bool(f: Binary) -> Result<fn(bool, bool) -> bool> {
    Ok(match f {
        Binary::And | Binary::BitAnd | Binary::Min | Binary::Mul => |a, b| a & b,
        Binary::Or | Binary::BitOr | Binary::Max | Binary::Add => |a, b| a | b,
        Binary::Xor | Binary::BitXor => |a, b| a ^ b,
        _ => refuse!("{f:?} is not defined for bools"),
    })
}

fn zip<T: Copy, U>(a: &[T], ia: &[usize], b: &[T], ib: &[usize], f: impl Fn(T, T) -> U) -> Vec<U> {
    ia.iter().zip(ib).map(|(&i, &j)| f(a[i], b[j])).collect()
}

/// `f` of each pair of elements, broadcasting.
///
/// # Errors
/// If the shapes do not broadcast, the element types differ, or `f` is not defined for them.
pub fn binary(f: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    require!(
        a.element() == b.element(),
        "both operands need one element type: {:?} meets {:?}",
        a.element(),
        b.element()
    );
    let shape = index::broadcast(&[a.shape(), b.shape()])?;
    let ia = index::broadcast_index(a.shape(), &shape)?;
    let ib = index::broadcast_index(b.shape(), &shape)?;
    let wide = match (a.wide(), b.wide()) {
        (Wide::Float(x), Wide::Float(y)) => Wide::Float(zip(&x, &ia, &y, &ib, binary_float(f, a.element())?)),
        (Wide::Int(x), Wide::Int(y)) => Wide::Int(zip(&x, &ia, &y, &ib, binary_int(f, a.element())?)),
        (Wide::Bool(x), Wide::Bool(y)) => Wide::Bool(zip(&x, &ia, &y, &ib, binary_bool(f)?)),
        _ => refuse!("{f:?} is not defined for {:?}", a.element()),
    };
    Tensor::from_wide(a.element(), shape, wide)
}

/// `base` to the power `exponent`, in the base's element type, broadcasting.
///
/// # Errors
/// If the shapes do not broadcast or an operand is no number.
pub fn pow(base: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let shape = index::broadcast(&[base.shape(), exponent.shape()])?;
    let ia = index::broadcast_index(base.shape(), &shape)?;
    let ib = index::broadcast_index(exponent.shape(), &shape)?;
    let wide = match (base.wide(), exponent.wide()) {
        (Wide::Int(x), Wide::Int(y)) => Wide::Int(zip(&x, &ia, &y, &ib, int_pow)),
        _ => {
            let powers = zip(&base.to_f64s()?, &ia, &exponent.to_f64s()?, &ib, f64::powf);
            match base.element().int_range() {
                Some((low, high)) => Wide::Int(powers.into_iter().map(|v| cut(v, low, high)).collect()),
                None => Wide::Float(powers),
            }
        }
    };
    Tensor::from_wide(base.element(), shape, wide)
}

fn int_pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// The sum of all operands, broadcasting, divided by their number if `mean`; rounded once.
///
/// # Errors
/// If there are none, the shapes do not broadcast, or they are not of one numeric type.
pub fn sum(operands: &[&Tensor], mean: bool) -> Result<Tensor> {
    let Some(first) = operands.first() else {
        refuse!("a sum needs an operand");
    };
    let shapes: Vec<&[usize]> = operands.iter().map(|t| t.shape()).collect();
    let shape = index::broadcast(&shapes)?;
    let mut total = vec![0f64; index::product(&shape)];
    for t in operands {
        require!(
            t.element() == first.element(),
            "all operands need one element type"
        );
        let v = t.to_f64s()?;
        for (sum, i) in total.iter_mut().zip(index::broadcast_index(t.shape(), &shape)?) {
            *sum += v[i];
        }
    }
    if mean {
        total.iter_mut().for_each(|v| *v /= operands.len() as f64);
    }
    Tensor::from_f64s(first.element(), shape, &total)
}

/// Each bit (or bool) inverted.
///
/// # Errors
/// If the elements are neither integers nor bools.
pub fn not(x: &Tensor) -> Result<Tensor> {
    match x.wide() {
        Wide::Int(v) => map_int(x, v, |a| !a),
        Wide::Bool(v) => Tensor::from_bools(x.shape().to_vec(), v.into_iter().map(|a| !a).collect()),
        _ => refuse!("not is not defined for {:?}", x.element()),
    }
}

/// `x` raised to `low` and lowered to `high`, either of which may be absent.
///
/// # Errors
/// If a limit is no scalar of the same element type.
pub fn clip(x: &Tensor, low: Option<&Tensor>, high: Option<&Tensor>) -> Result<Tensor> {
    let mut out = x.clone();
    for (limit, f, end) in [(low, Binary::Max, f64::MIN), (high, Binary::Min, f64::MAX)] {
        if let Some(limit) = limit {
            require!(
                limit.len() == 1,
                "a limit of clip is a scalar, {:?} seen",
                limit.shape()
            );
            out = binary(f, &out, &limit.reshaped(vec![])?)?;
        } else if let Some(largest) = x.element().largest() {
            // the default limits are finite: they move infinities
            let limit = Tensor::from_f64s(x.element(), vec![], &[end.clamp(-largest, largest)])?;
            out = binary(f, &out, &limit)?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(element: Element, v: &[i128]) -> Tensor {
        Tensor::from_i128s(element, vec![v.len()], v).unwrap()
    }

    #[test]
    fn integers_wrap_and_never_panic() {
        let a = ints(Element::I8, &[127, -128, -7, 5]);
        let b = ints(Element::I8, &[1, -1, 3, 0]);
        let run = |f| binary(f, &a, &b).unwrap().to_i128s().unwrap();
        assert_eq!(run(Binary::Add), [-128, 127, -4, 5]);
        assert_eq!(run(Binary::Div), [127, -128, -2, 0]);
        assert_eq!(run(Binary::Mod), [0, 0, 2, 0]);
        assert_eq!(run(Binary::Fmod), [0, 0, -1, 0]);
        assert_eq!(int_pow(2, -1), 0);
        assert_eq!(int_pow(-3, 3), -27);
    }

    #[test]
    fn zero_remainder_has_the_sign_of_the_divisor() {
        let floats = |v: &[f64]| Tensor::from_f64s(Element::F32, vec![v.len()], v).unwrap();
        let (a, b) = (floats(&[0.0, -0.0, 4.0, -4.0]), floats(&[-2.0, 2.0, -2.0, 2.0]));
        let signs = |f| {
            let y = binary(f, &a, &b).unwrap().to_f64s().unwrap();
            assert!(y.iter().all(|&y| y == 0.0), "{y:?}");
            y.iter().map(|y| y.is_sign_negative()).collect::<Vec<_>>()
        };
        assert_eq!(signs(Binary::Mod), [true, false, true, false]);
        // the one of C has the sign of the dividend
        assert_eq!(signs(Binary::Fmod), [false, true, false, true]);
    }

    #[test]
    fn erf_matches_published_values() {
        // Abramowitz and Stegun, table 7.1
        for (x, y) in [
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
        ] {
            assert!((erf(x) - y).abs() < 1e-10);
            assert!((erf(-x) + y).abs() < 1e-10);
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erf(0.0), 0.0);
    }
}
