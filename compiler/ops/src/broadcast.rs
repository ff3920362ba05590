//! Multidirectional broadcasting: shapes aligned at their last axis, a 1 stretches.
//!
//! Invariants:
//! 1. The rule is symmetric: the order of the shapes does not matter.
//! 2. A known size other than 1 decides the result, since any valid partner is 1 or equal.
//!
//! Not here: which ops broadcast (`infer`).

use crate::Dim;

/// Two shapes that do not broadcast: the axis of the result, and both sizes there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Axis of the result, from the front.
    pub axis: usize,
    /// The size gathered so far.
    pub left: Dim,
    /// The size that does not fit.
    pub right: Dim,
}

/// The shape that these shapes broadcast to.
///
/// # Errors
/// Where two sizes on one axis certainly differ and neither is 1.
pub fn dims(shapes: &[&[Dim]]) -> Result<Vec<Dim>, Mismatch> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![Dim::Known(1); rank];
    for shape in shapes {
        let offset = rank - shape.len();
        for (index, right) in shape.iter().enumerate() {
            let axis = offset + index;
            let left = &result[axis];
            result[axis] = match (left, right) {
                (Dim::Known(1), _) => right.clone(),
                (_, Dim::Known(1)) => left.clone(),
                (Dim::Known(a), Dim::Known(b)) if a != b => {
                    return Err(Mismatch {
                        axis,
                        left: left.clone(),
                        right: right.clone(),
                    });
                }
                (Dim::Known(_), _) => left.clone(),
                (_, Dim::Known(_)) => right.clone(),
                (a, b) if a.same(b) => left.clone(),
                _ => Dim::Unknown,
            };
        }
    }
    Ok(result)
}

/// The shape that these known shapes broadcast to, or `None`.
pub fn shapes(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (have, &size) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*have, size) {
                (a, b) if a == b => {}
                (1, b) => *have = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(result)
}

/// Strides in elements that read a row-major tensor of `shape` as if it had the shape `into`:
/// zero where it is stretched. `None` where it does not broadcast to `into`.
pub fn strides(shape: &[usize], into: &[usize]) -> Option<Vec<usize>> {
    let offset = into.len().checked_sub(shape.len())?;
    let own = crate::axis::strides(shape)?;
    let mut strides = vec![0; into.len()];
    for (index, &size) in shape.iter().enumerate() {
        match (size, into[offset + index]) {
            (1, _) => {}
            (a, b) if a == b => strides[offset + index] = own[index],
            _ => return None,
        }
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_shapes() {
        assert_eq!(shapes(&[&[2, 1, 4], &[3, 1]]), Some(vec![2, 3, 4]));
        assert_eq!(shapes(&[&[], &[0]]), Some(vec![0]));
        assert_eq!(shapes(&[&[1], &[0]]), Some(vec![0]));
        assert_eq!(shapes(&[&[2], &[0]]), None);
        assert_eq!(shapes(&[]), Some(vec![]));
        assert_eq!(strides(&[3, 1], &[2, 3, 4]), Some(vec![0, 1, 0]));
        assert_eq!(strides(&[3], &[2]), None);
        assert_eq!(strides(&[], &[5]), Some(vec![0]));
    }

    #[test]
    fn symbols_flow_through() {
        let (n, m) = ([Dim::symbol("n")], [Dim::symbol("m")]);
        assert_eq!(dims(&[&n, &[1.into()]]), Ok(n.to_vec()));
        assert_eq!(dims(&[&n, &[7.into()]]), Ok(vec![7.into()]));
        let square = [n[0].clone(), n[0].clone()];
        assert_eq!(dims(&[&n, &square]), Ok(square.to_vec()));
        assert_eq!(dims(&[&n, &m]), Ok(vec![Dim::Unknown]));
        let mismatch = dims(&[&[2.into(), 3.into()], &[4.into()]]).unwrap_err();
        assert_eq!(
            (mismatch.axis, mismatch.left, mismatch.right),
            (1, 3.into(), 4.into())
        );
    }
}
