//! The precision that a model computes in: as requested, or chosen by measured error.
//!
//! Invariants:
//! 1. The choice depends on the model, its devices and its policy alone, not on what it is asked, so that equal
//!    requests get equal answers.
//! 2. It is made once per model, before the first session is planned.
//!
//! Not here: the runs that it is measured by (`sequence::trial`).

use std::fmt;

use polychip::Precision;

use crate::{Error, Result, Specials, TokenId, Tokenizer};

/// Largest mean divergence at which reduced precision is chosen.
const MOST: f64 = 0.005;

/// Tokens whose logits are compared.
const ROWS: usize = 32;

/// What is read to measure the error; repeated if it has fewer tokens.
const TEXT: &str = "In 1831 Michael Faraday moved a magnet through a coil of wire and saw a current: \
    `for i in range(10): print(i * 0.5)`. Is that not how every power station works today? It is.";

/// The precision that a model computes in, and why ([`LanguageModel::precision`](crate::LanguageModel::precision)).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PrecisionChoice {
    /// The precision.
    pub precision: Precision,
    /// Mean Kullback-Leibler divergence in nats of the reduced distributions of the next token from the exact ones,
    /// if it was measured.
    pub divergence: Option<f64>,
    /// Why this precision was chosen.
    pub reason: String,
}

impl PrecisionChoice {
    /// As the caller requested.
    pub(crate) fn requested(precision: Precision) -> PrecisionChoice {
        PrecisionChoice {
            precision,
            divergence: None,
            reason: "requested".to_owned(),
        }
    }

    /// By what the logits of both precisions are.
    fn measured(divergence: f64) -> PrecisionChoice {
        let (precision, words) = if divergence <= MOST {
            (Precision::Reduced, "at most")
        } else {
            (Precision::Exact, "above")
        };
        PrecisionChoice {
            precision,
            divergence: divergence.is_finite().then_some(divergence),
            reason: format!("divergence of reduced precision is {divergence:.1e}, {words} {MOST}"),
        }
    }
}

impl fmt::Display for PrecisionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.precision {
            Precision::Exact => "exact",
            Precision::Reduced => "reduced",
        };
        write!(f, "{name} ({})", self.reason)
    }
}

/// Chooses by the logits that `logits` gives to the same tokens in each precision.
pub(crate) fn choose(vocabulary: usize, logits: impl Fn(Precision) -> Result<Vec<f32>>) -> PrecisionChoice {
    let divergence = || {
        let (exact, reduced) = (logits(Precision::Exact)?, logits(Precision::Reduced)?);
        Ok::<f64, Error>(mean_divergence(&exact, &reduced, vocabulary))
    };
    match divergence() {
        Ok(divergence) => PrecisionChoice::measured(divergence),
        Err(error) => PrecisionChoice {
            precision: Precision::Exact,
            divergence: None,
            reason: format!("reduced precision could not be compared: {error}"),
        },
    }
}

/// The tokens that are compared, of at most so many.
pub(crate) fn text(tokenizer: &Tokenizer, capacity: usize) -> Result<Vec<TokenId>> {
    let ids = tokenizer.encode_prompt(TEXT, Specials::AsText)?;
    Ok(ids.iter().copied().cycle().take(ROWS.min(capacity)).collect())
}

/// Mean over all rows of the divergence of one distribution from another; infinite if a value is not finite.
fn mean_divergence(exact: &[f32], reduced: &[f32], vocabulary: usize) -> f64 {
    let rows = exact
        .chunks_exact(vocabulary)
        .zip(reduced.chunks_exact(vocabulary));
    let count = rows.len();
    let sum: f64 = rows.map(|(exact, reduced)| row_divergence(exact, reduced)).sum();
    let mean = sum / count as f64;
    if mean.is_nan() { f64::INFINITY } else { mean }
}

fn row_divergence(exact: &[f32], reduced: &[f32]) -> f64 {
    let log_sum = |logits: &[f32]| {
        let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|x| f64::from(x - peak).exp()).sum();
        f64::from(peak) + sum.ln()
    };
    let [of_exact, of_reduced] = [exact, reduced].map(log_sum);
    let terms = exact.iter().zip(reduced).map(|(a, b)| {
        let (a, b) = (f64::from(*a) - of_exact, f64::from(*b) - of_reduced);
        // impossible by both
        if a == f64::NEG_INFINITY {
            0.0
        } else {
            a.exp() * (a - b)
        }
    });
    terms.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_of_distributions() {
        let exact = [1.0f32, 2.0, 3.0, 0.0, 0.0, 0.0];
        assert!(mean_divergence(&exact, &exact.map(|x| x + 5.0), 3).abs() < 1e-6);
        // one half against three quarters and one quarter, and nothing in the other row
        let even = [0.0f32, 0.0, 0.0, 0.0];
        let other = [3f32.ln(), 0.0, 0.0, 0.0];
        let expected = 0.5 * (0.5f64 / 0.75).ln() + 0.5 * (0.5f64 / 0.25).ln();
        assert!((mean_divergence(&even, &other, 2) - expected / 2.0).abs() < 1e-6);
        assert_eq!(
            mean_divergence(&even, &[f32::NAN, 0.0, 0.0, 0.0], 2),
            f64::INFINITY
        );
    }

    #[test]
    fn the_limit_decides() {
        let of = |divergence| PrecisionChoice::measured(divergence).precision;
        assert_eq!(of(0.004), Precision::Reduced);
        assert_eq!(of(0.006), Precision::Exact);
        assert_eq!(of(f64::INFINITY), Precision::Exact);
        let text = PrecisionChoice::measured(0.0039).to_string();
        assert_eq!(
            text,
            "reduced (divergence of reduced precision is 3.9e-3, at most 0.005)"
        );
    }
}
