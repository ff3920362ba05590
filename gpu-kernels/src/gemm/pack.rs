//! Constant weights as products read them: `[.., k, n]` with n padded with zeros to a multiple of four.

use half::f16;

use crate::{Error, Result, Scalar};

/// Elements from one row of packed weights to the next.
pub(super) fn pitch(n: u32) -> u32 {
    n.next_multiple_of(4)
}

/// Packs b, `[batches, k, n]` or with `transposed` `[batches, n, k]`, for [`Right::Packed`](super::Right): bytes
/// in, bytes of `scalar` out. `from` is the type of the bytes, f32 or f16.
///
/// # Errors
/// The number of bytes does not match the shape.
pub fn pack_b(
    bytes: &[u8],
    from: Scalar,
    scalar: Scalar,
    batches: usize,
    k: usize,
    n: usize,
    transposed: bool,
) -> Result<Vec<u8>> {
    let count = batches
        .checked_mul(k)
        .and_then(|x| x.checked_mul(n))
        .ok_or_else(|| Error::new("weights beyond the memory's size"))?;
    if !matches!(from, Scalar::F32 | Scalar::F16) || !matches!(scalar, Scalar::F32 | Scalar::F16) {
        return Err(Error::new(format!(
            "weights of {} packed as {}",
            from.name(),
            scalar.name()
        )));
    }
    if bytes.len() as u64 != count as u64 * from.bytes() {
        return Err(Error::new(format!(
            "weights of [{batches}, {k}, {n}] {} have {} bytes",
            from.name(),
            bytes.len()
        )));
    }
    let values: Vec<f32> = match from {
        Scalar::F16 => {
            let (halves, _) = bytes.as_chunks::<2>();
            halves.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
        }
        _ => {
            let (words, _) = bytes.as_chunks::<4>();
            words.iter().map(|b| f32::from_le_bytes(*b)).collect()
        }
    };
    let packed = lay_out(&values, batches, k, n, transposed);
    Ok(match scalar {
        Scalar::F16 => packed
            .iter()
            .flat_map(|&x| f16::from_f32(x).to_le_bytes())
            .collect(),
        _ => packed.iter().flat_map(|x| x.to_le_bytes()).collect(),
    })
}

/// The same over floats.
pub(super) fn lay_out(values: &[f32], batches: usize, k: usize, n: usize, transposed: bool) -> Vec<f32> {
    let pitch = n.next_multiple_of(4);
    let mut packed = vec![0.0; batches * k * pitch];
    for batch in 0..batches {
        let from = &values[batch * k * n..][..k * n];
        let to = &mut packed[batch * k * pitch..][..k * pitch];
        for (i, row) in to.chunks_exact_mut(pitch).enumerate() {
            if transposed {
                for (column, value) in row[..n].iter_mut().enumerate() {
                    *value = from[column * k + i];
                }
            } else {
                row[..n].copy_from_slice(&from[i * n..][..n]);
            }
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_pack_alike_and_wrong_sizes_are_refused() {
        let rows: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let columns: Vec<u8> = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let one = pack_b(&rows, Scalar::F32, Scalar::F32, 1, 2, 3, false).unwrap();
        let other = pack_b(&columns, Scalar::F32, Scalar::F32, 1, 2, 3, true).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.len(), 2 * 4 * 4);
        let error = pack_b(&rows[4..], Scalar::F32, Scalar::F32, 1, 2, 3, false).unwrap_err();
        assert_eq!(error.to_string(), "weights of [1, 2, 3] f32 have 20 bytes");
    }
}
