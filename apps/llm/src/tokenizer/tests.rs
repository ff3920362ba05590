//! Vocabularies that contradict themselves are refused; texts lose nothing on their way.

use super::*;
use crate::ErrorKind;
use crate::testing::{GgufWriter, byte_level_tokens};

/// The vocabulary of tiny models.
fn writer() -> GgufWriter {
    let (tokens, types, merges) = byte_level_tokens();
    let mut writer = GgufWriter::new();
    writer.text("tokenizer.ggml.model", "gpt2");
    writer.text("tokenizer.ggml.pre", "gpt-2");
    writer.texts("tokenizer.ggml.tokens", &tokens);
    writer.i32s("tokenizer.ggml.token_type", &types);
    writer.texts("tokenizer.ggml.merges", &merges);
    writer
}

fn read(writer: &GgufWriter) -> Result<Tokenizer> {
    Tokenizer::read(&Gguf::read(writer.finish().into())?)
}

fn refused(kind: ErrorKind, words: &str, change: impl FnOnce(&mut GgufWriter)) {
    let mut writer = writer();
    change(&mut writer);
    let error = read(&writer).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().contains(words)),
        (kind, true),
        "{error}"
    );
}

fn with_text(key: &'static str, text: &'static str) -> impl FnOnce(&mut GgufWriter) {
    move |writer| {
        writer.remove_key(key);
        writer.text(key, text);
    }
}

fn with_texts(key: &'static str, texts: &[&str]) -> impl FnOnce(&mut GgufWriter) {
    move |writer| {
        writer.remove_key(key);
        writer.texts(key, texts);
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    refused(
        ErrorKind::Unsupported,
        "pre-tokenizer \"bloom\" (key \"tokenizer.ggml.pre\") is not supported; supported pre-tokenizers are gpt-2, phi-2, olmo, smollm",
        with_text("tokenizer.ggml.pre", "bloom"),
    );
    refused(
        ErrorKind::Unsupported,
        "\"tokenizer.ggml.pre\" is missing",
        |writer| {
            writer.remove_key("tokenizer.ggml.pre");
        },
    );
    refused(
        ErrorKind::Unsupported,
        "kind \"bert\"",
        with_text("tokenizer.ggml.model", "bert"),
    );
    refused(
        ErrorKind::Tokenizer,
        "\"tokenizer.ggml.model\" is missing",
        |writer| {
            writer.remove_key("tokenizer.ggml.model");
        },
    );
}

#[test]
fn inconsistent_vocabulary_is_refused() {
    let tokens = "tokenizer.ggml.tokens";
    refused(ErrorKind::Tokenizer, "missing or empty", with_texts(tokens, &[]));
    refused(
        ErrorKind::Tokenizer,
        "items for 1 tokens",
        with_texts(tokens, &["a"]),
    );
    refused(ErrorKind::Tokenizer, "tokens 0 and 1 are both \"a\"", |writer| {
        writer.remove_key("tokenizer.ggml.token_type");
        with_texts(tokens, &["a", "a"])(writer);
    });
    refused(ErrorKind::Tokenizer, "maximum is 4096", |writer| {
        writer.remove_key("tokenizer.ggml.token_type");
        writer.remove_key(tokens);
        writer.texts(tokens, &["a".repeat(4097)]);
    });
    refused(ErrorKind::Tokenizer, "token 0 has type 9 (i32)", |writer| {
        writer.remove_key("tokenizer.ggml.token_type");
        writer.i32s("tokenizer.ggml.token_type", &vec![9; byte_level_tokens().0.len()]);
    });
    let merges = "tokenizer.ggml.merges";
    refused(
        ErrorKind::Tokenizer,
        "merge 0 (\"ab\") is not a pair",
        with_texts(merges, &["ab"]),
    );
    refused(
        ErrorKind::Tokenizer,
        "merge 0 (\"x y\") needs token \"xy\"",
        with_texts(merges, &["x y"]),
    );
    refused(
        ErrorKind::Tokenizer,
        "merge 1 (\"h e\") is there twice",
        with_texts(merges, &["h e", "h e"]),
    );
    refused(
        ErrorKind::Tokenizer,
        "merge 0 (\"<|start|> x\") needs token",
        with_texts(merges, &["<|start|> x"]),
    );
    refused(
        ErrorKind::Tokenizer,
        "\"tokenizer.ggml.bos_token_id\" is 9999",
        |writer| {
            writer.u32("tokenizer.ggml.bos_token_id", 9999);
        },
    );
    refused(
        ErrorKind::Tokenizer,
        "\"tokenizer.ggml.bos_token_id\" is missing",
        |writer| {
            writer.flag("tokenizer.ggml.add_bos_token", true);
        },
    );
}

#[test]
fn byte_without_a_token_is_an_error() {
    let (mut tokens, _, _) = byte_level_tokens();
    tokens.retain(|token| token != "z");
    let mut writer = writer();
    writer.remove_key("tokenizer.ggml.token_type");
    writer.remove_key("tokenizer.ggml.tokens");
    writer.texts("tokenizer.ggml.tokens", &tokens);
    let tokenizer = read(&writer).unwrap();
    assert!(tokenizer.encode("a", Specials::AsText).is_ok());
    let error = tokenizer.encode("az", Specials::AsText).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the vocabulary has no token for byte 0x7a of the text"
    );
}

#[test]
fn control_tokens_are_parsed_only_on_request() {
    let tokenizer = read(&writer()).unwrap();
    let end = tokenizer.id("<|end|>").unwrap();
    assert_eq!(tokenizer.encode("<|end|>", Specials::Parse).unwrap(), [end]);
    let as_text = tokenizer.encode("<|end|>", Specials::AsText).unwrap();
    assert_eq!((as_text.len(), as_text.contains(&end)), (7, false));
    assert_eq!(tokenizer.decode(&as_text).unwrap(), "<|end|>");
    assert_eq!(tokenizer.decode(&[end]).unwrap(), "");
    assert!(tokenizer.is_end(end) && !tokenizer.is_end(0));
    let error = tokenizer.decode(&[9999]).unwrap_err();
    assert!(
        error.to_string().starts_with("token 9999 exceeds the vocabulary"),
        "{error}"
    );
}

#[test]
fn beginning_token_is_added_once() {
    let mut writer = writer();
    let (start, end) = (
        byte_level_tokens().0.len() as u32 - 2,
        byte_level_tokens().0.len() as u32 - 1,
    );
    writer.u32("tokenizer.ggml.bos_token_id", start);
    writer.u32("tokenizer.ggml.eos_token_id", end);
    writer.flag("tokenizer.ggml.add_eos_token", true);
    // not asked for, and gpt-2 has none of its own accord
    let plain = read(&writer).unwrap();
    assert_eq!(plain.encode_prompt("ll", Specials::Parse).unwrap().len(), 2);
    writer.flag("tokenizer.ggml.add_bos_token", true);
    let tokenizer = read(&writer).unwrap();
    let once = tokenizer.encode_prompt("ll", Specials::Parse).unwrap();
    assert_eq!((once.len(), once[0], once[2]), (3, start, end));
    assert_eq!(
        tokenizer.encode_prompt("<|start|>ll", Specials::Parse).unwrap(),
        once
    );
}

#[test]
fn long_blank_runs_are_split_or_refused() {
    let tokenizer = read(&writer()).unwrap();
    let text = |blanks: usize| format!("a{}b ll", " ".repeat(blanks));
    let most = byte_level::MAX_BLANKS;
    let ids = tokenizer.encode(&text(most), Specials::AsText).unwrap();
    // "ll" is a word of its own behind the run: its blank and its one token
    let ll = tokenizer.id("ll").unwrap();
    assert_eq!(ids.last(), Some(&ll));
    assert_eq!(tokenizer.decode(&ids).unwrap(), text(most));
    let error = tokenizer.encode(&text(most + 1), Specials::AsText).unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
}

#[test]
fn pieces_need_scores_and_an_unknown_token() {
    let pieces = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = GgufWriter::new();
        writer.text("tokenizer.ggml.model", "llama");
        writer.texts("tokenizer.ggml.tokens", &["<unk>", "\u{2581}", "a", "\u{2581}a"]);
        writer.i32s("tokenizer.ggml.token_type", &[2, 1, 1, 1]);
        writer.u32("tokenizer.ggml.unknown_token_id", 0);
        writer.f32s("tokenizer.ggml.scores", &[0.0, -2.0, -1.0, 0.0]);
        change(&mut writer);
        read(&writer)
    };
    let tokenizer = pieces(&|_| {}).unwrap();
    assert_eq!(tokenizer.encode("a a?", Specials::AsText).unwrap(), [3, 3, 0]);
    assert_eq!(tokenizer.decode(&[3, 3]).unwrap(), "a a");
    for (words, key) in [
        ("\"tokenizer.ggml.scores\" is missing", "tokenizer.ggml.scores"),
        ("neither a token for each byte", "tokenizer.ggml.unknown_token_id"),
    ] {
        let error = pieces(&|writer| writer.remove_key(key)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = pieces(&|writer| writer.flag("tokenizer.ggml.remove_extra_whitespaces", true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = pieces(&|writer| {
        writer.remove_key("tokenizer.ggml.scores");
        writer.f32s("tokenizer.ggml.scores", &[0.0, f32::NAN, 0.0, 0.0]);
    })
    .unwrap_err();
    assert!(error.to_string().contains("score of token 1"), "{error}");
}

#[test]
fn byte_alphabet_round_trips() {
    let alphabet = byte_alphabet();
    assert_eq!(
        (alphabet[b' ' as usize], alphabet[b'\n' as usize], alphabet[0xad]),
        ('Ġ', 'Ċ', 'Ń')
    );
    for byte in 0..=255_u8 {
        let mut bytes = Vec::new();
        byte_level::append_bytes(&alphabet[usize::from(byte)].to_string(), &mut bytes);
        assert_eq!(bytes, [byte]);
    }
    let mut bytes = b"x".to_vec();
    // a character outside the byte alphabet: the token is its own text
    byte_level::append_bytes("Ġ漢", &mut bytes);
    assert_eq!(bytes, "xĠ漢".as_bytes());
}
