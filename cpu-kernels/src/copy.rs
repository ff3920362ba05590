//! Strided copies: slices, concatenations, expansions and permutations are all one loop nest.
//!
//! 1. Strides are in elements and may be negative (reversed slices); those of the source may be zero (repetition).
//! 2. No two indices of a plan write the same element, so chunks of a copy may run on different threads.
//! 3. Adjacent dimensions that all operands traverse in the same way are merged into one loop, so a
//!    dense copy is one run.
#![allow(unsafe_code)]

mod lane;

use crate::threads::{Parts, share};
use crate::{Error, ThreadPool};

/// Maximum number of dimensions after adjacent ones are merged.
pub const MAX_DIMS: usize = 8;

/// Shortest side of the square blocks in which a permuted copy goes: sixteen cache lines of either side stay in L1.
const BLOCK: usize = 16;

/// Bytes of a cache line: a block is one long, so that each line of either side is touched once.
const LINE: usize = 64;

/// Side of the blocks of elements of so many bytes.
const fn side(width: usize) -> usize {
    if width == 0 || LINE / width < BLOCK {
        BLOCK
    } else {
        LINE / width
    }
}

/// Elements that one chunk of a copy moves.
const CHUNK: usize = 32 * 1024;

/// A loop nest over `N` operands: sizes and element strides, innermost first.
#[derive(Debug, Clone)]
pub(crate) struct Loops<const N: usize> {
    dims: [(usize, [isize; N]); MAX_DIMS],
    rank: usize,
}

/// Builds [`Loops`] from the innermost dimension outwards.
pub(crate) struct Nest<const N: usize> {
    name: &'static str,
    loops: Loops<N>,
}

impl<const N: usize> Nest<N> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            loops: Loops {
                dims: [(1, [0; N]); MAX_DIMS],
                rank: 0,
            },
        }
    }

    /// Adds a dimension around those so far.
    pub(crate) fn outer(&mut self, size: usize, strides: [isize; N]) -> Result<(), Error> {
        let Loops { dims, rank } = &mut self.loops;
        if size == 1 {
            return Ok(());
        }
        if let Some((inner, inner_strides)) = dims[..*rank].last_mut() {
            let follows = |o: usize| inner_strides[o].checked_mul(*inner as isize) == Some(strides[o]);
            if (0..N).all(follows) {
                *inner = crate::error::product(self.name, "a dimension", &[*inner, size])?;
                return Ok(());
            }
        }
        if *rank == MAX_DIMS {
            let rule = "at most 8 dimensions may remain after merging";
            return Err(Error::parameter(self.name, "rank", *rank + 1, rule));
        }
        dims[*rank] = (size, strides);
        *rank += 1;
        Ok(())
    }

    pub(crate) fn finish(self) -> Loops<N> {
        self.loops
    }
}

impl<const N: usize> Loops<N> {
    /// Indices in all.
    pub(crate) fn len(&self) -> usize {
        self.dims[..self.rank].iter().map(|dim| dim.0).product()
    }

    /// The loops, innermost first.
    pub(crate) fn dims(&self) -> &[(usize, [isize; N])] {
        &self.dims[..self.rank]
    }

    /// Without dimension `i`.
    fn without(&self, i: usize) -> Self {
        let mut rest = Self {
            dims: [(1, [0; N]); MAX_DIMS],
            rank: self.rank - 1,
        };
        let kept = self.dims().iter().enumerate().filter(|(at, _)| *at != i);
        for (to, (_, from)) in rest.dims.iter_mut().zip(kept) {
            *to = *from;
        }
        rest
    }

    /// Calls `f(starts)` for the indices `range` of all loops, in order, innermost fastest.
    pub(crate) fn for_each(&self, range: std::ops::Range<usize>, f: &mut impl FnMut([isize; N])) {
        if range.is_empty() {
            // a loop of no indices has a dimension of size 0, by which nothing can be divided
            return;
        }
        let mut index = [0usize; MAX_DIMS];
        let mut at = [0isize; N];
        let mut rest = range.start;
        for (i, (size, strides)) in index.iter_mut().zip(self.dims()) {
            *i = rest % size;
            rest /= size;
            for (at, stride) in at.iter_mut().zip(strides) {
                *at += stride * *i as isize;
            }
        }
        for _ in range {
            f(at);
            for (i, (size, strides)) in index.iter_mut().zip(self.dims()) {
                *i += 1;
                let back = if *i == *size { *size as isize } else { 0 };
                for (at, stride) in at.iter_mut().zip(strides) {
                    *at += stride - stride * back;
                }
                if back == 0 {
                    break;
                }
                *i = 0;
            }
        }
    }

    /// Calls `f(starts, len, steps)` for pieces of the innermost loop that together cover every index once.
    pub(crate) fn for_each_run(
        &self,
        pool: &ThreadPool,
        chunk_len: usize,
        f: &(impl Fn([isize; N], usize, [isize; N]) + Sync),
    ) {
        let total = self.len();
        if total == 0 {
            return;
        }
        let (len, steps) = if self.rank == 0 { (1, [0; N]) } else { self.dims[0] };
        let outer = if self.rank == 0 {
            self.clone()
        } else {
            self.without(0)
        };
        // pieces of whole cache lines
        let pieces = len.div_ceil(chunk_len.max(BLOCK));
        let units = outer.len() * pieces;
        let chunks = units.min(total.div_ceil(chunk_len)).min(pool.threads() * 4);
        pool.run(chunks, &|chunk| {
            let range = share(units, chunks, chunk, 1);
            if pieces == 1 {
                outer.for_each(range, &mut |starts| f(starts, len, steps));
                return;
            }
            for unit in range {
                let piece = share(len, pieces, unit % pieces, BLOCK);
                outer.for_each(unit / pieces..unit / pieces + 1, &mut |mut starts| {
                    for (start, step) in starts.iter_mut().zip(steps) {
                        *start += step * piece.start as isize;
                    }
                    f(starts, piece.len(), steps);
                });
            }
        });
    }
}

/// A copy between two strided views of the same shape.
///
/// ```
/// use polychip_cpu_kernels::{ThreadPool, copy::CopyPlan};
///
/// // the rows of a [2, 3] matrix, reversed
/// let plan = CopyPlan::new(&[2, 3], 2, &[3, -1], 0, &[3, 1])?;
/// let mut reversed = [0; 6];
/// plan.run(&ThreadPool::new(1), &[1, 2, 3, 4, 5, 6], &mut reversed);
/// assert_eq!(reversed, [3, 2, 1, 6, 5, 4]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CopyPlan {
    /// Strides of the source and the target.
    loops: Loops<2>,
    /// Where the two views start.
    offsets: [isize; 2],
    /// Elements that the slices must have.
    needed: [usize; 2],
    /// A dimension other than the innermost along which the source is contiguous.
    blocked: Option<usize>,
}

impl CopyPlan {
    /// Plans `target[offset_t + i·strides_t] = source[offset_s + i·strides_s]` for every index `i` of `shape`.
    ///
    /// # Errors
    /// If the slices differ in length, more than [`MAX_DIMS`] dimensions remain after merging, an index is negative
    /// or leaves the address space, or two indices may write the same element.
    pub fn new(
        shape: &[usize],
        source_offset: usize,
        source_strides: &[isize],
        target_offset: usize,
        target_strides: &[isize],
    ) -> Result<Self, Error> {
        const NAME: &str = "copy";
        for strides in [source_strides, target_strides] {
            if strides.len() != shape.len() {
                let rule = "each view needs one stride per dimension";
                return Err(Error::parameter(NAME, "strides", strides.len(), rule));
            }
        }
        crate::error::product(NAME, "the shape", shape)?;
        let mut nest = Nest::new(NAME);
        for (i, &size) in shape.iter().enumerate().rev() {
            nest.outer(size, [source_strides[i], target_strides[i]])?;
        }
        let loops = nest.finish();
        if loops.len() == 0 {
            return Ok(Self {
                loops,
                offsets: [0; 2],
                needed: [0; 2],
                blocked: None,
            });
        }
        let mut needed = [0; 2];
        for (view, offset) in [source_offset, target_offset].into_iter().enumerate() {
            let (mut low, mut high) = (offset as i128, offset as i128);
            for (size, strides) in loops.dims() {
                let reach = strides[view] as i128 * (*size as i128 - 1);
                if reach < 0 { low += reach } else { high += reach }
            }
            if low < 0 {
                return Err(Error::parameter(
                    NAME,
                    "offset",
                    offset,
                    "no index may lie before the slice",
                ));
            }
            needed[view] = usize::try_from(high + 1)
                .ok()
                .filter(|&n| n <= isize::MAX as usize)
                .ok_or_else(|| Error::too_large(NAME, "a view"))?;
        }
        // sorted by stride, each dimension of the target must step over all that the smaller ones reach
        let mut order: [(usize, usize); MAX_DIMS] = [(0, 1); MAX_DIMS];
        for (to, (size, strides)) in order.iter_mut().zip(loops.dims()) {
            *to = (strides[1].unsigned_abs(), *size);
        }
        let order = &mut order[..loops.rank];
        order.sort_unstable();
        let mut reach = 0;
        for &(stride, size) in order.iter() {
            if stride <= reach {
                let rule = "no two indices may write the same element";
                return Err(Error::parameter(NAME, "target stride", stride, rule));
            }
            reach += stride * (size - 1);
        }
        let contiguous = |dim: &(usize, [isize; 2])| dim.1[0] == 1;
        let blocked = match loops.dims().first() {
            // what one element is repeated to is filled
            Some(inner) if !contiguous(inner) && inner.1 != [0, 1] => {
                loops.dims().iter().position(contiguous)
            }
            _ => None,
        };
        let offsets = [source_offset as isize, target_offset as isize];
        Ok(Self {
            loops,
            offsets,
            needed,
            blocked,
        })
    }

    /// Copies elements of any plain type.
    ///
    /// # Panics
    /// If a view leaves its slice.
    pub fn run<T: Copy + Send + Sync>(&self, pool: &ThreadPool, source: &[T], target: &mut [T]) {
        assert!(
            source.len() >= self.needed[0],
            "copy: the source view leaves its slice"
        );
        assert!(
            target.len() >= self.needed[1],
            "copy: the target view leaves its slice"
        );
        if self.loops.len() == 0 {
            return;
        }
        let parts = Parts::new(target);
        let at = |offsets: [isize; 2]| {
            let from = source.as_ptr().wrapping_offset(self.offsets[0] + offsets[0]);
            (from, parts.as_ptr().wrapping_offset(self.offsets[1] + offsets[1]))
        };
        match self.blocked {
            Some(dim) => self.run_blocked(pool, dim, &at),
            None => self
                .loops
                .for_each_run(pool, CHUNK, &|starts, len, [step_s, step_t]| {
                    let (from, to) = at(starts);
                    if step_s == 1 && step_t == 1 {
                        // SAFETY: `new` computed the reach of both views and `run` checked it; a target is exclusive.
                        unsafe { copy_run(from, to, len) };
                        return;
                    }
                    if step_s == 0 && step_t == 1 {
                        // SAFETY: as above.
                        unsafe { std::slice::from_raw_parts_mut(to, len).fill(*from) };
                        return;
                    }
                    for i in 0..len as isize {
                        // SAFETY: as above.
                        unsafe { *to.wrapping_offset(i * step_t) = *from.wrapping_offset(i * step_s) };
                    }
                }),
        }
    }

    /// Copies in square blocks over the innermost dimension and `dim`, along which the source is contiguous.
    fn run_blocked<T: Copy>(
        &self,
        pool: &ThreadPool,
        dim: usize,
        at: &(impl Fn([isize; 2]) -> (*const T, *mut T) + Sync),
    ) {
        let (inner, [inner_s, inner_t]) = self.loops.dims[0];
        let (cross, [_, cross_t]) = self.loops.dims[dim];
        let outer = self.loops.without(dim).without(0);
        let side = side(size_of::<T>());
        let lane = lane::elements(size_of::<T>());
        // up to four rows are interleaved
        let is_narrow = inner < BLOCK && !(inner_t == 1 && inner >= lane.max(5));
        // a narrow block is made long, so that its rows are worth starting
        let width = if is_narrow { 16 * BLOCK } else { side };
        // what is left of less than a lane goes with the block before it
        let rest = cross % width;
        let is_split = !is_narrow && cross > width && (1..lane).contains(&rest);
        let columns = cross.div_ceil(width) - usize::from(is_split);
        let units = outer.len() * columns;
        let chunks = units
            .min(self.loops.len().div_ceil(CHUNK))
            .min(pool.threads() * 4);
        let piece = |starts: [isize; 2], width: usize| {
            let (from, to) = at(starts);
            if is_narrow {
                if inner_t == 1 && cross_t == inner as isize && (2..=4).contains(&inner) {
                    let row = |i: usize| from.wrapping_offset(i as isize * inner_s);
                    // SAFETY: `new` computed the reach of both views and `run` checked it; pixels lie one behind the other.
                    unsafe {
                        match inner {
                            2 => interleave::<T, 2>([row(0), row(1)], to, width),
                            3 => interleave::<T, 3>([row(0), row(1), row(2)], to, width),
                            _ => interleave::<T, 4>([row(0), row(1), row(2), row(3)], to, width),
                        }
                    }
                    return;
                }
                for i in 0..inner as isize {
                    let (from, to) = (from.wrapping_offset(i * inner_s), to.wrapping_offset(i * inner_t));
                    for j in 0..width as isize {
                        // SAFETY: `new` computed the reach of both views and `run` checked it.
                        unsafe { *to.wrapping_offset(j * cross_t) = *from.wrapping_offset(j) };
                    }
                }
                return;
            }
            if inner_t == 1 && inner_s == width as isize && (2..=4).contains(&width) {
                for j in 0..width {
                    // SAFETY: as above: the rows lie one behind the other, and so do the elements of a column.
                    let (from, to) = unsafe {
                        let to = to.wrapping_offset(j as isize * cross_t);
                        (
                            std::slice::from_raw_parts(from, inner * width),
                            std::slice::from_raw_parts_mut(to, inner),
                        )
                    };
                    match width {
                        2 => every::<T, 2>(from, to, j),
                        3 => every::<T, 3>(from, to, j),
                        _ => every::<T, 4>(from, to, j),
                    }
                }
                return;
            }
            for start in (0..inner).step_by(side) {
                // a last block of less than a lane begins earlier
                let start = start.min(inner.saturating_sub(lane));
                let rows = side.min(inner - start);
                let block = Block {
                    from: from.wrapping_offset(start as isize * inner_s),
                    from_stride: inner_s,
                    to: to.wrapping_offset(start as isize * inner_t),
                    to_strides: [inner_t, cross_t],
                    rows,
                    columns: width,
                };
                // SAFETY: as above, for all rows and columns of the block.
                unsafe { block.turn() };
            }
        };
        pool.run(chunks, &|chunk| {
            let range = share(units, chunks, chunk, 1);
            if columns == 1 && !is_split {
                outer.for_each(range, &mut |starts| piece(starts, cross));
                return;
            }
            for unit in range {
                let first = unit % columns * width;
                outer.for_each(unit / columns..unit / columns + 1, &mut |starts| {
                    let after = |first: usize| {
                        let first = first as isize;
                        [starts[0] + first, starts[1] + first * cross_t]
                    };
                    piece(after(first), width.min(cross - first));
                    if is_split && unit % columns == columns - 1 {
                        piece(after(cross - lane), lane);
                    }
                });
            }
        });
    }
}

/// Every `N`th element, from `first` on.
#[inline]
fn every<T: Copy, const N: usize>(from: &[T], to: &mut [T], first: usize) {
    for (to, from) in to.iter_mut().zip(from.as_chunks::<N>().0) {
        *to = from[first];
    }
}

/// One element of each of `N` rows after the other.
///
/// # Safety
/// `len` elements of each row are readable, `N` times as many are writable at `to`, and those are other memory.
#[inline]
unsafe fn interleave<T: Copy, const N: usize>(rows: [*const T; N], to: *mut T, len: usize) {
    // SAFETY: as the caller promises.
    let (rows, to) = unsafe {
        (
            rows.map(|row| std::slice::from_raw_parts(row, len)),
            std::slice::from_raw_parts_mut(to, len * N),
        )
    };
    for (j, to) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *to = std::array::from_fn(|i| rows[i][j]);
    }
}

/// Bytes up to which a run is copied here: a call takes longer.
const SHORT: usize = 4 * LINE;

/// Copies a run of elements.
///
/// # Safety
/// They are readable at `from` and writable at `to`, and do not overlap.
#[inline]
unsafe fn copy_run<T: Copy>(from: *const T, to: *mut T, len: usize) {
    let bytes = len * size_of::<T>();
    let (source, target) = (from.cast::<u8>(), to.cast::<u8>());
    // SAFETY: a piece ends with the run at the latest: the last one begins so much earlier, and copies what is there already.
    unsafe {
        match bytes {
            16..=SHORT => {
                for at in (0..bytes - 16).step_by(16) {
                    copy_bytes::<16>(source, target, at);
                }
                copy_bytes::<16>(source, target, bytes - 16);
            }
            8..16 => {
                copy_bytes::<8>(source, target, 0);
                copy_bytes::<8>(source, target, bytes - 8);
            }
            4..8 => {
                copy_bytes::<4>(source, target, 0);
                copy_bytes::<4>(source, target, bytes - 4);
            }
            _ => std::ptr::copy_nonoverlapping(source, target, bytes),
        }
    }
}

/// # Safety
/// `N` bytes behind `at` are readable at `from` and writable at `to`, and do not overlap.
#[inline(always)]
unsafe fn copy_bytes<const N: usize>(from: *const u8, to: *mut u8, at: usize) {
    let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, N) };
}

/// A block whose rows are contiguous in the source, and become columns.
struct Block<T> {
    from: *const T,
    from_stride: isize,
    to: *mut T,
    /// Between the elements of a column, and between columns.
    to_strides: [isize; 2],
    rows: usize,
    columns: usize,
}

impl<T: Copy> Block<T> {
    /// # Safety
    /// All of it is readable at `from` and writable at `to`, and no larger than [`side`] either way.
    unsafe fn turn(&self) {
        let lane = lane::elements(size_of::<T>());
        if self.to_strides[0] == 1 && self.rows >= lane && self.columns >= lane {
            // SAFETY: as the caller promises.
            unsafe {
                match size_of::<T>() {
                    1 => return self.by_lanes::<1, 16>(),
                    2 => return self.by_lanes::<2, 8>(),
                    4 => return self.by_lanes::<4, 4>(),
                    8 => return self.by_lanes::<8, 2>(),
                    _ => {}
                }
            }
        }
        for j in 0..self.columns {
            for i in 0..self.rows {
                let from = self.from.wrapping_offset(i as isize * self.from_stride);
                let to = self.to.wrapping_offset(j as isize * self.to_strides[1]);
                // SAFETY: as the caller promises.
                unsafe {
                    *to.wrapping_offset(i as isize * self.to_strides[0]) = *from.wrapping_add(j);
                }
            }
        }
    }

    /// Transposes lanes, by way of a tile whose rows do not share sets of the cache. The last lanes end with the block, and
    /// write again what those before them wrote.
    ///
    /// # Safety
    /// As [`turn`](Self::turn); an element has `W` bytes, columns are contiguous, and a lane is no longer than either side.
    #[inline]
    unsafe fn by_lanes<const W: usize, const N: usize>(&self) {
        const TILE: usize = LINE * LINE;
        let (rows, columns) = (self.rows, self.columns);
        let stride = side(W) * W;
        let mut tile = [const { std::mem::MaybeUninit::<u8>::uninit() }; TILE];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for i in 0..rows {
            let from = self
                .from
                .wrapping_offset(i as isize * self.from_stride)
                .cast::<u8>();
            let to = tile.wrapping_add(i * stride);
            // SAFETY: as the caller promises; the tile has room for a block of any width.
            unsafe {
                if columns * W == LINE {
                    std::ptr::copy_nonoverlapping(from, to, LINE);
                } else {
                    std::ptr::copy_nonoverlapping(from, to, columns * W);
                }
            }
        }
        for j in (0..columns).step_by(N).map(|j| j.min(columns - N)) {
            for i in (0..rows).step_by(N).map(|i| i.min(rows - N)) {
                let to = self
                    .to
                    .wrapping_offset(j as isize * self.to_strides[1] + i as isize);
                // SAFETY: these rows of the tile were written above, and these columns the caller promises.
                unsafe {
                    lane::transpose::<W, N>(
                        tile.wrapping_add(i * stride + j * W),
                        stride,
                        to.cast(),
                        self.to_strides[1] * W as isize,
                    );
                }
            }
        }
    }
}
