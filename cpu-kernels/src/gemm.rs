//! Matrix products: `C = activation(A · B + bias + residual)`, with B packed once or packed per run.
#![allow(unsafe_code)]

mod elements;
mod half;

use crate::isa::Load;
use crate::isa::dot::Element;
use crate::schedule::{Cut, Extent, Scratch};
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::{Epilogue, Error, Isa, Slice, SliceMut, ThreadPool};
use ::half::bf16;

pub use elements::Elements;
pub(crate) use elements::bf16_word;
pub use half::{HalfPlan, HalfType, Order};

/// A strided matrix: element `[r, c]` is `data[r * row_stride + c * column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The elements.
    pub data: Slice<'a>,
    /// Elements between rows.
    pub row_stride: usize,
    /// Elements between columns.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are contiguous and `row_stride` elements apart.
    #[must_use]
    pub fn rows(data: impl Into<Slice<'a>>, row_stride: usize) -> Self {
        Self {
            data: data.into(),
            row_stride,
            column_stride: 1,
        }
    }

    /// A matrix whose columns are contiguous and `column_stride` elements apart: the transpose of [`rows`](Self::rows).
    #[must_use]
    pub fn columns(data: impl Into<Slice<'a>>, column_stride: usize) -> Self {
        Self {
            data: data.into(),
            row_stride: 1,
            column_stride,
        }
    }
    /// Asserts that `rows` by `columns` elements lie in the slice.
    fn check(&self, name: &str, rows: usize, columns: usize) {
        let last = |count: usize, stride: usize| count.saturating_sub(1).saturating_mul(stride);
        let end = last(rows, self.row_stride).saturating_add(last(columns, self.column_stride));
        assert!(
            rows == 0 || columns == 0 || end < self.data.len(),
            "gemm: {name} is shorter than its shape"
        );
    }
}

/// Writes the row pointers of `rows` rows with one tap each.
///
/// # Safety
/// `to` has room for `rows` pointers.
pub(crate) unsafe fn row_pointers<A>(to: *mut *const A, rows: usize, first: *const A, stride: usize) {
    for r in 0..rows {
        // SAFETY: r < rows.
        unsafe { *to.add(r) = first.wrapping_add(r * stride) };
    }
}

/// A product with a constant right operand `[k, n]`, packed once; the crate's first page has an example.
#[derive(Debug, Clone)]
pub struct GemmPlan {
    isa: Isa,
    panels: Panels,
    /// Rows of b: elements, where the panels' depth counts words.
    k: usize,
    elements: Elements,
}

impl GemmPlan {
    /// Plans a product `[m, k] · [k, n]` of `f32` for any `m`.
    ///
    /// # Errors
    /// If the packed size does not fit the address space.
    pub fn new(isa: Isa, k: usize, n: usize) -> Result<Self, Error> {
        Self::of(Elements::F32, isa, k, n)
    }

    /// Plans a product `[m, k] · [k, n]` for any `m`.
    ///
    /// # Errors
    /// If the packed size does not fit the address space.
    pub fn of(elements: Elements, isa: Isa, k: usize, n: usize) -> Result<Self, Error> {
        let padded = n.checked_add(64).ok_or_else(|| Error::too_large("gemm", "b"))?;
        crate::error::product("gemm", "b", &[k.saturating_add(1), padded])?;
        let isa = elements.isa(isa);
        Ok(Self {
            isa,
            panels: elements.panels(isa, k, n),
            k,
            elements,
        })
    }

    /// Multiply-adds of a row of the result, padding included.
    #[must_use]
    pub fn multiply_adds_per_row(&self) -> usize {
        self.elements.per_float() * self.packed_len()
    }

    /// Length of the packed operand in floats. Length and layout depend only on the element type,
    /// `k`, `n` and [`Isa::code`].
    #[must_use]
    pub fn packed_len(&self) -> usize {
        self.panels.len()
    }

    /// Packs `b` `[k, n]` of `f32` and the bias `[n]`.
    ///
    /// # Panics
    /// If `b` is not of `f32`, a length is too small, or `packed` is not [`packed_len`](Self::packed_len) long.
    pub fn pack(&self, b: Matrix<'_>, bias: Option<&[f32]>, packed: &mut [f32]) {
        b.check("b", self.k, self.panels.n);
        let Slice::F32(data) = b.data else {
            panic!("gemm: what is packed is not of f32");
        };
        let bias = |column: usize| bias.map_or(0.0, |bias| bias[column]);
        let value = |row: usize, column: usize| data[row * b.row_stride + column * b.column_stride];
        match self.elements {
            Elements::F32 => self.panels.pack_strided(
                packed,
                bias,
                data,
                [1, self.k],
                [0, b.row_stride, b.column_stride],
            ),
            Elements::Bf16 => self.panels.pack(packed, bias, |word, column| {
                bf16_word(self.k, word, |_, row| value(row, column))
            }),
        }
    }

    fn cut(&self, m: usize, threads: usize) -> Cut {
        let Panels { n, depth, .. } = self.panels;
        Extent {
            rows: m,
            panels: self.panels.count(),
            taps: 1,
            row_bytes: depth * 4,
            panel_bytes: self.panels.len() * 4,
            flops: m.saturating_mul(2 * n * self.k),
            repeats: 1,
            tile_rows: tile::tile_rows(self.isa),
            threads,
        }
        .cut()
    }

    /// Floats of scratch that a run with `m` rows needs.
    #[must_use]
    pub fn scratch_len(&self, m: usize, pool: &ThreadPool) -> usize {
        Scratch::len(0, 2 * self.cut(m, pool.threads()).block_rows, pool.threads())
    }

    /// `c = epilogue(a · b + bias, residual)` for `m` rows; row `r` of `c` starts at `r * c_stride`.
    ///
    /// The residual has the product's element type; `c` has the same type or `f32`.
    ///
    /// # Panics
    /// If a slice is too short for its shape or of another element type, columns of the residual or of a `bf16`
    /// operand are not contiguous, `c_stride` is smaller than `n`, or scratch is shorter than
    /// [`scratch_len`](Self::scratch_len).
    pub fn run<'c>(
        &self,
        pool: &ThreadPool,
        m: usize,
        a: Matrix<'_>,
        packed: &[f32],
        residual: Option<Matrix<'_>>,
        epilogue: Epilogue,
        c: impl Into<SliceMut<'c>>,
        c_stride: usize,
        scratch: &mut [f32],
    ) {
        self.slices(
            pool,
            m,
            a,
            packed,
            residual,
            epilogue,
            c.into(),
            c_stride,
            scratch,
        );
    }

    fn slices(
        &self,
        pool: &ThreadPool,
        m: usize,
        a: Matrix<'_>,
        packed: &[f32],
        residual: Option<Matrix<'_>>,
        epilogue: Epilogue,
        c: SliceMut<'_>,
        c_stride: usize,
        scratch: &mut [f32],
    ) {
        let strides = (a.row_stride, a.column_stride);
        a.check("a", m, self.k);
        if let Some(residual) = residual {
            residual.check("the residual", m, self.panels.n);
            assert!(
                residual.column_stride == 1 || self.panels.n <= 1,
                "gemm: columns of the residual are not contiguous"
            );
        }
        let added_stride = residual.map_or(0, |r| r.row_stride);
        match (self.elements, a.data, c) {
            (Elements::F32, Slice::F32(a), SliceMut::F32(c)) => {
                let added = residual.map_or(std::ptr::null(), |r| r.data.f32s().as_ptr());
                let added = (added, added_stride);
                self.typed(
                    pool,
                    m,
                    a.as_ptr(),
                    strides,
                    packed,
                    added,
                    epilogue,
                    c,
                    c_stride,
                    scratch,
                );
            }
            (Elements::Bf16, Slice::Bf16(a), c) => {
                assert!(
                    strides.1 == 1 || self.k <= 1,
                    "gemm: columns of a bf16 operand are not contiguous"
                );
                let added = residual.map_or(std::ptr::null(), |r| r.data.bf16s().as_ptr());
                let (a, added) = (a.as_ptr(), (added, added_stride));
                match c {
                    SliceMut::F32(c) => {
                        self.typed(pool, m, a, strides, packed, added, epilogue, c, c_stride, scratch);
                    }
                    SliceMut::Bf16(c) => {
                        self.typed(pool, m, a, strides, packed, added, epilogue, c, c_stride, scratch);
                    }
                }
            }
            _ => panic!("gemm: element types differ"),
        }
    }

    /// The addresses were checked against the shape.
    fn typed<A: Element, E: Load>(
        &self,
        pool: &ThreadPool,
        m: usize,
        a: *const A,
        (a_stride, a_step): (usize, usize),
        packed: &[f32],
        (added, added_stride): (*const A, usize),
        epilogue: Epilogue,
        c: &mut [E],
        c_stride: usize,
        scratch: &mut [f32],
    ) {
        let (n, k) = (self.panels.n, self.k);
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
        let cut = self.cut(m, pool.threads());
        let scratch = Scratch::new(scratch, 0, 2 * cut.block_rows, pool.threads());
        let (a, c, right) = (Address(a), Parts::new(c), Address(packed.as_ptr()));
        let added = Address(added);
        pool.run_indexed(cut.row_blocks * cut.panel_groups, &|thread, chunk| {
            let rows = cut.block(m, chunk / cut.panel_groups);
            let range = share(self.panels.count(), cut.panel_groups, chunk % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const A>();
            let first = a.at(rows.start * a_stride);
            // SAFETY: the part holds 2 * block_rows floats, starts on a cache line, and the block is not longer.
            unsafe { row_pointers(pointers, rows.len(), first, a_stride) };
            let block = Block {
                rows: rows.len(),
                pointers,
                taps: 1,
                k,
                a_step,
                panels: self.panels,
                range,
                right: Right::Packed(right.at(0)),
                out: c.as_ptr().wrapping_add(rows.start * c_stride),
                out_stride: c_stride,
                residual: added.at_unless_null(rows.start * added_stride),
                residual_stride: added_stride,
                scale: 1.0,
                epilogue,
            };
            // SAFETY: the assertions above cover every operand; chunks write disjoint rows or columns.
            unsafe { multiply(self.isa, &block) };
        });
    }
}

/// Maximum number of batch dimensions of a [`MatMulPlan`]; callers merge further ones or loop over
/// them.
pub const MAX_BATCH_DIMS: usize = 4;

/// Strides of one operand of a batched product, in elements; a batch stride of 0 repeats the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strides {
    /// Between matrices, per batch dimension.
    pub batch: [usize; MAX_BATCH_DIMS],
    /// Between rows.
    pub row: usize,
    /// Between columns.
    pub column: usize,
}

/// Shape of a batched product `c[batch, m, n] = alpha * a[batch, m, k] · b[batch, k, n]`, both operands computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatMulParams {
    /// Batch dimensions, outermost first; unused ones are 1.
    pub batch: [usize; MAX_BATCH_DIMS],
    /// Rows of a and c.
    pub m: usize,
    /// Columns of a, rows of b.
    pub k: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Strides of a.
    pub a: Strides,
    /// Strides of b.
    pub b: Strides,
    /// Strides of c; its column stride is 1.
    pub c: Strides,
    /// Factor of the product.
    pub alpha: f32,
    /// Applied to the result; it has no residual operand here.
    pub activation: crate::Unary,
}

impl MatMulParams {
    /// A dense product with one batch dimension and no transposition.
    #[must_use]
    pub const fn dense(batch: usize, m: usize, k: usize, n: usize) -> Self {
        Self {
            batch: [1, 1, 1, batch],
            m,
            k,
            n,
            a: Strides {
                batch: [0, 0, 0, m * k],
                row: k,
                column: 1,
            },
            b: Strides {
                batch: [0, 0, 0, k * n],
                row: n,
                column: 1,
            },
            c: Strides {
                batch: [0, 0, 0, m * n],
                row: n,
                column: 1,
            },
            alpha: 1.0,
            activation: crate::Unary::Identity,
        }
    }
}

/// A batched product of two computed operands (attention scores and the like).
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, gemm::{MatMulParams, MatMulPlan}};
///
/// let mut params = MatMulParams::dense(1, 2, 2, 2);
/// (params.b.row, params.b.column) = (1, 2); // b is read transposed
/// let plan = MatMulPlan::new(Isa::detect(), params)?;
/// let pool = ThreadPool::new(1);
/// let (mut c, mut scratch) = ([0.0; 4], vec![0.0; plan.scratch_len(&pool)]);
/// plan.run(&pool, &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 10.0], &mut c, &mut scratch);
/// assert_eq!(c, [1.0, 20.0, 3.0, 40.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MatMulPlan {
    isa: Isa,
    params: MatMulParams,
    elements: Elements,
    panels: Panels,
    /// Elements that a, b and c must have.
    needed: [usize; 3],
}

impl MatMulPlan {
    /// Plans a product of `f32`.
    ///
    /// # Errors
    /// If the column stride of c is not 1, two results share an element, or a size does not fit the address space.
    pub fn new(isa: Isa, params: MatMulParams) -> Result<Self, Error> {
        Self::of(Elements::F32, isa, params)
    }

    /// Plans a product.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the column stride of a `bf16` operand a is not 1.
    pub fn of(elements: Elements, isa: Isa, params: MatMulParams) -> Result<Self, Error> {
        const NAME: &str = "matmul";
        let MatMulParams {
            batch,
            m,
            k,
            n,
            a,
            b,
            c,
            ..
        } = params;
        let isa = elements.isa(isa);
        let batches = crate::error::product(NAME, "the batch", &batch)?;
        for sizes in [
            [batches, m, k],
            [batches, k.saturating_add(1), n.saturating_add(64)],
            [batches, m, n],
        ] {
            crate::error::product(NAME, "an operand", &sizes)?;
        }
        let empty = batches == 0 || m == 0 || n == 0;
        let end = |s: &Strides, rows: usize, columns: usize| {
            let dims = batch
                .iter()
                .zip(&s.batch)
                .chain([(&rows, &s.row), (&columns, &s.column)]);
            let mut last = 0usize;
            for (size, stride) in dims {
                if *size == 0 {
                    return Some(0);
                }
                last = last.checked_add((size - 1).checked_mul(*stride)?)?;
            }
            last.checked_add(1).filter(|&end| end <= isize::MAX as usize / 4)
        };
        let mut needed = [0; 3];
        for (needed, end) in needed
            .iter_mut()
            .zip([end(&a, m, k), end(&b, k, n), end(&c, m, n)])
        {
            *needed = if empty {
                0
            } else {
                end.ok_or_else(|| Error::too_large(NAME, "an operand"))?
            };
        }
        if c.column != 1 && n > 1 {
            return Err(Error::parameter(
                NAME,
                "column stride of c",
                c.column,
                "it must be 1",
            ));
        }
        if elements == Elements::Bf16 && a.column != 1 && k > 1 {
            let rule = "it must be 1 for pairs of bf16";
            return Err(Error::parameter(NAME, "column stride of a", a.column, rule));
        }
        let mut dims = [(1, n), (c.row, m), (0, 0), (0, 0), (0, 0), (0, 0)];
        for (dim, from) in dims[2..].iter_mut().zip(c.batch.iter().zip(&batch)) {
            *dim = (*from.0, *from.1);
        }
        dims.sort_unstable();
        let mut reach = 0;
        for (stride, size) in dims.into_iter().filter(|dim| dim.1 > 1) {
            if stride <= reach && !empty {
                return Err(Error::parameter(
                    NAME,
                    "stride of c",
                    stride,
                    "no two results may share an element",
                ));
            }
            reach += stride * (size - 1);
        }
        Ok(Self {
            isa,
            params,
            elements,
            panels: elements.panels(isa, k, n),
            needed,
        })
    }

    /// Whether panels are read where they are: packing one is worth it from a few tiles of rows on.
    fn in_place(&self) -> bool {
        self.elements == Elements::F32
            && self.params.b.column == 1
            && self.params.m <= 2 * tile::tile_rows(self.isa)
    }

    fn cut(&self, threads: usize) -> Cut {
        let MatMulParams { batch, m, k, n, .. } = self.params;
        Extent {
            rows: m,
            panels: self.panels.count(),
            taps: 1,
            row_bytes: k * self.elements.bytes(),
            // a panel is packed per block, so blocks are long
            panel_bytes: usize::MAX,
            flops: m.saturating_mul(2 * n * k),
            repeats: batch.iter().product(),
            tile_rows: tile::tile_rows(self.isa),
            threads,
        }
        .cut()
    }

    /// Floats of one thread's scratch: a packed panel behind the row pointers.
    fn own(&self, cut: Cut) -> (usize, usize) {
        let pointers = (2 * cut.block_rows).next_multiple_of(16);
        (pointers, pointers + self.panels.width * (self.panels.depth + 1))
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        Scratch::len(0, self.own(self.cut(pool.threads())).1, pool.threads())
    }

    /// Runs the product; `c` is of the product's elements or of `f32`.
    ///
    /// # Panics
    /// If a slice is too short for its shape and strides or of another element type, or scratch is too short.
    pub fn run<'a>(
        &self,
        pool: &ThreadPool,
        a: impl Into<Slice<'a>>,
        b: impl Into<Slice<'a>>,
        c: impl Into<SliceMut<'a>>,
        scratch: &mut [f32],
    ) {
        self.slices(pool, a.into(), b.into(), c.into(), scratch);
    }

    fn slices(&self, pool: &ThreadPool, a: Slice<'_>, b: Slice<'_>, c: SliceMut<'_>, scratch: &mut [f32]) {
        match (self.elements, a, b, c) {
            (Elements::F32, Slice::F32(a), Slice::F32(b), SliceMut::F32(c)) => {
                self.typed(pool, a, b, c, scratch);
            }
            (Elements::Bf16, Slice::Bf16(a), Slice::Bf16(b), SliceMut::F32(c)) => {
                self.typed(pool, a, b, c, scratch);
            }
            (Elements::Bf16, Slice::Bf16(a), Slice::Bf16(b), SliceMut::Bf16(c)) => {
                self.typed(pool, a, b, c, scratch);
            }
            _ => panic!("matmul: element types differ"),
        }
    }

    fn typed<A: Panel, E: Load>(
        &self,
        pool: &ThreadPool,
        a: &[A],
        b: &[A],
        c: &mut [E],
        scratch: &mut [f32],
    ) {
        assert!(a.len() >= self.needed[0], "matmul: a is shorter than its shape");
        assert!(b.len() >= self.needed[1], "matmul: b is shorter than its shape");
        assert!(c.len() >= self.needed[2], "matmul: c is shorter than its shape");
        let p = &self.params;
        let batches: usize = p.batch.iter().product();
        if batches == 0 || p.m == 0 || p.n == 0 {
            return;
        }
        let cut = self.cut(pool.threads());
        let (pointer_floats, own) = self.own(cut);
        let scratch = Scratch::new(scratch, 0, own, pool.threads());
        let (a, b, c) = (Address(a.as_ptr()), Address(b.as_ptr()), Parts::new(c));
        let per_batch = cut.row_blocks * cut.panel_groups;
        let units = batches * per_batch;
        let small = p.m * p.n * p.k * batches < 250_000;
        let chunks = if small { 1 } else { units.min(pool.threads() * 4) };
        pool.run_indexed(chunks, &|thread, chunk| {
            // SAFETY: this thread's own part, asked for once.
            let (pointers, packed) = unsafe { scratch.own(thread) }.split_at_mut(pointer_floats);
            let pointers = pointers.as_mut_ptr().cast::<*const A>();
            for unit in share(units, chunks, chunk, 1) {
                let (mut at_a, mut at_b, mut at_c, mut rest) = (0, 0, 0, unit / per_batch);
                for i in (0..MAX_BATCH_DIMS).rev() {
                    let index = rest % p.batch[i];
                    rest /= p.batch[i];
                    at_a += index * p.a.batch[i];
                    at_b += index * p.b.batch[i];
                    at_c += index * p.c.batch[i];
                }
                let part = unit % per_batch;
                let rows = cut.block(p.m, part / cut.panel_groups);
                let first = a.at(at_a + rows.start * p.a.row);
                // SAFETY: the part holds 2 * block_rows floats, starts on a cache line, and the block is not longer.
                unsafe { row_pointers(pointers, rows.len(), first, p.a.row) };
                for panel in share(self.panels.count(), cut.panel_groups, part % cut.panel_groups, 1) {
                    let columns = self.panels.columns(panel);
                    let left = panel * self.panels.width;
                    let source = b.at(at_b + left * p.b.column);
                    let one = self.panels.with_columns(columns);
                    let right = if self.in_place() && columns == one.width_of(0) {
                        // only f32 is
                        Right::InPlace(source.cast(), p.b.row)
                    } else {
                        // SAFETY: the operand was checked against its strides; columns lie in it.
                        unsafe { A::pack_panel(packed, one, p.k, source, p.b.row, p.b.column) };
                        Right::Own(packed.as_ptr())
                    };
                    let block = Block {
                        rows: rows.len(),
                        pointers,
                        taps: 1,
                        k: p.k,
                        a_step: p.a.column,
                        panels: one,
                        range: 0..1,
                        right,
                        out: c.as_ptr().wrapping_add(at_c + rows.start * p.c.row + left),
                        out_stride: p.c.row,
                        residual: std::ptr::null(),
                        residual_stride: 0,
                        scale: p.alpha,
                        epilogue: Epilogue::activation(p.activation),
                    };
                    // SAFETY: the operands cover the shape; `new` made sure that results do not overlap.
                    unsafe { multiply(self.isa, &block) };
                }
            }
        });
    }
}

/// An element type whose panels are packed per run.
pub(crate) trait Panel: Element {
    /// Packs one panel of a computed operand of `k` rows, without bias.
    ///
    /// # Safety
    /// `k` rows of `panel.n` columns at these strides are readable at `source`.
    unsafe fn pack_panel(
        packed: &mut [f32],
        panel: Panels,
        k: usize,
        source: *const Self,
        row_stride: usize,
        column_stride: usize,
    );
}

impl Panel for bf16 {
    unsafe fn pack_panel(
        packed: &mut [f32],
        panel: Panels,
        k: usize,
        source: *const Self,
        row_stride: usize,
        column_stride: usize,
    ) {
        let (width, columns, depth) = (panel.width_of(0), panel.n, panel.depth);
        let (bias, rows) = packed[..width * (depth + 1)].split_at_mut(width);
        bias.fill(0.0);
        for (r, row) in rows.chunks_exact_mut(width).enumerate() {
            let from = source.wrapping_add(2 * r * row_stride);
            let (used, rest) = row.split_at_mut(columns);
            rest.fill(0.0);
            let pair = 2 * r + 1 < k;
            if row_stride == 1 && pair {
                // neighbours in memory are the pair
                for (c, x) in used.iter_mut().enumerate() {
                    // SAFETY: the caller promises these columns.
                    *x = unsafe {
                        from.wrapping_add(c * column_stride)
                            .cast::<f32>()
                            .read_unaligned()
                    };
                }
                continue;
            }
            if column_stride == 1 && pair {
                // SAFETY: two rows of `columns` readable values.
                let (low, high) = unsafe {
                    (
                        std::slice::from_raw_parts(from, columns),
                        std::slice::from_raw_parts(from.wrapping_add(row_stride), columns),
                    )
                };
                for ((x, low), high) in used.iter_mut().zip(low).zip(high) {
                    *x = f32::from_bits(u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16);
                }
                continue;
            }
            for (c, x) in used.iter_mut().enumerate() {
                let at = from.wrapping_add(c * column_stride);
                // SAFETY: the caller promises these columns.
                let low = u32::from(unsafe { *at }.to_bits());
                let mut high = 0;
                if pair {
                    // SAFETY: as above, for the row below.
                    high = u32::from(unsafe { *at.wrapping_add(row_stride) }.to_bits());
                }
                *x = f32::from_bits(low | high << 16);
            }
        }
    }
}

impl Panel for f32 {
    unsafe fn pack_panel(
        packed: &mut [f32],
        panel: Panels,
        _: usize,
        source: *const f32,
        row_stride: usize,
        column_stride: usize,
    ) {
        let (width, columns, depth) = (panel.width_of(0), panel.n, panel.depth);
        let (bias, rows) = packed[..width * (depth + 1)].split_at_mut(width);
        bias.fill(0.0);
        for (r, row) in rows.chunks_exact_mut(width).enumerate() {
            let from = source.wrapping_add(r * row_stride);
            let (used, rest) = row.split_at_mut(columns);
            rest.fill(0.0);
            if column_stride == 1 {
                // SAFETY: a row of `columns` readable values; the packed panel is other memory.
                unsafe { std::ptr::copy_nonoverlapping(from, used.as_mut_ptr(), columns) };
            } else {
                for (c, x) in used.iter_mut().enumerate() {
                    // SAFETY: the caller promises these columns.
                    *x = unsafe { *from.wrapping_add(c * column_stride) };
                }
            }
        }
    }
}
