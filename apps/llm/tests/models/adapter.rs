//! Adapters: what they add is what the same weights, added up, give; and they fit their model or are refused.

use half::f16;
use polychip_llm::gguf::{Gguf, GgufWriter, TensorType};
use polychip_llm::testing::{TinyModel, random_blocks};
use polychip_llm::{Adapter, Architecture, LanguageModel, Options};

use crate::options;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

const RANK: u64 = 4;
const ALPHA: f32 = 8.0;
const CHANGED: [&str; 4] = ["blk.0.attn_q", "blk.0.ffn_down", "blk.1.attn_v", "blk.1.ffn_gate"];

fn tiny() -> TinyModel {
    TinyModel {
        architecture: Architecture::Llama,
        kind: TensorType::F32,
        layers: 2,
        tied: true,
        seed: 3,
    }
}

fn base() -> Gguf {
    Gguf::read(tiny().writer().finish().into()).unwrap()
}

/// A product of low rank for each of [`CHANGED`], its first half in f16.
fn writer(file: &Gguf) -> GgufWriter {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut writer = GgufWriter::new();
    writer.text("general.type", "adapter");
    writer.text("general.architecture", "llama");
    writer.text("adapter.type", "lora");
    writer.f32("adapter.lora.alpha", ALPHA);
    for name in CHANGED {
        let tensor = file.tensor(&format!("{name}.weight")).unwrap();
        let (depth, columns) = (tensor.dims()[0], tensor.dims()[1]);
        let a = random_blocks(TensorType::F16, (depth * RANK) as usize, &mut random);
        let b = random_blocks(TensorType::F32, (columns * RANK) as usize, &mut random);
        writer.tensor(
            &format!("{name}.weight.lora_a"),
            TensorType::F16,
            &[depth, RANK],
            a,
        );
        writer.tensor(
            &format!("{name}.weight.lora_b"),
            TensorType::F32,
            &[RANK, columns],
            b,
        );
    }
    writer
}

/// The model with the adapter's products in its weights.
fn merged(file: &Gguf, adapter: &Gguf, scale: f32) -> Gguf {
    let mut writer = tiny().writer();
    for name in CHANGED {
        let name = format!("{name}.weight");
        let floats = |file: &Gguf, name: &str| {
            let tensor = file.tensor(name).unwrap();
            let mut values = vec![0.0; tensor.len()];
            tensor.dequantize(0, &mut values);
            values
        };
        let mut weights = floats(file, &name);
        let a = floats(adapter, &format!("{name}.lora_a"));
        let b = floats(adapter, &format!("{name}.lora_b"));
        assert!(a.iter().all(|&value| f16::from_f32(value).to_f32() == value));
        let rank = RANK as usize;
        let depth = a.len() / rank;
        for (row, weights) in weights.chunks_exact_mut(depth).enumerate() {
            for (column, weight) in weights.iter_mut().enumerate() {
                let sum: f32 = (0..rank).map(|r| b[row * rank + r] * a[r * depth + column]).sum();
                *weight += sum * scale * ALPHA / RANK as f32;
            }
        }
        let dims = file.tensor(&name).unwrap().dims().to_vec();
        let data = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        writer.remove_tensor(&name);
        writer.tensor(&name, TensorType::F32, &dims, data);
    }
    Gguf::read(writer.finish().into()).unwrap()
}

fn logits(file: Gguf, options: Options) -> Vec<f32> {
    let model = LanguageModel::of("tiny", file, options).unwrap();
    let mut sequence = model.sequence().unwrap();
    sequence.append(&[5, 90, 200, 33, 7]).unwrap();
    sequence.append(&[12]).unwrap().to_vec()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut a.iter().copied())
}

#[test]
fn adapter_matches_merged_weights() {
    let (file, of_adapter) = (base(), Gguf::read(writer(&base()).finish().into()).unwrap());
    let plain = logits(file.clone(), options());
    let adapter = |scale| Adapter::read("adapter", &of_adapter, scale).unwrap();
    for scale in [1.0, -0.5] {
        let found = logits(file.clone(), options().adapter(adapter(scale)));
        let wanted = logits(merged(&file, &of_adapter, scale), options());
        let off = distance(&wanted, &found);
        assert!(off < 1e-4, "scale {scale}: {off}");
        let changed = distance(&wanted, &plain);
        assert!(changed > 1e-2, "the adapter changes something: {changed}");
    }
    let both = options().adapter(adapter(0.25)).adapter(adapter(0.75));
    let wanted = logits(merged(&file, &of_adapter, 1.0), options());
    assert!(distance(&wanted, &logits(file, both)) < 1e-4, "adapters add up");
}

/// Changes an adapter that is right.
type Change = fn(&mut GgufWriter);

#[test]
fn mismatched_adapter_is_refused_by_name() {
    let cases: [(Change, &str); 6] = [
        (|w| w.text("adapter.type.x", "y"), ""),
        (|w| w.remove_key("adapter.type"), "\"missing\""),
        (|w| w.remove_tensor("blk.0.attn_q.weight.lora_b"), "no partner"),
        (
            |w| w.tensor("blk.0.attn_norm.weight", TensorType::F32, &[4], vec![0; 16]),
            "not part of a low-rank pair",
        ),
        (
            |w| {
                w.tensor("token_embd.weight.lora_a", TensorType::F32, &[2, 4], vec![0; 32]);
                w.tensor("token_embd.weight.lora_b", TensorType::F32, &[4, 2], vec![0; 32]);
            },
            "not a weight matrix of the model",
        ),
        (
            |w| {
                w.tensor(
                    "blk.1.attn_k.weight.lora_a",
                    TensorType::F32,
                    &[2, 4],
                    vec![0; 32],
                );
                w.tensor(
                    "blk.1.attn_k.weight.lora_b",
                    TensorType::F32,
                    &[4, 2],
                    vec![0; 32],
                );
            },
            "dimensions [2, 2]",
        ),
    ];
    for (change, words) in cases {
        let mut writer = writer(&base());
        change(&mut writer);
        let file = Gguf::read(writer.finish().into()).unwrap();
        let opened = Adapter::read("adapter.gguf", &file, 1.0)
            .and_then(|adapter| LanguageModel::of("tiny", base(), options().adapter(adapter)));
        match opened {
            Ok(_) => assert_eq!(words, "", "it should be refused"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    !words.is_empty() && text.contains(words) && text.contains("adapter.gguf"),
                    "{words}: {text}"
                );
            }
        }
    }
    let of_model = Adapter::read("model.gguf", &base(), 1.0).unwrap_err().to_string();
    assert!(of_model.contains("\"general.type\""), "{of_model}");
}
