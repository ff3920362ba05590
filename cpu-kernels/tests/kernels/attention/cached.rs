//! Attention over a cache against a plain loop in `f64`.

use half::f16;
use polychip_cpu_kernels::attention::*;
use polychip_cpu_kernels::{Isa, ThreadPool};
use proptest::prelude::*;

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (((i + seed * 131) * 7919 + i / 7 * 613) % 2003) as f32 / 1000.0 - 1.0)
        .collect()
}

/// A shape with its operands; the cache holds garbage behind the past.
struct Case {
    heads: usize,
    kv_heads: usize,
    size: usize,
    rows: usize,
    past: usize,
    capacity: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    keys: Vec<f16>,
    values: Vec<f16>,
}

impl Case {
    fn new([kv_heads, group, size, rows, past, free]: [usize; 6], seed: usize) -> Case {
        let (heads, capacity) = (kv_heads * group, past + free);
        let cache = |seed: usize| -> Vec<f16> {
            let mut all: Vec<f16> = floats(kv_heads * capacity * size, seed)
                .into_iter()
                .map(f16::from_f32)
                .collect();
            for (i, x) in all.iter_mut().enumerate() {
                if i / size % capacity >= past {
                    *x = f16::NAN;
                }
            }
            all
        };
        Case {
            heads,
            kv_heads,
            size,
            rows,
            past,
            capacity,
            q: floats(rows * heads * size, seed)
                .iter()
                .map(|x| x * 4.0)
                .collect(),
            k: floats(rows * kv_heads * size, seed + 1),
            v: floats(rows * kv_heads * size, seed + 2),
            keys: cache(seed + 3),
            values: cache(seed + 4),
        }
    }

    fn plan(&self, isa: Isa) -> CachedAttentionPlan {
        CachedAttentionPlan::new(
            isa,
            self.heads,
            self.kv_heads,
            self.size,
            self.rows,
            self.capacity,
        )
        .unwrap()
    }

    fn run(&self, isa: Isa, pool: &ThreadPool) -> Vec<f32> {
        let plan = self.plan(isa);
        let mut scratch = vec![f32::NAN; plan.scratch_len(pool)];
        let mut out = vec![f32::NAN; self.q.len()];
        let (keys, values) = (&self.keys[..], &self.values[..]);
        plan.run(
            pool,
            &self.q,
            &self.k,
            &self.v,
            keys,
            values,
            self.past,
            &mut out,
            &mut scratch,
        );
        out
    }

    /// Row, head, and value of a key or value of `position`, new ones as `new` has them.
    fn at(&self, cache: &[f16], new: &[f32], head: usize, position: usize, d: usize) -> f64 {
        if position < self.past {
            return f64::from(cache[(head * self.capacity + position) * self.size + d].to_f32());
        }
        let row = position - self.past;
        f64::from(f16::from_f32(new[(row * self.kv_heads + head) * self.size + d]).to_f32())
    }

    fn wanted(&self) -> Vec<f64> {
        let group = self.heads / self.kv_heads;
        let scale = 1.0 / (self.size as f64).sqrt();
        let mut out = Vec::new();
        for row in 0..self.rows {
            for head in 0..self.heads {
                let q = &self.q[(row * self.heads + head) * self.size..][..self.size];
                let score = |position: usize| -> f64 {
                    let k = |d| self.at(&self.keys, &self.k, head / group, position, d);
                    q.iter()
                        .enumerate()
                        .map(|(d, &q)| f64::from(q) * k(d))
                        .sum::<f64>()
                        * scale
                };
                let scores: Vec<f64> = (0..self.past + row + 1).map(score).collect();
                let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
                let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                for d in 0..self.size {
                    let v = |position| self.at(&self.values, &self.v, head / group, position, d);
                    let sum: f64 = weights.iter().enumerate().map(|(p, w)| w * v(p)).sum();
                    out.push(sum / total);
                }
            }
        }
        out
    }

    fn check(&self) {
        let wanted = self.wanted();
        for isa in Isa::available() {
            for threads in [1, 2, 3, 7] {
                let out = self.run(isa, &ThreadPool::new(threads));
                for (i, (got, want)) in out.iter().zip(&wanted).enumerate() {
                    assert!(
                        (f64::from(*got) - want).abs() < 2e-5,
                        "{} of {isa:?}, {threads} threads: {got} is not {want}, heads {}/{}, size {}, rows {}, past {}",
                        i,
                        self.heads,
                        self.kv_heads,
                        self.size,
                        self.rows,
                        self.past
                    );
                }
            }
        }
    }
}

#[test]
fn model_shapes_match_the_plain_loop() {
    for shape in [
        [3, 3, 64, 1, 0, 8],
        [3, 3, 64, 1, 777, 10],
        [2, 7, 64, 1, 300, 4],
        [1, 1, 128, 1, 1000, 1],
        [2, 4, 80, 1, 129, 64],
        [2, 2, 128, 4, 70, 10],
        [3, 3, 64, 40, 0, 40],
        [2, 7, 64, 33, 90, 40],
        [1, 1, 80, 130, 64, 130],
        [1, 70, 16, 3, 5, 3],
        // many queries over ranges of positions, of which some see nothing of the last ones
        [1, 14, 64, 4, 600, 4],
        [1, 1, 64, 300, 0, 300],
        // one to four vectors of sixteen queries, over ranges
        [3, 3, 64, 5, 400, 5],
        [3, 3, 64, 8, 1000, 8],
        [3, 3, 64, 16, 500, 20],
        [3, 3, 64, 21, 400, 30],
    ] {
        Case::new(shape, 5).check();
    }
}

#[test]
fn results_do_not_depend_on_which_thread_ends_last() {
    let case = Case::new([3, 3, 64, 8, 1000, 8], 9);
    for isa in Isa::available() {
        let pool = ThreadPool::new(4);
        let first = case.run(isa, &pool);
        for _ in 0..20 {
            assert_eq!(case.run(isa, &pool), first, "{isa:?}");
        }
    }
}

#[test]
fn scratch_is_reusable_for_another_past() {
    let mut case = Case::new([3, 3, 64, 4, 900, 4], 4);
    let pool = ThreadPool::new(3);
    let isa = Isa::detect();
    let plan = case.plan(isa);
    let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
    for past in [900, 0, 150, 511, 900] {
        case.past = past;
        let mut out = vec![f32::NAN; case.q.len()];
        let (keys, values) = (&case.keys[..], &case.values[..]);
        plan.run(
            &pool,
            &case.q,
            &case.k,
            &case.v,
            keys,
            values,
            past,
            &mut out,
            &mut scratch,
        );
        for (got, want) in out.iter().zip(case.wanted()) {
            assert!(
                (f64::from(*got) - want).abs() < 2e-5,
                "past {past}: {got} is not {want}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn odd_shapes_match_the_plain_loop(
        kv_heads in 1usize..4, group in 1usize..6, size in 1usize..70, rows in 1usize..24, past in 0usize..300, seed in 0usize..1000,
    ) {
        Case::new([kv_heads, group, size, rows, past, rows], seed).check();
    }
}

#[test]
fn chunked_prefill_matches_one_prefill() {
    // few positions, so that each counts for much
    let (rows, past) = (12, 2);
    let case = Case::new([2, 3, 64, rows, past, rows], 1);
    for isa in Isa::available() {
        let pool = ThreadPool::new(2);
        let whole = case.run(isa, &pool);
        // what new rows that are not rounded would give is further off than what is allowed below
        let wide = |x: &[f16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
        let (wide_keys, wide_values) = (wide(&case.keys), wide(&case.values));
        let plan = case.plan(isa);
        let mut scratch = vec![0.0; plan.scratch_len(&pool)];
        let mut unrounded = vec![0.0; whole.len()];
        plan.run(
            &pool,
            &case.q,
            &case.k,
            &case.v,
            &wide_keys[..],
            &wide_values[..],
            past,
            &mut unrounded,
            &mut scratch,
        );
        let off = unrounded.iter().zip(&whole).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) > 5e-5, "{isa:?}: nothing was rounded");
        let plan = CachedAttentionPlan::new(isa, 6, 2, 64, 1, case.capacity).unwrap();
        let mut scratch = vec![0.0; plan.scratch_len(&pool)];
        let (mut keys, mut values) = (case.keys.clone(), case.values.clone());
        for row in 0..rows {
            let part = |x: &[f32], heads: usize| x[row * heads * 64..][..heads * 64].to_vec();
            let (q, k, v) = (part(&case.q, 6), part(&case.k, 2), part(&case.v, 2));
            let mut out = vec![0.0; 6 * 64];
            plan.run(
                &pool,
                &q,
                &k,
                &v,
                &keys[..],
                &values[..],
                past + row,
                &mut out,
                &mut scratch,
            );
            for (a, b) in out.iter().zip(&whole[row * 6 * 64..]) {
                // sums in another order
                assert!((a - b).abs() < 1e-5, "{isa:?}, row {row}: {a} and {b}");
            }
            for (cache, new) in [(&mut keys, k), (&mut values, v)] {
                for head in 0..2 {
                    let at = (head * case.capacity + past + row) * 64;
                    for (to, x) in cache[at..at + 64].iter_mut().zip(&new[head * 64..]) {
                        *to = f16::from_f32(*x);
                    }
                }
            }
        }
    }
}

#[test]
fn float_kv_cache_is_not_rounded() {
    let mut case = Case::new([1, 2, 32, 2, 40, 2], 2);
    for isa in Isa::available() {
        let pool = ThreadPool::new(1);
        let wide = |x: &[f16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
        // new rows that 16 bits hold are the same in either
        for x in case.k.iter_mut().chain(&mut case.v) {
            *x = f16::from_f32(*x).to_f32();
        }
        let plan = case.plan(isa).with_scale(0.25);
        let mut scratch = vec![0.0; plan.scratch_len(&pool)];
        let (mut a, mut b) = (vec![0.0; case.q.len()], vec![0.0; case.q.len()]);
        let (keys, values) = (wide(&case.keys), wide(&case.values));
        plan.run(
            &pool,
            &case.q,
            &case.k,
            &case.v,
            &keys[..],
            &values[..],
            40,
            &mut a,
            &mut scratch,
        );
        plan.run(
            &pool,
            &case.q,
            &case.k,
            &case.v,
            &case.keys[..],
            &case.values[..],
            40,
            &mut b,
            &mut scratch,
        );
        assert_eq!(a, b, "{isa:?}");
        case.k[3] += 1e-5;
        plan.run(
            &pool,
            &case.q,
            &case.k,
            &case.v,
            &keys[..],
            &values[..],
            40,
            &mut b,
            &mut scratch,
        );
        assert_ne!(a, b, "{isa:?}: the new key was rounded");
    }
}

#[test]
fn nan_reaches_only_queries_that_see_it() {
    for rows in [3, 20] {
        let mut case = Case::new([1, 2, 16, rows, 10, rows], 3);
        // the second row's key
        case.k[16] = f32::NAN;
        for isa in Isa::available() {
            let out = case.run(isa, &ThreadPool::new(1));
            for (row, out) in out.chunks(32).enumerate() {
                assert!(
                    out.iter().all(|x| x.is_nan() == (row >= 1)),
                    "{isa:?}, row {row}: {out:?}"
                );
            }
        }
    }
}

#[test]
fn fully_masked_queries_give_zeros() {
    for rows in [1, 11, 12] {
        let mut case = Case::new([1, 1, 16, rows, 0, rows], 3);
        case.q.fill(1e35);
        case.k.fill(-6e4);
        for isa in Isa::available() {
            let out = case.run(isa, &ThreadPool::new(1));
            assert!(out.iter().all(|&x| x == 0.0), "{isa:?}, {rows} rows: {out:?}");
        }
    }
}

#[test]
fn query_heads_must_be_a_multiple_of_kv_heads() {
    assert!(CachedAttentionPlan::new(Isa::SCALAR, 9, 2, 64, 1, 8).is_err());
    assert!(CachedAttentionPlan::new(Isa::SCALAR, 9, 0, 64, 1, 8).is_err());
    assert!(CachedAttentionPlan::new(Isa::SCALAR, 8, 2, 64, 1, usize::MAX / 64).is_err());
}
