//! Elementwise kernels: unary functions, binary functions with broadcasting, and the epilogue of a tile.
//!
//! 1. Values are computed in `f32` and stored as `f32` or `bf16`. NaN is propagated.
//! 2. Accuracy is stated at each function of [`Unary`] in units in the last place (ULP) and tested against `f64`.
//!
//! Not here: integer and boolean element types; conversions ([`crate::convert`]).
#![allow(unsafe_code)]

pub(crate) mod binary;
mod function;
pub(crate) mod unary;

pub use function::{Binary, Unary};

use crate::copy::{Loops, Nest};
use crate::elementwise_int::{REPEATED, Row, Rows};
use crate::isa::Load;
use crate::threads::{Address, CHUNK, Parts, share};
use crate::{Error, Isa, Slice, SliceMut, ThreadPool};
use std::mem::MaybeUninit;

/// When a residual is added to the result of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Residual {
    /// `activation(product + bias + residual)`, as ResNet does.
    #[default]
    BeforeActivation,
    /// `activation(product + bias) + residual`, as CSP blocks do.
    AfterActivation,
}

/// Operations applied to each result of a product before it is stored.
///
/// The operands of a run decide whether there is a residual; the epilogue decides where it is added.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Epilogue {
    /// The function applied.
    pub activation: Unary,
    /// Where a residual operand is added.
    pub residual: Residual,
}

impl Epilogue {
    /// No activation.
    pub const NONE: Epilogue = Epilogue {
        activation: Unary::Identity,
        residual: Residual::BeforeActivation,
    };

    /// `activation`, applied after a residual if there is one.
    #[must_use]
    pub const fn activation(activation: Unary) -> Self {
        Self {
            activation,
            residual: Residual::BeforeActivation,
        }
    }
}

/// `output[i] = f(input[i])`; the identity converts between element types.
///
/// # Panics
/// If the lengths differ.
pub fn unary<'a, 'b>(
    isa: Isa,
    pool: &ThreadPool,
    f: Unary,
    input: impl Into<Slice<'a>>,
    output: impl Into<SliceMut<'b>>,
) {
    slices(isa, pool, f, input.into(), output.into());
}

fn slices(isa: Isa, pool: &ThreadPool, f: Unary, input: Slice<'_>, output: SliceMut<'_>) {
    assert_eq!(input.len(), output.len(), "unary: lengths differ");
    match (input, output) {
        (Slice::F32(x), SliceMut::F32(y)) => run_unary(isa, pool, f, x.as_ptr(), y),
        (Slice::F32(x), SliceMut::Bf16(y)) => run_unary(isa, pool, f, x.as_ptr(), y),
        (Slice::Bf16(x), SliceMut::F32(y)) => run_unary(isa, pool, f, x.as_ptr(), y),
        (Slice::Bf16(x), SliceMut::Bf16(y)) => run_unary(isa, pool, f, x.as_ptr(), y),
    }
}

/// `data[i] = f(data[i])`.
pub fn unary_in_place<'a>(isa: Isa, pool: &ThreadPool, f: Unary, data: impl Into<SliceMut<'a>>) {
    slice_in_place(isa, pool, f, data.into());
}

fn slice_in_place(isa: Isa, pool: &ThreadPool, f: Unary, data: SliceMut<'_>) {
    match data {
        SliceMut::F32(data) => run_unary(isa, pool, f, data.as_ptr(), data),
        SliceMut::Bf16(data) => run_unary(isa, pool, f, data.as_ptr(), data),
    }
}

/// `input` is the start of `output.len()` readable values: another slice, or `output` itself.
fn run_unary<A: Load, B: Load>(isa: Isa, pool: &ThreadPool, f: Unary, input: *const A, output: &mut [B]) {
    let len = output.len();
    let (from, to) = (Address(input), Parts::new(output));
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let range = share(len, chunks, chunk, 64);
        A::enter_with::<B, _, _>(
            isa,
            &unary::Rows {
                f,
                rows: 1,
                columns: range.len(),
                input: from.at(range.start),
                input_stride: 0,
                out: to.as_ptr().wrapping_add(range.start),
                out_stride: 0,
                added: std::ptr::null::<B>(),
                added_stride: 0,
            },
        );
    });
}

/// The loops of a binary function with broadcasting, planned for its shapes.
///
/// Operands are dense; shapes are aligned at their last dimension, and a dimension of 1 is repeated.
///
/// ```
/// use polychip_cpu_kernels::{Binary, Isa, ThreadPool, elementwise::BinaryPlan};
///
/// let plan = BinaryPlan::new(&[2, 1], &[3])?;
/// let mut sum = vec![0.0f32; plan.output_len()];
/// plan.run(Isa::detect(), &ThreadPool::new(1), Binary::Add, &[10.0f32, 20.0], &[1.0f32, 2.0, 3.0], &mut sum);
/// assert_eq!(sum, [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BinaryPlan {
    /// Strides of a, b and the result.
    loops: Loops<3>,
    a_len: usize,
    b_len: usize,
}

impl BinaryPlan {
    /// Plans `f(a, b)` for operands of shapes `a` and `b`.
    ///
    /// # Errors
    /// If the shapes do not broadcast together, or the result is too large.
    pub fn new(a: &[usize], b: &[usize]) -> Result<Self, Error> {
        const NAME: &str = "binary";
        let rank = a.len().max(b.len());
        let dim = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
        let output = |i| {
            let (a, b) = (dim(a, i), dim(b, i));
            if a == 1 { b } else { a }
        };
        let mut nest = Nest::new(NAME);
        let (mut strides, mut total) = ([1usize; 3], 1usize);
        // from the innermost dimension outwards, because strides grow that way
        for i in (0..rank).rev() {
            let sizes = [dim(a, i), dim(b, i), output(i)];
            if sizes[0] != sizes[2] && sizes[0] != 1 || sizes[1] != sizes[2] && sizes[1] != 1 {
                let rule = "the shapes must broadcast together";
                return Err(Error::parameter(NAME, "dimension of b", sizes[1], rule));
            }
            let step = |o: usize| {
                if sizes[o] == sizes[2] {
                    strides[o] as isize
                } else {
                    0
                }
            };
            nest.outer(sizes[2], [step(0), step(1), step(2)])?;
            for o in 0..3 {
                strides[o] = crate::error::product(NAME, "an operand", &[strides[o], sizes[o]])?;
            }
            total = strides[2];
        }
        let _ = total;
        Ok(Self {
            loops: nest.finish(),
            a_len: strides[0],
            b_len: strides[1],
        })
    }

    /// Elements of the result.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.loops.len()
    }

    /// `output = f(a, b)`, all of one element type.
    ///
    /// # Panics
    /// If a slice's length is not that of its planned shape, or element types differ.
    pub fn run<'a>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        f: Binary,
        a: impl Into<Slice<'a>>,
        b: impl Into<Slice<'a>>,
        output: impl Into<SliceMut<'a>>,
    ) {
        self.slices(isa, pool, f, a.into(), b.into(), output.into());
    }

    fn slices(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        f: Binary,
        a: Slice<'_>,
        b: Slice<'_>,
        output: SliceMut<'_>,
    ) {
        assert_eq!(a.len(), self.a_len, "binary: length of a");
        assert_eq!(b.len(), self.b_len, "binary: length of b");
        assert_eq!(output.len(), self.output_len(), "binary: length of the output");
        match (a, b, output) {
            (Slice::F32(a), Slice::F32(b), SliceMut::F32(y)) => {
                self.go(isa, pool, f, a.as_ptr(), b.as_ptr(), y);
            }
            (Slice::Bf16(a), Slice::Bf16(b), SliceMut::Bf16(y)) => {
                self.go(isa, pool, f, a.as_ptr(), b.as_ptr(), y);
            }
            _ => panic!("binary: element types differ"),
        }
    }

    /// `data = f(data, b)`, where the result has the shape of `data`.
    ///
    /// # Panics
    /// If a slice's length is not that of its planned shape, `a` is broadcast, or element types differ.
    pub fn run_in_place<'a>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        f: Binary,
        data: impl Into<SliceMut<'a>>,
        b: impl Into<Slice<'a>>,
    ) {
        self.slices_in_place(isa, pool, f, data.into(), b.into());
    }

    fn slices_in_place(&self, isa: Isa, pool: &ThreadPool, f: Binary, data: SliceMut<'_>, b: Slice<'_>) {
        assert_eq!(self.a_len, self.output_len(), "binary in place: a is broadcast");
        assert_eq!(b.len(), self.b_len, "binary: length of b");
        assert_eq!(data.len(), self.output_len(), "binary: length of the output");
        match (data, b) {
            (SliceMut::F32(y), Slice::F32(b)) => self.go(isa, pool, f, y.as_ptr(), b.as_ptr(), y),
            (SliceMut::Bf16(y), Slice::Bf16(b)) => self.go(isa, pool, f, y.as_ptr(), b.as_ptr(), y),
            _ => panic!("binary: element types differ"),
        }
    }

    /// `output = f(a, b)` by rows, of any element types.
    ///
    /// # Panics
    /// If a slice's length is not that of its planned shape.
    pub fn rows<T: Copy + Sync, U: Copy + Send>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        f: Rows<T, U>,
        a: &[T],
        b: &[T],
        output: &mut [U],
    ) {
        assert_eq!(a.len(), self.a_len, "rows: length of a");
        assert_eq!(b.len(), self.b_len, "rows: length of b");
        assert_eq!(output.len(), self.output_len(), "rows: length of the output");
        let out = Parts::new(output);
        self.loops
            .for_each_run(pool, CHUNK, &|[at_a, at_b, at_out], len, [a_step, b_step, _]| {
                // SAFETY: pieces of the loops share the output out.
                let y = unsafe { out.part(at_out as usize, len) };
                let b = row(b, at_b, b_step, len);
                match row(a, at_a, a_step, len) {
                    Row::Many(a) => f(isa, y, a, b),
                    Row::One(a) => repeated(isa, f, y, a, b),
                }
            });
    }

    /// `a` and `b` are the starts of operands of the planned shapes; `a` may be `output` itself.
    fn go<E: Load>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        f: Binary,
        a: *const E,
        b: *const E,
        output: &mut [E],
    ) {
        let (a, b, out) = (Address(a), Address(b), Parts::new(output));
        self.loops.for_each_run(
            pool,
            CHUNK,
            &|[at_a, at_b, at_out], len, [a_step, b_step, out_step]| {
                debug_assert!(out_step == 1 || len <= 1, "the result is dense");
                E::enter(
                    isa,
                    &binary::Run {
                        f,
                        len,
                        a: a.at(at_a as usize),
                        b: b.at(at_b as usize),
                        a_step,
                        b_step,
                        out: out.as_ptr().wrapping_add(at_out as usize),
                    },
                );
            },
        );
    }
}

/// A function over a row, of a first operand that is one value.
fn repeated<T: Copy, U>(isa: Isa, f: Rows<T, U>, y: &mut [U], a: T, b: Row<'_, T>) {
    let mut room = [const { MaybeUninit::<T>::uninit() }; REPEATED];
    let room = &mut room[..y.len().min(REPEATED)];
    room.fill(MaybeUninit::new(a));
    // SAFETY: filled above.
    let values = unsafe { room.assume_init_ref() };
    for (i, y) in y.chunks_mut(REPEATED).enumerate() {
        let b = match b {
            Row::Many(b) => Row::Many(&b[i * REPEATED..][..y.len()]),
            one => one,
        };
        f(isa, y, &values[..y.len()], b);
    }
}

/// What a row of the result reads of an operand.
fn row<T: Copy>(x: &[T], at: isize, step: isize, len: usize) -> Row<'_, T> {
    let at = at as usize;
    match step {
        1 => Row::Many(&x[at..at + len]),
        _ => Row::One(x[at]),
    }
}
