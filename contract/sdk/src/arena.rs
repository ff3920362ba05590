//! Offsets of pieces of memory in an arena. Each piece gets the lowest offset that is free while it
//! lives. Several orders of the pieces are tried, and the smallest arena is used.
//!
//! Invariants:
//! 1. Two pieces that live at the same step never overlap; each starts at a multiple of the
//!    alignment.
//! 2. The same pieces yield the same offsets.
//! 3. An arena is never smaller than [`bound`], and never larger than the one for the order by
//!    decreasing size. (The latter does not hold beyond a number of pieces that no network
//!    reaches.)
//!
//! Not here: the pieces and their lifetimes (a plugin's lowering), the memory itself.

/// Limit on the number of neighbours that the search for gaps examines, over all orders. Networks
/// have thousands of pieces and need a thousandth of it. Beyond the limit, pieces are placed at the
/// end.
const LOOKS: usize = 1 << 28;

/// A piece of memory that lives from step `first` to step `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Size, in bytes.
    pub bytes: u64,
    /// First step that touches it.
    pub first: usize,
    /// Last step that touches it.
    pub last: usize,
}

/// Places `pieces` at multiples of `align`. Returns their offsets and the size of the arena, in
/// bytes; `None` if the size exceeds `isize::MAX`.
///
/// ```
/// use polychip_sdk::arena::{Piece, plan};
/// // the first and the third are never alive at the same step
/// let pieces = [(0, 1), (1, 2), (2, 3)].map(|(first, last)| Piece { bytes: 100, first, last });
/// assert_eq!(plan(&pieces, 64), Some((vec![0, 128, 0], 256)));
/// ```
///
/// # Panics
/// If `align` is 0.
#[must_use]
pub fn plan(pieces: &[Piece], align: u64) -> Option<(Vec<u64>, u64)> {
    let least = bound(pieces, align)?;
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    let mut best: Option<(Vec<u64>, u64)> = None;
    let mut looks = LOOKS;
    // what is hard to place goes first: large pieces, those that are large for long, those that live long
    let keys: [fn(&Piece) -> u128; 3] = [
        |piece| u128::from(piece.bytes),
        |piece| u128::from(piece.bytes) * piece.steps(),
        |piece| piece.steps() << 64 | u128::from(piece.bytes),
    ];
    for key in keys {
        order.sort_by_key(|&i| (std::cmp::Reverse(key(&pieces[i])), pieces[i].first, i));
        let found = place(pieces, &order, align, &mut looks)?;
        if best.as_ref().is_none_or(|best| found.1 < best.1) {
            best = Some(found);
        }
        if looks == 0 || best.as_ref().is_some_and(|best| best.1 == least) {
            break;
        }
    }
    best.filter(|(_, total)| *total <= isize::MAX as u64)
}

/// Lower bound on the size of an arena for `pieces`: the most bytes that live at the same step.
/// `None` if it exceeds `u64`.
///
/// # Panics
/// If `align` is 0.
#[must_use]
pub fn bound(pieces: &[Piece], align: u64) -> Option<u64> {
    // at equal steps what has ended comes first
    let mut changes = Vec::with_capacity(2 * pieces.len());
    for piece in pieces {
        let bytes = piece.bytes.checked_next_multiple_of(align)?;
        changes.push((piece.first, true, bytes));
        changes.push((piece.last.checked_add(1)?, false, bytes));
    }
    changes.sort_unstable();
    let (mut alive, mut most) = (0u64, 0);
    for (_, begins, bytes) in changes {
        alive = if begins {
            alive.checked_add(bytes)?
        } else {
            alive - bytes
        };
        most = most.max(alive);
    }
    Some(most)
}

impl Piece {
    fn steps(&self) -> u128 {
        (self.last - self.first) as u128 + 1
    }
}

/// Places pieces in this order, each at the lowest offset that is free while it lives, as long as
/// `looks` are left.
fn place(pieces: &[Piece], order: &[usize], align: u64, looks: &mut usize) -> Option<(Vec<u64>, u64)> {
    let mut offsets = vec![0u64; pieces.len()];
    // placed pieces by offset, so that one pass finds the lowest gap
    let mut placed: Vec<usize> = Vec::with_capacity(pieces.len());
    let mut total = 0u64;
    for &i in order {
        let piece = pieces[i];
        let bytes = piece.bytes.checked_next_multiple_of(align)?;
        let gaps = *looks >= placed.len();
        *looks = looks.saturating_sub(placed.len());
        let mut at = if gaps { 0 } else { total };
        for &other in if gaps { placed.as_slice() } else { &[] } {
            let neighbour = pieces[other];
            if neighbour.last < piece.first || piece.last < neighbour.first {
                continue;
            }
            if at.checked_add(bytes)? <= offsets[other] {
                break;
            }
            at = at.max(offsets[other].checked_add(neighbour.bytes.checked_next_multiple_of(align)?)?);
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

    const ALIGN: u64 = 64;
    use proptest::prelude::*;

    fn overlaps(pieces: &[Piece], offsets: &[u64], a: usize, b: usize) -> bool {
        let time = pieces[a].first <= pieces[b].last && pieces[b].first <= pieces[a].last;
        let place = offsets[a] < offsets[b] + pieces[b].bytes && offsets[b] < offsets[a] + pieces[a].bytes;
        time && place
    }

    #[test]
    fn chain_needs_two_offsets() {
        let pieces: Vec<_> = (0..10)
            .map(|i| Piece {
                bytes: 100,
                first: i,
                last: i + 1,
            })
            .collect();
        let (offsets, total) = plan(&pieces, ALIGN).unwrap();
        assert_eq!(total, 256);
        assert!(offsets.iter().all(|&offset| offset == 0 || offset == 128));
    }

    #[test]
    fn arena_beyond_the_address_space_is_refused() {
        let piece = Piece {
            bytes: isize::MAX as u64 - 100,
            first: 0,
            last: 1,
        };
        assert!(plan(&[piece, piece], ALIGN).is_none());
    }

    #[test]
    fn hundred_thousand_overlapping_pieces_are_placed() {
        let piece = Piece {
            bytes: 8,
            first: 0,
            last: 1,
        };
        let count = 100_000;
        let (mut offsets, total) = plan(&vec![piece; count], ALIGN).unwrap();
        assert_eq!(total, count as u64 * ALIGN);
        offsets.sort_unstable();
        assert!(offsets.iter().zip(0..).all(|(&offset, k)| offset == k * ALIGN));
    }

    proptest! {
        #[test]
        fn pieces_with_overlapping_lifetimes_never_overlap(
            pieces in prop::collection::vec((0u64..1000, 0usize..30, 0usize..6), 0..40)
        ) {
            let pieces: Vec<Piece> = pieces
                .into_iter()
                .map(|(bytes, first, life)| Piece { bytes, first, last: first + life })
                .collect();
            let (offsets, total) = plan(&pieces, ALIGN).unwrap();
            let alive = |step: usize| -> u64 {
                let pieces = pieces.iter().filter(|piece| piece.first <= step && step <= piece.last);
                pieces.map(|piece| piece.bytes.next_multiple_of(ALIGN)).sum()
            };
            prop_assert_eq!(bound(&pieces, ALIGN), (0..36).map(alive).max());
            prop_assert!(bound(&pieces, ALIGN).unwrap() <= total);
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
