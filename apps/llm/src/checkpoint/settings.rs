//! Translates `config.json` to GGUF keys.

use serde_json::Value;

use super::object::Object;
use crate::gguf::{GgufWriter, TensorType};
use crate::{Architecture, Error, Result};

/// Settings by which other files are read.
pub(super) struct Settings {
    /// Number of rows of the embedding table.
    pub(super) vocabulary: u32,
    /// Whether the embedding table is also the output matrix.
    pub(super) tied: bool,
}

/// Widest head; bounds the work on a file that states more.
const MAX_HEAD: u32 = 1 << 16;

/// Model types and their architectures.
const MODELS: [(&str, Architecture); 4] = [
    ("llama", Architecture::Llama),
    ("mistral", Architecture::Llama),
    ("qwen2", Architecture::Qwen2),
    ("qwen3", Architecture::Qwen3),
];

pub(super) fn write(config: &Object, header: &mut GgufWriter) -> Result<Settings> {
    let kind = config.text("model_type")?;
    let kind = config.needed("model_type", kind)?;
    let known = MODELS.iter().find(|(name, _)| *name == kind);
    let &(_, architecture) = known.ok_or_else(|| {
        let names = MODELS.map(|(name, _)| name).join(", ");
        Error::unsupported(format!(
            "config.json: model type {kind:?} is not supported; supported types are {names}"
        ))
    })?;
    refuse_unknown(config)?;
    header.text("general.architecture", architecture.name());
    let size = |field: &str| config.needed(field, config.size(field)?);
    let key = |key: &str| format!("{architecture}.{key}");
    for (name, field) in [
        ("block_count", "num_hidden_layers"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("context_length", "max_position_embeddings"),
    ] {
        header.u32(&key(name), size(field)?);
    }
    for (name, field) in [
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
    ] {
        if let Some(value) = config.size(field)? {
            header.u32(&key(name), value);
        }
    }
    // qwen's configurations state a window that they do not use
    let uses_window = config
        .flag("use_sliding_window")?
        .unwrap_or(architecture == Architecture::Llama);
    if let Some(window) = config.size("sliding_window")?.filter(|_| uses_window) {
        header.u32(&key("attention.sliding_window"), window);
    }
    let epsilon = config.needed("rms_norm_eps", config.float("rms_norm_eps")?)?;
    header.f32(&key("attention.layer_norm_rms_epsilon"), epsilon);
    rope(config, architecture, header)?;
    Ok(Settings {
        vocabulary: size("vocab_size")?,
        tied: config.flag("tie_word_embeddings")?.unwrap_or(false),
    })
}

fn refuse_unknown(config: &Object) -> Result<()> {
    config.refuse_unless("hidden_act", |value| value == "silu")?;
    config.refuse_unless("quantization_config", |_| false)?;
    // several devices of one training run cut products into as many sums
    config.refuse_unless("pretraining_tp", |value| value == 1)?;
    config.refuse_unless("partial_rotary_factor", |value| value == 1.0)?;
    config.refuse_unless("layer_types", |value| {
        let all = |types: &Vec<Value>| types.iter().all(|one| one == "full_attention");
        value.as_array().is_some_and(all)
    })
}

/// Writes the settings of position angles. Newer files have all of them in one object.
fn rope(config: &Object, architecture: Architecture, header: &mut GgufWriter) -> Result<()> {
    let parameters = config.object("rope_parameters")?;
    let scaling = match &parameters {
        Some(_) => None,
        None => config.object("rope_scaling")?,
    };
    let base = match parameters
        .as_ref()
        .map(|one| one.float("rope_theta"))
        .transpose()?
        .flatten()
    {
        None => config.float("rope_theta")?,
        found => found,
    };
    let base = base.unwrap_or(10_000.0);
    header.f32(&format!("{architecture}.rope.freq_base"), base);
    let Some(scaling) = scaling.or(parameters) else {
        return Ok(());
    };
    let kind = match scaling.text("rope_type")? {
        None => scaling.text("type")?,
        found => found,
    };
    match kind {
        None | Some("default") => {}
        Some("linear") => {
            let factor = scaling.needed("factor", scaling.float("factor")?)?;
            header.text(&format!("{architecture}.rope.scaling.type"), "linear");
            header.f32(&format!("{architecture}.rope.scaling.factor"), factor);
        }
        Some("llama3") => {
            let factors = by_wavelength(config, &scaling, base)?;
            let bytes = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
            header.tensor(
                "rope_freqs.weight",
                TensorType::F32,
                &[factors.len() as u64],
                bytes,
            );
        }
        Some(other) => {
            return Err(Error::unsupported(format!(
                "{}: position scaling of type {other:?} is not supported; supported types are default, linear and llama3",
                scaling.place
            )));
        }
    }
    Ok(())
}

/// Divisor of each angle: none if it turns often within the context of the first training, `factor`
/// if it turns seldom, and interpolated in between (Llama 3.1).
fn by_wavelength(config: &Object, scaling: &Object, base: f32) -> Result<Vec<f32>> {
    let needed = |field: &str| scaling.needed(field, scaling.float(field)?).map(f64::from);
    let factor = needed("factor")?;
    let (low, high) = (needed("low_freq_factor")?, needed("high_freq_factor")?);
    let context = needed("original_max_position_embeddings")?;
    if !(factor > 0.0 && context > 0.0 && 0.0 < low && low < high) {
        return Err(Error::config(format!(
            "{}: factors must be above 0, and \"low_freq_factor\" below \"high_freq_factor\"",
            scaling.place
        )));
    }
    let head = match config.size("head_dim")? {
        Some(head) => head,
        None => {
            let field = |field: &str| config.needed(field, config.size(field)?);
            field("hidden_size")?
                .checked_div(field("num_attention_heads")?)
                .unwrap_or(0)
        }
    };
    if head > MAX_HEAD {
        return Err(Error::unsupported(format!(
            "{}: head size {head} exceeds the supported maximum of {MAX_HEAD}",
            config.place
        )));
    }
    let half = head / 2;
    let of = |index: u32| {
        let rate = f64::from(base).powf(-f64::from(index) / f64::from(half));
        let turns = context * rate / std::f64::consts::TAU;
        let part = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / (part + (1.0 - part) / factor)) as f32
    };
    Ok((0..half).map(of).collect())
}
