//! Strided copies: slices, concatenations, expansions and gathers of whole rows are all one loop nest.
//!
//! Strides are in elements and may be negative (reversed slices) or zero (repetition of the source).
#![allow(unsafe_code)]

use crate::{Error, ThreadPool};

/// The most dimensions that remain after adjacent ones are merged.
pub const MAX_DIMS: usize = 8;

/// A loop nest over `N` operands: sizes and element strides, merged where dimensions are adjacent in all of them.
#[derive(Debug, Clone)]
pub(crate) struct Loops<const N: usize> {
    dims: [(usize, [isize; N]); MAX_DIMS],
    rank: usize,
}

impl<const N: usize> Loops<N> {
    pub(crate) fn len(&self) -> usize {
        self.dims[..self.rank].iter().map(|dim| dim.0).product()
    }
}

/// A copy between two strided views of the same shape.
#[derive(Debug, Clone)]
pub struct CopyPlan {
    loops: Loops<2>,
}

impl CopyPlan {
    /// Plans `target[offset_t + i·strides_t] = source[offset_s + i·strides_s]` for every index `i` of `shape`.
    ///
    /// # Errors
    /// If the slices differ in length, more than [`MAX_DIMS`] dimensions remain after merging, or an index leaves
    /// the address space.
    pub fn new(
        shape: &[usize],
        source_offset: usize,
        source_strides: &[isize],
        target_offset: usize,
        target_strides: &[isize],
    ) -> Result<Self, Error> {
        let _ = (
            shape,
            source_offset,
            source_strides,
            target_offset,
            target_strides,
        );
        unimplemented!("lands next")
    }

    /// Copies elements of any plain type.
    ///
    /// # Panics
    /// If a view leaves its slice.
    pub fn run<T: Copy + Send + Sync>(&self, pool: &ThreadPool, source: &[T], target: &mut [T]) {
        let _ = (pool, source, target, &self.loops);
        unimplemented!("lands next")
    }
}
