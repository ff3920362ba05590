//! The layouts in panels: how a vector of columns becomes codes, scales and minima in registers.
//!
//! 1. A group is 32 values along the depth. It becomes eight vectors of unsigned codes, of which vector `v` holds values
//!    `4 * v` to `4 * v + 3` of each column, one a byte.
//! 2. A panel has one section for codes and another for their scales, block after block, so that a product reads two
//!    contiguous streams. [`super::pack`] writes both.
//!
//! Not here: the blocks of a file, which are [`super::pack`]'s.

use crate::isa::Simd;
use crate::isa::dot::{Bytes, I, Product};
use half::f16;

/// A layout of blocks of weights: ggml's, by their names in `ggml-common.h`, and two with codes, scale and zero point as in ONNX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // ggml's names
pub enum BlockLayout {
    /// 32 weights `(q - 8) * scale` of 4 bits.
    Q4_0,
    /// 32 weights `q * scale + minimum` of 4 bits.
    Q4_1,
    /// 32 weights `q * scale` of 8 bits with sign.
    Q8_0,
    /// 256 weights `q * (scale * s) - minimum * m` of 4 bits, `s` and `m` for each 32.
    Q4_K,
    /// Like Q4_K, with 5 bits.
    Q5_K,
    /// 256 weights `(q - 32) * (scale * s)` of 6 bits, `s` for each 16.
    Q6_K,
    /// 32 weights `(q - zero) * scale` of 4 bits: a 32-bit scale, an 8-bit zero point, then values 0 to 15 in the low halves
    /// of bytes and 16 to 31 in the high halves.
    U4,
    /// Like U4, with 8 bits.
    U8,
    /// Like Q4_1, with 5 bits.
    Q5_1,
    /// 256 weights `q * (scale * s) - minimum * m` of 2 bits, `s` and `m` for each 16.
    Q2_K,
}

impl BlockLayout {
    /// Every layout.
    pub const ALL: [BlockLayout; 10] = [
        BlockLayout::Q4_0,
        BlockLayout::Q4_1,
        BlockLayout::Q8_0,
        BlockLayout::Q4_K,
        BlockLayout::Q5_K,
        BlockLayout::Q6_K,
        BlockLayout::U4,
        BlockLayout::U8,
        BlockLayout::Q5_1,
        BlockLayout::Q2_K,
    ];

    /// Weights of a block.
    #[must_use]
    pub const fn elements(self) -> usize {
        match self {
            BlockLayout::Q4_0
            | BlockLayout::Q4_1
            | BlockLayout::Q5_1
            | BlockLayout::Q8_0
            | BlockLayout::U4
            | BlockLayout::U8 => 32,
            BlockLayout::Q2_K | BlockLayout::Q4_K | BlockLayout::Q5_K | BlockLayout::Q6_K => 256,
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            BlockLayout::Q4_0 => 18,
            BlockLayout::Q4_1 => 20,
            BlockLayout::Q8_0 => 34,
            BlockLayout::Q4_K => 144,
            BlockLayout::Q5_K => 176,
            BlockLayout::Q6_K => 210,
            BlockLayout::U4 => 21,
            BlockLayout::U8 => 37,
            BlockLayout::Q5_1 => 24,
            BlockLayout::Q2_K => 84,
        }
    }
}

/// A vector of floats of a product's instruction set.
pub(super) type F<B> = <<B as Product>::S as Simd>::F;

/// Values of a group.
pub(super) const GROUP: usize = 32;

/// The constant subtracted from the codes of a group, through the initial value of the row's sum; see [`super::rows`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing.
    Zero,
    /// Nothing; the two halves of a group have separate sums and minima.
    Halves,
    /// 8.
    Eight,
    /// 32; the two halves of a group have separate sums.
    ThirtyTwo,
    /// 128.
    Half,
}

/// The factors of a group's sums.
pub(super) struct Factors<T> {
    /// The scale of each half of the group.
    pub(super) scales: [T; 2],
    /// The term added to each weight of the halves.
    pub(super) minima: [T; 2],
}

/// The constants and decoding of a layout.
pub(super) trait Layout {
    /// The layout.
    const LAYOUT: BlockLayout;
    /// Words of a column's codes in a group.
    const WORDS: usize;
    /// Bytes of a column's scales and minima in a block.
    const SCALES: usize;
    /// The largest code.
    const MOST: i32;
    /// The constant subtracted from the codes.
    const START: Start;
    /// Whether weights have minima.
    const MINIMA: bool = false;
    /// Groups of a block.
    const GROUPS: usize = Self::LAYOUT.elements() / GROUP;

    /// The codes of a group.
    ///
    /// # Safety
    /// `4 * WORDS` bytes of each column are readable at `p`.
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8];

    /// The scale of a block, and the scale of its minima or its only minimum.
    ///
    /// # Safety
    /// [`SCALES`](Self::SCALES) bytes of each column are readable at `p`.
    #[inline(always)]
    unsafe fn block<B: Bytes>(b: B, p: *const u8) -> [F<B>; 2] {
        // SAFETY: the caller promises the scales, and the minima where there are any.
        unsafe {
            let scale = halves(b, p, 0);
            [scale, if Self::MINIMA { halves(b, p, 1) } else { scale }]
        }
    }

    /// The factors of a group of the block at `p`.
    ///
    /// # Safety
    /// As [`block`](Self::block).
    #[inline(always)]
    unsafe fn factors<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
        let _ = (b, p, group);
        Factors {
            scales: [block[0]; 2],
            minima: [block[1]; 2],
        }
    }
}

/// The `row`th row of floats of 16 bits at `p`.
///
/// # Safety
/// It is readable.
#[inline(always)]
unsafe fn halves<B: Bytes>(b: B, p: *const u8, row: usize) -> F<B> {
    let lanes = <B::S as Simd>::LANES;
    // SAFETY: the caller promises the row; panels start at whole words, and rows are whole words long.
    unsafe { b.simd().load_f16(p.cast::<f16>().add(row * lanes), lanes) }
}

/// The `row`th row of words at `p`.
///
/// # Safety
/// It is readable.
#[inline(always)]
unsafe fn words<B: Bytes>(b: B, p: *const u8, row: usize) -> I<B> {
    // SAFETY: the caller promises the row.
    unsafe { b.panel(p.add(row * 4 * <B::S as Simd>::LANES)) }
}

/// The codes of four words of nibbles: values 0 to 15 in the low halves, 16 to 31 in the high ones.
///
/// # Safety
/// Four words of each column are readable at `p`.
#[inline(always)]
unsafe fn nibbles<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
    let s = b.simd();
    let low = s.splat_i(0x0f0f_0f0f);
    let mut codes = [low; 8];
    for v in 0..4 {
        // SAFETY: the caller promises the words.
        let words = unsafe { words(b, p, v) };
        codes[v] = s.and_i(words, low);
        codes[v + 4] = s.and_i(s.shr_i::<4>(words), low);
    }
    codes
}

pub(super) struct Q4_0;

impl Layout for Q4_0 {
    const LAYOUT: BlockLayout = BlockLayout::Q4_0;
    const WORDS: usize = 4;
    const SCALES: usize = 2;
    const MOST: i32 = 15;
    const START: Start = Start::Eight;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { nibbles(b, p) }
    }
}

pub(super) struct Q4_1;

impl Layout for Q4_1 {
    const LAYOUT: BlockLayout = BlockLayout::Q4_1;
    const WORDS: usize = 4;
    const SCALES: usize = 4;
    const MOST: i32 = 15;
    const START: Start = Start::Zero;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { nibbles(b, p) }
    }
}

pub(super) struct Q8_0;

impl Layout for Q8_0 {
    const LAYOUT: BlockLayout = BlockLayout::Q8_0;
    const WORDS: usize = 8;
    const SCALES: usize = 2;
    const MOST: i32 = 255;
    const START: Start = Start::Half;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        let mut codes = [b.simd().splat_i(0); 8];
        for (v, codes) in codes.iter_mut().enumerate() {
            // SAFETY: the caller promises eight words.
            *codes = unsafe { words(b, p, v) };
        }
        codes
    }
}

/// The scale of a block, and the term that its zero point adds to weights after `middle` was subtracted from their codes. A row
/// of floats is followed by a row of bytes.
///
/// # Safety
/// Five bytes of each column are readable at `p`.
#[inline(always)]
unsafe fn scale_and_zero<B: Bytes>(b: B, p: *const u8, middle: f32) -> [F<B>; 2] {
    let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
    // SAFETY: the caller promises both rows; panels start at whole words, and rows are whole words long.
    let (scale, zero) = unsafe { (s.load(p.cast()), b.widen(p.add(4 * lanes), lanes)) };
    [scale, s.mul(s.sub(s.splat(middle), s.to_float(zero)), scale)]
}

pub(super) struct U4;

impl Layout for U4 {
    const LAYOUT: BlockLayout = BlockLayout::U4;
    const WORDS: usize = 4;
    const SCALES: usize = 5;
    const MOST: i32 = 15;
    const START: Start = Start::Eight;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { nibbles(b, p) }
    }
    #[inline(always)]
    unsafe fn block<B: Bytes>(b: B, p: *const u8) -> [F<B>; 2] {
        // SAFETY: as the caller promises.
        unsafe { scale_and_zero(b, p, 8.0) }
    }
}

pub(super) struct U8;

impl Layout for U8 {
    const LAYOUT: BlockLayout = BlockLayout::U8;
    const WORDS: usize = 8;
    const SCALES: usize = 5;
    const MOST: i32 = 255;
    const START: Start = Start::Half;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { Q8_0::codes(b, p) }
    }
    #[inline(always)]
    unsafe fn block<B: Bytes>(b: B, p: *const u8) -> [F<B>; 2] {
        // SAFETY: as the caller promises.
        unsafe { scale_and_zero(b, p, 128.0) }
    }
}

/// The factors of a group of Q4_K and Q5_K: the two rows of 16 bits are followed by a row of scales and a row of minima for
/// each group.
///
/// # Safety
/// Twenty bytes of each column are readable at `p`.
#[inline(always)]
unsafe fn scales_and_minima<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
    let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
    let row = |row: usize| {
        // SAFETY: the caller promises the row.
        s.to_float(unsafe { b.widen(p.add((4 + row) * lanes), lanes) })
    };
    let scale = s.mul(block[0], row(2 * group));
    Factors {
        scales: [scale; 2],
        minima: [s.neg(s.mul(block[1], row(2 * group + 1))); 2],
    }
}

pub(super) struct Q4K;

impl Layout for Q4K {
    const LAYOUT: BlockLayout = BlockLayout::Q4_K;
    const WORDS: usize = 4;
    const SCALES: usize = 20;
    const MOST: i32 = 15;
    const START: Start = Start::Zero;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { nibbles(b, p) }
    }
    #[inline(always)]
    unsafe fn factors<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
        // SAFETY: as the caller promises.
        unsafe { scales_and_minima(b, block, p, group) }
    }
}

pub(super) struct Q5K;

impl Layout for Q5K {
    const LAYOUT: BlockLayout = BlockLayout::Q5_K;
    const WORDS: usize = 5;
    const SCALES: usize = 20;
    const MOST: i32 = 31;
    const START: Start = Start::Zero;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        let s = b.simd();
        // SAFETY: the caller promises five words; bit `v` of each byte of the last is the fifth bit of vector `v`.
        let (mut codes, bits) = unsafe { (nibbles(b, p), words(b, p, 4)) };
        let fifth = s.splat_i(0x1010_1010);
        let mut add = |v: usize, bits: I<B>| codes[v] = s.or_i(codes[v], s.and_i(bits, fifth));
        add(0, s.shl_i::<4>(bits));
        add(1, s.shl_i::<3>(bits));
        add(2, s.shl_i::<2>(bits));
        add(3, s.shl_i::<1>(bits));
        add(4, bits);
        add(5, s.shr_i::<1>(bits));
        add(6, s.shr_i::<2>(bits));
        add(7, s.shr_i::<3>(bits));
        codes
    }
    #[inline(always)]
    unsafe fn factors<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
        // SAFETY: as the caller promises.
        unsafe { scales_and_minima(b, block, p, group) }
    }
}

pub(super) struct Q6K;

impl Layout for Q6K {
    const LAYOUT: BlockLayout = BlockLayout::Q6_K;
    const WORDS: usize = 6;
    const SCALES: usize = 18;
    const MOST: i32 = 63;
    const START: Start = Start::ThirtyTwo;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        let s = b.simd();
        // SAFETY: the caller promises six words.
        let (mut codes, bits) = unsafe { (nibbles(b, p), [words(b, p, 4), words(b, p, 5)]) };
        let mask = s.splat_i(0x3030_3030);
        // bits 2·v and 2·v+1 of each byte are the upper bits of a half's vector `v`
        for (half, bits) in bits.into_iter().enumerate() {
            let upper = [s.shl_i::<4>(bits), s.shl_i::<2>(bits), bits, s.shr_i::<2>(bits)];
            for (v, bits) in upper.into_iter().enumerate() {
                codes[4 * half + v] = s.or_i(codes[4 * half + v], s.and_i(bits, mask));
            }
        }
        codes
    }
    #[inline(always)]
    unsafe fn factors<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
        let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
        let mut scales = [block[0]; 2];
        for (half, scale) in scales.iter_mut().enumerate() {
            // SAFETY: the caller promises sixteen rows of bytes behind the row of 16 bits.
            let bytes = unsafe { b.widen(p.add((2 + 2 * group + half) * lanes), lanes) };
            // the scales are signed bytes
            *scale = s.mul(block[0], s.to_float(s.shr_i::<24>(s.shl_i::<24>(bytes))));
        }
        Factors {
            scales,
            minima: [block[1]; 2],
        }
    }
}

pub(super) struct Q5_1;

impl Layout for Q5_1 {
    const LAYOUT: BlockLayout = BlockLayout::Q5_1;
    const WORDS: usize = 5;
    const SCALES: usize = 4;
    const MOST: i32 = 31;
    const START: Start = Start::Zero;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        // SAFETY: as the caller promises.
        unsafe { Q5K::codes(b, p) }
    }
}

pub(super) struct Q2K;

impl Layout for Q2K {
    const LAYOUT: BlockLayout = BlockLayout::Q2_K;
    const WORDS: usize = 2;
    const SCALES: usize = 20;
    const MOST: i32 = 3;
    const START: Start = Start::Halves;
    const MINIMA: bool = true;

    #[inline(always)]
    unsafe fn codes<B: Bytes>(b: B, p: *const u8) -> [I<B>; 8] {
        let s = b.simd();
        let low = s.splat_i(0x0303_0303);
        let mut codes = [low; 8];
        for (half, codes) in codes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // SAFETY: the caller promises two words; bits 2·v and 2·v+1 of each byte are a half's vector `v`.
            let bits = unsafe { words(b, p, half) };
            let planes = [bits, s.shr_i::<2>(bits), s.shr_i::<4>(bits), s.shr_i::<6>(bits)];
            *codes = planes.map(|bits| s.and_i(bits, low));
        }
        codes
    }
    #[inline(always)]
    unsafe fn factors<B: Bytes>(b: B, block: [F<B>; 2], p: *const u8, group: usize) -> Factors<F<B>> {
        let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
        let (mut scales, mut minima) = ([block[0]; 2], [block[1]; 2]);
        for (half, (scale, minimum)) in scales.iter_mut().zip(&mut minima).enumerate() {
            // SAFETY: the caller promises sixteen rows of bytes behind the two rows of 16 bits.
            let bytes = unsafe { b.widen(p.add((4 + 2 * group + half) * lanes), lanes) };
            *scale = s.mul(block[0], s.to_float(s.and_i(bytes, s.splat_i(15))));
            *minimum = s.neg(s.mul(block[1], s.to_float(s.shr_i::<4>(bytes))));
        }
        Factors { scales, minima }
    }
}
