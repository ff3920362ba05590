//! Random numbers: the counter-based generator Philox4x32-10, and the distributions that ONNX asks for.
//!
//! Invariants:
//! 1. A number depends on its [`Stream`] and its index alone: no state, no order of evaluation.
//! 2. Every platform gives the same bits: logarithms and sines are those of the `libm` crate.
//!
//! The generator is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
//! Not here: which node has which stream (`polychip-reference`).

use super::element::Element;
use super::error::{Result, require};
use super::tensor::{Tensor, elements};

/// Multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Weyl constants, which the keys of successive rounds differ by.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;
/// 2 to the power of -32: the distance of two numbers that one word gives.
const WORD: f64 = 1.0 / (1u64 << 32) as f64;

/// Philox4x32-10: four words for a counter and a key.
#[must_use]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..ROUNDS {
        let [a, b] = [
            u64::from(MULTIPLIERS[0]) * u64::from(c[0]),
            u64::from(MULTIPLIERS[1]) * u64::from(c[2]),
        ];
        let (high_a, high_b) = ((a >> 32) as u32, (b >> 32) as u32);
        c = [high_b ^ c[1] ^ k[0], b as u32, high_a ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// A sequence of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
    run: u64,
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

impl Stream {
    /// The stream of a node (`id`) under a seed in a run. Streams that differ in one of the three are
    /// independent.
    #[must_use]
    pub fn new(seed: u64, id: u64, run: u64) -> Stream {
        let [s0, s1] = halves(seed);
        let [n0, n1] = halves(id);
        let mixed = philox([s0, s1, n0, n1], [0; 2]);
        Stream {
            key: [mixed[0], mixed[1]],
            run,
        }
    }

    /// Words of a block of four.
    fn block(&self, index: u64) -> [u32; 4] {
        let ([b0, b1], [r0, r1]) = (halves(index), halves(self.run));
        philox([b0, b1, r0, r1], self.key)
    }

    /// `count` numbers that are uniform in [0, 1), each with the bits of an element's mantissa, so that
    /// storing one does not round it up to 1.
    fn units(&self, count: usize, element: Element) -> Vec<f64> {
        let bits = match element {
            Element::BF16 => 8,
            Element::F16 => 11,
            Element::F32 => 24,
            _ => 53,
        };
        if bits > 32 {
            return self.wide_units(count);
        }
        let scale = 1.0 / (1u64 << bits) as f64;
        self.words(count)
            .map(|word| f64::from(word >> (32 - bits)) * scale)
            .collect()
    }

    /// `count` numbers of 53 bits that are uniform in [0, 1).
    fn wide_units(&self, count: usize) -> Vec<f64> {
        let scale = 1.0 / (1u64 << 53) as f64;
        let blocks = (0..count.div_ceil(2) as u64).flat_map(|index| {
            let [a, b, c, d] = self.block(index);
            [[a, b], [c, d]]
        });
        blocks
            .take(count)
            .map(|[low, high]| ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 * scale)
            .collect()
    }

    fn words(&self, count: usize) -> impl Iterator<Item = u32> + '_ {
        (0..count.div_ceil(4) as u64)
            .flat_map(|index| self.block(index))
            .take(count)
    }

    /// `count` standard normal numbers, in pairs by the transform of Box and Muller.
    fn normals(&self, count: usize) -> Vec<f64> {
        let mut numbers = Vec::with_capacity(count + 4);
        for index in 0..count.div_ceil(4) as u64 {
            let [a, b, c, d] = self.block(index);
            for [radius, angle] in [[a, b], [c, d]] {
                // in (0, 1): its logarithm is finite
                let radius = (f64::from(radius) + 0.5) * WORD;
                let radius = (-2.0 * libm::log(radius)).sqrt();
                let (sin, cos) = libm::sincos(std::f64::consts::TAU * f64::from(angle) * WORD);
                numbers.extend([radius * cos, radius * sin]);
            }
        }
        numbers.truncate(count);
        numbers
    }
}

/// The number of elements of a shape, of which each takes several numbers of 16 bytes on the way.
fn few(shape: &[usize]) -> Result<usize> {
    let count = elements(shape)?;
    require!(
        count <= 1 << 28,
        "shape {shape:?} holds more than {} random numbers",
        1 << 28
    );
    Ok(count)
}

/// RandomNormal.
///
/// # Errors
/// If the shape is too large, or the standard deviation is negative.
pub fn normal(stream: Stream, element: Element, shape: &[usize], mean: f32, scale: f32) -> Result<Tensor> {
    require!(scale >= 0.0, "the standard deviation is {scale}");
    let (mean, scale) = (f64::from(mean), f64::from(scale));
    let numbers = stream.normals(few(shape)?);
    let numbers: Vec<f64> = numbers.into_iter().map(|z| mean + scale * z).collect();
    Tensor::from_f64s(element, shape.to_vec(), &numbers)
}

/// RandomUniform.
///
/// # Errors
/// If the shape is too large, or the bounds are out of order.
pub fn uniform(stream: Stream, element: Element, shape: &[usize], low: f32, high: f32) -> Result<Tensor> {
    require!(
        low <= high,
        "the lower bound {low} is above the upper one, {high}"
    );
    let (low, high) = (f64::from(low), f64::from(high));
    let numbers = stream.units(few(shape)?, element);
    let numbers: Vec<f64> = numbers.into_iter().map(|u| low + (high - low) * u).collect();
    Tensor::from_f64s(element, shape.to_vec(), &numbers)
}

/// Bernoulli: 1 with the probability that the input gives, else 0.
///
/// # Errors
/// If an element is no probability.
pub fn bernoulli(stream: Stream, element: Element, input: &Tensor) -> Result<Tensor> {
    let chances = input.to_f64s()?;
    let wrong = chances.iter().find(|p| !(0.0..=1.0).contains(*p));
    require!(wrong.is_none(), "{} is no probability", wrong.unwrap_or(&0.0));
    let units = stream.wide_units(chances.len());
    let drawn: Vec<i128> = chances
        .iter()
        .zip(units)
        .map(|(p, u)| i128::from(u < *p))
        .collect();
    Tensor::from_i128s(element, input.shape().to_vec(), &drawn)
}

/// Multinomial: per row of unnormalised log-probabilities `[batch, classes]`, `samples` class numbers.
///
/// # Errors
/// If the input is no matrix, has no class, or a row has no finite largest element.
pub fn multinomial(stream: Stream, element: Element, input: &Tensor, samples: usize) -> Result<Tensor> {
    let &[batch, classes] = input.shape() else {
        super::error::refuse!("[batch, classes] wanted, shape {:?} seen", input.shape());
    };
    let shape = vec![batch, samples];
    let count = few(&shape)?;
    require!(classes > 0 || count == 0, "there are no classes to draw from");
    let logits = input.to_f64s()?;
    let units = stream.wide_units(count);
    let mut drawn = Vec::with_capacity(count);
    for (row, units) in logits
        .chunks_exact(classes.max(1))
        .zip(units.chunks_exact(samples.max(1)))
    {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        require!(
            most.is_finite() && !row.iter().any(|x| x.is_nan()),
            "a row of log-probabilities has no finite largest element"
        );
        let mut sum = 0.0;
        let sums: Vec<f64> = row
            .iter()
            .map(|logit| {
                sum += libm::exp(logit - most);
                sum
            })
            .collect();
        // rounding may leave the last class out of reach
        drawn.extend(units.iter().map(|u| {
            let class = sums.partition_point(|upper| *upper <= u * sum);
            class.min(classes - 1) as i128
        }));
    }
    Tensor::from_i128s(element, shape, &drawn)
}

/// Dropout in training: the kept elements, scaled by `1 / (1 - ratio)`, and which are kept.
///
/// # Errors
/// If the ratio is not in [0, 1).
pub fn dropout(stream: Stream, input: &Tensor, ratio: f64) -> Result<(Tensor, Tensor)> {
    require!(
        (0.0..1.0).contains(&ratio),
        "the ratio of dropped elements is {ratio}, not in [0, 1)"
    );
    let scale = 1.0 / (1.0 - ratio);
    let units = stream.wide_units(input.len());
    let kept: Vec<bool> = units.into_iter().map(|u| u >= ratio).collect();
    let numbers: Vec<f64> = input
        .to_f64s()?
        .into_iter()
        .zip(&kept)
        .map(|(x, kept)| if *kept { x * scale } else { 0.0 })
        .collect();
    let output = Tensor::from_f64s(input.element(), input.shape().to_vec(), &numbers)?;
    Ok((output, Tensor::from_bools(input.shape().to_vec(), kept)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = Stream { key: [7, 11], run: 1 };

    /// Mean and variance.
    fn moments(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        (mean, variance)
    }

    #[test]
    fn philox_gives_the_published_known_answers() {
        // kat_vectors of Random123, philox4x32 with 10 rounds
        for (counter, key, words) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(counter, key), words);
        }
    }

    #[test]
    fn moments_of_normal_numbers() {
        let count = 40_000;
        for element in [Element::F32, Element::F64, Element::F16, Element::BF16] {
            let t = normal(STREAM, element, &[count], 3.0, 2.0).unwrap();
            let values = t.to_f64s().unwrap();
            let (mean, variance) = moments(&values);
            // five standard errors
            assert!((mean - 3.0).abs() < 5.0 * 2.0 / (count as f64).sqrt(), "{mean}");
            assert!((variance - 4.0).abs() < 0.15, "{variance}");
            let outside = values.iter().filter(|x| (**x - 3.0).abs() > 2.0 * 1.96).count();
            let share = outside as f64 / count as f64;
            assert!((share - 0.05).abs() < 0.006, "{share}");
        }
    }

    #[test]
    fn moments_and_bounds_of_uniform_numbers() {
        let count = 40_000;
        for element in [Element::F32, Element::F64, Element::F16, Element::BF16] {
            let t = uniform(STREAM, element, &[count], 0.0, 1.0).unwrap();
            let values = t.to_f64s().unwrap();
            assert!(values.iter().all(|x| (0.0..1.0).contains(x)), "{element:?}");
            let (mean, variance) = moments(&values);
            assert!((mean - 0.5).abs() < 0.01, "{element:?}: {mean}");
            assert!((variance - 1.0 / 12.0).abs() < 0.002, "{element:?}: {variance}");
        }
        let t = uniform(STREAM, Element::F32, &[2, 3], 0.0, 0.0).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [0.0; 6]);
        assert_eq!(
            uniform(STREAM, Element::F32, &[0, 3], -1.0, 1.0).unwrap().shape(),
            [0, 3]
        );
        assert!(uniform(STREAM, Element::F32, &[1], 2.0, 1.0).is_err());
    }

    #[test]
    fn numbers_do_not_depend_on_how_many_are_drawn() {
        let first = |count: usize| normal(STREAM, Element::F32, &[count], 0.0, 1.0).unwrap();
        assert_eq!(
            first(9).to_f64s().unwrap(),
            first(1000).to_f64s().unwrap()[..9].to_vec()
        );
    }

    #[test]
    fn streams_differ_by_seed_node_and_run() {
        let all = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)];
        let numbers = all.map(|(seed, id, run)| Stream::new(seed, id, run).normals(8));
        for (index, one) in numbers.iter().enumerate() {
            assert!(numbers[index + 1..].iter().all(|other| other != one));
        }
        assert_eq!(Stream::new(5, 6, 7).normals(8), Stream::new(5, 6, 7).normals(8));
    }

    #[test]
    fn bernoulli_follows_its_probabilities() {
        let count = 20_000;
        let chances: Vec<f64> = (0..count).map(|i| [0.0, 0.25, 1.0][i % 3]).collect();
        let input = Tensor::from_f64s(Element::F32, vec![count], &chances).unwrap();
        let drawn = bernoulli(STREAM, Element::I32, &input).unwrap();
        let drawn = drawn.to_i64s().unwrap();
        let sum = |class: usize| drawn.iter().skip(class).step_by(3).sum::<i64>() as f64;
        let each = count as f64 / 3.0;
        assert_eq!(sum(0), 0.0);
        assert!((sum(1) / each - 0.25).abs() < 0.03);
        assert!(sum(2) >= each.floor());
        let input = Tensor::from_f64s(Element::F32, vec![1], &[1.5]).unwrap();
        assert!(bernoulli(STREAM, Element::I32, &input).is_err());
    }

    #[test]
    fn multinomial_follows_its_log_probabilities() {
        let (ln, never) = (f64::ln, f64::NEG_INFINITY);
        let logits = [ln(1.0), ln(3.0), never, never, 700.0, never];
        let input = Tensor::from_f64s(Element::F64, vec![2, 3], &logits).unwrap();
        let drawn = multinomial(STREAM, Element::I32, &input, 20_000).unwrap();
        assert_eq!((drawn.shape(), drawn.element()), (&[2, 20_000][..], Element::I32));
        let drawn = drawn.to_i64s().unwrap();
        let (first, second) = drawn.split_at(20_000);
        let ones = first.iter().filter(|class| **class == 1).count() as f64 / 20_000.0;
        assert!((ones - 0.75).abs() < 0.02, "{ones}");
        assert!(first.iter().all(|class| *class < 2) && second.iter().all(|class| *class == 1));
        let input = Tensor::from_f64s(Element::F64, vec![1, 2], &[never, never]).unwrap();
        assert!(multinomial(STREAM, Element::I32, &input, 1).is_err());
    }

    #[test]
    fn dropout_drops_a_share_and_scales_the_rest() {
        let count = 20_000;
        let input = Tensor::from_f64s(Element::F32, vec![count], &vec![3.0; count]).unwrap();
        let (output, mask) = dropout(STREAM, &input, 0.25).unwrap();
        let (output, mask) = (output.to_f64s().unwrap(), mask.to_bools().unwrap());
        assert!(
            output
                .iter()
                .zip(&mask)
                .all(|(x, kept)| *x == if *kept { 4.0 } else { 0.0 })
        );
        let kept = mask.iter().filter(|kept| **kept).count() as f64 / count as f64;
        assert!((kept - 0.75).abs() < 0.02, "{kept}");
        let (output, mask) = dropout(STREAM, &input, 0.0).unwrap();
        assert!(output == input && mask.to_bools().unwrap().iter().all(|kept| *kept));
        assert!(dropout(STREAM, &input, 1.0).is_err());
    }
}
