//! Permutations of dimensions, in blocks that fit the cache; NCHW to NHWC is one of them.

use crate::{Error, ThreadPool};

/// A permutation of a dense array, worked out once.
#[derive(Debug, Clone)]
pub struct TransposePlan {
    copy: crate::copy::CopyPlan,
}

impl TransposePlan {
    /// Plans `output.shape[i] = shape[permutation[i]]` (ONNX `Transpose`).
    ///
    /// # Errors
    /// If `permutation` is not a permutation of the dimensions, or too many dimensions remain after merging.
    pub fn new(shape: &[usize], permutation: &[usize]) -> Result<Self, Error> {
        let _ = (shape, permutation);
        unimplemented!("lands next")
    }

    /// `[n, c, spatial]` to `[n, spatial, c]`.
    ///
    /// # Errors
    /// If the size does not fit the address space.
    pub fn channels_last(n: usize, c: usize, spatial: usize) -> Result<Self, Error> {
        Self::new(&[n, c, spatial], &[0, 2, 1])
    }

    /// `[n, spatial, c]` to `[n, c, spatial]`.
    ///
    /// # Errors
    /// If the size does not fit the address space.
    pub fn channels_first(n: usize, c: usize, spatial: usize) -> Result<Self, Error> {
        Self::new(&[n, spatial, c], &[0, 2, 1])
    }

    /// Permutes elements of any plain type.
    ///
    /// # Panics
    /// If a slice's length is not the number of elements.
    pub fn run<T: Copy + Send + Sync>(&self, pool: &ThreadPool, input: &[T], output: &mut [T]) {
        self.copy.run(pool, input, output);
    }
}
