//! The algorithms of convolutions, and which one is expected to be fastest.
//!
//! Not here: the ways themselves (`conv`, `depthwise`, `winograd`).

use super::params::ConvParams;
use crate::{Isa, winograd};

/// How a convolution is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Indirect product through row pointers; the depthwise kernel if every channel is a group.
    Direct,
    /// Winograd's F(2, 3): 4 results of a 3×3 window per transform.
    WinogradTwo,
    /// Winograd's F(4, 3): 16 results of a 3×3 window per transform.
    WinogradFour,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 3] = [Algorithm::Direct, Algorithm::WinogradTwo, Algorithm::WinogradFour];

    /// A number whose meaning never changes. Packed weights are valid only for the code that they
    /// were packed for.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Algorithm::Direct => 0,
            Algorithm::WinogradTwo => 1,
            Algorithm::WinogradFour => 2,
        }
    }

    /// The algorithm of a stored code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.code() == code)
    }

    /// The name that reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Direct => "direct",
            Algorithm::WinogradTwo => "winograd f2",
            Algorithm::WinogradFour => "winograd f4",
        }
    }

    /// Points per dimension of Winograd's algorithms.
    pub(super) fn points(self) -> Option<usize> {
        match self {
            Algorithm::Direct => None,
            Algorithm::WinogradTwo => Some(4),
            Algorithm::WinogradFour => Some(6),
        }
    }

    /// Whether the algorithm supports `params`.
    #[must_use]
    pub fn fits(self, params: &ConvParams) -> bool {
        self.points().is_none() || winograd::fits(params)
    }

    /// The algorithm expected to be fastest for `params`, by a rule over shapes.
    #[must_use]
    pub fn expected(isa: Isa, params: &ConvParams) -> Self {
        let mut best = (Algorithm::Direct, MIN_GAIN);
        for algorithm in Self::ALL {
            if let Some(points) = algorithm.points()
                && algorithm.fits(params)
            {
                let gain = winograd::gain(isa, params, points);
                if gain > best.1 {
                    best = (algorithm, gain);
                }
            }
        }
        best.0
    }
}

/// What another algorithm must be expected to gain over the direct one, whose weights are smaller.
const MIN_GAIN: f64 = 1.15;
