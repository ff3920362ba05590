//! AMX: products of bytes by tiles of sixteen rows, sixteen words deep.
//!
//! 1. A token exists only if the CPU has tiles and the system has granted this process their
//!    registers.
//! 2. Tiles hold values between [`Amx::begin`] and [`Amx::end`] of one thread, and code of no other kind touches them.
//! 3. Rows are unsigned and panels signed, as with [`super::Bytes`], whose words these are: sums are the same, exactly.
//!
//! Sources: Intel's Architecture Instruction Set Extensions reference, chapter 3; Linux' `Documentation/arch/x86/xstate.rst`.

use std::arch::asm;
use std::sync::OnceLock;

use crate::isa::avx512::{PROOF, Proof};

/// The token of tiles of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amx(Proof);

/// Rows of a tile, and words of each.
pub(crate) const SIDE: usize = 16;

/// What `ldtilecfg` reads: all eight tiles of sixteen rows of 64 bytes.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPES: Shapes = {
    let (mut bytes, mut rows) = ([0; 16], [0; 16]);
    let mut tile = 0;
    while tile < 8 {
        (bytes[tile], rows[tile]) = (64, SIDE as u8);
        tile += 1;
    }
    Shapes {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes,
        rows,
    }
};

/// A tile from memory, its rows so many bytes apart.
macro_rules! load {
    ($tile:literal, $from:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd ", $tile, ", [{from} + {stride}]"),
            from = in(reg) $from,
            stride = in(reg) $stride,
            options(nostack, preserves_flags, readonly)
        )
    };
}

/// `sums += rows · panel`.
macro_rules! dot {
    ($sums:literal, $rows:literal, $panel:literal) => {
        asm!(
            concat!("tdpbusd ", $sums, ", ", $rows, ", ", $panel),
            options(nostack, preserves_flags, nomem)
        )
    };
}

/// A tile to memory, its rows so many bytes apart.
macro_rules! store {
    ($tile:literal, $to:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{to} + {stride}], ", $tile),
            to = in(reg) $to,
            stride = in(reg) $stride,
            options(nostack, preserves_flags)
        )
    };
}

impl Amx {
    /// The token, where the CPU has tiles of bytes and the system lets this process use them.
    pub(crate) fn detect() -> Option<Self> {
        static GRANTED: OnceLock<bool> = OnceLock::new();
        PROOF
            .filter(|_| *GRANTED.get_or_init(|| is_there() && granted()))
            .map(Self)
    }

    /// Makes the tiles of this thread ready.
    ///
    /// # Safety
    /// [`end`](Self::end) follows, and until then nothing unwinds.
    pub(crate) unsafe fn begin(self) {
        // SAFETY: the token proves the instruction; it reads 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, preserves_flags, readonly));
        }
    }

    /// Lets go of the tiles, which the system then need not save.
    ///
    /// # Safety
    /// [`begin`](Self::begin) went before.
    pub(crate) unsafe fn end(self) {
        // SAFETY: the token proves the instruction.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }

    /// Sums of up to two tiles of rows and two of columns: `sums` starts at the bias and gets the products of `depth` times
    /// sixteen words.
    ///
    /// `rows` are the starts of tiles and the bytes between their rows; `panel` is that of the words, of which `last` are
    /// those of the last sixteen. `columns` is 1 or 2: tiles of columns, side by side in panel, bias and sums.
    ///
    /// # Safety
    /// [`begin`](Self::begin) went before. As many bytes are readable behind each start, and as many sums writable.
    #[inline(always)]
    pub(crate) unsafe fn product(
        self,
        rows: [(*const u8, usize); 2],
        panel: *const u8,
        last: *const u8,
        depth: usize,
        columns: usize,
        bias: *const u8,
        sums: *mut u8,
    ) {
        let width = columns * 64;
        let below = sums.wrapping_add(SIDE * width);
        // the same row for all
        let none = 0usize;
        // SAFETY: the token proves the instructions; the caller promises the memory.
        unsafe {
            load!("tmm0", bias, none);
            load!("tmm2", bias, none);
            if columns == 2 {
                load!("tmm1", bias.wrapping_add(64), none);
                load!("tmm3", bias.wrapping_add(64), none);
            }
        }
        for step in 0..depth {
            let from = if step + 1 == depth {
                last
            } else {
                panel.wrapping_add(step * SIDE * width)
            };
            let [upper, lower] = rows.map(|(start, stride)| (start.wrapping_add(step * 64), stride));
            // SAFETY: as above.
            unsafe {
                load!("tmm4", upper.0, upper.1);
                load!("tmm6", from, width);
                dot!("tmm0", "tmm4", "tmm6");
                load!("tmm5", lower.0, lower.1);
                dot!("tmm2", "tmm5", "tmm6");
                if columns == 2 {
                    load!("tmm7", from.wrapping_add(64), width);
                    dot!("tmm1", "tmm4", "tmm7");
                    dot!("tmm3", "tmm5", "tmm7");
                }
            }
        }
        // SAFETY: as above.
        unsafe {
            store!("tmm0", sums, width);
            store!("tmm2", below, width);
            if columns == 2 {
                store!("tmm1", sums.wrapping_add(64), width);
                store!("tmm3", below.wrapping_add(64), width);
            }
        }
    }
}

/// Whether the CPU has tiles of bytes, and the system keeps their registers.
fn is_there() -> bool {
    let leaf = std::arch::x86_64::__cpuid_count(7, 0);
    // AMX-TILE and AMX-INT8; a leaf that is not there is zeros or another's bits, which XCR0 then contradicts
    let features = leaf.edx & (1 << 24) != 0 && leaf.edx & (1 << 25) != 0;
    // OSXSAVE
    let saves = std::arch::x86_64::__cpuid_count(1, 0).ecx & (1 << 27) != 0;
    if !features || !saves {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE is set, so the instruction is available.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    let _ = high;
    // XTILECFG and XTILEDATA
    low & (3 << 17) == 3 << 17
}

/// Asks the system for the registers of tiles, once for all threads.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn granted() -> bool {
    /// `ARCH_REQ_XCOMP_PERM` of `asm/prctl.h`.
    const REQUEST: libc::c_long = 0x1023;
    /// `XFEATURE_XTILE_DATA`.
    const TILES: libc::c_long = 18;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILES) == 0 }
}

/// Other systems are not asked.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn granted() -> bool {
    false
}
