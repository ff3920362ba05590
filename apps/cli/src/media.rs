//! Files that people have as inputs: pictures, sound, text; and the options of how they become numbers.
//!
//! Invariants:
//! 1. The model's input decides: its element type, its axes and the sizes it fixes.
//! 2. Nothing is scaled, cropped, padded or resampled unless an option requests it.

use std::path::Path;

use polychip_graph::Tensor;

use crate::array::Array;
use crate::media_arguments::MediaArguments;
use crate::{picture, sound, words};

/// Reads a picture, sound or text as the value of an input; `None` for other files.
pub(crate) fn read(
    path: &Path,
    bytes: &[u8],
    tensor: &Tensor,
    media: &MediaArguments,
) -> anyhow::Result<Option<Array>> {
    if picture::is_picture(bytes) {
        return picture::read(bytes, &tensor.ty, media).map(Some);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
        return sound::read(bytes, &tensor.ty, media).map(Some);
    }
    let is = |extension: &str| {
        path.extension()
            .is_some_and(|found| found.eq_ignore_ascii_case(extension))
    };
    if is("txt") {
        return words::read(bytes, &tensor.ty).map(Some);
    }
    for (extension, words) in [
        ("png", "not a readable PNG picture"),
        ("jpg", "not a readable JPEG picture"),
        ("jpeg", "not a readable JPEG picture"),
        ("wav", "not a readable WAV file"),
    ] {
        anyhow::ensure!(!is(extension), words);
    }
    Ok(None)
}
