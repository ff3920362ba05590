//! Answers of a tiny model: what is read again, where they end, what is streamed.

use std::ops::ControlFlow;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Finish, Generate, Gguf, LanguageModel, Options, Sampling, TokenId};

fn model() -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::Q5_K,
        layers: 2,
        tied: true,
        seed: 11,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = Options::new().policy(Policy::latency().threads(1)).capacity(48);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn all(max_tokens: usize) -> Generate {
    Generate {
        ignore_end: true,
        ..Generate::greedy(max_tokens)
    }
}

#[test]
fn a_second_turn_reads_only_what_is_new_and_answers_the_same() {
    let model = model();
    let prompt: Vec<TokenId> = (10..30).collect();
    let mut on = |_: &str| ControlFlow::Continue(());
    let mut sequence = model.sequence().unwrap();
    let first = sequence.generate(&prompt, &all(6), &mut on).unwrap();
    assert_eq!(
        (first.prompt_tokens, first.reused_tokens, first.tokens.len()),
        (20, 0, 6)
    );

    let turn: Vec<TokenId> = prompt
        .iter()
        .chain(&first.tokens)
        .chain(&[40, 41, 42])
        .copied()
        .collect();
    let again = sequence.generate(&turn, &all(6), &mut on).unwrap();
    // the last token of an answer was read by nobody
    assert_eq!(again.reused_tokens, 25);
    let fresh = model
        .sequence()
        .unwrap()
        .generate(&turn, &all(6), &mut on)
        .unwrap();
    assert_eq!((fresh.reused_tokens, &fresh.tokens), (0, &again.tokens));

    // another beginning: what was read is forgotten from there on, and the same text is read to its last token again
    let other: Vec<TokenId> = prompt[..5].iter().chain(&[60, 61]).copied().collect();
    assert_eq!(
        sequence.generate(&other, &all(1), &mut on).unwrap().reused_tokens,
        5
    );
    assert_eq!(
        sequence.generate(&other, &all(1), &mut on).unwrap().reused_tokens,
        6
    );
}

#[test]
fn an_answer_ends_where_it_should() {
    let model = model();
    let prompt: Vec<TokenId> = (10..30).collect();
    let mut sequence = model.sequence().unwrap();
    let mut pieces = Vec::new();
    let whole = sequence
        .generate(&prompt, &all(20), &mut |piece| {
            pieces.push(piece.to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((whole.finish, whole.tokens.len()), (Finish::Length, 20));
    assert_eq!(pieces.concat(), whole.text);

    // 48 positions: 20 of the prompt, 28 tokens that are read, and one that is not
    let full = sequence
        .generate(&prompt, &all(100), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!((full.finish, full.tokens.len()), (Finish::Room, 29));

    let cut = sequence
        .generate(&prompt, &all(20), &mut |_| ControlFlow::Break(()))
        .unwrap();
    assert_eq!(cut.finish, Finish::Cancelled);
    assert!(whole.text.starts_with(&cut.text));

    let at = whole.text.char_indices().nth(3).map(|(at, _)| at).unwrap();
    let end = whole.text[at..].chars().next().unwrap();
    let stop = Generate {
        stop: vec!["never said".into(), end.to_string()],
        ..all(20)
    };
    let stopped = sequence
        .generate(&prompt, &stop, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(stopped.finish, Finish::Stop(1));
    assert_eq!(stopped.text, whole.text[..whole.text.find(end).unwrap()]);

    assert!(
        sequence
            .generate(&[], &all(1), &mut |_| ControlFlow::Continue(()))
            .is_err()
    );
    let long: Vec<TokenId> = (0..49).collect();
    let error = sequence
        .generate(&long, &all(1), &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(error.to_string().contains("a prompt of 49 tokens"), "{error}");
    let wrong = Generate {
        sampling: Sampling {
            top_p: 2.0,
            ..Sampling::usual(0)
        },
        ..all(1)
    };
    assert!(
        sequence
            .generate(&prompt, &wrong, &mut |_| ControlFlow::Continue(()))
            .is_err()
    );
}
