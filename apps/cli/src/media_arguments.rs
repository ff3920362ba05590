//! Options of how pictures and sound become numbers.
//!
//! Invariant: without an option, nothing is cropped, padded or resampled.

/// How pictures and sound become numbers.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Pictures and sound")]
pub(crate) struct MediaArguments {
    /// Multiply the values of a picture, 0 to 255, by this number or fraction; 1/255 unless the input takes integers
    #[arg(long, value_name = "N", value_parser = number, allow_hyphen_values = true)]
    pub(crate) scale: Option<f64>,
    /// Subtract this from the scaled values of a picture: one number, or one for each channel
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = number, allow_hyphen_values = true)]
    pub(crate) mean: Vec<f64>,
    /// Divide the result by this: one number, or one for each channel
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = number)]
    pub(crate) std: Vec<f64>,
    /// Order of a picture's axes; default: found from the axis of size 1 or 3
    #[arg(long, value_enum)]
    pub(crate) layout: Option<Layout>,
    /// Channels of a picture
    #[arg(long, value_enum)]
    pub(crate) colors: Option<Colors>,
    /// Give a picture or sound the size that the input has
    #[arg(long, value_enum)]
    pub(crate) resize: Option<Resize>,
    /// Resample sound to this rate in Hz
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=768_000))]
    pub(crate) sample_rate: Option<u32>,
}

/// Order of a picture's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// One plane for each channel.
    Nchw,
    /// The channels of a pixel side by side.
    Nhwc,
}

/// Channels of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colors {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red, as OpenCV reads them.
    Bgr,
    /// One channel of luminance.
    Grey,
}

/// How a picture or sound gets a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Resize {
    /// Scale each side of a picture separately.
    #[value(name = "stretch")]
    Separate,
    /// Scale the shorter side of a picture to fit, then cut around the middle; cut the end of
    /// sound.
    Crop,
    /// Scale the longer side of a picture to fit, then fill with grey (114); append silence to
    /// sound.
    Pad,
}

/// Reads a number or a fraction.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let parse = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = match text.split_once('/') {
        Some((above, below)) => parse(above).zip(parse(below)).map(|(above, below)| above / below),
        None => parse(text),
    };
    let wrong = || format!("{text:?} is not a number; write e.g. 0.5 or 1/255");
    value.filter(|value| value.is_finite()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_fractions() {
        assert_eq!(number("0.5"), Ok(0.5));
        assert_eq!(number("1/255"), Ok(1.0 / 255.0));
        assert_eq!(number("-2"), Ok(-2.0));
        for wrong in ["", "x", "1/0", "1/2/3", "nan"] {
            assert!(
                number(wrong).unwrap_err().contains("write e.g. 0.5 or 1/255"),
                "{wrong}"
            );
        }
    }
}
