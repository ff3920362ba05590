//! Images and the windows that slide over them: the geometry that convolutions and pools share.
//!
//! Invariant: sizes, strides and dilations are at least 1; an image of one axis has height 1.
//!
//! Not here: how attributes of a model become windows (`polychip_ops`).

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Size of a batch of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    /// Images.
    pub batch: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Channels.
    pub channels: u32,
}

impl Image {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.pixels().saturating_mul(self.channels.into())
    }

    /// Number of pixels: `batch * height * width`.
    #[must_use]
    pub fn pixels(&self) -> u64 {
        u64::from(self.batch)
            .saturating_mul(self.height.into())
            .saturating_mul(self.width.into())
    }

    /// Refuses images whose elements a 32-bit index does not reach.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        if self.elements() == 0 || self.elements() > 1 << 30 {
            return Err(Error::new(format!(
                "{what} of {}x{}x{}x{} has {} elements, kernels take 1 to 2^30",
                self.batch,
                self.height,
                self.width,
                self.channels,
                self.elements()
            )));
        }
        Ok(())
    }
}

/// Memory layout of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageLayout {
    /// `[n, h, w, c]`.
    ChannelsLast,
    /// `[n, c, h, w]`.
    ChannelsFirst,
}

/// A window that slides over an image: `[vertical, horizontal]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Elements of the window.
    pub kernel: [u32; 2],
    /// Distance between neighbouring window positions.
    pub strides: [u32; 2],
    /// Distance between neighbouring elements within the window.
    pub dilations: [u32; 2],
    /// Padding above and to the left.
    pub begin: [u32; 2],
    /// Padding below and to the right.
    pub end: [u32; 2],
}

impl Window {
    /// A window of one element that visits every pixel.
    pub const POINT: Window = Window {
        kernel: [1, 1],
        strides: [1, 1],
        dilations: [1, 1],
        begin: [0, 0],
        end: [0, 0],
    };

    /// Number of elements of the window.
    #[must_use]
    pub fn taps(&self) -> u32 {
        self.kernel[0].saturating_mul(self.kernel[1])
    }

    /// Whether every output pixel reads only the input pixel of the same index.
    #[must_use]
    pub fn is_point(&self) -> bool {
        self.kernel == [1, 1] && self.strides == [1, 1] && self.begin == [0, 0] && self.end == [0, 0]
    }

    /// Number of window positions on an image of `[height, width]`; with `ceil`, a last window
    /// counts if it begins inside the image or the padding before it.
    #[must_use]
    pub fn output(&self, size: [u32; 2], ceil: bool) -> [u32; 2] {
        std::array::from_fn(|axis| {
            let [size, kernel, stride, dilation, begin, end] = [
                size[axis],
                self.kernel[axis],
                self.strides[axis],
                self.dilations[axis],
                self.begin[axis],
                self.end[axis],
            ]
            .map(u64::from);
            let padded = size + begin + end;
            let extent = (kernel.max(1) - 1) * dilation + 1;
            if padded < extent {
                return 0;
            }
            let stride = stride.max(1);
            let mut places = (padded - extent) / stride + 1;
            if ceil && !(padded - extent).is_multiple_of(stride) && places * stride < size + begin {
                places += 1;
            }
            u32::try_from(places).unwrap_or(u32::MAX)
        })
    }

    /// Refuses windows without elements or steps.
    pub(crate) fn check(&self) -> Result<()> {
        let lists = [self.kernel, self.strides, self.dilations];
        if lists.iter().flatten().any(|&size| size == 0 || size > 1 << 16) {
            return Err(Error::new(format!(
                "a window of {:?} with strides {:?} and dilations {:?}: each is 1 to 65536",
                self.kernel, self.strides, self.dilations
            )));
        }
        if self.begin.iter().chain(&self.end).any(|&pad| pad > 1 << 20) {
            return Err(Error::new(format!(
                "a window with padding {:?} and {:?}: each is at most 2^20",
                self.begin, self.end
            )));
        }
        Ok(())
    }

    /// The pixel of the input that element `tap` of the window at `place` reads, if it is inside.
    pub(crate) fn pixel(&self, place: [u32; 2], tap: [u32; 2], size: [u32; 2]) -> Option<[u32; 2]> {
        let mut pixel = [0; 2];
        for axis in 0..2 {
            let at = i64::from(place[axis]) * i64::from(self.strides[axis])
                + i64::from(tap[axis]) * i64::from(self.dilations[axis])
                - i64::from(self.begin[axis]);
            pixel[axis] = u32::try_from(at).ok().filter(|&at| at < size[axis])?;
        }
        Some(pixel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_outputs_match_onnx() {
        let window = Window {
            kernel: [3, 3],
            strides: [2, 2],
            begin: [0, 1],
            end: [0, 1],
            ..Window::POINT
        };
        assert_eq!(window.output([6, 7], false), [2, 4]);
        assert_eq!(window.output([6, 7], true), [3, 4]);
        let wide = Window {
            strides: [1, 3],
            kernel: [1, 1],
            ..Window::POINT
        };
        // the last place would begin beyond the image
        assert_eq!(wide.output([1, 3], true), [1, 1]);
        assert_eq!(wide.output([1, 4], false), [1, 2]);
        assert_eq!(
            Window {
                kernel: [5, 5],
                ..Window::POINT
            }
            .output([4, 4], false),
            [0, 0]
        );
    }

    #[test]
    fn elements_outside_the_image_are_absent() {
        let window = Window {
            kernel: [2, 2],
            begin: [1, 0],
            ..Window::POINT
        };
        assert_eq!(window.pixel([0, 0], [0, 0], [2, 2]), None);
        assert_eq!(window.pixel([0, 0], [1, 1], [2, 2]), Some([0, 1]));
        assert_eq!(window.pixel([0, 1], [1, 1], [2, 2]), None);
    }
}
