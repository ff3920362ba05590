//! Order statistics of what a chore measured.
//!
//! Invariant: as `polychip_profile`'s, whose rules they share: each is a measured value. `xtask` depends on no other
//! package, so that it builds in seconds.

/// The median: of an even number of values the larger of the two in the middle; not a number for no values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The percentile by nearest rank; not a number for no values.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}
