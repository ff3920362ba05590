//! Ensembles of decision trees: each row descends each tree to a leaf, and the leaves' weights are
//! combined per target.
//!
//! Invariants:
//! 1. A [`Forest`] that [`Forest::check`] has passed has no circle and no index out of range.
//! 2. A NaN fails every comparison but "differs", unless its branch sends missing values to "yes".
//!
//! Source: TreeEnsemble and TreeEnsembleRegressor of ONNX's `ai.onnx.ml`.

use super::error::{Result, refuse, require};
use super::{Element, Tensor};

/// The test of a branch on a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Test {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equals,
    Differs,
    /// One of several values.
    Member,
}

/// A child of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// A branch, by its index.
    Branch(usize),
    /// A leaf, by its index.
    Leaf(usize),
}

/// An inner node.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The column of the row.
    pub feature: usize,
    /// The test.
    pub test: Test,
    /// The value that the feature is compared with.
    pub value: f64,
    /// The values of a test of membership.
    pub members: Vec<f64>,
    /// Whether a NaN takes the "yes" branch.
    pub missing: bool,
    /// The child if the test is true.
    pub yes: Child,
    /// The child if the test is false.
    pub no: Child,
}

/// How the trees' weights for a target are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Join {
    Average,
    Sum,
    Min,
    Max,
}

/// The transformation of a row of combined weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transform {
    None,
    Softmax,
    Logistic,
    /// Softmax in which a zero stays near zero.
    SoftmaxZero,
    /// The inverse of the normal distribution.
    Probit,
}

/// An ensemble of trees.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// Inner nodes.
    pub branches: Vec<Branch>,
    /// Targets and weights of each leaf.
    pub leaves: Vec<Vec<(usize, f64)>>,
    /// The root of each tree.
    pub roots: Vec<Child>,
    /// Number of targets.
    pub targets: usize,
    /// Added to each target; empty for nothing.
    pub base: Vec<f64>,
    /// How weights are combined.
    pub join: Join,
    /// The transformation of the row.
    pub transform: Transform,
}

impl Branch {
    /// The child that a feature's value selects.
    #[must_use]
    pub fn next(&self, x: f64) -> Child {
        let yes = match self.test {
            Test::AtMost => x <= self.value,
            Test::Below => x < self.value,
            Test::AtLeast => x >= self.value,
            Test::Above => x > self.value,
            Test::Equals => x == self.value,
            Test::Differs => x != self.value,
            Test::Member => self.members.contains(&x),
        };
        if yes || (self.missing && x.is_nan()) {
            self.yes
        } else {
            self.no
        }
    }
}

impl Forest {
    /// Returns the trees if they are well-formed.
    ///
    /// # Errors
    /// If a child, a target or the base does not exist, or branches lead in a circle.
    pub fn check(self) -> Result<Self> {
        let (branches, leaves) = (self.branches.len(), self.leaves.len());
        let there = |child: Child| match child {
            Child::Branch(index) => index < branches,
            Child::Leaf(index) => index < leaves,
        };
        let children = self.branches.iter().flat_map(|branch| [branch.yes, branch.no]);
        for child in children.chain(self.roots.iter().copied()) {
            require!(there(child), "a tree leads to {child:?}, which is not there");
        }
        for &(target, _) in self.leaves.iter().flatten() {
            require!(target < self.targets, "target {target} of {}", self.targets);
        }
        require!(
            self.base.is_empty() || self.base.len() == self.targets,
            "{} base values for {} targets",
            self.base.len(),
            self.targets
        );
        // every branch is entered and left once, its children in between
        let mut state = vec![0u8; branches];
        let mut path: Vec<(Child, bool)> = self.roots.iter().map(|&root| (root, false)).collect();
        while let Some((child, left)) = path.pop() {
            let Child::Branch(index) = child else { continue };
            if left {
                state[index] = 2;
                continue;
            }
            require!(state[index] != 1, "branch {index} of a tree leads to itself");
            if state[index] == 2 {
                continue;
            }
            state[index] = 1;
            path.push((child, true));
            path.push((self.branches[index].yes, false));
            path.push((self.branches[index].no, false));
        }
        Ok(self)
    }

    /// The leaf of one tree for one row.
    fn leaf(&self, root: Child, row: &[f64]) -> usize {
        let mut at = root;
        loop {
            match at {
                Child::Leaf(leaf) => return leaf,
                Child::Branch(index) => {
                    let branch = &self.branches[index];
                    at = branch.next(row[branch.feature]);
                }
            }
        }
    }

    /// The targets of one row.
    fn row(&self, row: &[f64]) -> Vec<f64> {
        let mut joined: Vec<Option<f64>> = vec![None; self.targets];
        for &root in &self.roots {
            for &(target, weight) in &self.leaves[self.leaf(root, row)] {
                let slot = &mut joined[target];
                *slot = Some(match (*slot, self.join) {
                    (None, _) => weight,
                    (Some(before), Join::Sum | Join::Average) => before + weight,
                    (Some(before), Join::Min) => before.min(weight),
                    (Some(before), Join::Max) => before.max(weight),
                });
            }
        }
        let trees = self.roots.len().max(1) as f64;
        let divisor = if self.join == Join::Average { trees } else { 1.0 };
        let mut row: Vec<f64> = joined
            .into_iter()
            .map(|value| value.unwrap_or(0.0) / divisor)
            .collect();
        for (value, base) in row.iter_mut().zip(&self.base) {
            *value += base;
        }
        transform(&mut row, self.transform);
        row
    }
}

/// The targets `[n, targets]` of rows `[n, features]`, or of one row `[features]`.
///
/// # Errors
/// If the shape is another, or a tree asks for a feature that a row does not have. `forest` must have been checked.
pub fn predict(x: &Tensor, forest: &Forest, element: Element) -> Result<Tensor> {
    let (rows, features) = match *x.shape() {
        [features] => (1, features),
        [rows, features] => (rows, features),
        _ => refuse!("[n, features] wanted, shape {:?} seen", x.shape()),
    };
    for branch in &forest.branches {
        require!(
            branch.feature < features,
            "a tree asks for feature {} of {features}",
            branch.feature
        );
    }
    let values = x.to_f64s()?;
    let mut y = Vec::with_capacity(rows * forest.targets);
    for row in 0..rows {
        y.extend(forest.row(&values[row * features..(row + 1) * features]));
    }
    Tensor::from_f64s(element, vec![rows, forest.targets], &y)
}

fn transform(row: &mut [f64], by: Transform) {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match by {
        Transform::None => {}
        Transform::Logistic => row.iter_mut().for_each(|v| *v = 1.0 / (1.0 + (-*v).exp())),
        Transform::Probit => row.iter_mut().for_each(|v| *v = probit(*v)),
        Transform::Softmax => {
            row.iter_mut().for_each(|v| *v = (*v - most).exp());
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= sum);
        }
        Transform::SoftmaxZero => {
            for v in row.iter_mut() {
                // ONNX's bound for "zero"
                *v = if v.abs() > 1e-7 {
                    (*v - most).exp()
                } else {
                    *v * (-most).exp()
                };
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut()
                .for_each(|v| *v = if sum == 0.0 { 0.5 } else { *v / sum });
        }
    }
}

/// √2 · erf⁻¹(2x − 1), by Winitzki's approximation, which ONNX's own evaluator uses.
fn probit(x: f64) -> f64 {
    let x = 2.0 * x - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let v = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let root = (-v + (v * v - log / 0.147).sqrt()).sqrt();
    std::f64::consts::SQRT_2 * if x < 0.0 { -root } else { root }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(feature: usize, value: f64, yes: Child, no: Child) -> Branch {
        Branch {
            feature,
            test: Test::AtMost,
            value,
            members: Vec::new(),
            missing: false,
            yes,
            no,
        }
    }

    fn forest() -> Forest {
        use Child::{Branch as B, Leaf as L};
        Forest {
            branches: vec![branch(0, 0.5, B(1), L(0)), branch(1, 2.0, L(1), L(2))],
            leaves: vec![vec![(0, 1.0)], vec![(1, 2.0)], vec![(0, 3.0), (1, 4.0)]],
            roots: vec![B(0), L(0)],
            targets: 2,
            base: vec![10.0, 20.0],
            join: Join::Sum,
            transform: Transform::None,
        }
    }

    fn predicted(forest: Forest, rows: &[f64]) -> Vec<f64> {
        let x = Tensor::from_f64s(Element::F32, vec![rows.len() / 2, 2], rows).unwrap();
        let y = predict(&x, &forest.check().unwrap(), Element::F32).unwrap();
        y.to_f64s().unwrap()
    }

    #[test]
    fn rows_reach_their_leaves() {
        let rows = [0.0, 2.0, 0.5, 2.1, 0.6, 0.0];
        assert_eq!(predicted(forest(), &rows), [11.0, 22.0, 14.0, 24.0, 12.0, 20.0]);
        let average = Forest {
            join: Join::Average,
            ..forest()
        };
        assert_eq!(predicted(average, &rows[..2]), [10.5, 21.0]);
        let most = Forest {
            join: Join::Max,
            base: Vec::new(),
            ..forest()
        };
        assert_eq!(predicted(most, &rows), [1.0, 2.0, 3.0, 4.0, 1.0, 0.0]);
    }

    #[test]
    fn missing_values_follow_the_default_branch() {
        let mut trees = forest();
        assert_eq!(predicted(trees.clone(), &[f64::NAN, 2.0]), [12.0, 20.0]);
        trees.branches[0].missing = true;
        assert_eq!(predicted(trees, &[f64::NAN, 2.0]), [11.0, 22.0]);
    }

    #[test]
    fn invalid_trees_are_refused() {
        let mut circle = forest();
        circle.branches[1].no = Child::Branch(0);
        let words = circle.check().unwrap_err().to_string();
        assert!(words.contains("leads to itself"), "{words}");
        let mut astray = forest();
        astray.roots.push(Child::Leaf(3));
        assert!(astray.check().is_err());
        let mut targets = forest();
        targets.targets = 1;
        assert!(targets.check().is_err());
        let x = Tensor::from_f64s(Element::F32, vec![1, 1], &[0.0]).unwrap();
        let words = predict(&x, &forest(), Element::F32).unwrap_err().to_string();
        assert_eq!(words, "a tree asks for feature 1 of 1");
    }

    #[test]
    fn post_transforms_match_onnx() {
        let by = |transform: Transform, values: &[f64]| {
            let mut row = values.to_vec();
            super::transform(&mut row, transform);
            row
        };
        assert_eq!(by(Transform::Logistic, &[0.0]), [0.5]);
        assert_eq!(by(Transform::Softmax, &[3.0, 3.0]), [0.5, 0.5]);
        assert_eq!(by(Transform::SoftmaxZero, &[0.0, 2.0]), [0.0, 1.0]);
        // the normal distribution has 97.5 % below 1.96
        let high = by(Transform::Probit, &[0.975])[0];
        assert!((high - 1.96).abs() < 5e-3, "{high}");
    }
}
