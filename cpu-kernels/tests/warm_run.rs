//! A warm run allocates nothing, on one thread and on several.
#![allow(unsafe_code)] // a counting allocator

use polychip_cpu_kernels::conv::{ConvParams, ConvPlan, Window};
use polychip_cpu_kernels::copy::CopyPlan;
use polychip_cpu_kernels::elementwise::{BinaryPlan, unary};
use polychip_cpu_kernels::gemm::{GemmPlan, MatMulParams, MatMulPlan, Matrix};
use polychip_cpu_kernels::norm::{Norm, NormExtras, NormParams, norm};
use polychip_cpu_kernels::pool::{PoolPlan, Pooling};
use polychip_cpu_kernels::reduce::{Reduce, ReducePlan};
use polychip_cpu_kernels::softmax::softmax_in_place;
use polychip_cpu_kernels::{Binary, Epilogue, Isa, ThreadPool, Unary};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_warm_run_allocates_nothing() {
    let isa = Isa::detect();
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        let window = Window::new_2d([28, 28], [28, 28], [3, 3], [1, 1], [1, 1], [1, 1]);
        let dense = ConvPlan::new(isa, ConvParams::dense(1, 32, 48, 1, window)).unwrap();
        let merged = ConvPlan::new(isa, ConvParams::dense(1, 3, 48, 1, window)).unwrap();
        let depthwise = ConvPlan::new(isa, ConvParams::dense(1, 48, 48, 48, window)).unwrap();
        let gemm = GemmPlan::new(isa, 48, 100).unwrap();
        let scores = MatMulPlan::new(isa, MatMulParams::dense(4, 64, 32, 64)).unwrap();
        let add = BinaryPlan::new(&[784, 48], &[48]).unwrap();
        let global = PoolPlan::global(1, 784, 48).unwrap();
        let mean = ReducePlan::new(&[784, 48], &[true, false]).unwrap();
        let copy = CopyPlan::new(&[48, 784], 0, &[1, 48], 0, &[784, 1]).unwrap();
        let packed = |plan: &ConvPlan| vec![0.01; plan.packed_len()];
        let (dense_w, merged_w, depthwise_w) = (packed(&dense), packed(&merged), packed(&depthwise));
        let gemm_w = vec![0.01; gemm.packed_len()];
        let need = [
            dense.scratch_len(&pool),
            merged.scratch_len(&pool),
            depthwise.scratch_len(&pool),
            gemm.scratch_len(784, &pool),
            scores.scratch_len(&pool),
        ];
        let mut scratch = vec![0.0; need.into_iter().max().unwrap()];
        let (mut a, mut b) = (vec![0.5; 784 * 100], vec![0.5; 784 * 100]);
        let mut run = || {
            let _region = pool.region();
            let relu = Epilogue::activation(Unary::Swish { alpha: 1.0 });
            dense.run(&pool, &dense_w, &a, None, relu, &mut b, &mut scratch);
            merged.run(&pool, &merged_w, &a, None, relu, &mut b, &mut scratch);
            depthwise.run(&pool, &depthwise_w, &b, None, relu, &mut a, &mut scratch);
            gemm.run(
                &pool,
                784,
                Matrix::rows(&a, 48),
                &gemm_w,
                None,
                relu,
                &mut b,
                100,
                &mut scratch,
            );
            scores.run(&pool, &a, &a, &mut b, &mut scratch);
            add.run_in_place(isa, &pool, Binary::Add, &mut a[..784 * 48], &b[..48]);
            unary(isa, &pool, Unary::Tanh, &a, &mut b);
            global.run(isa, &pool, Pooling::Average, &a[..784 * 48], &mut b[..48]);
            mean.run(isa, &pool, Reduce::Mean, &a[..784 * 48], &mut b[..48]);
            copy.run(&pool, &a, &mut b);
            softmax_in_place(isa, &pool, [784, 100, 1], &mut b);
            let params = NormParams {
                norm: Norm::Layer,
                epsilon: 1e-5,
                scale: None,
                bias: None,
                residual: None,
            };
            norm(isa, &pool, 784, 100, params, &a, &mut b, NormExtras::default());
        };
        run();
        // The test harness has a thread of its own that allocates now and then; what a run allocates, each run does.
        let least = (0..20).map(|_| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            run();
            ALLOCATIONS.load(Ordering::Relaxed) - before
        });
        assert_eq!(least.min(), Some(0), "{threads} threads");
    }
}
