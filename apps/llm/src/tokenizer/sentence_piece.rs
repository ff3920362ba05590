//! SentencePiece's BPE (arXiv 1808.06226): blanks become a mark, neighbors are joined to the piece
//! with the best score, and text without a piece is written as bytes. The crate `tokenizers` joins,
//! with ranks derived from the scores.

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::tokenizer::Model as _;

use super::vocabulary::{TokenId, TokenKind, Vocabulary};
use crate::gguf::{Gguf, Value};
use crate::{Error, Result};

/// U+2581, which represents a space.
const MARK: char = '\u{2581}';
/// Longest joined piece in characters: a piece of n has n - 1 pairs. SentencePiece's default is 16.
const MAX_PIECE: usize = 256;

pub(super) struct SentencePiece {
    merges: BPE,
    add_space: bool,
}

/// Appends a token's bytes.
pub(super) fn append_bytes(token: &str, kind: TokenKind, out: &mut Vec<u8>) {
    match (kind, byte_of(token)) {
        (TokenKind::Byte, Some(byte)) => out.push(byte),
        _ => {
            let mut buffer = [0; 4];
            for character in token.chars() {
                let character = if character == MARK { ' ' } else { character };
                out.extend(character.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

impl SentencePiece {
    pub(super) fn read(file: &Gguf, vocabulary: &Vocabulary) -> Result<SentencePiece> {
        refuse_normalisation(file)?;
        let unknown = vocabulary.id_of_key(file, "tokenizer.ggml.unknown_token_id")?;
        let all_bytes = (0..=255_u8).all(|byte| {
            let id = vocabulary.id(&format!("<0x{byte:02X}>"));
            id.is_some_and(|id| vocabulary.kind(id) == TokenKind::Byte)
        });
        if !all_bytes && unknown.is_none() {
            return Err(Error::tokenizer(
                "the vocabulary has neither a token for each byte nor key \"tokenizer.ggml.unknown_token_id\"",
            ));
        }
        let kept = |kind: TokenKind| matches!(kind, TokenKind::Normal | TokenKind::Byte);
        let tokens: Vocab = vocabulary
            .iter()
            .filter(|(id, text, kind)| !text.is_empty() && (kept(*kind) || Some(*id) == unknown))
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect();
        let mut builder = BPE::builder()
            .vocab_and_merges(tokens, pairs(vocabulary))
            // its cache is of the thread and outlives the tokenizer
            .cache_capacity(0)
            .byte_fallback(all_bytes)
            .fuse_unk(true);
        if let Some((text, _)) = unknown.and_then(|id| vocabulary.get(id)) {
            builder = builder.unk_token(text.to_owned());
        }
        Ok(SentencePiece {
            merges: builder.build().map_err(|error| {
                Error::tokenizer(format!("pieces (key \"tokenizer.ggml.tokens\"): {error}"))
            })?,
            add_space: file.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        })
    }

    /// Whether a blank is added before the first word of a text.
    pub(super) fn adds_space(&self) -> bool {
        self.add_space
    }

    /// Encodes text; `first` if it begins the whole text or follows a token that was spelled out.
    pub(super) fn encode(&self, text: &str, first: bool, ids: &mut Vec<TokenId>) -> Result<()> {
        let mut marked = String::with_capacity(text.len() + MARK.len_utf8());
        if first && self.add_space {
            marked.push(MARK);
        }
        marked.extend(text.chars().map(|one| if one == ' ' { MARK } else { one }));
        let tokens = self
            .merges
            .tokenize(&marked)
            .map_err(|error| Error::tokenizer(format!("a text cannot be encoded: {error}")))?;
        ids.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }
}

/// Refuses a file that normalizes texts: texts are encoded as they are.
fn refuse_normalisation(file: &Gguf) -> Result<()> {
    for key in [
        "tokenizer.ggml.precompiled_charsmap",
        "tokenizer.ggml.remove_extra_whitespaces",
    ] {
        let off = match file.value(key) {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Array(array)) => array.is_empty(),
            Some(_) => false,
        };
        if !off {
            return Err(Error::unsupported(format!(
                "key {key:?} is set: normalizing text before tokenization is not supported"
            )));
        }
    }
    Ok(())
}

/// All pairs of pieces that form a piece together: the best score first, then in the order of the
/// vocabulary.
fn pairs(vocabulary: &Vocabulary) -> Vec<(String, String)> {
    let mut pieces: Vec<(TokenId, &str)> = vocabulary
        .iter()
        .filter(|(_, text, kind)| *kind == TokenKind::Normal && text.chars().count() <= MAX_PIECE)
        .map(|(id, text, _)| (id, text))
        .collect();
    pieces.sort_by(|(a, _), (b, _)| {
        vocabulary
            .score(*b)
            .total_cmp(&vocabulary.score(*a))
            .then(a.cmp(b))
    });
    let is_piece = |text: &str| {
        vocabulary
            .id(text)
            .is_some_and(|id| vocabulary.kind(id) == TokenKind::Normal)
    };
    let mut pairs = Vec::new();
    for (_, piece) in pieces {
        let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
        let halves = cuts.filter(|(left, right)| is_piece(left) && is_piece(right));
        pairs.extend(halves.map(|(left, right)| (left.to_owned(), right.to_owned())));
    }
    pairs
}
