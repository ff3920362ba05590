//! Tree ensembles against the reference.

use polychip_cpu_kernels::ThreadPool;
use polychip_cpu_kernels::forest::*;
use polychip_cpu_kernels::reference::forest::{Branch, Child, Forest, Join, Test, Transform};
use polychip_cpu_kernels::reference::{Element, Tensor, forest::predict};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Random numbers that a seed repeats.
struct Numbers(ChaCha8Rng);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0.random_range(0..below)
    }
}

const TESTS: [Test; 6] = [
    Test::AtMost,
    Test::Below,
    Test::AtLeast,
    Test::Above,
    Test::Equals,
    Test::Differs,
];

/// Trees over 5 features whose values are small integers, so that all tests meet equal values.
fn forest(seed: u64, targets: usize, weights: usize) -> Forest {
    let mut n = Numbers(ChaCha8Rng::seed_from_u64(seed));
    let mut made = Forest {
        branches: Vec::new(),
        leaves: Vec::new(),
        roots: Vec::new(),
        targets,
        base: (0..targets).map(|target| target as f64).collect(),
        join: if seed.is_multiple_of(2) {
            Join::Sum
        } else {
            Join::Average
        },
        transform: Transform::None,
    };
    fn grow(made: &mut Forest, n: &mut Numbers, depth: usize, weights: usize) -> Child {
        if depth == 0 || n.next(5) == 0 {
            let targets = made.targets;
            let leaf = (0..weights)
                .map(|weight| {
                    (
                        (weight + n.next(1 + targets - weights.min(targets))) % targets,
                        n.next(9) as f64,
                    )
                })
                .collect();
            made.leaves.push(leaf);
            return Child::Leaf(made.leaves.len() - 1);
        }
        let (yes, no) = (
            grow(made, n, depth - 1, weights),
            grow(made, n, depth - 1, weights),
        );
        made.branches.push(Branch {
            feature: n.next(5),
            test: TESTS[n.next(6)],
            value: n.next(4) as f64,
            members: Vec::new(),
            missing: n.next(2) == 0,
            yes,
            no,
        });
        Child::Branch(made.branches.len() - 1)
    }
    for _ in 0..1 + n.next(20) {
        let root = grow(&mut made, &mut n, 6, weights);
        made.roots.push(root);
    }
    made.check().unwrap()
}

#[test]
fn lane_transposes_match_the_reference() {
    for (targets, weights) in [(1, 1), (3, 3), (3, 1), (4, 2)] {
        for seed in 0..20 {
            let forest = forest(seed, targets, weights);
            let compiled = CompiledForest::new(&forest).unwrap();
            for rows in [1, 7, 8, 9, 70] {
                let mut n = Numbers(ChaCha8Rng::seed_from_u64(seed + 99));
                let x: Vec<f64> = (0..rows * 5)
                    .map(|_| {
                        if n.next(10) == 0 {
                            f64::NAN
                        } else {
                            n.next(4) as f64
                        }
                    })
                    .collect();
                let tensor = Tensor::from_f64s(Element::F32, vec![rows, 5], &x).unwrap();
                let want = predict(&tensor, &forest, Element::F32)
                    .unwrap()
                    .to_f64s()
                    .unwrap();
                let x: Vec<f32> = x.iter().map(|&v| v as f32).collect();
                for threads in [1, 3] {
                    let mut y = vec![9.0; rows * targets];
                    compiled.run(&ThreadPool::new(threads), &x, 5, &mut y);
                    for (y, want) in y.iter().zip(&want) {
                        assert!(
                            (f64::from(*y) - want).abs() < 1e-4,
                            "seed {seed}: {y}, not {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn unsupported_lane_widths_are_refused() {
    let made = forest(1, 1, 1);
    let with = |change: fn(&mut Forest)| {
        let mut other = made.clone();
        change(&mut other);
        CompiledForest::new(&other).is_none()
    };
    assert!(!with(|_| {}));
    assert!(with(|f| f.join = Join::Max));
    assert!(with(|f| f.transform = Transform::Softmax));
    assert!(with(|f| f
        .branches
        .iter_mut()
        .for_each(|b| b.test = Test::Member)));
    // more digits than an f32 has
    assert!(with(|f| f.branches.iter_mut().for_each(|b| b.value = 0.1)));
}
