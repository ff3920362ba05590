//! How a product is cut into blocks for the caches and into chunks for the threads, and the scratch of each thread.
//!
//! Not here: the products themselves.
#![allow(unsafe_code)]

use crate::threads::{Parts, share};
use std::ops::Range;

/// Half of the L2 cache of the CPUs this was measured on; a block's rows stay there while panels pass by.
const HALF_L2: usize = 512 * 1024;

/// Packed operands below this stay in L2 by themselves, so that rows may go by in short blocks.
const SMALL_PANELS: usize = 256 * 1024;

/// Bytes of rows that a short block reads, so that its next panel finds them in L1.
const SHORT_BLOCK: usize = 16 * 1024;

/// Floating-point operations below which a step is left to one thread (about 5 µs, some ten times what a fork and a join cost).
const ONE_THREAD: usize = 500_000;

/// Floating-point operations below which each thread gets one chunk of a step: some 15 µs, of which claiming more chunks
/// would be a noticeable part.
const ONE_CHUNK_EACH: usize = 4_000_000;

/// Chunks of each thread of larger steps: what a thread that is held up leaves, others take.
const CHUNKS_EACH: usize = 3;

/// Bytes of panels that each thread reads by itself, rather than that threads exchange their rows: a second-level cache.
const OWN_PANELS: usize = 1024 * 1024;

/// A product's extent, as far as cutting it matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) panels: usize,
    /// Row pointers per row.
    pub(crate) taps: usize,
    /// Bytes of input that one more row reads.
    pub(crate) row_bytes: usize,
    /// Bytes of all panels.
    pub(crate) panel_bytes: usize,
    pub(crate) flops: usize,
    /// Products of this extent in the step (groups, batches).
    pub(crate) repeats: usize,
    pub(crate) tile_rows: usize,
    pub(crate) threads: usize,
}

/// The cut: rows into blocks, panels into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) row_blocks: usize,
    pub(crate) panel_groups: usize,
    /// The most rows of a block.
    pub(crate) block_rows: usize,
    /// Blocks start at multiples of this.
    align: usize,
}

impl Cut {
    /// The rows of block `index` of `rows`.
    pub(crate) fn block(&self, rows: usize, index: usize) -> Range<usize> {
        share(rows, self.row_blocks, index, self.align)
    }
}

impl Extent {
    pub(crate) fn cut(&self) -> Cut {
        let bytes = if self.panel_bytes <= SMALL_PANELS {
            SHORT_BLOCK
        } else {
            HALF_L2
        };
        let by_cache = bytes / self.row_bytes.max(1);
        // the pointers of a block stay in L1 beside a tile's operands, or at least in L2
        let by_pointers = 64 * 1024 / (8 * self.taps.max(1));
        let most = by_cache.min(by_pointers).max(4 * self.tile_rows) / self.tile_rows * self.tile_rows;
        let mut row_blocks = self.rows.div_ceil(most).max(1);
        let mut panel_groups = 1;
        let mut align = self.tile_rows;
        let flops = self.flops.saturating_mul(self.repeats);
        if self.threads > 1 && flops > ONE_THREAD {
            let each = if flops < ONE_CHUNK_EACH { 1 } else { CHUNKS_EACH };
            let wanted = (self.threads * each).div_ceil(self.repeats.max(1));
            if self.panel_bytes > OWN_PANELS.max(self.rows * self.row_bytes) && self.panels > 1 {
                // rows are less to read again than panels
                if row_blocks < wanted {
                    panel_groups = wanted.div_ceil(row_blocks).min(self.panels);
                }
            } else {
                // Step after step, a thread then finds the rows in its cache that it computed itself. In parts of equal length,
                // not in whole tiles; as few as there are threads where panels are too large to be read again.
                let large = self.panel_bytes > SMALL_PANELS;
                let parts = if large { wanted.min(self.threads) } else { wanted };
                let most = self.rows.div_ceil(2 * self.tile_rows).max(row_blocks);
                row_blocks = row_blocks.max(parts).min(most);
                if row_blocks < 8 * self.threads {
                    row_blocks = row_blocks.next_multiple_of(self.threads).min(most);
                }
                panel_groups = wanted.div_ceil(row_blocks).min(self.panels.max(1));
                align = 1;
            }
        }
        row_blocks = row_blocks.min(self.rows.div_ceil(align)).max(1);
        let block_rows = self.rows.div_ceil(align).div_ceil(row_blocks) * align;
        Cut {
            row_blocks,
            panel_groups,
            block_rows,
            align,
        }
    }
}

/// Floats of a cache line.
const LINE: usize = 16;

/// Scratch memory: a shared part and one part per thread, each starting on a cache line.
pub(crate) struct Scratch<'a> {
    parts: Parts<'a, f32>,
    first: usize,
    shared: usize,
    own: usize,
}

impl<'a> Scratch<'a> {
    /// Floats needed for `shared` floats for all and `own` for each thread.
    pub(crate) fn len(shared: usize, own: usize, threads: usize) -> usize {
        LINE + shared.next_multiple_of(LINE) + own.next_multiple_of(LINE) * threads
    }

    /// Lays the parts out.
    ///
    /// # Panics
    /// If `memory` is shorter than [`len`](Self::len) says.
    pub(crate) fn new(memory: &'a mut [f32], shared: usize, own: usize, threads: usize) -> Self {
        assert!(
            memory.len() >= Self::len(shared, own, threads),
            "scratch memory is too short"
        );
        let first = memory.as_ptr().align_offset(64).min(LINE);
        let (shared, own) = (shared.next_multiple_of(LINE), own.next_multiple_of(LINE));
        Self {
            parts: Parts::new(memory),
            first,
            shared,
            own,
        }
    }

    /// The shared part.
    ///
    /// # Safety
    /// No chunk is running, or all of them only read.
    #[allow(clippy::mut_from_ref)] // exclusiveness is the caller's promise
    pub(crate) unsafe fn shared(&self) -> &mut [f32] {
        // SAFETY: the caller promises exclusiveness.
        unsafe { self.parts.part(self.first, self.shared) }
    }

    /// The part of `thread`.
    ///
    /// # Safety
    /// Only that thread asks, once per chunk.
    #[allow(clippy::mut_from_ref)] // exclusiveness is the caller's promise
    pub(crate) unsafe fn own(&self, thread: usize) -> &mut [f32] {
        // SAFETY: parts of different threads are disjoint; the caller promises the rest.
        unsafe {
            self.parts
                .part(self.first + self.shared + thread * self.own, self.own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_covers_its_rows() {
        for rows in [0, 1, 11, 12, 13, 49, 196, 12_544] {
            for panels in [1, 2, 64] {
                for (taps, row_bytes) in [(1, 64), (9, 2048), (343, 12), (1, 1 << 20)] {
                    for threads in [1, 2, 8] {
                        let extent = Extent {
                            rows,
                            panels,
                            taps,
                            row_bytes,
                            panel_bytes: panels * 4096 * taps,
                            flops: 1 << 30,
                            repeats: 1,
                            tile_rows: 12,
                            threads,
                        };
                        let cut = extent.cut();
                        assert!(
                            cut.row_blocks >= 1 && cut.row_blocks * cut.block_rows >= rows,
                            "{extent:?}"
                        );
                        assert!((1..=panels).contains(&cut.panel_groups), "{extent:?}");
                        let blocks = (0..cut.row_blocks).map(|index| cut.block(rows, index));
                        let end = blocks.fold(0, |end, block| {
                            assert!(block.start == end && block.len() <= cut.block_rows, "{extent:?}");
                            block.end
                        });
                        assert_eq!(end, rows, "{extent:?}");
                    }
                }
            }
        }
    }
}
