//! Angles of all positions.

use std::f64::consts::TAU;

use bytes::Bytes;

use super::values::floats;
use crate::Result;
use crate::config::{Config, RopeScaling, Window, Yarn};
use crate::gguf::Gguf;

/// Cosines and sines of each position's angles, `[capacity, rope_dims / 2]`; graphs share them.
#[derive(Clone, Debug)]
pub struct Angles {
    pub(super) full: Table,
    /// Of layers with a window, if they have their own.
    pub(super) windowed: Option<Table>,
    pub(super) capacity: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) cosines: Bytes,
    pub(super) sines: Bytes,
}

impl Angles {
    /// Computes the angles of the first `capacity` positions.
    ///
    /// # Errors
    /// The file's factors cannot be read.
    pub fn new(file: &Gguf, config: &Config, capacity: usize) -> Result<Angles> {
        let half = config.rope_dims as usize / 2;
        let mut rates = plain(f64::from(config.rope_base), half);
        let mut magnitude = 1.0;
        let mut divide = |name: &str| -> Result<()> {
            let factors = floats(file, name)?;
            rates
                .iter_mut()
                .zip(factors)
                .for_each(|(rate, factor)| *rate /= f64::from(factor));
            Ok(())
        };
        match config.rope_scaling {
            RopeScaling::None => {}
            RopeScaling::Linear(by) => rates.iter_mut().for_each(|rate| *rate /= f64::from(by)),
            RopeScaling::Factors => divide("rope_freqs.weight")?,
            RopeScaling::LongShort {
                original,
                magnitude: stated,
            } => {
                magnitude = f64::from(stated);
                divide(if capacity > original as usize {
                    "rope_factors_long.weight"
                } else {
                    "rope_factors_short.weight"
                })?;
            }
            RopeScaling::Yarn(yarn) => {
                magnitude = f64::from(yarn.magnitude);
                interpolate(&mut rates, yarn, f64::from(config.rope_base));
            }
        }
        let own = |base: f32| Table::new(&plain(f64::from(base), half), 1.0, capacity);
        let base = config.window.and_then(|window: Window| window.rope_base);
        Ok(Angles {
            full: Table::new(&rates, magnitude, capacity),
            windowed: base.map(own),
            capacity,
        })
    }
}

impl Table {
    fn new(rates: &[f64], magnitude: f64, capacity: usize) -> Table {
        let (mut cosines, mut sines) = (Vec::new(), Vec::new());
        for position in 0..capacity {
            for rate in rates {
                let (sine, cosine) = (position as f64 * rate).sin_cos();
                cosines.extend(((cosine * magnitude) as f32).to_le_bytes());
                sines.extend(((sine * magnitude) as f32).to_le_bytes());
            }
        }
        Table {
            cosines: cosines.into(),
            sines: sines.into(),
        }
    }
}

/// Radians per position of each pair of values.
fn plain(base: f64, half: usize) -> Vec<f64> {
    (0..half).map(|i| base.powf(-(i as f64) / half as f64)).collect()
}

/// Divides the rates of angles that turn seldom (YaRN, arXiv 2309.00071, section 3.2).
fn interpolate(rates: &mut [f64], yarn: Yarn, base: f64) {
    let dims = 2.0 * rates.len() as f64;
    // the pair, as a real number, that turns so often within the original context
    let pair =
        |turns: f32| dims * (f64::from(yarn.original) / (f64::from(turns) * TAU)).ln() / (2.0 * base.ln());
    let (mut low, mut high) = (pair(yarn.fast), pair(yarn.slow));
    if yarn.is_whole {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dims - 1.0));
    // no width would divide by zero
    let width = if high > low { high - low } else { 0.001 };
    for (index, rate) in rates.iter_mut().enumerate() {
        let seldom = ((index as f64 - low) / width).clamp(0.0, 1.0);
        *rate *= 1.0 - seldom + seldom / f64::from(yarn.factor);
    }
}
