//! Every class of vector kernels against the scalar reference, over random shapes, axes, alignments and tails, with NaN,
//! infinities, denormals, signed zeros and tensors of no elements, on each instruction set of this machine.
//!
//! Not here: functions' error bounds, convolutions and packed products (`kernels`); bytes and 16-bit floats.

use std::sync::LazyLock;

use polychip_cpu_kernels::elementwise::BinaryPlan;
use polychip_cpu_kernels::gemm::{MatMulParams, MatMulPlan};
use polychip_cpu_kernels::norm::{Norm, NormExtras, NormParams, norm};
use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_cpu_kernels::reference::elementwise as scalar;
use polychip_cpu_kernels::reference::reduce::{Reduction, reduce};
use polychip_cpu_kernels::reference::softmax::{self as lines, Softmax};
use polychip_cpu_kernels::reference::{Element, Tensor, norm as rows, shape};
use polychip_cpu_kernels::softmax::{log_softmax, softmax};
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{Binary, Isa, ThreadPool};
use proptest::prelude::*;

/// Mostly ordinary values, some of which nothing good comes.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        40 => -4.0f32..4.0,
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(1e-40f32),
        1 => Just(-0.0f32),
        1 => Just(0.0f32),
    ]
}

/// A tensor's values from a pool of random ones, somewhere in a vector: at any alignment of four bytes.
struct Placed {
    memory: Vec<f32>,
    start: usize,
    len: usize,
}

impl Placed {
    fn new(pool: &[f32], len: usize, start: usize) -> Placed {
        let values = pool.iter().cycle().skip(start * 7).take(len);
        let mut memory = vec![f32::NAN; start];
        memory.extend(values);
        Placed { memory, start, len }
    }

    fn values(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.len]
    }

    fn tensor(&self, dims: &[usize]) -> Tensor {
        let bytes: Vec<u8> = self.values().iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor::from_bytes(Element::F32, dims.to_vec(), &bytes).unwrap()
    }
}

/// Whether two values are the same: both NaN, the same infinity, or near by `relative` of `size` or of the value.
fn near(found: f32, wanted: f64, relative: f64, size: f64) -> bool {
    if wanted.is_nan() || found.is_nan() {
        return wanted.is_nan() && found.is_nan();
    }
    let found = f64::from(found);
    found == wanted || (found - wanted).abs() <= relative * wanted.abs().max(size) + 1e-37
}

fn compare(found: &[f32], wanted: &Tensor, relative: f64, size: f64) -> Result<(), TestCaseError> {
    let wanted = wanted.to_f64s().unwrap();
    prop_assert_eq!(found.len(), wanted.len());
    for (i, (&found, &wanted)) in found.iter().zip(&wanted).enumerate() {
        prop_assert!(
            near(found, wanted, relative, size),
            "element {i} is {found}, not {wanted}"
        );
    }
    Ok(())
}

fn dims(rank: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(
        prop_oneof![1 => Just(0usize), 4 => Just(1), 20 => 2usize..20, 3 => 30usize..40],
        rank,
    )
    .prop_filter("few elements", |dims| dims.iter().product::<usize>() < 20_000)
}

fn values() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(value(), 61)
}

/// Runs on each instruction set, with one thread and with two.
fn everywhere(
    mut run: impl FnMut(Isa, &ThreadPool) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| [ThreadPool::new(1), ThreadPool::new(2)]);
    for isa in Isa::available() {
        for threads in POOLS.iter() {
            run(isa, threads).map_err(|error| TestCaseError::fail(format!("{isa:?}: {error}")))?;
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn reductions(shape in dims(1..=4), flags in prop::collection::vec(any::<bool>(), 4), pool in values(), start in 0usize..4) {
        let reduced = &flags[..shape.len()];
        let axes: Vec<usize> = (0..shape.len()).filter(|&axis| reduced[axis]).collect();
        let x = Placed::new(&pool, shape.iter().product(), start);
        let plan = ReducePlan::new(&shape, reduced).unwrap();
        for (ours, theirs) in [
            (Reduce::Sum, Reduction::Sum),
            (Reduce::Max, Reduction::Max),
            (Reduce::Min, Reduction::Min),
            (Reduce::L1, Reduction::L1),
            (Reduce::L2, Reduction::L2),
            (Reduce::SumSquare, Reduction::SumSquare),
        ] {
            let wanted = reduce(&x.tensor(&shape), theirs, &axes, false).unwrap();
            // sums of thousands of values of up to 4, which may cancel
            let size = if matches!(ours, Reduce::Max | Reduce::Min) { 0.0 } else { 100.0 };
            everywhere(|isa, threads| {
                let mut found = vec![f32::NAN; plan.output_len()];
                plan.run(isa, threads, ours, x.values(), &mut found);
                compare(&found, &wanted, 1e-5, size)
            })?;
        }
    }

    #[test]
    fn softmaxes(shape in dims(3..=3), pool in values(), start in 0usize..4) {
        let lens = [shape[0], shape[1], shape[2]];
        let x = Placed::new(&pool, lens.iter().product(), start);
        let soft = lines::softmax(&x.tensor(&shape), 1, Softmax::Softmax).unwrap();
        let log = lines::softmax(&x.tensor(&shape), 1, Softmax::LogSoftmax).unwrap();
        everywhere(|isa, threads| {
            let mut found = vec![f32::NAN; x.len];
            softmax(isa, threads, lens, x.values(), &mut found[..]);
            compare(&found, &soft, 1e-5, 1e-6)?;
            log_softmax(isa, threads, lens, x.values(), &mut found[..]);
            compare(&found, &log, 1e-5, 1.0)
        })?;
    }

    #[test]
    fn normalisations(shape in dims(2..=2), pool in prop::collection::vec(-4.0f32..4.0, 61), start in 0usize..4) {
        let [count, columns] = [shape[0], shape[1]];
        let x = Placed::new(&pool, count * columns, start);
        let scale = Placed::new(&pool, columns, (start + 1) % 4);
        let bias = Placed::new(&pool, columns, (start + 2) % 4);
        for (which, centre) in [(Norm::Layer, true), (Norm::Rms, false)] {
            let wanted = rows::normalise(
                &x.tensor(&shape),
                &[1],
                centre,
                1e-3,
                Some(&scale.tensor(&[columns])),
                Some(&bias.tensor(&[columns])),
            )
            .unwrap()
            .y;
            everywhere(|isa, threads| {
                let params = NormParams {
                    norm: which,
                    epsilon: 1e-3,
                    scale: Some(scale.values()),
                    bias: Some(bias.values()),
                    residual: None,
                };
                let mut found = vec![f32::NAN; x.len];
                norm(isa, threads, count, columns, params, x.values(), &mut found[..], NormExtras::default());
                compare(&found, &wanted, 1e-4, 4.0)
            })?;
        }
    }

    #[test]
    fn binary_functions(shape in dims(1..=4), ones in prop::collection::vec(0..4u8, 4), pool in values(), start in 0usize..4) {
        // a dimension of either operand may be 1, and b may have fewer
        let a: Vec<usize> = shape.iter().zip(&ones).map(|(&size, one)| if *one == 1 { 1 } else { size }).collect();
        let b: Vec<usize> = shape.iter().zip(&ones).map(|(&size, one)| if *one == 2 { 1 } else { size }).collect();
        let b = &b[usize::from(ones[0] == 3 && b.len() > 1)..];
        let x = Placed::new(&pool, a.iter().product(), start);
        let y = Placed::new(&pool, b.iter().product(), (start + 1) % 4);
        let plan = BinaryPlan::new(&a, b).unwrap();
        for (ours, theirs) in [
            (Binary::Add, scalar::Binary::Add),
            (Binary::Sub, scalar::Binary::Sub),
            (Binary::Mul, scalar::Binary::Mul),
            (Binary::Div, scalar::Binary::Div),
            (Binary::Min, scalar::Binary::Min),
            (Binary::Max, scalar::Binary::Max),
        ] {
            let wanted = scalar::binary(theirs, &x.tensor(&a), &y.tensor(b)).unwrap();
            everywhere(|isa, threads| {
                let mut found = vec![f32::NAN; plan.output_len()];
                plan.run(isa, threads, ours, x.values(), y.values(), &mut found[..]);
                compare(&found, &wanted, 1e-6, 0.0)
            })?;
        }
    }

    #[test]
    fn transpositions(shape in dims(1..=4), order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(), pool in values(), start in 0usize..4) {
        let order: Vec<usize> = order.into_iter().filter(|&axis| axis < shape.len()).collect();
        let x = Placed::new(&pool, shape.iter().product(), start);
        let wanted = shape::transpose(&x.tensor(&shape), &order).unwrap();
        let plan = TransposePlan::new(&shape, &order).unwrap();
        for threads in [1, 2] {
            let mut found = vec![f32::NAN; x.len];
            plan.run(&ThreadPool::new(threads), x.values(), &mut found);
            compare(&found, &wanted, 0.0, 0.0)?;
        }
    }

    #[test]
    fn products(m in 0usize..20, k in 0usize..40, n in 0usize..70, batch in 0usize..3, pool in values(), start in 0usize..4) {
        let a = Placed::new(&pool, batch * m * k, start);
        let b = Placed::new(&pool, batch * k * n, (start + 1) % 4);
        everywhere(|isa, threads| {
            let plan = MatMulPlan::new(isa, MatMulParams::dense(batch, m, k, n)).unwrap();
            let mut found = vec![f32::NAN; batch * m * n];
            let mut scratch = vec![0.0; plan.scratch_len(threads)];
            plan.run(threads, a.values(), b.values(), &mut found, &mut scratch);
            for (i, &found) in found.iter().enumerate() {
                let (at, row, column) = (i / (m * n), i / n % m, i % n);
                let term = |p: usize| {
                    let left = a.values()[(at * m + row) * k + p];
                    f64::from(left) * f64::from(b.values()[(at * k + p) * n + column])
                };
                let wanted: f64 = (0..k).map(term).sum();
                prop_assert!(near(found, wanted, 1e-5, 100.0), "{at}, {row}, {column} is {found}, not {wanted}");
            }
            Ok(())
        })?;
    }
}
