//! Products of codes with AMX tiles: replaces [`super::tile`] if the CPU has AMX.
//!
//! 1. Panels, row pointers and results are those of `super::tile`, with tiles of sixteen rows.
//! 2. Rows that are not evenly spaced, or do not fill whole tiles, are first copied, once for all
//!    panels, and padded with zeros.
#![allow(unsafe_code)]

use super::tile::{Block, FinishRows, HEADER};
use crate::Isa;
use crate::isa::dot::amx::{Amx, SIDE};
use crate::tile::{tile_range, tiles};

/// The most columns of a panel.
const MOST_COLUMNS: usize = 32;

/// Floats of scratch of a thread for rows of so many words.
pub(super) fn scratch_len(words: usize) -> usize {
    2 * SIDE * words.next_multiple_of(SIDE)
}

/// Sixteen words of each column, or results of two tiles of rows.
#[repr(align(64))]
struct Buffer<T, const N: usize>([T; N]);

/// Multiplies one block; `copied` is scratch of [`scratch_len`] floats.
///
/// # Safety
/// As [`super::tile::multiply`].
pub(super) unsafe fn multiply(isa: Isa, amx: Amx, block: &Block, copied: &mut [f32]) {
    if block.rows == 0 {
        return;
    }
    let words = block.taps * block.words;
    let (depth, rest) = (words.div_ceil(SIDE), words % SIDE);
    let count = tiles(block.rows, SIDE);
    let mut sums = Buffer([0f32; 2 * SIDE * MOST_COLUMNS]);
    let mut tail = Buffer([0f32; SIDE * MOST_COLUMNS]);
    let copied = copied.as_mut_ptr().cast::<u8>();
    let mut pointers = block.pointers;
    // SAFETY: `end` follows.
    unsafe { amx.begin() };
    for first in (0..count).step_by(2) {
        let mut rows = [(copied.cast_const(), depth * 64); 2];
        let (mut len, mut start) = (0, 0);
        for (i, rows) in rows.iter_mut().enumerate().take(count - first) {
            let own = tile_range(block.rows, count, first + i);
            if i == 0 {
                start = own.start;
            }
            let to = copied.wrapping_add(i * SIDE * depth * 64);
            // SAFETY: the block holds pointers for each tile, and the scratch has room for two.
            *rows = unsafe { rows_of(block, pointers, own.len(), to, rest, depth) };
            pointers = pointers.wrapping_add(block.taps * own.len());
            len = if i == 0 { own.len() } else { len + own.len() };
        }
        let upper = tile_range(block.rows, count, first).len();
        for p in block.range.clone() {
            let (columns, width) = (block.panels.columns(p), block.panels.width_of(p));
            let panel = block.right.wrapping_add(block.panels.offset(p));
            let from = panel.wrapping_add(HEADER * width);
            let whole = (depth - 1) * SIDE * width;
            let mut last = from.wrapping_add(whole).cast::<u8>();
            if rest > 0 {
                // SAFETY: so many words of each column are left, and the buffer has room for as many.
                unsafe {
                    let words = from.wrapping_add(whole);
                    std::ptr::copy_nonoverlapping(words, tail.0.as_mut_ptr(), rest * width);
                    tail.0[rest * width..SIDE * width].fill(0.0);
                }
                last = tail.0.as_ptr().cast();
            }
            let to = sums.0.as_mut_ptr();
            // SAFETY: panels hold bias and words of `width` columns; rows are as deep; sums have room for two tiles of rows.
            unsafe {
                amx.product(
                    rows,
                    from.cast(),
                    last,
                    depth,
                    width / SIDE,
                    panel.cast(),
                    to.cast(),
                );
            }
            let mut done = 0;
            for (i, rows) in [upper, len - upper].into_iter().enumerate() {
                let finish = block
                    .finish
                    .skip((start + done) * block.finish.stride + p * block.panels.width)
                    .skip_row_sums(start + done);
                done += rows;
                // SAFETY: the caller promises outputs for these rows and columns, whose sums were just stored.
                unsafe {
                    FinishRows {
                        panel,
                        width,
                        columns,
                        rows,
                        sums: to.add(i * SIDE * width),
                        finish,
                    }
                    .run_on(isa);
                }
            }
        }
    }
    // SAFETY: `begin` went before.
    unsafe { amx.end() };
}

/// The start of a tile of rows, and the bytes between two: where they are, or in `to` where they do not lie evenly.
///
/// # Safety
/// `pointers` holds `len` pointers per tap of the block; `to` has room for a tile.
unsafe fn rows_of(
    block: &Block,
    pointers: *const *const u8,
    len: usize,
    to: *mut u8,
    rest: usize,
    depth: usize,
) -> (*const u8, usize) {
    if block.taps == 1 && rest == 0 && len == SIDE {
        // SAFETY: one pointer for each row.
        let rows: [*const u8; SIDE] = unsafe { pointers.cast::<[*const u8; SIDE]>().read() };
        let stride = (rows[1] as usize).wrapping_sub(rows[0] as usize);
        if (1..SIDE).all(|i| rows[i] == rows[0].wrapping_add(i * stride)) {
            return (rows[0], stride);
        }
    }
    let (bytes, stride) = (block.words * 4, depth * 64);
    for row in 0..len {
        let to = to.wrapping_add(row * stride);
        for tap in 0..block.taps {
            // SAFETY: the caller promises the pointers, each to `words` words, and the room.
            unsafe {
                let from = *pointers.add(tap * len + row);
                std::ptr::copy_nonoverlapping(from, to.add(tap * bytes), bytes);
            }
        }
        // SAFETY: a row of the tile is `stride` bytes.
        unsafe {
            to.add(block.taps * bytes)
                .write_bytes(0, stride - block.taps * bytes)
        };
    }
    // rows beyond `len` are multiplied too, and their results ignored
    (to.cast_const(), stride)
}
