//! Which tiles suit a convolution: estimates each tile's time and orders the tiles by it.
//!
//! The estimate was fitted to the times of some fifty tiles on each layer of MobileNetV2 and
//! ResNet-50 at batch 1 on a device of 132 multiprocessors (`benches/convolutions`): its first
//! choices took 10 % longer than the best tile of each layer, summed over whole networks. If tiles
//! are timed, the estimate only orders them for timing.

use super::{Conv, ConvTile, Sizes, Threads};
use crate::{Generate, Limits, Scalar};

/// Tiles of the estimate that are worth timing.
const OFFERED: usize = 6;

/// Multiprocessors that a launch should fill: those of the largest device that was measured.
const UNITS: f64 = 132.0;

const fn threads(rows: u32, quads: u32, down: u32, across: u32, slices: u32) -> Threads {
    Threads {
        rows,
        quads,
        down,
        across,
        slices,
    }
}

const fn direct(threads: Threads, ahead: u32) -> ConvTile {
    ConvTile::Direct { threads, ahead }
}

const fn staged(threads: Threads, depth: u32) -> ConvTile {
    ConvTile::Staged { threads, depth }
}

const fn matrix([rows, columns, down, across, slices, depth]: [u32; 6]) -> ConvTile {
    ConvTile::Matrix {
        rows,
        columns,
        down,
        across,
        slices,
        depth,
        filters: true,
    }
}

/// As [`matrix`], with weights straight from memory.
const fn straight([rows, columns, down, across, slices, depth]: [u32; 6]) -> ConvTile {
    ConvTile::Matrix {
        rows,
        columns,
        down,
        across,
        slices,
        depth,
        filters: false,
    }
}

/// Every tile that was best for some layer, and some for batches.
const TILES: [ConvTile; 30] = [
    direct(threads(1, 1, 4, 4, 16), 4),
    direct(threads(2, 1, 2, 4, 16), 2),
    direct(threads(2, 1, 4, 4, 16), 4),
    direct(threads(2, 1, 2, 4, 32), 4),
    direct(threads(2, 1, 2, 8, 16), 2),
    direct(threads(2, 1, 8, 4, 8), 2),
    direct(threads(4, 1, 2, 4, 32), 2),
    direct(threads(4, 1, 4, 4, 16), 2),
    direct(threads(4, 1, 4, 8, 8), 2),
    direct(threads(4, 2, 4, 4, 8), 2),
    direct(threads(4, 1, 8, 8, 4), 2),
    direct(threads(4, 1, 8, 8, 2), 2),
    direct(threads(4, 1, 8, 8, 1), 2),
    staged(threads(2, 1, 8, 4, 8), 32),
    staged(threads(2, 1, 8, 8, 4), 16),
    staged(threads(4, 1, 4, 8, 8), 32),
    staged(threads(4, 1, 8, 8, 4), 16),
    staged(threads(4, 1, 8, 8, 2), 8),
    staged(threads(4, 2, 8, 8, 1), 8),
    staged(threads(8, 2, 16, 16, 1), 4),
    matrix([1, 1, 1, 2, 8, 2]),
    matrix([1, 1, 1, 2, 4, 4]),
    matrix([1, 2, 2, 1, 2, 4]),
    matrix([2, 2, 1, 1, 4, 2]),
    matrix([2, 2, 1, 2, 4, 2]),
    matrix([2, 2, 2, 1, 2, 2]),
    matrix([2, 2, 2, 2, 2, 2]),
    matrix([2, 2, 2, 2, 1, 2]),
    matrix([2, 4, 2, 2, 1, 2]),
    matrix([4, 4, 2, 2, 1, 2]),
];

/// Tiles that the estimate was not fitted to: offered last, to be timed.
const UNTOLD: [ConvTile; 2] = [straight([1, 1, 1, 1, 8, 4]), straight([1, 2, 1, 1, 8, 4])];

impl Conv {
    /// Tiles that this device can run this convolution with, the shortest by the estimate first.
    ///
    /// Never empty for a convolution that any tile can compute.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<ConvTile> {
        let Ok(sizes) = self.sizes() else {
            return Vec::new();
        };
        let mut tiles: Vec<(f64, ConvTile)> = TILES
            .iter()
            .map(|&tile| (self.estimate(&sizes, tile, limits), tile))
            .collect();
        tiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        let fits = |tile: &ConvTile| {
            let conv = Conv {
                tile: *tile,
                ..self.clone()
            };
            conv.kernel(limits).is_ok()
        };
        let told = tiles.into_iter().map(|(_, tile)| tile).filter(fits).take(OFFERED);
        told.chain(UNTOLD.into_iter().filter(fits)).collect()
    }

    /// Microseconds, but for the launch, that a tile takes on a device of [`UNITS`] multiprocessors.
    fn estimate(&self, sizes: &Sizes, tile: ConvTile, limits: &Limits) -> f64 {
        // what a read of the image costs in reads of weights: windows have places to compute
        let read = match (sizes.whole, self.window.taps()) {
            (true, 1) => 1.0,
            (true, _) => 2.2,
            (false, _) => 4.4,
        };
        let product = if self.scalar == Scalar::F16 { 1.5 } else { 1.0 };
        // vectors of weights, and products, of four steps of the sum
        let (weights, products) = if self.is_bytes() { (1.0, 4.0) } else { (4.0, 16.0) };
        let fours = f64::from(sizes.fours);
        let side = f64::from(limits.features.cooperative);
        let (all, rows, quads, slices) = match tile {
            ConvTile::Direct { threads: t, .. } | ConvTile::Staged { threads: t, .. } => (
                t.down * t.across * t.slices,
                f64::from(t.rows * t.down),
                f64::from(t.quads * t.across),
                f64::from(t.slices),
            ),
            ConvTile::Matrix {
                rows,
                columns,
                down,
                across,
                slices,
                ..
            } => (
                down * across * slices * limits.subgroup[0],
                f64::from(rows * down) * side,
                f64::from(columns * across) * side / 4.0,
                f64::from(slices),
            ),
        };
        let all = f64::from(all.max(1));
        let groups = (sizes.rows as f64 / rows).ceil()
            * (f64::from(sizes.quads) / quads).ceil()
            * f64::from(sizes.groups);
        // what each multiprocessor does, in turns of 128 threads
        let turns = (groups / UNITS).ceil() * all / 128.0;
        let ends = 0.06 * slices * rows * quads / all * (groups * all / (UNITS * 1024.0)).max(1.0);
        let both = |waits: f64, works: f64, share: f64| waits.max(works) + share * waits.min(works);
        match tile {
            ConvTile::Direct { threads: t, ahead } => {
                let steps = (fours / slices).ceil();
                let (rows, quads) = (f64::from(t.rows), f64::from(t.quads));
                let step =
                    0.0005 * rows * quads * products * product + 0.013 * (rows * read + weights * quads);
                both(0.39 * steps / f64::from(ahead), turns * steps * step, 0.15) + ends
            }
            ConvTile::Staged { threads: t, depth } => {
                let depth = f64::from(depth);
                let steps = (fours / depth).ceil();
                let brought = depth * (rows * read + weights * quads) / all;
                let (rows, quads) = (f64::from(t.rows), f64::from(t.quads));
                let inner = 0.0008 * rows * quads * products * product + 0.0053 * (rows + weights * quads);
                let step = depth / slices * inner + 0.026 * brought;
                both(0.22 * steps, turns * steps * step, 0.3) + ends
            }
            ConvTile::Matrix {
                rows: r,
                columns: c,
                depth,
                ..
            } => {
                let deep = f64::from(depth) * side * slices / 4.0;
                let steps = (fours / deep).ceil();
                let brought = deep * (rows * read + 4.0 * quads) / all;
                let squares = f64::from(r * c + r + c);
                let step = 0.005 * f64::from(depth) * squares + 0.031 * brought;
                both(0.0045 * steps, turns * steps * step, 0.3) + 4.0 * ends
            }
        }
    }
}
