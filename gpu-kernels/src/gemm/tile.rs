//! The tiles of products: what a workgroup and its threads compute.
//!
//! Not here: which tile suits a shape (`candidates`), the text of each (`sliced`, `blocked`, `matrix`).

use serde::{Deserialize, Serialize};

/// Shape of the work of a workgroup and of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GemmTile {
    /// Uses workgroup memory only for the last sums; for small or narrow outputs. `across` times
    /// `down` threads compute 4 columns and `rows` rows each, and `slices` such sets of threads
    /// share the sums over k.
    Sliced {
        /// Threads along n.
        across: u32,
        /// Threads along m.
        down: u32,
        /// Rows per thread.
        rows: u32,
        /// Number of slices of k.
        slices: u32,
    },
    /// Tiles of a and b in workgroup memory; a thread has `rows` by `columns` sums, both multiples of 4.
    Blocked {
        /// Rows per workgroup.
        m: u32,
        /// Columns per workgroup.
        n: u32,
        /// Depth staged at once, a multiple of 4.
        k: u32,
        /// Rows per thread.
        rows: u32,
        /// Columns per thread.
        columns: u32,
    },
    /// Cooperative matrices on f16 storage; a subgroup has `rows` by `columns` sums.
    Matrix {
        /// Rows per workgroup.
        m: u32,
        /// Columns per workgroup.
        n: u32,
        /// Depth staged at once.
        k: u32,
        /// Rows per subgroup.
        rows: u32,
        /// Columns per subgroup.
        columns: u32,
    },
}

impl GemmTile {
    /// Name as in variants of kernels.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            GemmTile::Sliced {
                across,
                down,
                rows,
                slices,
            } => format!("sliced-{across}x{down}x{rows}x{slices}"),
            GemmTile::Blocked {
                m,
                n,
                k,
                rows,
                columns,
            } => format!("{m}x{n}x{k}-{rows}x{columns}"),
            GemmTile::Matrix {
                m,
                n,
                k,
                rows,
                columns,
            } => format!("matrix-{m}x{n}x{k}-{rows}x{columns}"),
        }
    }
}
