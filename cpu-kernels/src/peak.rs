//! Peak rate: the rate of multiply-adds when all operands stay in registers. Shares of peak refer
//! to it.
//!
//! Not here: reading a clock, which is the caller's.

use crate::Isa;
use crate::isa::dot::{ByteKernel, Bytes};
use crate::isa::{Kernel, Simd};

/// Independent sums: enough to hide the latency of the two units that CPUs have.
const CHAINS: usize = 12;

struct Loop(usize);

impl Kernel for Loop {
    type Output = u64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        let (factor, addend) = (s.splat(std::hint::black_box(0.5)), s.splat(1.0));
        let mut sums = [s.splat(0.0); CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = s.mul_add(*sum, factor, addend);
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += s.sum(sum);
        }
        std::hint::black_box(total);
        (2 * CHAINS * S::LANES * self.0) as u64
    }
}

/// Multiplies and adds in `rounds` rounds, and gives the number of floating-point operations done.
///
/// ```
/// use polychip_cpu_kernels::{Isa, peak};
/// assert_eq!(peak::multiply_add(Isa::SCALAR, 10), 2 * peak::multiply_add(Isa::SCALAR, 5));
/// ```
pub fn multiply_add(isa: Isa, rounds: usize) -> u64 {
    isa.run(Loop(rounds))
}

struct Dots(usize);

impl ByteKernel for Dots {
    type Output = u64;
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) -> u64 {
        let s = b.simd();
        let words = s.splat_i(std::hint::black_box(0x0102_0304));
        let mut sums = [s.splat_i(0); CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = b.dot(*sum, words, words);
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += s.sum(s.to_float(sum));
        }
        std::hint::black_box(total);
        (8 * CHAINS * B::S::LANES * self.0) as u64
    }
}

/// Multiplies and adds bytes in `rounds` rounds, and gives the number of operations done.
///
/// ```
/// use polychip_cpu_kernels::{Isa, peak};
/// assert_eq!(peak::multiply_add_bytes(Isa::SCALAR, 1), 4 * peak::multiply_add(Isa::SCALAR, 1));
/// ```
pub fn multiply_add_bytes(isa: Isa, rounds: usize) -> u64 {
    isa.run_bytes(Dots(rounds))
}
