//! What a step does, as far as its time depends on it: a class of loops, how often they turn, and the bytes that pass.
//!
//! Invariants:
//! 1. Work follows from shapes, types and attributes alone: no weight is read for it, and no clock.
//! 2. More of the same work is never said to be less: counts grow with the extents they are made of.
//!
//! Not here: what work costs on a machine (`estimate`), how often the loops of the reference turn (`work/reference`).

mod reference;

pub(crate) use reference::{of_body, of_node, rounds};

/// Elements of a tensor of these extents.
pub(crate) fn product(dims: &[usize]) -> u64 {
    dims.iter().fold(1, |all, &size| all.saturating_mul(size as u64))
}

/// A loop of the reference's kernels: what one turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loop {
    /// A test or conversion of an element.
    Pass,
    /// An element that is summed up or compared along an axis.
    Reduce,
    /// An operation on elements, which may repeat along axes.
    Element,
    /// An operation on one integer of 128 bits.
    IntegerPass,
    /// An operation on integers of 128 bits, which may repeat along axes.
    Integer,
    /// A division.
    Divide,
    /// A function of the mathematical library.
    Function,
    /// The series of the error function.
    Series,
    /// An element taken from elsewhere.
    Index,
    /// An element taken from elsewhere by its coordinates, which are worked out for it.
    Coordinates,
    /// A multiply-add of a row, many at a time.
    Row,
    /// A multiply-add of a row of 128-bit integers.
    IntegerRow,
    /// A multiply-add of a sum, one after the other.
    Dot,
    /// A multiply-add through indices.
    Gathered,
    /// A multiply-add of a convolution.
    Tap,
    /// An element added to a place, or compared with one.
    Place,
    /// An element that a pool's window sees.
    Window,
    /// An eighth of a sample between pixels.
    Sample,
    /// A comparison of a sort.
    Compare,
    /// An angle's sine and cosine, and their multiply-adds.
    Angle,
    /// A pair of boxes.
    Pair,
    /// An element that is quantised.
    Quantise,
    /// An element of a tensor that a node of a body gives.
    Body,
}

/// A class of loops that one price per unit fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Multiply-adds of f32 on packed tiles.
    Product,
    /// Multiply-adds of bf16 on packed tiles.
    ProductBf16,
    /// Multiply-adds of bytes on packed tiles.
    ProductCodes,
    /// Multiply-adds of f32 with weights of 4 bits.
    ProductNibbles,
    /// Multiply-adds of rows rounded to bytes with weights in blocks.
    ProductBlocks,
    /// Multiply-adds of integers and f64, in plain loops.
    ProductPlain,
    /// Multiply-adds of the points of Winograd's transforms.
    Winograd,
    /// Multiply-adds of f32, one input channel to one output channel.
    Depthwise,
    /// Multiply-adds of bytes, one input channel to one output channel.
    DepthwiseCodes,
    /// Multiply-adds of scores and of weighted values, with the softmax between.
    Attention,
    /// Elements that are copied in order.
    Copy,
    /// Elements that change their order.
    Permute,
    /// Elements through an arithmetic function.
    Arithmetic,
    /// Elements through a function of polynomials, such as an exponential.
    Transcendental,
    /// Elements through powers.
    Power,
    /// Elements that are summed up or compared along axes.
    Reduce,
    /// Elements of a normalisation: statistics, then values.
    Normalise,
    /// Elements of a normalisation over neighbouring channels.
    NormaliseAcross,
    /// Elements of a softmax.
    Softmax,
    /// Elements that a window sees.
    Pool,
    /// Elements of bytes that a window sees.
    PoolCodes,
    /// Elements that indices or truth values select.
    Select,
    /// Pixels that points between them are made of.
    Sample,
    /// Elements of running sums and products.
    Running,
    /// Elements of an image that is made larger or smaller, by how many pixels each is made of.
    Resize,
    /// Elements of integers, truth values or f64 through an arithmetic function or a comparison, in plain loops.
    Typed,
    /// Elements that are held against the best so far.
    Order,
    /// Integers that are divided, and remainders, one by one.
    TypedDivide,
    /// Elements of Fourier transforms, times the logarithm of their lengths.
    #[cfg(feature = "fourier")]
    Fourier,
    /// Elements whose type changes.
    Convert,
    /// Floats that are cut off to integers, one by one.
    Truncate,
    /// Elements between real values and bytes, in vectors.
    Codes,
    /// Integers made real values.
    Dequantise,
    /// Real values rounded to integers, one by one.
    Quantise,
    /// Loops of the reference evaluator.
    Reference(Loop),
}

impl Class {
    /// Name, for people.
    pub(crate) fn name(self) -> String {
        match self {
            Class::Reference(turns) => format!("{turns:?}").to_lowercase(),
            class => format!("{class:?}").to_lowercase(),
        }
    }

    /// Whether its units are multiply-adds.
    pub(crate) fn multiplies(self) -> bool {
        matches!(
            self,
            Class::Product
                | Class::ProductBf16
                | Class::ProductCodes
                | Class::ProductNibbles
                | Class::ProductBlocks
                | Class::ProductPlain
                | Class::Winograd
                | Class::Depthwise
                | Class::DepthwiseCodes
                | Class::Attention
        )
    }

    /// Whether the reference evaluator does it.
    pub(crate) fn is_reference(self) -> bool {
        matches!(self, Class::Reference(_))
    }
}

/// The work of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// Which loops.
    pub(crate) class: Class,
    /// How often they turn.
    pub(crate) units: u64,
    /// Bytes read and written.
    pub(crate) bytes: u64,
    /// Elements that are boxed and unboxed; of the reference only.
    pub(crate) boxed: Boxed,
}

/// Elements that the reference evaluator takes and gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Boxed {
    /// Of types that the processor converts.
    pub(crate) plain: u64,
    /// Of floats of 16 bits and fewer, taken.
    pub(crate) halves_taken: u64,
    /// Of floats of 16 bits and fewer, given, each of which is rounded.
    pub(crate) halves_given: u64,
    /// Bytes of all of them in the types that the evaluator computes in.
    pub(crate) wide_bytes: u64,
}

impl Boxed {
    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.plain
            .saturating_add(self.halves_taken)
            .saturating_add(self.halves_given)
    }
}

impl Work {
    /// The work over so many bytes.
    pub(crate) fn over(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }
}

/// Work that a step does more than once: that of a step inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// Name of the step inside.
    pub(crate) name: &'static str,
    /// The work of one time.
    pub(crate) work: Work,
    /// How often.
    pub(crate) times: u64,
}
