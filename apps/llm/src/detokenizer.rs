//! Streaming decoder: turns tokens into text as soon as its characters are complete.
//!
//! Invariants:
//! 1. Returned text never changes: the pieces concatenated are the text of all tokens.
//! 2. A piece holds whole characters. Bytes that cannot form a character become U+FFFD, as in
//!    [`String::from_utf8_lossy`].
//!
//! Not here: where an answer stops ([`StopStrings`](crate::StopStrings)).

use crate::{Result, TokenId, Tokenizer};

/// Decodes the tokens of an answer one by one.
///
/// ```
/// # use polychip_llm::testing::TinyModel;
/// # use polychip_llm::{Architecture, Detokenizer, Gguf, Specials, Tokenizer, gguf::TensorType};
/// # let model = TinyModel { architecture: Architecture::Llama, kind: TensorType::Q8_0, layers: 1, tied: true, seed: 0 };
/// # let file = Gguf::read(model.writer().finish().into())?;
/// let tokenizer = Tokenizer::read(&file)?;
/// let mut text = Detokenizer::new(&tokenizer);
/// let pieces: Vec<String> = tokenizer
///     .encode("é", Specials::AsText)? // two bytes, a token each
///     .into_iter()
///     .map(|id| text.push(id))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(pieces, ["", "é"]);
/// assert_eq!(text.finish(), "");
/// # Ok::<(), polychip_llm::Error>(())
/// ```
#[derive(Debug)]
pub struct Detokenizer<'a> {
    tokenizer: &'a Tokenizer,
    pieces: Pieces,
}

impl<'a> Detokenizer<'a> {
    /// Creates a decoder that omits control tokens.
    #[must_use]
    pub fn new(tokenizer: &'a Tokenizer) -> Detokenizer<'a> {
        Detokenizer {
            tokenizer,
            pieces: Pieces::default(),
        }
    }

    /// Makes control tokens appear by name.
    #[must_use]
    pub fn showing_controls(mut self) -> Detokenizer<'a> {
        self.pieces.show_controls = true;
        self
    }

    /// Adds a token and returns the text that is now complete; often none.
    ///
    /// # Errors
    /// The id is beyond the vocabulary.
    pub fn push(&mut self, id: TokenId) -> Result<String> {
        self.pieces.push(self.tokenizer, id)
    }

    /// Ends the text and returns U+FFFD if a character is incomplete.
    #[must_use]
    pub fn finish(&mut self) -> String {
        self.pieces.finish()
    }
}

/// State of a [`Detokenizer`], without the tokenizer.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    show_controls: bool,
    /// Control tokens that appear by name.
    shown: Vec<TokenId>,
    /// The beginning of a character.
    pending: Vec<u8>,
}

impl Pieces {
    /// Makes these control tokens appear by name.
    pub(crate) fn showing(shown: &[TokenId]) -> Pieces {
        Pieces {
            shown: shown.to_vec(),
            ..Pieces::default()
        }
    }

    /// Drops an incomplete character, whose rest will never come.
    pub(crate) fn cut(&mut self) {
        self.pending.clear();
    }

    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> Result<String> {
        if self.show_controls || !tokenizer.is_control(id) || self.shown.contains(&id) {
            tokenizer.append_bytes(id, &mut self.pending)?;
        }
        Ok(whole(&mut self.pending))
    }

    pub(crate) fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }
}

/// Takes all bytes except an incomplete last character.
fn whole(pending: &mut Vec<u8>) -> String {
    let mut kept = 0;
    for chunk in pending.utf8_chunks() {
        kept = match std::str::from_utf8(chunk.invalid()) {
            // one that the next bytes may still end
            Err(error) if error.error_len().is_none() => chunk.invalid().len(),
            _ => 0,
        };
    }
    let end = pending.len() - kept;
    let text = String::from_utf8_lossy(&pending[..end]).into_owned();
    pending.drain(..end);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(chunks: &[Vec<u8>]) -> (Vec<String>, Vec<u8>) {
        let mut pending = Vec::new();
        let pieces = chunks.iter().map(|chunk| {
            pending.extend(chunk);
            whole(&mut pending)
        });
        (pieces.collect(), pending)
    }

    #[test]
    fn character_is_emitted_after_its_last_byte() {
        let grin: Vec<Vec<u8>> = "😀".bytes().map(|byte| vec![byte]).collect();
        assert_eq!(pieces(&grin).0, ["", "", "", "😀"]);
        // a byte that begins nothing is given at once, one that no longer fits with the next
        assert_eq!(
            pieces(&[vec![0xff], vec![0xf0, 0x9f], vec![b'a']]).0,
            ["\u{fffd}", "", "\u{fffd}a"]
        );
    }

    proptest! {
        #[test]
        fn detokenized_pieces_form_the_whole_text(
            chunks in prop::collection::vec(prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select("aé漢😀".as_bytes().to_vec())], 0..5), 0..20),
        ) {
            let (pieces, pending) = pieces(&chunks);
            prop_assert!(pending.len() <= 3);
            let given = pieces.concat() + &String::from_utf8_lossy(&pending);
            prop_assert_eq!(given, String::from_utf8_lossy(&chunks.concat()).into_owned());
        }
    }
}
