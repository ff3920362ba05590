//! The scalar reference of a convolution, in plain loops.

use half::f16;

use super::{Conv, Direction};
use crate::{ImageLayout, Sample, Scalar, Values};

impl Conv {
    /// The pixel of the input that an element of the window meets at a pixel of the output.
    fn meets(&self, place: [u32; 2], tap: [u32; 2]) -> Option<[u32; 2]> {
        let size = [self.image.height, self.image.width];
        if self.direction == Direction::Forward {
            return self.window.pixel(place, tap, size);
        }
        let mut pixel = [0; 2];
        for axis in 0..2 {
            let at = i64::from(place[axis]) + i64::from(self.window.begin[axis])
                - i64::from(tap[axis]) * i64::from(self.window.dilations[axis]);
            let stride = i64::from(self.window.strides[axis]);
            if at < 0 || at % stride != 0 {
                return None;
            }
            pixel[axis] = u32::try_from(at / stride).ok().filter(|&at| at < size[axis])?;
        }
        Some(pixel)
    }

    /// The sums over an image and weights in ONNX's order, `[pixels, channels]`.
    fn sums(&self, image: &[f64], weights: &[f64]) -> Vec<f32> {
        let (output, [kh, kw]) = (self.output(), self.window.kernel);
        let (h, w, c) = (self.image.height, self.image.width, self.image.channels);
        let (inside, outside) = (c / self.groups, self.channels_out / self.groups);
        let mut sums = Vec::new();
        for n in 0..output.batch {
            for place in (0..output.height).flat_map(|y| (0..output.width).map(move |x| [y, x])) {
                for m in 0..output.channels {
                    let mut sum = 0.0;
                    for tap in (0..kh).flat_map(|y| (0..kw).map(move |x| [y, x])) {
                        let Some([y, x]) = self.meets(place, tap) else {
                            continue;
                        };
                        for i in 0..inside {
                            let channel = m / outside * inside + i;
                            let at = match self.source {
                                ImageLayout::ChannelsLast => ((n * h + y) * w + x) * c + channel,
                                ImageLayout::ChannelsFirst => ((n * c + channel) * h + y) * w + x,
                            };
                            let filter = match self.direction {
                                Direction::Forward => m * inside + i,
                                Direction::Transposed { .. } => channel * outside + m % outside,
                            };
                            let weight = (filter * kh + tap[0]) * kw + tap[1];
                            sum += image[at as usize] * weights[weight as usize];
                        }
                    }
                    sums.push(sum as f32);
                }
            }
        }
        sums
    }

    /// Inputs, and what must come of them.
    pub(super) fn truth(&self) -> Sample {
        let image = Values::samples(self.scalar, 7, self.image.elements() as usize);
        let inside = self.image.channels / self.groups.max(1);
        let count = (self.window.taps() * inside * self.channels_out) as usize;
        let (weights, packed) = match self.scalar {
            Scalar::I8 | Scalar::U8 => {
                let Values::I8(weights) = Values::samples(Scalar::I8, 8, count) else {
                    unreachable!("bytes were asked for")
                };
                let packed = self.pack_bytes(&weights).unwrap_or_default();
                (weights.into_iter().map(f64::from).collect(), packed)
            }
            scalar => {
                let weights: Vec<f32> = Values::floats(8, count)
                    .into_iter()
                    .map(|w| {
                        if scalar == Scalar::F16 {
                            f16::from_f32(w).to_f32()
                        } else {
                            w
                        }
                    })
                    .collect();
                let packed = self.pack_weights(&weights).unwrap_or_default();
                (weights.into_iter().map(f64::from).collect::<Vec<f64>>(), packed)
            }
        };
        let zero = if self.is_bytes() {
            f64::from(self.zero_point)
        } else {
            0.0
        };
        let numbers: Vec<f64> = image.to_f64().into_iter().map(|x| x - zero).collect();
        let sums = self.sums(&numbers, &weights);
        let rows = self.output().pixels();
        let (operands, after) = self.epilogue.sample(&sums, rows, self.channels_out.into());
        let blank = after.blank();
        let mut sample = Sample {
            before: vec![image, Values::U8(packed)],
            after: vec![None, None],
            // products are summed in f32 one after another: half of them may be rounded the same way
            tolerance: self
                .epilogue
                .output
                .tolerance(2.0e-6 + 3.0e-9 * f64::from(self.window.taps() * inside)),
        };
        sample.after.extend(operands.iter().map(|_| None));
        sample.before.extend(operands);
        sample.before.push(blank);
        sample.after.push(Some(after));
        sample
    }
}
