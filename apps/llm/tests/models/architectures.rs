//! Logits of tiny models of each architecture against those of the package transformers.
//!
//! The golden file was written by `device-tests/witness/llm/architectures.py`. It states keys and
//! tensors, but no weights: both sides draw them with the same integers.

use std::collections::BTreeMap;

use polychip::{Policy, Precision};
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::{GgufWriter, TinyModel};
use polychip_llm::{Architecture, Batch, Generate, Gguf, LanguageModel, Sequence, TokenId};
use serde::Deserialize;
use serde_json::Value;

use crate::options;

/// Largest divergence of the distributions of a token, in nats.
const BOUND: f64 = 1e-5;

#[derive(Deserialize)]
struct Golden {
    of: String,
    architecture: String,
    seed: u64,
    keys: BTreeMap<String, Value>,
    /// Names, dimensions from the innermost, centers and amplitudes of weights.
    tensors: Vec<(String, Vec<u64>, f32, f32)>,
    tokens: Vec<TokenId>,
    kept: Vec<usize>,
    /// Behind each kept token.
    logits: Vec<Vec<f32>>,
}

fn all() -> Vec<Golden> {
    let text = include_str!("../golden/architectures.json");
    serde_json::from_str(text).expect("the golden file is valid")
}

/// Uniform numbers around a center, of 24 bits each.
fn drawn(name: &str, count: usize, center: f32, amplitude: f32, seed: u64) -> Vec<u8> {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let value = |index: u64| {
        let mut z = (hash ^ seed).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let unit = (z >> 40) as f32 * 2.0_f32.powi(-24) - 0.5;
        unit * (2.0 * amplitude) + center
    };
    (1..=count as u64)
        .flat_map(|index| value(index).to_le_bytes())
        .collect()
}

fn model(golden: &Golden) -> LanguageModel {
    let mut writer = GgufWriter::new();
    writer.text("general.architecture", &golden.architecture);
    for (key, value) in &golden.keys {
        let key = format!("{}.{key}", golden.architecture);
        match value {
            Value::String(text) => writer.text(&key, text),
            Value::Number(number) if number.is_u64() => {
                writer.u32(&key, number.as_u64().expect("it is one") as u32);
            }
            other => writer.f32(&key, other.as_f64().expect("a number") as f32),
        }
    }
    let tokens: Vec<String> = (0..40).map(|index| format!("t{index}")).collect();
    writer.text("tokenizer.ggml.model", "llama");
    writer.texts("tokenizer.ggml.tokens", &tokens);
    writer.f32s("tokenizer.ggml.scores", &vec![0.0; tokens.len()]);
    writer.u32("tokenizer.ggml.unknown_token_id", 0);
    writer.flag("tokenizer.ggml.add_bos_token", false);
    for (name, dims, center, amplitude) in &golden.tensors {
        let count = dims.iter().product::<u64>() as usize;
        let data = drawn(name, count, *center, *amplitude, golden.seed);
        writer.tensor(name, TensorType::F32, dims, data);
    }
    let file = Gguf::read(writer.finish().into()).expect("it was written right");
    let policy = Policy::latency().threads(1).precision(Precision::Exact);
    let options = options().policy(policy).capacity(64);
    LanguageModel::of(&golden.of, file, options).unwrap_or_else(|error| panic!("{}: {error}", golden.of))
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let top = f64::from(top);
    let sum: f64 = logits.iter().map(|&one| (f64::from(one) - top).exp()).sum();
    logits
        .iter()
        .map(|&one| f64::from(one) - top - sum.ln())
        .collect()
}

/// The Kullback-Leibler divergence of what was found from what was wanted.
fn divergence(wanted: &[f32], found: &[f32]) -> f64 {
    let (wanted, found) = (log_softmax(wanted), log_softmax(found));
    wanted.iter().zip(found).map(|(w, f)| w.exp() * (w - f)).sum()
}

impl Golden {
    /// Checks the logits behind token `at`, if they are kept; returns their divergence.
    fn check(&self, how: &str, at: usize, found: &[f32]) -> f64 {
        let Some(index) = self.kept.iter().position(|&kept| kept == at) else {
            return 0.0;
        };
        let divergence = divergence(&self.logits[index], found);
        assert!(
            divergence.abs() <= BOUND,
            "{}, {how}: token {at} diverges by {divergence:e}",
            self.of
        );
        divergence
    }
}

/// Text in chunks with the logits of each token, and in two pieces, and after a rewind token by token.
#[test]
fn logits_match_those_of_transformers() {
    for golden in all() {
        let model = model(&golden);
        let mut sequence = model.sequence().unwrap();
        let (mut at, mut worst) = (0, 0.0_f64);
        sequence
            .append_all(&golden.tokens, |logits| {
                worst = worst.max(golden.check("in chunks", at, logits));
                at += 1;
            })
            .unwrap();
        eprintln!("{}: {worst:.1e}", golden.of);
        let (first, last) = (golden.kept[3], golden.tokens.len() - 1);
        let mut sequence = model.sequence().unwrap();
        let logits = sequence.append(&golden.tokens[..=first]).unwrap();
        golden.check("first piece", first, logits);
        let logits = sequence.append(&golden.tokens[first + 1..]).unwrap();
        golden.check("second piece", last, logits);
        sequence.truncate(golden.kept[4]);
        for at in golden.kept[4]..=golden.kept[6] {
            let logits = sequence.append(&golden.tokens[at..=at]).unwrap();
            golden.check("one by one", at, logits);
        }
    }
}

/// Three sequences of different lengths, of which each takes steps beside the others.
#[test]
fn batched_steps_match_transformers() {
    for golden in all() {
        let model = model(&golden);
        let starts = [golden.kept[1], golden.kept[3], golden.kept[5]];
        let mut sequences: Vec<Sequence> = starts
            .iter()
            .map(|&start| {
                let mut sequence = model.sequence().unwrap();
                sequence.append(&golden.tokens[..start]).unwrap();
                sequence
            })
            .collect();
        let mut batch = Batch::new(&model);
        for _ in 0..3 {
            let mut tokens: Vec<(&mut Sequence, TokenId)> = sequences
                .iter_mut()
                .map(|sequence| {
                    let next = golden.tokens[sequence.len()];
                    (sequence, next)
                })
                .collect();
            batch.step(&mut tokens).unwrap();
            for sequence in &sequences {
                golden.check("batched", sequence.len() - 1, sequence.logits());
            }
        }
    }
}

/// Greedy answers that exceed the window of attention, and the same answers behind a text that is read at once and behind a
/// rewind.
#[test]
fn answers_of_all_architectures_can_be_rewound() {
    for architecture in Architecture::ALL {
        let tiny = TinyModel {
            architecture,
            kind: TensorType::Q8_0,
            layers: 2,
            tied: true,
            seed: 31,
        };
        let file = Gguf::read(tiny.writer().finish().into()).unwrap();
        let options = options().policy(Policy::latency().threads(1)).capacity(96);
        let model = LanguageModel::of("tiny", file, options).unwrap();
        let request = Generate {
            ignore_end: true,
            ..Generate::greedy(12)
        };
        let mut on = |_: &str| std::ops::ControlFlow::Continue(());
        let prompt: Vec<TokenId> = (20..54).collect();
        let mut sequence = model.sequence().unwrap();
        let answer = sequence.generate(&prompt, &request, &mut on).unwrap();
        assert_eq!(answer.tokens.len(), 12, "{architecture}");
        let logits = sequence.append(&[7]).unwrap().to_vec();
        // without what was appended, and with it again
        let text = sequence.tokens().to_vec();
        sequence.truncate(prompt.len());
        let again = sequence.append(&text[prompt.len()..]).unwrap();
        let near = |found: &[f32], how: &str| {
            let divergence = divergence(&logits, found).abs();
            assert!(divergence < 1e-4, "{architecture} {how}: {divergence:e}");
        };
        near(again, "rewound");
        let mut fresh = model.sequence().unwrap();
        near(fresh.append(&text).unwrap(), "at once");
    }
}
