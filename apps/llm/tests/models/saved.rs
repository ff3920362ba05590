//! Sequences in files: what was read is not read again, and a file of something else is refused.

use std::ops::ControlFlow;
use std::path::Path;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, ErrorKind, Generate, Gguf, LanguageModel, Sequence, TokenId};

use crate::options;

fn tiny(seed: u64) -> TinyModel {
    TinyModel {
        architecture: Architecture::Qwen3,
        kind: TensorType::Q8_0,
        layers: 2,
        tied: false,
        seed,
    }
}

fn model(seed: u64, room: usize) -> LanguageModel {
    let file = Gguf::read(tiny(seed).writer().finish().into()).unwrap();
    let options = options().policy(Policy::latency().threads(1)).capacity(room);
    LanguageModel::of("tiny", file, options).unwrap()
}

fn text() -> Vec<TokenId> {
    (0..50).map(|index| 30 + index * 7 % 40).collect()
}

fn answer(sequence: &mut Sequence, prompt: &[TokenId]) -> (Vec<TokenId>, usize) {
    let answer = sequence
        .generate(prompt, &Generate::greedy(12), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    (answer.tokens, answer.reused_tokens)
}

fn kept(folder: &Path, model: &LanguageModel) -> std::path::PathBuf {
    let path = folder.join("text.kv");
    let mut sequence = model.sequence().unwrap();
    sequence.append(&text()).unwrap();
    sequence.save(&path).unwrap();
    path
}

#[test]
fn saved_tokens_are_not_recomputed() {
    let folder = tempfile::tempdir().unwrap();
    let path = kept(folder.path(), &model(1, 96));
    // nothing but the file is left behind
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let longer = [text(), vec![44, 45]].concat();
    // room of another size, too
    for room in [96, 160] {
        let model = model(1, room);
        let (expected, none) = answer(&mut model.sequence().unwrap(), &longer);
        assert_eq!(none, 0);
        let mut sequence = model.load_sequence(&path).unwrap();
        assert_eq!(sequence.tokens(), text());
        assert!(sequence.logits().is_empty());
        assert_eq!(answer(&mut sequence, &longer), (expected, 50));
        // a shorter text, of which the last token is read for its logits
        let mut sequence = model.load_sequence(&path).unwrap();
        let (expected, _) = answer(&mut model.sequence().unwrap(), &text()[..20]);
        assert_eq!(answer(&mut sequence, &text()[..20]), (expected, 19));
    }
    // it takes the place of what was there, and an empty one is one, too
    model(1, 96).sequence().unwrap().save(&path).unwrap();
    assert!(model(1, 96).load_sequence(&path).unwrap().is_empty());
}

#[test]
fn sequence_of_another_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = kept(folder.path(), &model(1, 96));
    let refused = |model: &LanguageModel, kind: ErrorKind, words: &str| {
        let error = model.load_sequence(&path).unwrap_err();
        assert!(
            error.kind() == kind && error.to_string().contains(words),
            "{error}"
        );
    };
    refused(&model(2, 96), ErrorKind::Config, "written by another model");
    refused(
        &model(1, 40),
        ErrorKind::Room,
        "50 tokens do not fit the context length of 40",
    );
    let reduced = options()
        .policy(Policy::latency().threads(1))
        .precision(polychip::Precision::Reduced)
        .capacity(96);
    let file = Gguf::read(tiny(1).writer().finish().into()).unwrap();
    let reduced = LanguageModel::of("tiny", file, reduced).unwrap();
    refused(&reduced, ErrorKind::Config, "precision");
    let nowhere = model(1, 96)
        .load_sequence(folder.path().join("none.kv"))
        .unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::File);
    let nowhere = model(1, 96)
        .sequence()
        .unwrap()
        .save(folder.path().join("none/text.kv"));
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::File);
}

#[test]
fn damaged_sequence_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(1, 96);
    let path = kept(folder.path(), &model);
    let whole = std::fs::read(&path).unwrap();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        model
            .load_sequence(&path)
            .expect_err("it is not whole")
            .to_string()
    };
    for end in [0, 1, line, line + 1, line + 3, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..end]);
    }
    refused(&[&whole[..], &[0]].concat());
    // a bit anywhere
    for at in (0..whole.len()).step_by(whole.len() / 199) {
        let mut other = whole.clone();
        other[at] ^= 1;
        refused(&other);
    }
    // what it states is not believed
    let words = String::from_utf8(whole[..line].to_vec()).unwrap();
    for count in ["51", "0", "18446744073709551615", "-1"] {
        let other = words.replace("\"tokens\":50", &format!("\"tokens\":{count}"));
        assert_ne!(other, words);
        refused(&[other.as_bytes(), &whole[line..]].concat());
    }
    assert!(refused(&vec![b'x'; 1 << 16]).contains("not a sequence file"));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(model.load_sequence(&path).unwrap().tokens(), text());
}

#[cfg(unix)]
#[test]
fn saved_file_is_private_and_a_pipe_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let model = model(1, 96);
    let path = kept(folder.path(), &model);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // nobody ever writes to it
    let pipe = folder.path().join("pipe.kv");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let error = model.load_sequence(&pipe).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("regular file"), "{error}");
}
