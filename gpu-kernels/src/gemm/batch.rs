//! Batches of products: maps the index of an output matrix to the matrices of a and b.
//!
//! Invariant: indices are row-major, and an operand that lacks an axis is repeated along it.

use serde::{Deserialize, Serialize};

/// One axis of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BatchAxis {
    /// Length in the output.
    pub count: u32,
    /// Whether a has the axis; if not, it is repeated along it.
    pub a: bool,
    /// Whether b has the axis; if not, it is repeated along it.
    pub b: bool,
}

/// Products in the batch.
pub(super) fn batches(batch: &[BatchAxis]) -> u64 {
    batch
        .iter()
        .fold(1u64, |all, axis| all.saturating_mul(axis.count.into()))
}

/// Matrices that one side has.
pub(super) fn own_batches(batch: &[BatchAxis], has: impl Fn(&BatchAxis) -> bool) -> u64 {
    batch
        .iter()
        .filter(|axis| has(axis))
        .fold(1u64, |all, axis| all.saturating_mul(axis.count.into()))
}

/// The number of a side's matrix for a number of the output's, both row-major.
pub(super) fn own_batch(batch: &[BatchAxis], index: u64, has: impl Fn(&BatchAxis) -> bool) -> u64 {
    let (mut rest, mut own, mut stride) = (index, 0, 1);
    for axis in batch.iter().rev() {
        let count = u64::from(axis.count.max(1));
        if has(axis) {
            own += rest % count * stride;
            stride *= count;
        }
        rest /= count;
    }
    own
}

/// WGSL of [`own_batch`] for `group.z`, times the elements of one matrix.
pub(super) fn base_text(batch: &[BatchAxis], elements: u64, has: impl Fn(&BatchAxis) -> bool) -> String {
    let (mut terms, mut inner, mut stride) = (Vec::new(), 1u64, elements);
    for axis in batch.iter().rev() {
        let count = u64::from(axis.count);
        if has(axis) && count > 1 {
            terms.push(format!("group.z / {inner}u % {count}u * {stride}u"));
            stride *= count;
        }
        inner *= count;
    }
    if terms.is_empty() {
        "0u".to_owned()
    } else {
        terms.join(" + ")
    }
}
