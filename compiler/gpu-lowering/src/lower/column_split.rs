//! Splits products and convolutions whose packed weights exceed the largest binding: each launch computes a range of the
//! output's columns and writes it in place.
//!
//! Invariants:
//! 1. The ranges cover each column once, in order; each but the last has a multiple of four columns.
//! 2. If not even four columns fit a binding, the output is not split, and the limit refuses it.

use std::borrow::Cow;

use polychip_gpu_kernels::{Columns, Epilogue, Limits};

/// The preferred granularity of ranges: then only the last range has a tile at an edge.
const UNIT: u64 = 64;

/// The columns of an output that one launch computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnRange {
    first: u32,
    count: u32,
    all: u32,
}

impl ColumnRange {
    /// All columns of an output.
    pub(super) fn whole(all: u32) -> ColumnRange {
        ColumnRange {
            first: 0,
            count: all,
            all,
        }
    }

    /// The first column.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Number of columns.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    fn is_whole(&self) -> bool {
        self.count == self.all
    }

    /// The epilogue of the launch, from that of all columns.
    pub(super) fn epilogue(&self, all: &Epilogue) -> Epilogue {
        Epilogue {
            columns: (!self.is_whole()).then_some(Columns {
                first: self.first,
                all: self.all,
            }),
            ..all.clone()
        }
    }

    /// Its columns of weights `[.., columns, inner]`.
    pub(super) fn of<'a, T: Copy>(&self, weights: &'a [T], inner: usize) -> Cow<'a, [T]> {
        let row = (self.all as usize).saturating_mul(inner);
        if self.is_whole() || row == 0 {
            return Cow::Borrowed(weights);
        }
        let (from, to) = (
            self.first as usize * inner,
            (self.first as usize + self.count as usize) * inner,
        );
        let rows = weights.chunks_exact(row);
        Cow::Owned(rows.flat_map(|row| &row[from..to]).copied().collect())
    }
}

/// The ranges of an output of so many columns, `four` bytes of packed weights for each four of them.
pub(super) fn cut(limits: &Limits, columns: u32, four: u64) -> Vec<ColumnRange> {
    let all = u64::from(columns);
    let most = limits.binding_bytes / four.max(1) * 4;
    if all.next_multiple_of(4) <= most || most == 0 {
        return vec![ColumnRange::whole(columns)];
    }
    let unit = if most >= UNIT { UNIT } else { 4 };
    let most = most / unit * unit;
    let each = all.div_ceil(all.div_ceil(most)).next_multiple_of(unit).min(most);
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < all {
        let count = each.min(all - first);
        ranges.push(ColumnRange {
            first: first as u32,
            count: count as u32,
            all: columns,
        });
        first += count;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(binding_bytes: u64) -> Limits {
        Limits {
            binding_bytes,
            ..Limits::LEAST
        }
    }

    #[test]
    fn column_ranges_cover_the_output_and_fit_a_binding() {
        for (columns, four, bytes) in [
            (4096, 25_088 * 16, 128 << 20),
            (1001, 1000, 100_000),
            (65, 160, 2600),
            (129, 1 << 20, 1 << 20),
            (7, 16, 16),
        ] {
            let ranges = cut(&limits(bytes), columns, four);
            assert!(ranges.len() > 1, "{columns}");
            let mut next = 0;
            for range in &ranges {
                assert_eq!(range.first, next);
                assert!(
                    u64::from(range.count.next_multiple_of(4)) / 4 * four <= bytes,
                    "{range:?}"
                );
                next += range.count;
                assert!(next == columns || range.count.is_multiple_of(4), "{range:?}");
            }
            assert_eq!(next, columns);
        }
    }

    #[test]
    fn fitting_or_impossible_outputs_are_not_split() {
        assert_eq!(cut(&limits(1024), 64, 64), [ColumnRange::whole(64)]);
        assert_eq!(cut(&limits(1024), 64, 2048), [ColumnRange::whole(64)]);
        assert_eq!(
            ColumnRange::whole(5).of(&[1, 2, 3, 4, 5], 1).as_ref(),
            [1, 2, 3, 4, 5]
        );
    }

    #[test]
    fn column_range_takes_its_columns_of_every_row() {
        let range = cut(&limits(16), 6, 16)[1];
        let weights: Vec<u32> = (0..24).collect();
        assert_eq!(range.of(&weights, 2).as_ref(), [8, 9, 10, 11, 20, 21, 22, 23]);
        let columns = range
            .epilogue(&Epilogue::sum(polychip_gpu_kernels::Scalar::F32))
            .columns;
        assert_eq!(columns, Some(Columns { first: 4, all: 6 }));
    }
}
