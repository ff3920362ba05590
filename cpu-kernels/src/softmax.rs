//! Softmax and its logarithm over any axis, given as `[outer, axis, inner]`.
#![allow(unsafe_code)]

use crate::{Isa, ThreadPool};

/// Softmax over the middle dimension of `[outer, axis, inner]`.
///
/// `output` is `input` where the caller wants it in place: use [`softmax_in_place`].
///
/// # Panics
/// If a length is not `outer * axis * inner`.
pub fn softmax(
    isa: Isa,
    pool: &ThreadPool,
    [outer, axis, inner]: [usize; 3],
    input: &[f32],
    output: &mut [f32],
) {
    let _ = (isa, pool, outer, axis, inner, input, output);
    unimplemented!("lands next")
}

/// [`softmax`] that overwrites its input.
///
/// # Panics
/// If the length is not `outer * axis * inner`.
pub fn softmax_in_place(isa: Isa, pool: &ThreadPool, [outer, axis, inner]: [usize; 3], data: &mut [f32]) {
    let _ = (isa, pool, outer, axis, inner, data);
    unimplemented!("lands next")
}

/// The logarithm of [`softmax`], without its underflow.
///
/// # Panics
/// If a length is not `outer * axis * inner`.
pub fn log_softmax(
    isa: Isa,
    pool: &ThreadPool,
    [outer, axis, inner]: [usize; 3],
    input: &[f32],
    output: &mut [f32],
) {
    let _ = (isa, pool, outer, axis, inner, input, output);
    unimplemented!("lands next")
}
