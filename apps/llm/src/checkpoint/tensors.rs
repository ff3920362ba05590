//! Tensors of a folder, under their names in GGUF files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use polychip_host::ModelFolder;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::object::Object;
use crate::gguf::{External, TensorType};
use crate::{Error, Result};

const ALONE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The embedding table, here and in GGUF files.
const EMBEDDINGS: &str = "model.embed_tokens.weight";
const TABLE: &str = "token_embd.weight";

/// A file's name and content.
type File = (String, Bytes);

/// Bytes of a file before its JSON.
const LENGTH: usize = 8;

/// The files with their bytes, and the tensors in them.
pub(super) fn read(folder: &Path, files: &ModelFolder, tied: bool) -> Result<(Vec<File>, Vec<External>)> {
    let (mut opened, mut tensors) = (Vec::new(), Vec::new());
    for name in names(folder)? {
        let path = folder.join(&name);
        let bytes = files
            .open_beside(&name)
            .map_err(|source| Error::file(&path, source))?;
        let (length, metadata) = SafeTensors::read_metadata(&bytes)
            .map_err(|error| Error::malformed(format!("{}: {error}", path.display())))?;
        let infos: BTreeMap<_, _> = metadata.tensors().into_iter().collect();
        for (tensor, info) in infos {
            let Some(known) = translated(&tensor, tied) else {
                continue;
            };
            let kind = match info.dtype {
                Dtype::F32 => TensorType::F32,
                Dtype::F16 => TensorType::F16,
                Dtype::BF16 => TensorType::BF16,
                other => {
                    return Err(Error::unsupported(format!(
                        "{}: tensor {tensor:?} has type {other:?}, which is not supported; supported types are F32, F16 and BF16",
                        path.display()
                    )));
                }
            };
            let (start, end) = info.data_offsets;
            let data = LENGTH + length;
            if info.shape.is_empty() || start >= end || data + end > bytes.len() {
                return Err(Error::malformed(format!(
                    "{}: tensor {tensor:?} of shape {:?} is empty or exceeds the file",
                    path.display(),
                    info.shape
                )));
            }
            tensors.push(External {
                name: known,
                kind,
                dims: info.shape.iter().rev().map(|&dim| dim as u64).collect(),
                file: opened.len(),
                range: data + start..data + end,
            });
        }
        opened.push((name, bytes));
    }
    Ok((opened, tensors))
}

/// Refuses a vocabulary with more tokens than the embedding table has rows.
pub(super) fn check_rows(tensors: &[External], vocabulary: u32) -> Result<()> {
    let table = tensors.iter().find(|tensor| tensor.name == TABLE);
    let table = table.ok_or_else(|| Error::config(format!("tensor {EMBEDDINGS:?} is missing")))?;
    let rows = table.dims.get(1).copied().unwrap_or(1);
    if rows < u64::from(vocabulary) {
        Err(Error::config(format!(
            "config.json: \"vocab_size\" is {vocabulary}, but tensor {EMBEDDINGS:?} has {rows} rows"
        )))
    } else {
        Ok(())
    }
}

/// The files' names: those in the index, or the single file.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let Some(index) = Object::read(folder, INDEX)? else {
        return if folder.join(ALONE).is_file() {
            Ok(BTreeSet::from([ALONE.to_owned()]))
        } else {
            Err(Error::config(format!(
                "{} contains neither {ALONE} nor {INDEX}: other file formats (pytorch_model.bin, consolidated.00.pth) are not supported",
                folder.display()
            )))
        };
    };
    let map = index.needed("weight_map", index.object("weight_map")?)?;
    let name = |(tensor, file): (&String, &Value)| {
        let file = file.as_str().map(str::to_owned);
        file.ok_or_else(|| {
            Error::config(format!(
                "{INDEX}: the file name of tensor {tensor:?} is not a string"
            ))
        })
    };
    map.fields.iter().map(name).collect()
}

/// A tensor's name in GGUF files; `None` if it is computed from others. An unknown name stays, and
/// is refused when tensors are compared with the architecture's.
fn translated(name: &str, tied: bool) -> Option<String> {
    match name {
        EMBEDDINGS => return Some(TABLE.to_owned()),
        "model.norm.weight" => return Some("output_norm.weight".to_owned()),
        "lm_head.weight" => return (!tied).then(|| "output.weight".to_owned()),
        _ => {}
    }
    let unknown = || Some(name.to_owned());
    let Some((layer, part)) = name
        .strip_prefix("model.layers.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return unknown();
    };
    // angles, which are made of the configuration
    if part == "self_attn.rotary_emb.inv_freq" {
        return None;
    }
    let Some((part, end)) = part.rsplit_once('.') else {
        return unknown();
    };
    let part = match part {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return unknown(),
    };
    Some(format!("blk.{layer}.{part}.{end}"))
}
