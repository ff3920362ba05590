//! Normalisations over the last dimension, with the residual addition that usually precedes them.
#![allow(unsafe_code)]

use crate::{Isa, ThreadPool};

/// Which normalisation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
    Layer,
    /// `x / sqrt(mean(x^2) + epsilon) * scale + bias`.
    Rms,
}

/// The operands of [`norm`] beside its input.
#[derive(Debug, Clone, Copy)]
pub struct NormParams<'a> {
    /// Which normalisation.
    pub norm: Norm,
    /// Added to the variance.
    pub epsilon: f32,
    /// Factor per column, `[columns]`.
    pub scale: Option<&'a [f32]>,
    /// Summand per column, `[columns]`.
    pub bias: Option<&'a [f32]>,
    /// Added to the input first, `[rows, columns]`.
    pub residual: Option<&'a [f32]>,
}

/// Normalises each row of `[rows, columns]`; `sum` receives `input + residual` where the caller wants it.
///
/// # Panics
/// If the length of `input`, `output`, `sum` or the residual is not `rows * columns`, or that of scale or bias is
/// not `columns`.
pub fn norm(
    isa: Isa,
    pool: &ThreadPool,
    rows: usize,
    columns: usize,
    params: NormParams<'_>,
    input: &[f32],
    sum: Option<&mut [f32]>,
    output: &mut [f32],
) {
    let _ = (isa, pool, rows, columns, params, input, sum, output);
    unimplemented!("lands next")
}

/// `output[r, c] = f(input[r, c] * scale[c] + shift[c])`: batch normalisation of a channels-last image.
///
/// # Panics
/// If the length of `input` or `output` is not a multiple of that of `scale`, or `shift` differs from it.
pub fn scale_shift(
    isa: Isa,
    pool: &ThreadPool,
    scale: &[f32],
    shift: &[f32],
    activation: crate::Unary,
    input: &[f32],
    output: &mut [f32],
) {
    let _ = (isa, pool, scale, shift, activation, input, output);
    unimplemented!("lands next")
}
