//! Operands and results in `f32`, or in `bf16`, which halves the memory traffic.
//!
//! 1. Arithmetic is in `f32` registers for either type: a load widens, which is exact, and a store rounds to
//!    nearest even.
//! 2. `bf16` has the range of `f32`, so infinities and NaN keep their meaning.
//!
//! Not here: products of `bf16` words (`tile`).

use crate::AlignedVec;
use half::bf16;

/// Operands of a kernel, in either element type.
///
/// ```
/// use half::bf16;
/// use polychip_cpu_kernels::{Isa, ThreadPool, Unary, elementwise::unary};
///
/// let x = [bf16::from_f32(-1.5), bf16::from_f32(2.0)];
/// let mut y = [0.0f32; 2];
/// unary(Isa::detect(), &ThreadPool::new(1), Unary::Relu, &x, &mut y);
/// assert_eq!(y, [0.0, 2.0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Slice<'a> {
    /// `f32` values, as they are computed.
    F32(&'a [f32]),
    /// `bf16` values: the upper halves of `f32`.
    Bf16(&'a [bf16]),
}

/// Results of a kernel, in either element type; see [`Slice`].
#[derive(Debug)]
pub enum SliceMut<'a> {
    /// `f32` values, as they are computed.
    F32(&'a mut [f32]),
    /// `bf16` values, rounded from `f32`.
    Bf16(&'a mut [bf16]),
}

impl Slice<'_> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Slice::F32(x) => x.len(),
            Slice::Bf16(x) => x.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Slice<'a> {
    /// The elements of an operand of `f32`.
    ///
    /// # Panics
    /// The operand is of bf16.
    #[must_use]
    pub fn f32s(self) -> &'a [f32] {
        match self {
            Slice::F32(x) => x,
            Slice::Bf16(_) => panic!("an operand of bf16 where f32 is needed"),
        }
    }

    /// The elements of an operand that must be of `bf16`.
    pub(crate) fn bf16s(self) -> &'a [bf16] {
        match self {
            Slice::Bf16(x) => x,
            Slice::F32(_) => panic!("an operand of f32 where bf16 is needed"),
        }
    }
}

impl SliceMut<'_> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            SliceMut::F32(x) => x.len(),
            SliceMut::Bf16(x) => x.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! from {
    ($element:ty, $variant:ident) => {
        impl<'a> From<&'a [$element]> for Slice<'a> {
            fn from(x: &'a [$element]) -> Self {
                Slice::$variant(x)
            }
        }
        impl<'a> From<&'a Vec<$element>> for Slice<'a> {
            fn from(x: &'a Vec<$element>) -> Self {
                Slice::$variant(x)
            }
        }
        impl<'a, const N: usize> From<&'a [$element; N]> for Slice<'a> {
            fn from(x: &'a [$element; N]) -> Self {
                Slice::$variant(x)
            }
        }
        impl<'a> From<&'a mut [$element]> for SliceMut<'a> {
            fn from(x: &'a mut [$element]) -> Self {
                SliceMut::$variant(x)
            }
        }
        impl<'a> From<&'a mut Vec<$element>> for SliceMut<'a> {
            fn from(x: &'a mut Vec<$element>) -> Self {
                SliceMut::$variant(x)
            }
        }
        impl<'a, const N: usize> From<&'a mut [$element; N]> for SliceMut<'a> {
            fn from(x: &'a mut [$element; N]) -> Self {
                SliceMut::$variant(x)
            }
        }
    };
}
from!(f32, F32);
from!(bf16, Bf16);

impl<'a> From<&'a AlignedVec> for Slice<'a> {
    fn from(x: &'a AlignedVec) -> Self {
        Slice::F32(x)
    }
}

impl<'a> From<&'a mut AlignedVec> for SliceMut<'a> {
    fn from(x: &'a mut AlignedVec) -> Self {
        SliceMut::F32(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::{BinaryPlan, unary, unary_in_place};
    use crate::norm::scale_shift;
    use crate::pool::{PoolPlan, Pooling};
    use crate::softmax::{log_softmax, softmax, softmax_in_place};
    use crate::{Binary, Isa, ThreadPool, Unary};

    fn wide(x: &[bf16]) -> Vec<f32> {
        x.iter().map(|x| x.to_f32()).collect()
    }

    fn values(n: usize, seed: usize) -> Vec<bf16> {
        (0..n)
            .map(|i| bf16::from_f32(((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0))
            .collect()
    }

    /// Whether bf16 results are what f32 results round to; one place off where the sums were made in another order.
    fn same(got: &[bf16], want: &[f32], places: i32, words: &str) {
        assert_eq!(got.len(), want.len(), "{words}");
        for (got, want) in got.iter().zip(want) {
            let nearest = bf16::from_f32(*want);
            let off = (i32::from(got.to_bits() as i16) - i32::from(nearest.to_bits() as i16)).abs();
            assert!(
                off <= places || got.is_nan() && nearest.is_nan(),
                "{words}: {got} for {want}"
            );
        }
    }

    #[test]
    fn bf16_conversions_match_crate_half() {
        let pool = ThreadPool::new(1);
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        // around every value: itself, ties and their neighbours
        let fine: Vec<f32> = (0..=u16::MAX)
            .flat_map(|high| [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| u32::from(high) << 16 | low))
            .map(f32::from_bits)
            .collect();
        for isa in Isa::available() {
            let (mut widened, mut rounded) = (vec![0.0f32; all.len()], vec![bf16::ZERO; fine.len()]);
            unary(isa, &pool, Unary::Identity, &all, &mut widened);
            for (x, y) in all.iter().zip(&widened) {
                assert!(
                    x.to_f32().to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
                    "{isa:?}"
                );
            }
            unary(isa, &pool, Unary::Identity, &fine, &mut rounded);
            for (&x, y) in fine.iter().zip(&rounded) {
                let want = bf16::from_f32(x);
                // an instruction may take a value too small to be normal for zero
                let tiny = x.is_subnormal() && y.to_f32() == 0.0;
                assert!(
                    y.to_bits() == want.to_bits() || tiny || want.is_nan() && y.is_nan(),
                    "{isa:?}: {y} for {x:e}"
                );
            }
        }
    }

    #[test]
    fn bf16_kernels_match_rounded_f32_kernels() {
        let pool = ThreadPool::new(2);
        for isa in Isa::available() {
            for (rows, n) in [(1, 1), (3, 7), (5, 33), (40, 384), (0, 4)] {
                let words = format!("{isa:?} {rows}x{n}");
                let len = rows * n;
                let (a, b) = (values(len, 1), values(len, 2));
                let (wide_a, wide_b) = (wide(&a), wide(&b));
                let (mut got, mut want) = (vec![bf16::NAN; len], vec![f32::NAN; len]);
                for f in [Unary::Relu, Unary::Gelu, Unary::Swish { alpha: 1.0 }] {
                    unary(isa, &pool, f, &a, &mut got);
                    unary(isa, &pool, f, &wide_a, &mut want);
                    same(&got, &want, 0, &words);
                    got.copy_from_slice(&a);
                    unary_in_place(isa, &pool, f, &mut got);
                    same(&got, &want, 0, &words);
                }
                for f in [Binary::Add, Binary::Mul, Binary::Max, Binary::Pow] {
                    let plan = BinaryPlan::new(&[rows, n], &[rows, n]).unwrap();
                    plan.run(isa, &pool, f, &a, &b, &mut got);
                    plan.run(isa, &pool, f, &wide_a, &wide_b, &mut want);
                    same(&got, &want, 0, &words);
                    got.copy_from_slice(&a);
                    plan.run_in_place(isa, &pool, f, &mut got, &b);
                    same(&got, &want, 0, &words);
                }
                for dims in [[rows, n, 1], [1, rows, n]] {
                    softmax(isa, &pool, dims, &wide_a, &mut want);
                    softmax(isa, &pool, dims, &a, &mut got);
                    same(&got, &want, 1, &words);
                    softmax(isa, &pool, dims, &wide_a, &mut got);
                    same(&got, &want, 1, &words);
                    got.copy_from_slice(&a);
                    softmax_in_place(isa, &pool, dims, &mut got);
                    same(&got, &want, 1, &words);
                    log_softmax(isa, &pool, dims, &wide_a, &mut want);
                    log_softmax(isa, &pool, dims, &a, &mut got);
                    same(&got, &want, 1, &words);
                }
                let (scale, bias) = (wide(&values(n, 3)), wide(&values(n, 4)));
                scale_shift(
                    isa,
                    &pool,
                    &scale,
                    &bias,
                    Unary::Relu,
                    (&wide_a).into(),
                    (&mut want).into(),
                );
                scale_shift(
                    isa,
                    &pool,
                    &scale,
                    &bias,
                    Unary::Relu,
                    (&a).into(),
                    (&mut got).into(),
                );
                // the activation is applied to what was stored
                same(&got, &want, 0, &words);
                if rows > 0 {
                    let plan = PoolPlan::global(1, rows, n).unwrap();
                    for pooling in [Pooling::Max, Pooling::Average] {
                        let (mut got, mut want) = (vec![bf16::NAN; n], vec![f32::NAN; n]);
                        plan.run(isa, &pool, pooling, &a, &mut got);
                        plan.run(isa, &pool, pooling, &wide_a, &mut want);
                        same(&got, &want, 0, &words);
                    }
                }
            }
        }
    }
}
