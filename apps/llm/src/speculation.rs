//! Speculative decoding (Leviathan et al., arXiv 2211.17192): one run of a chunk verifies several
//! draft tokens, found in the text (prompt lookup) or made by a smaller model ([`draft`]).
//!
//! Invariants:
//! 1. Draft tokens change the speed of an answer, never its tokens. A token is drawn from the logits
//!    after its text, with the same draw as without speculation, and a draft token is accepted if it
//!    equals the drawn token. For a draft token without a distribution of its own, this is the
//!    rejection scheme: it is accepted with the probability that the model gives it, and its
//!    replacement is drawn from the others. A draft model uses the draw that the larger model will
//!    use, so that they agree where their probabilities do. The rejection scheme's own draws would
//!    agree a little more often, but give other tokens than without speculation.
//! 2. The measured cost of wrong draft tokens stays a small part of the answer's time; beyond it,
//!    no tokens are drafted.
//!
//! Not here: the runs (`generation`).

mod draft;

use std::time::{Duration, Instant};

use crate::build::Logits;
use crate::chunk::SessionKey;
use crate::sequence::Sequence;
use crate::{LanguageModel, Result, Sampler, TokenId};

pub use draft::Draft;
use draft::{Worth, mean};

/// Rows of the verifying chunk: the token chosen last, and draft tokens. On a CPU it takes two to
/// four times as long as a step of one row.
pub(crate) const ROWS: usize = 8;

/// Lengths of the text's end that is searched for earlier in the text. A single token occurs in any
/// text, and what followed it predicts little.
const ENDS: std::ops::RangeInclusive<usize> = 2..=4;

/// Part of an answer's time that wrong draft tokens may cost.
const PART: f64 = 0.03;

/// Cost allowed for the first draft tokens, in steps of one row; without it, none would be tried in
/// a short answer.
const CREDIT: f64 = 2.0;

/// Source of draft tokens for speculative decoding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Speculation {
    /// Prompt lookup: what followed the text's last tokens at an earlier occurrence, in the prompt
    /// or the answer.
    PromptLookup,
    /// A smaller model.
    Draft(Draft),
}

/// Counts of speculative decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculated {
    /// Number of runs with draft tokens to verify.
    pub runs: usize,
    /// Number of draft tokens.
    pub proposed: usize,
    /// Number of accepted draft tokens.
    pub accepted: usize,
}

/// Makes draft tokens while they pay.
#[derive(Clone, Debug)]
pub(crate) struct Drafter {
    by: Speculation,
    pub(crate) count: Speculated,
    worth: Worth,
    /// Seconds of a run with draft tokens, including making them; `None` before the first.
    chunk: Option<f64>,
    /// Tokens per run with draft tokens.
    gives: Option<f64>,
    /// Recent seconds by which runs with draft tokens exceeded the steps they saved. Earlier gains do
    /// not count.
    lost: f64,
    /// Seconds of all steps.
    spent: f64,
    /// Seconds of drafting since the last step.
    drafting: f64,
    /// Whether the draft model has read the prompt.
    has_read: bool,
}

impl Drafter {
    pub(crate) fn new(by: &Speculation) -> Drafter {
        Drafter {
            by: by.clone(),
            count: Speculated::default(),
            worth: Worth::default(),
            chunk: None,
            gives: None,
            lost: 0.0,
            spent: 0.0,
            drafting: 0.0,
            has_read: false,
        }
    }

    /// Drafts at most `most` tokens that follow a text; none if drafting has not paid. `sequence`
    /// has read the text except its last token, which `sampler` chose.
    ///
    /// # Errors
    /// A device of the draft model failed.
    pub(crate) fn propose(
        &mut self,
        sequence: &mut Sequence,
        text: &[TokenId],
        most: usize,
        sampler: &Sampler,
    ) -> Result<Vec<TokenId>> {
        let most = most.min(ROWS - 1);
        if most == 0 || !self.pays() {
            return Ok(Vec::new());
        }
        match &self.by {
            Speculation::PromptLookup => Ok(look_up(text, most).to_vec()),
            // the larger model may know more tokens, and have more room
            Speculation::Draft(draft) if !draft.can_read(text) => Ok(Vec::new()),
            Speculation::Draft(draft) => {
                let vocabulary = sequence.model().sizes().vocabulary;
                let own = sequence.companion(draft.model())?;
                if !self.has_read {
                    // once per answer, whether drafting pays or not: not part of a verifying run's time
                    draft.read(own, &text[..text.len() - 1])?;
                    self.has_read = true;
                }
                let started = Instant::now();
                let mut draft_tokens = draft.propose(own, text, most, sampler, &mut self.worth)?;
                self.drafting += started.elapsed().as_secs_f64();
                // a smaller model may know more tokens
                let known = draft_tokens
                    .iter()
                    .take_while(|token| **token < vocabulary)
                    .count();
                draft_tokens.truncate(known);
                Ok(draft_tokens)
            }
        }
    }

    fn pays(&self) -> bool {
        let Some(single) = self.worth.single else {
            // nothing to compare with yet
            return false;
        };
        let (Some(chunk), Some(gives)) = (self.chunk, self.gives) else {
            return true;
        };
        let expected = chunk - gives * single;
        // what is known to pay is done; what is not is tried as long as it costs little
        expected <= 0.0 || self.lost + (chunk - single) <= PART * self.spent + CREDIT * single
    }

    /// Records the time of a step of one row.
    pub(crate) fn stepped(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        mean(&mut self.worth.single, took);
        self.spent += took;
        let drafting = std::mem::take(&mut self.drafting);
        if drafting > 0.0 {
            // the cost of draft tokens that were not worth a run counts too
            mean(&mut self.chunk, took + drafting);
            mean(&mut self.gives, 1.0);
            self.spent += drafting;
            self.lost += drafting;
        }
    }

    /// Records a run with this many draft tokens, the number accepted, and its time.
    pub(crate) fn verified(&mut self, proposed: usize, accepted: usize, took: Duration) {
        self.count.runs += 1;
        self.count.proposed += proposed;
        self.count.accepted += accepted;
        self.worth.verified(proposed, accepted, took.as_secs_f64());
        let took = took.as_secs_f64() + std::mem::take(&mut self.drafting);
        let tokens = (accepted + 1) as f64;
        mean(&mut self.chunk, took);
        mean(&mut self.gives, tokens);
        self.spent += took;
        self.lost = (self.lost + took - tokens * self.worth.single.unwrap_or(took)).max(0.0);
    }
}

impl LanguageModel {
    /// Plans and compiles the chunk that verifies draft tokens, so that no answer waits for it.
    ///
    /// # Errors
    /// As [`LanguageModel::prepare`].
    pub fn prepare_speculation(&self) -> Result<()> {
        self.session(&SessionKey {
            rows: ROWS,
            logits: Logits::All,
            is_step: false,
            device: None,
        })?;
        Ok(())
    }
}

/// What followed the last earlier occurrence of the text's last tokens.
fn look_up(text: &[TokenId], most: usize) -> &[TokenId] {
    for length in ENDS.rev() {
        let Some(start) = text.len().checked_sub(length) else {
            continue;
        };
        let (before, end) = (&text[..text.len() - 1], &text[start..]);
        // the latest one: what is said now is about what was said lately
        if let Some(found) = before.windows(length).rposition(|window| window == end) {
            let next = &text[found + length..];
            return &next[..most.min(next.len())];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_lookup_finds_earlier_continuations() {
        assert_eq!(look_up(&[1, 2, 3, 4, 9, 1, 2], 7), [3, 4, 9, 1, 2]);
        assert_eq!(look_up(&[1, 2, 3, 4, 9, 1, 2], 2), [3, 4]);
        // the longest end first, then the latest place
        assert_eq!(look_up(&[5, 1, 2, 6, 7, 1, 2, 8, 5, 1, 2], 1), [6]);
        assert_eq!(look_up(&[1, 2, 6, 1, 2, 8, 1, 2], 1), [8]);
        // over itself: a token again and again
        assert_eq!(look_up(&[4, 4, 4, 4], 7), [4]);
        for text in [&[][..], &[1], &[1, 1], &[1, 2, 3], &[3, 1, 2, 3]] {
            assert!(look_up(text, 7).is_empty());
        }
        assert!(look_up(&[1, 2, 1, 2], 0).is_empty());
    }

    /// Milliseconds per token with steps of 1 ms and chunks of 3 ms, where `right` cycles through
    /// the numbers of right draft tokens.
    fn cost(right: &[usize], tokens: usize) -> f64 {
        let (mut drafter, mut made, mut ms, mut turns) = (
            Drafter::new(&Speculation::PromptLookup),
            0,
            0.0,
            right.iter().cycle(),
        );
        while made < tokens {
            if drafter.pays() {
                let accepted = *turns.next().unwrap();
                drafter.verified(ROWS - 1, accepted, Duration::from_millis(3));
                (made, ms) = (made + accepted + 1, ms + 3.0);
            } else {
                drafter.stepped(Duration::from_millis(1));
                (made, ms) = (made + 1, ms + 1.0);
            }
        }
        ms / made as f64
    }

    #[test]
    fn drafting_stops_when_it_does_not_pay() {
        // wrong ones cost a twentieth at most, right ones are made nearly always
        for wrong in [&[0][..], &[1], &[0, 1, 0, 2]] {
            assert!(cost(wrong, 100) <= 1.05, "{wrong:?}: {}", cost(wrong, 100));
            assert!(cost(wrong, 10_000) <= 1.04, "{wrong:?}: {}", cost(wrong, 10_000));
        }
        assert!(cost(&[7], 1000) < 0.4);
        assert!(cost(&[3], 1000) < 0.8);
        // draft tokens that paid once, and then are made and never tried
        let (mut drafter, mut ms) = (Drafter::new(&Speculation::PromptLookup), 0.0);
        drafter.stepped(Duration::from_millis(1));
        for _ in 0..10 {
            drafter.verified(ROWS - 1, ROWS - 1, Duration::from_millis(3));
        }
        for _ in 0..1000 {
            if drafter.pays() {
                drafter.drafting = 0.3e-3;
                ms += 0.3;
            }
            drafter.stepped(Duration::from_millis(1));
            ms += 1.0;
        }
        assert!(ms / 1000.0 <= 1.05, "{}", ms / 1000.0);
        // some good among bad: it is worth three steps in the mean
        assert!(cost(&[7, 0, 2, 1, 7], 2000) < 0.75);
    }
}
