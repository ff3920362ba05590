//! Products of bytes: four bytes along k are packed in a word, and are multiplied and summed in
//! i32, by one instruction if the device has it.
//!
//! Both sides are multiplied as signed bytes: an unsigned byte is its value less 128, and so is its zero point.
//! With zero points `za` and `zb[column]` the sum of `(a - za) * (b - zb)` is the sum of `a * b`, and of
//! `k * za * zb - za * (sum of b's column)`, which is packed with b, less `zb * (sum of a's row)`.
//!
//! Invariants:
//! 1. Sums are exact: k is at most 2^31 / 128^2, and a sum within 32 bits wherever its true value is.
//! 2. Bytes of a beyond k count as zero after the shift to signed ones.

use serde::{Deserialize, Serialize};

use super::batch::{BatchAxis, batches, own_batch, own_batches};
use super::product::{Arithmetic, Product, Right, Zeros};
use super::tile::GemmTile;
use super::{blocked, pack, sliced};
use crate::{Epilogue, Error, Generate, Kernel, Limits, Result, Sample, Scalar, Values};

/// A product of bytes: a is a tensor `[.., m, k]`, b a constant packed by [`GemmInt8::pack_b`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GemmInt8 {
    /// Axes of the batch, outermost first; empty for one product.
    pub batch: Vec<BatchAxis>,
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Type of a: i8 or u8.
    pub a: Scalar,
    /// Zero point of a.
    pub a_zero: i32,
    /// Type of b before it is packed: i8 or u8.
    pub b: Scalar,
    /// Zero points of b: one, or one per column.
    pub b_zeros: Vec<i32>,
    /// Applied to each sum as f32; the sum itself is an exact i32.
    pub epilogue: Epilogue,
    /// Sliced or blocked; depths count words of four.
    pub tile: GemmTile,
}

/// A zero point as of signed bytes.
fn signed_zero(zero: i32, scalar: Scalar) -> i32 {
    if scalar == Scalar::U8 { zero - 128 } else { zero }
}

impl GemmInt8 {
    /// The same with another tile.
    #[must_use]
    pub fn with(&self, tile: GemmTile) -> GemmInt8 {
        GemmInt8 { tile, ..self.clone() }
    }

    /// Multiply-adds of the launch.
    #[must_use]
    pub fn work(&self) -> u64 {
        [batches(&self.batch), self.m.into(), self.n.into(), self.k.into()]
            .into_iter()
            .fold(1, u64::saturating_mul)
    }

    fn b_zero(&self, column: usize) -> i32 {
        let zero = match self.b_zeros.as_slice() {
            [] => 0,
            [one] => *one,
            all => all[column],
        };
        signed_zero(zero, self.b)
    }

    fn row_sums(&self) -> bool {
        (0..self.b_zeros.len().max(1)).any(|column| self.b_zero(column) != 0)
    }

    fn check(&self) -> Result<()> {
        let bytes = |scalar| matches!(scalar, Scalar::I8 | Scalar::U8);
        let zeros = [0, 1, self.n as usize].contains(&self.b_zeros.len());
        let whole = [self.m, self.n, self.k].into_iter().all(|n| n != 0)
            && self.batch.iter().all(|axis| axis.count != 0);
        if !bytes(self.a) || !bytes(self.b) || !zeros || !whole || self.k > 1 << 17 {
            return Err(Error::new(format!(
                "a product of {} and {} with {} zero points in {} batches of m {}, n {}, k {}",
                self.a.name(),
                self.b.name(),
                self.b_zeros.len(),
                batches(&self.batch),
                self.m,
                self.n,
                self.k
            )));
        }
        let most = (own_batches(&self.batch, |axis| axis.a) * u64::from(self.m) * u64::from(self.k))
            .max(batches(&self.batch) * u64::from(self.m) * u64::from(self.n));
        if most > u64::from(u32::MAX) {
            return Err(Error::new(format!(
                "a matrix of a product has {most} elements, an index reaches {}",
                u32::MAX
            )));
        }
        Ok(())
    }

    /// Packs b, the bytes of `[batches, k, n]` or with `transposed` of `[batches, n, k]`: per matrix words of four
    /// along k, `[k / 4, n]` with n padded to fours; a row of corrections; a row of zero points.
    ///
    /// # Errors
    /// The number of bytes does not match the shape.
    pub fn pack_b(&self, bytes: &[u8], transposed: bool) -> Result<Vec<u8>> {
        self.check()?;
        let (n, k) = (self.n as usize, self.k as usize);
        let matrices = own_batches(&self.batch, |axis| axis.b);
        if bytes.len() as u64 != matrices.saturating_mul(n as u64 * k as u64) {
            return Err(Error::new(format!(
                "weights of [{matrices}, {k}, {n}] bytes have {} bytes",
                bytes.len()
            )));
        }
        let a_zero = signed_zero(self.a_zero, self.a);
        let flip = if self.b == Scalar::U8 { 0x80 } else { 0 };
        let pitch = pack::pitch(self.n) as usize;
        let words = k.div_ceil(4);
        let mut packed = vec![0u8; bytes.len() / (n * k) * (words + 2) * pitch * 4];
        for (from, to) in bytes
            .chunks_exact(n * k)
            .zip(packed.chunks_exact_mut((words + 2) * pitch * 4))
        {
            let (weights, tail) = to.split_at_mut(words * pitch * 4);
            for column in 0..n {
                let mut sum = 0i32;
                for i in 0..k {
                    let at = if transposed {
                        column * k + i
                    } else {
                        i * n + column
                    };
                    let byte = from[at] ^ flip;
                    sum += i32::from(byte as i8);
                    weights[(i / 4 * pitch + column) * 4 + i % 4] = byte;
                }
                let zero = self.b_zero(column);
                let correction = (k as i32)
                    .wrapping_mul(a_zero)
                    .wrapping_mul(zero)
                    .wrapping_sub(a_zero.wrapping_mul(sum));
                tail[column * 4..][..4].copy_from_slice(&correction.to_le_bytes());
                tail[(pitch + column) * 4..][..4].copy_from_slice(&zero.to_le_bytes());
            }
        }
        Ok(packed)
    }
}

impl Generate for GemmInt8 {
    fn sample_instance(&self) -> Option<Box<dyn Generate>> {
        Some(Box::new(self.smaller()))
    }

    fn kernel(&self, limits: &Limits) -> Result<Kernel> {
        self.check()?;
        let zeros = Zeros {
            unsigned_a: self.a == Scalar::U8,
            k: self.k,
            b: self.row_sums(),
        };
        let offset = if zeros.b { "z" } else { "" };
        let product = Product {
            variant: format!(
                "gemm-{}i8{offset}-{}{}",
                self.a.name(),
                self.tile.name(),
                self.epilogue.name()
            ),
            batch: &self.batch,
            m: self.m,
            n: self.n,
            k: self.k.div_ceil(4),
            transposed_a: false,
            b: Right::Packed,
            scalar: self.a,
            arithmetic: Arithmetic::Bytes(zeros),
            epilogue: &self.epilogue,
            work: self.work(),
        };
        match self.tile {
            GemmTile::Sliced { .. } => sliced::kernel(&product, self.tile, limits),
            GemmTile::Blocked { .. } => blocked::kernel(&product, self.tile, limits),
            GemmTile::Matrix { .. } => Err(Error::new("matrix units multiply no bytes here")),
        }
    }

    fn sample(&self) -> Sample {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let byte = |scalar, x: &f32| match scalar {
            Scalar::U8 => (x * 128.0 + 128.0) as u8,
            _ => ((x * 128.0) as i8) as u8,
        };
        let value = |scalar, byte: u8| match scalar {
            Scalar::U8 => i32::from(byte),
            _ => i32::from(byte as i8),
        };
        let own_a = own_batches(&self.batch, |axis| axis.a) as usize;
        let own_b = own_batches(&self.batch, |axis| axis.b) as usize;
        let make = |seed, scalar, count| -> Vec<u8> {
            Values::floats(seed, count)
                .iter()
                .map(|x| byte(scalar, x))
                .collect()
        };
        let (all_a, all_b) = (make(1, self.a, own_a * m * k), make(2, self.b, own_b * k * n));
        let zero = |column: usize| match self.b_zeros.as_slice() {
            [] => 0,
            [one] => *one,
            all => all[column],
        };
        let mut sums = Vec::with_capacity(batches(&self.batch) as usize * m * n);
        for batch in 0..batches(&self.batch) {
            let a = &all_a[own_batch(&self.batch, batch, |axis| axis.a) as usize * m * k..][..m * k];
            let b = &all_b[own_batch(&self.batch, batch, |axis| axis.b) as usize * k * n..][..k * n];
            for row in 0..m {
                for column in 0..n {
                    let sum = (0..k)
                        .map(|i| {
                            (value(self.a, a[row * k + i]) - self.a_zero)
                                * (value(self.b, b[i * n + column]) - zero(column))
                        })
                        .fold(0i32, i32::wrapping_add);
                    sums.push(sum);
                }
            }
        }
        let rows = batches(&self.batch) * u64::from(self.m);
        let (operands, after) = self.epilogue.sample_integers(&sums, rows, self.n.into());
        let packed = self.pack_b(&all_b, false).unwrap_or_default();
        let mut before = vec![Values::U8(all_a), Values::U8(packed)];
        before.extend(operands);
        let mut right = vec![None; before.len()];
        before.push(Values::zeros(self.epilogue.output, after.len()));
        right.push(Some(after));
        Sample {
            before,
            after: right,
            tolerance: 1e-6,
        }
    }
}
