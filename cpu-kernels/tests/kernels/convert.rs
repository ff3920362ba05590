//! Conversions against the reference.

mod scaled;

use half::{bf16, f16};
use polychip_cpu_kernels::convert::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn every_16_bit_value_survives_the_round_trip() {
    let pool = ThreadPool::new(2);
    let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let brains: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for isa in Isa::available() {
        let (mut wide, mut back) = (vec![0.0; halves.len()], vec![f16::ZERO; halves.len()]);
        widen(isa, &pool, &halves, &mut wide);
        narrow(isa, &pool, &wide, &mut back);
        for ((a, b), wide) in halves.iter().zip(&back).zip(&wide) {
            assert!(
                a.to_bits() == b.to_bits() && wide.to_bits() == a.to_f32().to_bits()
                    || a.is_nan() && b.is_nan() && wide.is_nan(),
                "{isa:?} {a} {b} {wide}"
            );
        }
        let mut back = vec![bf16::ZERO; brains.len()];
        widen(isa, &pool, &brains, &mut wide);
        narrow(isa, &pool, &wide, &mut back);
        for (a, b) in brains.iter().zip(&back) {
            assert!(
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                "{isa:?} {a} {b}"
            );
        }
    }
}

#[test]
fn f32_rounding_matches_crate_half() {
    let pool = ThreadPool::new(1);
    let fine: Vec<f32> = (0..=u32::MAX).step_by(7919).map(f32::from_bits).collect();
    for isa in Isa::available() {
        // tails of every length
        for len in [1, 5, 15, 17, 31, fine.len()] {
            let mut y = vec![f16::ZERO; len];
            narrow(isa, &pool, &fine[..len], &mut y);
            let mut brains = vec![bf16::ZERO; len];
            narrow(isa, &pool, &fine[..len], &mut brains);
            for ((&x, y), brain) in fine.iter().zip(&y).zip(&brains) {
                let (want, wanted) = (f16::from_f32(x), bf16::from_f32(x));
                assert!(
                    y.to_bits() == want.to_bits() || y.is_nan() && want.is_nan(),
                    "{isa:?} {x:e}: {y}"
                );
                assert!(
                    brain.to_bits() == wanted.to_bits() || brain.is_nan() && wanted.is_nan(),
                    "{isa:?} {x:e}: {brain}"
                );
            }
        }
    }
}

#[test]
fn float_truncation_matches_rust() {
    let pool = ThreadPool::new(2);
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(9973).map(f32::from_bits).collect();
    x.extend([
        f32::NAN,
        f32::INFINITY,
        -f32::INFINITY,
        9.223_372e18,
        -9.223_372e18,
        9.3e18,
        -9.3e18,
        2.9,
        -2.9,
    ]);
    for isa in Isa::available() {
        let mut y = vec![1; x.len()];
        each(isa, &pool, &x, &mut y, truncated);
        for (&x, &y) in x.iter().zip(&y) {
            assert_eq!(y, x as i64, "{isa:?} {x:e}");
        }
        // all of a chunk fit 32 bits, and some of it do not
        let few: Vec<f32> = x.iter().copied().filter(|x| x.abs() < 2e9).collect();
        for x in [&few, &x] {
            let mut y = vec![1u8; x.len()];
            cut(isa, &pool, x, &mut y, |x| x as u8, |x| x as u8);
            for (&x, &y) in x.iter().zip(&y) {
                assert_eq!(y, x as i64 as u8, "{isa:?} {x:e}");
            }
        }
    }
}

#[test]
fn ties_go_to_the_even_neighbour() {
    let pool = ThreadPool::new(1);
    for isa in Isa::available() {
        let mut half = [f16::ZERO; 3];
        narrow(
            isa,
            &pool,
            &[1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 1e6],
            &mut half,
        );
        assert_eq!(half.map(f16::to_bits), [0x3c00, 0x3c02, 0x7c00]);
        let mut brain = [bf16::ZERO; 2];
        narrow(isa, &pool, &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0], &mut brain);
        assert_eq!(brain.map(bf16::to_bits), [0x3f80, 0x3f82]);
    }
}
