//! Products of `f32` with a constant operand of 16-bit floats; kernels widen it as they read it.
//!
//! 1. Widening is exact, and sums follow the order of [`GemmPlan`](super::GemmPlan): results equal those of the operand
//!    widened beforehand, bit for bit.
//! 2. Products of few rows are memory-bound, so each tile widens in registers. For many rows, a panel is widened once per
//!    block of rows, into the thread's own memory, and multiplied by the tile of `f32`.
//!
//! Not here: the tile (`tile`), products in bf16 (`elements`).

use super::{Matrix, row_pointers};
use crate::isa::dot::{Beside, Element, Half};
use crate::isa::{Kernel, Simd};
use crate::schedule::{Cut, Extent, Scratch};
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, LONGEST_CHAIN, Panels, Right, multiply};
use crate::{Epilogue, Error, Isa, ThreadPool, Unary};
use half::{bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;

/// The most rows whose tiles widen for themselves.
const FEW_ROWS: usize = 8;

/// Panels of a thread below which rows are cut, too, although each block then widens the panels anew.
const PANELS_EACH: usize = 3;

/// Panels that one row meets at a time: with two vectors of each, as many sums as hide how long an addition takes.
const BESIDE: usize = 4;

/// Bytes by which a row's panels are asked for ahead, in each of [`BESIDE`].
const AHEAD: usize = 768;

/// Rows of a panel that packing writes at a time: half of a first-level cache.
const PACKED_ROWS: usize = 256;

/// A type of 16-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HalfType {
    /// IEEE 754's binary16.
    F16,
    /// The upper halves of `f32`s.
    Bf16,
}

/// Layout of the constant operand in the little-endian bytes that it is packed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `[k, n]`: lines are rows.
    Rows,
    /// `[n, k]`: lines are columns.
    Columns,
}

/// A product with a constant right operand `[k, n]` of 16-bit floats, packed once.
///
/// ```
/// use polychip_cpu_kernels::gemm::{HalfPlan, HalfType, Matrix, Order};
/// use polychip_cpu_kernels::{Epilogue, Isa, ThreadPool};
///
/// let plan = HalfPlan::new(HalfType::Bf16, Isa::detect(), 2, 1)?;
/// let mut packed = vec![0.0; plan.packed_len()];
/// // 1.0 and 2.0
/// plan.pack(Order::Columns, 0, &[0x80, 0x3f, 0x00, 0x40], &mut packed);
/// let pool = ThreadPool::new(1);
/// let mut scratch = vec![0.0; plan.scratch_len(1, &pool)];
/// let mut c = [0.0];
/// plan.run(&pool, 1, Matrix::rows(&[10.0, 100.0], 2), &packed, None, Epilogue::NONE, &mut c, 1, &mut scratch);
/// assert_eq!(c, [210.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HalfPlan {
    isa: Isa,
    /// Two rows of 16 bits in the place of one of floats.
    panels: Panels,
    k: usize,
    of: HalfType,
}

impl HalfPlan {
    /// Plans a product `[m, k] · [k, n]` for any `m`.
    ///
    /// # Errors
    /// If the packed size does not fit the address space.
    pub fn new(of: HalfType, isa: Isa, k: usize, n: usize) -> Result<Self, Error> {
        let padded = n.checked_add(64).ok_or_else(|| Error::too_large("gemm", "b"))?;
        crate::error::product("gemm", "b", &[k.saturating_add(2), padded])?;
        Ok(Self {
            isa,
            panels: Panels::new(isa, k.div_ceil(2), n),
            k,
            of,
        })
    }

    /// Multiply-adds of a row of the result, padding included.
    #[must_use]
    pub fn multiply_adds_per_row(&self) -> usize {
        2 * self.packed_len()
    }

    /// Length of the packed operand in floats. Length and layout depend only on `k`, `n` and
    /// [`Isa::code`].
    #[must_use]
    pub fn packed_len(&self) -> usize {
        self.panels.len()
    }

    /// Bytes of a line of the operand in this order.
    #[must_use]
    pub fn line_bytes(&self, order: Order) -> usize {
        2 * match order {
            Order::Rows => self.panels.n,
            Order::Columns => self.k,
        }
    }

    /// Columns of a panel; columns that are packed together should fill whole panels.
    #[must_use]
    pub fn panel_columns(&self) -> usize {
        self.panels.width
    }

    /// Packs whole lines of the operand, from line `first` on. Other lines are unchanged, so
    /// `packed` must be zeros initially.
    ///
    /// # Panics
    /// If `bytes` are no whole lines of the operand, or `packed` is not [`packed_len`](Self::packed_len) long.
    pub fn pack(&self, order: Order, first: usize, bytes: &[u8], packed: &mut [f32]) {
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "gemm: length of the packed operand"
        );
        let (line, k, n) = (self.line_bytes(order), self.k, self.panels.n);
        if bytes.is_empty() {
            return;
        }
        assert!(bytes.len().is_multiple_of(line), "gemm: no whole lines");
        let lines = first..first + bytes.len() / line;
        let value = |at: usize| u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        match order {
            Order::Rows => {
                assert!(lines.end <= k, "gemm: rows beyond the operand");
                for panel in 0..self.panels.count() {
                    let (to, width) = self.rows_of(panel, packed);
                    let (left, columns) = (panel * self.panels.width, self.panels.columns(panel));
                    for (index, row) in lines.clone().enumerate() {
                        let to = &mut to[row * width..][..columns];
                        for (c, to) in to.iter_mut().enumerate() {
                            *to = value(index * n + left + c);
                        }
                    }
                }
            }
            Order::Columns => {
                assert!(lines.end <= n, "gemm: columns beyond the operand");
                let mut column = lines.start;
                while column < lines.end {
                    let panel = column / self.panels.width;
                    let end = lines.end.min((panel + 1) * self.panels.width);
                    let (to, width) = self.rows_of(panel, packed);
                    // as many rows at a time as stay in the first-level cache
                    for top in (0..k).step_by(PACKED_ROWS) {
                        let rows = top..k.min(top + PACKED_ROWS);
                        for column in column..end {
                            let x = column - panel * self.panels.width;
                            let from = (column - first) * k;
                            for row in rows.clone() {
                                to[row * width + x] = value(from + row);
                            }
                        }
                    }
                    column = end;
                }
            }
        }
    }

    /// Packs the bias `[n]`; without this call the bias is zeros.
    ///
    /// # Panics
    /// If a length is not that of the plan.
    pub fn pack_bias(&self, bias: &[f32], packed: &mut [f32]) {
        assert_eq!(bias.len(), self.panels.n, "gemm: length of the bias");
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "gemm: length of the packed operand"
        );
        for (panel, bias) in bias.chunks(self.panels.width).enumerate() {
            packed[self.panels.offset(panel)..][..bias.len()].copy_from_slice(bias);
        }
    }

    /// The rows of a panel, and their width.
    fn rows_of<'a>(&self, panel: usize, packed: &'a mut [f32]) -> (&'a mut [u16], usize) {
        let width = self.panels.width_of(panel);
        let floats = &mut packed[self.panels.offset(panel) + width..][..width * self.panels.depth];
        (bytemuck::cast_slice_mut(floats), width)
    }

    fn cut(&self, m: usize, threads: usize) -> Cut {
        let few = m <= FEW_ROWS;
        // a panel is widened per block, so blocks are long, unless threads would have nothing to do
        let long = self.panels.count() >= threads * PANELS_EACH;
        Extent {
            rows: m,
            panels: self.panels.count(),
            taps: 1,
            row_bytes: self.k * 4,
            panel_bytes: if long && !few {
                usize::MAX
            } else {
                self.panels.len() * 4
            },
            flops: m.saturating_mul(2 * self.panels.n * self.k),
            repeats: 1,
            tile_rows: tile::tile_rows(self.isa),
            threads,
        }
        .cut()
    }

    /// Floats of one thread's scratch: of row pointers, and of all.
    fn own(&self, m: usize, cut: Cut) -> (usize, usize) {
        let pointers = (2 * cut.block_rows).next_multiple_of(16);
        let widened = if m <= FEW_ROWS {
            0
        } else {
            self.panels.width * (self.k + 1)
        };
        (pointers, pointers + widened)
    }

    /// Floats of scratch that a run with `m` rows needs.
    #[must_use]
    pub fn scratch_len(&self, m: usize, pool: &ThreadPool) -> usize {
        let own = self.own(m, self.cut(m, pool.threads())).1;
        Scratch::len(0, own, pool.threads())
    }

    /// `c = epilogue(a · b + bias, residual)` for `m` rows of `f32`; row `r` of `c` starts at `r * c_stride`.
    ///
    /// # Panics
    /// If a slice is too short for its shape or not of `f32`, columns of the residual are not contiguous, `c_stride` is smaller
    /// than `n`, or scratch is shorter than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        pool: &ThreadPool,
        m: usize,
        a: Matrix<'_>,
        packed: &[f32],
        residual: Option<Matrix<'_>>,
        epilogue: Epilogue,
        c: &mut [f32],
        c_stride: usize,
        scratch: &mut [f32],
    ) {
        let n = self.panels.n;
        a.check("a", m, self.k);
        if let Some(residual) = residual {
            residual.check("the residual", m, n);
            assert!(
                residual.column_stride == 1 || n <= 1,
                "gemm: columns of the residual are not contiguous"
            );
        }
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "gemm: length of the packed operand"
        );
        assert!(c_stride >= n || m <= 1, "gemm: rows of c overlap");
        let end = m.saturating_sub(1).saturating_mul(c_stride).saturating_add(n);
        assert!(
            m == 0 || n == 0 || end <= c.len(),
            "gemm: c is shorter than its shape"
        );
        if m == 0 || n == 0 {
            return;
        }
        let call = Call {
            plan: self,
            m,
            a: Address(a.data.f32s().as_ptr()),
            a_stride: a.row_stride,
            a_step: a.column_stride,
            right: Address(packed.as_ptr()),
            residual: Address(residual.map_or(std::ptr::null(), |r| r.data.f32s().as_ptr())),
            residual_stride: residual.map_or(0, |r| r.row_stride),
            epilogue,
            c: Parts::new(c),
            c_stride,
        };
        match self.of {
            HalfType::F16 => call.run::<f16>(pool, scratch),
            HalfType::Bf16 => call.run::<bf16>(pool, scratch),
        }
    }
}

/// A run whose operands were checked.
struct Call<'a> {
    plan: &'a HalfPlan,
    m: usize,
    a: Address<f32>,
    a_stride: usize,
    a_step: usize,
    right: Address<f32>,
    residual: Address<f32>,
    residual_stride: usize,
    epilogue: Epilogue,
    c: Parts<'a, f32>,
    c_stride: usize,
}

impl Call<'_> {
    fn run<H: Half>(&self, pool: &ThreadPool, scratch: &mut [f32]) {
        let plan = self.plan;
        let cut = plan.cut(self.m, pool.threads());
        let (pointer_floats, own) = plan.own(self.m, cut);
        let scratch = Scratch::new(scratch, 0, own, pool.threads());
        pool.run_indexed(cut.row_blocks * cut.panel_groups, &|thread, chunk| {
            let rows = cut.block(self.m, chunk / cut.panel_groups);
            let range = share(plan.panels.count(), cut.panel_groups, chunk % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let (pointers, widened) = unsafe { scratch.own(thread) }.split_at_mut(pointer_floats);
            let pointers = pointers.as_mut_ptr().cast::<*const f32>();
            let first = self.a.at(rows.start * self.a_stride);
            // SAFETY: the part holds 2 * block_rows floats, starts on a cache line, and the block is not longer.
            unsafe { row_pointers(pointers, rows.len(), first, self.a_stride) };
            if self.m > FEW_ROWS {
                return self.many::<H>(&rows, range, pointers, widened);
            }
            let mut rest = range;
            if rows.len() == 1 && self.epilogue.activation == Unary::Identity {
                rest = self.one::<H>(rows.start, rest);
            }
            let right = Right::Packed(self.right.at(0));
            // an address of f32 is one of what wraps it
            self.block::<Beside<H>>(&rows, rest, pointers.cast(), plan.panels, right, 0);
        });
    }

    /// Multiplies by each panel widened.
    fn many<H: Half>(
        &self,
        rows: &Range<usize>,
        range: Range<usize>,
        pointers: *const *const f32,
        widened: &mut [f32],
    ) {
        let plan = self.plan;
        let whole = Panels::new(plan.isa, plan.k, plan.panels.n);
        for panel in range {
            let width = plan.panels.width_of(panel);
            plan.isa.run(Widen {
                from: self.right.at(plan.panels.offset(panel)),
                to: &mut widened[..width * (plan.k + 1)],
                width,
                of: PhantomData::<H>,
            });
            let one = whole.with_columns(whole.columns(panel));
            let right = Right::Own(widened.as_ptr());
            self.block::<f32>(rows, 0..1, pointers, one, right, panel * whole.width);
        }
    }

    /// Multiplies rows by a range of panels, whose first column is `left`.
    fn block<A: Element>(
        &self,
        rows: &Range<usize>,
        range: Range<usize>,
        pointers: *const *const A,
        panels: Panels,
        right: Right,
        left: usize,
    ) {
        let residual = self.residual.at_unless_null(rows.start * self.residual_stride);
        let block = Block {
            rows: rows.len(),
            pointers,
            taps: 1,
            k: self.plan.k,
            a_step: self.a_step,
            panels,
            range,
            right,
            out: self.c.as_ptr().wrapping_add(rows.start * self.c_stride + left),
            out_stride: self.c_stride,
            residual: if residual.is_null() {
                std::ptr::null()
            } else {
                residual.wrapping_add(left).cast::<A>()
            },
            residual_stride: self.residual_stride,
            scale: 1.0,
            epilogue: self.epilogue,
        };
        // SAFETY: who made the call has seen that the operands cover the shape; chunks write disjoint rows or columns.
        unsafe { multiply(self.plan.isa, &block) };
    }

    /// Multiplies one row by as many whole panels as go side by side; returns the others.
    fn one<H: Half>(&self, row: usize, range: Range<usize>) -> Range<usize> {
        let plan = self.plan;
        let panels = plan.panels;
        let whole = range.end.min(panels.n / panels.width).max(range.start);
        let count = (whole - range.start) / BESIDE;
        if count > 0 {
            plan.isa.run(OneRow {
                x: self.a.at(row * self.a_stride),
                x_step: self.a_step,
                k: plan.k,
                panel: self.right.at(panels.offset(range.start)),
                panel_floats: panels.width * (panels.depth + 1),
                groups: count,
                out: self
                    .c
                    .as_ptr()
                    .wrapping_add(row * self.c_stride + range.start * panels.width),
                residual: self
                    .residual
                    .at_unless_null(row * self.residual_stride + range.start * panels.width),
                of: PhantomData::<H>,
            });
        }
        range.start + count * BESIDE..range.end
    }
}

/// Widens a panel; its bias is of `f32`.
struct Widen<'a, H> {
    from: *const f32,
    to: &'a mut [f32],
    width: usize,
    of: PhantomData<H>,
}

impl<H: Half> Kernel for Widen<'_, H> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (bias, rows) = self.to.split_at_mut(self.width);
        // SAFETY: a panel starts with `width` floats of bias.
        bias.copy_from_slice(unsafe { std::slice::from_raw_parts(self.from, self.width) });
        let from = self.from.wrapping_add(self.width).cast::<H>();
        // the width is of whole vectors
        for (at, to) in rows.chunks_exact_mut(S::LANES).enumerate() {
            let from = from.wrapping_add(at * S::LANES);
            s.prefetch(from.wrapping_add(512).cast());
            // SAFETY: the panel holds as many values as are wanted.
            unsafe { s.store(to.as_mut_ptr(), H::widen(s, from)) };
        }
    }
}

/// One row times groups of [`BESIDE`] whole panels, one behind the other.
struct OneRow<H> {
    x: *const f32,
    x_step: usize,
    k: usize,
    panel: *const f32,
    panel_floats: usize,
    groups: usize,
    out: *mut f32,
    residual: *const f32,
    of: PhantomData<H>,
}

impl<H: Half> Kernel for OneRow<H> {
    type Output = ();
    /// Sums in the order of the tile.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const VECTORS: usize = 2;
        let width = VECTORS * S::LANES;
        let piece = match self.k {
            ..=LONGEST_CHAIN => self.k.max(1),
            k => k.div_ceil(k.div_ceil(LONGEST_CHAIN)),
        };
        for group in 0..self.groups {
            let panels: [*const f32; BESIDE] =
                std::array::from_fn(|p| self.panel.wrapping_add((group * BESIDE + p) * self.panel_floats));
            let mut sums = [[s.splat(0.0); VECTORS]; BESIDE];
            for (sums, panel) in sums.iter_mut().zip(panels) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the bias of a whole panel is two vectors wide.
                    *sum = unsafe { s.load(panel.add(v * S::LANES)) };
                }
            }
            let rows = panels.map(|panel| panel.wrapping_add(width).cast::<H>());
            let mut total = [[s.splat(0.0); VECTORS]; BESIDE];
            let mut at = 0;
            loop {
                let end = self.k.min(at + piece);
                for word in at..end {
                    // SAFETY: the row has k values, x_step apart.
                    let x = s.splat(unsafe { *self.x.add(word * self.x_step) });
                    for (sums, row) in sums.iter_mut().zip(rows) {
                        let row = row.wrapping_add(word * width);
                        s.prefetch(row.cast::<u8>().wrapping_add(AHEAD).cast());
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: a panel has k rows of two vectors.
                            let b = unsafe { H::widen(s, row.add(v * S::LANES)) };
                            *sum = s.mul_add(x, b, *sum);
                        }
                    }
                }
                at = end;
                if at == self.k {
                    break;
                }
                for (total, sums) in total.iter_mut().zip(&mut sums) {
                    for (total, sum) in total.iter_mut().zip(sums) {
                        *total = s.add(*total, *sum);
                        *sum = s.splat(0.0);
                    }
                }
            }
            for (p, (total, sums)) in total.iter().zip(sums).enumerate() {
                for (v, (&total, sum)) in total.iter().zip(sums).enumerate() {
                    let mut sum = if self.k > LONGEST_CHAIN {
                        s.add(total, sum)
                    } else {
                        sum
                    };
                    let column = (group * BESIDE + p) * width + v * S::LANES;
                    if !self.residual.is_null() {
                        // SAFETY: the residual has the row's columns.
                        sum = s.add(sum, unsafe { s.load(self.residual.add(column)) });
                    }
                    // SAFETY: so has the result.
                    unsafe { s.store(self.out.add(column), sum) };
                }
            }
        }
    }
}
