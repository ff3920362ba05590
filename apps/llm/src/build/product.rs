//! Products with the file's weights, and what is added to them.

use bytes::Bytes;
use polychip_graph::TensorId;
use polychip_ops::{Attr, Attributes, DType, Op};

use super::Builder;
use super::draft::Stored;
use super::values::{floats, missing};
use crate::gguf::TensorType;
use crate::{Error, Result};

/// Rows of a weight tensor, over all its dimensions but the innermost.
type Rows = std::ops::Range<usize>;

impl Builder<'_> {
    /// Adds `x` times the transposed weights `[out, in]` of the file, plus a bias.
    pub(super) fn linear(
        &mut self,
        x: TensorId,
        weight: &str,
        bias: Option<String>,
        rows: usize,
    ) -> Result<TensorId> {
        let (weights, columns) = self.weights(weight, None)?;
        let mut inputs = vec![x, weights];
        if let Some(bias) = bias {
            inputs.push(self.vector(&bias)?);
        }
        let y = self.product(&inputs, &[rows, columns]);
        Ok(self.adapted(x, y, weight, rows))
    }

    /// The rows of a weight tensor as a matrix of f32 values, over its stored form; and how many
    /// they are.
    pub(super) fn weights(&mut self, weight: &str, part: Option<Rows>) -> Result<(TensorId, usize)> {
        let tensor = self.file.tensor(weight).ok_or_else(|| missing(weight))?;
        let (depth, all) = match *tensor.dims() {
            [depth, columns] => (depth as usize, columns as usize),
            [depth, columns, count] => (depth as usize, (columns * count) as usize),
            _ => return Err(Error::config(format!("tensor {weight:?} is not a matrix"))),
        };
        let kind = tensor.kind();
        let range = tensor.range();
        let (name, range, columns) = match part {
            None => (weight.to_owned(), range, all),
            Some(part) => {
                // rows are whole blocks
                let row = depth / kind.block_len() * kind.block_bytes();
                let bytes = range.start + part.start * row..range.start + part.end * row;
                (
                    format!("{weight}[{}..{}]", part.start, part.end),
                    bytes,
                    part.len(),
                )
            }
        };
        let dims = [columns, depth];
        let stored = Stored {
            file: tensor.piece() as u32,
            offset: range.start,
            bytes: self.file.pieces()[tensor.piece()].bytes.slice(range),
        };
        let plain = match kind {
            TensorType::F32 => DType::F32,
            TensorType::F16 => DType::F16,
            TensorType::BF16 => DType::BF16,
            kind => {
                let layout = kind.layout().ok_or_else(|| missing(weight))?;
                return Ok((self.draft.blocks(&name, layout, &dims, stored), columns));
            }
        };
        let weights = self.draft.stored(&name, plain, &dims, stored);
        let weights = match plain {
            DType::F32 => weights,
            _ => self.draft.cast(weights, DType::F32, &dims),
        };
        Ok((weights, columns))
    }

    /// Adds the first input times the transposed second, plus the third if there is one.
    pub(super) fn product(&mut self, inputs: &[TensorId], shape: &[usize]) -> TensorId {
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
            y = self.draft.combine(Op::Add, [y, added], &shape);
        }
        y
    }

    /// `x` times a factor; nothing is added for a factor of 1.
    pub(super) fn scaled(&mut self, x: TensorId, factor: f32, shape: &[usize]) -> TensorId {
        if factor == 1.0 {
            return x;
        }
        let factor = self.draft.scalar(factor);
        self.draft.combine(Op::Mul, [x, factor], shape)
    }

    /// The rows `x` divided by their root mean square, times weights.
    pub(super) fn norm(&mut self, x: TensorId, weight: &str, shape: &[usize]) -> Result<TensorId> {
        let weights = self.vector(weight)?;
        let attributes = Attributes::new()
            .with_int(Attr::Axis, -1)
            .with_float(Attr::Epsilon, self.config.norm_epsilon);
        let inputs = [x, weights];
        Ok(self
            .draft
            .node(Op::RMSNormalization, &inputs, attributes, DType::F32, shape))
    }

    /// A norm's weights or a bias, as f32.
    pub(super) fn vector(&mut self, name: &str) -> Result<TensorId> {
        let values = floats(self.file, name)?;
        Ok(self.draft.floats(name, &[values.len()], &values))
    }
}
