//! Reads `genai_config.json`.
//!
//! Invariant: an unknown setting that would change how the graph must run is refused by name.

use polychip_graph::{Graph, TensorId};

use crate::checkpoint::object::Object;
use crate::sizes::Sizes;
use crate::{Error, Result};

/// The file that describes a folder.
pub(super) const CONFIG: &str = "genai_config.json";

/// Most layers; bounds the work on a file that states too many.
const MAX_LAYERS: u32 = 4096;

/// Placeholder for a layer's number in a name.
const LAYER: &str = "%d";

#[derive(Debug)]
pub(super) struct Settings {
    /// The type of the model.
    pub(super) kind: String,
    pub(super) filename: String,
    pub(super) sizes: Sizes,
    pub(super) heads: u32,
    pub(super) input_ids: String,
    pub(super) attention_mask: String,
    pub(super) position_ids: String,
    pub(super) logits: String,
    /// Names of the KV cache inputs.
    past: [String; 2],
}

impl Settings {
    /// Reads the object "model".
    pub(super) fn read(model: &Object) -> Result<Settings> {
        let refuse = |object: &Object, field: &str, why: &str| match object.get(field) {
            Some(_) => Err(Error::unsupported(format!("{}: {field:?}: {why}", object.place))),
            None => Ok(()),
        };
        for (field, why) in [
            ("encoder", "models with an encoder are not supported"),
            ("vision", "vision models are not supported"),
            ("speech", "audio models are not supported"),
            (
                "embedding",
                "models with embeddings in a separate graph are not supported",
            ),
            ("encoder_decoder_init", "models with an encoder are not supported"),
        ] {
            refuse(model, field, why)?;
        }
        let decoder = model.needed("decoder", model.object("decoder")?)?;
        refuse(
            &decoder,
            "pipeline",
            "a decoder in several graphs is not supported",
        )?;
        refuse(
            &decoder,
            "state_update",
            "a KV cache that the graph updates is not supported",
        )?;
        let text = |object: &Object, field: &str| Ok(object.text(field)?.map(str::to_owned));
        let needed = |object: &Object, field: &str| {
            let size = object.needed(field, object.size(field)?)?;
            match size {
                0 => Err(Error::config(format!("{}: {field:?} is 0", object.place))),
                size => Ok(size),
            }
        };
        let context = needed(model, "context_length")?;
        if let Some(window) = decoder.object("sliding_window")? {
            let size = window.size("window_size")?.unwrap_or(0);
            if size < context {
                return Err(Error::unsupported(format!(
                    "{}: an attention window of {size}, below the context of {context}, is not supported",
                    window.place
                )));
            }
        }
        let sizes = Sizes {
            layers: needed(&decoder, "num_hidden_layers")?,
            embedding: needed(&decoder, "hidden_size")?,
            kv_heads: needed(&decoder, "num_key_value_heads")?,
            head_size: needed(&decoder, "head_size")?,
            context,
            vocabulary: needed(model, "vocab_size")?,
        };
        if sizes.layers > MAX_LAYERS {
            return Err(Error::unsupported(format!(
                "{}: \"num_hidden_layers\" is {}; the supported maximum is {MAX_LAYERS}",
                decoder.place, sizes.layers
            )));
        }
        let heads = needed(&decoder, "num_attention_heads")?;
        for (field, count) in [
            ("num_attention_heads", heads),
            ("num_key_value_heads", sizes.kv_heads),
        ] {
            if count.checked_mul(sizes.head_size).is_none() {
                return Err(Error::unsupported(format!(
                    "{}: with {field:?} {count} and \"head_size\" {}, the row length exceeds 32 bits",
                    decoder.place, sizes.head_size
                )));
            }
        }
        let empty = || Object {
            place: decoder.place.clone(),
            fields: serde_json::Map::new(),
        };
        let inputs = decoder.object("inputs")?.unwrap_or_else(empty);
        let outputs = decoder.object("outputs")?.unwrap_or_else(empty);
        refuse(
            &inputs,
            "past_names",
            "a combined key and value tensor is not supported",
        )?;
        refuse(
            &inputs,
            "inputs_embeds",
            "models with embeddings in a separate graph are not supported",
        )?;
        let name = |object: &Object, field: &str, usual: &str| -> Result<String> {
            Ok(text(object, field)?.unwrap_or_else(|| usual.to_owned()))
        };
        let filename = text(&decoder, "filename")?;
        Ok(Settings {
            kind: name(model, "type", "decoder")?,
            filename: decoder.needed("filename", filename)?,
            sizes,
            heads,
            input_ids: name(&inputs, "input_ids", "input_ids")?,
            attention_mask: name(&inputs, "attention_mask", "attention_mask")?,
            position_ids: name(&inputs, "position_ids", "position_ids")?,
            logits: name(&outputs, "logits", "logits")?,
            past: [
                name(&inputs, "past_key_names", "past_key_values.%d.key")?,
                name(&inputs, "past_value_names", "past_key_values.%d.value")?,
            ],
        })
    }

    /// The KV cache inputs of each layer.
    pub(super) fn pasts(&self, graph: &Graph) -> Result<Vec<[TensorId; 2]>> {
        let input = |pattern: &str, layer: u32| {
            let name = pattern.replace(LAYER, &layer.to_string());
            graph.input_named(&name).ok_or_else(|| {
                Error::config(format!(
                    "the graph has no input {name:?}, which {CONFIG} names for layer {layer}"
                ))
            })
        };
        let [keys, values] = &self.past;
        (0..self.sizes.layers)
            .map(|layer| Ok([input(keys, layer)?, input(values, layer)?]))
            .collect()
    }
}
