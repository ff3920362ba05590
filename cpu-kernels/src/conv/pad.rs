//! The padded copy of an image of few channels, in which no tap is outside.
#![allow(unsafe_code)]

use super::{ConvParams, ConvPlan, Kind, Window};
use crate::ThreadPool;
use crate::Unary;
use crate::elementwise::unary::Rows;
use crate::isa::Load;
use crate::isa::dot::Element;
use crate::threads::{Parts, share};

/// Elements of a padded image below which one thread makes it: some microseconds.
const PAD_ALONE: usize = 32 * 1024;

impl ConvPlan {
    /// Copies the input into the middle of a padded image.
    pub(super) fn pad<I: Load, E: Element>(
        &self,
        pool: &ThreadPool,
        window: &Window,
        input: &[I],
        image: &mut [E],
    ) {
        let ConvParams {
            batch,
            in_channels,
            in_stride,
            window: from,
            ..
        } = self.params;
        // planes are images of one channel
        let (batch, channels, in_stride) = match self.kind {
            Kind::Planar(_) => (batch * in_channels, 1, 1),
            _ => (batch, in_channels, in_stride),
        };
        let [depth, height, width] = window.input;
        let lines = batch * depth * height;
        let len = width * channels;
        let chunks = if lines * len < PAD_ALONE {
            1
        } else {
            lines.min(pool.threads() * 2)
        };
        let image = Parts::new(image);
        pool.run(chunks, &|chunk| {
            for line in share(lines, chunks, chunk, 1) {
                // SAFETY: lines are disjoint, and each belongs to one chunk.
                let to = unsafe { image.part(line * len, len) };
                let (d, h) = (line / height % depth, line % height);
                let (d, h) = (d.wrapping_sub(from.pads[0]), h.wrapping_sub(from.pads[1]));
                if d >= from.input[0] || h >= from.input[1] {
                    to.fill(E::nearest(0.0));
                    continue;
                }
                let (left, rest) = to.split_at_mut(from.pads[2] * channels);
                let (to, right) = rest.split_at_mut(from.input[2] * channels);
                left.fill(E::nearest(0.0));
                right.fill(E::nearest(0.0));
                let line = (line / height / depth * from.input[0] + d) * from.input[1] + h;
                let first = line * from.input[2] * in_stride;
                if in_stride == channels {
                    E::enter(
                        self.isa,
                        &Rows {
                            f: Unary::Identity,
                            rows: 1,
                            columns: to.len(),
                            input: input[first..][..to.len()].as_ptr(),
                            input_stride: 0,
                            out: to.as_mut_ptr(),
                            out_stride: 0,
                            added: std::ptr::null::<E>(),
                            added_stride: 0,
                        },
                    );
                } else {
                    for (i, pixel) in to.chunks_exact_mut(channels).enumerate() {
                        let from = &input[first + i * in_stride..][..channels];
                        for (to, from) in pixel.iter_mut().zip(from) {
                            *to = E::nearest(from.value());
                        }
                    }
                }
            }
        });
    }
}
