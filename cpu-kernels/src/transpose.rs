//! Permutations of dimensions, in blocks that fit the cache; NCHW to NHWC is one of them.

use crate::copy::CopyPlan;
use crate::{Error, ThreadPool};

/// A permutation of a dense array, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::{ThreadPool, transpose::TransposePlan};
///
/// let mut columns = [0; 6];
/// TransposePlan::new(&[2, 3], &[1, 0])?.run(&ThreadPool::new(1), &[1, 2, 3, 4, 5, 6], &mut columns);
/// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TransposePlan {
    copy: CopyPlan,
    len: usize,
    moves_rows: bool,
}

impl TransposePlan {
    /// Plans `output.shape[i] = shape[permutation[i]]` (ONNX `Transpose`).
    ///
    /// # Errors
    /// If `permutation` is not a permutation of the dimensions, or too many dimensions remain after merging.
    pub fn new(shape: &[usize], permutation: &[usize]) -> Result<Self, Error> {
        const NAME: &str = "transpose";
        if permutation.len() != shape.len() {
            let rule = "it must have one entry per dimension";
            return Err(Error::parameter(NAME, "permutation", permutation.len(), rule));
        }
        let len = crate::error::product(NAME, "the array", shape)?;
        let mut strides = vec![1isize; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(shape[i] as isize);
        }
        let (mut sizes, mut source) = (Vec::new(), Vec::new());
        for &from in permutation {
            if from >= shape.len() || permutation.iter().filter(|&&other| other == from).count() != 1 {
                let rule = "it must name each dimension once";
                return Err(Error::parameter(NAME, "permutation", from, rule));
            }
            sizes.push(shape[from]);
            source.push(strides[from]);
        }
        let mut target = vec![1isize; shape.len()];
        for i in (1..shape.len()).rev() {
            target[i - 1] = target[i].saturating_mul(sizes[i] as isize);
        }
        let last = sizes.iter().rposition(|&size| size > 1);
        Ok(Self {
            copy: CopyPlan::new(&sizes, 0, &source, 0, &target)?,
            len,
            moves_rows: last.is_none_or(|last| source[last] == 1),
        })
    }

    /// Whether contiguous elements stay contiguous.
    #[must_use]
    pub fn moves_rows(&self) -> bool {
        self.moves_rows
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
        assert_eq!(input.len(), self.len, "transpose: length of the input");
        assert_eq!(output.len(), self.len, "transpose: length of the output");
        self.copy.run(pool, input, output);
    }
}
