//! Matrix products: `C = activation(A · B + bias + residual)`, with B packed once or packed per run.
#![allow(unsafe_code)]

use crate::{Epilogue, Error, Isa, ThreadPool};

/// A strided matrix: element `[r, c]` is `data[r * row_stride + c * column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Elements between rows.
    pub row_stride: usize,
    /// Elements between columns.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are contiguous and `row_stride` elements apart.
    #[must_use]
    pub const fn rows(data: &'a [f32], row_stride: usize) -> Self {
        Self {
            data,
            row_stride,
            column_stride: 1,
        }
    }

    /// A matrix whose columns are contiguous and `column_stride` elements apart: the transpose of [`rows`](Self::rows).
    #[must_use]
    pub const fn columns(data: &'a [f32], column_stride: usize) -> Self {
        Self {
            data,
            row_stride: 1,
            column_stride,
        }
    }
}

/// A product with a constant right operand `[k, n]`, packed once.
#[derive(Debug, Clone)]
pub struct GemmPlan {
    isa: Isa,
    k: usize,
    n: usize,
}

impl GemmPlan {
    /// Plans a product `[m, k] · [k, n]` for any `m`.
    ///
    /// # Errors
    /// If the packed size does not fit the address space.
    pub fn new(isa: Isa, k: usize, n: usize) -> Result<Self, Error> {
        Ok(Self { isa, k, n })
    }

    /// Floats of the packed operand. It depends on `k`, `n` and [`Isa::code`] alone, as does its layout.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        let _ = (self.isa, self.k, self.n);
        unimplemented!("lands next")
    }

    /// Packs `b` `[k, n]` and the bias `[n]`.
    ///
    /// # Panics
    /// If a length is too small, or `packed` is not [`packed_len`](Self::packed_len) long.
    pub fn pack(&self, b: Matrix<'_>, bias: Option<&[f32]>, packed: &mut [f32]) {
        let _ = (b, bias, packed);
        unimplemented!("lands next")
    }

    /// Floats of scratch that a run with `m` rows needs.
    #[must_use]
    pub fn scratch_len(&self, m: usize, pool: &ThreadPool) -> usize {
        let _ = (m, pool);
        unimplemented!("lands next")
    }

    /// `c = epilogue(a · b + bias, residual)` for `m` rows; row `r` of `c` starts at `r * c_stride`.
    ///
    /// # Panics
    /// If a slice is too short for its shape, or scratch is shorter than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        pool: &ThreadPool,
        m: usize,
        a: Matrix<'_>,
        packed: &[f32],
        residual: Option<Matrix<'_>>,
        epilogue: Epilogue,
        c: &mut [f32],
        c_stride: usize,
        scratch: &mut [f32],
    ) {
        let _ = (pool, m, a, packed, residual, epilogue, c, c_stride, scratch);
        unimplemented!("lands next")
    }
}

/// The most batch dimensions of a [`MatMulPlan`]; callers merge or loop over further ones.
pub const MAX_BATCH_DIMS: usize = 4;

/// Strides of one operand of a batched product, in elements; a batch stride of 0 repeats the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strides {
    /// Between matrices, per batch dimension.
    pub batch: [usize; MAX_BATCH_DIMS],
    /// Between rows.
    pub row: usize,
    /// Between columns.
    pub column: usize,
}

/// Shape of a batched product `c[batch, m, n] = alpha * a[batch, m, k] · b[batch, k, n]`, both operands computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatMulParams {
    /// Batch dimensions, outermost first; unused ones are 1.
    pub batch: [usize; MAX_BATCH_DIMS],
    /// Rows of a and c.
    pub m: usize,
    /// Columns of a, rows of b.
    pub k: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Strides of a.
    pub a: Strides,
    /// Strides of b.
    pub b: Strides,
    /// Strides of c; its column stride is 1.
    pub c: Strides,
    /// Factor of the product.
    pub alpha: f32,
    /// Applied to the result; it has no residual operand here.
    pub activation: crate::Unary,
}

impl MatMulParams {
    /// A dense product with one batch dimension and no transposition.
    #[must_use]
    pub const fn dense(batch: usize, m: usize, k: usize, n: usize) -> Self {
        Self {
            batch: [1, 1, 1, batch],
            m,
            k,
            n,
            a: Strides {
                batch: [0, 0, 0, m * k],
                row: k,
                column: 1,
            },
            b: Strides {
                batch: [0, 0, 0, k * n],
                row: n,
                column: 1,
            },
            c: Strides {
                batch: [0, 0, 0, m * n],
                row: n,
                column: 1,
            },
            alpha: 1.0,
            activation: crate::Unary::Identity,
        }
    }
}

/// A batched product of two computed operands (attention scores and the like).
#[derive(Debug, Clone)]
pub struct MatMulPlan {
    isa: Isa,
    params: MatMulParams,
}

impl MatMulPlan {
    /// Plans a product.
    ///
    /// # Errors
    /// If the column stride of c is not 1, or a size does not fit the address space.
    pub fn new(isa: Isa, params: MatMulParams) -> Result<Self, Error> {
        Ok(Self { isa, params })
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let _ = (self.isa, self.params, pool);
        unimplemented!("lands next")
    }

    /// Runs the product.
    ///
    /// # Panics
    /// If a slice is too short for its shape and strides, or scratch is too short.
    pub fn run(&self, pool: &ThreadPool, a: &[f32], b: &[f32], c: &mut [f32], scratch: &mut [f32]) {
        let _ = (pool, a, b, c, scratch);
        unimplemented!("lands next")
    }
}
