//! Conversion between element types, text included.
//!
//! Invariants: floats round once, to nearest even; floats become integers by truncation towards zero;
//! integers wrap; text of a float is the shortest that reads back as the same element.

use super::error::{Result, refuse, require};
use super::minifloat::{self, ScaleRounding};
use super::{Element, Storage, Tensor, Wide};

/// `x` as `to`. `saturate` concerns 8-bit floats only; `rounding` concerns [`Element::F8E8M0`] only.
///
/// # Errors
/// If text is not a number, or a complex number is cast to something else.
pub fn cast(x: &Tensor, to: Element, saturate: bool, rounding: ScaleRounding) -> Result<Tensor> {
    if x.element() == to {
        return Ok(x.clone());
    }
    let shape = x.shape().to_vec();
    match x.wide() {
        Wide::Complex(v) => Tensor::from_wide(to, shape, Wide::Complex(v)),
        Wide::Text(v) => from_text(&v, to, shape, saturate, rounding),
        Wide::Int(v) if to == Element::String => {
            let text = v.iter().map(ToString::to_string).collect();
            Tensor::new(shape, Storage::String(text))
        }
        Wide::Bool(v) if to == Element::String => {
            let text = v
                .iter()
                .map(|b| if *b { "True" } else { "False" }.to_owned())
                .collect();
            Tensor::new(shape, Storage::String(text))
        }
        Wide::Float(v) if to == Element::String => {
            let text = v.iter().map(|&f| float_text(x.element(), f)).collect();
            Tensor::new(shape, Storage::String(text))
        }
        Wide::Int(v) if to == Element::F8E8M0 || eight_bit(to) => {
            let v: Vec<f64> = v.into_iter().map(|i| i as f64).collect();
            from_floats(&v, to, shape, saturate, rounding)
        }
        Wide::Float(v) => from_floats(&v, to, shape, saturate, rounding),
        wide => Tensor::from_wide(to, shape, wide),
    }
}

fn eight_bit(element: Element) -> bool {
    matches!(
        element,
        Element::F8E4M3FN | Element::F8E4M3FNUZ | Element::F8E5M2 | Element::F8E5M2FNUZ
    )
}

fn from_floats(
    v: &[f64],
    to: Element,
    shape: Vec<usize>,
    saturate: bool,
    rounding: ScaleRounding,
) -> Result<Tensor> {
    if to == Element::F8E8M0 {
        let codes = v
            .iter()
            .map(|&f| minifloat::encode_scale(f, saturate, rounding))
            .collect();
        return Tensor::new(shape, Storage::Code(to, codes));
    }
    if eight_bit(to) {
        let codes = v
            .iter()
            .map(|&f| minifloat::encode(to, f, saturate) as u8)
            .collect();
        return Tensor::new(shape, Storage::Code(to, codes));
    }
    Tensor::from_f64s(to, shape, v)
}

fn from_text(
    v: &[String],
    to: Element,
    shape: Vec<usize>,
    saturate: bool,
    rounding: ScaleRounding,
) -> Result<Tensor> {
    if to.is_int() {
        let ints: Result<Vec<i128>> = v
            .iter()
            .map(|s| match s.trim().parse::<i128>() {
                Ok(i) => Ok(i),
                Err(_) => parse_float(s).map(|f| f as i128),
            })
            .collect();
        return Tensor::from_i128s(to, shape, &ints?);
    }
    let floats: Result<Vec<f64>> = v.iter().map(|s| parse_float(s)).collect();
    from_floats(&floats?, to, shape, saturate, rounding)
}

fn parse_float(text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(v) => Ok(v),
        Err(_) => refuse!("{text:?} is not a number"),
    }
}

/// The shortest decimal text that reads back as the same element.
fn float_text(element: Element, value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let same = |text: &str| {
        text.parse::<f64>().is_ok_and(|back| {
            let one = |v| Tensor::from_f64s(element, vec![1], &[v]).map(|t| t.to_bytes());
            one(back) == one(value)
        })
    };
    let scientific = (0..17)
        .map(|digits| format!("{value:.digits$e}"))
        .find(|text| same(text))
        .unwrap_or_else(|| format!("{value:e}"));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let digits = mantissa.trim_start_matches('-').len().saturating_sub(2) as i32;
    let decimals = (digits.max(0) - exponent).max(1) as usize;
    let rounded: f64 = scientific.parse().unwrap_or(value);
    format!("{rounded:.decimals$}")
}

/// The same bits as another element type of the same width.
///
/// # Errors
/// If the widths differ or one type is text.
pub fn bit_cast(x: &Tensor, to: Element) -> Result<Tensor> {
    require!(
        x.element().bits().is_some() && x.element().bits() == to.bits(),
        "{:?} and {to:?} are not equally wide",
        x.element()
    );
    Tensor::from_bytes(to, x.shape().to_vec(), &x.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_floats() {
        let f = |v: f32| float_text(Element::F32, f64::from(v));
        assert_eq!(f(0.1), "0.1");
        assert_eq!(f(1.0), "1.0");
        assert_eq!(f(314.15926), "314.15927");
        assert_eq!(f(1e-7), "1e-07");
        assert_eq!(f(1e20), "1e+20");
        assert_eq!(f(-1_000_000.0), "-1000000.0");
        assert_eq!(float_text(Element::F16, 0.099_975_585_937_5), "0.1");
    }

    #[test]
    fn text_to_numbers() {
        let t = Tensor::new(
            vec![3],
            Storage::String(vec!["1e3".into(), " -INF".into(), "nan".into()]),
        )
        .unwrap();
        let v = cast(&t, Element::F32, true, ScaleRounding::Up)
            .unwrap()
            .to_f64s()
            .unwrap();
        assert_eq!(v[..2], [1000.0, f64::NEG_INFINITY]);
        assert!(v[2].is_nan());
        let t = Tensor::new(vec![1], Storage::String(vec!["x".into()])).unwrap();
        assert!(cast(&t, Element::F32, true, ScaleRounding::Up).is_err());
    }
}
