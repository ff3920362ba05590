//! Matrix products: `a [.., m, k]` times `b [.., k, n]`, batched, with an epilogue, in tiles that suit the shape.
//!
//! Invariants:
//! 1. Bindings are a, b, the epilogue's operands, the output `[batches * m, n]`, in this order.
//! 2. Sums are in f32, whatever the storage; in cooperative matrices too.
//! 3. Any m, n and k of at least 1 is right: edges of tiles are guarded, or clamped and not stored.
//!
//! Not here: products of bytes ([`GemmInt8`]), convolutions.

mod blocked;
mod candidates;
mod int8;
mod load;
mod matrix;
mod pack;
mod sliced;

use half::f16;
use serde::{Deserialize, Serialize};

pub use int8::GemmInt8;
pub use pack::pack_b;

use crate::{
    Access, Ending, Epilogue, Error, Generate, Kernel, Limits, Result, Sample, Scalar, Text, Values,
};

/// One axis of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchAxis {
    /// Length in the output.
    pub count: u32,
    /// Whether a has the axis; else it is the same along it.
    pub a: bool,
    /// Whether b has the axis; else it is the same along it.
    pub b: bool,
}

/// How b lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Right {
    /// `[.., k, n]`, a tensor.
    Plain,
    /// `[.., n, k]`, a tensor.
    Transposed,
    /// A constant, as [`pack_b`] lays it out.
    Packed,
}

/// Shape of the work of a workgroup and of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GemmTile {
    /// No workgroup memory but for the last sums: for small or narrow outputs. `across` times `down` threads
    /// have 4 columns and `rows` rows each, and `slices` such sets share the sums of k.
    Sliced {
        /// Threads along n.
        across: u32,
        /// Threads along m.
        down: u32,
        /// Rows of a thread.
        rows: u32,
        /// Parts of k.
        slices: u32,
    },
    /// Tiles of a and b in workgroup memory; a thread has `rows` by `columns` sums, both multiples of 4.
    Blocked {
        /// Rows of a workgroup.
        m: u32,
        /// Columns of a workgroup.
        n: u32,
        /// Depth staged at once, a multiple of 4.
        k: u32,
        /// Rows of a thread.
        rows: u32,
        /// Columns of a thread.
        columns: u32,
    },
    /// Cooperative matrices on f16 storage; a subgroup has `rows` by `columns` sums.
    Matrix {
        /// Rows of a workgroup.
        m: u32,
        /// Columns of a workgroup.
        n: u32,
        /// Depth staged at once.
        k: u32,
        /// Rows of a subgroup.
        rows: u32,
        /// Columns of a subgroup.
        columns: u32,
    },
}

impl GemmTile {
    /// Name as in variants of kernels.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            GemmTile::Sliced {
                across,
                down,
                rows,
                slices,
            } => format!("sliced-{across}x{down}x{rows}x{slices}"),
            GemmTile::Blocked {
                m,
                n,
                k,
                rows,
                columns,
            } => format!("{m}x{n}x{k}-{rows}x{columns}"),
            GemmTile::Matrix {
                m,
                n,
                k,
                rows,
                columns,
            } => format!("matrix-{m}x{n}x{k}-{rows}x{columns}"),
        }
    }
}

/// A product of floats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gemm {
    /// Axes of the batch, outermost first; empty for one product.
    pub batch: Vec<BatchAxis>,
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Whether a is `[.., k, m]`.
    pub transposed_a: bool,
    /// How b lies.
    pub b: Right,
    /// Storage of a and b: f32 or f16.
    pub scalar: Scalar,
    /// What ends each sum; its rows are `batches * m`.
    pub epilogue: Epilogue,
    /// GemmTile, one of [`Gemm::candidates`].
    pub tile: GemmTile,
}

/// Products in the batch.
fn batches(batch: &[BatchAxis]) -> u64 {
    batch
        .iter()
        .fold(1u64, |all, axis| all.saturating_mul(axis.count.into()))
}

/// Matrices that one side has.
fn own_batches(batch: &[BatchAxis], has: impl Fn(&BatchAxis) -> bool) -> u64 {
    batch
        .iter()
        .filter(|axis| has(axis))
        .fold(1u64, |all, axis| all.saturating_mul(axis.count.into()))
}

/// The number of a side's matrix for a number of the output's, both row-major.
fn own_batch(batch: &[BatchAxis], index: u64, has: impl Fn(&BatchAxis) -> bool) -> u64 {
    let (mut rest, mut own, mut stride) = (index, 0, 1);
    for axis in batch.iter().rev() {
        let count = u64::from(axis.count.max(1));
        if has(axis) {
            own += rest % count * stride;
            stride *= count;
        }
        rest /= count;
    }
    own
}

/// WGSL of [`own_batch`] for `group.z`, times the elements of one matrix.
fn base_text(batch: &[BatchAxis], elements: u64, has: impl Fn(&BatchAxis) -> bool) -> String {
    let (mut terms, mut inner, mut stride) = (Vec::new(), 1u64, elements);
    for axis in batch.iter().rev() {
        let count = u64::from(axis.count);
        if has(axis) && count > 1 {
            terms.push(format!("group.z / {inner}u % {count}u * {stride}u"));
            stride *= count;
        }
        inner *= count;
    }
    if terms.is_empty() {
        "0u".to_owned()
    } else {
        terms.join(" + ")
    }
}

impl Gemm {
    /// The same with another tile.
    #[must_use]
    pub fn with(&self, tile: GemmTile) -> Gemm {
        Gemm { tile, ..self.clone() }
    }

    /// Products in the batch.
    #[must_use]
    pub fn batches(&self) -> u64 {
        batches(&self.batch)
    }

    /// Multiply-adds of the launch.
    #[must_use]
    pub fn work(&self) -> u64 {
        [self.batches(), self.m.into(), self.n.into(), self.k.into()]
            .into_iter()
            .fold(1, u64::saturating_mul)
    }

    fn variant(&self) -> String {
        let layout = match (self.transposed_a, self.b) {
            (false, Right::Packed) => "",
            (true, Right::Packed) => "-t",
            (false, Right::Plain) => "-nn",
            (true, Right::Plain) => "-tn",
            (false, Right::Transposed) => "-nt",
            (true, Right::Transposed) => "-tt",
        };
        format!(
            "gemm-{}{layout}-{}{}",
            self.scalar.name(),
            self.tile.name(),
            self.epilogue.name()
        )
    }

    fn check(&self) -> Result<()> {
        let whole = [self.m, self.n, self.k].into_iter().all(|n| n != 0)
            && self.batch.iter().all(|axis| axis.count != 0);
        if !whole || !matches!(self.scalar, Scalar::F32 | Scalar::F16) {
            return Err(Error::new(format!(
                "a product of {} in {} batches of m {}, n {}, k {}",
                self.scalar.name(),
                self.batches(),
                self.m,
                self.n,
                self.k
            )));
        }
        // indices of elements are 32-bit
        let sides = [
            own_batches(&self.batch, |axis| axis.a) * u64::from(self.m) * u64::from(self.k),
            own_batches(&self.batch, |axis| axis.b) * u64::from(self.n + 3) * u64::from(self.k),
            self.batches() * u64::from(self.m) * u64::from(self.n),
        ];
        match sides.into_iter().max() {
            Some(most) if most > u64::from(u32::MAX) => Err(Error::new(format!(
                "a matrix of a product has {most} elements, an index reaches {}",
                u32::MAX
            ))),
            _ => Ok(()),
        }
    }

    fn product(&self) -> Product<'_> {
        Product {
            variant: self.variant(),
            batch: &self.batch,
            m: self.m,
            n: self.n,
            k: self.k,
            transposed_a: self.transposed_a,
            b: self.b,
            scalar: self.scalar,
            arithmetic: Arithmetic::Floats,
            epilogue: &self.epilogue,
            work: self.work(),
        }
    }
}

/// What is multiplied and summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    /// Floats, summed in f32.
    Floats,
    /// Words of four bytes along k, summed in i32.
    Bytes(int8::Zeros),
}

/// What a tile needs to know of a product.
struct Product<'a> {
    variant: String,
    batch: &'a [BatchAxis],
    m: u32,
    n: u32,
    /// In floats, or in words.
    k: u32,
    transposed_a: bool,
    b: Right,
    scalar: Scalar,
    arithmetic: Arithmetic,
    epilogue: &'a Epilogue,
    work: u64,
}

impl Product<'_> {
    fn batches(&self) -> u64 {
        batches(self.batch)
    }

    /// Rows of the output, batches folded in.
    fn rows(&self) -> u64 {
        self.batches() * u64::from(self.m)
    }

    /// Type of one staged element.
    fn element(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::Floats => "f32",
            Arithmetic::Bytes(_) => "u32",
        }
    }

    /// Type of four sums.
    fn sum(&self) -> &'static str {
        match self.arithmetic {
            Arithmetic::Floats => "vec4<f32>",
            Arithmetic::Bytes(_) => "vec4<i32>",
        }
    }

    /// Declares a and b with functions that read them.
    fn declare(&self, text: &mut Text, zero: load::Zero) -> load::Sides {
        match self.arithmetic {
            Arithmetic::Floats => load::declare(self, text, zero, "f32"),
            Arithmetic::Bytes(zeros) => int8::declare(self, zeros, text),
        }
    }

    /// A statement that adds the product of an element of a with four of b.
    fn add(&self, sum: &str, a: &str, b: &str) -> String {
        match self.arithmetic {
            Arithmetic::Floats => format!("{sum} = fma(vec4<f32>({a}), {b}, {sum});"),
            Arithmetic::Bytes(_) => format!(
                "{sum} += vec4<i32>(dot4I8Packed({a}, {b}.x), dot4I8Packed({a}, {b}.y), \
                 dot4I8Packed({a}, {b}.z), dot4I8Packed({a}, {b}.w));"
            ),
        }
    }

    /// Whether sums of a's rows are needed: `row_sum{row}`.
    fn row_sums(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Bytes(zeros) if zeros.b)
    }

    /// Statements that end the four sums at a row and a column, which may not exist.
    fn end(&self, ending: &Ending<'_>, sum: &str, row: &str, column: &str) -> String {
        let row = format!("(group.z * {}u + {row})", self.m);
        match self.arithmetic {
            Arithmetic::Floats => ending.four(sum, &row, column),
            Arithmetic::Bytes(_) => {
                ending.four_integers(&format!("({sum} + b_correction(b_base, {column}))"), &row, column)
            }
        }
    }

    /// The workgroups for a tile of the output.
    fn groups(&self, m: u32, n: u32) -> Result<[u32; 3]> {
        let z = u32::try_from(self.batches()).map_err(|_| Error::new("a batch beyond 32 bits"))?;
        Ok([self.n.div_ceil(n), self.m.div_ceil(m), z])
    }
}

impl Generate for Gemm {
    fn small(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        match self.tile {
            GemmTile::Sliced { .. } => sliced::kernel(&self.product(), self.tile, limits),
            GemmTile::Blocked { .. } => blocked::kernel(&self.product(), self.tile, limits),
            GemmTile::Matrix { .. } => matrix::kernel(&self.product(), self.tile, limits),
        }
    }

    fn sample(&self) -> Sample {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let round = |values: Vec<f32>| -> Vec<f32> {
            match self.scalar {
                Scalar::F16 => values.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
                _ => values,
            }
        };
        let store = |values: &[f32]| match self.scalar {
            Scalar::F16 => Values::F16(values.iter().map(|&x| f16::from_f32(x)).collect()),
            _ => Values::F32(values.to_vec()),
        };
        let own_a = own_batches(&self.batch, |axis| axis.a) as usize;
        let own_b = own_batches(&self.batch, |axis| axis.b) as usize;
        let a = round(Values::floats(1, own_a * m * k));
        let b = round(Values::floats(2, own_b * k * n));
        let transposed_b = self.b == Right::Transposed;
        let mut sums = Vec::with_capacity(self.batches() as usize * m * n);
        for batch in 0..self.batches() {
            let a = &a[own_batch(&self.batch, batch, |axis| axis.a) as usize * m * k..][..m * k];
            let b = &b[own_batch(&self.batch, batch, |axis| axis.b) as usize * k * n..][..k * n];
            for row in 0..m {
                for column in 0..n {
                    let sum: f64 = (0..k)
                        .map(|i| {
                            let a = a[if self.transposed_a {
                                i * m + row
                            } else {
                                row * k + i
                            }];
                            let b = b[if transposed_b {
                                column * k + i
                            } else {
                                i * n + column
                            }];
                            f64::from(a) * f64::from(b)
                        })
                        .sum();
                    sums.push(sum as f32);
                }
            }
        }
        let (operands, after) =
            self.epilogue
                .sample(&sums, self.batches() * u64::from(self.m), self.n.into());
        let b = match self.b {
            Right::Packed => store(&pack::lay_out(&b, own_b, k, n, false)),
            _ => store(&b),
        };
        let mut before = vec![store(&a), b];
        before.extend(operands);
        let mut right = vec![None; before.len()];
        before.push(Values::zeros(self.epilogue.output, after.len()));
        right.push(Some(after));
        Sample {
            before,
            after: right,
            // rounding of f32 sums, or of one f16 at the end
            tolerance: match self.epilogue.output {
                Scalar::F16 => 1.0 / 1024.0,
                _ => 1e-5,
            },
        }
    }
}

/// Access of b.
fn b_access(b: Right) -> Access {
    match b {
        Right::Packed => Access::Constant,
        _ => Access::Read,
    }
}
