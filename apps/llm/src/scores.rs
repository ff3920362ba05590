//! Log-probabilities of tokens, from the model's logits alone: penalties, temperature and grammars have no part in them.

use crate::TokenId;

/// A token, the logarithm of its probability, and the most likely tokens at its position.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenScore {
    /// The token.
    pub token: TokenId,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The most likely tokens with theirs, the most likely first.
    pub top: Vec<(TokenId, f32)>,
}

impl TokenScore {
    /// Scores a token, beside the `top` most likely ones.
    #[must_use]
    pub fn new(logits: &[f32], token: TokenId, top: usize) -> TokenScore {
        let numbers = logits.iter().filter(|logit| !logit.is_nan());
        let greatest = numbers.clone().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = numbers.map(|logit| f64::from(logit - greatest).exp()).sum();
        let total = f64::from(greatest) + sum.ln();
        let logprob = |logit: f32| (f64::from(logit) - total) as f32;
        let of = |token: TokenId| logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let order = |a: &TokenId, b: &TokenId| of(*b).total_cmp(&of(*a)).then(a.cmp(b));
        let mut all: Vec<TokenId> = Vec::new();
        if top > 0 {
            all = (0..)
                .zip(logits)
                .filter(|(_, logit)| !logit.is_nan())
                .map(|(id, _)| id)
                .collect();
            if top < all.len() {
                all.select_nth_unstable_by(top, order);
                all.truncate(top);
            }
            all.sort_unstable_by(order);
        }
        TokenScore {
            token,
            logprob: logprob(of(token)),
            top: all.into_iter().map(|id| (id, logprob(of(id)))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_logarithms_of_the_softmax() {
        let logits = [1.0, 3.0, f32::NAN, 2.0, 3.0];
        let total: f64 = [1.0f64, 3.0, 2.0, 3.0].iter().map(|logit| logit.exp()).sum();
        let expected = |logit: f64| (logit - total.ln()) as f32;
        let score = TokenScore::new(&logits, 3, 3);
        assert!((score.logprob - expected(2.0)).abs() < 1e-6, "{score:?}");
        let ids: Vec<TokenId> = score.top.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 4, 3]);
        assert!((score.top[0].1 - expected(3.0)).abs() < 1e-6, "{score:?}");
        assert!(TokenScore::new(&logits, 0, 0).top.is_empty());
        assert_eq!(TokenScore::new(&logits, 0, 99).top.len(), 4);
    }
}
