//! Long launches in shares: urgent work waits for the launch that runs, so none should take much longer than a
//! millisecond.
//!
//! Invariant: shares are whole images, or whole rows of a product, that start at multiples of [`ALIGN`]; where they
//! cannot, the launch stays whole.

use polychip_gpu_kernels::{EpilogueOperand, Place, Scalar};

use super::builder::Lowering;
use super::values::{Stored, ValueId};
use crate::program::{ALIGN, Home};

/// Launches per second that none should fall below.
const PER_SECOND: f64 = 1000.0;
/// Share of the device's multiply-adds that products and convolutions reach.
const REACHED: f64 = 0.4;
/// Most shares of a launch.
const MOST: u64 = 64;

/// Something that can be cut: so many units, each this many rows of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    /// Images, or rows.
    pub(super) units: u32,
    /// Rows of the output in a unit.
    pub(super) rows: u64,
    /// Columns of the output.
    pub(super) columns: u64,
}

impl Lowering<'_> {
    /// Units of each share of a launch of this work; nothing where it is short enough.
    pub(super) fn share(&self, scalar: Scalar, work: u64, whole: Whole) -> Option<Vec<u32>> {
        let rate = self.target.rates.cutting(scalar);
        let bearable = (rate as f64 * REACHED / PER_SECOND).max(1.0) as u64;
        let shares = work.div_ceil(bearable).min(MOST).min(whole.units.into());
        if work < bearable.saturating_add(bearable / 2) || shares < 2 {
            return None;
        }
        // rows of products in whole tiles
        let unit = if whole.rows == 1 { 64 } else { 1 };
        let each = whole
            .units
            .div_ceil(u32::try_from(shares).ok()?)
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

    /// Part of a value, from this byte; nothing where it cannot be bound so.
    pub(super) fn piece(&mut self, value: ValueId, from: u64, bytes: u64) -> Option<ValueId> {
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

    /// The values of an epilogue and of the output for a share.
    pub(super) fn pieces(
        &mut self,
        whole: Whole,
        (from, units): (u32, u32),
        operands: &[EpilogueOperand],
        values: &[ValueId],
    ) -> Option<Vec<ValueId>> {
        let (first, rows) = (u64::from(from) * whole.rows, u64::from(units) * whole.rows);
        let places = operands.iter().map(|operand| operand.place).chain([Place::Same]);
        let mut pieces = Vec::with_capacity(values.len());
        for (place, &value) in places.zip(values) {
            let per_row = match place {
                Place::Same => whole.columns,
                Place::Row => 1,
                Place::Column | Place::Single => {
                    pieces.push(value);
                    continue;
                }
            };
            let size = per_row * self.stored(value).scalar.bytes();
            pieces.push(self.piece(value, first * size, rows * size)?);
        }
        Some(pieces)
    }
}
