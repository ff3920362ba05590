//! The vector operations of one instruction set, the code that runs on them, and the element types that they load.
//!
//! 1. Arithmetic is in `f32` registers whatever an element type: a load widens, which is exact, and a store rounds to
//!    nearest even.
//! 2. A lane mask is a count: vectors are loaded and stored whole, or their first `n` lanes are.
//!
//! Not here: which instruction sets there are (a file each) and which of them the CPU has ([`Isa`](crate::Isa)).
use half::{bf16, f16};

/// Lanes of the widest vector.
pub(crate) const MOST_LANES: usize = 16;

/// The vector operations of one instruction set.
///
/// # Safety
/// A value of an implementing type exists only where the CPU supports the instruction set.
pub(crate) unsafe trait Simd: Copy + Send + Sync + 'static {
    /// Lanes of 32 bits in one vector.
    const LANES: usize;
    /// Whether products and sums of floats are one instruction.
    const FUSES: bool = true;
    /// Whether kernels of bf16 run on it.
    const BF16: bool = false;
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
    /// A double in each two lanes.
    #[inline(always)]
    fn splat_double(self, x: f64) -> Self::F {
        let lanes = [x; MOST_LANES / 2];
        // SAFETY: a vector is no longer than these doubles.
        unsafe { self.load(lanes.as_ptr().cast()) }
    }
    /// `a * b + c` of doubles that take two lanes each, rounded once where [`FUSES`](Self::FUSES) is true.
    #[inline(always)]
    fn mul_add_doubles(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        let mut lanes = [[0f64; MOST_LANES / 2]; 3];
        for (lanes, x) in lanes.iter_mut().zip([a, b, c]) {
            // SAFETY: a vector is no longer than these doubles.
            unsafe { self.store(lanes.as_mut_ptr().cast(), x) };
        }
        let sums: [f64; MOST_LANES / 2] = std::array::from_fn(|i| {
            let [a, b, c] = lanes.map(|lanes| lanes[i]);
            if Self::FUSES { a.mul_add(b, c) } else { a * b + c }
        });
        // SAFETY: as above.
        unsafe { self.load(sums.as_ptr().cast()) }
    }
    /// Lane `lanes[i]` of `a` in each lane `i`. Indices are below [`LANES`](Self::LANES).
    #[inline(always)]
    fn permute(self, a: Self::F, lanes: Self::I) -> Self::F {
        let (mut from, mut at) = ([0.0; MOST_LANES], [0; MOST_LANES]);
        // SAFETY: there are as many lanes at most.
        unsafe {
            (
                self.store(from.as_mut_ptr(), a),
                self.store_i(at.as_mut_ptr(), lanes),
            )
        };
        let to = at.map(|lane| from[lane as usize % MOST_LANES]);
        // SAFETY: as above.
        unsafe { self.load(to.as_ptr()) }
    }
    /// The values at `p` that the lanes of `at` number.
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn gather(self, p: *const f32, at: Self::I) -> Self::F {
        let (mut numbers, mut to) = ([0; MOST_LANES], [0.0; MOST_LANES]);
        // SAFETY: there are as many lanes at most.
        unsafe { self.store_i(numbers.as_mut_ptr(), at) };
        for (to, &at) in to.iter_mut().zip(&numbers[..Self::LANES]) {
            // SAFETY: as the caller promises.
            *to = unsafe { *p.add(at as usize) };
        }
        // SAFETY: as above.
        unsafe { self.load(to.as_ptr()) }
    }
    fn sum(self, a: Self::F) -> f32;
    fn max_lane(self, a: Self::F) -> f32;
    /// Asks for the cache line at `p`; any address is allowed.
    fn prefetch(self, p: *const f32);

    /// `LANES` words.
    /// # Safety
    /// As many values are readable at `p`.
    #[inline(always)]
    unsafe fn load_i(self, p: *const i32) -> Self::I {
        // SAFETY: the caller promises the values; both are words of 32 bits.
        self.bits(unsafe { self.load(p.cast()) })
    }
    /// # Safety
    /// `LANES` values are writable at `p`.
    #[inline(always)]
    unsafe fn store_i(self, p: *mut i32, x: Self::I) {
        // SAFETY: as in `load_i`.
        unsafe { self.store(p.cast(), self.to_floats(x)) };
    }
    /// `sum` plus the products of the two halves of each lane, which are integers of 16 bits from -511 to 511.
    #[inline(always)]
    fn dot_pairs(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        let low = |x| self.to_float(self.shr_i::<16>(self.shl_i::<16>(x)));
        let high = |x| self.to_float(self.shr_i::<16>(x));
        // exact in 24 bits
        let both = self.mul_add(low(a), low(b), self.mul(high(a), high(b)));
        self.add_i(sum, self.to_int(both))
    }

    /// As [`load_first`](Self::load_first), of floats of 16 bits: widened, which is exact.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16, n: usize) -> Self::F {
        let mut lanes = [0.0f32; MOST_LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(n.min(Self::LANES)) {
            // SAFETY: i < min(n, LANES), which the caller promises to be readable.
            *lane = unsafe { *p.add(i) }.to_f32();
        }
        // SAFETY: the array is as wide as the widest vector.
        unsafe { self.load(lanes.as_ptr()) }
    }
    /// As [`store_first`](Self::store_first), rounded to 16 bits: to nearest even, a NaN stays one.
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, x: Self::F, n: usize) {
        let mut lanes = [0.0f32; MOST_LANES];
        // SAFETY: the array is as wide as the widest vector.
        unsafe { self.store(lanes.as_mut_ptr(), x) };
        for (i, lane) in lanes.iter().enumerate().take(n.min(Self::LANES)) {
            // SAFETY: i < min(n, LANES), which the caller promises to be writable.
            unsafe { *p.add(i) = f16::from_f32(*lane) };
        }
    }

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
        let low = |x| self.to_floats(self.shl_i::<16>(x));
        let high = |x| self.to_floats(self.and_i(x, self.splat_i(-65_536)));
        self.mul_add(low(a), low(b), self.mul_add(high(a), high(b), sum))
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

/// A piece of code that one [`Simd`] entry runs; `run` is always `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What the kernel returns.
    type Output;
    /// The kernel's body for one instruction set.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// The instruction set that the CPU was found to have, and what enters a kernel there: [`Isa`](crate::Isa).
pub(crate) trait Dispatch: Copy {
    /// Runs `kernel` on the instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// Runs `kernel`, which reads or stores bf16, on the instruction set where it has [`Simd::BF16`], else on portable code.
    fn run_bf16<K: Kernel>(self, kernel: K) -> K::Output;
}

/// How vectors of an element type are loaded and stored.
pub(crate) trait Load: Copy + Send + Sync + 'static {
    /// Whether what is written is read back unchanged.
    const EXACT: bool;
    /// The first `n` lanes from `p`, or all where `n` is larger; zero in the others.
    /// # Safety
    /// `min(n, LANES)` values are readable at `p`.
    unsafe fn read<S: Simd>(s: S, p: *const Self, n: usize) -> S::F;
    /// The first `n` lanes of `x` to `p`, or all where `n` is larger.
    /// # Safety
    /// `min(n, LANES)` values are writable at `p`.
    unsafe fn write<S: Simd>(s: S, p: *mut Self, x: S::F, n: usize);
    /// Runs a kernel that reads or stores these on an instruction set that takes them.
    fn enter<D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output;
    /// As [`enter`](Self::enter), for a kernel that reads or stores elements of `E` too.
    #[inline(always)]
    fn enter_with<E: Load, D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output {
        if Self::EXACT {
            E::enter(isa, kernel)
        } else {
            Self::enter(isa, kernel)
        }
    }
    /// The value of an element.
    fn value(self) -> f32;
    /// The element nearest to a value.
    fn nearest(value: f32) -> Self;
}

impl Load for f32 {
    const EXACT: bool = true;
    #[inline(always)]
    unsafe fn read<S: Simd>(s: S, p: *const Self, n: usize) -> S::F {
        // SAFETY: the caller promises as many values as are read.
        unsafe {
            if n >= S::LANES {
                s.load(p)
            } else {
                s.load_first(p, n)
            }
        }
    }
    #[inline(always)]
    unsafe fn write<S: Simd>(s: S, p: *mut Self, x: S::F, n: usize) {
        // SAFETY: the caller promises as many values as are written.
        unsafe {
            if n >= S::LANES {
                s.store(p, x)
            } else {
                s.store_first(p, x, n)
            }
        }
    }
    #[inline(always)]
    fn enter<D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output {
        isa.run(kernel)
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
    #[inline(always)]
    fn nearest(value: f32) -> Self {
        value
    }
}

impl Load for bf16 {
    const EXACT: bool = false;
    #[inline(always)]
    unsafe fn read<S: Simd>(s: S, p: *const Self, n: usize) -> S::F {
        assert!(
            S::BF16,
            "invariant: kernels of bf16 are entered by `Dispatch::run_bf16`"
        );
        // SAFETY: the caller promises as many values as are read; a bf16 is a u16 in memory.
        unsafe { s.load_bf16(p.cast(), n) }
    }
    #[inline(always)]
    unsafe fn write<S: Simd>(s: S, p: *mut Self, x: S::F, n: usize) {
        assert!(
            S::BF16,
            "invariant: kernels of bf16 are entered by `Dispatch::run_bf16`"
        );
        // SAFETY: the caller promises as many values as are written; a bf16 is a u16 in memory.
        unsafe { s.store_bf16(p.cast(), x, n) }
    }
    #[inline(always)]
    fn enter<D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output {
        isa.run_bf16(kernel)
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn nearest(value: f32) -> Self {
        bf16::from_f32(value)
    }
}

impl Load for f16 {
    const EXACT: bool = false;
    #[inline(always)]
    unsafe fn read<S: Simd>(s: S, p: *const Self, n: usize) -> S::F {
        // SAFETY: the caller promises as many values as are read.
        unsafe { s.load_f16(p, n) }
    }
    #[inline(always)]
    unsafe fn write<S: Simd>(s: S, p: *mut Self, x: S::F, n: usize) {
        // SAFETY: the caller promises as many values as are written.
        unsafe { s.store_f16(p, x, n) }
    }
    #[inline(always)]
    fn enter<D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output {
        isa.run(kernel)
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn nearest(value: f32) -> Self {
        f16::from_f32(value)
    }
}
