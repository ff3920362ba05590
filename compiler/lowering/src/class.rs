//! The class of each op: what sort of work it is, and so which lowering it is given to.
//!
//! Invariant: each op is in one class. A new op has the class of its row's group.
//!
//! Not here: whether a device lowers a node of a class (its own dry run decides).

use polychip_ops::{Op, OpGroup};

/// What sort of work an op is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpClass {
    /// A window of weights over an image.
    Convolution,
    /// A product of matrices, or a contraction of tensors.
    Product,
    /// Softmax of a product of computed tensors, times a third; and the positions that go into it.
    Attention,
    /// Each output element depends on one element of each input; changes of element type included.
    ElementWise,
    /// Elements are passed on, whole or in part, in another order.
    Movement,
    /// Elements are chosen or placed by indices among the inputs.
    Gather,
    /// Elements over statistics of their neighbours, softmax included.
    Normalisation,
    /// An axis becomes one number, or the sums before each of its elements.
    Reduction,
    /// A window over an image, without weights.
    Pooling,
    /// An image of another size, or points sampled of one.
    Resize,
    /// Between real values and integers that encode them.
    Quantise,
    /// A state that is handed from step to step of an axis.
    Recurrent,
    /// Body graphs, run by a condition or over and over.
    Control,
    /// Sequences and optionals.
    Container,
    /// Tensors out of nothing but a shape or a few numbers.
    Generate,
    /// Elements in an order of their values, or those of them that pass a test.
    Sort,
    /// Fourier transforms.
    Signal,
    /// Strings.
    Text,
    /// What fits no other class.
    Other,
}

impl OpClass {
    /// Every class.
    pub const ALL: &'static [OpClass] = &[
        OpClass::Convolution,
        OpClass::Product,
        OpClass::Attention,
        OpClass::ElementWise,
        OpClass::Movement,
        OpClass::Gather,
        OpClass::Normalisation,
        OpClass::Reduction,
        OpClass::Pooling,
        OpClass::Resize,
        OpClass::Quantise,
        OpClass::Recurrent,
        OpClass::Control,
        OpClass::Container,
        OpClass::Generate,
        OpClass::Sort,
        OpClass::Signal,
        OpClass::Text,
        OpClass::Other,
    ];

    /// The class of an op: that of the group of its row in the op table, unless listed here.
    pub fn of(op: Op) -> OpClass {
        match op {
            Op::QLinearConv => OpClass::Convolution,
            Op::QLinearMatMul => OpClass::Product,
            Op::Dropout | Op::Identity | Op::Trilu => OpClass::Movement,
            Op::OneHot => OpClass::Gather,
            Op::Col2Im => OpClass::Pooling,
            Op::MaxRoiPool | Op::RoiAlign => OpClass::Resize,
            Op::SequenceMap => OpClass::Control,
            Op::Compress | Op::NonMaxSuppression | Op::NonZero | Op::TopK | Op::Unique => OpClass::Sort,
            Op::Det | Op::ImageDecoder | Op::TfIdfVectorizer => OpClass::Other,
            _ => op.group().map_or(OpClass::Other, OpClass::of_group),
        }
    }

    fn of_group(group: OpGroup) -> OpClass {
        match group {
            OpGroup::Convolution => OpClass::Convolution,
            OpGroup::Matrix => OpClass::Product,
            OpGroup::Attention => OpClass::Attention,
            OpGroup::Cast | OpGroup::Elementwise => OpClass::ElementWise,
            OpGroup::Shape => OpClass::Movement,
            OpGroup::GatherScatter => OpClass::Gather,
            OpGroup::Normalisation => OpClass::Normalisation,
            OpGroup::Loss | OpGroup::Reduction => OpClass::Reduction,
            OpGroup::Pooling => OpClass::Pooling,
            OpGroup::Image => OpClass::Resize,
            OpGroup::Quantise => OpClass::Quantise,
            OpGroup::Recurrent => OpClass::Recurrent,
            OpGroup::ControlFlow => OpClass::Control,
            OpGroup::Sequence => OpClass::Container,
            OpGroup::Generate => OpClass::Generate,
            OpGroup::Signal => OpClass::Signal,
            OpGroup::Text => OpClass::Text,
            OpGroup::Ml => OpClass::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_ops() {
        for &class in OpClass::ALL {
            let mut ops = Op::ALL.iter().chain(&[Op::Custom]);
            assert!(ops.any(|&op| OpClass::of(op) == class), "{class:?}");
        }
    }

    #[test]
    fn relatives_share_a_class() {
        assert_eq!(OpClass::of(Op::QLinearConv), OpClass::of(Op::Conv));
        assert_eq!(OpClass::of(Op::QLinearMatMul), OpClass::of(Op::MatMul));
        assert_eq!(OpClass::of(Op::Softmax), OpClass::Normalisation);
        assert_eq!(OpClass::of(Op::Cast), OpClass::ElementWise);
        assert_eq!(OpClass::of(Op::Custom), OpClass::Other);
    }
}
