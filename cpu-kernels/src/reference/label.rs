//! Elements looked up in a table: texts, integers and floats mapped to others.
//!
//! Invariants: the first of equal keys counts; NaN is a key like another, and zeros of both signs are one.
//!
//! Source: LabelEncoder of ONNX's `ai.onnx.ml`.

use std::collections::BTreeMap;

use super::error::{Result, require};
use super::{Tensor, Wide};

/// A key with an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Int(i128),
    Float(u64),
}

fn keys(x: &Tensor) -> Result<Vec<Key>> {
    // + 0.0 leaves no negative zero
    let bits = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 }.to_bits();
    Ok(match x.wide() {
        Wide::Text(texts) => texts.into_iter().map(Key::Text).collect(),
        Wide::Int(ints) => ints.into_iter().map(Key::Int).collect(),
        Wide::Float(floats) => floats.into_iter().map(|v| Key::Float(bits(v))).collect(),
        _ => super::error::refuse!("texts, integers or floats wanted"),
    })
}

/// Maps each element of `x` to the value of its key, or to the default; the result has the shape of
/// `x`.
///
/// # Errors
/// If there are not as many values as keys, or more defaults than one.
pub fn encode(x: &Tensor, from: &Tensor, to: &Tensor, default: &Tensor) -> Result<Tensor> {
    require!(
        from.len() == to.len() && default.len() == 1 && default.element() == to.element(),
        "{} keys, {} values and {} defaults",
        from.len(),
        to.len(),
        default.len()
    );
    require!(
        from.element() == x.element(),
        "keys of another type than the elements"
    );
    let mut places = BTreeMap::new();
    for (place, key) in keys(from)?.into_iter().enumerate() {
        places.entry(key).or_insert(place);
    }
    let mut values = Tensor::zeros(to.element(), vec![to.len() + 1])?;
    values.copy_run(0, to, 0, to.len())?;
    values.copy_run(to.len(), default, 0, 1)?;
    let found: Vec<usize> = keys(x)?
        .iter()
        .map(|key| places.get(key).copied().unwrap_or(to.len()))
        .collect();
    values.select(x.shape().to_vec(), &found)
}

#[cfg(test)]
mod tests {
    use super::super::{Element, Storage};
    use super::*;

    #[test]
    fn labels_map_to_their_values() {
        let texts = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            Tensor::new(vec![values.len()], Storage::String(values)).unwrap()
        };
        let ints = |values: &[i64]| Tensor::from_i64s(vec![values.len()], values.to_vec()).unwrap();
        let y = encode(
            &texts(&["b", "a", "z"]),
            &texts(&["a", "b", "a"]),
            &ints(&[1, 2, 3]),
            &ints(&[-1]),
        );
        assert_eq!(y.unwrap().to_i64s().unwrap(), [2, 1, -1]);
        let floats = |values: &[f64]| Tensor::from_f64s(Element::F32, vec![values.len()], values).unwrap();
        let y = encode(
            &floats(&[-0.0, f64::NAN, 2.0]),
            &floats(&[0.0, f64::NAN]),
            &texts(&["zero", "none"]),
            &texts(&["other"]),
        );
        assert_eq!(y.unwrap().strings().unwrap(), ["zero", "none", "other"]);
        assert!(encode(&ints(&[1]), &ints(&[1]), &ints(&[1, 2]), &ints(&[0])).is_err());
        assert!(encode(&ints(&[1]), &texts(&["1"]), &ints(&[1]), &ints(&[0])).is_err());
    }
}
