//! Every setting that changes answers is read, or refused by name.

use super::*;
use crate::ErrorKind;
use crate::gguf::TensorType;
use crate::testing::{GgufWriter, TinyModel};

fn tiny(architecture: Architecture) -> TinyModel {
    TinyModel {
        architecture,
        kind: TensorType::Q8_0,
        layers: 2,
        tied: true,
        seed: 1,
    }
}

fn read(writer: &GgufWriter) -> Result<Config> {
    Config::read(&Gguf::read(writer.finish().into())?)
}

fn refused(kind: ErrorKind, words: &str, change: impl FnOnce(&mut GgufWriter)) {
    let mut writer = tiny(Architecture::Llama).writer();
    change(&mut writer);
    let error = read(&writer).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().contains(words)),
        (kind, true),
        "{error}"
    );
}

/// With another value of a key.
fn with_u32(key: &'static str, value: u32) -> impl FnOnce(&mut GgufWriter) {
    move |writer| {
        writer.remove_key(key);
        writer.u32(key, value);
    }
}

#[test]
fn every_architecture_round_trips() {
    for architecture in Architecture::ALL {
        for tied in [true, false] {
            let model = TinyModel {
                tied,
                ..tiny(architecture)
            };
            assert_eq!(read(&model.writer()).unwrap(), model.config());
        }
    }
}

#[test]
fn an_unknown_architecture_is_refused_by_name() {
    refused(
        ErrorKind::Unsupported,
        "architecture \"mamba\" is not supported; supported architectures are llama, qwen2, qwen3",
        |writer| {
            writer.remove_key("general.architecture");
            writer.text("general.architecture", "mamba");
        },
    );
    refused(
        ErrorKind::Config,
        "\"general.architecture\" is missing",
        |writer| {
            writer.remove_key("general.architecture");
        },
    );
}

#[test]
fn keys_must_exist_and_be_in_range() {
    for key in [
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        let words = format!("key {key:?} is missing");
        refused(ErrorKind::Config, &words, |writer| writer.remove_key(key));
    }
    refused(
        ErrorKind::Config,
        "\"llama.block_count\" is 0",
        with_u32("llama.block_count", 0),
    );
    refused(
        ErrorKind::Unsupported,
        "maximum is 4096",
        with_u32("llama.block_count", u32::MAX),
    );
    refused(
        ErrorKind::Config,
        "4 heads",
        with_u32("llama.attention.head_count_kv", 3),
    );
    refused(
        ErrorKind::Config,
        "the embedding size 256 is not a multiple of 3 heads",
        |writer| {
            writer.remove_key("llama.attention.head_count_kv");
            with_u32("llama.attention.head_count", 3)(writer);
        },
    );
    refused(
        ErrorKind::Config,
        "must be even",
        with_u32("llama.attention.key_length", 63),
    );
    refused(
        ErrorKind::Unsupported,
        "value head size of 32",
        with_u32("llama.attention.value_length", 32),
    );
    refused(
        ErrorKind::Config,
        "at most the head size",
        with_u32("llama.rope.dimension_count", 66),
    );
    refused(ErrorKind::Config, "must be a finite float", |writer| {
        writer.f32("llama.rope.freq_base", f32::INFINITY);
    });
    refused(ErrorKind::Config, "must be above 0", |writer| {
        writer.f32("llama.rope.freq_base", -1.0)
    });
    refused(
        ErrorKind::Config,
        "must be an unsigned 32-bit integer",
        |writer| {
            writer.remove_key("llama.attention.head_count_kv");
            writer.i32s("llama.attention.head_count_kv", &[2, 2]);
        },
    );
    refused(
        ErrorKind::Config,
        "\"llama.vocab_size\" is 7",
        with_u32("llama.vocab_size", 7),
    );
}

#[test]
fn tensors_must_be_those_of_the_architecture() {
    refused(
        ErrorKind::Config,
        "tensor \"blk.1.ffn_up.weight\" is missing",
        |writer| {
            writer.remove_tensor("blk.1.ffn_up.weight");
        },
    );
    refused(
        ErrorKind::Config,
        "tensor \"blk.2.attn_norm.weight\" is missing",
        with_u32("llama.block_count", 3),
    );
    refused(
        ErrorKind::Unsupported,
        "\"blk.1.attn_k.weight\" is unknown for architecture llama",
        with_u32("llama.block_count", 1),
    );
    refused(
        ErrorKind::Unsupported,
        "\"blk.0.ffn_gate_inp.weight\"",
        |writer| {
            writer.tensor("blk.0.ffn_gate_inp.weight", TensorType::F32, &[1], vec![0; 4]);
        },
    );
    refused(
        ErrorKind::Config,
        "has dimensions [256, 256], but the metadata states [256, 288]",
        with_u32("llama.feed_forward_length", 288),
    );
    refused(ErrorKind::Unsupported, "must be floats", |writer| {
        writer.remove_tensor("output_norm.weight");
        writer.tensor("output_norm.weight", TensorType::Q8_0, &[256], vec![0; 8 * 34]);
    });
    // biases of one of three
    refused(ErrorKind::Config, "\"blk.0.attn_k.bias\" is missing", |writer| {
        writer.tensor("blk.0.attn_q.bias", TensorType::F32, &[256], vec![0; 1024]);
    });
    refused(
        ErrorKind::Unsupported,
        "\"blk.0.attn_k.bias\" is unknown",
        |writer| {
            writer.tensor("blk.0.attn_k.bias", TensorType::F32, &[128], vec![0; 512]);
        },
    );
}

#[test]
fn settings_that_change_answers_are_read_or_refused() {
    let scaling = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = tiny(Architecture::Llama).writer();
        change(&mut writer);
        read(&writer).map(|config| config.rope_scaling)
    };
    let linear = |writer: &mut GgufWriter| {
        writer.text("llama.rope.scaling.type", "linear");
        writer.f32("llama.rope.scaling.factor", 4.0);
    };
    assert_eq!(scaling(&linear).unwrap(), RopeScaling::Linear(4.0));
    assert_eq!(
        scaling(&|writer| writer.f32("llama.rope.scale_linear", 2.0)).unwrap(),
        RopeScaling::Linear(2.0)
    );
    assert_eq!(
        scaling(&|writer| writer.text("llama.rope.scaling.type", "none")).unwrap(),
        RopeScaling::None
    );
    let factors = |writer: &mut GgufWriter| {
        writer.tensor("rope_freqs.weight", TensorType::F32, &[32], vec![0; 128]);
    };
    assert_eq!(scaling(&factors).unwrap(), RopeScaling::Factors);
    refused(ErrorKind::Unsupported, "\"yarn\"", |writer| {
        writer.text("llama.rope.scaling.type", "yarn")
    });
    refused(
        ErrorKind::Config,
        "\"llama.rope.scaling.factor\" is missing",
        |writer| {
            writer.text("llama.rope.scaling.type", "linear");
        },
    );
    refused(ErrorKind::Unsupported, "both a factor", |writer| {
        factors(writer);
        linear(writer);
    });
    refused(
        ErrorKind::Unsupported,
        "\"llama.expert_count\" is set",
        with_u32("llama.expert_count", 8),
    );
    refused(
        ErrorKind::Unsupported,
        "window",
        with_u32("llama.attention.sliding_window", 128),
    );
    refused(
        ErrorKind::Unsupported,
        "\"llama.attention.causal\" is false",
        |writer| {
            writer.flag("llama.attention.causal", false);
        },
    );
    refused(
        ErrorKind::Unsupported,
        "one of 3 files of a split model",
        with_u32("split.count", 3),
    );
    let mut writer = tiny(Architecture::Llama).writer();
    writer.u32("llama.expert_count", 0);
    writer.flag("llama.attention.causal", true);
    writer.u32("split.count", 1);
    writer.u32("llama.attention.sliding_window", 512);
    assert!(read(&writer).is_ok());
}
