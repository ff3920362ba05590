//! Answers of a tiny model: what is read again, where they end, what is streamed.

use std::ops::ControlFlow;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{
    Architecture, Finish, Generate, Generation, Gguf, LanguageModel, Sampling, Step, TokenId,
};

use crate::options;

fn model() -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::Q5_K,
        layers: 2,
        tied: true,
        seed: 11,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = options().policy(Policy::latency().threads(1)).capacity(48);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn all(max_tokens: usize) -> Generate {
    Generate {
        ignore_end: true,
        ..Generate::greedy(max_tokens)
    }
}

#[test]
fn second_turn_processes_only_new_tokens() {
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
    // the last token of an answer has not been read
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
fn answer_stops_as_configured() {
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

#[test]
fn interleaving_and_chunking_keep_the_answers() {
    let model = model();
    let prompts: Vec<Vec<TokenId>> = vec![(10..30).collect(), (10..25).chain([60, 61]).collect(), vec![7]];
    let expected: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let on = &mut |_: &str| ControlFlow::Continue(());
            let mut sequence = model.sequence().unwrap();
            sequence.generate(prompt, &all(8), on).unwrap()
        })
        .collect();
    for rows in [1, 3, 8, 512] {
        let mut open: Vec<_> = prompts
            .iter()
            .map(|prompt| Generation::new(model.sequence().unwrap(), prompt, &all(8)).unwrap())
            .collect();
        let mut texts = vec![String::new(); prompts.len()];
        while open.iter().any(|open| open.finish().is_none()) {
            for (open, text) in open.iter_mut().zip(&mut texts) {
                match open.step(rows).unwrap() {
                    Step::Read => assert!(open.is_reading()),
                    Step::Piece(piece) | Step::Finished(piece) => text.push_str(&piece),
                }
            }
        }
        for ((open, text), expected) in open.into_iter().zip(texts).zip(&expected) {
            let (sequence, answer) = open.into_completion();
            assert_eq!(
                (&answer.tokens, answer.finish),
                (&expected.tokens, expected.finish)
            );
            assert_eq!((&text, &answer.text), (&expected.text, &expected.text));
            assert_eq!(sequence.len(), answer.prompt_tokens + answer.tokens.len() - 1);
        }
    }
}

#[test]
fn sequence_reuses_another_kv_cache() {
    let model = model();
    let text: Vec<TokenId> = (10..40).collect();
    let mut first = model.sequence().unwrap();
    // in the chunks that the other one reads too: they change the last bits
    first.append(&text[..20]).unwrap();
    first.append(&text[20..]).unwrap();
    let mut second = model.sequence().unwrap();
    second.append(&[10, 11, 99, 98]).unwrap();
    second.copy(&first, 20).unwrap();
    assert_eq!(second.tokens(), &text[..20]);
    let expected = first.append(&[50]).unwrap().to_vec();
    second.append(&text[20..]).unwrap();
    assert_eq!(second.append(&[50]).unwrap(), expected);
    // more than there is, and of another model
    second.copy(&first, 1000).unwrap();
    assert_eq!(second.tokens(), first.tokens());
    let other = self::model();
    let error = other.sequence().unwrap().copy(&first, 5).unwrap_err();
    assert!(error.to_string().contains("cannot take over"), "{error}");

    // an answer in the making
    let mut open = Generation::new(model.sequence().unwrap(), &text, &all(4)).unwrap();
    assert_eq!(open.step(8).unwrap(), Step::Read);
    assert_eq!(open.take_over(&first).unwrap(), 21);
    assert_eq!(open.reused_tokens(), 21);
    assert!(matches!(open.step(8).unwrap(), Step::Piece(_)));
    assert_eq!(open.take_over(&first).unwrap(), 0);
}
