//! The part of a product that all tiles share, whatever the element types.
//!
//! Invariant: sums of floats are in f32, sums of bytes in i32.
//! Not here: how the operands are read (`load`).

use serde::{Deserialize, Serialize};

use super::batch::{BatchAxis, batches};
use super::quants::Quants;
use crate::{Access, DeclaredEpilogue, Epilogue, Error, Result, Scalar};

/// Memory layout of b.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Right {
    /// `[.., k, n]`, a tensor.
    Plain,
    /// `[.., n, k]`, a tensor.
    Transposed,
    /// A constant, in the layout of `pack_b`.
    Packed,
    /// A constant `[n, k]` in quantised blocks, in the layout of the file; one for the whole batch.
    Quantised(Quants),
}

impl Right {
    /// Access of b.
    pub(super) fn access(self) -> Access {
        match self {
            Right::Packed | Right::Quantised(_) => Access::Constant,
            _ => Access::Read,
        }
    }

    /// Whether k runs in memory.
    pub(super) fn transposed(self) -> bool {
        matches!(self, Right::Transposed | Right::Quantised(_))
    }
}

/// Zero points as the tiles see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Zeros {
    /// Whether a's bytes are unsigned.
    pub(super) unsigned_a: bool,
    /// Bytes of a row of a.
    pub(super) k: u32,
    /// Whether b has zero points other than nought.
    pub(super) b: bool,
}

/// What is multiplied and summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    /// Floats, summed in f32.
    Floats,
    /// Words of four bytes along k, summed in i32.
    Bytes(Zeros),
}

/// What a tile needs to know of a product.
pub(super) struct Product<'a> {
    pub(super) variant: String,
    pub(super) batch: &'a [BatchAxis],
    pub(super) m: u32,
    pub(super) n: u32,
    /// Counted in floats, or in packed words.
    pub(super) k: u32,
    pub(super) transposed_a: bool,
    pub(super) b: Right,
    pub(super) scalar: Scalar,
    pub(super) arithmetic: Arithmetic,
    pub(super) epilogue: &'a Epilogue,
    pub(super) work: u64,
}

impl Product<'_> {
    pub(super) fn batches(&self) -> u64 {
        batches(self.batch)
    }

    /// Rows of the output, batches folded in.
    pub(super) fn rows(&self) -> u64 {
        self.batches() * u64::from(self.m)
    }

    /// Type of one staged element.
    pub(super) fn element(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::Floats => "f32",
            Arithmetic::Bytes(_) => "u32",
        }
    }

    /// Type of four sums.
    pub(super) fn sum(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::Floats => "vec4<f32>",
            Arithmetic::Bytes(_) => "vec4<i32>",
        }
    }

    /// A statement that adds the product of an element of a with four of b.
    pub(super) fn add(&self, sum: &str, a: &str, b: &str) -> String {
        match self.arithmetic {
            Arithmetic::Floats => format!("{sum} = fma(vec4<f32>({a}), {b}, {sum});"),
            Arithmetic::Bytes(_) => format!(
                "{sum} += vec4<i32>(dot4I8Packed({a}, {b}.x), dot4I8Packed({a}, {b}.y), \
                 dot4I8Packed({a}, {b}.z), dot4I8Packed({a}, {b}.w));"
            ),
        }
    }

    /// Whether sums of a's rows are needed: `row_sum{row}`.
    pub(super) fn row_sums(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Bytes(zeros) if zeros.b)
    }

    /// Statements that end the four sums at a row and a column, which may not exist.
    pub(super) fn end(&self, epilogue: &DeclaredEpilogue<'_>, sum: &str, row: &str, column: &str) -> String {
        let row = format!("(group.z * {}u + {row})", self.m);
        match self.arithmetic {
            Arithmetic::Floats => epilogue.four(sum, &row, column),
            Arithmetic::Bytes(_) => {
                epilogue.four_integers(&format!("({sum} + b_correction(b_base, {column}))"), &row, column)
            }
        }
    }

    /// The workgroups for a tile of the output.
    pub(super) fn groups(&self, m: u32, n: u32) -> Result<[u32; 3]> {
        let z = u32::try_from(self.batches()).map_err(|_| Error::new("a batch beyond 32 bits"))?;
        Ok([self.n.div_ceil(n), self.m.div_ceil(m), z])
    }
}
