//! Constrained decoding: an answer's text must be JSON, JSON of a schema, or match a grammar.
//! Tokens that would violate this cannot be chosen.
//!
//! Invariants:
//! 1. An answer that ends by itself matches the grammar. One that is cut, by its length or the
//!    context, is a prefix of a match.
//! 2. A schema or grammar with unsupported features is refused before the first token, by name; no
//!    part of it is ignored.
//! 3. The cost of compiling and of each token is bounded for any schema.
//!
//! Not here: which of the allowed tokens is chosen (`sampler`).

use std::fmt;

use llguidance::Matcher;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::SimpleVob;
use serde_json::{Value, json};

use crate::tokenizer::in_one_line;
use crate::{Error, LanguageModel, Result, TokenId};

/// A compiled grammar or schema. Clones share it.
///
/// ```
/// # use polychip_llm::testing::TinyModel;
/// # use polychip_llm::{Architecture, Gguf, LanguageModel, Options, gguf::TensorType};
/// # let model = TinyModel { architecture: Architecture::Llama, kind: TensorType::Q8_0, layers: 1, tied: true, seed: 0 };
/// # let model = LanguageModel::of("tiny", Gguf::read(model.writer().finish().into())?, Options::new().capacity(64))?;
/// use std::ops::ControlFlow;
/// use polychip_llm::{Generate, Grammar};
///
/// let schema = serde_json::json!({"type": "array", "items": {"enum": ["yes", "no"]}, "minItems": 2, "maxItems": 2});
/// let wanted = Generate {
///     grammar: Some(Grammar::json_schema(&model, &schema)?),
///     ..Generate::greedy(40)
/// };
/// let answer = model.sequence()?.generate(&[40, 41], &wanted, &mut |_| ControlFlow::Continue(()))?;
/// let said: Vec<String> = serde_json::from_str(&answer.text).expect("it is JSON of the schema");
/// assert!(said.iter().all(|word| word == "yes" || word == "no"));
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Clone)]
pub struct Grammar {
    start: Matcher,
}

impl Grammar {
    /// Allows any JSON object.
    ///
    /// # Errors
    /// The vocabulary has no token that ends an answer.
    pub fn json_object(model: &LanguageModel) -> Result<Grammar> {
        Grammar::json_schema(model, &json!({"type": "object"}))
    }

    /// Allows JSON that conforms to a schema, with one space after each comma and colon and no
    /// other whitespace, so that a model cannot emit whitespace endlessly.
    ///
    /// # Errors
    /// The schema is contradictory, unsupported or too large.
    pub fn json_schema(model: &LanguageModel, schema: &Value) -> Result<Grammar> {
        let mut schema = match schema {
            Value::Object(_) => schema.clone(),
            Value::Bool(true) => json!({}),
            other => {
                let words = format!("a JSON schema must be an object, not {other}");
                return Err(Error::grammar(words));
            }
        };
        let Some(fields) = schema.as_object_mut() else {
            return Err(Error::grammar("a JSON schema is an object"));
        };
        // it would change how the schema is read: `lenient` leaves out of account what is not known
        if fields.contains_key("x-guidance") {
            return Err(Error::grammar(
                "JSON schema: the key \"x-guidance\" is not supported",
            ));
        }
        let spacing = json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
        fields.insert("x-guidance".to_owned(), spacing);
        Grammar::compile(model, TopLevelGrammar::from_json_schema(schema), "JSON schema")
    }

    /// Allows the texts of a grammar in Lark notation, from its rule `start`.
    ///
    /// # Errors
    /// The grammar is invalid, unsupported or too large.
    pub fn lark(model: &LanguageModel, grammar: &str) -> Result<Grammar> {
        if grammar.trim().is_empty() {
            return Err(Error::grammar("the grammar is empty"));
        }
        Grammar::compile(model, TopLevelGrammar::from_lark(grammar.to_owned()), "grammar")
    }

    fn compile(model: &LanguageModel, grammar: TopLevelGrammar, what: &str) -> Result<Grammar> {
        let parsers = model.tokenizer().parsers()?;
        let parser = parsers.create_parser(grammar);
        let parser = parser.map_err(|error| Error::grammar(format!("{what}: {}", in_one_line(&error))))?;
        let start = Matcher::new(Ok(parser));
        // what no text satisfies shows with the first token
        let first = start.deep_clone().compute_mask_or_eos();
        first.map_err(|error| {
            Error::grammar(format!(
                "{what}: unsatisfiable or too large ({})",
                in_one_line(&error)
            ))
        })?;
        Ok(Grammar { start })
    }

    /// Starts matching an answer.
    pub(crate) fn begin(&self) -> GrammarState {
        GrammarState {
            matcher: self.start.deep_clone(),
        }
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}

/// Matching state of an answer.
#[derive(Clone)]
pub(crate) struct GrammarState {
    matcher: Matcher,
}

impl GrammarState {
    /// Sets the logits of disallowed tokens to NaN, so that they are not chosen.
    pub(crate) fn mask(&mut self, logits: &mut [f32]) -> Result<()> {
        let mask = self.matcher.compute_mask_or_eos();
        let mask: SimpleVob = mask.map_err(|error| self.failed(&error))?;
        for (token, logit) in logits.iter_mut().enumerate() {
            // rows of the vocabulary beyond the tokens are none
            if token >= mask.len() || !mask.get(token) {
                *logit = f32::NAN;
            }
        }
        Ok(())
    }

    /// Consumes the next token; returns whether nothing can follow it.
    pub(crate) fn take(&mut self, token: TokenId) -> Result<bool> {
        let taken = self.matcher.consume_token(token);
        taken.map_err(|error| self.failed(&error))?;
        Ok(self.matcher.is_stopped())
    }

    fn failed(&self, error: &impl fmt::Display) -> Error {
        Error::grammar(format!(
            "the answer cannot continue within its grammar: {}",
            in_one_line(error)
        ))
    }
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState").finish_non_exhaustive()
    }
}
