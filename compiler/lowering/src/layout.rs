//! In which order the axes of a tensor lie in memory.
//!
//! Invariant: a permutation lists, for each axis in memory from the outermost, the axis of the ONNX shape.
//!
//! Not here: which node computes in which layout (`plan`).

mod flows;
pub mod plan;

pub use flows::planned;

/// How the axes of a tensor lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// As in the ONNX shape.
    RowMajor,
    /// Axis 1 last. Tensors of less than three axes are as row-major.
    ChannelsLast,
}

impl Layout {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Layout {
        match self {
            Layout::RowMajor => Layout::ChannelsLast,
            Layout::ChannelsLast => Layout::RowMajor,
        }
    }

    /// The ONNX axis of each place in memory.
    pub fn permutation(self, rank: usize) -> Vec<usize> {
        if self == Layout::RowMajor || rank < 3 {
            return (0..rank).collect();
        }
        std::iter::once(0)
            .chain(2..rank)
            .chain(std::iter::once(1))
            .collect()
    }

    /// Extents in memory of a tensor of this ONNX shape.
    pub fn dims(self, shape: &[usize]) -> Vec<usize> {
        self.permutation(shape.len())
            .into_iter()
            .map(|axis| shape[axis])
            .collect()
    }

    /// The place in memory of an ONNX axis.
    pub fn place(self, axis: usize, rank: usize) -> usize {
        if self == Layout::RowMajor || rank < 3 || axis == 0 {
            axis
        } else if axis == 1 {
            rank - 1
        } else {
            axis - 1
        }
    }

    /// The transposition that takes a tensor from this layout to another: for each place of the result, the place it
    /// comes from.
    pub fn to(self, to: Layout, rank: usize) -> Vec<usize> {
        to.permutation(rank)
            .into_iter()
            .map(|axis| self.place(axis, rank))
            .collect()
    }

    /// Whether both layouts of a tensor of this ONNX shape are the same memory.
    pub fn is_same(shape: &[usize]) -> bool {
        match shape {
            [_, channels, spatial @ ..] => *channels == 1 || spatial.iter().all(|&size| size == 1),
            _ => true,
        }
    }
}

/// Whether a transposition leaves the elements where they are: it moves no axis of more than one element past
/// another.
pub fn keeps_memory(dims: &[usize], permutation: &[usize]) -> bool {
    let moved = permutation.iter().copied().filter(|&place| dims[place] != 1);
    moved.is_sorted()
}

/// The elements of a row-major tensor in the order of a transposition.
pub fn transpose(bytes: &[u8], width: usize, dims: &[usize], permutation: &[usize]) -> Vec<u8> {
    if keeps_memory(dims, permutation) {
        return bytes.to_vec();
    }
    let mut strides = vec![width; dims.len()];
    for place in (0..dims.len().saturating_sub(1)).rev() {
        strides[place] = strides[place + 1] * dims[place + 1];
    }
    let out: Vec<(usize, usize)> = permutation
        .iter()
        .map(|&place| (dims[place], strides[place]))
        .collect();
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; out.len()];
    let mut at = 0usize;
    while result.len() < bytes.len() {
        result.extend_from_slice(&bytes[at..at + width]);
        for place in (0..out.len()).rev() {
            let (extent, stride) = out[place];
            index[place] += 1;
            at += stride;
            if index[place] < extent {
                break;
            }
            at -= extent * stride;
            index[place] = 0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_permutations_agree() {
        for rank in 0..6 {
            for layout in [Layout::RowMajor, Layout::ChannelsLast] {
                for (place, axis) in layout.permutation(rank).into_iter().enumerate() {
                    assert_eq!(layout.place(axis, rank), place);
                }
            }
        }
        assert_eq!(Layout::ChannelsLast.dims(&[2, 3, 4, 5]), [2, 4, 5, 3]);
        assert_eq!(Layout::RowMajor.to(Layout::ChannelsLast, 4), [0, 2, 3, 1]);
        assert_eq!(Layout::ChannelsLast.to(Layout::RowMajor, 4), [0, 3, 1, 2]);
    }

    #[test]
    fn layouts_are_the_same_where_their_transposition_keeps_memory() {
        for shape in [
            &[2, 3, 4][..],
            &[2, 1, 4],
            &[2, 3, 1, 1],
            &[1, 3, 0],
            &[5, 7],
            &[5],
            &[],
        ] {
            let permutation = Layout::ChannelsLast.permutation(shape.len());
            assert_eq!(
                Layout::is_same(shape),
                keeps_memory(shape, &permutation),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn elements_move_as_their_axes() {
        // shape [1, 2, 3]: channels of three elements each become pixels of two
        let bytes: Vec<u8> = (0..6).collect();
        assert_eq!(transpose(&bytes, 1, &[1, 2, 3], &[0, 2, 1]), [0, 3, 1, 4, 2, 5]);
        let wide = transpose(&[1, 1, 2, 2, 3, 3, 4, 4], 2, &[2, 2], &[1, 0]);
        assert_eq!(wide, [1, 1, 3, 3, 2, 2, 4, 4]);
        assert!(keeps_memory(&[1, 7, 1, 1], &[0, 2, 3, 1]));
        assert!(!keeps_memory(&[1, 7, 2, 1], &[0, 2, 3, 1]));
    }
}
