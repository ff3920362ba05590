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
//! Not here: any kernel. Dot-product extensions (VNNI, BF16, i8mm) get tokens of their own when kernels use them.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

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
    fn sum(self, a: Self::F) -> f32;
    fn max_lane(self, a: Self::F) -> f32;
    /// Asks for the cache line at `p`; any address is allowed.
    fn prefetch(self, p: *const f32);

    /// The first `n` lanes from `p`, or all where `n` is larger; zero in the others.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    #[inline(always)]
    unsafe fn read(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: the caller promises as many values as are read.
        unsafe {
            if n >= Self::LANES {
                self.load(p)
            } else {
                self.load_first(p, n)
            }
        }
    }
    /// The first `n` lanes of `x` to `p`, or all where `n` is larger.
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    #[inline(always)]
    unsafe fn write(self, p: *mut f32, x: Self::F, n: usize) {
        // SAFETY: the caller promises as many values as are written.
        unsafe {
            if n >= Self::LANES {
                self.store(p, x)
            } else {
                self.store_first(p, x, n)
            }
        }
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
pub struct Isa(Token);

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

impl Isa {
    /// Portable code, available everywhere.
    pub const SCALAR: Isa = Isa(Token::Scalar(scalar::Scalar));

    /// The widest instruction set of this CPU.
    #[must_use]
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(token) = avx512::Avx512::detect() {
                return Isa(Token::Avx512(token));
            }
            if let Some(token) = avx2::Avx2::detect() {
                return Isa(Token::Avx2(token));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(token) = neon::Neon::detect() {
            return Isa(Token::Neon(token));
        }
        Isa::SCALAR
    }

    /// Every instruction set of this CPU that kernels exist for, widest first; [`Isa::SCALAR`] is the last.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(avx512::Avx512::detect().map(|token| Isa(Token::Avx512(token))));
            all.extend(avx2::Avx2::detect().map(|token| Isa(Token::Avx2(token))));
        }
        #[cfg(target_arch = "aarch64")]
        all.extend(neon::Neon::detect().map(|token| Isa(Token::Neon(token))));
        all.push(Isa::SCALAR);
        all
    }

    /// The name that benchmarks and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
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
        match self.0 {
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

    /// Runs `kernel` on this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
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
