//! Grammar compiler for a vocabulary, with the tree of its tokens' bytes.
//!
//! Invariants:
//! 1. A control token is never text of a grammar; those that end an answer are allowed where the
//!    text is complete.
//! 2. The cost of compiling a grammar and of each token is bounded.
//!
//! Not here: grammars and their answers (`crate::grammar`).

use std::fmt;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, TokenParser};

use crate::{Error, Result, TokenId};

/// Longest token in an answer with a grammar, in bytes: the depth of the tree of tokens.
const MAX_TOKEN: usize = 512;

/// Most lexer states, of 1 to 2 KiB each, that an answer may reach.
const MAX_STATES: usize = 20_000;

/// An error's message in one line, without the stack of a panic.
pub(crate) fn in_one_line(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    // marks that the library puts behind its words for itself
    let text = text.split("<backtrace>").next().unwrap_or_default();
    let text = text.replace("<non-verbose/>", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Grammar compiler for a vocabulary.
pub(crate) struct Parsers(ParserFactory);

impl Parsers {
    /// Of a vocabulary: each token's bytes and whether it is a control token, and the tokens that end an answer.
    pub(super) fn new(
        tokens: impl ExactSizeIterator<Item = Result<(Vec<u8>, bool)>>,
        ends: &[TokenId],
    ) -> Result<Arc<Parsers>> {
        let Some(&end) = ends.first() else {
            return Err(Error::grammar(
                "the vocabulary has no end-of-answer token, which a constrained answer needs",
            ));
        };
        let mut texts = Vec::with_capacity(tokens.len());
        for token in tokens {
            let (mut bytes, is_control) = token?;
            if is_control {
                // never text
                bytes.insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
            }
            if bytes.len() > MAX_TOKEN {
                bytes.clear();
            }
            texts.push(bytes);
        }
        let info = TokRxInfo::new(texts.len() as u32, end);
        let tree = TokTrie::from(&info, &texts).with_eos_tokens(ends);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(tree));
        let slices = SlicedBiasComputer::general_slices();
        let parsers = ParserFactory::new(&env, InferenceCapabilities::default(), &slices);
        let mut parsers = parsers.map_err(|error| Error::grammar(in_one_line(&error)))?;
        parsers.quiet();
        let limits = parsers.limits_mut();
        limits.max_lexer_states = MAX_STATES;
        limits.verbose_errors = false;
        Ok(Arc::new(Parsers(parsers)))
    }

    pub(crate) fn create_parser(&self, grammar: TopLevelGrammar) -> Result<TokenParser, String> {
        // the whole chain of causes: its end names the key
        self.0
            .create_parser(grammar)
            .map_err(|error| format!("{error:#}"))
    }
}
