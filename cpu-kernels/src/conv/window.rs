//! The geometry of a window of taps that slides over an image, for convolutions and pooling.
//!
//! Invariant: after `check`, no coordinate that a tap computes overflows.

use crate::Error;
use crate::error::product;

/// The geometry of a window of taps that slides over an image, per spatial dimension
/// `[depth, height, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Input sizes.
    pub input: [usize; 3],
    /// Output sizes.
    pub output: [usize; 3],
    /// Taps.
    pub kernel: [usize; 3],
    /// Input pixels between two output pixels.
    pub strides: [usize; 3],
    /// Input pixels between two taps.
    pub dilations: [usize; 3],
    /// Padding before the first pixel. Padding at the end follows from the output size.
    pub pads: [usize; 3],
}

impl Window {
    /// A window over `[height, width]`.
    #[must_use]
    pub const fn new_2d(
        input: [usize; 2],
        output: [usize; 2],
        kernel: [usize; 2],
        strides: [usize; 2],
        dilations: [usize; 2],
        pads: [usize; 2],
    ) -> Self {
        Self {
            input: [1, input[0], input[1]],
            output: [1, output[0], output[1]],
            kernel: [1, kernel[0], kernel[1]],
            strides: [1, strides[0], strides[1]],
            dilations: [1, dilations[0], dilations[1]],
            pads: [0, pads[0], pads[1]],
        }
    }

    /// Taps of the window.
    #[must_use]
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Pixels of an input image.
    #[must_use]
    pub fn in_pixels(&self) -> usize {
        self.input.iter().product()
    }

    /// Pixels of an output image.
    #[must_use]
    pub fn out_pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// Refuses zero taps, strides and dilations, and sizes that overflow.
    pub(crate) fn check(&self, name: &'static str) -> Result<(), Error> {
        for (what, values) in [
            ("kernel", self.kernel),
            ("stride", self.strides),
            ("dilation", self.dilations),
        ] {
            if let Some(&zero) = values.iter().find(|&&value| value == 0) {
                return Err(Error::parameter(name, what, zero, "it must not be zero"));
            }
        }
        product(name, "the kernel", &self.kernel)?;
        product(name, "the input", &self.input)?;
        product(name, "the output", &self.output)?;
        for i in 0..3 {
            // the farthest coordinate that a tap computes
            let reach = product(name, "the window", &[self.output[i], self.strides[i]])?
                .checked_add(product(name, "the window", &[self.kernel[i], self.dilations[i]])?)
                .and_then(|reach| reach.checked_add(self.pads[i]))
                .filter(|&reach| reach <= isize::MAX as usize / 2);
            reach.ok_or_else(|| Error::too_large(name, "the window"))?;
        }
        Ok(())
    }

    /// Whether output pixels are input pixels, in order.
    pub(super) fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.strides == [1; 3] && self.pads == [0; 3] && self.input == self.output
    }

    /// The coordinates of output pixel `pixel` of an image.
    pub(crate) fn place(&self, pixel: usize) -> [usize; 3] {
        let [_, height, width] = self.output;
        [pixel / width / height, pixel / width % height, pixel % width]
    }

    /// Moves to the next output pixel; whether that is the first one of the next image.
    #[inline]
    pub(crate) fn advance(&self, place: &mut [usize; 3]) -> bool {
        for i in (0..3).rev() {
            place[i] += 1;
            if place[i] < self.output[i] {
                return false;
            }
            place[i] = 0;
        }
        true
    }

    /// The input coordinate of tap 0 of the output pixel at these coordinates.
    #[inline]
    pub(crate) fn first_of(&self, place: [usize; 3]) -> [isize; 3] {
        std::array::from_fn(|i| (place[i] * self.strides[i]) as isize - self.pads[i] as isize)
    }

    /// The input coordinate of tap 0 of output pixel `pixel` of an image.
    #[must_use]
    pub fn first_tap(&self, pixel: usize) -> [isize; 3] {
        self.first_of(self.place(pixel))
    }

    /// Whether all taps of the pixel whose first tap is at these coordinates lie in the image.
    #[inline]
    pub(crate) fn holds(&self, first: [isize; 3]) -> bool {
        (0..3).all(|i| {
            let last = first[i] + ((self.kernel[i] - 1) * self.dilations[i]) as isize;
            first[i] >= 0 && last < self.input[i] as isize
        })
    }

    /// Input pixels from the first tap to another.
    pub(crate) fn distance(&self, tap: [usize; 3]) -> usize {
        let at: [usize; 3] = std::array::from_fn(|i| tap[i] * self.dilations[i]);
        // meaningful inside the image only, where nothing wraps
        (at[0].wrapping_mul(self.input[1]).wrapping_add(at[1]))
            .wrapping_mul(self.input[2])
            .wrapping_add(at[2])
    }

    /// The address of a tap's channels: in the image, or the row of zeros outside.
    #[inline]
    pub(crate) fn tap<T>(
        &self,
        first: [isize; 3],
        tap: [usize; 3],
        image: *const T,
        zeros: *const T,
        pixel_stride: usize,
    ) -> *const T {
        let at: [usize; 3] =
            std::array::from_fn(|i| first[i].wrapping_add((tap[i] * self.dilations[i]) as isize) as usize);
        // a negative coordinate became a huge one
        let inside = at[0] < self.input[0] && at[1] < self.input[1] && at[2] < self.input[2];
        let pixel = at[0].wrapping_mul(self.input[1]).wrapping_add(at[1]);
        let pixel = pixel.wrapping_mul(self.input[2]).wrapping_add(at[2]);
        if inside {
            image.wrapping_add(pixel.wrapping_mul(pixel_stride))
        } else {
            zeros
        }
    }
}
