//! GPT-2's byte-level BPE: an expression splits the text into words, each byte becomes a character,
//! and pairs are merged by rank (arXiv 1508.07909). The crate `tokenizers` splits and merges.

use std::sync::LazyLock;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel as Bytes;
use tokenizers::tokenizer::{
    Model as _, NormalizedString, OffsetType, PreTokenizedString, PreTokenizer as _,
};

use super::pre::{self, Family, Splitter};
use super::vocabulary::{TokenId, TokenKind, Vocabulary};
use crate::gguf::{Gguf, ValueType};
use crate::{Error, Result};

/// Longest run of blanks in a text, in characters. The expressions look ahead after a run and give
/// up beyond a million steps, which would leave the rest of the text in one piece.
pub(super) const MAX_BLANKS: usize = 400_000;

/// The character for each byte: the byte's own if printable, otherwise the next one from U+0100 on.
static ALPHABET: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            return char::from(byte);
        }
        next += 1;
        char::from_u32(next - 1).expect("invariant: a character below U+0200")
    })
});

/// The character for each byte in byte-level vocabularies.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn byte_alphabet() -> &'static [char; 256] {
    &ALPHABET
}

/// Appends a token's bytes. A token with characters outside the byte alphabet is its own text.
pub(super) fn append_bytes(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for character in token.chars() {
        match byte_of(character) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend(token.as_bytes());
                return;
            }
        }
    }
}

fn byte_of(character: char) -> Option<u8> {
    // bytes that cannot be printed are few and ascend
    let byte = u8::try_from(u32::from(character)).ok();
    match byte {
        Some(byte) => (ALPHABET[usize::from(byte)] == character).then_some(byte),
        None => {
            let found = ALPHABET.iter().position(|one| *one == character)?;
            u8::try_from(found).ok()
        }
    }
}

pub(super) struct ByteLevel {
    family: &'static Family,
    splitter: Splitter,
    bytes: Bytes,
    merges: BPE,
    /// Bytes without a token.
    missing: Box<[bool; 256]>,
}

impl ByteLevel {
    pub(super) fn read(file: &Gguf, vocabulary: &Vocabulary) -> Result<ByteLevel> {
        let name = file.text("tokenizer.ggml.pre")?.ok_or_else(|| {
            Error::unsupported(
                "key \"tokenizer.ggml.pre\" is missing, so the pre-tokenizer is unknown: convert the model again",
            )
        })?;
        let family = pre::family(name)?;
        let tokens = vocabulary
            .iter()
            .filter(|(_, text, kind)| !text.is_empty() && is_text(*kind));
        let tokens: Vocab = tokens.map(|(id, text, _)| (text.to_owned(), id)).collect();
        let merges = BPE::builder()
            .vocab_and_merges(tokens, merges(file, vocabulary)?)
            // its cache is of the thread and outlives the tokenizer
            .cache_capacity(0)
            .ignore_merges(family.whole_words)
            .build()
            .map_err(|error| Error::tokenizer(format!("merges (key \"tokenizer.ggml.merges\"): {error}")))?;
        let missing = std::array::from_fn(|byte| {
            let id = vocabulary.id(ALPHABET[byte].encode_utf8(&mut [0; 4]));
            !id.is_some_and(|id| is_text(vocabulary.kind(id)))
        });
        Ok(ByteLevel {
            splitter: Splitter::new(family),
            family,
            bytes: Bytes::new(false, false, false),
            merges,
            missing: Box::new(missing),
        })
    }

    pub(super) fn adds_bos(&self) -> bool {
        self.family.adds_bos
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<TokenId>) -> Result<()> {
        let words = |error: tokenizers::Error| Error::tokenizer(format!("a text cannot be encoded: {error}"));
        let mut text = NormalizedString::from(text);
        if self.family.compose {
            text.nfc();
        }
        self.check(text.get())?;
        let mut split = PreTokenizedString::from(text);
        self.splitter.split(&mut split).map_err(words)?;
        self.bytes.pre_tokenize(&mut split).map_err(words)?;
        split
            .tokenize(|word| self.merges.tokenize(word.get()))
            .map_err(words)?;
        let encoding = split.into_encoding(None, 0, OffsetType::None).map_err(words)?;
        ids.extend(encoding.get_ids());
        Ok(())
    }

    fn check(&self, text: &str) -> Result<()> {
        if let Some(byte) = text.bytes().find(|byte| self.missing[usize::from(*byte)]) {
            return Err(Error::tokenizer(format!(
                "the vocabulary has no token for byte {byte:#04x} of the text"
            )));
        }
        let mut blanks = 0;
        for character in text.chars() {
            blanks = if character.is_whitespace() { blanks + 1 } else { 0 };
            if blanks > MAX_BLANKS {
                return Err(Error::tokenizer(format!(
                    "the text has more than {MAX_BLANKS} consecutive blanks, which cannot be split"
                )));
            }
        }
        Ok(())
    }
}

/// Whether words may consist of tokens of this kind; the others are found before words are split.
fn is_text(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Normal | TokenKind::UserDefined)
}

/// The pairs in the order of their rank. Both halves and the whole are tokens.
fn merges(file: &Gguf, vocabulary: &Vocabulary) -> Result<Vec<(String, String)>> {
    let key = "tokenizer.ggml.merges";
    let merges = file
        .array(key, ValueType::Text)?
        .ok_or_else(|| Error::tokenizer(format!("key {key:?} is missing: pairs are merged by their rank")))?;
    let mut seen = std::collections::HashSet::with_capacity(merges.len());
    let mut whole = String::new();
    let mut pairs = Vec::with_capacity(merges.len());
    for (rank, merge) in merges.texts().enumerate() {
        let wrong = |why: String| Error::tokenizer(format!("merge {rank} ({merge:?}) {why}"));
        // the first character may be a blank of its own
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let at = merge[first..]
            .find(' ')
            .ok_or_else(|| wrong("is not a pair separated by a blank".to_owned()))?;
        let (left, right) = (&merge[..first + at], &merge[first + at + 1..]);
        whole.clear();
        whole.push_str(left);
        whole.push_str(right);
        for part in [left, right, &whole] {
            if !vocabulary.id(part).is_some_and(|id| is_text(vocabulary.kind(id))) {
                return Err(wrong(format!("needs token {part:?}, which the vocabulary lacks")));
            }
        }
        if !seen.insert(merge) {
            return Err(wrong("is there twice".to_owned()));
        }
        pairs.push((left.to_owned(), right.to_owned()));
    }
    Ok(pairs)
}
