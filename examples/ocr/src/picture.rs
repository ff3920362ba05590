//! A picture, and its areas as input tensors.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// A picture in memory.
#[derive(Debug)]
pub struct Picture {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    pixels: Vec<[u8; 3]>,
}

/// An area of a picture, in its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Area {
    /// Least x.
    pub left: f32,
    /// Least y.
    pub top: f32,
    /// End of x.
    pub right: f32,
    /// End of y.
    pub bottom: f32,
}

/// What a model expects of the values of blue, green and red in 0 to 1: their means and deviations.
pub(crate) struct Normal {
    pub(crate) mean: [f32; 3],
    pub(crate) deviation: [f32; 3],
}

impl Picture {
    /// Reads a PNG file.
    ///
    /// # Errors
    /// The file cannot be read, or is no PNG.
    pub fn read(path: &Path) -> Result<Picture> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let name = || format!("{} is no readable PNG", path.display());
        let mut decoder = png::Decoder::new(BufReader::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().with_context(name)?;
        let mut bytes = vec![0; reader.output_buffer_size().with_context(name)?];
        let frame = reader.next_frame(&mut bytes).with_context(name)?;
        let pixels = bytes
            .chunks_exact(frame.color_type.samples())
            .map(|pixel| match *pixel {
                [red, green, blue, ..] => [red, green, blue],
                [grey, ..] => [grey; 3],
                [] => [0; 3],
            });
        Ok(Picture {
            width: frame.width as usize,
            height: frame.height as usize,
            pixels: pixels.collect(),
        })
    }

    /// All of it.
    #[must_use]
    pub fn area(&self) -> Area {
        Area {
            left: 0.0,
            top: 0.0,
            right: self.width as f32,
            bottom: self.height as f32,
        }
    }

    /// Writes an area into an input `[1, 3, height, width]`: in the input's size, each value between those of the four
    /// nearest pixels, as planes of blue, green and red.
    pub(crate) fn write(&self, area: Area, input: &mut polychip::Input, normal: &Normal) -> Result<()> {
        let &[_, _, height, width] = input.shape() else {
            anyhow::bail!("{:?} is no picture", input.shape())
        };
        let columns = nearest(area.left, area.right, width, self.width);
        let rows = nearest(area.top, area.bottom, height, self.height);
        let mut memory = input.bytes_mut()?;
        for (channel, plane) in memory.chunks_exact_mut(4 * width * height).enumerate() {
            let factor = 1.0 / (255.0 * normal.deviation[channel]);
            let offset = normal.mean[channel] / normal.deviation[channel];
            for (line, (above, below, down)) in plane.chunks_exact_mut(4 * width).zip(&rows) {
                let row = |row: &usize| &self.pixels[row * self.width..][..self.width];
                let (above, below) = (row(above), row(below));
                for (place, (left, right, along)) in line.chunks_exact_mut(4).zip(&columns) {
                    let value = |row: &[[u8; 3]], column: &usize| f32::from(row[*column][2 - channel]);
                    let upper = between(value(above, left), value(above, right), *along);
                    let lower = between(value(below, left), value(below, right), *along);
                    let value = between(upper, lower, *down) * factor - offset;
                    place.copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        Ok(())
    }
}

/// For each of `count` places that share the way from `start` to `end` equally: the two nearest of `size` pixels, and how
/// far it is from the first to the second.
fn nearest(start: f32, end: f32, count: usize, size: usize) -> Vec<(usize, usize, f32)> {
    let step = (end - start) / count as f32;
    let place = |index: usize| {
        let at = (start + (index as f32 + 0.5) * step - 0.5).clamp(0.0, (size - 1) as f32);
        (at as usize, (at as usize + 1).min(size - 1), at.fract())
    };
    (0..count).map(place).collect()
}

fn between(one: f32, other: f32, share: f32) -> f32 {
    one + (other - one) * share
}
