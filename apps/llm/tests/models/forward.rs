//! Logits of tiny models against plain loops in f64 over the dequantised weights, of every architecture and block type.

use polychip::{Policy, Precision};
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::TinyModel;
use polychip_llm::{Architecture, Config, Gguf, LanguageModel, RopePairing, TokenId};

use crate::options;

/// A model of loops.
struct Plain<'a> {
    file: &'a Gguf,
    config: Config,
}

impl Plain<'_> {
    fn tensor(&self, name: &str) -> Vec<f64> {
        let tensor = self.file.tensor(name).expect("the model has it");
        let mut values = vec![0.0f32; tensor.len()];
        tensor.dequantize(0, &mut values);
        values.into_iter().map(f64::from).collect()
    }

    /// `x` times the rows of a matrix, and a bias where there is one.
    fn linear(&self, x: &[f64], weight: &str, bias: &str) -> Vec<f64> {
        let weights = self.tensor(weight);
        let mut y: Vec<f64> = weights
            .chunks_exact(x.len())
            .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
            .collect();
        if self.file.tensor(bias).is_some() {
            y.iter_mut().zip(self.tensor(bias)).for_each(|(y, b)| *y += b);
        }
        y
    }

    fn norm(&self, x: &[f64], weight: &str) -> Vec<f64> {
        let square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let by = 1.0 / (square + f64::from(self.config.norm_epsilon)).sqrt();
        x.iter()
            .zip(self.tensor(weight))
            .map(|(x, w)| x * by * w)
            .collect()
    }

    fn rotate(&self, head: &mut [f64], position: usize) {
        let dims = self.config.rope_dims as usize;
        for i in 0..dims / 2 {
            let (a, b) = match self.config.rope_pairing {
                RopePairing::Interleaved => (2 * i, 2 * i + 1),
                RopePairing::Halves => (i, i + dims / 2),
            };
            let angle =
                position as f64 * f64::from(self.config.rope_base).powf(-2.0 * i as f64 / dims as f64);
            let (sine, cosine) = angle.sin_cos();
            let (x, y) = (head[a], head[b]);
            head[a] = x * cosine - y * sine;
            head[b] = x * sine + y * cosine;
        }
    }

    /// The logits behind each token.
    fn logits(&self, tokens: &[TokenId]) -> Vec<Vec<f64>> {
        let c = &self.config;
        let (width, size) = (c.embedding as usize, c.head_size as usize);
        let table = self.tensor("token_embd.weight");
        let mut stream: Vec<Vec<f64>> = tokens
            .iter()
            .map(|&token| table[token as usize * width..][..width].to_vec())
            .collect();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let heads = |x: &[f64], which: &str| -> Vec<Vec<f64>> {
                let all = self.linear(
                    x,
                    &name(&format!("attn_{which}.weight")),
                    &name(&format!("attn_{which}.bias")),
                );
                all.chunks_exact(size).map(<[f64]>::to_vec).collect()
            };
            // by position, then by head
            let mut keys: Vec<Vec<Vec<f64>>> = Vec::new();
            let mut values: Vec<Vec<Vec<f64>>> = Vec::new();
            for (position, x) in stream.iter_mut().enumerate() {
                let normed = self.norm(x, &name("attn_norm.weight"));
                let placed = |which: &str| {
                    let mut heads = heads(&normed, which);
                    for head in &mut heads {
                        if c.qk_norm.is_some() {
                            *head = self.norm(head, &name(&format!("attn_{which}_norm.weight")));
                        }
                        self.rotate(head, position);
                    }
                    heads
                };
                let queries = placed("q");
                keys.push(placed("k"));
                values.push(heads(&normed, "v"));
                let mut attended = Vec::new();
                for (h, query) in queries.iter().enumerate() {
                    let shared = h / (c.heads / c.kv_heads) as usize;
                    let mut scores: Vec<f64> = keys
                        .iter()
                        .map(|k| {
                            let dot: f64 = k[shared].iter().zip(query).map(|(k, q)| k * q).sum();
                            dot / (size as f64).sqrt()
                        })
                        .collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    scores.iter_mut().for_each(|score| *score = (*score - top).exp());
                    let sum: f64 = scores.iter().sum();
                    let mut head = vec![0.0; size];
                    for (score, value) in scores.iter().zip(&values) {
                        head.iter_mut()
                            .zip(&value[shared])
                            .for_each(|(y, v)| *y += score / sum * v);
                    }
                    attended.extend(head);
                }
                let attended = self.linear(&attended, &name("attn_output.weight"), "");
                x.iter_mut().zip(attended).for_each(|(x, a)| *x += a);
                let normed = self.norm(x, &name("ffn_norm.weight"));
                let gate = self.linear(&normed, &name("ffn_gate.weight"), "");
                let up = self.linear(&normed, &name("ffn_up.weight"), "");
                let inner: Vec<f64> = gate
                    .iter()
                    .zip(up)
                    .map(|(g, u)| g / (1.0 + (-g).exp()) * u)
                    .collect();
                let down = self.linear(&inner, &name("ffn_down.weight"), "");
                x.iter_mut().zip(down).for_each(|(x, d)| *x += d);
            }
        }
        let head = if c.tied {
            "token_embd.weight"
        } else {
            "output.weight"
        };
        stream
            .iter()
            .map(|x| self.linear(&self.norm(x, "output_norm.weight"), head, ""))
            .collect()
    }
}

/// How far logits are from what they should be, as a part of the spread of those.
fn distance(found: &[f32], wanted: &[f64]) -> f64 {
    let mean = wanted.iter().sum::<f64>() / wanted.len() as f64;
    let spread = wanted.iter().map(|w| (w - mean).powi(2)).sum::<f64>();
    let error: f64 = found
        .iter()
        .zip(wanted)
        .map(|(f, w)| (f64::from(*f) - w).powi(2))
        .sum();
    (error / spread).sqrt()
}

fn model(kind: TensorType, architecture: Architecture, tied: bool) -> LanguageModel {
    let tiny = TinyModel {
        architecture,
        kind,
        layers: 2,
        tied,
        seed: 5,
    };
    let file = Gguf::read(tiny.writer().finish().into()).expect("it was written right");
    let options = options().policy(Policy::latency().threads(1)).capacity(64);
    LanguageModel::of("tiny", file, options).expect("it is supported")
}

fn tokens(count: usize, vocabulary: u32) -> Vec<TokenId> {
    (0..count as u32).map(|i| (i * 37 + 11) % vocabulary).collect()
}

/// A model reads a text at once, token by token, and in odd pieces, and goes back: logits are those of the loops.
fn agrees(kind: TensorType, architecture: Architecture, tied: bool) {
    let model = model(kind, architecture, tied);
    let plain = Plain {
        file: model.file(),
        config: model.config().unwrap().clone(),
    };
    // chunks of 32, and of 8 with three unused rows
    let text = tokens(37, model.sizes().vocabulary);
    let wanted = plain.logits(&text);
    // activations of products with blocks are rounded to 8 bits
    let limit = if kind.is_float() { 1e-2 } else { 5e-2 };
    let near = |what: &str, at: usize, found: &[f32]| {
        let distance = distance(found, &wanted[at]);
        assert!(
            distance < limit,
            "{architecture} {kind} {what}: token {at} is {distance} off"
        );
    };
    let mut sequence = model.sequence().unwrap();
    let mut at = 0;
    sequence
        .append_all(&text, |logits| {
            near("all", at, logits);
            at += 1;
        })
        .unwrap();
    assert_eq!(at, text.len());

    let mut sequence = model.sequence().unwrap();
    near("at once", text.len() - 1, sequence.append(&text).unwrap());
    sequence.truncate(30);
    for (at, token) in text.iter().enumerate().skip(30) {
        near("one by one", at, sequence.append(&[*token]).unwrap());
    }
    sequence.truncate(3);
    near("again", 8, sequence.append(&text[3..9]).unwrap());
    assert_eq!(sequence.tokens(), &text[..9]);
}

#[test]
fn weight_types_match_plain_loops() {
    for kind in TensorType::ALL {
        agrees(kind, Architecture::Llama, true);
    }
}

/// Block types against the same weights as plain floats, at exact precision.
#[test]
fn blocks_match_the_same_weights_as_floats() {
    for kind in TensorType::ALL.into_iter().filter(|kind| !kind.is_float()) {
        let tiny = TinyModel {
            architecture: Architecture::Llama,
            kind,
            layers: 1,
            tied: true,
            seed: 9,
        };
        let blocks = Gguf::read(tiny.writer().finish().into()).unwrap();
        let mut writer = TinyModel {
            kind: TensorType::F32,
            ..tiny
        }
        .writer();
        let names: Vec<String> = blocks.tensors().map(|tensor| tensor.name().to_owned()).collect();
        for name in names {
            let tensor = blocks.tensor(&name).unwrap();
            let mut values = vec![0.0f32; tensor.len()];
            tensor.dequantize(0, &mut values);
            writer.remove_tensor(&name);
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(&name, TensorType::F32, tensor.dims(), bytes);
        }
        let floats = Gguf::read(writer.finish().into()).unwrap();
        // one chunk, and so one plan
        let text = tokens(8, 250);
        let logits = |file: Gguf| -> Vec<f32> {
            let policy = Policy::latency().threads(1).precision(Precision::Exact);
            let options = options().policy(policy).capacity(32);
            let model = LanguageModel::of("tiny", file, options).unwrap();
            let mut sequence = model.sequence().unwrap();
            let mut all = Vec::new();
            sequence
                .append_all(&text, |logits| all.extend_from_slice(logits))
                .unwrap();
            all
        };
        let wanted: Vec<f64> = logits(floats).into_iter().map(f64::from).collect();
        let off = distance(&logits(blocks), &wanted);
        assert!(off < 1e-3, "{kind} is {off} off its own weights as floats");
    }
}

#[test]
fn architectures_match_plain_loops() {
    for architecture in [Architecture::Qwen2, Architecture::Qwen3] {
        agrees(TensorType::Q4_K, architecture, true);
        agrees(TensorType::F32, architecture, false);
    }
}

#[test]
fn unreadable_tokens_are_refused_and_change_nothing() {
    let model = model(TensorType::Q8_0, Architecture::Llama, true);
    let mut sequence = model.sequence().unwrap();
    let text = tokens(9, model.sizes().vocabulary);
    let first = sequence.append(&text).unwrap().to_vec();
    let beyond = sequence.append(&[model.sizes().vocabulary]).unwrap_err();
    assert!(beyond.to_string().contains("exceeds the vocabulary"), "{beyond}");
    let full = sequence.append(&tokens(56, 100)).unwrap_err();
    assert!(full.to_string().contains("context length of 64"), "{full}");
    assert!(sequence.append(&[]).is_err());
    let stopped = sequence.append_while(&text, &mut || false).unwrap_err();
    assert_eq!(stopped.kind(), polychip_llm::ErrorKind::Cancelled);
    assert_eq!(sequence.tokens(), text);
    sequence.truncate(8);
    let again = sequence.append(&text[8..]).unwrap();
    let wanted: Vec<f64> = first.iter().map(|&logit| f64::from(logit)).collect();
    assert!(distance(again, &wanted) < 1e-2);
}
