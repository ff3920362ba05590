//! One benchmark per kernel, shape and instruction set, named `{op}/{shape}/{dtype}/{isa}`.
//!
//! Hot operands flatter: decide about convolutions with the example `sequence`, and use these to find which kernel
//! a change touched.
#![allow(missing_docs)] // what the macros of criterion define

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use polychip_cpu_kernels::conv::{ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::elementwise::{BinaryPlan, unary};
use polychip_cpu_kernels::gemm::{GemmPlan, MatMulParams, MatMulPlan, Matrix};
use polychip_cpu_kernels::norm::{Norm, NormExtras, NormParams, norm};
use polychip_cpu_kernels::pool::{PoolParams, PoolPlan, Pooling};
use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_cpu_kernels::softmax::softmax;
use polychip_cpu_kernels::transpose::TransposePlan;
use polychip_cpu_kernels::{AlignedVec, Binary, Epilogue, Isa, ThreadPool, Unary};

/// Numbers that are neither denormal nor alike.
fn data(len: usize) -> AlignedVec {
    let mut data = AlignedVec::zeroed(len);
    for (i, x) in data.iter_mut().enumerate() {
        *x = ((i * 7919) % 1009) as f32 / 500.0 - 1.0;
    }
    data
}

fn id(shape: impl Into<String>, isa: Isa) -> BenchmarkId {
    BenchmarkId::new(shape, format!("f32/{}", isa.name()))
}

fn products(c: &mut Criterion) {
    let pool = ThreadPool::new(1);
    let mut group = c.benchmark_group("gemm");
    for (m, k, n) in [
        (1, 1280, 1000),
        (128, 384, 1536),
        (128, 768, 3072),
        (196, 96, 576),
        (1024, 1024, 1024),
    ] {
        group.throughput(Throughput::Elements((m * k * n) as u64));
        for isa in Isa::available() {
            let plan = GemmPlan::new(isa, k, n).expect("invariant: a valid shape");
            let (a, b) = (data(m * k), data(k * n));
            let mut packed = AlignedVec::zeroed(plan.packed_len());
            plan.pack(Matrix::rows(&b, n), None, &mut packed);
            let mut out = AlignedVec::zeroed(m * n);
            let mut scratch = AlignedVec::zeroed(plan.scratch_len(m, &pool));
            group.bench_function(id(format!("{m}x{k}x{n}"), isa), |bench| {
                let a = Matrix::rows(&a, k);
                bench.iter(|| {
                    plan.run(
                        &pool,
                        m,
                        a,
                        &packed,
                        None,
                        Epilogue::NONE,
                        &mut out,
                        n,
                        &mut scratch,
                    )
                });
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("matmul");
    for (name, batch, m, k, n, transposed) in [
        ("scores", 12, 128, 32, 128, true),
        ("context", 12, 128, 128, 32, false),
        ("square", 1, 256, 256, 256, false),
    ] {
        group.throughput(Throughput::Elements((batch * m * k * n) as u64));
        for isa in Isa::available() {
            let mut params = MatMulParams::dense(batch, m, k, n);
            if transposed {
                (params.b.row, params.b.column) = (1, k);
            }
            let plan = MatMulPlan::new(isa, params).expect("invariant: a valid shape");
            let (a, b) = (data(batch * m * k), data(batch * k * n));
            let mut out = AlignedVec::zeroed(batch * m * n);
            let mut scratch = AlignedVec::zeroed(plan.scratch_len(&pool));
            group.bench_function(id(format!("{name}-{batch}x{m}x{k}x{n}"), isa), |bench| {
                bench.iter(|| plan.run(&pool, &a, &b, &mut out, &mut scratch));
            });
        }
    }
    group.finish();
}

fn images(c: &mut Criterion) {
    let pool = ThreadPool::new(1);
    let square = |size: usize, out: usize, kernel: usize, stride: usize| {
        Window::new_2d(
            [size; 2],
            [out; 2],
            [kernel; 2],
            [stride; 2],
            [1; 2],
            [kernel / 2; 2],
        )
    };
    let mut group = c.benchmark_group("conv");
    for (name, window, inner, outer, groups) in [
        ("3-32-3x3s2-112", square(224, 112, 3, 2), 3, 32, 1),
        ("24-144-1x1-56", square(56, 56, 1, 1), 24, 144, 1),
        ("960-160-1x1-7", square(7, 7, 1, 1), 960, 160, 1),
        ("64-64-3x3-56", square(56, 56, 3, 1), 64, 64, 1),
        ("512-512-3x3-7", square(7, 7, 3, 1), 512, 512, 1),
        ("depthwise-144-3x3-56", square(56, 56, 3, 1), 144, 144, 144),
        ("depthwise-96-3x3s2-56", square(112, 56, 3, 2), 96, 96, 96),
    ] {
        group.throughput(Throughput::Elements(
            (window.output.iter().product::<usize>() * window.kernel.iter().product::<usize>() * inner
                / groups
                * outer) as u64,
        ));
        for isa in Isa::available() {
            let plan = ConvPlan::new(isa, ConvParams::dense(1, inner, outer, groups, window))
                .expect("invariant: a valid shape");
            let weights = data(outer * inner / groups * window.kernel.iter().product::<usize>());
            let mut packed = AlignedVec::zeroed(plan.packed_len());
            plan.pack(&weights, None, &mut packed);
            let input = data(window.input.iter().product::<usize>() * inner);
            let mut out = AlignedVec::zeroed(window.output.iter().product::<usize>() * outer);
            let mut scratch = AlignedVec::zeroed(plan.scratch_len(&pool));
            let relu = Epilogue::activation(Unary::Relu);
            group.bench_function(id(name, isa), |bench| {
                bench.iter(|| plan.run(&pool, &packed, &input, None, relu, &mut out, &mut scratch));
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("pool");
    let window = square(112, 56, 3, 2);
    let input = data(112 * 112 * 64);
    group.throughput(Throughput::Bytes(4 * input.len() as u64));
    for isa in Isa::available() {
        let plan = PoolPlan::new(PoolParams {
            batch: 1,
            channels: 64,
            window,
            pads_end: [0; 3],
        })
        .expect("invariant: a valid shape");
        let mut out = AlignedVec::zeroed(56 * 56 * 64);
        group.bench_function(id("max-64-3x3s2-56", isa), |bench| {
            bench.iter(|| plan.run(isa, &pool, Pooling::Max, &input, &mut out));
        });
    }
    group.finish();
}

fn rows(c: &mut Criterion) {
    let pool = ThreadPool::new(1);
    let (rows, columns) = (128, 384);
    let input = data(rows * columns);
    let mut out = AlignedVec::zeroed(rows * columns);
    let bytes = Throughput::Bytes(8 * input.len() as u64);
    let mut group = c.benchmark_group("unary");
    group.throughput(bytes.clone());
    for isa in Isa::available() {
        for f in [
            Unary::Relu,
            Unary::Exp,
            Unary::Log,
            Unary::Tanh,
            Unary::Erf,
            Unary::Sigmoid,
            Unary::Gelu,
        ] {
            group.bench_function(id(format!("{f:?}-49152").to_lowercase(), isa), |bench| {
                bench.iter(|| unary(isa, &pool, f, &input, &mut out));
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("binary");
    let add = BinaryPlan::new(&[rows, columns], &[columns]).expect("invariant: the shapes broadcast");
    group.throughput(bytes.clone());
    for isa in Isa::available() {
        group.bench_function(id("add-128x384-384", isa), |bench| {
            bench.iter(|| add.run(isa, &pool, Binary::Add, &input, &input[..columns], &mut out));
        });
    }
    group.finish();
    let mut group = c.benchmark_group("norm");
    group.throughput(bytes.clone());
    for isa in Isa::available() {
        let params = NormParams {
            norm: Norm::Layer,
            epsilon: 1e-5,
            scale: Some(&input[..columns]),
            bias: Some(&input[..columns]),
            residual: Some(&input),
        };
        group.bench_function(id("layer-residual-128x384", isa), |bench| {
            bench.iter(|| {
                norm(
                    isa,
                    &pool,
                    rows,
                    columns,
                    params,
                    &input,
                    &mut out,
                    NormExtras::default(),
                )
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("softmax");
    group.throughput(bytes.clone());
    for isa in Isa::available() {
        for dims in [[128, 384, 1], [1, 16, 3072]] {
            let [outer, axis, inner] = dims;
            group.bench_function(id(format!("{outer}x{axis}x{inner}"), isa), |bench| {
                bench.iter(|| softmax(isa, &pool, dims, &input, &mut out));
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("reduce");
    group.throughput(Throughput::Bytes(4 * input.len() as u64));
    for isa in Isa::available() {
        for (name, reduced) in [
            ("mean-128x384-rows", [false, true]),
            ("mean-128x384-columns", [true, false]),
        ] {
            let plan = ReducePlan::new(&[rows, columns], &reduced).expect("invariant: a valid shape");
            let mut out = AlignedVec::zeroed(plan.output_len());
            group.bench_function(id(name, isa), |bench| {
                bench.iter(|| plan.run(isa, &pool, Reduce::Mean, &input, &mut out));
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("transpose");
    for (c, spatial) in [(3, 224 * 224), (64, 56 * 56)] {
        let plan = TransposePlan::channels_last(1, c, spatial).expect("invariant: a valid shape");
        let input = data(c * spatial);
        let mut out = AlignedVec::zeroed(c * spatial);
        group.throughput(Throughput::Bytes(8 * input.len() as u64));
        group.bench_function(id(format!("nchw-nhwc-{c}x{spatial}"), Isa::SCALAR), |bench| {
            bench.iter(|| plan.run(&pool, &input[..], &mut out[..]));
        });
    }
    group.finish();
}

criterion_group!(benches, products, images, rows);
criterion_main!(benches);
