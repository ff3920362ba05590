//! Pre-tokenization: splits a text into words before bytes are merged, by one regular expression or
//! several in turn, as `tokenizer.ggml.pre` states.
//!
//! Each expression splits the pieces that the previous ones left; matches and the text between them
//! are words. The expressions are those that the models were trained with.

use tokenizers::PreTokenizer as _;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::{PreTokenizedString, SplitDelimiterBehavior};

use crate::{Error, Result};

/// Words of GPT-2: contractions, letters, digits and others with one blank before them; blanks up
/// to the last.
pub(crate) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Each digit is a word.
pub(crate) const DIGITS: &str = r"\p{N}";
/// Llama 3: digits by three, punctuation keeps line ends.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 2: as Llama 3, with single digits.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-4o: words by letter case, with their contraction; digits by three.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's Tekken: as GPT-4o, without contractions and with single digits.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Pre-tokenization of one family of models.
pub(crate) struct Family {
    /// Names in files.
    names: &'static [&'static str],
    expressions: &'static [&'static str],
    /// Whether the text is first normalized to composed characters (Unicode form C).
    pub(super) compose: bool,
    /// Whether a word that is a token is used whole, whatever the merges are.
    pub(super) whole_words: bool,
    /// Whether a text begins with the token for that if the file does not state it.
    pub(super) adds_bos: bool,
}

static FAMILIES: [Family; 8] = [
    Family {
        names: &["gpt-2", "phi-2", "olmo"],
        expressions: &[GPT2],
        compose: false,
        whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["smollm", "refact", "starcoder"],
        // digits singly first
        expressions: &[DIGITS, GPT2],
        compose: false,
        whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["llama-bpe", "llama3", "llama-v3"],
        expressions: &[LLAMA3],
        compose: false,
        whole_words: true,
        adds_bos: true,
    },
    Family {
        names: &["qwen2", "deepseek-r1-qwen"],
        expressions: &[QWEN2],
        compose: true,
        whole_words: false,
        adds_bos: false,
    },
    Family {
        // the words of GPT-4: those of Llama 3
        names: &["dbrx"],
        expressions: &[LLAMA3],
        compose: false,
        whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["gpt-4o"],
        expressions: &[GPT4O],
        compose: false,
        whole_words: false,
        adds_bos: false,
    },
    Family {
        names: &["tekken"],
        expressions: &[TEKKEN],
        compose: false,
        whole_words: true,
        adds_bos: false,
    },
    Family {
        names: &["default"],
        expressions: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        compose: false,
        whole_words: false,
        adds_bos: false,
    },
];

impl Family {
    /// The family's name in files.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// The family with this pre-tokenization.
pub(crate) fn family_of(expressions: &[String], compose: bool, whole_words: bool) -> Option<&'static Family> {
    let is = |family: &&Family| {
        family.expressions == expressions && family.compose == compose && family.whole_words == whole_words
    };
    FAMILIES.iter().find(is)
}

/// The family of a name.
pub(super) fn family(name: &str) -> Result<&'static Family> {
    let found = FAMILIES.iter().find(|family| family.names.contains(&name));
    found.ok_or_else(|| {
        let names: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
        Error::unsupported(format!(
            "pre-tokenizer {name:?} (key \"tokenizer.ggml.pre\") is not supported; supported pre-tokenizers are {}",
            names.join(", ")
        ))
    })
}

/// A family's compiled expressions.
pub(super) struct Splitter(Vec<Split>);

impl Splitter {
    pub(super) fn new(family: &Family) -> Splitter {
        let split = |expression: &&str| {
            let pattern = SplitPattern::Regex((*expression).to_owned());
            Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .expect("invariant: an expression of ours")
        };
        Splitter(family.expressions.iter().map(split).collect())
    }

    pub(super) fn split(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        self.0.iter().try_for_each(|split| split.pre_tokenize(text))
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::tokenizer::{OffsetReferential, OffsetType};

    use super::*;

    fn words(name: &str, text: &str) -> Vec<String> {
        let mut split = PreTokenizedString::from(text);
        Splitter::new(family(name).unwrap()).split(&mut split).unwrap();
        let pieces = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        pieces.into_iter().map(|(piece, ..)| piece.to_owned()).collect()
    }

    #[test]
    fn words_are_split_by_letter_case_and_digits() {
        let text = "It's XMLHttp 12345 a/b//\n";
        assert_eq!(
            words("gpt-4o", text),
            ["It's", " XMLHttp", " ", "123", "45", " a", "/b", "//\n"]
        );
        assert_eq!(
            words("tekken", text),
            [
                "It", "'s", " XMLHttp", " ", "1", "2", "3", "4", "5", " a", "/b", "//\n"
            ]
        );
        assert_eq!(words("gpt-4o", "camelCase"), ["camel", "Case"]);
        assert_eq!(words("dbrx", "It's 1234"), ["It", "'s", " ", "123", "4"]);
        assert_eq!(words("refact", "a 12"), ["a", " ", "1", "2"]);
    }
}
