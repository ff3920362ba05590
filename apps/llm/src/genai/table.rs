//! The embedding of tokens: found in the graph, cut out of it, and read row by row by the code that
//! feeds the graph.
//!
//! Invariant: a row has the values that the graph's own lookup returns.

use std::path::Path;

use half::{bf16, f16};
use polychip_graph::{Constant, Graph, Node, NodeId, TensorId};
use polychip_host::ModelFolder;
use polychip_ops::operator::{Along, Transpose};
use polychip_ops::{AttrKey, AttrValue, DType, Op};

use super::settings::Settings;
use super::tensors::{MICROSOFT, is_float, shown};
use crate::build::draft::Draft;
use crate::{Error, Result};

/// The op that looks up rows of blocks.
const BLOCKS: &str = "GatherBlockQuantized";

/// An embedding table.
#[derive(Debug)]
pub(super) struct Table {
    values: Values,
    rows: usize,
    width: usize,
    /// Type of the graph's floats.
    dtype: DType,
}

#[derive(Debug)]
enum Values {
    /// Floats `[rows, width]`, or `[width, rows]`.
    Floats { stored: Constant, transposed: bool },
    /// Codes of `bits` bits, in blocks with a scale and a zero point.
    Blocks {
        bits: usize,
        block: usize,
        codes: Constant,
        scales: Constant,
        zeros: Option<Constant>,
    },
}

/// The only node that looks up tokens.
fn lookup(graph: &Graph, ids: TensorId) -> Result<NodeId> {
    let mut found = None;
    for &id in graph.consumers(ids) {
        let node = graph.node(id);
        let looks = node.op == Op::Gather || (&*node.domain, &*node.op_name) == (MICROSOFT, BLOCKS);
        if looks && node.input(1) == Some(ids) && found.replace(id).is_some() {
            return Err(Error::unsupported(
                "two embedding lookups in one graph are not supported",
            ));
        }
    }
    found.ok_or_else(|| {
        Error::unsupported(format!(
            "the graph does not look {:?} up in a table: no Gather or {MICROSOFT}.{BLOCKS} reads it",
            graph.tensor(ids).name
        ))
    })
}

/// A constant, possibly after a Reshape.
fn constant(graph: &Graph, id: TensorId) -> Option<(Constant, DType)> {
    let tensor = graph.tensor(id);
    if let Some(data) = &tensor.data {
        return Some((data.clone(), tensor.ty.dtype));
    }
    let node = graph.node(graph.producer(id)?);
    let from = node.input(0).filter(|_| node.op == Op::Reshape)?;
    let tensor = graph.tensor(from);
    Some((tensor.data.clone()?, tensor.ty.dtype))
}

impl Table {
    pub(super) fn find(graph: &Graph, settings: &Settings) -> Result<Table> {
        let ids = graph
            .input_named(&settings.input_ids)
            .ok_or_else(|| Error::config(format!("the graph has no input {:?}", settings.input_ids)))?;
        let node = graph.node(lookup(graph, ids)?);
        let refuse = |why: &str| {
            Err(Error::unsupported(format!(
                "embedding lookup {:?} ({}): {why}",
                node.name,
                node.label()
            )))
        };
        let (rows, width) = (
            settings.sizes.vocabulary as usize,
            settings.sizes.embedding as usize,
        );
        let Some(from) = node.input(0) else {
            return refuse("it has no table");
        };
        let (values, dtype) = match node.op {
            Op::Gather => {
                match node.typed::<Along>() {
                    Ok(gather) if gather.axis == 0 => {}
                    Ok(_) => return refuse("its axis must be 0"),
                    Err(error) => return refuse(&error.to_string()),
                }
                let transposition = graph.producer(from).map(|id| graph.node(id));
                let transposed = transposition.filter(|node| {
                    let swaps = |transpose: Transpose| transpose.perm.is_none_or(|perm| perm == [1, 0]);
                    node.typed().is_ok_and(swaps)
                });
                let (stored, transposed) = match transposed.and_then(|node| node.input(0)) {
                    Some(from) => (from, true),
                    None => (from, false),
                };
                let tensor = graph.tensor(stored);
                let Some(data) = tensor.data.clone() else {
                    return refuse("its table is not a constant");
                };
                let mut shape = tensor.ty.sizes().unwrap_or_default();
                if transposed {
                    shape.reverse();
                }
                if !is_float(tensor.ty.dtype) {
                    return refuse("its table must have a float type");
                }
                if shape.len() != 2 || shape[0] < rows || shape[1] != width {
                    return refuse(&format!(
                        "its table has shape {shape:?}, not that of {rows} tokens of width {width}"
                    ));
                }
                let rows = shape[0];
                let values = Values::Floats {
                    stored: data,
                    transposed,
                };
                return Ok(Table {
                    values,
                    rows,
                    width,
                    dtype: tensor.ty.dtype,
                });
            }
            _ => blocks(graph, node, rows, width)?,
        };
        Ok(Table {
            values,
            rows,
            width,
            dtype,
        })
    }

    /// Connects the readers of the lookup to the embedded tokens.
    pub(super) fn cut(
        &self,
        draft: &mut Draft,
        ids: TensorId,
        embedded: TensorId,
        rows: usize,
        width: usize,
    ) -> Result<()> {
        let node = lookup(draft.graph(), ids)?;
        let shape = [1, rows, width];
        let mut x = draft.reshape(embedded, DType::F32, &shape);
        if self.dtype != DType::F32 {
            x = draft.cast(x, self.dtype, &shape);
        }
        let graph = draft.graph_mut();
        let node = graph.remove_node(node);
        if let Some(output) = node.output(0) {
            graph.replace_uses(output, x);
        }
        Ok(())
    }

    /// Writes a row; `files` are the names of the graph's files.
    pub(super) fn row(
        &self,
        folder: &ModelFolder,
        files: &[String],
        row: usize,
        out: &mut [f32],
    ) -> Result<()> {
        if row >= self.rows || out.len() != self.width {
            return Err(Error::tokenizer(format!(
                "token {row} exceeds the table of {} tokens",
                self.rows
            )));
        }
        let read = |constant: &Constant, start: usize, len: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            // read, not looked at in the mapping: pages that are looked at stay in memory
            let done = match constant.file {
                None => {
                    bytes.copy_from_slice(&constant.bytes[start..start + len]);
                    return Ok(bytes);
                }
                Some(place) => {
                    let offset = place.offset as usize + start;
                    match files.get(place.file as usize).map_or("", String::as_str) {
                        "" => folder.read_at(offset, &mut bytes),
                        name => folder.read_external_at(name, offset, &mut bytes),
                    }
                }
            };
            done.map_err(|source| Error::file(Path::new("embedding table"), source))?;
            Ok(bytes)
        };
        match &self.values {
            Values::Floats {
                stored,
                transposed: false,
            } => {
                let size = float_bytes(self.dtype);
                let bytes = read(stored, row * self.width * size, self.width * size)?;
                let all = bytes.chunks_exact(size);
                all.zip(out)
                    .for_each(|(bytes, out)| *out = float(self.dtype, bytes));
            }
            Values::Floats { stored, .. } => {
                let size = float_bytes(self.dtype);
                for (column, out) in out.iter_mut().enumerate() {
                    let at = (column * self.rows + row) * size;
                    *out = float(self.dtype, &stored.bytes[at..at + size]);
                }
            }
            Values::Blocks {
                bits,
                block,
                codes,
                scales,
                zeros,
            } => {
                let per_row = self.width / block;
                let bytes = self.width * bits / 8;
                let codes = read(codes, row * bytes, bytes)?;
                let size = float_bytes(self.dtype);
                let scales = read(scales, row * per_row * size, per_row * size)?;
                let zero_bytes = (per_row * bits).div_ceil(8);
                let zeros = match zeros {
                    Some(zeros) => Some(read(zeros, row * zero_bytes, zero_bytes)?),
                    None => None,
                };
                for (at, out) in out.iter_mut().enumerate() {
                    let group = at / block;
                    let zero = match &zeros {
                        Some(zeros) => code(zeros, *bits, group),
                        None => 1 << (bits - 1),
                    };
                    let scale = float(self.dtype, &scales[group * size..][..size]);
                    *out = (f32::from(code(&codes, *bits, at)) - f32::from(zero)) * scale;
                }
            }
        }
        Ok(())
    }
}

/// The code at an index of a packed row, the first in the low bits.
fn code(bytes: &[u8], bits: usize, at: usize) -> u8 {
    match bits {
        4 => bytes[at / 2] >> (at % 2 * 4) & 15,
        _ => bytes[at],
    }
}

fn float_bytes(dtype: DType) -> usize {
    if dtype == DType::F32 { 4 } else { 2 }
}

fn float(dtype: DType, bytes: &[u8]) -> f32 {
    match (dtype, bytes) {
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        _ => f32::NAN,
    }
}

/// The table of a GatherBlockQuantized, and the float type of its output.
fn blocks(graph: &Graph, node: &Node, rows: usize, width: usize) -> Result<(Values, DType)> {
    let refuse = |why: String| {
        Error::unsupported(format!(
            "embedding lookup {:?} ({}): {why}",
            node.name,
            node.label()
        ))
    };
    for (key, value) in node.attributes.iter() {
        let names = ["bits", "block_size", "gather_axis", "quantize_axis"];
        if !(names.contains(&key.name()) && matches!(value, AttrValue::Int(_))) {
            return Err(refuse(format!(
                "attribute {:?} is {}, which is not supported",
                key.name(),
                shown(value)
            )));
        }
    }
    if let Some(slot) = node.inputs.iter().skip(4).position(Option::is_some) {
        return Err(refuse(format!(
            "input {} is not known, so it is not supported",
            slot + 4
        )));
    }
    let int = |name: &str| match node.attributes.get_key(&AttrKey::from_name(name)) {
        Some(AttrValue::Int(value)) => Some(*value),
        _ => None,
    };
    let bits = match int("bits").unwrap_or(4) {
        4 => 4,
        8 => 8,
        other => return Err(refuse(format!("{other} bits are not supported"))),
    };
    let block = usize::try_from(int("block_size").unwrap_or(128)).unwrap_or(0);
    if int("gather_axis").unwrap_or(0) != 0 || !matches!(int("quantize_axis").unwrap_or(1), 1 | -1) {
        return Err(refuse("its axes must be 0 and 1".to_owned()));
    }
    if block < 16 || !width.is_multiple_of(block) {
        return Err(refuse(format!(
            "blocks of {block} do not fill the width of {width}"
        )));
    }
    let part = |slot: usize, what: &str| {
        let found = node.input(slot).and_then(|id| constant(graph, id));
        found.ok_or_else(|| refuse(format!("its {what} are not constant")))
    };
    let (codes, code_type) = part(0, "codes")?;
    let (scales, dtype) = part(2, "scales")?;
    let zeros = match node.input(3) {
        Some(_) => Some(part(3, "zero points")?.0),
        None => None,
    };
    let per_row = width / block;
    // a size that overflows cannot be a file's
    let holds = |constant: &Constant, row: usize| rows.checked_mul(row) == Some(constant.bytes.len());
    let fits = code_type == DType::U8
        && is_float(dtype)
        && width
            .checked_mul(bits)
            .is_some_and(|row| row.is_multiple_of(8) && holds(&codes, row / 8))
        && holds(&scales, per_row * float_bytes(dtype))
        && zeros
            .as_ref()
            .is_none_or(|zeros| holds(zeros, (per_row * bits).div_ceil(8)));
    if !fits {
        return Err(refuse(format!(
            "its table is not that of {rows} tokens of width {width}"
        )));
    }
    let values = Values::Blocks {
        bits,
        block,
        codes,
        scales,
        zeros,
    };
    Ok((values, dtype))
}
