//! Typed attributes of reductions, selections and moved elements.
//!
//! Invariant: no default is written here.
//! Not here: how a field reads (`attributes`), which op has which struct (`operator`).

use std::num::NonZeroUsize;

use crate::Attr;
use crate::operator::read::{Field, Reader, Result};
use crate::operator::words::*;

// Reductions and selections.
attributes! {
    /// An axis: Concat, Flatten, Gather, GatherElements, Hardmax, LogSoftmax, OneHot, Scatter, Softmax.
    #[derive(Copy)]
    Along {
        /// The axis, from the end where negative.
        axis: i64 = Axis,
    }

    /// Compress.
    #[derive(Copy)]
    Compress {
        /// The axis; none for all elements in one list.
        axis: Option<i64> = Axis,
    }

    /// ArgMax and ArgMin.
    #[derive(Copy)]
    ArgReduce {
        /// The axis.
        axis: i64 = Axis,
        /// Whether the axis stays, with size 1.
        keepdims: bool = Keepdims,
        /// Which of several extremes counts: the last, or the first.
        last: bool = SelectLastIndex,
    }

    /// CumProd and CumSum.
    #[derive(Copy)]
    Cumulative {
        /// Whether an element's own value is left out.
        exclusive: bool = Exclusive,
        /// Whether the sum runs from the end.
        reverse: bool = Reverse,
    }

    /// The reductions: the axes are an input.
    #[derive(Copy)]
    Reduce {
        /// Whether the axes stay, with size 1.
        keepdims: bool = Keepdims,
        /// Whether no axes mean none; else they mean all.
        noop_with_empty_axes: bool = NoopWithEmptyAxes,
    }

    /// TopK.
    #[derive(Copy)]
    TopK {
        /// The axis.
        axis: i64 = Axis,
        /// Whether the largest are wanted; else the smallest.
        largest: bool = Largest,
        /// Whether they come in order.
        sorted: bool = Sorted,
    }

    /// Unique.
    #[derive(Copy)]
    Unique {
        /// The axis whose slices are compared; none for all elements in one list.
        axis: Option<i64> = Axis,
        /// Whether they come in order.
        sorted: bool = Sorted,
    }

    /// GatherND.
    #[derive(Copy)]
    GatherNd {
        /// Leading axes that data and indices share.
        batch_dims: usize = BatchDims,
    }

    /// ScatterElements.
    #[derive(Copy)]
    ScatterElements {
        /// The axis.
        axis: i64 = Axis,
        /// How updates join the data.
        reduction: ScatterReduction = Reduction,
    }

    /// ScatterND.
    #[derive(Copy)]
    ScatterNd {
        /// How updates join the data.
        reduction: ScatterReduction = Reduction,
    }

    /// TensorScatter.
    #[derive(Copy)]
    TensorScatter {
        /// The axis of the sequence.
        axis: i64 = Axis,
        /// Whether the cache wraps around.
        mode: CacheMode = Mode,
    }
}

// Moved elements and shapes.
attributes! {
    /// CenterCropPad.
    CenterCropPad {
        /// The axes that `shape` names; none for all.
        axes: Option<Vec<i64>> = Axes,
    }

    /// DepthToSpace and SpaceToDepth.
    #[derive(Copy)]
    Blocks {
        /// Elements per side of a block.
        size: NonZeroUsize = Blocksize,
        /// The order of blocks and channels.
        mode: BlockMode = Mode,
    }

    /// Pad.
    #[derive(Copy)]
    Pad {
        /// What stands outside.
        mode: PadMode = Mode,
    }

    /// Reshape.
    #[derive(Copy)]
    Reshape {
        /// Whether a size of 0 means 0; else it means that of the input.
        allow_zero: bool = Allowzero,
    }

    /// ReverseSequence.
    #[derive(Copy)]
    ReverseSequence {
        /// The axis of the batch.
        batch_axis: i64 = BatchAxis,
        /// The axis of the sequence.
        time_axis: i64 = TimeAxis,
    }

    /// Shape.
    #[derive(Copy)]
    Shape {
        /// The first axis.
        start: i64 = Start,
        /// The axis behind the last; none for all.
        end: Option<i64> = End,
    }

    /// Split.
    #[derive(Copy)]
    Split {
        /// The axis.
        axis: i64 = Axis,
        /// The number of equal parts, where no sizes are given.
        parts: Option<i64> = NumOutputs,
    }

    /// Transpose.
    Transpose {
        /// For each axis of the output that of the input; none for the reverse order.
        perm: Option<Vec<i64>> = Perm,
    }
}
