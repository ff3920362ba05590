//! Gather and scatter of elements by indices along an axis (GatherElements, ScatterElements), and
//! of slices by coordinates (GatherND, ScatterND).
//!
//! Not here: whole slices along an axis (Gather), which are copies.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};
use std::sync::atomic::{AtomicBool, Ordering};

/// An index out of range: the index, and the size of its axis.
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

/// An index type.
pub trait Index: Copy + Send + Sync + 'static {
    /// As the widest one.
    fn wide(self) -> i64;
}
impl Index for i64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}
impl Index for i32 {
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
}

/// A row of elements that indices name.
struct Taken<'a, T, I> {
    at: &'a [I],
    /// The tensor from where the row's elements of index 0 begin.
    x: &'a [T],
    y: &'a mut [T],
    /// Between the elements of neighbours of one index.
    step: usize,
    /// Between those of neighbouring indices, and how many indices there are.
    along: usize,
    size: usize,
}

impl<T: Copy, I: Index> Kernel for Taken<'_, T, I> {
    /// Whether all indices name places; where not, the elements are arbitrary ones of the row.
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        let Taken {
            at,
            x,
            y,
            step,
            along,
            size,
        } = self;
        let last = at.len().saturating_sub(1) * step + size.saturating_sub(1) * along;
        if size == 0 || last >= x.len() {
            return at.is_empty();
        }
        let mut inside = true;
        for (column, (y, index)) in y.iter_mut().zip(at).enumerate() {
            // read once: another process may write to the memory of the indices
            let index = index.wide();
            let place = (index + (size as i64 & (index >> 63))) as u64;
            inside &= place < size as u64;
            let place = place.min(size as u64 - 1) as usize;
            // SAFETY: the place is below `size`, the column below the row's length, and the last element of the last column
            // lies in `x`, as was seen above.
            *y = unsafe { *x.get_unchecked(column * step + place * along) };
        }
        inside
    }
}

/// A tensor and an index tensor of the same rank, whose values replace the position along one axis.
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
    /// Indices of these extents along an axis of a tensor; `None` if the extents exceed the
    /// tensor's.
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

    /// Writes the elements of `x` at the indices to `y`.
    ///
    /// # Errors
    /// The first index out of range.
    ///
    /// # Panics
    /// If a length is not that of its shape.
    pub fn take<T: Copy + Send + Sync, I: Index>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        at: &[I],
        x: &[T],
        y: &mut [T],
    ) -> Result<(), Outside> {
        let Some((&row, outer)) = self.indices.split_last() else {
            return Ok(());
        };
        let (rows, along) = (outer.iter().product::<usize>(), self.strides[self.axis]);
        assert_eq!(
            (at.len(), y.len()),
            (rows * row, rows * row),
            "elements: indices and results"
        );
        let step = usize::from(self.axis != outer.len());
        let chunks = at.len().div_ceil(CHUNK).min(pool.threads() * 4).min(rows);
        let (out, failed) = (Parts::new(y), AtomicBool::new(false));
        pool.run(chunks, &|chunk| {
            for line in share(rows, chunks, chunk, 1) {
                let (mut base, mut rest) = (0, line);
                for (dimension, &size) in outer.iter().enumerate().rev() {
                    if dimension != self.axis {
                        base += rest % size * self.strides[dimension];
                    }
                    rest /= size;
                }
                let inside = isa.run(Taken {
                    at: &at[line * row..][..row],
                    x: &x[base.min(x.len())..],
                    // SAFETY: chunks share the rows out.
                    y: unsafe { out.part(line * row, row) },
                    step,
                    along,
                    size: self.size,
                });
                if !inside {
                    failed.store(true, Ordering::Relaxed);
                }
            }
        });
        if failed.into_inner() {
            self.each(|i| at[i].wide(), |_, _| ())?;
        }
        Ok(())
    }

    /// Calls `visit` with the position of each index, in order, and the offset of the indexed
    /// element.
    ///
    /// # Errors
    /// The first index out of range.
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

/// Coordinates of slices of a tensor.
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
    /// Indices of these extents, whose last dimension holds coordinates, into a tensor with which
    /// they share the first `shared` dimensions; `None` if the extents do not fit the tensor.
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

    /// Number of indexed slices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batches * self.count
    }

    /// Whether there are no indexed slices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with the index of each slice, in order, and its offset in the tensor.
    ///
    /// # Errors
    /// The first coordinate out of range.
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
