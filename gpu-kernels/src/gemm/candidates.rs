//! Which tiles suit a shape, best first by a fixed rule. Tuning times the tiles; without tuning,
//! the first is used.
//!
//! The rule: a large tile reads memory least, a small one spreads a small output over the device. A staged tile
//! suits a shape where the launch has threads for all of the largest device that was measured.

use super::batch::batches;
use super::tile::GemmTile;
use super::{Gemm, GemmInt8};
use crate::{Limits, Scalar};

/// Threads from which on a device is taken to be busy: on an NVIDIA H200 of 132 multiprocessors staged tiles beat
/// sliced ones from about here.
const BUSY: u64 = 30_000;

const fn blocked(m: u32, n: u32, k: u32, rows: u32, columns: u32) -> GemmTile {
    GemmTile::Blocked {
        m,
        n,
        k,
        rows,
        columns,
    }
}

const fn matrix(m: u32, n: u32, k: u32, rows: u32, columns: u32) -> GemmTile {
    GemmTile::Matrix {
        m,
        n,
        k,
        rows,
        columns,
    }
}

const fn sliced(across: u32, down: u32, rows: u32, slices: u32) -> GemmTile {
    GemmTile::Sliced {
        across,
        down,
        rows,
        slices,
    }
}

/// Rows and columns that a workgroup of this tile gives, and its threads.
fn extent(tile: GemmTile) -> [u32; 3] {
    match tile {
        GemmTile::Sliced {
            across,
            down,
            rows,
            slices,
        } => [down * rows, across * 4, down * across * slices],
        GemmTile::Blocked {
            m, n, rows, columns, ..
        } => [m, n, m / rows * (n / columns)],
        // subgroups of 32
        GemmTile::Matrix {
            m, n, rows, columns, ..
        } => [m, n, m / rows * (n / columns) * 32],
    }
}

impl Gemm {
    /// Tiles for this shape that the device can hold, best first; never empty for a product that any tile can
    /// compute.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<GemmTile> {
        let mut tiles = Vec::new();
        let depth_ok = self.k >= 16;
        if self.scalar == Scalar::F16 && limits.features.cooperative != 0 && depth_ok {
            tiles.extend([
                matrix(128, 128, 32, 64, 64),
                matrix(64, 128, 32, 32, 64),
                matrix(64, 64, 32, 32, 32),
                matrix(32, 64, 32, 32, 32),
                matrix(32, 32, 32, 16, 16),
            ]);
        }
        if self.m > 8 || self.b.transposed() {
            tiles.extend(BLOCKED);
        }
        let tiles = order(tiles, self.batches(), self.m, self.n, self.k);
        keep(tiles, |tile| {
            crate::Generate::kernel(&self.with(tile), limits).is_ok()
        })
    }
}

impl GemmInt8 {
    /// Tiles for this shape that the device can hold, best first.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<GemmTile> {
        let tiles = if self.m > 8 { BLOCKED.to_vec() } else { Vec::new() };
        // a word is a longer step than a float
        let steps = self.k.div_ceil(2);
        let tiles = order(tiles, batches(&self.batch), self.m, self.n, steps);
        keep(tiles, |tile| {
            crate::Generate::kernel(&self.with(tile), limits).is_ok()
        })
    }
}

const BLOCKED: [GemmTile; 5] = [
    blocked(128, 128, 8, 8, 8),
    blocked(128, 128, 8, 8, 16),
    blocked(64, 64, 8, 8, 4),
    blocked(32, 64, 8, 4, 4),
    blocked(32, 32, 16, 4, 4),
];

/// Staged tiles that keep the device busy, then sliced ones that suit the shape, then the other staged ones from
/// the smallest.
fn order(staged: Vec<GemmTile>, batches: u64, m: u32, n: u32, k: u32) -> Vec<GemmTile> {
    let all_threads = |tile: GemmTile| {
        let [height, width, threads] = extent(tile);
        batches * u64::from(m.div_ceil(height)) * u64::from(n.div_ceil(width)) * u64::from(threads)
    };
    let (mut best, rest): (Vec<GemmTile>, Vec<GemmTile>) =
        staged.into_iter().partition(|&tile| all_threads(tile) >= BUSY);
    best.extend(sliced_for(batches, m, n, k));
    best.extend(rest.into_iter().rev());
    best
}

/// Sliced tiles: rows by m, slices so that few outputs still fill the device.
fn sliced_for(batches: u64, m: u32, n: u32, k: u32) -> Vec<GemmTile> {
    let slices = |most: u32| (k / 16).next_power_of_two().clamp(1, most);
    let outputs = batches * u64::from(m) * u64::from(n);
    match m {
        1 if n <= 4096 => vec![
            sliced(4, 1, 1, slices(64)),
            sliced(2, 1, 1, slices(128)),
            sliced(8, 1, 1, slices(32)),
        ],
        1 => vec![sliced(8, 1, 1, slices(32)), sliced(16, 1, 1, slices(16))],
        2..=4 => vec![sliced(4, 1, 4, slices(64)), sliced(8, 1, 4, slices(32))],
        5..=8 => vec![sliced(4, 2, 4, slices(32)), sliced(8, 2, 4, slices(16))],
        _ if outputs <= 1 << 16 => vec![
            sliced(8, 2, 4, slices(16)),
            sliced(4, 4, 4, slices(16)),
            sliced(8, 4, 2, slices(8)),
        ],
        _ => vec![
            sliced(8, 2, 4, slices(16)),
            sliced(16, 4, 4, slices(4)),
            sliced(8, 2, 8, slices(8)),
        ],
    }
}

/// Those that can be, each once; more than a handful are not worth their time.
fn keep(tiles: Vec<GemmTile>, can: impl Fn(GemmTile) -> bool) -> Vec<GemmTile> {
    let mut kept: Vec<GemmTile> = Vec::new();
    for tile in tiles {
        if !kept.contains(&tile) && can(tile) {
            kept.push(tile);
        }
    }
    kept.truncate(6);
    kept
}
