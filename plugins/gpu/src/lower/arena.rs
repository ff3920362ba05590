//! Offsets in the arena: pieces of memory placed by decreasing size at the lowest free offset.
//!
//! Invariants:
//! 1. Two pieces that live at the same step never overlap; each starts at a multiple of [`ALIGN`].
//! 2. Same pieces, same offsets.
//!
//! Not here: what the pieces are and how long they live (`finish`).

use crate::program::ALIGN;

/// A piece of memory that lives from step `first` to step `last`, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Size, in bytes.
    pub(super) bytes: u64,
    /// First step that touches it.
    pub(super) first: usize,
    /// Last step that touches it.
    pub(super) last: usize,
}

/// Places `pieces`: their offsets and the size of the arena, in bytes; `None` where it does not fit a number.
pub(super) fn plan(pieces: &[Piece]) -> Option<(Vec<u64>, u64)> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(pieces[i].bytes), pieces[i].first, i));
    let mut offsets = vec![0u64; pieces.len()];
    // placed pieces by offset, so that one pass finds the lowest gap
    let mut placed: Vec<usize> = Vec::with_capacity(pieces.len());
    let mut total = 0u64;
    for i in order {
        let piece = pieces[i];
        let bytes = piece.bytes.checked_next_multiple_of(ALIGN)?;
        let mut at = 0u64;
        for &other in &placed {
            let neighbour = pieces[other];
            if neighbour.last < piece.first || piece.last < neighbour.first {
                continue;
            }
            if at.checked_add(bytes)? <= offsets[other] {
                break;
            }
            at = at.max(offsets[other].checked_add(neighbour.bytes.checked_next_multiple_of(ALIGN)?)?);
        }
        offsets[i] = at;
        total = total.max(at.checked_add(bytes)?);
        let position = placed.partition_point(|&other| offsets[other] <= at);
        placed.insert(position, i);
    }
    Some((offsets, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_needs_two_places_and_neighbours_never_overlap() {
        let pieces: Vec<Piece> = (0..9)
            .map(|i| Piece {
                bytes: 1000,
                first: i,
                last: i + 1,
            })
            .collect();
        let (offsets, total) = plan(&pieces).unwrap();
        assert_eq!(total, 2048);
        for pair in offsets.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        assert!(offsets.iter().all(|offset| offset % ALIGN == 0));
    }

    #[test]
    fn sizes_beyond_a_number_are_refused() {
        let piece = Piece {
            bytes: u64::MAX - 300,
            first: 0,
            last: 0,
        };
        assert!(plan(&[piece, piece]).is_none());
    }
}
