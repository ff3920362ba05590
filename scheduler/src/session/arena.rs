//! The memory layout of crossings: one shared arena per run slot, in which tensors that are never
//! live together share bytes.
//!
//! Invariants:
//! 1. Two tensors overlap only if every part that uses one ends before the other's writer starts,
//!    in any order of independent parts.
//! 2. Offsets are multiples of [`ALIGNMENT`], and of the alignment that the tensor's ports require.

/// Alignment of every tensor: what GPUs ask of the offset of a binding at most, and more than a cache line or the
/// widest vector.
pub(crate) const ALIGNMENT: u64 = 256;

/// One tensor in the arena.
#[derive(Debug, Clone)]
pub(crate) struct Resident {
    pub(crate) bytes: u64,
    /// What its ports ask, a power of two.
    pub(crate) alignment: u64,
    /// The part that writes it.
    pub(crate) writer: usize,
    /// The parts that read it.
    pub(crate) readers: Vec<usize>,
}

/// Offsets by tensor, and the bytes of the whole arena.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) offsets: Vec<u64>,
    pub(crate) bytes: u64,
}

/// Places tensors, largest first, at the lowest offset that is free. `after[p]` lists the parts that end
/// before part `p` starts, all with lower indices.
pub(crate) fn place(residents: &[Resident], after: &[Vec<usize>]) -> Layout {
    let before = ancestors(after);
    // `a` is dead before `b` is written: all users of `a` end before the writer of `b` starts
    let dead_before = |a: &Resident, b: &Resident| {
        std::iter::once(&a.writer)
            .chain(&a.readers)
            .all(|user| before[b.writer][*user])
    };
    let mut order: Vec<usize> = (0..residents.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(residents[*index].bytes), *index));
    let mut offsets = vec![0; residents.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut end = 0;
    for index in order {
        let resident = &residents[index];
        let mut busy: Vec<(u64, u64)> = placed
            .iter()
            .filter(|other| {
                let other = &residents[**other];
                !dead_before(resident, other) && !dead_before(other, resident)
            })
            .map(|other| (offsets[*other], offsets[*other] + residents[*other].bytes))
            .collect();
        busy.sort_unstable();
        let mut offset = 0;
        for (start, stop) in busy {
            if offset + resident.bytes <= start {
                break;
            }
            offset = offset.max(stop.next_multiple_of(ALIGNMENT.max(resident.alignment)));
        }
        offsets[index] = offset;
        end = end.max(offset + resident.bytes);
        placed.push(index);
    }
    Layout { offsets, bytes: end }
}

/// For each part, which parts have ended before it starts. Not petgraph's closure, which takes more lines to fill and read.
fn ancestors(after: &[Vec<usize>]) -> Vec<Vec<bool>> {
    let mut before: Vec<Vec<bool>> = Vec::with_capacity(after.len());
    for direct in after {
        let mut all = vec![false; after.len()];
        for &part in direct {
            all[part] = true;
            for (index, earlier) in before[part].iter().enumerate() {
                all[index] |= *earlier;
            }
        }
        before.push(all);
    }
    before
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn resident(bytes: u64, writer: usize, readers: &[usize]) -> Resident {
        Resident {
            bytes,
            alignment: 1,
            writer,
            readers: readers.to_vec(),
        }
    }

    #[test]
    fn chains_reuse_bytes_and_branches_do_not() {
        let chain = [vec![], vec![0], vec![1], vec![2]];
        let layout = place(
            &[
                resident(100, 0, &[1]),
                resident(80, 1, &[2]),
                resident(90, 2, &[3]),
            ],
            &chain,
        );
        assert_eq!(layout.offsets, [0, 256, 0]);
        assert_eq!(layout.bytes, 336);
        // parts 1 and 2 may run at once, so what they write must not overlap, nor what they read
        let fork = [vec![], vec![0], vec![0], vec![1, 2]];
        let layout = place(
            &[
                resident(64, 0, &[1]),
                resident(64, 1, &[3]),
                resident(64, 2, &[3]),
            ],
            &fork,
        );
        assert_eq!(layout.bytes, 576);
    }

    #[test]
    fn page_alignment_is_granted() {
        let paged = Resident {
            alignment: 4096,
            ..resident(10, 1, &[2])
        };
        let layout = place(&[resident(300, 0, &[1]), paged], &[vec![], vec![0], vec![1]]);
        assert_eq!(layout.offsets, [0, 4096]);
    }

    proptest::proptest! {
        #[test]
        fn concurrently_live_tensors_never_overlap(seed in proptest::prelude::any::<u64>()) {
            let mut numbers = ChaCha8Rng::seed_from_u64(seed);
            let mut next = |most: u64| numbers.random_range(0..most);
            let parts = 2 + next(6) as usize;
            let after: Vec<Vec<usize>> =
                (0..parts).map(|part| (0..part).filter(|_| next(2) == 0).collect()).collect();
            let mut residents = Vec::new();
            for writer in 0..parts - 1 {
                let readers: Vec<usize> = (writer + 1..parts).filter(|part| after[*part].contains(&writer)).collect();
                if !readers.is_empty() {
                    residents.push(Resident { bytes: 1 + next(300), alignment: 1, writer, readers });
                }
            }
            let layout = place(&residents, &after);
            // independent statement of the rule: simulate every order of parts by brute force reachability
            let reaches = |from: usize, to: usize| {
                let mut stack = vec![to];
                while let Some(part) = stack.pop() {
                    if part == from { return true; }
                    stack.extend(&after[part]);
                }
                false
            };
            for (i, a) in residents.iter().enumerate() {
                for (j, b) in residents.iter().enumerate().skip(i + 1) {
                    let ends_first = |x: &Resident, y: &Resident| {
                        x.readers.iter().all(|r| *r != y.writer && reaches(*r, y.writer)) && reaches(x.writer, y.writer)
                    };
                    let (start, stop) = (layout.offsets[i], layout.offsets[i] + a.bytes);
                    let (other, end) = (layout.offsets[j], layout.offsets[j] + b.bytes);
                    let apart = stop <= other || end <= start;
                    proptest::prop_assert!(apart || ends_first(a, b) || ends_first(b, a));
                }
            }
        }
    }
}
