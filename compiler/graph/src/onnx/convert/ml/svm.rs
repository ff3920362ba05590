//! Support vector machines: rows held against support vectors by a kernel, and sums of what comes out.
//!
//! Distances of the radial kernel are those of rows and vectors moved by the vectors' mean: |a|² + |b|² − 2ab then loses no
//! digits to where the data lie.
//! Not here: probabilities of classes from those of pairs (`coupling`).

use polychip_ops::{Attr, Attributes, DType, Literal, Op};

use super::coupling::MOST_CLASSES;
use super::scores::Post;
use crate::onnx::convert::foreign::Foreign;
use crate::{Error, TensorId};

/// What rows are held against.
struct Vectors {
    kernel: String,
    /// gamma, coef0, degree
    parameters: [f32; 3],
    values: Vec<f32>,
    count: usize,
    features: usize,
}

impl Vectors {
    /// Whether a polynomial's degree is a small whole number.
    fn is_whole(&self) -> bool {
        let degree = self.parameters[2];
        self.kernel != "POLY" || (degree.fract() == 0.0 && (1.0..=16.0).contains(&degree))
    }
}

impl Foreign<'_, '_> {
    fn vectors(&self, count: usize) -> Option<Vectors> {
        let values = self.floats("support_vectors");
        let parameters = self.floats("kernel_params");
        let vectors = Vectors {
            kernel: self.text("kernel_type").unwrap_or_else(|| "LINEAR".to_owned()),
            parameters: [0, 1, 2].map(|index| parameters.get(index).copied().unwrap_or(0.0)),
            features: values.len().checked_div(count)?,
            values,
            count,
        };
        let known = matches!(&*vectors.kernel, "LINEAR" | "POLY" | "RBF" | "SIGMOID");
        (known && vectors.features * count == vectors.values.len() && count > 0).then_some(vectors)
    }

    /// `[n, vectors]`: each row held against each vector.
    fn held(&mut self, x: TensorId, vectors: &Vectors) -> Result<TensorId, Error> {
        let &Vectors {
            parameters: [gamma, shift, degree],
            ref values,
            count,
            features,
            ..
        } = vectors;
        if vectors.kernel == "RBF" {
            return self.radial(x, vectors);
        }
        let mut y = self.product(x, values, count, &[], "products")?;
        debug_assert_eq!(values.len(), count * features);
        if vectors.kernel == "LINEAR" {
            return Ok(y);
        }
        y = self.scaled(y, gamma, "scaled")?;
        let shift = self.0.scalar_like("shift", shift, y)?;
        y = self.step(Op::Add, &[y, shift], "shifted")?;
        if vectors.kernel == "SIGMOID" {
            return self.step(Op::Tanh, &[y], "held");
        }
        // a power of a negative number has a whole exponent
        let mut power = y;
        let degree = degree as usize;
        for index in 1..degree {
            power = self.step(Op::Mul, &[power, y], &format!("power.{}", index + 1))?;
        }
        Ok(power)
    }

    fn radial(&mut self, x: TensorId, vectors: &Vectors) -> Result<TensorId, Error> {
        let Vectors {
            values,
            count,
            features,
            parameters: [gamma, ..],
            ..
        } = vectors;
        let mean: Vec<f32> = (0..*features)
            .map(|feature| {
                let column = values.iter().skip(feature).step_by(*features);
                (column.map(|&v| f64::from(v)).sum::<f64>() / *count as f64) as f32
            })
            .collect();
        let moved: Vec<f32> = values
            .chunks_exact(*features)
            .flat_map(|row| row.iter().zip(&mean).map(|(v, mean)| v - mean))
            .collect();
        // 2γab − γ|b|², by one product with the vectors' norms added
        let weights: Vec<f32> = moved.iter().map(|v| 2.0 * gamma * v).collect();
        let norms: Vec<f32> = moved
            .chunks_exact(*features)
            .map(|row| {
                let square: f64 = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
                (-f64::from(*gamma) * square) as f32
            })
            .collect();
        let mean = self.numbers(&mean, "mean");
        let x = self.step(Op::Sub, &[x, mean], "moved")?;
        let products = self.product(x, &weights, *count, &norms, "products")?;
        let axes = self.0.constant("axes", &Literal::i64s(&[1]));
        let own = self.step(Op::ReduceSumSquare, &[x, axes], "own")?;
        let own = self.scaled(own, *gamma, "own.scaled")?;
        let distance = self.step(Op::Sub, &[products, own], "distance")?;
        // rounding must not make a distance negative
        let zero = self.0.scalar_like("zero", 0.0, distance)?;
        let distance = self.step(Op::Min, &[distance, zero], "distance.held")?;
        self.step(Op::Exp, &[distance], "held")
    }

    pub(super) fn svm(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (weights, rho) = (self.floats("coefficients"), self.floats("rho"));
        let count = usize::try_from(self.int("n_supports").unwrap_or(0)).unwrap_or(0);
        let vectors = self.vectors(count);
        let fits = self.rank(x) == Some(2) && rho.len() == 1 && self.post() == Some(Post::None);
        let sums = count == 0 || (vectors.is_some() && weights.len() == count);
        if !fits || !sums || weights.is_empty() || !vectors.as_ref().is_none_or(Vectors::is_whole) {
            return Ok(false);
        }
        let mut x = self.real(x, "real")?;
        if let Some(vectors) = &vectors {
            x = self.held(x, vectors)?;
        }
        let y = self.product(x, &weights, 1, &rho, "sums")?;
        if self.int("one_class").unwrap_or(0) == 0 {
            self.transformed(0, y, Post::None)?;
            return Ok(true);
        }
        let zero = self.0.scalar_like("zero", 0.0, y)?;
        let inside = self.step(Op::Greater, &[y, zero], "inside")?;
        let (one, other) = (
            self.0.scalar_like("one", 1.0, y)?,
            self.0.scalar_like("other", -1.0, y)?,
        );
        self.give(0, Op::Where, &[inside, one, other], Attributes::new())?;
        Ok(true)
    }

    /// Each pair of classes has a score; a class has a vote for each pair that it wins, and the label is that of most votes,
    /// also where probabilities are given.
    pub(super) fn svm_classes(&mut self) -> Result<bool, Error> {
        let x = self.0.input(0)?;
        let (weights, rho) = (self.floats("coefficients"), self.floats("rho"));
        let each: Vec<usize> = self
            .ints("vectors_per_class")
            .into_iter()
            .map(|count| usize::try_from(count).unwrap_or(0))
            .collect();
        let (classes, count) = (each.len(), each.iter().sum::<usize>());
        let pairs = classes * classes.saturating_sub(1) / 2;
        let vectors = self.vectors(count);
        let (Some(labels), Some(vectors)) = (self.labels("classlabels_ints"), vectors) else {
            return Ok(false);
        };
        let (slopes, offsets) = (self.floats("prob_a"), self.floats("prob_b"));
        let fits = self.rank(x) == Some(2)
            && self.post() == Some(Post::None)
            && classes > 1
            && labels.shape[0] == classes
            && rho.len() == pairs
            && weights.len() == (classes - 1) * count
            && (slopes.is_empty() || (slopes.len() == pairs && classes <= MOST_CLASSES))
            && slopes.len() == offsets.len()
            // for two classes, weights of one sign are judged otherwise
            && weights.iter().any(|&weight| weight < 0.0);
        if !fits || !vectors.is_whole() {
            return Ok(false);
        }
        let starts: Vec<usize> = (0..classes).map(|class| each[..class].iter().sum()).collect();
        // for each pair, the weights of the vectors of both classes
        let mut of_pairs = vec![0.0; pairs * count];
        let mut won = vec![0.0; pairs * classes];
        let mut lost = vec![0.0; pairs * classes];
        let mut pair = 0;
        for i in 0..classes {
            for j in i + 1..classes {
                let row = &mut of_pairs[pair * count..][..count];
                for at in starts[i]..starts[i] + each[i] {
                    row[at] = weights[(j - 1) * count + at];
                }
                for at in starts[j]..starts[j] + each[j] {
                    row[at] = weights[i * count + at];
                }
                won[i * pairs + pair] = 1.0;
                lost[j * pairs + pair] = 1.0;
                pair += 1;
            }
        }
        let x = self.real(x, "real")?;
        let held = self.held(x, &vectors)?;
        let scores = self.product(held, &of_pairs, pairs, &rho, "scores")?;
        let zero = self.0.scalar_like("zero", 0.0, scores)?;
        let above = self.step(Op::Greater, &[scores, zero], "above")?;
        let wins = self.cast(above, DType::F32, "wins")?;
        // one vote of each pair, for the one or for the other
        let votes: Vec<f32> = won.iter().zip(&lost).map(|(won, lost)| won - lost).collect();
        let against: Vec<f32> = lost.chunks_exact(pairs).map(|row| row.iter().sum()).collect();
        let votes = self.product(wins, &votes, classes, &against, "votes")?;
        self.best(votes, &labels)?;
        if self.0.node.output(1).is_none() {
            return Ok(true);
        }
        if !slopes.is_empty() {
            let first = self.pair_probabilities(scores, &slopes, &offsets)?;
            let probabilities = self.coupled(first, classes)?;
            self.transformed(1, probabilities, Post::None)?;
        } else if pairs > 1 {
            self.transformed(1, scores, Post::None)?;
        } else {
            let other = self.step(Op::Neg, &[scores], "other")?;
            let along = Attributes::new().with_int(Attr::Axis, 1);
            self.give(1, Op::Concat, &[other, scores], along)?;
        }
        Ok(true)
    }
}
