//! Attention against the scalar reference, over random shapes, layouts, masks and windows.

mod cached;
mod rotary;

use half::bf16;
use polychip_cpu_kernels::attention::*;
use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::reference::Tensor;
use polychip_cpu_kernels::reference::attention::{Attention, Shown, attention};
use polychip_cpu_kernels::reference::element::Element;
use polychip_cpu_kernels::{Isa, ThreadPool};

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// `len` numbers between -1 and 1 that bf16 holds exactly.
    fn values(&mut self, len: usize) -> Vec<f32> {
        (0..len)
            .map(|_| bf16::from_f32((self.next() % 2001) as f32 / 1000.0 - 1.0).to_f32())
            .collect()
    }
}

/// `[batch, heads, rows, size]` taken out of memory with these strides.
fn gathered(data: &[f32], strides: HeadStrides, [batch, heads, rows, size]: [usize; 4]) -> Tensor {
    let mut values = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            for r in 0..rows {
                let at = strides.at(b, h) + r * strides.row;
                values.extend(data[at..at + size].iter().map(|&x| f64::from(x)));
            }
        }
    }
    Tensor::from_f64s(Element::F32, vec![batch, heads, rows, size], &values).unwrap()
}

/// Runs one shape in every element type on one instruction set and compares.
fn check(isa: Isa, pool: &ThreadPool, p: AttentionParams, numbers: &mut Numbers) {
    let plan = AttentionPlan::of(Elements::F32, isa, p).unwrap();
    let [q_len, k_len, v_len, mask_len, out_len] = plan.lengths();
    let (q, k, v) = (
        numbers.values(q_len),
        numbers.values(k_len),
        numbers.values(v_len),
    );
    let mut mask = numbers.values(mask_len);
    if numbers.below(2) == 0 {
        for x in &mut mask {
            if numbers.below(3) == 0 {
                *x = f32::NEG_INFINITY;
            }
        }
    }
    let with_mask = p.mask.map(|_| &mask[..]);
    let shape = |heads, rows, size| [p.batch, heads, rows, size];
    let mask_tensor = p
        .mask
        .map(|strides| gathered(&mask, strides, shape(p.heads, p.queries, p.keys)));
    let (want, _) = attention(
        &gathered(&q, p.q, shape(p.heads, p.queries, p.size)),
        &gathered(&k, p.k, shape(p.kv_heads, p.keys, p.size)),
        &gathered(&v, p.v, shape(p.kv_heads, p.keys, p.value_size)),
        mask_tensor.as_ref(),
        Attention {
            scale: f64::from(p.scale),
            softcap: f64::from(p.softcap),
            causal: false,
            left: p.left.map(|left| left as i64),
            right: p.right.map(|right| right as i64),
            valid: None,
            past: p.past,
            shown: Shown::Raw,
        },
    )
    .unwrap();
    let want = want.to_f64s().unwrap();
    let compare = |out: &[f32], tolerance: f64, what: &str| {
        let got = gathered(out, p.out, shape(p.heads, p.queries, p.value_size));
        for (i, (got, want)) in got.to_f64s().unwrap().iter().zip(&want).enumerate() {
            assert!(
                (got - want).abs() <= tolerance,
                "{what} on {isa:?}, {p:?}: [{i}] is {got}, not {want}"
            );
        }
    };
    let mut scratch = vec![f32::NAN; plan.scratch_len(pool)];
    let mut out = vec![f32::NAN; out_len];
    plan.run(pool, &q, &k, &v, with_mask, &mut out, &mut scratch);
    compare(&out, 4e-6, "f32");

    let plan = AttentionPlan::of(Elements::Bf16, isa, p).unwrap();
    let mut scratch = vec![f32::NAN; plan.scratch_len(pool)];
    let rounded = |x: &[f32]| x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
    let (q, k, v) = (rounded(&q), rounded(&k), rounded(&v));
    plan.run(pool, &q, &k, &v, with_mask, &mut out, &mut scratch);
    // weights add up to 1 and have 8 bits
    compare(&out, 2f64.powi(-8), "bf16");
    let mut rounded = vec![bf16::NAN; out_len];
    plan.run(pool, &q, &k, &v, with_mask, &mut rounded, &mut scratch);
    let rounded: Vec<f32> = rounded.iter().map(|x| x.to_f32()).collect();
    compare(&rounded, 2f64.powi(-7), "bf16 in bf16");
}

fn strides(inside: bool, heads: usize, rows: usize, size: usize) -> HeadStrides {
    if inside {
        HeadStrides::heads_inside(heads, rows, size)
    } else {
        HeadStrides::heads_outside(heads, rows, size)
    }
}

/// A mask of keys, one of queries and keys of each head, or none.
fn mask(which: usize, queries: usize, keys: usize) -> Option<HeadStrides> {
    match which {
        0 => Some(HeadStrides {
            batch: keys,
            head: 0,
            row: 0,
        }),
        1 => Some(HeadStrides {
            batch: 0,
            head: queries * keys,
            row: keys,
        }),
        _ => None,
    }
}

#[test]
fn random_attentions_agree_with_the_reference() {
    let pools = [ThreadPool::new(1), ThreadPool::new(2)];
    let mut numbers = Numbers(7);
    for round in 0..120 {
        let n = &mut numbers;
        let (batch, kv_heads, group) = (1 + n.below(2), 1 + n.below(3), 1 + n.below(3));
        let heads = kv_heads * group;
        let (queries, keys) = (1 + n.below(70), 1 + n.below(90));
        let (size, value_size) = (1 + n.below(40), 1 + n.below(70));
        let mut p = AttentionParams {
            kv_heads,
            value_size,
            q: strides(n.below(2) == 0, heads, queries, size),
            k: strides(n.below(2) == 0, kv_heads, keys, size),
            v: strides(n.below(2) == 0, kv_heads, keys, value_size),
            out: strides(n.below(2) == 0, heads, queries, value_size),
            scale: 1.0 / (size as f32).sqrt(),
            ..AttentionParams::dense(batch, heads, queries, keys, size)
        };
        p.mask = mask(n.below(4), queries, keys);
        if n.below(4) == 0 {
            p.softcap = 0.5;
        }
        if n.below(3) == 0 {
            p.right = Some(n.below(3));
            p.past = n.below(keys);
        }
        if n.below(4) == 0 {
            p.left = Some(n.below(40));
        }
        for isa in Isa::available() {
            check(isa, &pools[round % 2], p, n);
        }
    }
}

#[test]
fn few_queries_read_keys_in_place() {
    let pools = [ThreadPool::new(1), ThreadPool::new(2)];
    let mut numbers = Numbers(11);
    let mut few = 0;
    for round in 0..120 {
        let n = &mut numbers;
        let (batch, kv_heads, group) = (1 + n.below(3), 1 + n.below(4), 1 + n.below(4));
        let heads = kv_heads * group;
        let queries = [1, 1, 1 + n.below(12)][n.below(3)];
        let (keys, size) = (1 + n.below(300), 1 + n.below(140));
        let inside = n.below(2) == 0;
        let mut p = AttentionParams {
            kv_heads,
            q: strides(n.below(2) == 0, heads, queries, size),
            k: strides(inside, kv_heads, keys, size),
            v: strides(inside, kv_heads, keys, size),
            out: strides(n.below(2) == 0, heads, queries, size),
            scale: 1.0 / (size as f32).sqrt(),
            ..AttentionParams::dense(batch, heads, queries, keys, size)
        };
        p.mask = mask(n.below(3), queries, keys);
        if n.below(3) == 0 {
            p.right = Some(n.below(3));
            p.past = n.below(keys + 5);
        }
        for isa in Isa::available() {
            let plan = AttentionPlan::of(Elements::F32, isa, p).unwrap();
            few += usize::from(plan.is_for_few_queries());
            check(isa, &pools[round % 2], p, n);
        }
    }
    assert!(few > 60 * Isa::available().len(), "{few}");
}

#[test]
fn large_scores_hidden_queries_and_nan() {
    let pool = ThreadPool::new(1);
    let p = AttentionParams {
        mask: Some(HeadStrides {
            batch: 0,
            head: 0,
            row: 3,
        }),
        ..AttentionParams::dense(1, 1, 4, 3, 1)
    };
    let (hide, see) = (f32::NEG_INFINITY, 0.0);
    let mask = [
        see,
        see,
        see,
        hide,
        hide,
        hide,
        hide,
        see,
        see,
        f32::NAN,
        hide,
        hide,
    ];
    let (q, k, v) = ([1e30f32, 1.0, 1e4, 1.0], [1.0f32, -1.0, 1.0], [1.0f32, 2.0, 4.0]);
    // the same queries again and again: few meet keys as they lie, many meet packed ones
    for times in [1, 4] {
        let (q, mask) = (q.repeat(times), mask.repeat(times));
        let p = AttentionParams {
            queries: q.len(),
            ..p
        };
        for isa in Isa::available() {
            let plan = AttentionPlan::of(Elements::F32, isa, p).unwrap();
            assert_eq!(plan.is_for_few_queries(), times == 1);
            let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
            let mut y = vec![f32::NAN; q.len()];
            plan.run(&pool, &q, &k, &v, Some(&mask), &mut y, &mut scratch);
            for y in y.chunks(4) {
                assert_eq!(y[..3], [2.5, 0.0, 4.0], "{isa:?}, {times} times");
                assert!(y[3].is_nan(), "{isa:?}, {times} times");
            }
        }
    }
}

#[test]
fn mask_is_not_read_without_a_mask_parameter() {
    let pool = ThreadPool::new(1);
    let p = AttentionParams::dense(1, 1, 1, 3, 1);
    for isa in Isa::available() {
        let plan = AttentionPlan::of(Elements::F32, isa, p).unwrap();
        let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
        for mask in [&[][..], &[f32::NAN; 3]] {
            let mut y = [f32::NAN];
            let (q, k, v) = ([1.0f32], [1.0f32; 3], [1.0f32, 2.0, 6.0]);
            plan.run(&pool, &q, &k, &v, Some(mask), &mut y, &mut scratch);
            assert!((y[0] - 3.0).abs() < 1e-5, "{isa:?}: {y:?}");
        }
    }
}

#[test]
fn shapes_without_elements_and_wrong_ones() {
    let isa = Isa::detect();
    let pool = ThreadPool::new(2);
    // no keys: nothing is seen
    let plan = AttentionPlan::of(Elements::F32, isa, AttentionParams::dense(1, 2, 3, 0, 4)).unwrap();
    let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
    let mut y = [f32::NAN; 24];
    let none: &[f32] = &[];
    plan.run(&pool, &[1.0f32; 24], none, none, None, &mut y, &mut scratch);
    assert_eq!(y, [0.0; 24]);
    let plan = AttentionPlan::of(Elements::F32, isa, AttentionParams::dense(0, 2, 3, 5, 4)).unwrap();
    let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
    plan.run(&pool, none, none, none, None, &mut [0.0f32; 0], &mut scratch);

    let dense = AttentionParams::dense(1, 3, 2, 2, 2);
    let of = |p| AttentionPlan::of(Elements::F32, isa, p).map(|_| ());
    assert!(of(AttentionParams { kv_heads: 2, ..dense }).is_err());
    let overlapping = HeadStrides { row: 1, ..dense.out };
    assert!(
        of(AttentionParams {
            out: overlapping,
            ..dense
        })
        .is_err()
    );
    assert!(of(AttentionParams::dense(1, 1, usize::MAX / 2, 3, 2)).is_err());
}
