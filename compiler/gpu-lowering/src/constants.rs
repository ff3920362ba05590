//! The constants of a lowered part, in the order in which they lie in the device's memory: bytes of the part's own, and
//! weights that kernels read as the model has them, which stay with the host until they are loaded.
//!
//! Why: a language model's weights would else be copied into the blob of each of its graphs.
//!
//! Invariants:
//! 1. Pieces are in order, do not overlap and lie within [`Constants::bytes`].
//! 2. Two programs of a model that place the same constants in the same order have the same pieces.

use polychip_lowering::TensorIndex;
use polychip_sdk::{Constant, Error, GraphView, Result};
use serde::{Deserialize, Serialize};

use crate::program::ALIGN;

/// Bytes of a block that is passed on at once: few enough to be held twice, many enough that each copy to a device takes
/// longer than starting it.
const BLOCK: usize = 8 << 20;

/// Where the bytes of a piece come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Source {
    /// From this byte of the part's own on.
    Own(u64),
    /// From this byte of a constant tensor of the graph on.
    Tensor(u32, u64),
}

/// Bytes of the constants that come from one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    at: u64,
    bytes: u64,
    source: Source,
}

/// Constants in the form that kernels read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constants {
    /// Size in the device's memory.
    bytes: u64,
    own: Vec<u8>,
    pieces: Vec<Piece>,
}

/// How far constants had come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConstantsMark {
    bytes: u64,
    own: usize,
    pieces: usize,
    /// The last piece, which may have grown since.
    last: Option<Piece>,
}

/// The place behind a section of so many bytes from `at` on.
fn behind(at: u64, bytes: u64) -> Option<u64> {
    let end = at.checked_add(bytes.checked_next_multiple_of(ALIGN)?)?;
    usize::try_from(end).is_ok().then_some(end)
}

impl Constants {
    /// Bytes of the part's own.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.own.len() as u64
    }

    pub(crate) fn mark(&self) -> ConstantsMark {
        ConstantsMark {
            bytes: self.bytes,
            own: self.own.len(),
            pieces: self.pieces.len(),
            last: self.pieces.last().copied(),
        }
    }

    pub(crate) fn back_to(&mut self, mark: ConstantsMark) {
        self.bytes = mark.bytes;
        self.own.truncate(mark.own);
        self.pieces.truncate(mark.pieces);
        if let (Some(last), Some(before)) = (self.pieces.last_mut(), mark.last) {
            *last = before;
        }
    }

    /// Room for a section of so many bytes, whose content is left open; `None` beyond the address space.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Option<u64> {
        let at = self.bytes;
        self.bytes = behind(at, bytes)?;
        Some(at)
    }

    /// Fills the last section, which begins at `at`.
    pub(crate) fn fill(&mut self, at: u64, data: &[u8]) {
        let from = self.own.len() as u64;
        self.own.extend_from_slice(data);
        self.own.resize((from + (self.bytes - at)) as usize, 0);
        let bytes = self.bytes - at;
        match self.pieces.last_mut() {
            Some(last) if matches!(last.source, Source::Own(_)) && last.at + last.bytes == at => {
                last.bytes += bytes;
            }
            _ => self.pieces.push(Piece {
                at,
                bytes,
                source: Source::Own(from),
            }),
        }
    }

    /// Fills the last section, which begins at `at`, with bytes of a constant tensor.
    pub(crate) fn fill_from(&mut self, at: u64, bytes: u64, tensor: TensorIndex, first: u64) {
        self.pieces.push(Piece {
            at,
            bytes,
            source: Source::Tensor(tensor as u32, first),
        });
    }

    pub(crate) fn own(&self) -> &[u8] {
        &self.own
    }

    /// Their size and pieces, for a blob.
    pub(crate) fn layout(&self) -> (u64, &[Piece]) {
        (self.bytes, &self.pieces)
    }
}

/// The bytes of a piece.
enum Bytes<'a> {
    Own(&'a [u8]),
    Tensor(Constant, std::ops::Range<usize>),
}

/// Constants of a blob, with their bytes where they lie.
pub struct LoadedConstants<'a> {
    bytes: u64,
    pieces: Vec<(u64, Bytes<'a>)>,
}

impl<'a> LoadedConstants<'a> {
    /// Finds the bytes of a blob's pieces.
    ///
    /// # Errors
    /// `BadBlob` where a piece leaves its source or the constants, or is of a graph that the host did not give.
    pub(crate) fn find(
        (bytes, pieces): (u64, Vec<Piece>),
        own: &'a [u8],
        graph: Option<&GraphView<'_>>,
    ) -> Result<LoadedConstants<'a>> {
        let outside = || Error::bad_blob("constants of the blob leave their memory");
        let range = |first: u64, bytes: u64, size: usize| {
            let end = first.checked_add(bytes).filter(|&end| end <= size as u64);
            end.map(|end| first as usize..end as usize).ok_or_else(outside)
        };
        let tensors = graph.map_or(0, |graph| graph.tensors().count() as u32);
        let mut found = Vec::with_capacity(pieces.len());
        let mut last = 0;
        for piece in pieces {
            let end = piece.at.checked_add(piece.bytes).filter(|&end| end <= bytes);
            if piece.at < last || !piece.at.is_multiple_of(4) {
                return Err(outside());
            }
            last = end.ok_or_else(outside)?;
            let source = match piece.source {
                Source::Own(first) => Bytes::Own(&own[range(first, piece.bytes, own.len())?]),
                Source::Tensor(tensor, first) => {
                    let graph = graph.ok_or_else(|| {
                        Error::bad_blob("the blob reads weights of its part, which is not given beside it")
                    })?;
                    let constant = (tensor < tensors)
                        .then(|| graph.tensor(tensor).constant())
                        .flatten()
                        .ok_or_else(|| {
                            Error::bad_blob("the blob reads weights that the part does not have")
                        })?;
                    let range = range(first, piece.bytes, constant.bytes().len())?;
                    Bytes::Tensor(constant, range)
                }
            };
            found.push((piece.at, source));
        }
        Ok(LoadedConstants { bytes, pieces: found })
    }

    /// Size in the device's memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Passes the pieces in order to a callback, each in one or more blocks with the byte at which it begins. What is
    /// between them is never read. Large weights are read from their file, not through its mapping: their mapped pages
    /// would count towards the process's memory, in addition to the device's copy.
    ///
    /// # Errors
    /// The first of the callback, which is not called again.
    pub fn blocks(&self, mut each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        for (at, bytes) in &self.pieces {
            match bytes {
                Bytes::Own(bytes) => each(*at, bytes)?,
                Bytes::Tensor(constant, range) => {
                    let (mut at, mut result) = (*at, Ok(()));
                    constant.pieces_of(range.clone(), BLOCK, |block| {
                        if result.is_ok() {
                            result = each(at, block);
                            at += block.len() as u64;
                        }
                    });
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Where the bytes come from: equal for two parts whose constants are the same weights of one loaded model in the
    /// same order, beside constants of their own with the same hash.
    pub fn origin(&self, hash: impl Fn(&[u8]) -> [u8; 32]) -> ConstantsOrigin {
        let pieces = self.pieces.iter().map(|(at, bytes)| match bytes {
            Bytes::Own(bytes) => (*at, OriginBytes::Own(hash(bytes))),
            Bytes::Tensor(constant, range) => {
                let bytes = &constant.bytes()[range.clone()];
                (*at, OriginBytes::Model(bytes.as_ptr().addr(), bytes.len()))
            }
        });
        ConstantsOrigin(self.bytes, pieces.collect())
    }
}

/// Where constants come from ([`LoadedConstants::origin`]). Comparable while an executable with these constants is
/// loaded, since the model's bytes neither move nor change until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantsOrigin(u64, Vec<(u64, OriginBytes)>);

impl ConstantsOrigin {
    /// Whether bytes of the model are among them, of which another copy of the model has equal ones elsewhere.
    #[must_use]
    pub fn is_of_model(&self) -> bool {
        let mut pieces = self.1.iter();
        pieces.any(|(_, bytes)| matches!(bytes, OriginBytes::Model(..)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OriginBytes {
    Own([u8; 32]),
    /// Address and size in the model's memory.
    Model(usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_constants_are_one_piece_until_a_tensor_comes_between() {
        let mut constants = Constants::default();
        for data in [&[1u8; 3][..], &[2; 300]] {
            let at = constants.reserve(data.len() as u64).unwrap();
            constants.fill(at, data);
        }
        assert_eq!(constants.pieces.len(), 1);
        let at = constants.reserve(1000).unwrap();
        constants.fill_from(at, 1000, 7, 64);
        let mark = constants.mark();
        let before = constants.clone();
        let at = constants.reserve(4).unwrap();
        constants.fill(at, &[3; 4]);
        assert_eq!((constants.pieces.len(), at), (3, 256 + 512 + 1024));
        constants.back_to(mark);
        assert_eq!(constants, before);
        let bytes = constants.bytes;
        let own =
            LoadedConstants::find((bytes, constants.pieces[..1].to_vec()), constants.own(), None).unwrap();
        let mut blocks = Vec::new();
        own.blocks(|at, bytes| {
            blocks.push((at, bytes.len(), bytes[256]));
            Ok(())
        })
        .unwrap();
        assert_eq!(blocks, [(0, 768, 2)]);
        // weights of a part that is not there, and pieces beyond their source
        let error = LoadedConstants::find((bytes, constants.pieces.clone()), constants.own(), None);
        assert!(error.is_err());
        let short = LoadedConstants::find(
            (bytes, constants.pieces[..1].to_vec()),
            &constants.own()[1..],
            None,
        );
        assert!(short.is_err());
    }
}
