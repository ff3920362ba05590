//! The precision of a model by the logits of a text in both, which need no sequence of their own.

use polychip::Precision;

use super::View;
use crate::build::Logits;
use crate::chunk::{LADDER, SessionKey};
use crate::model::LanguageModel;
use crate::precision::{self, PrecisionChoice};
use crate::{Error, Result, TokenId};

impl LanguageModel {
    /// The precision that the error of the reduced one allows.
    pub(crate) fn measure_precision(&self) -> PrecisionChoice {
        let tokens = precision::text(self.tokenizer(), self.capacity());
        precision::choose(self.sizes().vocabulary as usize, |of| match &tokens {
            Ok(tokens) => self.trial_logits(tokens, of),
            Err(error) => Err(Error::tokenizer(error.to_string())),
        })
    }

    /// The logits after each of a few tokens, computed in this precision by a session that is freed afterwards.
    fn trial_logits(&self, tokens: &[TokenId], precision: Precision) -> Result<Vec<f32>> {
        let enough = |rows: &usize| *rows >= tokens.len();
        let rows = LADDER.into_iter().rev().find(enough).unwrap_or(LADDER[0]);
        let key = SessionKey {
            rows,
            logits: Logits::All,
            is_step: false,
            device: None,
        };
        let session = self.plan(&key, self.given_policy().clone().precision(precision))?;
        let mut view = View::new(session, &self.memories()?)?;
        view.fill(self, tokens, rows, 0)?;
        let outputs = view.run()?;
        let logits = outputs.at(view.logits).map_err(Error::run)?;
        let logits = logits.values::<f32>().map_err(Error::run)?;
        Ok(logits[..tokens.len() * self.sizes().vocabulary as usize].to_vec())
    }
}
