//! Non-negative least squares: the x ≥ 0 for which |A x − b| is least, by the method of Lawson and Hanson (Solving
//! Least Squares Problems, 1974, chapter 23), on the normal equations.
//!
//! Invariants:
//! 1. The same problem has the same solution, bit for bit: nothing depends on time or on the order of a hash.
//! 2. The steps are bounded, so that a problem that is no number ends, too.
//!
//! Own code because the one crate for it brings `ndarray` and what belongs to it into every app, for a hundred lines.

/// Steps per column: the method needs about as many as there are columns that count.
const STEPS: usize = 3;
/// Below this share of the largest gradient a column gains nothing.
const GAIN: f64 = 1e-10;

/// The problem, as its normal equations: rows are added and forgotten.
#[derive(Debug, Clone)]
pub(crate) struct Nnls {
    columns: usize,
    /// AᵀA, row by row.
    square: Vec<f64>,
    /// Aᵀb.
    right: Vec<f64>,
}

impl Nnls {
    /// A problem without rows.
    pub(crate) fn new(columns: usize) -> Nnls {
        Nnls {
            columns,
            square: vec![0.0; columns * columns],
            right: vec![0.0; columns],
        }
    }

    /// Adds a row of A, as columns and values, with its element of b.
    pub(crate) fn add(&mut self, row: &[(usize, f64)], b: f64) {
        for &(i, x) in row {
            self.right[i] += x * b;
            for &(j, y) in row {
                self.square[i * self.columns + j] += x * y;
            }
        }
    }

    /// The solution.
    pub(crate) fn solve(&self) -> Vec<f64> {
        let n = self.columns;
        // columns of like size: bytes and multiply-adds are millions, launches are ones
        let scale: Vec<f64> = (0..n).map(|i| self.square[i * n + i].sqrt()).collect();
        let at = |i: usize, j: usize| self.square[i * n + j] / (scale[i] * scale[j]);
        let right: Vec<f64> = (0..n)
            .map(|i| {
                if scale[i] > 0.0 {
                    self.right[i] / scale[i]
                } else {
                    0.0
                }
            })
            .collect();
        let least = GAIN * right.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let mut x = vec![0.0; n];
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..STEPS * n {
            let gradient = |i: usize| right[i] - chosen.iter().map(|&j| at(i, j) * x[j]).sum::<f64>();
            let open = (0..n).filter(|i| scale[*i] > 0.0 && !chosen.contains(i));
            let best = open.map(|i| (gradient(i), i)).max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((gain, best)) = best.filter(|(gain, _)| *gain > least) else {
                break;
            };
            debug_assert!(gain.is_finite());
            chosen.push(best);
            chosen.sort_unstable();
            while !chosen.is_empty() {
                let Some(solved) = solve(&chosen, &at, &right) else {
                    // a column that others already span
                    chosen.retain(|&i| i != best);
                    break;
                };
                if solved.iter().all(|&value| value > 0.0) {
                    x.fill(0.0);
                    for (&i, value) in chosen.iter().zip(solved) {
                        x[i] = value;
                    }
                    break;
                }
                // as far as no element falls below zero; those that reach it go
                let share = chosen
                    .iter()
                    .zip(&solved)
                    .filter(|(_, value)| **value <= 0.0)
                    .map(|(&i, &value)| x[i] / (x[i] - value))
                    .fold(1.0f64, f64::min);
                for (&i, value) in chosen.iter().zip(&solved) {
                    x[i] += share * (value - x[i]);
                }
                let small = |i: &usize, value: f64| value <= 0.0 && x[*i] <= 1e-12;
                let out: Vec<usize> = chosen
                    .iter()
                    .zip(&solved)
                    .filter(|(i, value)| small(i, **value))
                    .map(|(&i, _)| i)
                    .collect();
                if out.is_empty() {
                    break;
                }
                chosen.retain(|i| !out.contains(i));
                out.iter().for_each(|&i| x[i] = 0.0);
            }
        }
        x.iter()
            .zip(&scale)
            .map(|(value, scale)| if *scale > 0.0 { value / scale } else { 0.0 })
            .collect()
    }
}

/// The least squares of some columns by Cholesky's factors; none where the columns depend on each other.
fn solve(chosen: &[usize], at: &impl Fn(usize, usize) -> f64, right: &[f64]) -> Option<Vec<f64>> {
    let n = chosen.len();
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i * n + k] * factor[j * n + k]).sum();
            let rest = at(chosen[i], chosen[j]) - sum;
            if i == j {
                if rest.is_nan() || rest <= 1e-12 {
                    return None;
                }
                factor[i * n + i] = rest.sqrt();
            } else {
                factor[i * n + j] = rest / factor[j * n + j];
            }
        }
    }
    let mut y = vec![0.0; n];
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| factor[i * n + k] * y[k]).sum();
        y[i] = (right[chosen[i]] - sum) / factor[i * n + i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| factor[k * n + i] * y[k]).sum();
        y[i] = (y[i] - sum) / factor[i * n + i];
    }
    Some(y)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn solved(rows: &[(&[f64], f64)]) -> Vec<f64> {
        let mut problem = Nnls::new(rows[0].0.len());
        for (row, b) in rows {
            let row: Vec<(usize, f64)> = row.iter().copied().enumerate().collect();
            problem.add(&row, *b);
        }
        problem.solve()
    }

    fn close(found: &[f64], expected: &[f64]) {
        for (a, b) in found.iter().zip(expected) {
            assert!(
                (a - b).abs() <= 1e-6 * (1.0 + b.abs()),
                "{found:?} for {expected:?}"
            );
        }
    }

    #[test]
    fn known_solutions_are_found() {
        // a solution above zero is the one of least squares
        close(
            &solved(&[(&[1.0, 0.0], 2.0), (&[0.0, 1.0], 3.0), (&[1.0, 1.0], 5.0)]),
            &[2.0, 3.0],
        );
        // without bounds its first element is -32 / 19; the second column alone has 20 / 14
        close(
            &solved(&[(&[1.0, 1.0], -1.0), (&[1.0, 2.0], 3.0), (&[0.0, 3.0], 5.0)]),
            &[0.0, 20.0 / 14.0],
        );
        // all below zero
        close(&solved(&[(&[1.0, 0.0], -1.0), (&[0.0, 1.0], -2.0)]), &[0.0, 0.0]);
        // an example of the documentation of SciPy's `nnls`
        close(
            &solved(&[(&[1.0, 0.0], -1.0), (&[1.0, 0.0], -1.0), (&[0.0, 1.0], -1.0)]),
            &[0.0, 0.0],
        );
        close(
            &solved(&[(&[1.0, 0.0], 2.0), (&[1.0, 0.0], 1.0), (&[0.0, 1.0], 1.0)]),
            &[1.5, 1.0],
        );
    }

    #[test]
    fn duplicate_or_empty_columns_are_harmless() {
        let found = solved(&[(&[1.0, 1.0, 0.0], 2.0), (&[2.0, 2.0, 0.0], 4.0)]);
        assert!(
            (found[0] + found[1] - 2.0).abs() < 1e-9 && found[2] == 0.0,
            "{found:?}"
        );
        assert_eq!(Nnls::new(2).solve(), [0.0, 0.0]);
    }

    proptest! {
        /// The conditions of Karush, Kuhn and Tucker hold at the solution and nowhere else: no element is below zero,
        /// no gradient of the square points into the feasible side, and where an element is above zero it is zero.
        #[test]
        fn nnls_solution_is_optimal(
            rows in prop::collection::vec((prop::collection::vec(0.0..10.0f64, 6), -20.0..50.0f64), 6..24)
        ) {
            let borrowed: Vec<(&[f64], f64)> = rows.iter().map(|(row, b)| (&row[..], *b)).collect();
            let x = solved(&borrowed);
            let dot = |row: &[f64]| -> f64 { row.iter().zip(&x).map(|(a, x)| a * x).sum() };
            let size: f64 = rows.iter().map(|(row, b)| row.iter().map(|a| a * b.abs()).sum::<f64>()).sum();
            for (column, value) in x.iter().enumerate() {
                prop_assert!(*value >= 0.0);
                let gradient: f64 = rows.iter().map(|(row, b)| row[column] * (b - dot(row))).sum();
                prop_assert!(gradient <= 1e-6 * (1.0 + size), "column {} could gain {}", column, gradient);
                if *value > 1e-9 {
                    prop_assert!(gradient.abs() <= 1e-6 * (1.0 + size), "column {}: {}", column, gradient);
                }
            }
        }
    }
}
