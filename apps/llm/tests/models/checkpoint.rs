//! Folders of safetensors: the same weights as in a GGUF file give the same answers, and what is not known is refused.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use polychip_llm::gguf::{Gguf, TensorType};
use polychip_llm::testing::{TinyModel, tokenizer_json};
use polychip_llm::{Architecture, Config, LanguageModel, Message, Specials};

use crate::options;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

const TOKENS: [u32; 9] = [1, 40, 256, 7, 100, 259, 3, 77, 12];

fn tiny(architecture: Architecture, kind: TensorType) -> TinyModel {
    TinyModel {
        architecture,
        kind,
        layers: 2,
        tied: architecture == Architecture::Qwen2,
        seed: 5,
    }
}

/// A tensor's type, shape and bytes.
type Values = (Dtype, Vec<usize>, Vec<u8>);

/// A tensor's name in folders.
fn published(name: &str) -> String {
    match name {
        "token_embd.weight" => return "model.embed_tokens.weight".to_owned(),
        "output_norm.weight" => return "model.norm.weight".to_owned(),
        "output.weight" => return "lm_head.weight".to_owned(),
        _ => {}
    }
    let (layer, part) = name["blk.".len()..].split_once('.').unwrap();
    let (part, end) = part.rsplit_once('.').unwrap();
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" | "attn_k" | "attn_v" => &format!("self_attn.{}_proj", &part[5..]),
        "attn_q_norm" | "attn_k_norm" => &format!("self_attn.{}", &part[5..]),
        _ => &format!("mlp.{}_proj", &part[4..]),
    };
    format!("model.layers.{layer}.{part}.{end}")
}

/// Rows of queries or keys in the order that a converter finds them in: of each head the first value of every pair, then the
/// second of every pair.
fn unpaired(bytes: &[u8], row_bytes: usize, head: usize) -> Vec<u8> {
    let rows: Vec<&[u8]> = bytes.chunks_exact(row_bytes).collect();
    let order = |row: usize| {
        let (of, at) = (row / head, row % head);
        of * head + at % (head / 2) * 2 + at / (head / 2)
    };
    (0..rows.len())
        .flat_map(|row| rows[order(row)].to_vec())
        .collect()
}

/// Writes a tiny model as a folder, its tensors in `pieces` files.
fn write(
    folder: &Path,
    model: &TinyModel,
    pieces: usize,
    change: impl Fn(&mut Value, &mut Value),
) -> Result<()> {
    let file = Gguf::read(model.writer().finish().into())?;
    let config = model.config();
    let mut files: Vec<BTreeMap<String, Values>> = vec![BTreeMap::new(); pieces];
    for (index, tensor) in file.tensors().enumerate() {
        let dims: Vec<usize> = tensor.dims().iter().rev().map(|&dim| dim as usize).collect();
        let is_rotated = tensor.name().ends_with("attn_q.weight") || tensor.name().ends_with("attn_k.weight");
        let bytes = if config.architecture == Architecture::Llama && is_rotated {
            unpaired(
                tensor.bytes(),
                tensor.bytes().len() / dims[0],
                config.head_size as usize,
            )
        } else {
            tensor.bytes().to_vec()
        };
        let dtype = match tensor.kind() {
            TensorType::F32 => Dtype::F32,
            TensorType::F16 => Dtype::F16,
            _ => Dtype::BF16,
        };
        files[index % pieces].insert(published(tensor.name()), (dtype, dims, bytes));
    }
    let mut map = BTreeMap::new();
    for (index, tensors) in files.iter().enumerate() {
        let name = match pieces {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{pieces:05}.safetensors", index + 1),
        };
        map.extend(tensors.keys().map(|tensor| (tensor.clone(), name.clone())));
        let views: Result<Vec<(&String, TensorView<'_>)>, _> = tensors
            .iter()
            .map(|(tensor, (dtype, dims, bytes))| Ok((tensor, TensorView::new(*dtype, dims.clone(), bytes)?)))
            .collect();
        let views = views.map_err(|error: safetensors::SafeTensorError| error)?;
        std::fs::write(folder.join(name), safetensors::serialize(views, None)?)?;
    }
    if pieces > 1 {
        let index = json!({ "metadata": {}, "weight_map": map });
        std::fs::write(folder.join("model.safetensors.index.json"), index.to_string())?;
    }
    let (mut settings, mut tokenizer) = (settings(&config), tokenizer_json());
    change(&mut settings, &mut tokenizer);
    std::fs::write(folder.join("config.json"), settings.to_string())?;
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string())?;
    let template = file.text("tokenizer.chat_template")?;
    let of_tokenizer = json!({ "add_bos_token": false, "chat_template": template });
    std::fs::write(folder.join("tokenizer_config.json"), of_tokenizer.to_string())?;
    Ok(())
}

fn settings(config: &Config) -> Value {
    let last = config.vocabulary - 1;
    json!({
        "model_type": config.architecture.name(),
        "hidden_act": "silu",
        "num_hidden_layers": config.layers,
        "hidden_size": config.embedding,
        "intermediate_size": config.feed_forward,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_base,
        "rope_scaling": null,
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": config.tied,
        "sliding_window": null,
        "bos_token_id": last - 1,
        "eos_token_id": last,
    })
}

fn logits(model: &LanguageModel) -> Result<Vec<f32>> {
    Ok(model.sequence()?.append(&TOKENS)?.to_vec())
}

/// The distance of logits, as a part of their size.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut a.iter().copied())
}

#[test]
fn folder_matches_gguf_of_the_same_weights() {
    for (architecture, kind, pieces) in [
        (Architecture::Llama, TensorType::F32, 1),
        (Architecture::Llama, TensorType::BF16, 3),
        (Architecture::Qwen2, TensorType::F16, 1),
        (Architecture::Qwen3, TensorType::BF16, 2),
    ] {
        let tiny = tiny(architecture, kind);
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &tiny, pieces, |_, _| {}).unwrap();
        let of_folder = LanguageModel::open(folder.path(), options()).unwrap();
        let gguf = Gguf::read(tiny.writer().finish().into()).unwrap();
        let of_gguf = LanguageModel::of("tiny", gguf, options()).unwrap();
        let (a, b) = (logits(&of_folder).unwrap(), logits(&of_gguf).unwrap());
        let off = distance(&a, &b);
        assert!(off < 1e-4, "{architecture} {kind}: {off}");
        if architecture != Architecture::Llama {
            assert_eq!(a, b, "{architecture} {kind}: the same rows in the same order");
        }
        let (one, two) = (of_folder.tokenizer(), of_gguf.tokenizer());
        for text in ["hello world 12", "<|start|>x<|end|>", "  café 😀\n\n"] {
            for specials in [Specials::Parse, Specials::AsText] {
                let ids = one.encode_prompt(text, specials).unwrap();
                assert_eq!(ids, two.encode_prompt(text, specials).unwrap(), "{text:?}");
                assert_eq!(one.decode(&ids).unwrap(), two.decode(&ids).unwrap());
            }
        }
        assert_eq!((one.bos(), one.eos()), (two.bos(), two.eos()));
        let chat = |model: &LanguageModel| {
            let template = model.template().unwrap();
            template.render(&[Message::new("user", "hello")], true).unwrap()
        };
        assert_eq!(chat(&of_folder), chat(&of_gguf));
    }
}

#[test]
fn file_in_the_folder_opens_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &tiny(Architecture::Qwen3, TensorType::F32),
        1,
        |_, _| {},
    )
    .unwrap();
    for name in ["config.json", "model.safetensors"] {
        LanguageModel::open(folder.path().join(name), options()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_at_once() {
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    pipe(&at("model.gguf"));
    let error = Gguf::open(&at("model.gguf")).unwrap_err().to_string();
    assert!(
        error.contains("model.gguf: is a pipe, not a regular file"),
        "{error}"
    );
    for name in ["tokenizer.json", "config.json", "model.safetensors"] {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &tiny(Architecture::Qwen3, TensorType::F32),
            1,
            |_, _| {},
        )
        .unwrap();
        let path = folder.path().join(name);
        std::fs::remove_file(&path).unwrap();
        pipe(&path);
        let error = LanguageModel::open(folder.path(), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(name), "{error}");
        // weights that are no regular file count as missing
        let known = ["is a pipe, not a regular file", "contains neither"];
        assert!(known.iter().any(|words| error.contains(words)), "{error}");
    }
}

/// As a cache of downloads lays them: each file is a link to one elsewhere.
#[cfg(unix)]
#[test]
fn files_may_be_symlinks() {
    let (blobs, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(
        blobs.path(),
        &tiny(Architecture::Qwen2, TensorType::F16),
        2,
        |_, _| {},
    )
    .unwrap();
    for entry in std::fs::read_dir(blobs.path()).unwrap() {
        let entry = entry.unwrap();
        std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let model = LanguageModel::open(folder.path(), options()).unwrap();
    assert_eq!(logits(&model).unwrap().len(), model.sizes().vocabulary as usize);
}

#[test]
fn llama_3_rope_scaling_depends_on_wavelength() {
    let folder = tempfile::tempdir().unwrap();
    let (theta, factor, low, high, context) = (500_000.0_f64, 8.0, 1.0, 4.0, 8192.0);
    write(
        folder.path(),
        &tiny(Architecture::Llama, TensorType::F32),
        1,
        |settings, _| {
            settings["rope_theta"] = theta.into();
            settings["rope_scaling"] = json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                "high_freq_factor": high, "original_max_position_embeddings": context,
            });
        },
    )
    .unwrap();
    let model = LanguageModel::open(folder.path(), options()).unwrap();
    let mut factors = [0.0; 32];
    model
        .file()
        .tensor("rope_freqs.weight")
        .unwrap()
        .dequantize(0, &mut factors);
    for (index, found) in factors.into_iter().enumerate() {
        // as the paper's code has it: by wavelengths
        let wavelength = std::f64::consts::TAU * theta.powf(2.0 * index as f64 / 64.0);
        let wanted = if wavelength < context / high {
            1.0
        } else if wavelength > context / low {
            factor
        } else {
            let smooth = (context / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        assert!(
            (f64::from(found) - wanted).abs() < 1e-5 * wanted,
            "{index}: {found} {wanted}"
        );
    }
}

/// Changes the contents of the two files.
type Change = fn(&mut Value, &mut Value);

#[test]
fn what_is_not_known_is_refused_by_name() {
    let cases: [(Change, &str); 15] = [
        (|c, _| c["model_type"] = "gemma".into(), "\"gemma\""),
        (|c, _| c["hidden_act"] = "gelu".into(), "\"hidden_act\""),
        (
            |c, _| c["quantization_config"] = json!({"bits": 4}),
            "\"quantization_config\"",
        ),
        (
            |c, _| c["rope_scaling"] = json!({"type": "yarn", "factor": 2.0}),
            "\"yarn\"",
        ),
        (
            |c, _| c["num_hidden_layers"] = Value::Null,
            "\"num_hidden_layers\" is missing",
        ),
        (
            |c, _| c["hidden_size"] = "wide".into(),
            "\"hidden_size\" must be a 32-bit integer",
        ),
        (
            |c, _| c["vocab_size"] = u32::MAX.into(),
            "\"vocab_size\" is 4294967295, but tensor \"model.embed_tokens.weight\" has 266 rows",
        ),
        (
            |c, _| {
                c["head_dim"] = u32::MAX.into();
                c["rope_scaling"] = json!({
                    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                });
            },
            "head size 4294967295 exceeds the supported maximum of 65536",
        ),
        (
            |c, _| c["num_hidden_layers"] = 1.into(),
            "is unknown for architecture",
        ),
        (|c, _| c["intermediate_size"] = 128.into(), "ffn_"),
        (|_, t| t["model"]["type"] = "Unigram".into(), "\"Unigram\""),
        (
            |_, t| t["model"]["byte_fallback"] = true.into(),
            "\"byte_fallback\"",
        ),
        (
            |_, t| t["normalizer"] = json!({"type": "Lowercase"}),
            "\"Lowercase\"",
        ),
        (
            |_, t| t["pre_tokenizer"] = json!({"type": "Whitespace"}),
            "Whitespace",
        ),
        (|_, t| t["added_tokens"][0]["id"] = 70_000.into(), "70000"),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &tiny(Architecture::Llama, TensorType::F32),
            1,
            change,
        )
        .unwrap();
        let error = LanguageModel::open(folder.path(), options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let empty = tempfile::tempdir().unwrap();
    let error = LanguageModel::open(empty.path(), options())
        .unwrap_err()
        .to_string();
    assert!(error.contains("contains no config.json"), "{error}");
}

/// A folder with any file contents is read or refused.
#[test]
fn mutated_folders_are_safe() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &tiny(Architecture::Qwen3, TensorType::F16),
        2,
        |_, _| {},
    )
    .unwrap();
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut next = move |below: usize| random.random_range(0..below);
    for _ in 0..120 {
        let path = &names[next(names.len())];
        let whole = std::fs::read(path).unwrap();
        let mut bytes = whole.clone();
        match next(3) {
            0 => bytes.truncate(next(whole.len())),
            1 => bytes[next(whole.len().min(2000))] = next(256) as u8,
            _ => {
                let at = next(whole.len().min(2000));
                bytes[at] = b"0123456789\",:{}[]-"[next(18)];
            }
        }
        std::fs::write(path, &bytes).unwrap();
        drop(LanguageModel::open(folder.path(), options()));
        std::fs::write(path, &whole).unwrap();
    }
}
