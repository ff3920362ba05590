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
        "architecture \"gemma4\" is not supported; the nearest name of a supported architecture is gemma",
        |writer| {
            writer.remove_key("general.architecture");
            writer.text("general.architecture", "gemma4");
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
    refused(ErrorKind::Unsupported, "\"dynamic\"", |writer| {
        writer.text("llama.rope.scaling.type", "dynamic")
    });
    refused(
        ErrorKind::Config,
        "\"llama.rope.scaling.original_context_length\" is missing",
        |writer| {
            writer.text("llama.rope.scaling.type", "yarn");
            writer.f32("llama.rope.scaling.factor", 4.0);
        },
    );
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
        ErrorKind::Config,
        "\"llama.expert_used_count\" is missing",
        with_u32("llama.expert_count", 8),
    );
    refused(
        ErrorKind::Unsupported,
        "\"llama.expert_group_count\" is set",
        with_u32("llama.expert_group_count", 2),
    );
    refused(ErrorKind::Unsupported, "\"llama.logit_scale\" is set", |writer| {
        writer.f32("llama.logit_scale", 2.0);
    });
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

/// A key of an architecture, changed.
fn changed(architecture: Architecture, change: impl FnOnce(&mut GgufWriter)) -> Result<Config> {
    let mut writer = tiny(architecture).writer();
    change(&mut writer);
    read(&writer)
}

#[test]
fn windows_are_of_layers() {
    let config = changed(Architecture::Llama, |writer| {
        writer.u32("llama.attention.sliding_window", 128);
    });
    let config = config.unwrap();
    assert_eq!(config.window_of(0).map(|window| window.size), Some(128));
    let config = changed(Architecture::Gemma3, |_| {}).unwrap();
    let layers: Vec<bool> = (0..12).map(|layer| config.window_of(layer).is_some()).collect();
    assert_eq!(layers.iter().filter(|has| **has).count(), 10);
    assert!(!layers[5] && !layers[11]);
    let missing = changed(Architecture::Gemma2, |writer| {
        writer.remove_key("gemma2.attention.sliding_window");
    });
    let missing = missing.unwrap_err().to_string();
    assert!(
        missing.contains("\"gemma2.attention.sliding_window\" is missing"),
        "{missing}"
    );
    let of_qwen = changed(Architecture::Qwen3, |writer| {
        writer.u32("qwen3.attention.sliding_window", 128);
    });
    assert_eq!(of_qwen.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn experts_are_read_or_refused() {
    let experts = changed(Architecture::Qwen2Moe, |_| {}).unwrap().experts.unwrap();
    assert_eq!((experts.count, experts.used, experts.shared), (4, 2, Some(256)));
    for (key, value, words) in [
        ("expert_used_count", 5, "more than the 4 experts"),
        ("expert_gating_func", 2, "only routers with a softmax"),
        ("expert_count", 5000, "maximum is 1024"),
    ] {
        let refused = changed(Architecture::Qwen3Moe, |writer| {
            let key = format!("qwen3moe.{key}");
            writer.remove_key(&key);
            writer.u32(&key, value);
        });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let norm = changed(Architecture::Qwen3Moe, |writer| {
        writer.flag("qwen3moe.expert_weights_norm", false);
    });
    assert_eq!(norm.unwrap_err().kind(), ErrorKind::Unsupported);
}
