//! Which tiles suit a convolution.

use super::{Conv, ConvTile, Threads};
use crate::{Generate, Limits};

impl Conv {
    /// Tiles that this device can run this convolution with, best first by rule; measuring may know better.
    ///
    /// The rule: at batch 1 the first aim is a workgroup for every unit of a large device, then few reads.
    #[must_use]
    pub fn candidates(&self, limits: &Limits) -> Vec<ConvTile> {
        let mut tiles = Vec::new();
        let threads = |rows, quads, down, across, slices| Threads {
            rows,
            quads,
            down,
            across,
            slices,
        };
        for t in [
            threads(4, 1, 2, 4, 32),
            threads(4, 1, 4, 4, 16),
            threads(4, 1, 4, 8, 8),
            threads(4, 2, 8, 4, 4),
            threads(4, 2, 8, 8, 2),
            threads(4, 1, 8, 8, 1),
            threads(2, 1, 2, 4, 16),
        ] {
            tiles.push(ConvTile::Direct { threads: t, ahead: 2 });
        }
        for (t, depth) in [
            (threads(4, 1, 8, 8, 4), 16),
            (threads(4, 2, 8, 8, 2), 8),
            (threads(8, 2, 8, 8, 1), 4),
            (threads(4, 1, 4, 8, 8), 16),
        ] {
            tiles.push(ConvTile::Staged { threads: t, depth });
        }
        tiles.retain(|&tile| {
            let conv = Conv { tile, ..self.clone() };
            conv.kernel(limits).is_ok()
        });
        tiles
    }
}
