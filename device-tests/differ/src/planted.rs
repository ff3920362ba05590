//! Wrong values planted into correct results: a class that excuses one would hide a similar bug.
//!
//! Invariant: a planted value differs by more than any rounding, in one element.

use polychip_ops::{DType, Literal};

use crate::peer::Tensors;

/// Tensors with one element changed: a float to what is largest in its tensor, at least to one, with the other sign, or to
/// NaN every fourth time; an integer by one; a truth value to the other one.
pub(crate) fn changed(tensors: &Tensors, turn: usize) -> Option<Tensors> {
    let (name, value) = tensors.iter().find(|(_, value)| !value.bytes.is_empty())?;
    let width = value.dtype.byte_width()?;
    let place = turn % (value.bytes.len() / width);
    let mut bytes = value.bytes.to_vec();
    let element = &mut bytes[place * width..(place + 1) * width];
    if value.dtype.is_float() {
        let values = value.as_f64s()?;
        let finite = values.iter().filter(|one| one.is_finite());
        let largest = finite.fold(1.0f64, |most, one| most.max(one.abs()));
        let new = match turn % 4 {
            0 => f64::NAN,
            _ if values[place] > 0.0 => -largest,
            _ => largest,
        };
        match value.dtype {
            DType::F64 => element.copy_from_slice(&new.to_le_bytes()),
            DType::F32 => element.copy_from_slice(&(new as f32).to_le_bytes()),
            DType::F16 => element.copy_from_slice(&half(new).to_le_bytes()),
            _ => return None,
        }
    } else {
        // the lowest bit, in little-endian order
        element[0] ^= 1;
    }
    let changed = Literal::new(value.dtype, value.shape.clone(), bytes)?;
    let mut all = tensors.clone();
    all.insert(name.clone(), changed);
    Some(all)
}

/// The 16-bit float of a normal number that is one, or of NaN.
fn half(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7e00;
    }
    let bits = value.to_bits();
    let sign = (bits >> 48) & 0x8000;
    let exponent = ((bits >> 52) & 0x7ff) - (1023 - 15);
    (sign | exponent << 10 | (bits >> 42) & 0x3ff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{What, difference};

    #[test]
    fn planted_error_differs_in_one_element() {
        let halves: Vec<u8> = [0x3c00u16, 0xc500, 0x7bff]
            .iter()
            .flat_map(|bits| bits.to_le_bytes())
            .collect();
        let tensors = [
            Literal::f32s(&[1.0, -2.0, 1e9]),
            Literal::f32s(&[0.0]),
            Literal::i64s(&[-1, 0, 1]),
            Literal::new(DType::F16, vec![3], halves).unwrap(),
            Literal::new(DType::Bool, vec![2], vec![0u8, 1]).unwrap(),
        ];
        for value in tensors {
            for turn in 0..12 {
                let tensors = Tensors::from([("y".to_owned(), value.clone())]);
                let changed = changed(&tensors, turn).unwrap();
                let what = difference(&changed, &tensors).unwrap().what;
                let nan = turn % 4 == 0 && value.dtype.is_float();
                assert_eq!(
                    what,
                    if nan { What::Nan } else { What::Values },
                    "{value:?} {turn}"
                );
                let (a, b) = (&changed["y"], &value);
                if let (Some(a), Some(b)) = (a.as_f64s(), b.as_f64s()) {
                    let apart = a.iter().zip(&b).filter(|(a, b)| a != b);
                    assert_eq!(apart.count(), 1);
                }
            }
        }
        assert_eq!(changed(&Tensors::new(), 0), None);
    }

    #[test]
    fn halves_are_those_of_the_standard() {
        let known = [(1.0, 0x3c00), (-2.0, 0xc000), (65504.0, 0x7bff), (-5.0, 0xc500)];
        for (value, bits) in known {
            assert_eq!(half(value), bits);
        }
        assert_eq!(half(f64::NAN), 0x7e00);
    }
}
