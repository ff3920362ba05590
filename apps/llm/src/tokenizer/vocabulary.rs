//! The tokens of a file, by id and by text.

use std::collections::HashMap;

use crate::gguf::{Array, Gguf, Value, ValueType};
use crate::{Error, Result};

/// Longest token in bytes. The longest in known vocabularies are runs of 256 blanks or 128 CJK
/// characters.
const MAX_TOKEN: usize = 4096;

/// Token id: index of its row in the embedding table.
pub type TokenId = u32;

/// Kind of a token, by `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenKind {
    fn of_code(code: i128) -> Option<TokenKind> {
        match code {
            1 => Some(TokenKind::Normal),
            2 => Some(TokenKind::Unknown),
            3 => Some(TokenKind::Control),
            4 => Some(TokenKind::UserDefined),
            5 => Some(TokenKind::Unused),
            6 => Some(TokenKind::Byte),
            _ => None,
        }
    }
}

pub(super) struct Vocabulary {
    /// The text of all tokens, concatenated.
    text: String,
    /// End of each token's text, and its kind.
    tokens: Vec<(usize, TokenKind)>,
    ids: HashMap<Box<str>, TokenId>,
    scores: Vec<f32>,
}

impl Vocabulary {
    pub(super) fn read(file: &Gguf, with_scores: bool) -> Result<Vocabulary> {
        let key = "tokenizer.ggml.tokens";
        let tokens = file
            .array(key, ValueType::Text)?
            .filter(|tokens| !tokens.is_empty())
            .ok_or_else(|| {
                Error::tokenizer(format!(
                    "key {key:?} is missing or empty: the file contains no vocabulary"
                ))
            })?;
        let kinds = kinds(file, tokens.len())?;
        let scores = if with_scores {
            scores(file, tokens.len())?
        } else {
            Vec::new()
        };
        let mut vocabulary = Vocabulary {
            text: String::new(),
            tokens: Vec::with_capacity(tokens.len()),
            ids: HashMap::with_capacity(tokens.len()),
            scores,
        };
        for (token, kind) in tokens.texts().zip(kinds) {
            vocabulary.push(token, kind)?;
        }
        Ok(vocabulary)
    }

    fn push(&mut self, token: &str, kind: TokenKind) -> Result<()> {
        let id = u32::try_from(self.tokens.len())
            .map_err(|_| Error::unsupported("a vocabulary of more than 32 bits is not supported"))?;
        if token.len() > MAX_TOKEN {
            return Err(Error::tokenizer(format!(
                "token {id} has {} bytes; the supported maximum is {MAX_TOKEN}",
                token.len()
            )));
        }
        if let Some(first) = self.ids.insert(token.into(), id) {
            return Err(Error::tokenizer(format!(
                "tokens {first} and {id} are both {token:?}"
            )));
        }
        self.text.push_str(token);
        self.tokens.push((self.text.len(), kind));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn get(&self, id: TokenId) -> Option<(&str, TokenKind)> {
        let index = id as usize;
        let (end, kind) = *self.tokens.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.tokens[before].0);
        Some((&self.text[start..end], kind))
    }

    /// The kind of a token of this vocabulary.
    pub(super) fn kind(&self, id: TokenId) -> TokenKind {
        self.tokens[id as usize].1
    }

    pub(super) fn score(&self, id: TokenId) -> f32 {
        self.scores[id as usize]
    }

    pub(super) fn id(&self, token: &str) -> Option<TokenId> {
        self.ids.get(token).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (TokenId, &str, TokenKind)> {
        (0..self.tokens.len() as u32).map(|id| {
            let (text, kind) = self.get(id).expect("invariant: one of its tokens");
            (id, text, kind)
        })
    }

    /// The token whose id a key of the file states.
    pub(super) fn id_of_key(&self, file: &Gguf, key: &str) -> Result<Option<TokenId>> {
        match file.integer(key)? {
            Some(id) if id as usize >= self.len() => Err(Error::tokenizer(format!(
                "key {key:?} is {id}, but the vocabulary has {} tokens",
                self.len()
            ))),
            found => Ok(found),
        }
    }
}

/// An array with one item per token, of the first of these types that it has.
fn beside<'a>(file: &'a Gguf, key: &str, types: &[ValueType], tokens: usize) -> Result<Option<Array<'a>>> {
    let found = match file.value(key) {
        None => return Ok(None),
        Some(Value::Array(array)) if types.contains(&array.item()) => array,
        Some(other) => {
            return Err(Error::tokenizer(format!(
                "key {key:?} must be an array of {}, not {other}",
                types[0]
            )));
        }
    };
    if found.len() != tokens {
        return Err(Error::tokenizer(format!(
            "key {key:?} has {} items for {tokens} tokens",
            found.len()
        )));
    }
    Ok(Some(found))
}

fn kinds(file: &Gguf, tokens: usize) -> Result<Vec<TokenKind>> {
    let key = "tokenizer.ggml.token_type";
    let Some(types) = beside(file, key, &[ValueType::I32, ValueType::U32], tokens)? else {
        return Ok(vec![TokenKind::Normal; tokens]);
    };
    let kind = |(id, value): (usize, Value<'_>)| {
        value.integer().and_then(TokenKind::of_code).ok_or_else(|| {
            Error::tokenizer(format!(
                "token {id} has type {value} (key {key:?}); types range from 1 to 6"
            ))
        })
    };
    types.values().enumerate().map(kind).collect()
}

fn scores(file: &Gguf, tokens: usize) -> Result<Vec<f32>> {
    let key = "tokenizer.ggml.scores";
    let scores = beside(file, key, &[ValueType::F32], tokens)?.ok_or_else(|| {
        Error::tokenizer(format!(
            "key {key:?} is missing: pieces are joined by their scores"
        ))
    })?;
    let score = |(id, value): (usize, Value<'_>)| match value {
        Value::F32(score) if !score.is_nan() => Ok(score),
        _ => Err(Error::tokenizer(format!(
            "the score of token {id} is not a number (key {key:?})"
        ))),
    };
    scores.values().enumerate().map(score).collect()
}
