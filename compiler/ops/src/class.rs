//! The class of each op: what sort of work it is, and so which lowering it is given to.
//!
//! Invariant: each op is in one class, which its row in the op table states (`table`).
//!
//! Not here: whether a device lowers a node of a class (its own dry run decides).

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
