//! Sampling: chooses the next token from the logits of all tokens.
//!
//! The order of steps is llama.cpp's: penalties (repetition, frequency, presence), top-k, top-p,
//! min-p, temperature, draw.
//!
//! Invariants:
//! 1. The same seed and logits give the same tokens.
//! 2. Of equal logits, the lower token id comes first.
//! 3. A token with a NaN logit is never chosen. If all logits are NaN, choosing fails.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Error, Result, TokenId};

/// Sampling settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 always chooses the most likely token.
    pub temperature: f32,
    /// Keeps only this many of the most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most likely tokens that together have this probability; 1 keeps all (nucleus
    /// sampling, arXiv 1904.09751).
    pub top_p: f32,
    /// Keeps tokens with at least this fraction of the most likely token's probability; 0 keeps all
    /// (arXiv 2407.01082).
    pub min_p: f32,
    /// Divides the logits of recent tokens, or multiplies them where negative; 1 has no effect
    /// (CTRL, arXiv 1909.05858).
    pub repetition: f32,
    /// Number of most recent tokens that `repetition` applies to.
    pub repetition_window: usize,
    /// Subtracted from a token's logit for each time it was chosen before; 0 has no effect.
    pub frequency: f32,
    /// Subtracted from the logit of each token that was chosen before; 0 has no effect.
    pub presence: f32,
    /// Added to the logits of these tokens, before all other steps.
    pub bias: Vec<(TokenId, f32)>,
    /// Seed of the draws.
    pub seed: u64,
}

impl Sampling {
    /// Always chooses the most likely token.
    #[must_use]
    pub fn greedy() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition: 1.0,
            repetition_window: 64,
            frequency: 0.0,
            presence: 0.0,
            bias: Vec::new(),
            seed: 0,
        }
    }

    /// llama.cpp's defaults: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05.
    #[must_use]
    pub fn usual(seed: u64) -> Sampling {
        Sampling {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            seed,
            ..Sampling::greedy()
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |name: &str, value: f32, rule: &str| {
            Err(Error::config(format!("{name} is {value}: it must be {rule}")))
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return wrong("the temperature", self.temperature, "0 or more");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return wrong("top-p", self.top_p, "above 0 and at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return wrong("min-p", self.min_p, "from 0 to 1");
        }
        if !(self.repetition > 0.0 && self.repetition.is_finite()) {
            return wrong("the repetition penalty", self.repetition, "above 0");
        }
        for (name, value) in [("frequency", self.frequency), ("presence", self.presence)] {
            if !value.is_finite() {
                return wrong(&format!("the {name} penalty"), value, "a finite number");
            }
        }
        for (token, bias) in &self.bias {
            if !bias.is_finite() {
                return wrong(&format!("the bias of token {token}"), *bias, "a finite number");
            }
        }
        Ok(())
    }
}

/// Chooses tokens one after another.
///
/// ```
/// use polychip_llm::{Sampler, Sampling};
///
/// let mut sampler = Sampler::new(Sampling::greedy())?;
/// assert_eq!(sampler.choose(&[0.1, 2.0, -1.0], &[])?, 1);
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
    candidates: Vec<(f32, TokenId)>,
    /// How often each token was chosen, if a penalty needs it.
    chosen: BTreeMap<TokenId, u32>,
}

/// Orders by likelihood, and equal ones by lower token id.
fn order(a: &(f32, TokenId), b: &(f32, TokenId)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(sampling: Sampling) -> Result<Sampler> {
        sampling.check()?;
        Ok(Sampler {
            random: ChaCha8Rng::seed_from_u64(sampling.seed),
            sampling,
            candidates: Vec::new(),
            chosen: BTreeMap::new(),
        })
    }

    /// Chooses the next token from its logits. Penalties apply to the tokens of `before`.
    ///
    /// # Errors
    /// Every logit is NaN.
    pub fn choose(&mut self, logits: &[f32], before: &[TokenId]) -> Result<TokenId> {
        let counts = self.sampling.frequency != 0.0 || self.sampling.presence != 0.0;
        let changes = counts || !self.sampling.bias.is_empty();
        let token = self.next(logits, before, changes)?;
        if counts {
            *self.chosen.entry(token).or_insert(0) += 1;
        }
        Ok(token)
    }

    fn next(&mut self, logits: &[f32], before: &[TokenId], changes: bool) -> Result<TokenId> {
        if self.sampling.temperature == 0.0 && self.sampling.repetition == 1.0 && !changes {
            return greatest(logits).ok_or_else(no_number);
        }
        self.gather(logits, before);
        let &(top, most_likely) = self.candidates.first().ok_or_else(no_number)?;
        if self.sampling.temperature == 0.0 || top.is_infinite() {
            return Ok(most_likely);
        }
        self.cut(top);
        let weight = |logit: f32| (f64::from(logit - top) / f64::from(self.sampling.temperature)).exp();
        let total: f64 = self.candidates.iter().map(|(logit, _)| weight(*logit)).sum();
        let mut left = self.random.random::<f64>() * total;
        for (logit, token) in &self.candidates {
            left -= weight(*logit);
            if left < 0.0 {
                return Ok(*token);
            }
        }
        // rounding has left a little
        Ok(self.candidates.last().map_or(most_likely, |(_, token)| *token))
    }

    /// Collects the top-k candidates with their logits, most likely first.
    fn gather(&mut self, logits: &[f32], before: &[TokenId]) {
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.extend((0..).zip(logits).map(|(token, logit)| (*logit, token)));
        for (token, bias) in &self.sampling.bias {
            if let Some((logit, _)) = candidates.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        if self.sampling.repetition != 1.0 {
            let by = self.sampling.repetition;
            let seen = &before[before.len().saturating_sub(self.sampling.repetition_window)..];
            let mut seen = seen.to_vec();
            seen.sort_unstable();
            seen.dedup();
            for token in seen {
                if let Some((logit, _)) = candidates.get_mut(token as usize) {
                    *logit = if *logit > 0.0 { *logit / by } else { *logit * by };
                }
            }
        }
        for (token, count) in &self.chosen {
            if let Some((logit, _)) = candidates.get_mut(*token as usize) {
                *logit -= self.sampling.frequency * *count as f32 + self.sampling.presence;
            }
        }
        candidates.retain(|(logit, _)| !logit.is_nan());
        let wanted = match self.sampling.top_k {
            0 => candidates.len(),
            k => k.min(candidates.len()),
        };
        if wanted < candidates.len() {
            candidates.select_nth_unstable_by(wanted, order);
            candidates.truncate(wanted);
        }
        candidates.sort_unstable_by(order);
    }

    /// Applies top-p, then min-p.
    fn cut(&mut self, top: f32) {
        let weight = |logit: f32| f64::from(logit - top).exp();
        let Sampling { top_p, min_p, .. } = self.sampling;
        if top_p < 1.0 {
            let total: f64 = self.candidates.iter().map(|(logit, _)| weight(*logit)).sum();
            let (mut sum, mut kept) = (0.0, 0);
            for (logit, _) in &self.candidates {
                sum += weight(*logit);
                kept += 1;
                if sum >= f64::from(top_p) * total {
                    break;
                }
            }
            self.candidates.truncate(kept);
        }
        if min_p > 0.0 {
            self.candidates
                .retain(|(logit, _)| weight(*logit) >= f64::from(min_p));
        }
    }
}

fn no_number() -> Error {
    Error::config("every logit is NaN: the model's weights or a device are faulty")
}

/// Index of the greatest number, the first of equal ones.
fn greatest(logits: &[f32]) -> Option<TokenId> {
    let mut best: Option<(f32, TokenId)> = None;
    for (token, &logit) in (0..).zip(logits) {
        if !logit.is_nan() && best.is_none_or(|(top, _)| logit > top) {
            best = Some((logit, token));
        }
    }
    best.map(|(_, token)| token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = Sampler::new(sampling).unwrap();
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..20_000 {
            counts[sampler.choose(logits, &[]).unwrap() as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn samples_follow_the_softmax_probabilities() {
        let plain = Sampling {
            temperature: 1.0,
            ..Sampling::greedy()
        };
        let logits = [0.0, 1.0, 2.0, f32::NAN, f32::NEG_INFINITY];
        let found = share(plain.clone(), &logits);
        let total: f64 = (0..3).map(|i| f64::from(i).exp()).sum();
        for (i, found) in found.iter().take(3).enumerate() {
            assert!((found - (i as f64).exp() / total).abs() < 0.015, "{i}: {found}");
        }
        assert_eq!(found[3..], [0.0, 0.0]);
        // half the temperature doubles the logits
        let cold = share(
            Sampling {
                temperature: 0.5,
                ..plain
            },
            &logits,
        );
        assert!((cold[2] / cold[1] - 2.0f64.exp()).abs() < 0.6, "{cold:?}");
    }

    #[test]
    fn sampling_filters_keep_the_stated_tokens() {
        let logits = [3.0f32, 2.0, 1.0, 0.0]; // probabilities 0.644, 0.237, 0.087, 0.032
        let all = Sampling {
            temperature: 1.0,
            ..Sampling::greedy()
        };
        let kept = |sampling| {
            share(sampling, &logits)
                .iter()
                .filter(|&&share| share > 0.0)
                .count()
        };
        assert_eq!(kept(all.clone()), 4);
        assert_eq!(
            kept(Sampling {
                top_k: 2,
                ..all.clone()
            }),
            2
        );
        assert_eq!(
            kept(Sampling {
                top_p: 0.8,
                ..all.clone()
            }),
            2
        );
        assert_eq!(
            kept(Sampling {
                top_p: 0.6,
                ..all.clone()
            }),
            1
        );
        assert_eq!(kept(Sampling { min_p: 0.1, ..all }), 3);
    }

    #[test]
    fn recent_tokens_are_penalized() {
        let mut sampler = Sampler::new(Sampling {
            repetition: 2.0,
            repetition_window: 2,
            ..Sampling::greedy()
        })
        .unwrap();
        assert_eq!(sampler.choose(&[3.0, 2.0], &[0, 1, 1]).unwrap(), 0);
        assert_eq!(sampler.choose(&[3.0, 2.0], &[1, 0, 0]).unwrap(), 1);
        assert_eq!(sampler.choose(&[-1.0, -1.5], &[0]).unwrap(), 1);
    }

    #[test]
    fn frequent_tokens_are_penalized() {
        let choose = |frequency, presence| {
            let mut sampler = Sampler::new(Sampling {
                frequency,
                presence,
                ..Sampling::greedy()
            })
            .unwrap();
            let logits = [3.0, 2.5, -1.0];
            (0..6)
                .map(|_| sampler.choose(&logits, &[2, 2]).unwrap())
                .collect::<Vec<_>>()
        };
        // 3, 2.6, 2.2, 1.8 against 2.5, 2.1, 1.7
        assert_eq!(choose(0.4, 0.0), [0, 0, 1, 0, 1, 0]);
        // once for all; a bonus where it is negative
        assert_eq!(choose(0.0, 0.7), [0, 1, 0, 0, 0, 0]);
        assert_eq!(choose(-1.0, -1.0), [0; 6]);
        assert!(
            Sampler::new(Sampling {
                presence: f32::INFINITY,
                ..Sampling::greedy()
            })
            .is_err()
        );
    }

    #[test]
    fn bias_changes_the_most_likely_token() {
        let mut sampler = Sampler::new(Sampling {
            bias: vec![(0, -100.0), (2, 1.5), (9, 5.0)],
            ..Sampling::greedy()
        })
        .unwrap();
        assert_eq!(sampler.choose(&[3.0, 2.0, 1.0], &[]).unwrap(), 2);
        // a token that a grammar excludes stays excluded
        assert_eq!(sampler.choose(&[3.0, 2.0, f32::NAN], &[]).unwrap(), 1);
        let endless = Sampling {
            bias: vec![(0, f32::NAN)],
            ..Sampling::greedy()
        };
        assert!(Sampler::new(endless).unwrap_err().to_string().contains("token 0"));
    }

    #[test]
    fn seed_fixes_the_text_and_invalid_settings_are_refused() {
        let draw = |seed| {
            let mut sampler = Sampler::new(Sampling::usual(seed)).unwrap();
            (0..50)
                .map(|_| sampler.choose(&[1.0; 64], &[]).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for wrong in [
            Sampling {
                temperature: -1.0,
                ..Sampling::greedy()
            },
            Sampling {
                top_p: 0.0,
                ..Sampling::greedy()
            },
            Sampling {
                min_p: 2.0,
                ..Sampling::greedy()
            },
            Sampling {
                repetition: f32::NAN,
                ..Sampling::greedy()
            },
        ] {
            assert!(Sampler::new(wrong).is_err());
        }
        let mut greedy = Sampler::new(Sampling::greedy()).unwrap();
        assert!(greedy.choose(&[f32::NAN], &[]).is_err());
        assert_eq!(greedy.choose(&[1.0, 1.0], &[]).unwrap(), 0);
    }
}
