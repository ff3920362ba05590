//! A model folder with `config.json`, `tokenizer.json` and `model.safetensors`, as three arbitrary texts or as changes
//! of valid ones.
//!
//! Invariant: the folder is refused, or its settings, vocabulary and weights are read without a panic. Not here: GGUF
//! (`gguf`), folders with several files of tensors.

#![no_main]

mod model_file;
mod patches;

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use patches::patched;
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::{TinyModel, tokenizer_json};
use polychip_llm::{Architecture, Gguf};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use tempfile::TempDir;

/// Separates the three files of an input.
const SEPARATOR: u8 = 0;
const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

struct World {
    folder: TempDir,
    /// The files of a valid folder, in the order of [`FILES`].
    valid: [Vec<u8>; 3],
}

thread_local! {
    static WORLD: OnceCell<World> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    WORLD.with(|world| {
        let World { folder, valid } = world.get_or_init(|| World {
            folder: tempfile::tempdir().expect("a folder"),
            valid: valid(),
        });
        let mut parts = input.splitn(3, |byte| *byte == SEPARATOR);
        for (file, valid) in FILES.into_iter().zip(valid) {
            let part = parts.next().unwrap_or_default();
            fs::write(folder.path().join(file), changed(valid, part)).expect("a file");
        }
        read(folder.path());
    });
});

/// The part itself; if it is empty, the valid file; if it begins with `@`, the valid file with changes.
fn changed(valid: &[u8], part: &[u8]) -> Vec<u8> {
    match part {
        [] => valid.to_vec(),
        [b'@', patches @ ..] => patched(valid, patches),
        _ => part.to_vec(),
    }
}

/// A folder whose rows of queries and keys are stored as in GGUF files.
fn valid() -> [Vec<u8>; 3] {
    let model = TinyModel {
        architecture: Architecture::Qwen2,
        kind: TensorType::F32,
        layers: 1,
        tied: true,
        seed: 5,
    };
    let config = model.config();
    let last = config.vocabulary - 1;
    let settings = json!({
        "model_type": "qwen2",
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
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": config.tied,
        "bos_token_id": last - 1,
        "eos_token_id": last,
    });
    let file = Gguf::read(model.writer().finish().into()).expect("a valid file");
    let tensors: Vec<_> = file.tensors().collect();
    let views = tensors.iter().map(|tensor| {
        let dims = tensor.dims().iter().rev().map(|&dim| dim as usize).collect();
        let view = TensorView::new(Dtype::F32, dims, tensor.bytes()).expect("as many bytes as the shape has");
        (published(tensor.name()), view)
    });
    let weights = safetensors::serialize(views, None).expect("names and tensors");
    [
        settings.to_string().into_bytes(),
        tokenizer_json().to_string().into_bytes(),
        weights,
    ]
}

/// The name of a tensor in folders.
fn published(name: &str) -> String {
    match name {
        "token_embd.weight" => return "model.embed_tokens.weight".to_owned(),
        "output_norm.weight" => return "model.norm.weight".to_owned(),
        _ => {}
    }
    let (layer, rest) = name["blk.".len()..].split_once('.').expect("a layer");
    let (part, end) = rest.rsplit_once('.').expect("an end");
    let part = match part {
        "attn_norm" => "input_layernorm".to_owned(),
        "attn_output" => "self_attn.o_proj".to_owned(),
        "ffn_norm" => "post_attention_layernorm".to_owned(),
        "attn_q" | "attn_k" | "attn_v" => format!("self_attn.{}_proj", &part[5..]),
        _ => format!("mlp.{}_proj", &part[4..]),
    };
    format!("model.layers.{layer}.{part}.{end}")
}

fn read(folder: &Path) {
    if let Ok(file) = Gguf::open(folder) {
        model_file::read(&file, "hello  world 123 é漢😀\n");
    }
}
