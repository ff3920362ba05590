//! Seeded random placement problems.
//!
//! Invariants: the same seed gives the same problem on every host.

use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A seeded source of numbers.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// How nodes are wired.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// Everything may read anything; links, supports and homes may be missing.
    Dense,
    /// Each node reads two random earlier ones: wide.
    Wide,
    /// Each node reads the one before.
    Chain,
}

pub(crate) fn problem(random: &mut Random, nodes: usize, devices: usize, shape: Shape) -> Problem {
    let hard = shape == Shape::Dense;
    let mut cost = Vec::new();
    for _ in 0..nodes {
        // at least one device can run the node, unless the problem is meant to be impossible
        let sure = if hard && random.chance(1) {
            usize::MAX
        } else {
            random.below(devices)
        };
        for device in 0..devices {
            let refused = device != sure && random.chance(20);
            cost.push(if refused {
                FORBIDDEN
            } else {
                random.below(1000) as u64
            });
        }
    }
    // ties matter too: some problems know only a few different costs
    if hard && random.chance(30) {
        for cost in cost.iter_mut().filter(|cost| **cost != FORBIDDEN) {
            *cost = *cost / 400 * 400;
        }
    }
    let launch = (0..devices).map(|_| random.below(300) as u64).collect();
    let mut problem = Problem::new(cost, launch).unwrap();
    let missing = hard && random.chance(20);
    let transfer = |random: &mut Random| {
        let scale = 1 + random.below(600);
        let mut costs: Vec<u64> = (0..devices * devices)
            .map(|_| random.below(scale) as u64)
            .collect();
        if missing {
            for cost in &mut costs {
                if random.chance(30) {
                    *cost = FORBIDDEN;
                }
            }
        }
        costs
    };
    for node in 0..nodes {
        let later = nodes - node - 1;
        let readers: Vec<usize> = match shape {
            Shape::Dense => (0..random.below(5))
                .filter(|_| later > 0)
                .map(|_| node + 1 + random.below(later))
                .collect(),
            Shape::Chain => (node + 1..nodes).take(1).collect(),
            Shape::Wide => (0..2)
                .filter(|_| later > 0)
                .map(|_| node + 1 + random.below(later))
                .collect(),
        };
        let home = (hard && random.chance(10)).then(|| random.below(devices));
        let transfer = transfer(random);
        problem
            .push(Moved {
                source: Source::Node(node),
                readers,
                home,
                transfer: transfer.into(),
            })
            .unwrap();
    }
    if hard {
        for _ in 0..random.below(3) {
            let readers = (0..1 + random.below(4)).map(|_| random.below(nodes)).collect();
            let source = Source::Device(random.below(devices));
            let transfer = transfer(random);
            problem
                .push(Moved {
                    source,
                    readers,
                    home: None,
                    transfer: transfer.into(),
                })
                .unwrap();
        }
    }
    problem
}
