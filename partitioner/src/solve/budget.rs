//! Limits on solver effort in counted steps, never by a clock, so that plans stay reproducible.

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Largest table of the exact solver, in entries.
    pub table: u64,
    /// Moves of the search on wider problems.
    pub moves: u32,
    /// Seed of that search.
    pub seed: u64,
}
