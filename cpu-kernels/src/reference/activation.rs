//! Activation functions, by their published formulas.
//!
//! Invariant: each is one function of one element, computed in `f64`.

use super::elementwise::{erf, map_float};
use super::error::Result;
use super::{Tensor, Wide, index};

/// An activation with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Activation {
    Relu,
    LeakyRelu { alpha: f64 },
    ThresholdedRelu { alpha: f64 },
    Elu { alpha: f64 },
    Celu { alpha: f64 },
    Selu { alpha: f64, gamma: f64 },
    Sigmoid,
    HardSigmoid { alpha: f64, beta: f64 },
    HardSwish,
    Swish { alpha: f64 },
    Mish,
    Softplus,
    Softsign,
    Tanh,
    ScaledTanh { alpha: f64, beta: f64 },
    Affine { alpha: f64, beta: f64 },
    Gelu,
    GeluTanh,
    Shrink { bias: f64, lambda: f64 },
}

/// `1 / (1 + e^-x)`.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        x.exp() / (1.0 + x.exp())
    }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

impl Activation {
    /// The function's value at `x`.
    #[must_use]
    pub fn at(self, x: f64) -> f64 {
        match self {
            Self::Relu => {
                if x > 0.0 || x.is_nan() {
                    x
                } else {
                    0.0
                }
            }
            Self::LeakyRelu { alpha } => {
                if x < 0.0 {
                    alpha * x
                } else {
                    x
                }
            }
            Self::ThresholdedRelu { alpha } => {
                // NaN is not above the threshold
                if x > alpha { x } else { 0.0 }
            }
            Self::Elu { alpha } => {
                if x < 0.0 {
                    alpha * x.exp_m1()
                } else {
                    x
                }
            }
            Self::Celu { alpha } => {
                // `f64::max` would drop a NaN
                if x.is_nan() {
                    x
                } else {
                    x.max(0.0) + (alpha * (x / alpha).exp_m1()).min(0.0)
                }
            }
            Self::Selu { alpha, gamma } => {
                if x > 0.0 {
                    gamma * x
                } else {
                    gamma * alpha * x.exp_m1()
                }
            }
            Self::Sigmoid => sigmoid(x),
            Self::HardSigmoid { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
            Self::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::Swish { alpha } => x * sigmoid(alpha * x),
            Self::Mish => x * softplus(x).tanh(),
            Self::Softplus => softplus(x),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::Tanh => x.tanh(),
            Self::ScaledTanh { alpha, beta } => alpha * (beta * x).tanh(),
            Self::Affine { alpha, beta } => alpha * x + beta,
            Self::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Self::Shrink { bias, lambda } => {
                if x < -lambda {
                    x + bias
                } else if x > lambda {
                    x - bias
                } else {
                    0.0
                }
            }
        }
    }
}

/// `f` of each element; integers are supported where the function maps them to integers.
///
/// # Errors
/// If `f` is not defined for the element type.
pub fn activate(f: Activation, x: &Tensor) -> Result<Tensor> {
    if let (Wide::Int(v), Activation::Relu) = (x.wide(), f) {
        let v: Vec<i128> = v.into_iter().map(|a| a.max(0)).collect();
        return Tensor::from_i128s(x.element(), x.shape().to_vec(), &v);
    }
    if let (Wide::Int(v), Activation::Shrink { .. }) = (x.wide(), f) {
        let v: Vec<f64> = v.into_iter().map(|a| f.at(a as f64)).collect();
        return Tensor::from_f64s(x.element(), x.shape().to_vec(), &v);
    }
    map_float(x, |v| f.at(v))
}

/// `x` where it is not negative, else `slope * x`; `slope` broadcasts to `x`.
///
/// # Errors
/// If the slope does not broadcast to `x` or the operands are no numbers.
pub fn prelu(x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    let at = index::broadcast_index(slope.shape(), x.shape())?;
    if let (Wide::Int(v), Wide::Int(s)) = (x.wide(), slope.wide()) {
        let scaled = |(x, i): (i128, usize)| if x < 0 { s[i].wrapping_mul(x) } else { x };
        let v: Vec<i128> = v.into_iter().zip(at).map(scaled).collect();
        return Tensor::from_i128s(x.element(), x.shape().to_vec(), &v);
    }
    let s = slope.to_f64s()?;
    let v: Vec<f64> = x
        .to_f64s()?
        .iter()
        .zip(at)
        .map(|(&x, i)| if x < 0.0 { s[i] * x } else { x })
        .collect();
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &v)
}

/// `a * sigmoid(alpha * a) * b`, broadcasting.
///
/// # Errors
/// If the shapes do not broadcast or the operands are no numbers.
pub fn swiglu(a: &Tensor, b: &Tensor, alpha: f64) -> Result<Tensor> {
    let shape = index::broadcast(&[a.shape(), b.shape()])?;
    let (x, y) = (a.to_f64s()?, b.to_f64s()?);
    let v: Vec<f64> = index::broadcast_index(a.shape(), &shape)?
        .into_iter()
        .zip(index::broadcast_index(b.shape(), &shape)?)
        .map(|(i, j)| x[i] * sigmoid(alpha * x[i]) * y[j])
        .collect();
    Tensor::from_f64s(a.element(), shape, &v)
}
