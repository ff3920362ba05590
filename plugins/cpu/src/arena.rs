//! Offsets in the arena: pieces of memory placed by decreasing size at the lowest free offset.
//!
//! Invariants:
//! 1. Two pieces that live at the same step never overlap.
//! 2. Same pieces, same offsets.
//!
//! Not here: what the pieces are and how long they live (`lower`).

use polychip_cpu_kernels::AlignedVec;
use polychip_sdk::{Error, ErrorKind, Result};

/// Zeroed memory for `floats` floats; sizes come from models, so memory may not hold them.
pub(crate) fn memory(floats: usize, what: &str) -> Result<AlignedVec> {
    AlignedVec::try_zeroed(floats).ok_or_else(|| {
        let bytes = floats.saturating_mul(4);
        Error::new(
            ErrorKind::OutOfMemory,
            format!("no memory for {bytes} bytes of {what}"),
        )
    })
}

/// Alignment of every piece, in bytes: a cache line and the widest vector.
pub(crate) const ALIGN: usize = 64;

/// A piece of memory that lives from step `first` to step `last`, both included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Size, in bytes.
    pub(crate) bytes: usize,
    /// First step that touches it.
    pub(crate) first: usize,
    /// Last step that touches it.
    pub(crate) last: usize,
}

/// Places `pieces`: their offsets and the size of the arena, in bytes; `None` where it does not fit the
/// address space.
pub(crate) fn plan(pieces: &[Piece]) -> Option<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(pieces[i].bytes), pieces[i].first, i));
    let mut offsets = vec![0usize; pieces.len()];
    // placed pieces by offset, so that one pass finds the lowest gap
    let mut placed: Vec<usize> = Vec::with_capacity(pieces.len());
    let mut total = 0usize;
    for i in order {
        let piece = pieces[i];
        let bytes = piece.bytes.checked_next_multiple_of(ALIGN)?;
        let mut at = 0usize;
        for &other in &placed {
            let neighbour = pieces[other];
            if neighbour.last < piece.first || piece.last < neighbour.first {
                continue;
            }
            if at.checked_add(bytes)? <= offsets[other] {
                break;
            }
            at = at.max(offsets[other] + neighbour.bytes.next_multiple_of(ALIGN));
        }
        offsets[i] = at;
        total = total.max(at.checked_add(bytes)?);
        let position = placed.partition_point(|&other| offsets[other] <= at);
        placed.insert(position, i);
    }
    (total <= isize::MAX as usize).then_some((offsets, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlaps(pieces: &[Piece], offsets: &[usize], a: usize, b: usize) -> bool {
        let time = pieces[a].first <= pieces[b].last && pieces[b].first <= pieces[a].last;
        let place = offsets[a] < offsets[b] + pieces[b].bytes && offsets[b] < offsets[a] + pieces[a].bytes;
        time && place
    }

    #[test]
    fn a_chain_needs_two_places() {
        let pieces: Vec<_> = (0..10)
            .map(|i| Piece {
                bytes: 100,
                first: i,
                last: i + 1,
            })
            .collect();
        let (offsets, total) = plan(&pieces).unwrap();
        assert_eq!(total, 256);
        assert!(offsets.iter().all(|&offset| offset == 0 || offset == 128));
    }

    #[test]
    fn an_arena_beyond_the_address_space_is_refused() {
        let piece = Piece {
            bytes: isize::MAX as usize - 100,
            first: 0,
            last: 1,
        };
        assert!(plan(&[piece, piece]).is_none());
    }

    proptest! {
        #[test]
        fn pieces_alive_together_never_overlap(
            pieces in prop::collection::vec((0usize..1000, 0usize..30, 0usize..6), 0..40)
        ) {
            let pieces: Vec<Piece> = pieces
                .into_iter()
                .map(|(bytes, first, life)| Piece { bytes, first, last: first + life })
                .collect();
            let (offsets, total) = plan(&pieces).unwrap();
            for a in 0..pieces.len() {
                prop_assert_eq!(offsets[a] % ALIGN, 0);
                prop_assert!(offsets[a] + pieces[a].bytes <= total);
                for b in 0..a {
                    prop_assert!(!overlaps(&pieces, &offsets, a, b), "{} and {}", a, b);
                }
            }
        }
    }
}
