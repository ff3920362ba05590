//! Graphs of a language model: one chunk of tokens through all layers.
//!
//! A graph reads the embedded tokens of a chunk and the KV cache of all positions before it. It
//! outputs the logits and the chunk's own K and V rows, which the caller appends. A graph
//! therefore has no side effects: any number of plans on any devices read the same KV cache, and a
//! position is removed by reducing the length.
//!
//! Ports, for `rows` tokens and a cache of `capacity` positions:
//!
//! | port | type | content |
//! |---|---|---|
//! | `embedded` | f32 `[rows, embedding]` | rows of the embedding table |
//! | `positions` | i64 `[1, rows]` | position of each token |
//! | `mask` | bool `[rows, capacity + rows]` | positions of the cache, then of the chunk, that a token sees |
//! | `last` | i64 `[1]` | the row whose logits are wanted; only with [`Logits::Last`] |
//! | `past_key.N`, `past_value.N` | f16 `[1, kv_heads, capacity, head_size]` | layer N's cache of earlier positions |
//! | `logits` | f32 `[1 or rows, vocabulary]` | |
//! | `key.N`, `value.N` | f16 `[1, rows, kv_heads * head_size]` | layer N's new K and V |
//!
//! A step of several sequences ([`step`]) has one token of each as its rows: products read their
//! weights once for all, and each row attends to its own sequence's cache. Instead of one mask and
//! cache there are `mask.S`, bool `[1, capacity + 1]`, and `past_key.N.S`, `past_value.N.S` for
//! each sequence `S`. Caches stay in place, so joining or leaving a step copies nothing.
//!
//! Invariants:
//! 1. Weights are constants over the mapped file, in their stored blocks.
//! 2. K and V are rounded to f16 before use, so that answers do not depend on how a prompt was
//!    split into chunks.
//!
//! Not here: running a graph and keeping the cache (`session`).

pub(crate) mod draft;
pub(crate) mod memory;
mod shape;

use bytes::Bytes;
use polychip_graph::{Graph, TensorId};
use polychip_ops::{Attr, Attributes, DType, Op};

use crate::adapter::Adapter;
use crate::config::{Config, RopePairing, RopeScaling};
use crate::gguf::{Gguf, TensorType};
use crate::{Error, Result};
use draft::{Draft, Stored};
use memory::{Heads, Ports, Rows};

pub use shape::{Logits, Shape};

/// Cosines and sines of each position's angles, `[capacity, rope_dims / 2]`; graphs share them.
#[derive(Clone, Debug)]
pub struct Angles {
    cosines: Bytes,
    sines: Bytes,
    capacity: usize,
}

impl Angles {
    /// Computes the angles of the first `capacity` positions.
    ///
    /// # Errors
    /// The file's factors cannot be read.
    pub fn new(file: &Gguf, config: &Config, capacity: usize) -> Result<Angles> {
        let half = config.rope_dims as usize / 2;
        let mut factors = vec![1.0f32; half];
        let mut divisor = 1.0;
        match config.rope_scaling {
            RopeScaling::None => {}
            RopeScaling::Linear(by) => divisor = f64::from(by),
            RopeScaling::Factors => floats(file, "rope_freqs.weight")?
                .iter()
                .zip(&mut factors)
                .for_each(|(from, to)| *to = *from),
        }
        let (mut cosines, mut sines) = (Vec::new(), Vec::new());
        let base = f64::from(config.rope_base);
        let rates: Vec<f64> = (0..half)
            .map(|i| base.powf(-(i as f64) / half as f64) / f64::from(factors[i]) / divisor)
            .collect();
        for position in 0..capacity {
            for rate in &rates {
                let (sine, cosine) = (position as f64 * rate).sin_cos();
                cosines.extend((cosine as f32).to_le_bytes());
                sines.extend((sine as f32).to_le_bytes());
            }
        }
        Ok(Angles {
            cosines: cosines.into(),
            sines: sines.into(),
            capacity,
        })
    }
}

/// Inputs for building graphs.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The weights.
    pub file: &'a Gguf,
    /// The file's hyper-parameters.
    pub config: &'a Config,
    /// The angles of all positions.
    pub angles: &'a Angles,
    /// The adapters to add; each fits the file.
    pub adapters: &'a [Adapter],
}

/// Builds the graph of a chunk.
///
/// # Errors
/// The capacity differs from that of the angles, or a tensor is missing.
pub fn graph(source: Source<'_>, shape: Shape) -> Result<Graph> {
    if shape.capacity != source.angles.capacity || shape.rows == 0 {
        return Err(Error::config(format!(
            "a graph of {} rows and {} positions, with angles of {}",
            shape.rows, shape.capacity, source.angles.capacity
        )));
    }
    let name = format!("{} {} rows", source.config.architecture, shape.rows);
    Builder::new(source, (shape, Rows::OfOne), &name).build()
}

/// Builds the graph of a step: one token for each of `sequences` sequences, with the logits of all.
///
/// # Errors
/// As [`graph`].
pub fn step(source: Source<'_>, sequences: usize) -> Result<Graph> {
    if sequences == 0 {
        return Err(Error::config("a step of no sequences"));
    }
    let shape = Shape {
        rows: sequences,
        capacity: source.angles.capacity,
        logits: Logits::All,
    };
    let name = format!("{} {sequences} sequences", source.config.architecture);
    Builder::new(source, (shape, Rows::OfMany), &name).build()
}

/// The files that hold constants; a piece that is not a file holds none.
fn names(file: &Gguf) -> Vec<String> {
    let pieces = file.pieces().iter();
    pieces
        .map(|piece| piece.name.clone().unwrap_or_default())
        .collect()
}

/// The values of a small tensor as f32.
fn floats(file: &Gguf, name: &str) -> Result<Vec<f32>> {
    let tensor = file.tensor(name).ok_or_else(|| missing(name))?;
    let mut values = vec![0.0; tensor.len()];
    // not where the file is mapped: each page that is touched brings some of its neighbours
    file.read_weights(&tensor, 0, &mut values)?;
    Ok(values)
}

fn missing(name: &str) -> Error {
    Error::config(format!("tensor {name:?} is missing"))
}

/// Tensors that all layers share.
struct Shared {
    ports: Ports,
    cosines: TensorId,
    sines: TensorId,
}

struct Builder<'a> {
    source: Source<'a>,
    file: &'a Gguf,
    config: &'a Config,
    shape: Shape,
    of: Rows,
    draft: Draft,
}

impl<'a> Builder<'a> {
    fn new(source: Source<'a>, (shape, of): (Shape, Rows), name: &str) -> Builder<'a> {
        let Source { file, config, .. } = source;
        Builder {
            source,
            file,
            config,
            shape,
            of,
            draft: Draft::new(name, names(file)),
        }
    }

    fn build(mut self) -> Result<Graph> {
        let Shape { rows, capacity, .. } = self.shape;
        let Source { config, angles, .. } = self.source;
        let width = config.embedding as usize;
        let (mut x, ports) = Ports::add(&mut self.draft, self.shape, self.of, width);
        let last = ports.last;
        let half = config.rope_dims as usize / 2;
        let table = |draft: &mut Draft, name: &str, bytes: &Bytes| {
            draft.constant(name, DType::F32, &[capacity, half], bytes.clone())
        };
        let shared = Shared {
            ports,
            cosines: table(&mut self.draft, "cosines", &angles.cosines),
            sines: table(&mut self.draft, "sines", &angles.sines),
        };
        let mut kept = Vec::new();
        for layer in 0..config.layers {
            let (next, keys, values) = self.layer(layer, x, &shared)?;
            x = next;
            kept.extend([keys, values]);
        }
        let mut wanted = rows;
        if let Some(last) = last {
            let axis = Attributes::new().with_int(Attr::Axis, 0);
            x = self
                .draft
                .node(Op::Gather, &[x, last], axis, DType::F32, &[1, width]);
            wanted = 1;
        }
        let x = self.norm(x, "output_norm.weight", &[wanted, width])?;
        if self.shape.logits == Logits::Hidden {
            self.draft.output("hidden", x);
        } else {
            let head = if config.tied {
                "token_embd.weight"
            } else {
                "output.weight"
            };
            let logits = self.linear(x, head, None, wanted)?;
            self.draft.output("logits", logits);
        }
        for (index, tensor) in kept.into_iter().enumerate() {
            let name = ["key", "value"][index % 2];
            self.draft.output(&format!("{name}.{}", index / 2), tensor);
        }
        Ok(self.draft.finish())
    }

    /// Adds one block of attention and feed-forward; returns the stream after it, and its
    /// tokens' K and V.
    fn layer(&mut self, layer: u32, x: TensorId, shared: &Shared) -> Result<(TensorId, TensorId, TensorId)> {
        let config = self.config;
        let (rows, width) = (self.shape.rows, config.embedding as usize);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let bias = |part: &str| config.qkv_bias.then(|| name(part));
        let normed = self.norm(x, &name("attn_norm.weight"), &[rows, width])?;
        let q = self.linear(normed, &name("attn_q.weight"), bias("attn_q.bias"), rows)?;
        let k = self.linear(normed, &name("attn_k.weight"), bias("attn_k.bias"), rows)?;
        let v = self.linear(normed, &name("attn_v.weight"), bias("attn_v.bias"), rows)?;
        let q = self.placed(q, config.heads, shared, &name("attn_q_norm.weight"))?;
        let k = self.placed(k, config.kv_heads, shared, &name("attn_k_norm.weight"))?;
        let kv_width = config.kv_heads as usize * config.head_size as usize;
        let v = self.draft.reshape(v, DType::F32, &[1, rows, kv_width]);
        let [(keys, k), (values, v)] =
            [k, v].map(|x| memory::rounded(&mut self.draft, x, &[1, rows, kv_width]));
        let heads = Heads {
            heads: config.heads as usize,
            kv_heads: config.kv_heads as usize,
            size: config.head_size as usize,
            scale: None,
        };
        let attended = shared.ports.attention(&mut self.draft, layer, heads, [q, k, v]);
        let heads_width = config.heads as usize * config.head_size as usize;
        let attended = self.draft.reshape(attended, DType::F32, &[rows, heads_width]);
        let attended = self.linear(attended, &name("attn_output.weight"), None, rows)?;
        let x = self.draft.node(
            Op::Add,
            &[x, attended],
            Attributes::new(),
            DType::F32,
            &[rows, width],
        );
        let normed = self.norm(x, &name("ffn_norm.weight"), &[rows, width])?;
        let gate = self.linear(normed, &name("ffn_gate.weight"), None, rows)?;
        let up = self.linear(normed, &name("ffn_up.weight"), None, rows)?;
        let inner = [rows, config.feed_forward as usize];
        let gate = self
            .draft
            .node(Op::Swish, &[gate], Attributes::new(), DType::F32, &inner);
        let gated = self
            .draft
            .node(Op::Mul, &[gate, up], Attributes::new(), DType::F32, &inner);
        let down = self.linear(gated, &name("ffn_down.weight"), None, rows)?;
        let x = self
            .draft
            .node(Op::Add, &[x, down], Attributes::new(), DType::F32, &[rows, width]);
        Ok((x, keys, values))
    }

    /// Turns queries or keys `[rows, heads * size]` into `[1, rows, heads * size]`, normalized if
    /// the architecture requires it, and rotated.
    fn placed(&mut self, x: TensorId, heads: u32, shared: &Shared, norm: &str) -> Result<TensorId> {
        let config = self.config;
        let (rows, size) = (self.shape.rows, config.head_size as usize);
        let mut x = x;
        if config.qk_norm {
            let by_head = [rows * heads as usize, size];
            x = self.draft.reshape(x, DType::F32, &by_head);
            x = self.norm(x, norm, &by_head)?;
        }
        let shape = [1, rows, heads as usize * size];
        let x = self.draft.reshape(x, DType::F32, &shape);
        let rotated = if config.rope_dims == config.head_size {
            0
        } else {
            i64::from(config.rope_dims)
        };
        let attributes = Attributes::new()
            .with_int(Attr::NumHeads, i64::from(heads))
            .with_int(
                Attr::Interleaved,
                i64::from(config.rope_pairing == RopePairing::Interleaved),
            )
            .with_int(Attr::RotaryEmbeddingDim, rotated);
        let inputs = [x, shared.cosines, shared.sines, shared.ports.positions];
        Ok(self
            .draft
            .node(Op::RotaryEmbedding, &inputs, attributes, DType::F32, &shape))
    }

    fn norm(&mut self, x: TensorId, weight: &str, shape: &[usize]) -> Result<TensorId> {
        let weights = self.vector(weight)?;
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, self.config.norm_epsilon);
        let inputs = [x, weights];
        Ok(self
            .draft
            .node(Op::RMSNormalization, &inputs, attributes, DType::F32, shape))
    }

    /// Adds `x` times the transposed weights `[out, in]` of the file, plus a bias.
    fn linear(&mut self, x: TensorId, weight: &str, bias: Option<String>, rows: usize) -> Result<TensorId> {
        let tensor = self.file.tensor(weight).ok_or_else(|| missing(weight))?;
        let &[depth, columns] = tensor.dims() else {
            return Err(Error::config(format!("tensor {weight:?} is not a matrix")));
        };
        let dims = [columns as usize, depth as usize];
        let range = tensor.range();
        let stored = Stored {
            file: tensor.piece() as u32,
            offset: range.start,
            bytes: self.file.pieces()[tensor.piece()].bytes.slice(range),
        };
        let weights = match tensor.kind() {
            TensorType::F32 => self.draft.stored(weight, DType::F32, &dims, stored),
            TensorType::F16 => self.draft.stored(weight, DType::F16, &dims, stored),
            TensorType::BF16 => self.draft.stored(weight, DType::BF16, &dims, stored),
            kind => {
                let layout = kind.layout().ok_or_else(|| missing(weight))?;
                self.draft.blocks(weight, layout, &dims, stored)
            }
        };
        let weights = match tensor.kind() {
            TensorType::F16 | TensorType::BF16 => self.draft.cast(weights, DType::F32, &dims),
            _ => weights,
        };
        let mut inputs = vec![x, weights];
        if let Some(bias) = bias {
            inputs.push(self.vector(&bias)?);
        }
        let y = self.product(&inputs, &[rows, dims[0]]);
        Ok(self.adapted(x, y, weight, rows))
    }

    /// Adds the first input times the transposed second, plus the third if there is one.
    fn product(&mut self, inputs: &[TensorId], shape: &[usize]) -> TensorId {
        let attributes = Attributes::new().with_int(Attr::TransB, 1);
        self.draft.node(Op::Gemm, inputs, attributes, DType::F32, shape)
    }

    /// A product of `x` with the adapters' additions.
    fn adapted(&mut self, x: TensorId, y: TensorId, weight: &str, rows: usize) -> TensorId {
        let mut y = y;
        for (index, adapter) in self.source.adapters.iter().enumerate() {
            let Some(part) = adapter.part(weight) else {
                continue;
            };
            let mut half = |which: &str, dims: [usize; 2], bytes: &Bytes| {
                let name = format!("{weight}.lora_{which}.{index}");
                self.draft.constant(&name, DType::F32, &dims, bytes.clone())
            };
            let a = half("a", [part.rank, part.depth], &part.a);
            let b = half("b", [part.columns, part.rank], &part.b);
            let narrow = self.product(&[x, a], &[rows, part.rank]);
            let shape = [rows, part.columns];
            let added = self.product(&[narrow, b], &shape);
            y = self
                .draft
                .node(Op::Add, &[y, added], Attributes::new(), DType::F32, &shape);
        }
        y
    }

    /// A norm's weights or a bias, as f32.
    fn vector(&mut self, name: &str) -> Result<TensorId> {
        let values = floats(self.file, name)?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(self
            .draft
            .constant(name, DType::F32, &[values.len()], bytes.into()))
    }
}
