//! The grammar compiler: a grammar and a vocabulary become masks of tokens. A sandbox calls it, or the app's own process
//! where it has no sandbox.
//!
//! Invariants:
//! 1. A control token is never text of a grammar; those that end an answer are allowed where the
//!    text is complete.
//! 2. Steps of compiling a grammar and of each token are counted and bounded. Its depth, and with it the stack, is
//!    bounded by the sandbox's limits, or by `bounds` in the app's process.

use std::fmt;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::TokenId;
use crate::sandbox::TokenTable;

/// Most lexer states, of 1 to 2 KiB each, that an answer may reach.
const MAX_STATES: usize = 20_000;

/// An error's message in one line, without the stack of a panic.
fn in_one_line(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    // marks that the library puts behind its words for itself
    let text = text.split("<backtrace>").next().unwrap_or_default();
    let text = text.replace("<non-verbose/>", "");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.contains("panic: ") {
        // what an assertion of the library says is of no use to a client
        return "too large or too complex for the limits of the grammar compiler; simplify it".to_owned();
    }
    text
}

/// The tokens that may come next.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    /// Tokens of the vocabulary.
    len: usize,
    /// A bit for each token.
    bits: Vec<u32>,
}

impl Mask {
    fn new(mask: &SimpleVob) -> Mask {
        Mask {
            len: mask.len(),
            bits: mask.as_slice().to_vec(),
        }
    }

    /// As the number of tokens and the bits, little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let words = std::iter::once(self.len as u32).chain(self.bits.iter().copied());
        words.flat_map(u32::to_le_bytes).collect()
    }

    /// `None` if these are no mask's bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Mask> {
        let (len, bits) = bytes.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        let (words, rest) = bits.as_chunks();
        let bits: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        (rest.is_empty() && bits.len() * 32 >= len).then_some(Mask { len, bits })
    }

    /// Sets the logits of tokens that may not come to NaN, so that they are not chosen.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        for (token, logit) in logits.iter_mut().enumerate() {
            // rows of the vocabulary beyond the tokens are none
            if token >= self.len || self.bits[token / 32] >> (token % 32) & 1 == 0 {
                *logit = f32::NAN;
            }
        }
    }
}

/// Grammar compiler for a vocabulary.
pub(crate) struct Compiler(ParserFactory);

impl Compiler {
    pub(crate) fn new(table: &TokenTable) -> Result<Compiler, String> {
        let Some(&end) = table.ends.first() else {
            return Err("the vocabulary has no token that ends an answer".to_owned());
        };
        let info = TokRxInfo::new(table.tokens.len() as u32, end);
        let tree = TokTrie::from(&info, &table.tokens).with_eos_tokens(&table.ends);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(tree));
        let slices = SlicedBiasComputer::general_slices();
        let parsers = ParserFactory::new(&env, InferenceCapabilities::default(), &slices);
        let mut parsers = parsers.map_err(|error| in_one_line(&error))?;
        parsers.quiet();
        let limits = parsers.limits_mut();
        limits.max_lexer_states = MAX_STATES;
        limits.verbose_errors = false;
        Ok(Compiler(parsers))
    }

    /// A grammar of a schema, and the mask of its first token.
    pub(crate) fn json_schema(&self, schema: &Value) -> Result<(LocalGrammar, Mask), String> {
        let mut schema = match schema {
            Value::Object(_) => schema.clone(),
            _ => json!({}),
        };
        if let Some(fields) = schema.as_object_mut() {
            let spacing =
                json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "});
            fields.insert("x-guidance".to_owned(), spacing);
        }
        self.compile(TopLevelGrammar::from_json_schema(schema))
    }

    /// A grammar in Lark notation, and the mask of its first token.
    pub(crate) fn lark(&self, grammar: &str) -> Result<(LocalGrammar, Mask), String> {
        self.compile(TopLevelGrammar::from_lark(grammar.to_owned()))
    }

    fn compile(&self, grammar: TopLevelGrammar) -> Result<(LocalGrammar, Mask), String> {
        let parser = self.0.create_parser(grammar);
        // the whole chain of causes: its end names the key
        let parser = parser.map_err(|error| in_one_line(&format!("{error:#}")))?;
        let start = Matcher::new(Ok(parser));
        // what no text satisfies shows with the first token
        let first = start.deep_clone().compute_mask_or_eos();
        let first = first.map_err(|error| format!("unsatisfiable or too large ({})", in_one_line(&error)))?;
        Ok((LocalGrammar(start), Mask::new(&first)))
    }
}

/// A compiled grammar.
#[derive(Clone)]
pub(crate) struct LocalGrammar(Matcher);

impl LocalGrammar {
    pub(crate) fn begin(&self) -> LocalState {
        LocalState(self.0.deep_clone())
    }
}

/// How far an answer has come in its grammar.
pub(crate) struct LocalState(Matcher);

impl LocalState {
    /// The tokens that may come next.
    pub(crate) fn mask(&mut self) -> Result<Mask, String> {
        let mask = self.0.compute_mask_or_eos();
        mask.map(|mask| Mask::new(&mask))
            .map_err(|error| in_one_line(&error))
    }

    /// Consumes the next token; returns whether nothing can follow it.
    pub(crate) fn take(&mut self, token: TokenId) -> Result<bool, String> {
        let taken = self.0.consume_token(token);
        taken.map_err(|error| in_one_line(&error))?;
        Ok(self.0.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_returns_from_its_bytes_and_applies() {
        let mask = Mask {
            len: 34,
            bits: vec![0b10, 0b11],
        };
        let read = Mask::of_bytes(&mask.to_bytes()).unwrap();
        let mut logits = [1.0; 36];
        read.apply(&mut logits);
        let left: Vec<usize> = (0..36).filter(|at| !logits[*at].is_nan()).collect();
        assert_eq!(left, [1, 32, 33]);
        assert!(Mask::of_bytes(&mask.to_bytes()[..9]).is_none());
        assert!(Mask::of_bytes(&[33, 0, 0, 0, 1, 0, 0, 0]).is_none());
    }
}
