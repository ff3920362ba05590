//! Models with random weights.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use polychip_llm::gguf::TensorType;
use polychip_llm::testing::{TinyModel, random_blocks};
use polychip_llm::{Architecture, Config};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::settings::{SESSIONS, Settings};

/// Products of a session's model.
pub(crate) const PRODUCTS: usize = 4;
/// Type of the language model's matrices.
const KIND: TensorType = TensorType::Q8_0;
/// Random blocks, which all matrices repeat from different places on.
const BLOCKS: usize = 1 << 16;

/// Writes the models that are not there.
pub(crate) fn write(settings: &Settings) -> Result<()> {
    std::fs::create_dir_all(&settings.folder)
        .with_context(|| format!("{} cannot be made", settings.folder.display()))?;
    for index in 0..SESSIONS {
        let path = settings.session_model(index);
        if !path.exists() {
            let bytes = onnx(side(settings.session_mib), index);
            put(&path, |out| Ok(out.write_all(&bytes)?))?;
        }
    }
    let path = settings.language_model();
    if !path.exists() {
        put(&path, |out| language(settings.language_mib << 20, out))?;
    }
    Ok(())
}

/// Writes a file that appears when it is whole.
fn put(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let beside = path.with_extension("part");
    let mut out = BufWriter::new(File::create(&beside)?);
    write(&mut out)?;
    out.flush()?;
    std::fs::rename(&beside, path)?;
    println!("{}: {} MiB", path.display(), path.metadata()?.len() >> 20);
    Ok(())
}

/// Rows of each product's matrix in a session's model.
pub(crate) fn side(mib: u64) -> usize {
    (((mib << 20) as f64 / 4.0 / PRODUCTS as f64).sqrt() as usize).max(16)
}

/// The column of the only element in a row of a matrix.
pub(crate) fn column(row: usize, side: usize, model: usize, product: usize) -> usize {
    (row * 7 + model * 13 + product * 5 + 1) % side
}

/// Factor of all elements of a session's model.
pub(crate) fn factor(model: usize) -> f32 {
    [1.0, 2.0, 0.5, -1.0][model % SESSIONS]
}

/// A field of a protocol buffer: its number, and a length with bytes.
fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn integer(out: &mut Vec<u8>, number: u64, value: u64) {
    varint(out, number << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An input or output of a row of floats.
fn port(name: &str, side: usize) -> Vec<u8> {
    let mut shape = Vec::new();
    for size in [1, side] {
        let mut dimension = Vec::new();
        integer(&mut dimension, 1, size as u64);
        field(&mut shape, 1, &dimension);
    }
    let (mut tensor, mut kind, mut port) = (Vec::new(), Vec::new(), Vec::new());
    integer(&mut tensor, 1, 1);
    field(&mut tensor, 2, &shape);
    field(&mut kind, 1, &tensor);
    field(&mut port, 1, name.as_bytes());
    field(&mut port, 2, &kind);
    port
}

/// An ONNX model of matrix products, each of which permutes a row and multiplies it by a factor.
fn onnx(side: usize, model: usize) -> Vec<u8> {
    let mut graph = Vec::new();
    let mut initializers = Vec::new();
    for product in 0..PRODUCTS {
        let mut node = Vec::new();
        let from = if product == 0 {
            "x".to_owned()
        } else {
            format!("t{product}")
        };
        let to = if product + 1 == PRODUCTS {
            "y".to_owned()
        } else {
            format!("t{}", product + 1)
        };
        field(&mut node, 1, from.as_bytes());
        field(&mut node, 1, format!("w{product}").as_bytes());
        field(&mut node, 2, to.as_bytes());
        field(&mut node, 3, format!("product{product}").as_bytes());
        field(&mut node, 4, b"MatMul");
        field(&mut graph, 1, &node);
        let mut weights = vec![0; side * side * 4];
        for row in 0..side {
            let at = (row * side + column(row, side, model, product)) * 4;
            weights[at..at + 4].copy_from_slice(&factor(model).to_le_bytes());
        }
        let mut tensor = Vec::new();
        integer(&mut tensor, 1, side as u64);
        integer(&mut tensor, 1, side as u64);
        integer(&mut tensor, 2, 1);
        field(&mut tensor, 8, format!("w{product}").as_bytes());
        field(&mut tensor, 9, &weights);
        initializers.push(tensor);
    }
    field(&mut graph, 2, b"products");
    for tensor in initializers {
        field(&mut graph, 5, &tensor);
    }
    field(&mut graph, 11, &port("x", side));
    field(&mut graph, 12, &port("y", side));
    let (mut opset, mut whole) = (Vec::new(), Vec::new());
    integer(&mut opset, 2, 17);
    integer(&mut whole, 1, 8);
    field(&mut whole, 7, &graph);
    field(&mut whole, 8, &opset);
    whole
}

/// The model of which the language model is a wider and deeper form.
const TINY: TinyModel = TinyModel {
    architecture: Architecture::Llama,
    kind: KIND,
    layers: 1,
    tied: true,
    seed: 3,
};

/// Hyper-parameters of a model whose weights take about so many bytes.
fn config(bytes: u64) -> Config {
    // small models are narrow, so that they still have layers
    let width = if bytes < 256 << 20 { 512 } else { 2048 };
    let mut config = Config {
        embedding: width,
        feed_forward: width * 11 / 4,
        heads: width / 64,
        kv_heads: width / 256,
        ..TINY.config()
    };
    let weights: u64 = config
        .tensors()
        .filter(|tensor| tensor.name.starts_with("blk."))
        .map(|tensor| tensor.dims.iter().product::<u64>())
        .sum();
    let of_a_layer = weights / KIND.block_len() as u64 * KIND.block_bytes() as u64;
    config.layers = u32::try_from(bytes.div_ceil(of_a_layer)).unwrap_or(1);
    config
}

/// Writes a language model in pieces: the whole is larger than memory may be.
fn language(bytes: u64, out: &mut BufWriter<File>) -> Result<()> {
    let config = config(bytes);
    let mut writer = TINY.writer();
    for tensor in TINY.config().tensors() {
        writer.remove_tensor(&tensor.name);
    }
    for (key, value) in [
        ("block_count", config.layers),
        ("embedding_length", config.embedding),
        ("feed_forward_length", config.feed_forward),
        ("attention.head_count", config.heads),
        ("attention.head_count_kv", config.kv_heads),
    ] {
        let key = format!("llama.{key}");
        writer.remove_key(&key);
        writer.u32(&key, value);
    }
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let blocks = random_blocks(KIND, BLOCKS, &mut random);
    let kind = |dims: &[u64]| if dims.len() == 1 { TensorType::F32 } else { KIND };
    let mut tensors = Vec::new();
    let mut end = 0_u64;
    for tensor in config.tensors() {
        let of = kind(&tensor.dims);
        let weights: u64 = tensor.dims.iter().product();
        let length = weights / of.block_len() as u64 * of.block_bytes() as u64;
        let start = end.next_multiple_of(writer.alignment);
        end = start + length;
        writer.raw_tensor(&tensor.name, of.code(), &tensor.dims, Vec::new(), Some(start));
        tensors.push((of, start, length as usize));
    }
    let mut header = writer.finish();
    header.resize(header.len().next_multiple_of(writer.alignment as usize), 0);
    out.write_all(&header)?;
    let mut written = 0_u64;
    for (index, (of, start, length)) in tensors.into_iter().enumerate() {
        out.write_all(&vec![0; (start - written) as usize])?;
        written = start + length as u64;
        if of == TensorType::F32 {
            // norms
            out.write_all(&1.0_f32.to_le_bytes().repeat(length / 4))?;
            continue;
        }
        let (mut at, mut left) = (index * 977 % BLOCKS * KIND.block_bytes(), length);
        while left > 0 {
            let count = left.min(blocks.len() - at);
            out.write_all(&blocks[at..at + count])?;
            (at, left) = (0, left - count);
        }
    }
    Ok(())
}
