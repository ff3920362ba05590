//! Which scale of an encoding belongs to an element.
//!
//! Invariant: an index exists only for an encoding that fits the shape, so that every element has a scale.

use std::ops::Range;

use polychip_sdk::{Encoding, EncodingKind};

use crate::{Layout, Outcome, Refusal};

/// Finds the scale of each element of a dense tensor.
#[derive(Debug, Clone)]
pub struct ScaleIndex {
    kind: EncodingKind,
    /// Elements per index of the axis.
    inner: usize,
    /// Size of the axis.
    size: usize,
    /// Elements along the axis that share a scale.
    block: usize,
    /// Scales along the axis.
    blocks: usize,
}

impl ScaleIndex {
    /// The index of an encoding of a tensor of this ONNX shape, whose elements lie in a layout.
    ///
    /// # Errors
    /// Where the encoding names an axis that the shape does not have, or has too few scales for it, or has blocks
    /// that the layout tears apart.
    pub fn new(encoding: &Encoding, shape: &[usize], layout: Layout) -> Outcome<ScaleIndex> {
        let rank = shape.len();
        let shape = layout.dims(shape);
        let wrong = || Refusal::shape(format!("an encoding does not fit a tensor of shape {shape:?}"));
        let along = |axis: usize| -> Outcome<(usize, usize)> {
            if axis >= rank {
                return Err(wrong());
            }
            let axis = layout.place(axis, rank);
            let size = shape[axis];
            Ok((shape[axis + 1..].iter().product(), size))
        };
        let (inner, size, block, blocks, needed) = match encoding.kind {
            EncodingKind::PerTensor => (1, 1, 1, 1, 1),
            EncodingKind::PerAxis { axis } => {
                let (inner, size) = along(axis)?;
                (inner, size, 1, size, size)
            }
            EncodingKind::PerBlock { block: 0, .. } => return Err(wrong()),
            EncodingKind::PerBlock { .. } if layout == Layout::ChannelsLast => {
                return Err(Refusal::encoding(
                    "an encoding per block of a channels-last tensor",
                ));
            }
            EncodingKind::PerBlock { axis, block } => {
                let (inner, size) = along(axis)?;
                let blocks = size.div_ceil(block);
                let outer: usize = shape[..axis].iter().product();
                (inner, size, block, blocks, outer * blocks * inner)
            }
            EncodingKind::Blocks(layout) => {
                return Err(Refusal::encoding(format!(
                    "blocks of {layout} have no array of scales"
                )));
            }
        };
        let zero_points = encoding.zero_points.len();
        if encoding.scales.len() < needed || (zero_points != 0 && zero_points < needed) {
            return Err(wrong());
        }
        Ok(ScaleIndex {
            kind: encoding.kind,
            inner: inner.max(1),
            size: size.max(1),
            block,
            blocks,
        })
    }

    /// The scale of an element.
    pub fn at(&self, element: usize) -> usize {
        let along = element / self.inner % self.size;
        match self.kind {
            // blocks that hold their scales have no index: `new` has refused them
            EncodingKind::PerTensor | EncodingKind::Blocks(_) => 0,
            EncodingKind::PerAxis { .. } => along,
            EncodingKind::PerBlock { .. } => {
                let (outer, within) = (element / (self.inner * self.size), element % self.inner);
                (outer * self.blocks + along / self.block) * self.inner + within
            }
        }
    }

    /// Elements in a row that share a scale, from any multiple of it.
    fn run(&self) -> usize {
        match self.kind {
            EncodingKind::PerTensor | EncodingKind::Blocks(_) => usize::MAX,
            EncodingKind::PerAxis { .. } => self.inner,
            EncodingKind::PerBlock { .. } => 1,
        }
    }

    /// Calls `each(range, scale, zero point)` for each run of `len` elements that share a scale of the encoding that
    /// the index was made of.
    pub fn runs(&self, encoding: &Encoding, len: usize, mut each: impl FnMut(Range<usize>, f32, i32)) {
        let run = self.run();
        let mut start = 0;
        while start < len {
            let end = start.saturating_add(run).min(len);
            let at = self.at(start);
            let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
            each(start..end, encoding.scales[at], zero);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::DType;

    use super::*;

    fn encoding(kind: EncodingKind, scales: usize) -> Encoding {
        Encoding {
            kind,
            scales: (0..scales).map(|scale| scale as f32).collect(),
            zero_points: Vec::new(),
            real_dtype: DType::F32,
        }
    }

    fn scales(kind: EncodingKind, count: usize, shape: &[usize]) -> Vec<usize> {
        let index = ScaleIndex::new(&encoding(kind, count), shape, Layout::RowMajor).unwrap();
        (0..shape.iter().product()).map(|i| index.at(i)).collect()
    }

    #[test]
    fn elements_find_their_scale() {
        assert_eq!(scales(EncodingKind::PerTensor, 1, &[2, 2]), [0, 0, 0, 0]);
        let axis = EncodingKind::PerAxis { axis: 1 };
        assert_eq!(scales(axis, 2, &[2, 2, 2]), [0, 0, 1, 1, 0, 0, 1, 1]);
        let last = ScaleIndex::new(&encoding(axis, 2), &[2, 2, 2], Layout::ChannelsLast).unwrap();
        assert!((0..8).all(|i| last.at(i) == i % 2));
        let block = EncodingKind::PerBlock { axis: 0, block: 2 };
        assert_eq!(scales(block, 4, &[3, 2]), [0, 1, 0, 1, 2, 3]);
        let inner = EncodingKind::PerBlock { axis: 1, block: 2 };
        assert_eq!(scales(inner, 4, &[2, 3]), [0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn runs_cover_all_elements_in_order() {
        for (kind, count) in [
            (EncodingKind::PerTensor, 1),
            (EncodingKind::PerAxis { axis: 1 }, 3),
            (EncodingKind::PerBlock { axis: 1, block: 2 }, 16),
        ] {
            let encoding = encoding(kind, count);
            let index = ScaleIndex::new(&encoding, &[2, 3, 4], Layout::RowMajor).unwrap();
            let mut seen = Vec::new();
            index.runs(&encoding, 24, |range, scale, zero| {
                assert_eq!(zero, 0);
                for element in range {
                    assert_eq!(scale, index.at(element) as f32);
                    seen.push(element);
                }
            });
            assert!(seen.iter().copied().eq(0..24));
        }
    }

    #[test]
    fn encodings_that_do_not_fit_are_refused() {
        let bad = |kind, count, shape: &[usize]| {
            ScaleIndex::new(&encoding(kind, count), shape, Layout::RowMajor).is_err()
        };
        assert!(bad(EncodingKind::PerAxis { axis: 2 }, 2, &[2, 2]));
        assert!(bad(EncodingKind::PerAxis { axis: 0 }, 1, &[2, 2]));
        assert!(bad(EncodingKind::PerBlock { axis: 0, block: 0 }, 9, &[2, 2]));
        assert!(bad(EncodingKind::PerTensor, 0, &[1]));
    }
}
