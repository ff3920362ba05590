//! Splits long launches: urgent work waits for the launch that runs, so none should take much longer than a
//! millisecond.
//!
//! Invariant: a split launch covers whole images, or whole rows of a product, that start at multiples of [`ALIGN`];
//! a launch for which that is impossible is not split.

use polychip_gpu_kernels::{Broadcast, EpilogueOperand, Scalar};

use super::builder::Lowering;
use super::values::{Stored, ValueId};
use crate::program::{ALIGN, Home};

/// The reciprocal of the longest desired launch, in launches per second.
const PER_SECOND: f64 = 1000.0;
/// Share of the device's multiply-adds that products and convolutions reach.
const REACHED: f64 = 0.4;
/// Most launches that one is split into.
const MOST: u64 = 64;

/// The extent of a launch that can be split between units.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitExtent {
    /// Images, or rows.
    pub(super) units: u32,
    /// Rows of the output in a unit.
    pub(super) rows: u64,
    /// Columns of the output.
    pub(super) columns: u64,
}

impl Lowering<'_> {
    /// Units of each launch that one of this work is split into; `None` if it is short enough.
    pub(super) fn split_launch(&self, scalar: Scalar, work: u64, whole: SplitExtent) -> Option<Vec<u32>> {
        let rate = self.target.rates.cutting(scalar);
        let bearable = (rate as f64 * REACHED / PER_SECOND).max(1.0) as u64;
        let launches = work.div_ceil(bearable).min(MOST).min(whole.units.into());
        if work < bearable.saturating_add(bearable / 2) || launches < 2 {
            return None;
        }
        // rows of products in whole tiles
        let unit = if whole.rows == 1 { 64 } else { 1 };
        let each = whole
            .units
            .div_ceil(u32::try_from(launches).ok()?)
            .next_multiple_of(unit);
        let mut list = Vec::new();
        let mut rest = whole.units;
        while rest > 0 {
            let now = rest.min(each);
            list.push(now);
            rest -= now;
        }
        (list.len() > 1).then_some(list)
    }

    /// A view of part of a value, from this byte; `None` if it cannot be bound.
    pub(super) fn subview(&mut self, value: ValueId, from: u64, bytes: u64) -> Option<ValueId> {
        let stored = self.stored(value);
        let (scalar, home) = (stored.scalar, stored.home);
        let inside = from.checked_add(bytes).is_some_and(|end| end <= stored.bytes);
        if !from.is_multiple_of(ALIGN) || !inside {
            return None;
        }
        let (root, before) = stored.root.unwrap_or((value, 0));
        self.values.push(Stored {
            home: match home {
                Home::Constants(at) => Home::Constants(at + from),
                Home::Port(port, at) => Home::Port(port, at + from),
                // not placed yet
                Home::Arena(at) => Home::Arena(at),
            },
            bytes,
            scalar,
            root: Some((root, before + from)),
        });
        Some(ValueId(self.values.len() as u32 - 1))
    }

    /// Views of the operands of an epilogue and of the output, for some units.
    pub(super) fn epilogue_subviews(
        &mut self,
        whole: SplitExtent,
        (from, units): (u32, u32),
        operands: &[EpilogueOperand],
        values: &[ValueId],
    ) -> Option<Vec<ValueId>> {
        let (first, rows) = (u64::from(from) * whole.rows, u64::from(units) * whole.rows);
        let broadcasts = operands
            .iter()
            .map(|operand| operand.broadcast)
            .chain([Broadcast::Same]);
        let mut subviews = Vec::with_capacity(values.len());
        for (broadcast, &value) in broadcasts.zip(values) {
            let per_row = match broadcast {
                Broadcast::Same => whole.columns,
                Broadcast::Row => 1,
                Broadcast::Column | Broadcast::Single => {
                    subviews.push(value);
                    continue;
                }
            };
            let size = per_row * self.stored(value).scalar.bytes();
            subviews.push(self.subview(value, first * size, rows * size)?);
        }
        Some(subviews)
    }
}
