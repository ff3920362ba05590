//! Pads the inputs of a run to its bucket, and cuts its outputs back, with counted copies.
//!
//! Invariants:
//! 1. The elements of a padded input beyond the app's are zeros, regardless of earlier runs.
//! 2. An output whose kept elements come first in memory is not copied.
//!
//! Not here: which output elements are kept (`buckets`).

use polychip_host::Access;
use polychip_ops::DType;

use crate::error::Result;
use crate::session::buckets::Padding;
use crate::session::run_state::RunState;
use crate::session::wiring::{OutputSource, Wiring};
use crate::tensor::{Hold, TensorMemory};

/// Copies an input into the run's own memory of it, padded to what its plan takes.
pub(crate) fn pad(input: &Hold, memory: &TensorMemory, padding: &Padding) -> Result<()> {
    let source = input.read_input()?;
    let mut target = memory.access(Access::Write)?;
    let block = Block::new(input.dtype, &input.shape, &memory.shape);
    padding.count.add_bytes(block.pad(&source, &mut target));
    Ok(())
}

/// Cuts the outputs of a run that has gone well back to what is true: into the app's memory where it gave some, else
/// into the slot's.
pub(crate) fn cut(wiring: &Wiring, slot: &mut RunState) -> Result<()> {
    let Some(padding) = slot.given.padding.take() else {
        return Ok(());
    };
    for (index, shape) in padding.shapes.outputs.iter().enumerate() {
        slot.cut[index].clear();
        let Some(shape) = shape else { continue };
        let output = &wiring.outputs[index];
        let block = Block::new(output.spec.dtype, shape, &output.spec.shape);
        let mut given = slot.given.cut.iter();
        let given = given.find(|(given, _)| *given == index).map(|(_, memory)| memory);
        slot.cut_by_app[index] = given.is_some();
        let guard;
        let source: &[u8] = match (&output.source, &slot.outputs[index]) {
            (OutputSource::Constant(bytes), _) => bytes,
            (OutputSource::Input(_) | OutputSource::Part(..), Some(memory)) => {
                guard = memory.access(Access::Read)?;
                &guard
            }
            // an output that is another one is cut as that
            (OutputSource::Same(_) | OutputSource::Input(_) | OutputSource::Part(..), _) => continue,
        };
        if let Some(memory) = given {
            padding.count.add_bytes(block.cut(source, &mut memory.write()?));
        } else if !block.is_first() {
            let kept = &mut slot.cut[index];
            kept.resize(block.bytes(), 0);
            padding.count.add_bytes(block.cut(source, kept));
        }
    }
    slot.was_padded = Some(padding);
    Ok(())
}

/// The first elements along each axis of a larger tensor.
struct Block<'a> {
    /// Bytes of an element.
    width: usize,
    shape: &'a [usize],
    within: &'a [usize],
    /// From this axis on, elements that follow each other do so in both.
    row: usize,
}

impl<'a> Block<'a> {
    fn new(dtype: DType, shape: &'a [usize], within: &'a [usize]) -> Block<'a> {
        let last = (0..shape.len()).rev().find(|&axis| shape[axis] != within[axis]);
        Block {
            // the proof leaves out types of less than a byte
            width: dtype.byte_width().unwrap_or(1),
            shape,
            within,
            row: last.unwrap_or(0),
        }
    }

    /// Bytes of the elements of the block.
    fn bytes(&self) -> usize {
        self.width * self.shape.iter().product::<usize>()
    }

    /// Whether the block's elements are the first ones in memory.
    fn is_first(&self) -> bool {
        self.within[..self.row].iter().all(|size| *size == 1)
    }

    /// Copies a tensor of the block's shape into the larger one, whose other elements become zeros. The bytes copied.
    fn pad(&self, source: &[u8], target: &mut [u8]) -> usize {
        let (short, long) = self.rows();
        if long == 0 {
            return 0;
        }
        let mut rows = source.chunks_exact(short.max(1));
        for (place, row) in target.chunks_exact_mut(long).enumerate() {
            let from = if self.has_row(place) && short > 0 {
                rows.next()
            } else {
                None
            };
            let from = from.unwrap_or(&[]);
            row[..from.len()].copy_from_slice(from);
            row[from.len()..].fill(0);
        }
        source.len()
    }

    /// Copies the block out of the larger tensor. The bytes copied.
    fn cut(&self, source: &[u8], target: &mut [u8]) -> usize {
        let (short, long) = self.rows();
        if short == 0 || long == 0 {
            return 0;
        }
        let kept = source.chunks_exact(long).enumerate();
        let kept = kept.filter(|(place, _)| self.has_row(*place)).map(|(_, row)| row);
        for (row, from) in target.chunks_exact_mut(short).zip(kept) {
            row.copy_from_slice(&from[..short]);
        }
        self.bytes()
    }

    /// Bytes of a row: in the block, and in the larger tensor.
    fn rows(&self) -> (usize, usize) {
        let bytes = |sizes: &[usize]| self.width * sizes[self.row..].iter().product::<usize>();
        if self.shape.is_empty() {
            (self.width, self.width)
        } else {
            (bytes(self.shape), bytes(self.within))
        }
    }

    /// Whether a row of the larger tensor holds one of the block.
    fn has_row(&self, mut place: usize) -> bool {
        let axes = self.shape[..self.row].iter().zip(&self.within[..self.row]);
        for (size, within) in axes.rev() {
            if place % within >= *size {
                return false;
            }
            place /= within;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_round_trips() {
        for (shape, within) in [
            (vec![2, 3], vec![4, 3]),
            (vec![2, 3], vec![2, 5]),
            (vec![2, 3, 2], vec![3, 5, 2]),
            (vec![1, 2, 1], vec![1, 2, 4]),
            (vec![3], vec![7]),
            (vec![0, 3], vec![2, 3]),
        ] {
            let block = Block::new(DType::I16, &shape, &within);
            let elements: usize = shape.iter().product();
            let room: usize = within.iter().product();
            let source: Vec<u8> = (1..=2 * elements).map(|i| i as u8).collect();
            let mut wide = vec![0xff; 2 * room];
            assert_eq!(block.pad(&source, &mut wide), 2 * elements);
            let zeros = wide.iter().filter(|byte| **byte == 0).count();
            assert_eq!(zeros, 2 * (room - elements), "{shape:?} in {within:?}");
            let mut cut = vec![0; 2 * elements];
            assert_eq!(block.cut(&wide, &mut cut), 2 * elements);
            assert_eq!(cut, source, "{shape:?} in {within:?}");
            assert_eq!(
                block.is_first(),
                wide[..source.len()] == source,
                "{shape:?} in {within:?}"
            );
        }
    }
}
