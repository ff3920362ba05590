//! Instruction sets as tokens: one trait that kernels are generic over, one enum that a plan keeps.
//!
//! 1. A token ([`avx512::Avx512`] and its like) is built only by a constructor that has detected its features,
//!    so holding one proves that its instructions may run.
//! 2. A kernel is a type with [`Kernel::run`], generic over [`Simd`] and always inlined; [`Isa::run`] enters it
//!    through one function per instruction set that carries the `target_feature`s.
//! 3. A lane mask is a count: vectors are loaded and stored whole, or their first `n` lanes are.
//!
//! NEON code is compiled where the target is AArch64; the crate's tests pass there under qemu-user, which says
//! nothing about speed.
//!
//! Not here: any kernel. Products of words, and with them dot-product extensions, have tokens of their own in [`dot`].
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod dot;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

use crate::stored::Load;
use dot::{ByteKernel, Bytes};
use half::bf16;

/// Lanes of the widest vector.
pub(crate) const MOST_LANES: usize = 16;

/// The vector operations of one instruction set.
///
/// # Safety
/// A value of an implementing type exists only where the CPU supports the instruction set.
pub(crate) unsafe trait Simd: Copy + Send + Sync + 'static {
    /// Lanes of 32 bits in one vector.
    const LANES: usize;
    /// Rows of the multiplication tile.
    const ROWS: usize;
    /// Vectors across the multiplication tile.
    const COLUMNS: usize;
    /// A vector of `f32`.
    type F: Copy;
    /// A vector of `i32`.
    type I: Copy;
    /// A truth value per lane.
    type M: Copy;

    /// Runs `kernel` with the instruction set switched on.
    fn enter<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, x: f32) -> Self::F;
    fn splat_i(self, x: i32) -> Self::I;
    /// # Safety
    /// `LANES` values are readable at `p`.
    unsafe fn load(self, p: *const f32) -> Self::F;
    /// The first `n` lanes from `p`, zero in the others.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    unsafe fn load_first(self, p: *const f32, n: usize) -> Self::F;
    /// # Safety
    /// `LANES` values are writable at `p`.
    unsafe fn store(self, p: *mut f32, x: Self::F);
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    unsafe fn store_first(self, p: *mut f32, x: Self::F, n: usize);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, fused where the hardware fuses.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The smaller value; `b` where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger value; `b` where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn sqrt(self, a: Self::F) -> Self::F;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    fn floor(self, a: Self::F) -> Self::F;
    fn ceil(self, a: Self::F) -> Self::F;
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// `yes` where the mask holds, else `no`.
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F;
    /// To the nearest `i32`; the argument is in range.
    fn to_int(self, a: Self::F) -> Self::I;
    fn to_float(self, a: Self::I) -> Self::F;
    fn bits(self, a: Self::F) -> Self::I;
    fn to_floats(self, a: Self::I) -> Self::F;
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I;
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I;
    /// Arithmetic shift right.
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I;
    /// `a * 2^n` for an integer `n` in `-252..=254`; what is too small to be normal may become zero.
    #[inline(always)]
    fn scale(self, a: Self::F, n: Self::F) -> Self::F {
        // in two factors, so that both ends of the range are reached
        let n = self.to_int(n);
        let half = self.shr_i::<1>(n);
        let power = |n| self.to_floats(self.shl_i::<23>(self.add_i(n, self.splat_i(127))));
        self.mul(self.mul(a, power(half)), power(self.sub_i(n, half)))
    }
    fn sum(self, a: Self::F) -> f32;
    fn max_lane(self, a: Self::F) -> f32;
    /// Asks for the cache line at `p`; any address is allowed.
    fn prefetch(self, p: *const f32);

    /// As [`load_first`](Self::load_first), of the upper halves of `f32`s: widened, which is exact.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, n: usize) -> Self::F {
        let mut lanes = [0.0f32; MOST_LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(n.min(Self::LANES)) {
            // SAFETY: i < min(n, LANES), which the caller promises to be readable.
            *lane = f32::from_bits(u32::from(unsafe { *p.add(i) }) << 16);
        }
        // SAFETY: the array is as wide as the widest vector.
        unsafe { self.load(lanes.as_ptr()) }
    }
    /// As [`store_first`](Self::store_first), rounded to bf16: to nearest even, a NaN stays one.
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, x: Self::F, n: usize) {
        let mut lanes = [0.0f32; MOST_LANES];
        // SAFETY: the array is as wide as the widest vector.
        unsafe { self.store(lanes.as_mut_ptr(), x) };
        for (i, lane) in lanes.iter().enumerate().take(n.min(Self::LANES)) {
            // SAFETY: i < min(n, LANES), which the caller promises to be writable.
            unsafe { *p.add(i) = bf16::from_f32(*lane).to_bits() };
        }
    }

    /// `sum` plus the products of the two halves of each lane, which are bf16; the roundings on the way, and
    /// whether values too small to be normal count as zero, are the instruction's.
    #[inline(always)]
    fn dot_bf16(self, sum: Self::F, a: Self::I, b: Self::I) -> Self::F {
        dot_bf16(self, sum, a, b)
    }

    /// The first `n` lanes from `p`, or all where `n` is larger; zero in the others.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    #[inline(always)]
    unsafe fn read<E: Load>(self, p: *const E, n: usize) -> Self::F {
        // SAFETY: the caller promises as many values as are read.
        unsafe { E::read(self, p, n) }
    }
    /// The first `n` lanes of `x` to `p`, or all where `n` is larger.
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    #[inline(always)]
    unsafe fn write<E: Load>(self, p: *mut E, x: Self::F, n: usize) {
        // SAFETY: the caller promises as many values as are written.
        unsafe { E::write(self, p, x, n) }
    }

    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        self.to_floats(self.and_i(self.bits(a), self.splat_i(i32::MAX)))
    }
    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        let sign = self.splat_i(i32::MIN);
        // flipping the sign bit by an addition modulo 2^32
        self.to_floats(self.add_i(self.bits(a), sign))
    }
    /// `magnitude` (not negative) with the sign of `sign`.
    #[inline(always)]
    fn copysign(self, magnitude: Self::F, sign: Self::F) -> Self::F {
        let sign = self.and_i(self.bits(sign), self.splat_i(i32::MIN));
        self.to_floats(self.or_i(self.bits(magnitude), sign))
    }
}

/// [`Simd::dot_bf16`] without an instruction for it.
#[inline(always)]
fn dot_bf16<S: Simd>(s: S, sum: S::F, a: S::I, b: S::I) -> S::F {
    let low = |x| s.to_floats(s.shl_i::<16>(x));
    let high = |x| s.to_floats(s.and_i(x, s.splat_i(-65_536)));
    s.mul_add(low(a), low(b), s.mul_add(high(a), high(b), sum))
}

/// A piece of code that one [`Simd`] entry runs; `run` is always `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What the kernel returns.
    type Output;
    /// The kernel's body for one instruction set.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// An instruction set that this CPU has been found to support.
///
/// ```
/// use polychip_cpu_kernels::Isa;
/// let best = Isa::detect();
/// assert_eq!(Isa::from_code(best.code()), Some(best));
/// assert!(Isa::available().contains(&Isa::SCALAR));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa {
    token: Token,
    bytes: BytesToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Scalar(scalar::Scalar),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

/// The token of kernels on bytes, with the extension that the CPU has for them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BytesToken {
    Scalar(dot::scalar::ScalarBytes),
    #[cfg(target_arch = "x86_64")]
    Avx2(dot::avx2::Avx2Bytes<false>),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(dot::avx2::Avx2Bytes<true>),
    #[cfg(target_arch = "x86_64")]
    Avx512(dot::avx512::Avx512Bytes<false>),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(dot::avx512::Avx512Bytes<true>),
    #[cfg(target_arch = "aarch64")]
    Neon(dot::neon::NeonBytes<false>),
    #[cfg(target_arch = "aarch64")]
    NeonDot(dot::neon::NeonBytes<true>),
}

impl Isa {
    /// Portable code, available everywhere.
    pub const SCALAR: Isa = Isa {
        token: Token::Scalar(scalar::Scalar),
        bytes: BytesToken::Scalar(dot::scalar::ScalarBytes),
    };

    /// An instruction set without extensions.
    fn plain(token: Token) -> Isa {
        let bytes = match token {
            Token::Scalar(_) => BytesToken::Scalar(dot::scalar::ScalarBytes),
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(token) => BytesToken::Avx2(dot::avx2::Avx2Bytes::new(token)),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => BytesToken::Avx512(dot::avx512::Avx512Bytes::new(token)),
            #[cfg(target_arch = "aarch64")]
            Token::Neon(token) => BytesToken::Neon(dot::neon::NeonBytes::new(token)),
        };
        Isa { token, bytes }
    }

    /// An instruction set with the extensions of this CPU.
    fn extended(token: Token) -> Isa {
        let plain = Isa::plain(token);
        let bytes = match token {
            Token::Scalar(_) => None,
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(token) => dot::avx2::Avx2Bytes::detect(token).map(BytesToken::AvxVnni),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => dot::avx512::Avx512Bytes::detect(token).map(BytesToken::Avx512Vnni),
            #[cfg(target_arch = "aarch64")]
            Token::Neon(token) => dot::neon::NeonBytes::detect(token).map(BytesToken::NeonDot),
        };
        Isa {
            token,
            bytes: bytes.unwrap_or(plain.bytes),
        }
    }

    /// The widest instruction set of this CPU.
    #[must_use]
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(token) = avx512::Avx512::detect() {
                return Isa::extended(Token::Avx512(token));
            }
            if let Some(token) = avx2::Avx2::detect() {
                return Isa::extended(Token::Avx2(token));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(token) = neon::Neon::detect() {
            return Isa::extended(Token::Neon(token));
        }
        Isa::SCALAR
    }

    /// Every instruction set of this CPU that kernels exist for, widest first; [`Isa::SCALAR`] is the last.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(avx512::Avx512::detect().map(|token| Isa::extended(Token::Avx512(token))));
            all.extend(avx2::Avx2::detect().map(|token| Isa::extended(Token::Avx2(token))));
        }
        #[cfg(target_arch = "aarch64")]
        all.extend(neon::Neon::detect().map(|token| Isa::extended(Token::Neon(token))));
        all.push(Isa::SCALAR);
        all
    }

    /// The same without its dot-product extensions, as on an older CPU. [`code`](Self::code) and with it the layout
    /// of packed weights stay the same.
    #[must_use]
    pub fn without_extensions(self) -> Isa {
        Isa::plain(self.token)
    }

    /// The name of the instructions that multiply bytes.
    #[must_use]
    pub fn bytes_name(self) -> &'static str {
        match self.bytes {
            BytesToken::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            BytesToken::AvxVnni(_) => "avx_vnni",
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx512Vnni(_) => "avx512_vnni",
            #[cfg(target_arch = "aarch64")]
            BytesToken::Neon(_) => "neon",
            #[cfg(target_arch = "aarch64")]
            BytesToken::NeonDot(_) => "neon_dotprod",
        }
    }

    /// Runs a kernel on bytes on this instruction set.
    #[inline]
    pub(crate) fn run_bytes<K: ByteKernel>(self, kernel: K) -> K::Output {
        match self.bytes {
            BytesToken::Scalar(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx2(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            BytesToken::AvxVnni(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx512(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            BytesToken::Avx512Vnni(token) => token.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            BytesToken::Neon(token) => token.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            BytesToken::NeonDot(token) => token.enter(kernel),
        }
    }

    /// The name that benchmarks and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.token {
            Token::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(_) => "avx512",
            #[cfg(target_arch = "aarch64")]
            Token::Neon(_) => "neon",
        }
    }

    /// A number that never changes its meaning: packed weights are valid only for the code they were packed for.
    #[must_use]
    pub fn code(self) -> u32 {
        match self.token {
            Token::Scalar(_) => 0,
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(_) => 1,
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(_) => 2,
            #[cfg(target_arch = "aarch64")]
            Token::Neon(_) => 3,
        }
    }

    /// The instruction set of a stored code, or `None` where this CPU does not have it.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Isa> {
        Isa::available().into_iter().find(|isa| isa.code() == code)
    }

    /// Lanes of 32 bits in one vector.
    #[must_use]
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Kernel for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> usize {
                S::LANES
            }
        }
        self.run(Lanes)
    }

    /// Whether products of bf16 are instructions of this CPU, and so faster than those of `f32`.
    #[must_use]
    pub fn has_bf16(self) -> bool {
        match self.token {
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => avx512::Avx512::detect_bf16(token).is_some(),
            _ => false,
        }
    }

    /// Runs `kernel`, which multiplies or stores bf16, on this instruction set and its extension for that.
    #[inline]
    pub(crate) fn run_bf16<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        if let Token::Avx512(token) = self.token
            && let Some(token) = avx512::Avx512::detect_bf16(token)
        {
            return token.enter(kernel);
        }
        self.run(kernel)
    }

    /// Runs `kernel` on this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.token {
            Token::Scalar(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx2(token) => token.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => token.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            Token::Neon(token) => token.enter(kernel),
        }
    }
}

impl std::fmt::Debug for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
