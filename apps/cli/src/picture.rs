//! PNG pictures as inputs: value / 255 of each channel, in planes.
//!
//! Invariant: the picture is never scaled or cropped; what does not fit is an error.

use anyhow::Context as _;
use polychip::DType;

use crate::array::Array;

/// Memory that decoding may take; a picture of 8192 × 8192 fits.
const LIMIT: usize = 1 << 28;

/// Reads a picture as f32 `[1, channels, height, width]`, each value in 0 to 1. Of 3 channels: red,
/// green, blue, grey repeated; of 1: grey, and a picture in colour does not fit. Alpha is dropped.
pub(crate) fn read(bytes: &[u8], channels: usize) -> anyhow::Result<Array> {
    let mut decoder =
        png::Decoder::new_with_limits(std::io::Cursor::new(bytes), png::Limits { bytes: LIMIT });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().context("not a readable PNG picture")?;
    let size = reader
        .output_buffer_size()
        .filter(|size| *size <= LIMIT)
        .context("the picture is too large")?;
    let mut pixels = vec![0; size];
    let frame = reader
        .next_frame(&mut pixels)
        .context("not a readable PNG picture")?;
    let (width, height) = (frame.width as usize, frame.height as usize);
    let samples = frame.color_type.samples();
    let is_grey = matches!(
        frame.color_type,
        png::ColorType::Grayscale | png::ColorType::GrayscaleAlpha
    );
    anyhow::ensure!(
        channels == 3 || channels == 1,
        "the input has {channels} channels, a picture 1 or 3"
    );
    anyhow::ensure!(
        channels == 3 || is_grey,
        "the picture is in colour, the input has one channel"
    );
    let row = width
        .checked_mul(samples)
        .filter(|row| *row <= frame.line_size)
        .context("the picture is truncated")?;
    let mut out = Vec::with_capacity(channels * width * height * 4);
    for channel in 0..channels {
        let sample = if is_grey { 0 } else { channel };
        for line in pixels.chunks_exact(frame.line_size.max(1)).take(height) {
            for pixel in line[..row].chunks_exact(samples) {
                out.extend((f32::from(pixel[sample]) / 255.0).to_le_bytes());
            }
        }
    }
    Ok(Array {
        dtype: DType::F32,
        shape: vec![1, channels, height, width],
        bytes: out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(color: png::ColorType, width: u32, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, 1);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(pixels).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn values(array: &Array) -> Vec<f32> {
        array
            .bytes
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn colours_become_planes() {
        let array = read(&png(png::ColorType::Rgb, 2, &[0, 51, 102, 255, 204, 153]), 3).unwrap();
        assert_eq!(array.shape, [1, 3, 1, 2]);
        assert_eq!(values(&array), [0.0, 1.0, 0.2, 0.8, 0.4, 0.6]);
    }

    #[test]
    fn alpha_is_dropped_and_grey_repeated() {
        let array = read(&png(png::ColorType::Rgba, 1, &[0, 51, 102, 7]), 3).unwrap();
        assert_eq!(values(&array), [0.0, 0.2, 0.4]);
        let array = read(&png(png::ColorType::GrayscaleAlpha, 1, &[51, 9]), 3).unwrap();
        assert_eq!(values(&array), [0.2, 0.2, 0.2]);
        let array = read(&png(png::ColorType::Grayscale, 2, &[51, 0]), 1).unwrap();
        assert_eq!((values(&array), array.shape), (vec![0.2, 0.0], vec![1, 1, 1, 2]));
    }

    #[test]
    fn mismatched_picture_is_an_error() {
        let colour = png(png::ColorType::Rgb, 1, &[1, 2, 3]);
        assert!(read(&colour, 1).is_err());
        assert!(read(&colour, 4).is_err());
        for end in 0..colour.len() - 12 {
            assert!(read(&colour[..end], 3).is_err(), "{end}");
        }
    }
}
