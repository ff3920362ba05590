//! PNG and JPEG files as red, green and blue of each pixel.
//!
//! Invariant: decoding takes no more than [`LIMIT`] bytes, whatever size a file states.

use anyhow::Context as _;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Memory that decoding may take; a picture of 8192 × 8192 fits.
pub(super) const LIMIT: usize = 1 << 28;

/// A decoded picture: red, green and blue of each pixel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pixels {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) rgb: Vec<u8>,
    pub(super) is_grey: bool,
}

pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<Pixels> {
    if bytes.starts_with(b"\x89PNG") {
        png(bytes)
    } else {
        jpeg(bytes)
    }
}

pub(super) fn jpeg(bytes: &[u8]) -> anyhow::Result<Pixels> {
    let wrong =
        |error: zune_jpeg::errors::DecodeErrors| anyhow::anyhow!("not a readable JPEG picture: {error}");
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(wrong)?;
    let size = decoder.output_buffer_size();
    size.filter(|size| *size <= LIMIT)
        .context("the picture is too large")?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let rgb = decoder.decode().map_err(wrong)?;
    let (width, height) = decoder.dimensions().context("not a readable JPEG picture")?;
    anyhow::ensure!(rgb.len() == width * height * 3, "not a readable JPEG picture");
    Ok(Pixels {
        width,
        height,
        rgb,
        is_grey,
    })
}

pub(super) fn png(bytes: &[u8]) -> anyhow::Result<Pixels> {
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
    let row = width
        .checked_mul(samples)
        .filter(|row| *row <= frame.line_size)
        .context("the picture is truncated")?;
    let mut rgb = Vec::with_capacity(width * height * 3);
    for line in pixels.chunks_exact(frame.line_size.max(1)).take(height) {
        for pixel in line[..row].chunks_exact(samples) {
            rgb.extend(if is_grey {
                [pixel[0]; 3]
            } else {
                [pixel[0], pixel[1], pixel[2]]
            });
        }
    }
    Ok(Pixels {
        width,
        height,
        rgb,
        is_grey,
    })
}
