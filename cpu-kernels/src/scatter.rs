//! Elements taken from and put to places that indices name along an axis (GatherElements, ScatterElements), and slices that
//! coordinates name (GatherND, ScatterND).
//!
//! Not here: whole slices along an axis (Gather), which are copies.

/// An index that names no place: itself, and the size of its axis.
pub type Outside = (i64, usize);

/// The place that an index names, from the end where it is negative.
#[inline(always)]
fn place(index: i64, size: usize) -> Result<usize, Outside> {
    let wrapped = if index < 0 { index + size as i64 } else { index };
    match usize::try_from(wrapped) {
        Ok(at) if at < size => Ok(at),
        _ => Err((index, size)),
    }
}

/// A tensor and indices of its rank, whose place along one axis they replace.
#[derive(Debug, Clone)]
pub struct Elements {
    /// Extents of the indices.
    indices: Vec<usize>,
    /// Strides of the tensor.
    strides: Vec<usize>,
    axis: usize,
    /// Extent of the tensor along the axis.
    size: usize,
}

impl Elements {
    /// Indices of these extents along an axis of a tensor; `None` where they do not lie within it.
    #[must_use]
    pub fn new(shape: &[usize], indices: &[usize], axis: usize) -> Option<Self> {
        let within = |(i, (index, size)): (usize, (&usize, &usize))| i == axis || index <= size;
        if shape.len() != indices.len()
            || axis >= shape.len()
            || !indices.iter().zip(shape).enumerate().all(within)
        {
            return None;
        }
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i];
        }
        Some(Self {
            indices: indices.to_vec(),
            strides,
            axis,
            size: shape[axis],
        })
    }

    /// Calls `visit` with the place of each index, in order, and the offset of the element that it names.
    ///
    /// # Errors
    /// The first index that names no place.
    #[inline(always)]
    pub fn each(
        &self,
        at: impl Fn(usize) -> i64,
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), Outside> {
        let last = self.indices.len() - 1;
        let (row, along) = (self.indices[last], self.strides[self.axis]);
        if self.indices.contains(&0) {
            return Ok(());
        }
        let mut coordinates = vec![0usize; last];
        let mut next = 0;
        loop {
            let fixed = coordinates.iter().zip(&self.strides).enumerate();
            let base: usize = fixed
                .filter(|(i, _)| *i != self.axis)
                .map(|(_, (at, stride))| at * stride)
                .sum();
            // along the last axis, neighbours are one apart, unless that is the axis
            let step = usize::from(self.axis != last);
            for column in 0..row {
                visit(next, base + column * step + along * place(at(next), self.size)?);
                next += 1;
            }
            let mut dimension = last;
            loop {
                let Some(outer) = dimension.checked_sub(1) else {
                    return Ok(());
                };
                dimension = outer;
                coordinates[dimension] += 1;
                if coordinates[dimension] < self.indices[dimension] {
                    break;
                }
                coordinates[dimension] = 0;
            }
        }
    }
}

/// Coordinates of as many slices of a tensor.
#[derive(Debug, Clone)]
pub struct Slices {
    /// How many coordinates name a slice, and how many there are for each of the leading dimensions that both share.
    depth: usize,
    count: usize,
    /// Extents along the named dimensions, and the elements between neighbours there.
    sizes: Vec<usize>,
    strides: Vec<usize>,
    /// Elements of a slice.
    pub slice: usize,
    /// Leading elements of the tensor that indices do not name, and how many indices each has.
    batches: usize,
    batch: usize,
}

impl Slices {
    /// Indices of these extents, the last of which are coordinates, into a tensor whose first `shared` dimensions they have
    /// too; `None` where they do not fit it.
    #[must_use]
    pub fn new(shape: &[usize], indices: &[usize], shared: usize) -> Option<Self> {
        let (&depth, outer) = indices.split_last()?;
        if shared > outer.len() || shape.len() < shared + depth || shape[..shared] != outer[..shared] {
            return None;
        }
        let named = &shape[shared..shared + depth];
        let slice = shape[shared + depth..].iter().product();
        let mut strides = vec![slice; depth];
        for i in (1..depth).rev() {
            strides[i - 1] = strides[i] * named[i];
        }
        Some(Self {
            depth,
            count: outer[shared..].iter().product(),
            sizes: named.to_vec(),
            strides,
            slice,
            batches: shape[..shared].iter().product(),
            batch: shape[shared..].iter().product(),
        })
    }

    /// Slices that are named, in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batches * self.count
    }

    /// Whether no slice is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with the number of each slice, in order, and its offset in the tensor.
    ///
    /// # Errors
    /// The first coordinate that names no place.
    #[inline(always)]
    pub fn each(
        &self,
        at: impl Fn(usize) -> i64,
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), Outside> {
        for batch in 0..self.batches {
            for own in 0..self.count {
                let number = batch * self.count + own;
                let mut offset = batch * self.batch;
                for (i, (&size, &stride)) in self.sizes.iter().zip(&self.strides).enumerate() {
                    offset += stride * place(at(number * self.depth + i), size)?;
                }
                visit(number, offset);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_that_the_definition_names() {
        let (shape, indices) = ([3usize, 4, 5], [2usize, 4, 3]);
        for axis in 0..3 {
            let elements = Elements::new(&shape, &indices, axis).unwrap();
            let at = |i: usize| {
                (i * 7 % shape[axis]) as i64
                    - if i.is_multiple_of(2) {
                        0
                    } else {
                        shape[axis] as i64
                    }
            };
            let mut found = Vec::new();
            elements.each(at, |i, offset| found.push((i, offset))).unwrap();
            let mut want = Vec::new();
            for (i, [a, b, c]) in (0..2)
                .flat_map(|a| (0..4).flat_map(move |b| (0..3).map(move |c| [a, b, c])))
                .enumerate()
            {
                let mut place = [a, b, c];
                place[axis] = i * 7 % shape[axis];
                want.push((i, (place[0] * 4 + place[1]) * 5 + place[2]));
            }
            assert_eq!(found, want, "axis {axis}");
        }
        let one = Elements::new(&[4], &[2], 0).unwrap();
        assert_eq!(one.each(|_| 4, |_, _| ()), Err((4, 4)));
        assert_eq!(one.each(|_| -5, |_, _| ()), Err((-5, 4)));
        assert!(Elements::new(&[4, 2], &[4, 3], 0).is_none());
        assert!(
            Elements::new(&[4, 0], &[4, 0], 0)
                .unwrap()
                .each(|_| 9, |_, _| ())
                .is_ok()
        );
    }

    #[test]
    fn slices_are_those_that_coordinates_name() {
        let slices = Slices::new(&[2, 3, 4], &[5, 2], 0).unwrap();
        assert_eq!((slices.len(), slices.slice), (5, 4));
        let at = [0i64, 0, 1, 2, -1, -3, 1, 1, 0, -1];
        let mut found = Vec::new();
        slices.each(|i| at[i], |_, offset| found.push(offset)).unwrap();
        assert_eq!(found, [0, 20, 12, 16, 8]);
        // each of two matrices has indices of its own
        let slices = Slices::new(&[2, 3, 4], &[2, 1, 1], 1).unwrap();
        let mut found = Vec::new();
        slices
            .each(|i| [2, 1][i], |_, offset| found.push(offset))
            .unwrap();
        assert_eq!(found, [8, 16]);
        assert!(Slices::new(&[2, 3], &[1, 3], 0).is_none());
    }
}
