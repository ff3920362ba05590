//! Constrained decoding: an answer's text must be JSON, JSON of a schema, or match a grammar.
//! Tokens that would violate this cannot be chosen.
//!
//! Invariants:
//! 1. An answer that ends by itself matches the grammar. One that is cut, by its length or the
//!    context, is a prefix of a match.
//! 2. A schema or grammar with unsupported features is refused before the first token, by name; no
//!    part of it is ignored.
//! 3. The memory, stack and time of compiling and of each token are bounded for any schema: a sandbox
//!    process compiles a grammar and follows its answers ([`sandbox`](crate::sandbox)), and its death is an
//!    error of these answers alone. Without sandboxes, `bounds` refuses what could take too much.
//!
//! Not here: which of the allowed tokens is chosen (`sampler`).

pub(crate) mod bounds;
mod compilers;
pub(crate) mod local;
mod remote;

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use compilers::Compilers;
use local::{LocalGrammar, LocalState, Mask};
use remote::{RemoteGrammar, RemoteState};

use crate::sandbox::{Failure, kind};
use crate::{Error, LanguageModel, Result, TokenId};

/// A compiled grammar or schema. Clones share it, and its sandbox process.
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
pub struct Grammar(Compiled);

#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one for each grammar")]
enum Compiled {
    Local(LocalGrammar, Mask),
    Remote(Arc<RemoteGrammar>),
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
    /// The schema is contradictory, unsupported, or exceeds a limit of size, depth, memory or time.
    pub fn json_schema(model: &LanguageModel, schema: &Value) -> Result<Grammar> {
        Grammar::json_schema_while(model, schema, &mut || true)
    }

    /// Compiles a schema like [`Grammar::json_schema`]; calls `go_on` about 50 times a second and stops
    /// if it returns false, unless this process compiles it itself.
    ///
    /// # Errors
    /// As [`Grammar::json_schema`], or `go_on` returned false.
    pub fn json_schema_while(
        model: &LanguageModel,
        schema: &Value,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Grammar> {
        let everything = json!({});
        let schema = match schema {
            Value::Object(_) => schema,
            Value::Bool(true) => &everything,
            other => {
                let words = format!("a JSON schema must be an object, not {}", shortened(other));
                return Err(Error::grammar(words));
            }
        };
        // it would change how the schema is read: `lenient` leaves out of account what is not known
        if schema.get(bounds::OWN_KEY).is_some() {
            return Err(Error::grammar(
                "JSON schema: the key \"x-guidance\" is not supported",
            ));
        }
        let what = "JSON schema";
        let compilers = model.tokenizer().compilers()?;
        let text = || schema.to_string();
        if let Some(remote) = remote(&compilers, kind::SCHEMA, text, go_on) {
            return remote.map_err(|failure| failed(what, failure));
        }
        bounds::check_schema(schema)
            .and_then(|()| deep(|| compilers.own()?.json_schema(schema)))
            .map_err(|words| Error::grammar(format!("{what}: {words}")))
    }

    /// Allows the texts of a grammar in Lark notation, from its rule `start`.
    ///
    /// # Errors
    /// The grammar is invalid, unsupported, or exceeds a limit of size, depth, memory or time.
    pub fn lark(model: &LanguageModel, grammar: &str) -> Result<Grammar> {
        Grammar::lark_while(model, grammar, &mut || true)
    }

    /// Compiles a grammar like [`Grammar::lark`]; calls `go_on` about 50 times a second and stops
    /// if it returns false, unless this process compiles it itself.
    ///
    /// # Errors
    /// As [`Grammar::lark`], or `go_on` returned false.
    pub fn lark_while(
        model: &LanguageModel,
        grammar: &str,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Grammar> {
        if grammar.trim().is_empty() {
            return Err(Error::grammar("the grammar is empty"));
        }
        let what = "grammar";
        let compilers = model.tokenizer().compilers()?;
        if let Some(remote) = remote(&compilers, kind::LARK, || grammar.to_owned(), go_on) {
            return remote.map_err(|failure| failed(what, failure));
        }
        bounds::check_lark(grammar)
            .and_then(|()| deep(|| compilers.own()?.lark(grammar)))
            .map_err(|words| Error::grammar(format!("{what}: {words}")))
    }

    /// Starts matching an answer.
    pub(crate) fn begin(&self) -> GrammarState {
        GrammarState(match &self.0 {
            Compiled::Local(grammar, first) => State::Local(grammar.begin(), Some(first.clone())),
            Compiled::Remote(grammar) => State::Remote(grammar.begin()),
        })
    }
}

/// The start of a value, for an error.
fn shortened(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        other => other.to_string().chars().take(100).collect(),
    }
}

/// Compiles in a sandbox; `None` where there is none.
fn remote(
    compilers: &Arc<Compilers>,
    kind: u8,
    text: impl FnOnce() -> String,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Result<Grammar, Failure>> {
    if !crate::sandbox::is_available() {
        return None;
    }
    let compiled = RemoteGrammar::compile(compilers, kind, text(), go_on)?;
    Some(compiled.map(|remote| Grammar(Compiled::Remote(Arc::new(remote)))))
}

fn failed(what: &str, failure: Failure) -> Error {
    match failure {
        Failure::Cancelled => Error::cancelled(),
        Failure::Ended(words) => Error::grammar(format!("{what}: {words}")),
        Failure::Unavailable(error) => Error::sandbox(error),
    }
}

/// Compiles in this process, on a stack of its own.
fn deep(compile: impl FnOnce() -> Result<(LocalGrammar, Mask), String> + Send) -> Result<Grammar, String> {
    let (grammar, first) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("polychip-grammar".to_owned())
            .stack_size(bounds::STACK)
            .spawn_scoped(scope, compile)
            .map_err(|error| format!("no thread to compile it: {error}"))?;
        let crashed = |_| "too large or too complex for the grammar compiler".to_owned();
        thread.join().map_err(crashed)?
    })?;
    Ok(Grammar(Compiled::Local(grammar, first)))
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").finish_non_exhaustive()
    }
}

/// Matching state of an answer.
pub(crate) struct GrammarState(State);

#[expect(clippy::large_enum_variant, reason = "there is one for each answer")]
enum State {
    /// With the mask of the next token, if it is known.
    Local(LocalState, Option<Mask>),
    Remote(RemoteState),
}

impl GrammarState {
    /// Sets the logits of disallowed tokens to NaN, so that they are not chosen. Waits for a sandbox's reply.
    pub(crate) fn mask(&mut self, logits: &mut [f32]) -> Result<()> {
        let mask = match &mut self.0 {
            State::Local(_, Some(mask)) => Ok(mask.clone()),
            State::Local(state, None) => state.mask(),
            State::Remote(state) => state.mask(),
        };
        mask.map_err(|words| broken(&words))?.apply(logits);
        Ok(())
    }

    /// Gives the grammar the next token; a sandbox's reply comes later.
    pub(crate) fn send(&mut self, token: TokenId) -> Result<Sent> {
        match &mut self.0 {
            State::Local(state, mask) => {
                *mask = None;
                let is_complete = state.take(token).map_err(|words| broken(&words))?;
                Ok(Sent::Known(is_complete))
            }
            State::Remote(state) => {
                state.send(token).map_err(|words| broken(&words))?;
                Ok(Sent::Awaited)
            }
        }
    }

    /// Whether nothing can follow the last token that was sent, where that is awaited. Waits for a sandbox's reply.
    pub(crate) fn is_complete(&mut self) -> Result<bool> {
        match &mut self.0 {
            State::Local(..) => Ok(false),
            State::Remote(state) => state.is_complete().map_err(|words| broken(&words)),
        }
    }

    /// Whether a sandbox's reply is awaited. Never waits.
    pub(crate) fn is_waiting(&self) -> bool {
        match &self.0 {
            State::Local(..) => false,
            State::Remote(state) => state.is_waiting(),
        }
    }
}

/// What is known of a token that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Whether nothing can follow it.
    Known(bool),
    /// A sandbox will say so.
    Awaited,
}

fn broken(words: &str) -> Error {
    Error::grammar(format!("the answer cannot continue within its grammar: {words}"))
}

impl fmt::Debug for GrammarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarState").finish_non_exhaustive()
    }
}
