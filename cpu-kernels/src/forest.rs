//! Ensembles of decision trees over rows of f32, several rows or trees at a time.
//!
//! 1. A node has 16 bytes. Its "no" child follows its "yes" child, so a step adds 0 or 1 to an
//!    index, without a branch.
//! 2. A leaf is a node that points to itself, so lanes that have reached a leaf wait for the
//!    others.
//! 3. Weights are added in the order of the trees, whatever the number of threads or rows.
//!
//! Not here: operations that cannot run in lanes (membership tests, minimum and maximum of
//! weights); [`CompiledForest::new`] refuses them.
#![allow(unsafe_code)]

use crate::ThreadPool;
use crate::reference::forest::{Branch, Child, Forest, Join, Test, Transform};
use crate::threads::{Parts, share};

/// Rows or trees that go down side by side: enough that their cache misses overlap.
const LANES: usize = 8;

/// Most rows of a chunk: a tree's upper nodes stay in the first-level cache while they pass.
const MOST_ROWS: usize = 256;

/// Steps from a node to a node below which a call is left to one thread (about 10 µs, twice what a fork and a join cost).
const ONE_THREAD: usize = 8192;

const SPLIT: u32 = 1;
const MISSING: u32 = 2;
const EQUALS: u32 = 4;
const FLAGS: u32 = 3;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Node {
    /// What the feature is held against; of a leaf its weight, where every leaf has one.
    value: f32,
    /// The column of a row.
    feature: u32,
    /// Where "yes" leads; of a leaf, to itself.
    yes: u32,
    /// What the node is, and of a leaf its number above [`FLAGS`] bits.
    flags: u32,
}

/// Weights of leaves.
#[derive(Clone, Debug)]
enum Weights {
    /// One target, one weight per leaf, in the leaf's node.
    Single,
    /// Each leaf has a weight for each target, in order.
    Dense(Vec<f32>),
    /// Weights by leaf: where those of each begin, then target and weight.
    Sparse(Vec<u32>, Vec<(u32, f32)>),
}

/// Decision trees compiled for lanes.
#[derive(Clone, Debug)]
pub struct CompiledForest {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    weights: Weights,
    targets: usize,
    /// The least number of columns.
    features: usize,
    base: Vec<f32>,
    /// What each sum is multiplied by.
    factor: f32,
    /// Steps from a root to a leaf in the deepest tree.
    depth: usize,
}

/// A branch by "at most" or "equals", its children perhaps exchanged; `None` for what is neither.
fn test(branch: &Branch) -> Option<(f32, u32, bool)> {
    // the thresholds of f32 rows are f32s
    let value = branch.value as f32;
    if f64::from(value) != branch.value && !branch.value.is_nan() {
        return None;
    }
    let missing = |yes: bool| if yes { MISSING } else { 0 };
    let below = || Some(value.next_down()).filter(|_| value.is_finite());
    Some(match branch.test {
        Test::AtMost => (value, missing(branch.missing), false),
        Test::Below => (below()?, missing(branch.missing), false),
        // exchanged, a NaN has to go the other way
        Test::Above => (value, missing(!branch.missing), true),
        Test::AtLeast => (below()?, missing(!branch.missing), true),
        Test::Equals => (value, EQUALS | missing(branch.missing), false),
        // a NaN differs from every value
        Test::Differs => (value, EQUALS, true),
        Test::Member => return None,
    })
    .filter(|_| !value.is_nan())
}

impl CompiledForest {
    /// Compiles checked trees; `None` if they use an operation that cannot run in lanes.
    #[must_use]
    pub fn new(forest: &Forest) -> Option<CompiledForest> {
        let sums = matches!(forest.join, Join::Sum | Join::Average) && forest.transform == Transform::None;
        if !sums || forest.targets == 0 {
            return None;
        }
        let mut compiled = CompiledForest {
            nodes: Vec::with_capacity(forest.branches.len() + forest.leaves.len() + 1),
            roots: Vec::with_capacity(forest.roots.len()),
            weights: weights(forest)?,
            targets: forest.targets,
            features: forest.branches.iter().map(|b| b.feature + 1).max().unwrap_or(0),
            base: forest.base.iter().map(|&base| base as f32).collect(),
            factor: match forest.join {
                Join::Average => 1.0 / forest.roots.len().max(1) as f32,
                _ => 1.0,
            },
            depth: 0,
        };
        for &root in &forest.roots {
            compiled.tree(forest, root)?;
        }
        Some(compiled)
    }

    /// Adds a tree, breadth first: its upper nodes, which every row passes, then lie together.
    fn tree(&mut self, forest: &Forest, root: Child) -> Option<()> {
        let blank = Node {
            value: 0.0,
            feature: 0,
            yes: 0,
            flags: 0,
        };
        let start = self.nodes.len();
        self.roots.push(u32::try_from(start).ok()?);
        self.nodes.push(blank);
        let mut level = vec![(start, root)];
        let mut depth = 0;
        while !level.is_empty() {
            let mut below = Vec::new();
            for (at, child) in level {
                let own = u32::try_from(at).ok()?;
                self.nodes[at] = match child {
                    Child::Leaf(leaf) => Node {
                        value: match self.weights {
                            Weights::Single => forest.leaves[leaf].first().map_or(0.0, |&(_, w)| w as f32),
                            _ => 0.0,
                        },
                        feature: 0,
                        yes: own,
                        flags: u32::try_from(leaf)
                            .ok()
                            .filter(|&leaf| leaf < 1 << (32 - FLAGS))?
                            << FLAGS,
                    },
                    Child::Branch(index) => {
                        let branch = &forest.branches[index];
                        let (value, flags, exchanged) = test(branch)?;
                        let yes = self.nodes.len();
                        self.nodes.extend([blank; 2]);
                        let ways = [branch.yes, branch.no];
                        below.push((yes, ways[usize::from(exchanged)]));
                        below.push((yes + 1, ways[usize::from(!exchanged)]));
                        // trees that share branches could grow without end
                        if self.nodes.len() - start > 2 * forest.branches.len() + 1 {
                            return None;
                        }
                        Node {
                            value,
                            feature: u32::try_from(branch.feature).ok()?,
                            yes: u32::try_from(yes).ok()?,
                            flags: SPLIT | flags,
                        }
                    }
                };
            }
            level = below;
            depth += 1;
        }
        self.depth = self.depth.max(depth);
        Some(())
    }

    /// Targets of a row.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Minimum number of columns of a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Maximum number of steps from node to node for this number of rows.
    #[must_use]
    pub fn steps(&self, rows: usize) -> usize {
        rows.saturating_mul(self.roots.len()).saturating_mul(self.depth)
    }

    /// Computes the targets `[n, targets]` of rows `[n, features]`.
    ///
    /// # Panics
    /// If the slices do not hold whole rows, or rows have fewer columns than the trees ask for.
    pub fn run(&self, pool: &ThreadPool, x: &[f32], features: usize, y: &mut [f32]) {
        let rows = y.len() / self.targets;
        assert!(features >= self.features, "forest: rows are too short");
        assert!(
            x.len() == rows * features && y.len() == rows * self.targets,
            "forest: lengths differ"
        );
        let mut chunks = rows.div_ceil(MOST_ROWS);
        if self.steps(rows) > ONE_THREAD {
            chunks = chunks.max(pool.threads()).next_multiple_of(pool.threads());
        }
        let chunks = chunks.min(rows.div_ceil(LANES)).max(1);
        let parts = Parts::new(y);
        pool.run(chunks, &|chunk| {
            let range = share(rows, chunks, chunk, LANES);
            // SAFETY: chunks share the rows out.
            let y = unsafe { parts.part(range.start * self.targets, range.len() * self.targets) };
            self.rows(&x[range.start * features..range.end * features], features, y);
        });
    }

    fn rows(&self, x: &[f32], features: usize, y: &mut [f32]) {
        let rows = y.len() / self.targets;
        y.fill(0.0);
        let whole = rows / LANES * LANES;
        if whole > 0 {
            for &root in &self.roots {
                for first in (0..whole).step_by(LANES) {
                    let starts = std::array::from_fn(|lane| (first + lane) * features);
                    let leaves = self.descend([root; LANES], x, starts);
                    for (lane, leaf) in leaves.into_iter().enumerate() {
                        self.add(leaf, &mut y[(first + lane) * self.targets..][..self.targets]);
                    }
                }
            }
        }
        for row in whole..rows {
            let y = &mut y[row * self.targets..][..self.targets];
            let starts = [row * features; LANES];
            for roots in self.roots.chunks(LANES) {
                let lanes = std::array::from_fn(|lane| roots[lane.min(roots.len() - 1)]);
                let leaves = self.descend(lanes, x, starts);
                for &leaf in &leaves[..roots.len()] {
                    self.add(leaf, y);
                }
            }
        }
        if self.factor != 1.0 {
            y.iter_mut().for_each(|v| *v *= self.factor);
        }
        if !self.base.is_empty() {
            for row in y.chunks_exact_mut(self.targets) {
                row.iter_mut().zip(&self.base).for_each(|(v, base)| *v += base);
            }
        }
    }

    /// The leaves to which rows fall, each from its root.
    #[inline(always)]
    fn descend(&self, roots: [u32; LANES], x: &[f32], starts: [usize; LANES]) -> [Node; LANES] {
        debug_assert!(starts.iter().all(|start| start + self.features <= x.len()));
        let mut at = roots;
        loop {
            let mut open = 0;
            // SAFETY: roots are indices of nodes, and so is where a node leads: `tree` wrote both.
            let nodes: [Node; LANES] =
                std::array::from_fn(|lane| unsafe { *self.nodes.get_unchecked(at[lane] as usize) });
            for node in &nodes {
                open |= node.flags;
            }
            if open & SPLIT == 0 {
                return nodes;
            }
            for lane in 0..LANES {
                let node = nodes[lane];
                // SAFETY: a feature is below `self.features`, and each row holds as many (`run`); that of a leaf is 0, and
                // where some lane is no leaf, rows have columns.
                let v = unsafe { *x.get_unchecked(starts[lane] + node.feature as usize) };
                let most = u32::from(v <= node.value);
                let least = u32::from(v >= node.value) | u32::from(node.flags & EQUALS == 0);
                let missing = u32::from(v.is_nan()) & (node.flags >> 1);
                let yes = (most & least) | missing;
                at[lane] = node.yes + (node.flags & SPLIT & !yes);
            }
        }
    }

    #[inline(always)]
    fn add(&self, leaf: Node, y: &mut [f32]) {
        let number = (leaf.flags >> FLAGS) as usize;
        match &self.weights {
            Weights::Single => y[0] += leaf.value,
            Weights::Dense(weights) => {
                let weights = &weights[number * y.len()..][..y.len()];
                y.iter_mut().zip(weights).for_each(|(v, weight)| *v += weight);
            }
            Weights::Sparse(starts, weights) => {
                for &(target, weight) in &weights[starts[number] as usize..starts[number + 1] as usize] {
                    y[target as usize] += weight;
                }
            }
        }
    }
}

fn weights(forest: &Forest) -> Option<Weights> {
    if forest.targets == 1 && forest.leaves.iter().all(|leaf| leaf.len() <= 1) {
        return Some(Weights::Single);
    }
    let in_order = |leaf: &Vec<(usize, f64)>| {
        leaf.len() == forest.targets
            && leaf
                .iter()
                .enumerate()
                .all(|(index, &(target, _))| index == target)
    };
    let all = forest.leaves.iter().flatten();
    if forest.leaves.iter().all(in_order) {
        return Some(Weights::Dense(all.map(|&(_, weight)| weight as f32).collect()));
    }
    let mut starts = vec![0];
    for leaf in &forest.leaves {
        let end = starts.last().copied().unwrap_or(0) + u32::try_from(leaf.len()).ok()?;
        starts.push(end);
    }
    let all = all.map(|&(target, weight)| Some((u32::try_from(target).ok()?, weight as f32)));
    Some(Weights::Sparse(starts, all.collect::<Option<_>>()?))
}
