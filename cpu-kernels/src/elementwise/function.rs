//! The unary and binary functions that kernels apply, with their accuracy.
//!
//! Not here: how they are computed (`unary`, `binary`).

/// A function of one value.
///
/// The bound after each name is the largest error in ULP of `f32` over the function's whole domain; results
/// smaller than the least normal number may be flushed to zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Unary {
    /// `x` (exact).
    #[default]
    Identity,
    /// `|x|` (exact).
    Abs,
    /// `-x` (exact).
    Neg,
    /// `max(x, 0)` (exact).
    Relu,
    /// `min(max(x, low), high)` (exact).
    Clip {
        /// The least result.
        low: f32,
        /// The largest result.
        high: f32,
    },
    /// `x` if it is not negative, else `alpha * x` (0.5).
    LeakyRelu {
        /// The factor of negative values.
        alpha: f32,
    },
    /// `x` if it is larger than `alpha`, else 0 (exact).
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// `e^x` (2).
    Exp,
    /// Natural logarithm (2).
    Log,
    /// Square root (0.5).
    Sqrt,
    /// `1 / x` (0.5).
    Reciprocal,
    /// `x * x` (0.5).
    Square,
    /// Error function (4).
    Erf,
    /// Hyperbolic tangent (4).
    Tanh,
    /// `1 / (1 + e^-x)` (4).
    Sigmoid,
    /// `x * sigmoid(alpha * x)`, which is SiLU for `alpha` = 1 (6; flushed to zero where `alpha * x` is below -88).
    Swish {
        /// The factor inside the sigmoid.
        alpha: f32,
    },
    /// `x/2 * (1 + erf(x / sqrt 2))`; absolute error below 1e-6 of `max(1, |x|)`.
    Gelu,
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`; absolute error below 1e-6 of `max(1, |x|)`.
    GeluTanh,
    /// `min(max(alpha * x + beta, 0), 1)` (1).
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Value at zero.
        beta: f32,
    },
    /// `x * min(max(x / 6 + 0.5, 0), 1)` (3).
    HardSwish,
    /// `x` where positive, else `alpha * (e^x - 1)`; absolute error below 3e-7 of `max(1, alpha)`.
    Elu {
        /// The limit at minus infinity, negated.
        alpha: f32,
    },
    /// `gamma * (x` where positive, else `alpha * (e^x - 1))`.
    Selu {
        /// The inner factor of the negative branch.
        alpha: f32,
        /// The outer factor.
        gamma: f32,
    },
    /// `x` where positive, else `alpha * (e^(x / alpha) - 1)`.
    Celu {
        /// Scale of both axes on the negative branch.
        alpha: f32,
    },
    /// `ln(1 + e^x)`; absolute error below 1e-6 of `max(1, x)`.
    Softplus,
    /// `x / (1 + |x|)` (1).
    Softsign,
    /// `x * tanh(ln(1 + e^x))`; absolute error below 2e-6 of `max(1, |x|)`.
    Mish,
    /// Largest integer not above `x` (exact).
    Floor,
    /// Least integer not below `x` (exact).
    Ceil,
    /// Nearest integer, ties to even (exact).
    Round,
    /// -1, 0 or 1 (exact).
    Sign,
    /// Sine; error below 2e-7 of the larger of the result and 0.01.
    Sin,
    /// Cosine; error as of the sine.
    Cos,
    /// Tangent; error below 2e-6 of the larger of the result and 0.01.
    Tan,
    /// Arcus sine; relative error below 3e-7.
    Asin,
    /// Arcus cosine; relative error below 3e-7.
    Acos,
    /// Arcus tangent; relative error below 3e-7.
    Atan,
    /// Hyperbolic sine; relative error below 6e-7.
    Sinh,
    /// Hyperbolic cosine; relative error below 6e-7.
    Cosh,
    /// The inverse of the hyperbolic sine; relative error below 4e-7.
    Asinh,
    /// The inverse of the hyperbolic cosine; relative error below 4e-7.
    Acosh,
    /// The inverse of the hyperbolic tangent; relative error below 4e-7.
    Atanh,
    /// `x - bias` above `lambda`, `x + bias` below `-lambda`, else 0 (0.5).
    Shrink {
        /// The amount by which values shrink.
        bias: f32,
        /// The bound of the interval that becomes 0.
        lambda: f32,
    },
    /// `scale * x + shift` (1).
    Affine {
        /// Factor.
        scale: f32,
        /// Summand.
        shift: f32,
    },
}

/// A function of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The smaller value; NaN if either is.
    Min,
    /// The larger value; NaN if either is.
    Max,
    /// `a` if it is not negative, else `a * b`.
    Prelu,
    /// `(a - b)^2`.
    SquaredDifference,
    /// `a^b`, by the scalar library function except for the exponents 0.5, 1, 2 and 3.
    Pow,
}
