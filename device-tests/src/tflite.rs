//! The ops of a .tflite model, read from its FlatBuffer bytes.
//!
//! Invariant: no byte is trusted: an offset that leaves the file is an error, never a panic.
//!
//! Not here: what the ops compute; LiteRT itself is asked for that.

use anyhow::{Context, Result, ensure};

/// LiteRT's op in the place of what a vendor's plugin took.
const DISPATCH: &str = "DISPATCH_OP";

/// The ops of all graphs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Ops of LiteRT's own, and custom ones.
    pub own: usize,
    /// Pieces that a vendor's plugin took.
    pub pieces: usize,
}

/// Counts the ops of a model.
///
/// # Errors
/// The bytes are no .tflite model.
pub fn ops(bytes: &[u8]) -> Result<Ops> {
    ensure!(bytes.get(4..8) == Some(b"TFL3"), "the bytes are no .tflite model");
    count(bytes).context("an offset leaves the model")
}

fn count(bytes: &[u8]) -> Option<Ops> {
    let model = Table {
        bytes,
        at: word(bytes, 0)?,
    };
    let mut pieces = Vec::new();
    for code in model.tables(1)? {
        pieces.push(code.text(1)? == Some(DISPATCH.as_bytes()));
    }
    let mut ops = Ops { own: 0, pieces: 0 };
    for graph in model.tables(2)? {
        for operator in graph.tables(3)? {
            if *pieces.get(operator.number(0)?)? {
                ops.pieces += 1
            } else {
                ops.own += 1
            }
        }
    }
    Some(ops)
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*word)).ok()
}

/// A table of a FlatBuffer: its first word leads back to the list of where its fields lie.
#[derive(Clone, Copy)]
struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// Where a field lies; `None` inside where it is left out.
    fn field(self, number: usize) -> Option<Option<usize>> {
        let back = word(self.bytes, self.at)? as u32;
        let list = self.at.checked_add_signed(-(back.cast_signed() as isize))?;
        let short = |at: usize| -> Option<usize> {
            let short = self.bytes.get(at..)?.first_chunk()?;
            Some(usize::from(u16::from_le_bytes(*short)))
        };
        let entry = 4 + 2 * number;
        if entry + 2 > short(list)? {
            return Some(None);
        }
        Some(match short(list.checked_add(entry)?)? {
            0 => None,
            offset => Some(self.at.checked_add(offset)?),
        })
    }

    /// A number of 32 bits, 0 where it is left out.
    fn number(self, field: usize) -> Option<usize> {
        match self.field(field)? {
            Some(at) => word(self.bytes, at),
            None => Some(0),
        }
    }

    /// What a field leads to: where it begins, and how many elements it has.
    fn list(self, field: usize) -> Option<Option<(usize, usize)>> {
        let Some(at) = self.field(field)? else {
            return Some(None);
        };
        let at = at.checked_add(word(self.bytes, at)?)?;
        Some(Some((at + 4, word(self.bytes, at)?)))
    }

    fn text(self, field: usize) -> Option<Option<&'a [u8]>> {
        match self.list(field)? {
            Some((at, len)) => Some(Some(self.bytes.get(at..at.checked_add(len)?)?)),
            None => Some(None),
        }
    }

    fn tables(self, field: usize) -> Option<Vec<Table<'a>>> {
        let mut tables = Vec::new();
        if let Some((start, count)) = self.list(field)? {
            for number in 0..count {
                let at = start.checked_add(number.checked_mul(4)?)?;
                tables.push(Table {
                    bytes: self.bytes,
                    at: at.checked_add(word(self.bytes, at)?)?,
                });
            }
        }
        Some(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of two op codes, the second of which is a piece, and one graph with three ops.
    fn model() -> Vec<u8> {
        fn put(bytes: &mut Vec<u8>, words: &[u32]) -> usize {
            let at = bytes.len();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            at
        }
        /// A table whose fields are all words: those that are there, by number.
        fn table(bytes: &mut Vec<u8>, fields: usize, there: &[usize]) -> usize {
            let list = bytes.len();
            let size = 4 + 2 * fields;
            let mut shorts = vec![0u16; 2 + fields];
            shorts[0] = size as u16;
            shorts[1] = 4 + 4 * there.len() as u16;
            for (place, &field) in there.iter().enumerate() {
                shorts[2 + field] = 4 + 4 * place as u16;
            }
            bytes.extend(shorts.iter().flat_map(|short| short.to_le_bytes()));
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let at = bytes.len();
            put(bytes, &[(at - list) as u32]);
            put(bytes, &vec![0; there.len()]);
            at
        }
        fn lead(bytes: &mut [u8], from: usize, to: usize) {
            bytes[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
        }
        let mut bytes = Vec::new();
        put(&mut bytes, &[0, u32::from_le_bytes(*b"TFL3")]);
        let model = table(&mut bytes, 3, &[1, 2]);
        lead(&mut bytes, 0, model);
        let codes = put(&mut bytes, &[2, 0, 0]);
        lead(&mut bytes, model + 4, codes);
        let plain = table(&mut bytes, 2, &[]);
        lead(&mut bytes, codes + 4, plain);
        let piece = table(&mut bytes, 2, &[1]);
        lead(&mut bytes, codes + 8, piece);
        let text = put(&mut bytes, &[DISPATCH.len() as u32]);
        bytes.extend(DISPATCH.bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        lead(&mut bytes, piece + 4, text);
        let graphs = put(&mut bytes, &[1, 0]);
        lead(&mut bytes, model + 8, graphs);
        let graph = table(&mut bytes, 4, &[3]);
        lead(&mut bytes, graphs + 4, graph);
        let operators = put(&mut bytes, &[3, 0, 0, 0]);
        lead(&mut bytes, graph + 4, operators);
        for (place, code) in [0, 1, 0].into_iter().enumerate() {
            let operator = table(&mut bytes, 1, &[0]);
            lead(&mut bytes, operators + 4 + 4 * place, operator);
            bytes[operator + 4] = code;
        }
        bytes
    }

    #[test]
    fn pieces_are_told_from_ops() {
        assert_eq!(ops(&model()).unwrap(), Ops { own: 2, pieces: 1 });
        assert!(ops(b"PK\x03\x04....").is_err());
    }

    #[test]
    fn no_changed_byte_and_no_cut_panics() {
        let whole = model();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_add(0x7f);
            let _ = ops(&changed);
            let _ = ops(&whole[..at]);
        }
    }
}
