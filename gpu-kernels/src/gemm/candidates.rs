//! Which tiles suit a shape, best first by a fixed rule: tuning times them, else the first is taken.
//!
//! The rule: a large tile reads memory least, a small one spreads a small output over the device. A tile is
//! large enough for its shape where it gives each of about 132 multiprocessors (the largest device that was
//! measured) a workgroup.

use super::{Gemm, GemmInt8, GemmTile, Right, batches};
use crate::{Limits, Scalar};

/// Workgroups from which on a device is taken to be busy.
const BUSY: u64 = 132;

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

/// Rows and columns that a workgroup of this tile gives.
fn extent(tile: GemmTile) -> [u32; 2] {
    match tile {
        GemmTile::Sliced {
            across, down, rows, ..
        } => [down * rows, across * 4],
        GemmTile::Blocked { m, n, .. } | GemmTile::Matrix { m, n, .. } => [m, n],
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
        if self.m > 8 || self.b == Right::Transposed {
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
        let tiles = order(tiles, batches(&self.batch), self.m, self.n, self.k.div_ceil(4));
        keep(tiles, |tile| {
            crate::Generate::kernel(&self.with(tile), limits).is_ok()
        })
    }
}

const BLOCKED: [GemmTile; 4] = [
    blocked(128, 128, 16, 8, 8),
    blocked(64, 64, 16, 8, 4),
    blocked(32, 64, 16, 4, 4),
    blocked(32, 32, 16, 4, 4),
];

/// Staged tiles that keep the device busy, then sliced ones that suit the shape, then the other staged ones from
/// the smallest.
fn order(staged: Vec<GemmTile>, batches: u64, m: u32, n: u32, k: u32) -> Vec<GemmTile> {
    let groups = |tile: GemmTile| {
        let [height, width] = extent(tile);
        batches * u64::from(m.div_ceil(height)) * u64::from(n.div_ceil(width))
    };
    let (mut best, rest): (Vec<GemmTile>, Vec<GemmTile>) =
        staged.into_iter().partition(|&tile| groups(tile) >= BUSY);
    best.extend(sliced_for(batches, m, n, k));
    best.extend(rest.into_iter().rev());
    best
}

/// Sliced tiles: rows by m, slices so that few outputs still fill the device.
fn sliced_for(batches: u64, m: u32, n: u32, k: u32) -> Vec<GemmTile> {
    let slices = |most: u32| (k / 16).next_power_of_two().clamp(1, most);
    let outputs = batches * u64::from(m) * u64::from(n);
    match m {
        1 if n <= 4096 => vec![sliced(4, 1, 1, slices(64)), sliced(8, 1, 1, slices(32))],
        1 => vec![sliced(8, 1, 1, slices(32)), sliced(16, 1, 1, slices(16))],
        2..=4 => vec![sliced(8, 1, 4, slices(16)), sliced(4, 1, 4, slices(32))],
        5..=8 => vec![sliced(8, 2, 4, slices(16)), sliced(8, 1, 8, slices(8))],
        _ if outputs <= 1 << 15 => vec![
            sliced(8, 2, 4, slices(16)),
            sliced(8, 4, 4, slices(8)),
            sliced(8, 4, 2, slices(8)),
        ],
        _ => vec![
            sliced(8, 4, 4, slices(8)),
            sliced(8, 8, 4, slices(4)),
            sliced(16, 8, 4, slices(2)),
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
