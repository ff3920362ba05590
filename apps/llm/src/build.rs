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

mod angles;
pub(crate) mod draft;
mod experts;
mod layer;
pub(crate) mod memory;
mod product;
mod shape;
mod values;

use polychip_graph::{Graph, TensorId};
use polychip_ops::{Attr, Attributes, DType, Op};

use crate::adapter::Adapter;
use crate::config::Config;
use crate::gguf::Gguf;
use crate::{Error, Result};
use angles::Table;
use draft::Draft;
use memory::{Ports, Rows};

pub use angles::Angles;
pub use shape::{Logits, Shape};

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

/// Angles of all positions, as constants.
#[derive(Clone, Copy)]
struct Rotation {
    cosines: TensorId,
    sines: TensorId,
}

/// Tensors that all layers share.
struct Shared {
    ports: Ports,
    full: Rotation,
    /// Of layers with a window.
    windowed: Rotation,
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
        let (mut x, mut ports) = Ports::add(&mut self.draft, self.shape, self.of, width);
        let last = ports.last;
        // a window as long as the cache hides nothing
        if let Some(window) = config.window.filter(|window| (window.size as usize) < capacity) {
            // the mask of attention with sinks is made of booleans
            ports.add_window(&mut self.draft, window.size, config.has_sinks);
        }
        let full = self.rotation("", &angles.full);
        let windowed = match &angles.windowed {
            Some(table) => self.rotation(".window", table),
            None => full,
        };
        let shared = Shared {
            ports,
            full,
            windowed,
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
            let logits = self.logits(x, wanted)?;
            self.draft.output("logits", logits);
        }
        for (index, tensor) in kept.into_iter().enumerate() {
            let name = ["key", "value"][index % 2];
            self.draft.output(&format!("{name}.{}", index / 2), tensor);
        }
        Ok(self.draft.finish())
    }

    fn rotation(&mut self, of: &str, table: &Table) -> Rotation {
        let dims = [self.shape.capacity, self.config.rope_dims as usize / 2];
        let [cosines, sines] = [("cosines", &table.cosines), ("sines", &table.sines)].map(|(name, bytes)| {
            let name = format!("{name}{of}");
            self.draft.constant(&name, DType::F32, &dims, bytes.clone())
        });
        Rotation { cosines, sines }
    }

    /// The logits of `rows` rows, scaled and capped.
    fn logits(&mut self, x: TensorId, rows: usize) -> Result<TensorId> {
        let config = self.config;
        let head = if config.tied {
            "token_embd.weight"
        } else {
            "output.weight"
        };
        let shape = [rows, config.vocabulary as usize];
        let mut logits = self.linear(x, head, None, rows)?;
        logits = self.scaled(logits, config.logit_scale, &shape);
        if let Some(cap) = config.logit_cap {
            logits = self.scaled(logits, 1.0 / cap, &shape);
            logits = self.draft.map(Op::Tanh, logits, Attributes::new(), &shape);
            logits = self.scaled(logits, cap, &shape);
        }
        Ok(logits)
    }
}
