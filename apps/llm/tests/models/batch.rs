//! Batched sequences give the same results as single ones, even if sequences join, leave or read a prompt in between.

use polychip::Policy;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{
    Architecture, Batch, ErrorKind, Generate, Generation, Gguf, LanguageModel, Sequence, Step, TokenId,
};

use crate::options;

/// How far a logit may be from that of a step alone. What is multiplied with blocks is rounded alike in both, and sums differ in
/// their last bits; logits of tiny models are around 10.
const BOUND: f32 = 2e-4;

fn model(architecture: Architecture, kind: TensorType) -> LanguageModel {
    let tiny = TinyModel {
        architecture,
        kind,
        layers: 2,
        tied: true,
        seed: 23,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = options().policy(Policy::latency().threads(2)).capacity(160);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn greedy(logits: &[f32]) -> TokenId {
    let best = (0..).zip(logits).max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.expect("there are logits").0
}

/// A sequence beside one that takes the same steps alone.
struct Pair {
    together: Sequence,
    alone: Sequence,
}

impl Pair {
    fn new(model: &LanguageModel, prompt: impl Iterator<Item = TokenId>) -> Pair {
        let prompt: Vec<TokenId> = prompt.collect();
        let (mut together, mut alone) = (model.sequence().unwrap(), model.sequence().unwrap());
        together.append(&prompt).unwrap();
        alone.append(&prompt).unwrap();
        Pair { together, alone }
    }
}

/// A step of all, which is compared with steps alone.
fn step(batch: &mut Batch, pairs: &mut [Pair], of: &str) {
    let next: Vec<TokenId> = pairs.iter().map(|pair| greedy(pair.alone.logits())).collect();
    let mut tokens: Vec<(&mut Sequence, TokenId)> = pairs
        .iter_mut()
        .map(|pair| &mut pair.together)
        .zip(next.iter().copied())
        .collect();
    batch.step(&mut tokens).unwrap();
    for (index, (pair, token)) in pairs.iter_mut().zip(next).enumerate() {
        pair.alone.append(&[token]).unwrap();
        assert_eq!(pair.together.tokens(), pair.alone.tokens());
        let far = pair.together.logits().iter().zip(pair.alone.logits());
        let far = far.map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
        assert!(
            far <= BOUND,
            "{of}: sequence {index} of {}: {far}",
            pair.alone.len()
        );
        assert_eq!(greedy(pair.together.logits()), greedy(pair.alone.logits()));
    }
}

#[test]
fn batched_steps_match_single_steps() {
    for (architecture, kind) in [
        (Architecture::Llama, TensorType::Q8_0),
        (Architecture::Qwen2, TensorType::Q4_1),
        (Architecture::Qwen3, TensorType::Q6_K),
        (Architecture::Llama, TensorType::F32),
        (Architecture::Phi3, TensorType::Q4_0),
        (Architecture::Gemma3, TensorType::Q8_0),
        (Architecture::Qwen3Moe, TensorType::F32),
    ] {
        let of = format!("{architecture} {kind:?}");
        let model = model(architecture, kind);
        let mut batch = Batch::new(&model);
        // lengths that have nothing to do with each other
        let mut pairs: Vec<Pair> = (0..5)
            .map(|index| Pair::new(&model, 7 * index..8 + 20 * index))
            .collect();
        for _ in 0..3 {
            step(&mut batch, &mut pairs, &of);
        }
        // one leaves, two come, one reads a chunk and forgets some of it, one goes back
        pairs.remove(1);
        step(&mut batch, &mut pairs, &of);
        pairs.extend([Pair::new(&model, 3..4), Pair::new(&model, 50..80)]);
        step(&mut batch, &mut pairs, &of);
        let Pair { together, alone } = &mut pairs[0];
        for sequence in [together, alone] {
            sequence.append(&(90..120).collect::<Vec<_>>()).unwrap();
            sequence.truncate(20);
            sequence.append(&[7]).unwrap();
        }
        let Pair { together, alone } = &mut pairs[2];
        for sequence in [together, alone] {
            sequence.truncate(9);
            sequence.append(&[11]).unwrap();
        }
        for _ in 0..2 {
            step(&mut batch, &mut pairs, &of);
        }
        // one takes over what another one read together with others
        let mut copied = model.sequence().unwrap();
        copied.copy(&pairs[3].together, 25).unwrap();
        copied.append(&[60]).unwrap();
        let mut alone = model.sequence().unwrap();
        alone.append(copied.tokens()).unwrap();
        pairs[1] = Pair {
            together: copied,
            alone,
        };
        for _ in 0..2 {
            step(&mut batch, &mut pairs, &of);
        }
        // so few that they fit a smaller step
        pairs.truncate(2);
        step(&mut batch, &mut pairs, &of);
        pairs.truncate(1);
        step(&mut batch, &mut pairs, &of);
    }
}

#[test]
fn batch_size_is_limited_to_sixteen() {
    let model = model(Architecture::Llama, TensorType::Q4_0);
    let mut batch = Batch::new(&model);
    let sizes = [1, 2, 3, 5, 7, 11, 12, 40].map(|waiting| batch.size(waiting));
    assert_eq!(sizes, [1, 2, 3, 4, 7, 8, 12, 16]);
    let mut pairs: Vec<Pair> = (0..16)
        .map(|index| Pair::new(&model, index..2 + 2 * index))
        .collect();
    for _ in 0..2 {
        step(&mut batch, &mut pairs, "sixteen");
    }
    pairs.push(Pair::new(&model, 1..3));
    let mut tokens: Vec<(&mut Sequence, TokenId)> =
        pairs.iter_mut().map(|pair| (&mut pair.together, 5)).collect();
    let error = batch.step(&mut tokens).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("17 sequences"), "{error}");
}

#[test]
fn refused_step_changes_nothing() {
    let model = model(Architecture::Llama, TensorType::Q4_0);
    let mut batch = Batch::new(&model);
    let (mut first, mut second) = (model.sequence().unwrap(), model.sequence().unwrap());
    first.append(&[1, 2]).unwrap();
    second.append(&(0..160).collect::<Vec<_>>()).unwrap();
    for (token, words) in [(5, "do not fit"), (9999, "do not fit")] {
        let error = batch
            .step(&mut [(&mut first, token), (&mut second, 5)])
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!((first.len(), second.len()), (2, 160));
    }
    second.truncate(10);
    let error = batch
        .step(&mut [(&mut first, 9999), (&mut second, 5)])
        .unwrap_err();
    assert_eq!(
        (error.kind(), first.len(), second.len()),
        (ErrorKind::Tokenizer, 2, 10)
    );
    let other = self::model(Architecture::Llama, TensorType::Q4_0);
    let mut stranger = other.sequence().unwrap();
    let error = batch
        .step(&mut [(&mut first, 1), (&mut stranger, 5)])
        .unwrap_err();
    assert!(
        error.to_string().contains("cannot be of a sequence of"),
        "{error}"
    );
    batch.step(&mut []).unwrap();
}

#[test]
fn batched_answers_match_single_answers() {
    let model = model(Architecture::Qwen2, TensorType::Q5_K);
    let wanted = |max_tokens| Generate {
        ignore_end: true,
        ..Generate::greedy(max_tokens)
    };
    let prompts: Vec<Vec<TokenId>> = (0..4).map(|index| (index..10 + 11 * index).collect()).collect();
    let mut batch = Batch::new(&model);
    let mut answers: Vec<Generation> = prompts
        .iter()
        .zip([30, 5, 40, 12])
        .map(|(prompt, most)| Generation::new(model.sequence().unwrap(), prompt, &wanted(most)).unwrap())
        .collect();
    let refused = Generation::step_together(&mut batch, &mut answers.iter_mut().collect::<Vec<_>>());
    assert!(refused.unwrap_err().to_string().contains("cannot join a batch"));
    for answer in &mut answers {
        while answer.step(8).unwrap() == Step::Read {}
    }
    while answers.iter().any(|answer| answer.finish().is_none()) {
        let mut going: Vec<&mut Generation> = answers
            .iter_mut()
            .filter(|answer| answer.finish().is_none())
            .collect();
        let steps = Generation::step_together(&mut batch, &mut going).unwrap();
        assert!(steps.iter().all(|step| !matches!(step, Ok(Step::Read))));
    }
    for ((answer, prompt), most) in answers.into_iter().zip(&prompts).zip([30, 5, 40, 12]) {
        let (_, answer) = answer.into_completion();
        let alone = model
            .sequence()
            .unwrap()
            .generate(
                prompt,
                &wanted(most),
                &mut |_| std::ops::ControlFlow::Continue(()),
            )
            .unwrap();
        assert_eq!((&answer.tokens, &answer.text), (&alone.tokens, &alone.text));
        assert_eq!(answer.finish, alone.finish);
    }
}
