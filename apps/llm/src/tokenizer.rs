//! Tokenizer of a file's vocabulary: text to token ids and back.
//!
//! Invariants:
//! 1. Every byte of a text is in its tokens, or encoding fails; nothing is dropped.
//! 2. Text becomes a control token only if the caller requests it ([`Specials::Parse`]).
//! 3. `tokenizer.ggml.pre` determines how words are split; an unknown name is refused.
//!
//! Not here: text from a stream of tokens (`detokenizer`), where an answer stops (`stop`), chats
//! (`template`).

mod byte_level;
pub(crate) mod pre;
mod sentence_piece;
mod vocabulary;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::gguf::Gguf;
use crate::grammar::Compilers;
use crate::{Error, Result};

use byte_level::ByteLevel;
#[cfg(any(test, feature = "testing"))]
pub(crate) use byte_level::byte_alphabet;
use sentence_piece::SentencePiece;
pub use vocabulary::TokenId;
use vocabulary::{TokenKind, Vocabulary};

/// Handling of control tokens that are spelled out in a text, such as `<|im_end|>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Become control tokens: for text from a chat template.
    Parse,
    /// Stay text: for text written by a person.
    AsText,
}

/// Control tokens that end an answer, whatever else the file states.
const ENDS: [&str; 9] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "</s>",
];

/// Longest text that is encoded at once, in bytes: 32-bit offsets with room for marks.
const MAX_TEXT: usize = 1 << 28;

enum Model {
    ByteLevel(ByteLevel),
    SentencePiece(SentencePiece),
}

/// Translates text to token ids and back.
///
/// ```
/// use polychip_llm::testing::TinyModel;
/// use polychip_llm::{Architecture, Gguf, Specials, Tokenizer, gguf::TensorType};
///
/// # let model = TinyModel { architecture: Architecture::Llama, kind: TensorType::Q8_0, layers: 1, tied: true, seed: 0 };
/// # let file = Gguf::read(model.writer().finish().into())?;
/// let tokenizer = Tokenizer::read(&file)?; // of `Gguf::open("model.gguf")`
/// let ids = tokenizer.encode("hello world", Specials::AsText)?;
/// assert_eq!(tokenizer.decode(&ids)?, "hello world");
/// # Ok::<(), polychip_llm::Error>(())
/// ```
pub struct Tokenizer {
    model: Model,
    vocabulary: Vocabulary,
    /// Control tokens and user-defined tokens; the ids by pattern.
    all: Matcher,
    /// User-defined tokens alone.
    of_users: Matcher,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    add_bos: bool,
    add_eos: bool,
    ends: BTreeSet<TokenId>,
    /// Grammar compiler, made for the first grammar.
    compilers: OnceLock<Arc<Compilers>>,
}

impl Tokenizer {
    /// Reads a file's vocabulary.
    ///
    /// # Errors
    /// The file has no vocabulary, its kind or pre-tokenizer is not supported, or it contradicts
    /// itself.
    pub fn read(file: &Gguf) -> Result<Tokenizer> {
        let kind = file.text("tokenizer.ggml.model")?.ok_or_else(|| {
            Error::tokenizer("key \"tokenizer.ggml.model\" is missing: the file contains no vocabulary")
        })?;
        let vocabulary = Vocabulary::read(file, kind == "llama")?;
        let (model, add_bos) = match kind {
            "gpt2" => {
                let model = ByteLevel::read(file, &vocabulary)?;
                let add_bos = model.adds_bos();
                (Model::ByteLevel(model), add_bos)
            }
            "llama" => (
                Model::SentencePiece(SentencePiece::read(file, &vocabulary)?),
                true,
            ),
            other => {
                return Err(Error::unsupported(format!(
                    "vocabulary kind {other:?} (key \"tokenizer.ggml.model\") is not supported; supported kinds are gpt2 (byte-level BPE) and llama (SentencePiece)"
                )));
            }
        };
        let id = |key: &str| vocabulary.id_of_key(file, key);
        let bos = id("tokenizer.ggml.bos_token_id")?;
        let eos = id("tokenizer.ggml.eos_token_id")?;
        let mut ends: BTreeSet<TokenId> = ENDS
            .iter()
            .filter_map(|text| vocabulary.id(text))
            .filter(|id| vocabulary.kind(*id) == TokenKind::Control)
            .collect();
        ends.extend(eos);
        ends.extend(id("tokenizer.ggml.eot_token_id")?);
        ends.extend(id("tokenizer.ggml.eom_token_id")?);
        let add_bos = file
            .flag("tokenizer.ggml.add_bos_token")?
            .unwrap_or(add_bos && bos.is_some());
        let add_eos = file.flag("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        for (add, id, name) in [(add_bos, bos, "bos"), (add_eos, eos, "eos")] {
            if add && id.is_none() {
                return Err(Error::tokenizer(format!(
                    "key \"tokenizer.ggml.add_{name}_token\" is true, and key \"tokenizer.ggml.{name}_token_id\" is missing"
                )));
            }
        }
        Ok(Tokenizer {
            all: Matcher::new(&vocabulary, |kind| {
                matches!(
                    kind,
                    TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined
                )
            })?,
            of_users: Matcher::new(&vocabulary, |kind| kind == TokenKind::UserDefined)?,
            model,
            vocabulary,
            bos,
            eos,
            add_bos,
            add_eos,
            ends,
            compilers: OnceLock::new(),
        })
    }

    /// The grammar compiler for this vocabulary.
    pub(crate) fn compilers(&self) -> Result<Arc<Compilers>> {
        if let Some(compilers) = self.compilers.get() {
            return Ok(Arc::clone(compilers));
        }
        let ids = 0..self.len() as TokenId;
        let ends: Vec<TokenId> = ids.clone().filter(|id| self.is_end(*id)).collect();
        let tokens = ids.map(|id| {
            let mut bytes = Vec::new();
            self.append_bytes(id, &mut bytes)?;
            Ok((bytes, self.is_control(id)))
        });
        let made = Compilers::new(tokens, ends)?;
        Ok(Arc::clone(self.compilers.get_or_init(|| made)))
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Bytes of the longest token as written in the vocabulary; an upper bound on the text of any
    /// token.
    #[must_use]
    pub fn longest(&self) -> usize {
        let tokens = (0..self.len() as TokenId).filter_map(|id| self.token(id));
        tokens.map(str::len).max().unwrap_or(0)
    }

    /// Always false: a vocabulary without tokens is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token that begins a text.
    #[must_use]
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos(&self) -> Option<TokenId> {
        self.eos
    }

    /// Whether this token ends an answer.
    #[must_use]
    pub fn is_end(&self, id: TokenId) -> bool {
        self.ends.contains(&id)
    }

    /// Whether this token has no text.
    #[must_use]
    pub fn is_control(&self, id: TokenId) -> bool {
        matches!(self.vocabulary.get(id), Some((_, TokenKind::Control)))
    }

    /// The token with exactly this text, as written in the vocabulary.
    #[must_use]
    pub fn id(&self, token: &str) -> Option<TokenId> {
        self.vocabulary.id(token)
    }

    /// A token as written in the vocabulary.
    #[must_use]
    pub fn token(&self, id: TokenId) -> Option<&str> {
        self.vocabulary.get(id).map(|(text, _)| text)
    }

    /// Encodes a text, without the tokens that begin and end a text.
    ///
    /// # Errors
    /// The text has a byte that no token represents, is longer than 256 MiB, or has a run of blanks
    /// that is too long to split.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>> {
        if text.len() > MAX_TEXT {
            return Err(Error::tokenizer(format!(
                "a text of {} bytes exceeds the encoding limit of {MAX_TEXT}",
                text.len()
            )));
        }
        let matcher = match specials {
            Specials::Parse => &self.all,
            Specials::AsText => &self.of_users,
        };
        let mut ids = Vec::new();
        let mut first = true;
        for piece in matcher.pieces(text) {
            match piece {
                Piece::Token(id) => {
                    ids.push(id);
                    first = true;
                }
                Piece::Text(text) => {
                    match &self.model {
                        Model::ByteLevel(model) => model.encode(text, &mut ids)?,
                        Model::SentencePiece(model) => model.encode(text, first, &mut ids)?,
                    }
                    first = false;
                }
            }
        }
        Ok(ids)
    }

    /// Encodes a prompt: the tokens of the text, and the tokens that the file requests around it. A
    /// text that already begins with the first token, as chat templates write it, gets no second
    /// one.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>> {
        let mut ids = self.encode(text, specials)?;
        if let Some(bos) = self.bos.filter(|bos| self.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        if self.add_eos {
            ids.extend(self.eos);
        }
        Ok(ids)
    }

    /// Decodes tokens to text, without control tokens. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// An id is beyond the vocabulary.
    pub fn decode(&self, ids: &[TokenId]) -> Result<String> {
        let mut bytes = Vec::new();
        for id in ids {
            if !self.is_control(*id) {
                self.append_bytes(*id, &mut bytes)?;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(match &self.model {
            Model::SentencePiece(model) if model.adds_space() => {
                text.strip_prefix(' ').unwrap_or(&text).to_owned()
            }
            _ => text.into_owned(),
        })
    }

    /// Appends a token's bytes; for a control token, its name.
    ///
    /// # Errors
    /// The id is beyond the vocabulary.
    pub fn append_bytes(&self, id: TokenId, out: &mut Vec<u8>) -> Result<()> {
        let (text, kind) = self.vocabulary.get(id).ok_or_else(|| {
            Error::tokenizer(format!(
                "token {id} exceeds the vocabulary of {} tokens",
                self.len()
            ))
        })?;
        match (kind, &self.model) {
            (TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined, _) => {
                out.extend(text.as_bytes());
            }
            (_, Model::ByteLevel(_)) => byte_level::append_bytes(text, out),
            (kind, Model::SentencePiece(_)) => sentence_piece::append_bytes(text, kind, out),
        }
        Ok(())
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("tokens", &self.len())
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .finish_non_exhaustive()
    }
}

/// A text, split at the tokens spelled out in it.
enum Piece<'a> {
    Text(&'a str),
    Token(TokenId),
}

/// Finds tokens spelled out in a text: the leftmost, and of those the longest.
struct Matcher {
    automaton: Option<AhoCorasick>,
    ids: Vec<TokenId>,
}

impl Matcher {
    fn new(vocabulary: &Vocabulary, which: impl Fn(TokenKind) -> bool) -> Result<Matcher> {
        let (texts, ids): (Vec<&str>, Vec<TokenId>) = vocabulary
            .iter()
            .filter(|(_, text, kind)| which(*kind) && !text.is_empty())
            .map(|(id, text, _)| (text, id))
            .unzip();
        let automaton = (!ids.is_empty())
            .then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    // the other kind that it may choose takes a kilobyte for each byte of a token
                    .kind(Some(AhoCorasickKind::ContiguousNFA))
                    .build(texts)
            })
            .transpose()
            .map_err(|error| Error::tokenizer(format!("{} special tokens: {error}", ids.len())))?;
        Ok(Matcher { automaton, ids })
    }

    fn pieces<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut end = 0;
        for found in self
            .automaton
            .iter()
            .flat_map(|automaton| automaton.find_iter(text))
        {
            if end < found.start() {
                pieces.push(Piece::Text(&text[end..found.start()]));
            }
            pieces.push(Piece::Token(self.ids[found.pattern().as_usize()]));
            end = found.end();
        }
        if end < text.len() {
            pieces.push(Piece::Text(&text[end..]));
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
