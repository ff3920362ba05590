//! Matrix products: `a [.., m, k]` times `b [.., k, n]`, batched, with an epilogue, in tiles that suit the shape.
//!
//! Invariants:
//! 1. Bindings are a, b, the epilogue's operands, the output `[batches * m, n]`, in this order.
//! 2. Sums are in f32, whatever the storage; in cooperative matrices too.
//! 3. Any m, n and k of at least 1 are supported: edges of tiles are guarded, or clamped and not
//!    stored.
//!
//! Not here: products of bytes ([`GemmInt8`]), convolutions.

mod batch;
mod blocked;
mod candidates;
mod int8;
mod load;
mod matrix;
mod pack;
mod product;
mod quants;
mod sliced;
mod tile;

use half::f16;
use serde::{Deserialize, Serialize};

use crate::{Epilogue, Error, Generate, Kernel, Limits, Result, Sample, Scalar, Values};

pub use batch::BatchAxis;
pub use int8::GemmInt8;
pub use pack::pack_b;
pub use product::Right;
pub use quants::Quants;
pub use tile::GemmTile;

use batch::{batches, own_batch, own_batches};
use product::{Arithmetic, Product};

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
    /// Whether a is stored transposed, `[.., k, m]`.
    pub transposed_a: bool,
    /// Memory layout of b.
    pub b: Right,
    /// Storage of a and b: f32 or f16.
    pub scalar: Scalar,
    /// Applied to each sum before it is stored; its rows are `batches * m`.
    pub epilogue: Epilogue,
    /// One of [`Gemm::candidates`].
    pub tile: GemmTile,
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
            (false, Right::Packed) => String::new(),
            (true, Right::Packed) => "-t".to_owned(),
            (false, Right::Plain) => "-nn".to_owned(),
            (true, Right::Plain) => "-tn".to_owned(),
            (false, Right::Transposed) => "-nt".to_owned(),
            (true, Right::Transposed) => "-tt".to_owned(),
            (false, Right::Quantised(quants)) => format!("-n-{}", quants.name()),
            (true, Right::Quantised(quants)) => format!("-t-{}", quants.name()),
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
        if let Right::Quantised(quants) = self.b
            && (!u64::from(self.k).is_multiple_of(quants.elements()) || self.batch.iter().any(|axis| axis.b))
        {
            return Err(Error::new(format!(
                "a product of {} with blocks of {}: k is {}, of {} batches",
                self.scalar.name(),
                quants.name(),
                self.k,
                self.batches()
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

impl Generate for Gemm {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
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
        let (b, blocks) = match self.b {
            Right::Quantised(quants) => {
                let (blocks, values) = quants.sample(2, own_b * k * n);
                (values, blocks)
            }
            _ => (round(Values::floats(2, own_b * k * n)), Vec::new()),
        };
        let transposed_b = self.b.transposed();
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
            Right::Quantised(_) => Values::U8(blocks),
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
            // rounding of f32 sums, or of one f16 at the end; matrix units round the weights of blocks to f16
            tolerance: match (self.epilogue.output, self.b, self.tile) {
                (_, Right::Quantised(_), GemmTile::Matrix { .. }) => 2e-3,
                (Scalar::F16, ..) => 1.0 / 1024.0,
                _ => 1e-5,
            },
        }
    }
}
