//! Draft tokens of a draft model, a smaller model with the same vocabulary.
//!
//! Invariants:
//! 1. It drafts with a copy of the sampler, whose next draws are those that the larger model will
//!    use.
//! 2. It reads into its own sequence, which belongs to the larger model's sequence, so that a text
//!    is read once.
//! 3. Measurements determine the number of draft tokens: one more is made where a step of the larger
//!    model, multiplied by the chance that the draft token is accepted, exceeds a step of the draft
//!    model. That chance is learned by the draft model's confidence.
//!
//! Not here: whether drafting pays at all ([`super::Drafter`]).

use std::time::Instant;

use crate::sequence::Sequence;
use crate::{Error, LanguageModel, Result, Sampler, TokenId};

/// Bins of the draft model's confidence.
const BINS: usize = 8;

/// Weight of a new measurement.
const WEIGHT: f64 = 0.2;

/// Weight of a new draft token in its bin; there are many of them.
const BIN_WEIGHT: f64 = 0.05;

/// This many tokens are read by a step each, and not by a chunk.
const FEW: usize = 2;

/// A smaller model that drafts the next tokens of a larger one.
///
/// ```no_run
/// use polychip_llm::{Draft, Generate, LanguageModel, Options, Speculation};
///
/// let model = LanguageModel::open("large.gguf", Options::new())?;
/// // on the same runtime: their threads do not disturb each other
/// let small = LanguageModel::open("small.gguf", Options::new().runtime(model.runtime()))?;
/// let mut wanted = Generate::greedy(100);
/// wanted.speculation = Some(Speculation::Draft(Draft::new(small, &model)?));
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Draft(LanguageModel);

impl Draft {
    /// Pairs a draft model with a larger model. One of the two vocabularies may have additional
    /// tokens at its end.
    ///
    /// # Errors
    /// A token id means different tokens in the two models.
    pub fn new(model: LanguageModel, larger: &LanguageModel) -> Result<Draft> {
        let (own, other) = (model.tokenizer(), larger.tokenizer());
        let shared = 0..own.len().min(other.len()) as TokenId;
        if let Some(id) = shared.into_iter().find(|id| own.token(*id) != other.token(*id)) {
            let word = |token: Option<&str>| format!("{:?}", token.unwrap_or_default());
            return Err(Error::config(format!(
                "{} cannot draft for {}: their vocabularies differ, token {id} is {} and {}",
                model.path().display(),
                larger.path().display(),
                word(own.token(id)),
                word(other.token(id)),
            )));
        }
        Ok(Draft(model))
    }

    /// Whether it knows all tokens of a text and has room for it.
    pub(super) fn can_read(&self, text: &[TokenId]) -> bool {
        let known = self.0.sizes().vocabulary;
        text.len() <= self.0.capacity() && text.iter().all(|token| *token < known)
    }

    /// The smaller model.
    #[must_use]
    pub fn model(&self) -> &LanguageModel {
        &self.0
    }

    /// Reads the part of a text that the sequence has not read.
    pub(super) fn read(&self, own: &mut Sequence, text: &[TokenId]) -> Result<()> {
        let kept = own.shared(text);
        if kept < text.len() {
            own.truncate(kept);
            own.append(&text[kept..])?;
        }
        Ok(())
    }

    /// Drafts at most `most` tokens that follow a text.
    pub(super) fn propose(
        &self,
        own: &mut Sequence,
        text: &[TokenId],
        most: usize,
        sampler: &Sampler,
        worth: &mut Worth,
    ) -> Result<Vec<TokenId>> {
        worth.chances.clear();
        // the last draft token is not read
        let most = most.min((self.0.capacity() + 1).saturating_sub(text.len()));
        if most == 0 {
            return Ok(Vec::new());
        }
        let kept = own.reuse(text);
        let (few, many) = match text.len() - kept {
            0..=FEW => (&text[kept..], &[][..]),
            _ => (&text[text.len() - 1..], &text[kept..text.len() - 1]),
        };
        if !many.is_empty() {
            own.append(many)?;
        }
        for token in few {
            worth.step(own, *token)?;
        }
        let (mut sampler, mut behind) = (sampler.clone(), text.to_vec());
        // where no logit is a number, no tokens are drafted
        while let Ok(token) = sampler.choose(own.logits(), &behind) {
            behind.push(token);
            worth.drafted(probability(own.logits(), token));
            let count = behind.len() - text.len();
            if count == most || !worth.one_more() || self.0.tokenizer().is_end(token) {
                break;
            }
            worth.step(own, token)?;
        }
        let draft_tokens = behind.split_off(text.len());
        Ok(if worth.pays_to_verify() {
            draft_tokens
        } else {
            Vec::new()
        })
    }
}

/// What the draft model's draft tokens are worth.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    /// Seconds of a step of one row of the larger model; `None` before the first.
    pub(super) single: Option<f64>,
    /// Seconds of a run that verifies draft tokens, and of a step of the draft model.
    verify: Option<f64>,
    step: Option<f64>,
    /// How often draft tokens were accepted, by the draft model's confidence.
    stood: [f64; BINS],
    /// Confidence in the current draft tokens.
    chances: Vec<f64>,
}

impl Default for Worth {
    fn default() -> Worth {
        Worth {
            single: None,
            verify: None,
            step: None,
            // as often as it says
            stood: std::array::from_fn(|bin| (bin as f64 + 0.5) / BINS as f64),
            chances: Vec::new(),
        }
    }
}

impl Worth {
    fn step(&mut self, own: &mut Sequence, token: TokenId) -> Result<()> {
        let started = Instant::now();
        own.append(&[token])?;
        mean(&mut self.step, started.elapsed().as_secs_f64());
        Ok(())
    }

    fn drafted(&mut self, probability: f64) {
        self.chances.push(probability);
    }

    /// Chance that all draft tokens up to each one are accepted.
    fn stand(&self) -> impl Iterator<Item = f64> {
        self.chances.iter().scan(1.0, |all, chance| {
            *all *= self.stood[bin(*chance)];
            Some(*all)
        })
    }

    /// Whether one more draft token is worth its step.
    fn one_more(&self) -> bool {
        let (Some(single), Some(step), Some(all)) = (self.single, self.step, self.stand().last()) else {
            return true;
        };
        all * single > step
    }

    /// Whether the draft tokens are worth the extra time of a verifying run over a step.
    fn pays_to_verify(&self) -> bool {
        let (Some(single), Some(verify)) = (self.single, self.verify) else {
            return true;
        };
        self.stand().sum::<f64>() * single > verify - single
    }

    /// Records a run that verified this many draft tokens, and its seconds.
    pub(super) fn verified(&mut self, proposed: usize, accepted: usize, took: f64) {
        mean(&mut self.verify, took);
        // behind one that fell nothing was tried
        let tried = self.chances.iter().take(proposed.min(accepted + 1));
        for (index, chance) in tried.enumerate() {
            let stood = &mut self.stood[bin(*chance)];
            *stood += BIN_WEIGHT * (f64::from(u8::from(index < accepted)) - *stood);
        }
    }
}

/// Updates a mean in which later values count more.
pub(super) fn mean(of: &mut Option<f64>, value: f64) {
    *of = Some(of.map_or(value, |before| before + WEIGHT * (value - before)));
}

fn bin(probability: f64) -> usize {
    ((probability * BINS as f64) as usize).min(BINS - 1)
}

/// Probability of a token at temperature 1.
fn probability(logits: &[f32], token: TokenId) -> f64 {
    let Some(own) = logits.get(token as usize) else {
        return 0.0;
    };
    let sum: f32 = logits
        .iter()
        .map(|logit| (logit - own).exp())
        .filter(|part| !part.is_nan())
        .sum();
    1.0 / f64::from(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::TensorType;
    use crate::testing::TinyModel;
    use crate::{Architecture, Gguf, Options};

    #[test]
    fn unknown_text_is_not_reused() {
        let tiny = TinyModel {
            architecture: Architecture::Llama,
            kind: TensorType::Q8_0,
            layers: 1,
            tied: true,
            seed: 0,
        };
        let file = Gguf::read(tiny.writer().finish().into()).unwrap();
        let model = LanguageModel::of("tiny", file, Options::new().capacity(8)).unwrap();
        let draft = Draft::new(model.clone(), &model).unwrap();
        let beyond = model.sizes().vocabulary;
        assert!(draft.can_read(&[0, beyond - 1]));
        assert!(!draft.can_read(&[0, beyond]));
        assert!(draft.can_read(&[0; 8]));
        assert!(!draft.can_read(&[0; 9]));
    }

    #[test]
    fn acceptance_probability_is_a_fraction() {
        let logits = [1.0_f32.ln(), 3.0_f32.ln(), f32::NEG_INFINITY, f32::NAN];
        assert!((probability(&logits, 1) - 0.75).abs() < 1e-6);
        assert!((probability(&logits, 0) - 0.25).abs() < 1e-6);
        // far below all others
        assert!(probability(&[0.0, -200.0], 1) < 1e-30);
        assert!(probability(&logits, 9) == 0.0);
    }

    fn worth(single: f64, step: f64, verify: f64) -> Worth {
        Worth {
            single: Some(single),
            step: Some(step),
            verify: Some(verify),
            ..Worth::default()
        }
    }

    #[test]
    fn draft_length_grows_while_it_pays() {
        let mut worth = worth(4.0, 1.0, 6.0);
        for _ in 0..4 {
            assert!(worth.one_more(), "{:?}", worth.chances);
            // three of four stand, by the bin's middle
            worth.drafted(0.7);
        }
        // 0.6875 ** 4 of four steps
        assert!(!worth.one_more());
        // 1.7 steps of four seconds are saved, for a run that takes two more
        assert!(worth.pays_to_verify());
        worth.verify = Some(12.0);
        assert!(!worth.pays_to_verify());
    }

    #[test]
    fn acceptance_is_learned_by_confidence() {
        let mut worth = worth(4.0, 1.0, 6.0);
        for _ in 0..100 {
            worth.chances = vec![0.99, 0.2, 0.99];
            // the first stands always, the second never; the third was never tried
            worth.verified(3, 1, 6.0);
        }
        assert!(worth.stood[bin(0.99)] > 0.99);
        assert!(worth.stood[bin(0.2)] < 0.01);
    }
}
