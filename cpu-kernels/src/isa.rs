//! Instruction sets as tokens: one trait that kernels are generic over, one enum that a plan keeps.
//!
//! 1. A token ([`avx512::Avx512`] and its like) is built only by a constructor that has detected its features,
//!    so holding one proves that its instructions may run.
//! 2. A kernel is a type with [`Kernel::run`], generic over [`Simd`] and always inlined.
//!    [`Isa::run`] calls it through one function per instruction set, which has the
//!    `target_feature` attributes.
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
mod simd;

pub(crate) use simd::{Kernel, Load, MOST_LANES, Simd};

use dot::{ByteKernel, Bytes};

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
    #[cfg(target_arch = "x86_64")]
    tiles: Option<dot::amx::Amx>,
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
        #[cfg(target_arch = "x86_64")]
        tiles: None,
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
        Isa {
            token,
            bytes,
            #[cfg(target_arch = "x86_64")]
            tiles: None,
        }
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
            // what finishes their sums is that of VNNI, and panels are of sixteen columns or two times as many
            #[cfg(target_arch = "x86_64")]
            tiles: match bytes {
                Some(BytesToken::Avx512Vnni(_)) => dot::amx::Amx::detect(),
                _ => None,
            },
        }
    }

    /// The token of tiles of bytes, where the CPU has them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn tiles(self) -> Option<dot::amx::Amx> {
        self.tiles
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

    /// The same instruction set without dot-product extensions, as on an older CPU.
    /// [`code`](Self::code) and with it the layout of packed weights stay the same.
    #[must_use]
    pub fn without_extensions(self) -> Isa {
        Isa::plain(self.token)
    }

    /// The same instruction set without AMX tiles, as on a CPU that has only the other extensions.
    #[must_use]
    pub fn without_tiles(self) -> Isa {
        Isa {
            #[cfg(target_arch = "x86_64")]
            tiles: None,
            ..self
        }
    }

    /// The name of the instructions that multiply bytes.
    #[must_use]
    pub fn bytes_name(self) -> &'static str {
        #[cfg(target_arch = "x86_64")]
        if self.tiles.is_some() {
            return "amx_int8";
        }
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

    /// A number whose meaning never changes. Packed weights are valid only for the code that they
    /// were packed for.
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

    /// The instruction set of a stored code, or `None` if this CPU does not have it.
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

    /// Whether this CPU has instructions for bf16 products, which are faster than `f32` products.
    #[must_use]
    pub fn has_bf16(self) -> bool {
        match self.token {
            #[cfg(target_arch = "x86_64")]
            Token::Avx512(token) => avx512::Avx512::detect_bf16(token).is_some(),
            _ => false,
        }
    }

    /// What kernels of bf16 run on: this instruction set where it [multiplies them](Self::has_bf16), else portable
    /// code. Their plans pack weights for it.
    #[must_use]
    pub(crate) fn for_bf16(self) -> Isa {
        if self.has_bf16() { self } else { Isa::SCALAR }
    }

    /// Runs `kernel`, which reads or stores bf16, on what [`for_bf16`](Self::for_bf16) gives. There is no third form of
    /// such kernels: bf16 is not used where `f32` is faster, and each form is a fifth of what the compiler has to do.
    ///
    /// # Panics
    /// Where [`has_bf16`](Self::has_bf16) is false, without the feature `portable-bf16`: that form takes 0.6 MB, and only
    /// tests run it.
    #[inline]
    pub(crate) fn run_bf16<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        if let Token::Avx512(token) = self.token
            && let Some(token) = avx512::Avx512::detect_bf16(token)
        {
            return token.enter(kernel);
        }
        #[cfg(feature = "portable-bf16")]
        {
            scalar::Scalar.enter(kernel)
        }
        #[cfg(not(feature = "portable-bf16"))]
        {
            let _ = kernel;
            no_bf16()
        }
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

/// Ends what asked for kernels that were left out.
#[cfg(not(feature = "portable-bf16"))]
#[cold]
fn no_bf16() -> ! {
    panic!("this processor has no instructions for bf16, and the feature portable-bf16 is off");
}

impl simd::Dispatch for Isa {
    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        Isa::run(self, kernel)
    }
    #[inline(always)]
    fn run_bf16<K: Kernel>(self, kernel: K) -> K::Output {
        Isa::run_bf16(self, kernel)
    }
}

impl std::fmt::Debug for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNALLING: f32 = f32::from_bits(0x7fa0_0001);

    /// Smaller and larger values beside constants, which compilers fold into the instruction that they choose.
    struct Extremes([f32; 4]);

    impl Kernel for Extremes {
        type Output = Vec<[u32; 4]>;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Self::Output {
            let in_all = |x: S::F| {
                let mut lanes = vec![0.0; S::LANES];
                // SAFETY: LANES values are writable.
                unsafe { s.store(lanes.as_mut_ptr(), x) };
                let bits = lanes[0].to_bits();
                assert!(lanes.iter().all(|lane| lane.to_bits() == bits));
                bits
            };
            let each = self.0.into_iter().map(|x| {
                let x = s.splat(x);
                [
                    in_all(s.min(x, s.splat(6.0))),
                    in_all(s.max(x, s.splat(0.0))),
                    in_all(s.min(s.splat(6.0), x)),
                    in_all(s.max(s.splat(0.0), x)),
                ]
            });
            each.collect()
        }
    }

    #[test]
    fn the_second_operand_is_the_extreme_beside_any_nan() {
        // written out, since compilers would choose the same instruction for it
        let cases = [
            (f32::NAN, [6.0, 0.0, f32::NAN, f32::NAN]),
            (SIGNALLING, [6.0, 0.0, f32::NAN, f32::NAN]),
            (-3.0, [-3.0, 0.0, -3.0, 0.0]),
            (9.0, [6.0, 9.0, 6.0, 9.0]),
        ];
        for isa in Isa::available() {
            let got = isa.run(Extremes(cases.map(|(x, _)| x)));
            for ((x, want), got) in cases.into_iter().zip(got) {
                let got = got.map(f32::from_bits);
                let same = |(got, want): (f32, f32)| got == want || got.is_nan() && want.is_nan();
                assert!(
                    got.into_iter().zip(want).all(same),
                    "{isa:?}, {x} ({:#x}): {got:?}, not {want:?}",
                    x.to_bits()
                );
            }
        }
    }
}
