//! Axes of a shape: negative ones counted from the end, lists of them, and strides.
//!
//! Invariants:
//! 1. A normalised axis is below the rank.
//! 2. A normalised list has no axis twice.
//!
//! Not here: broadcasting (`broadcast`), windows (`geometry`).

/// The axis counted from the front, or `None` where it is outside `-rank..rank`.
pub fn normalise(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    if (0..rank).contains(&axis) {
        usize::try_from(axis).ok()
    } else {
        None
    }
}

/// The axes counted from the front in their order; `None` where one is outside or comes twice.
pub fn normalise_all(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let mut seen = Vec::with_capacity(axes.len());
    for &axis in axes {
        let axis = normalise(axis, rank)?;
        if seen.contains(&axis) {
            return None;
        }
        seen.push(axis);
    }
    Some(seen)
}

/// Strides in elements of a row-major tensor; `None` on overflow.
pub fn strides(shape: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1usize;
    for (stride, &size) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.checked_mul(size)?;
    }
    Some(strides)
}

/// Number of elements of a shape; 1 for rank 0, `None` on overflow.
pub fn product(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!(normalise(-1, 3), Some(2));
        assert_eq!(normalise(-3, 3), Some(0));
        assert_eq!(normalise(3, 3), None);
        assert_eq!(normalise(0, 0), None);
        assert_eq!(normalise(i64::MIN, 3), None);
        assert_eq!(normalise_all(&[-1, 0], 3), Some(vec![2, 0]));
        assert_eq!(normalise_all(&[-1, 2], 3), None);
    }

    #[test]
    fn strides_and_products_of_odd_shapes() {
        assert_eq!(strides(&[2, 3, 4]), Some(vec![12, 4, 1]));
        assert_eq!(strides(&[]), Some(vec![]));
        assert_eq!(product(&[]), Some(1));
        assert_eq!(product(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(product(&[usize::MAX, 2]), None);
    }
}
