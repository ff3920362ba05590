//! Reductions of any set of axes of a dense array.
#![allow(unsafe_code)]

use crate::{Error, Isa, ThreadPool};

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduce {
    /// `Σ x`; 0 over nothing.
    Sum,
    /// `Σ x / count`; NaN over nothing.
    Mean,
    /// The largest value, NaN if any is; minus infinity over nothing.
    Max,
    /// The least value, NaN if any is; infinity over nothing.
    Min,
    /// `Π x`; 1 over nothing.
    Prod,
    /// `Σ |x|`.
    L1,
    /// `sqrt(Σ x²)`.
    L2,
    /// `Σ x²`.
    SumSquare,
    /// `ln Σ x`.
    LogSum,
}

/// The loops of a reduction, worked out once.
#[derive(Debug, Clone)]
pub struct ReducePlan {
    loops: crate::copy::Loops<2>,
}

impl ReducePlan {
    /// Plans a reduction of `shape` over the axes for which `reduced` is true; the output is dense without them.
    ///
    /// # Errors
    /// If the slices differ in length, or too many dimensions remain after merging.
    pub fn new(shape: &[usize], reduced: &[bool]) -> Result<Self, Error> {
        let _ = (shape, reduced);
        unimplemented!("lands next")
    }

    /// `output = f(input)` over the planned axes.
    ///
    /// # Panics
    /// If a slice's length is not that of its planned shape.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, f: Reduce, input: &[f32], output: &mut [f32]) {
        let _ = (isa, pool, f, input, output, &self.loops);
        unimplemented!("lands next")
    }
}
