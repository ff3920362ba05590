//! Answers with draft tokens are those without, and their tokens have the model's distribution.

use std::ops::ControlFlow;

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{
    Architecture, Completion, Draft, Generate, Gguf, LanguageModel, Sampling, Speculation, TokenId,
};

use crate::options;

fn model(seed: u64) -> LanguageModel {
    with_room(seed, 160)
}

fn with_room(seed: u64, room: usize) -> LanguageModel {
    let tiny = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::Q5_K,
        layers: 2,
        tied: true,
        seed,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = options().policy(Policy::latency().threads(1)).capacity(room);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn answer(model: &LanguageModel, prompt: &[TokenId], wanted: &Generate) -> (Completion, Vec<TokenId>) {
    let mut sequence = model.sequence().unwrap();
    let mut text = String::new();
    let answer = sequence
        .generate(prompt, wanted, &mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(text, answer.text);
    (answer, sequence.tokens().to_vec())
}

fn drafting(wanted: &Generate) -> Generate {
    Generate {
        speculation: Some(Speculation::PromptLookup),
        ..wanted.clone()
    }
}

#[test]
fn speculation_keeps_the_tokens() {
    let (mut accepted, mut refused, mut runs) = (0, 0, 0);
    for seed in 0..4 {
        let model = model(seed);
        // the same again and again, so that prompt lookup finds many draft tokens
        let prompt: Vec<TokenId> = (0..48).map(|index| 30 + index % 6 + index / 24).collect();
        let samplings = [
            Sampling::greedy(),
            draws(0.0, 0),
            draws(0.7, 1),
            draws(1.0, 2),
            draws(2.0, 3),
        ];
        for sampling in samplings {
            // up to the end of the room
            for max_tokens in [1, 2, 3, 9, 60, 500] {
                let wanted = Generate {
                    sampling: sampling.clone(),
                    ignore_end: true,
                    ..Generate::greedy(max_tokens)
                };
                let (plain, read) = answer(&model, &prompt, &wanted);
                let (drafted, read_drafted) = answer(&model, &prompt, &drafting(&wanted));
                assert_eq!(drafted.tokens, plain.tokens);
                assert_eq!((&drafted.text, drafted.finish), (&plain.text, plain.finish));
                assert_eq!(read_drafted, read);
                assert_eq!(plain.speculated, None);
                let found = drafted.speculated.unwrap();
                accepted += found.accepted;
                refused += found.proposed - found.accepted;
                runs += found.runs;
                // where it stops in the middle of what was drafted
                if let Some(end) = plain.text.chars().nth(5) {
                    let wanted = Generate {
                        stop: vec![end.to_string()],
                        ..wanted
                    };
                    let (plain, read) = answer(&model, &prompt, &wanted);
                    let (drafted, read_drafted) = answer(&model, &prompt, &drafting(&wanted));
                    assert_eq!((drafted.text, drafted.finish), (plain.text, plain.finish));
                    assert_eq!((drafted.tokens, read_drafted), (plain.tokens, read));
                }
            }
        }
    }
    assert!(
        accepted > 0 && refused > 0 && runs > 0,
        "{accepted} {refused} {runs}"
    );
}

fn draws(temperature: f32, seed: u64) -> Sampling {
    Sampling {
        temperature,
        top_k: 2,
        repetition: 1.1,
        frequency: 0.05,
        seed,
        ..Sampling::greedy()
    }
}

#[test]
fn draft_model_never_changes_the_tokens() {
    let prompt: Vec<TokenId> = (0..48).map(|index| 30 + index % 6 + index / 24).collect();
    let large = model(0);
    // itself, others, and one whose room ends in the middle of the answer, or of the prompt
    let drafts = [with_room(0, 160), model(1), with_room(0, 70), with_room(0, 20)];
    let mut accepted = [0; 4];
    let mut refused = 0;
    for (draft, accepted) in drafts.iter().zip(&mut accepted) {
        let draft = Draft::new(draft.clone(), &large).unwrap();
        for sampling in [Sampling::greedy(), draws(0.7, 1), draws(2.0, 3)] {
            for max_tokens in [1, 2, 9, 60, 500] {
                let wanted = Generate {
                    sampling: sampling.clone(),
                    ignore_end: true,
                    ..Generate::greedy(max_tokens)
                };
                let drafting = Generate {
                    speculation: Some(Speculation::Draft(draft.clone())),
                    ..wanted.clone()
                };
                let (plain, read) = answer(&large, &prompt, &wanted);
                let (drafted, read_drafted) = answer(&large, &prompt, &drafting);
                assert_eq!(drafted.tokens, plain.tokens);
                assert_eq!((drafted.text, drafted.finish), (plain.text, plain.finish));
                assert_eq!(read_drafted, read);
                let found = drafted.speculated.unwrap();
                *accepted += found.accepted;
                refused += found.proposed - found.accepted;
            }
        }
    }
    assert!(
        accepted[0] > 0 && accepted[2] > 0 && refused > 0,
        "{accepted:?} {refused}"
    );
    assert_eq!(accepted[3], 0);
}

#[test]
fn self_draft_is_always_accepted() {
    let prompt: Vec<TokenId> = (40..60).collect();
    let large = model(3);
    let draft = Draft::new(with_room(3, 160), &large).unwrap();
    for sampling in [Sampling::greedy(), draws(0.9, 7)] {
        let wanted = Generate {
            sampling,
            ignore_end: true,
            speculation: Some(Speculation::Draft(draft.clone())),
            ..Generate::greedy(40)
        };
        let mut sequence = large.sequence().unwrap();
        let mut text = prompt.clone();
        // turns of a conversation, of which the smaller model, too, reads what is new
        for turn in 0..3 {
            let answer = sequence
                .generate(&text, &wanted, &mut |_| ControlFlow::Continue(()))
                .unwrap();
            let found = answer.speculated.unwrap();
            assert!(found.runs > 0);
            assert_eq!(found.accepted, found.proposed);
            text.extend(&answer.tokens);
            text.push(70 + turn);
            text.truncate(110);
        }
    }
}

#[test]
fn draft_with_another_vocabulary_is_refused() {
    let tiny = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::Q8_0,
        layers: 1,
        tied: true,
        seed: 0,
    };
    // a letter of one token
    let mut bytes = tiny.writer().finish();
    let name = b"<|start|>";
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(name.len()).position(|window| window == name) {
        at += found + name.len();
        bytes[at - 3] = b'p';
    }
    let file = Gguf::read(bytes.into()).unwrap();
    let other = LanguageModel::of("other", file, options()).unwrap();
    let error = Draft::new(other, &model(0)).unwrap_err().to_string();
    assert!(
        error.contains("other cannot draft for tiny") && error.contains("<|starp|>"),
        "{error}"
    );
}

#[test]
fn speculative_samples_follow_the_model() {
    let model = model(2);
    let prompt: Vec<TokenId> = (0..40).map(|index| 30 + index % 5).collect();
    let vocabulary = model.sizes().vocabulary as usize;
    let (mut surplus, mut variance, mut runs) = (0.0, 0.0, 0);
    for seed in 0..60 {
        let wanted = Generate {
            sampling: Sampling {
                temperature: 1.0,
                top_k: 2,
                seed,
                ..Sampling::greedy()
            },
            ignore_end: true,
            ..Generate::greedy(50)
        };
        let (answer, _) = answer(&model, &prompt, &drafting(&wanted));
        runs += answer.speculated.unwrap().runs;
        // of two candidates the first is as frequent as the logits behind the text before it say
        let text: Vec<TokenId> = prompt.iter().chain(&answer.tokens).copied().collect();
        let mut rows = Vec::new();
        let mut sequence = model.sequence().unwrap();
        sequence
            .append_all(&text, |logits| rows.extend_from_slice(logits))
            .unwrap();
        for (at, token) in answer.tokens.iter().enumerate() {
            let logits = &rows[(prompt.len() + at - 1) * vocabulary..][..vocabulary];
            let mut order: Vec<usize> = (0..vocabulary).collect();
            order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
            let p = 1.0 / (1.0 + f64::from(logits[order[1]] - logits[order[0]]).exp());
            let is_first = *token as usize == order[0];
            // rows of another number sum in another order, which decides between equal candidates
            let [second, own] = [order[1], *token as usize].map(|at| logits[at]);
            assert!(is_first || own >= second - 1e-6, "{own} instead of {second}");
            surplus += f64::from(u8::from(is_first)) - p;
            variance += p * (1.0 - p);
        }
    }
    assert!(runs > 30, "{runs}");
    // four standard deviations: seeds are fixed, so what passes once passes
    assert!(
        surplus.abs() < 4.0 * variance.sqrt(),
        "{surplus} of {}",
        variance.sqrt()
    );
}
