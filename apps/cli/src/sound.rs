//! WAV files as inputs: samples from -1 to 1, or of 16 bits where the input takes integers.
//!
//! Invariant: every sample of the file is used, and none is added, unless an option says otherwise.

use anyhow::Context as _;
use polychip::DType;
use polychip_ops::{Dim, TensorType};

use crate::array::{Array, convert, count};
use crate::media_arguments::{MediaArguments, Resize};

/// Most samples of all channels, about three hours at 16 kHz.
const LIMIT: usize = 1 << 28;
/// Zero crossings of the resampling filter on each side.
const CROSSINGS: f64 = 16.0;

/// Reads sound for an input of this type: its samples lie along the last axis that may have more than one, channels along one
/// that has as many; they are averaged if there is none.
pub(crate) fn read(bytes: &[u8], ty: &TensorType, media: &MediaArguments) -> anyhow::Result<Array> {
    let is_int = ty.dtype == DType::I16;
    let takes = is_int || matches!(ty.dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
    let dims = match ty.shape.as_deref() {
        Some(dims) => dims.iter().map(Dim::known).collect(),
        None => vec![Some(1), None],
    };
    anyhow::ensure!(
        takes && (1..=3).contains(&dims.len()),
        "sound needs an input of f32 or i16 [n], [1, n] or [1, channels, n]; this one is {ty}"
    );
    let (mut channels, rate) = samples(bytes)?;
    let time = dims
        .iter()
        .rposition(|dim| *dim != Some(1))
        .unwrap_or(dims.len() - 1);
    let beside = (0..dims.len())
        .find(|&axis| axis != time && channels.len() > 1 && dims[axis] == Some(channels.len()));
    if beside.is_none() && channels.len() > 1 {
        let share = 1.0 / channels.len() as f32;
        let mean = |at: usize| channels.iter().map(|channel| channel[at] * share).sum();
        channels = vec![(0..channels[0].len()).map(mean).collect()];
    }
    if let Some(wanted) = media.sample_rate.filter(|wanted| *wanted != rate) {
        let all = resampled_length(channels[0].len(), rate, wanted).saturating_mul(channels.len());
        anyhow::ensure!(
            all <= LIMIT,
            "at {wanted} Hz, the sound has {all} samples, more than {LIMIT}"
        );
        for channel in &mut channels {
            *channel = resampled(channel, rate, wanted);
        }
    }
    let found = channels[0].len();
    let length = dims[time].unwrap_or(found);
    if length != found {
        let fits = match media.resize {
            Some(Resize::Crop) => found > length,
            Some(Resize::Pad) => found < length,
            _ => false,
        };
        let option = if found > length { "crop" } else { "pad" };
        anyhow::ensure!(
            fits,
            "the sound has {found} samples, the input takes {length}; give --resize {option}"
        );
        anyhow::ensure!(length <= LIMIT, "{length} samples are too many");
        channels
            .iter_mut()
            .for_each(|channel| channel.resize(length, 0.0));
    }
    let mut shape = vec![1; dims.len()];
    shape[time] = length;
    if let Some(axis) = beside {
        shape[axis] = channels.len();
    }
    let all: Vec<f32> = if beside.is_some_and(|axis| axis > time) {
        (0..length)
            .flat_map(|at| channels.iter().map(move |channel| channel[at]))
            .collect()
    } else {
        channels.concat()
    };
    debug_assert_eq!(count(&shape), Some(all.len()));
    if is_int {
        let word = |value: &f32| (value * 32768.0).round().clamp(-32768.0, 32767.0) as i16;
        return Ok(Array {
            dtype: DType::I16,
            shape,
            bytes: all.iter().flat_map(|value| word(value).to_le_bytes()).collect(),
        });
    }
    let array = Array {
        dtype: DType::F32,
        shape,
        bytes: all.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    convert(&array, ty.dtype).context("the input takes no floats")
}

/// The samples of each channel, and their rate in Hz.
fn samples(bytes: &[u8]) -> anyhow::Result<(Vec<Vec<f32>>, u32)> {
    let wrong = |error: hound::Error| anyhow::anyhow!("not a readable WAV file: {error}");
    let mut reader = hound::WavReader::new(bytes).map_err(wrong)?;
    let spec = reader.spec();
    let all = reader.len() as usize;
    anyhow::ensure!(all <= LIMIT, "{all} samples are too many");
    let count = usize::from(spec.channels);
    anyhow::ensure!(spec.sample_rate > 0, "the WAV file has a sample rate of 0");
    anyhow::ensure!(count > 0 && all >= count, "the WAV file holds no sound");
    let interleaved: Vec<f32> = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().collect::<Result<_, _>>().map_err(wrong)?,
        hound::SampleFormat::Int => {
            let by = 1.0 / (1u64 << (spec.bits_per_sample.clamp(1, 32) - 1)) as f32;
            let samples = reader.samples::<i32>();
            samples
                .map(|sample| sample.map(|sample| sample as f32 * by))
                .collect::<Result<_, _>>()
                .map_err(wrong)?
        }
    };
    let channel = |index: usize| interleaved.iter().skip(index).step_by(count).copied();
    let length = interleaved.len() / count;
    let channels = (0..count).map(|index| channel(index).take(length).collect());
    Ok((channels.collect(), spec.sample_rate))
}

/// Number of samples at another rate.
fn resampled_length(samples: usize, from: u32, to: u32) -> usize {
    (samples as u64 * u64::from(to)).div_ceil(u64::from(from)) as usize
}

/// Samples at another rate, by a sinc in a Hann window that lets pass what both rates hold.
fn resampled(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    let step = f64::from(from) / f64::from(to);
    let width = step.max(1.0);
    let reach = CROSSINGS * width;
    (0..resampled_length(samples.len(), from, to))
        .map(|index| {
            let at = index as f64 * step;
            let first = (at - reach).ceil().max(0.0) as usize;
            let end = ((at + reach) as usize + 1).min(samples.len());
            let mut sum = 0.0;
            for (place, sample) in samples.iter().enumerate().take(end).skip(first) {
                let distance = (place as f64 - at) / width;
                let angle = std::f64::consts::PI * distance;
                let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
                let window = 0.5 + 0.5 * (angle / CROSSINGS).cos();
                sum += f64::from(*sample) * sinc * window / width;
            }
            sum as f32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(channels: u16, rate: u32, samples: &[i16]) -> Vec<u8> {
        let spec = hound::WavSpec {
            channels,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut bytes = std::io::Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
        for sample in samples {
            writer.write_sample(*sample).unwrap();
        }
        writer.finalize().unwrap();
        bytes.into_inner()
    }

    fn ty(dtype: DType, dims: &[Option<usize>]) -> TensorType {
        let dim = |dim: &Option<usize>| dim.map_or(Dim::Symbol("n".into()), Dim::Known);
        TensorType::new(dtype, dims.iter().map(dim).collect::<Vec<_>>())
    }

    fn floats(array: &Array) -> Vec<f32> {
        let words = array.bytes.as_chunks().0.iter();
        words.map(|word| f32::from_le_bytes(*word)).collect()
    }

    fn media(resize: Option<Resize>, sample_rate: Option<u32>) -> MediaArguments {
        MediaArguments {
            resize,
            sample_rate,
            ..MediaArguments::default()
        }
    }

    #[test]
    fn samples_lie_along_the_open_axis() {
        let bytes = wav(1, 16_000, &[0, 16_384, -32_768]);
        for (dims, shape) in [
            (&[None][..], &[3][..]),
            (&[Some(1), None], &[1, 3]),
            (&[Some(1), Some(1), Some(3)], &[1, 1, 3]),
            (&[Some(1), None, Some(1)], &[1, 3, 1]),
        ] {
            let array = read(&bytes, &ty(DType::F32, dims), &media(None, None)).unwrap();
            assert_eq!(array.shape, shape);
            assert_eq!(floats(&array), [0.0, 0.5, -1.0]);
        }
        let array = read(&bytes, &ty(DType::I16, &[None]), &media(None, None)).unwrap();
        assert_eq!(
            array.bytes,
            [0, 16_384, -32_768i16].map(i16::to_le_bytes).concat()
        );
    }

    #[test]
    fn channels_are_kept_or_averaged() {
        let bytes = wav(2, 16_000, &[16_384, 0, -16_384, 0]);
        let of = |dims: &[Option<usize>]| read(&bytes, &ty(DType::F32, dims), &media(None, None)).unwrap();
        assert_eq!(floats(&of(&[Some(1), None])), [0.25, -0.25]);
        assert_eq!(floats(&of(&[Some(1), Some(2), None])), [0.5, -0.5, 0.0, 0.0]);
    }

    #[test]
    fn other_lengths_need_an_option() {
        let bytes = wav(1, 16_000, &[16_384; 4]);
        let of = |length, resize| {
            read(
                &bytes,
                &ty(DType::F32, &[Some(1), Some(length)]),
                &media(resize, None),
            )
        };
        assert!(
            of(3, None)
                .unwrap_err()
                .to_string()
                .contains("takes 3; give --resize crop")
        );
        assert!(
            of(5, Some(Resize::Crop))
                .unwrap_err()
                .to_string()
                .contains("--resize pad")
        );
        assert_eq!(floats(&of(3, Some(Resize::Crop)).unwrap()), [0.5; 3]);
        assert_eq!(
            floats(&of(5, Some(Resize::Pad)).unwrap()),
            [0.5, 0.5, 0.5, 0.5, 0.0]
        );
        assert!(read(&bytes[..30], &ty(DType::F32, &[None]), &media(None, None)).is_err());
        let wide = ty(DType::F32, &[Some(1), Some(3), Some(8), Some(8)]);
        assert!(read(&bytes, &wide, &media(None, None)).is_err());
    }

    #[test]
    fn resampled_tone_keeps_its_frequency() {
        let tone = |rate: f64, at: usize| (at as f64 / rate * 440.0 * std::f64::consts::TAU).sin();
        let samples: Vec<i16> = (0..4410)
            .map(|at| (tone(44_100.0, at) * 16_384.0) as i16)
            .collect();
        let array = read(
            &wav(1, 44_100, &samples),
            &ty(DType::F32, &[None]),
            &media(None, Some(16_000)),
        )
        .unwrap();
        assert_eq!(array.shape, [1600]);
        for (at, value) in floats(&array).iter().enumerate().take(1550).skip(50) {
            let off = (f64::from(*value) - tone(16_000.0, at) / 2.0).abs();
            assert!(off < 2e-3, "{at}: {value} is {off} off");
        }
    }

    #[test]
    fn sound_that_grows_beyond_the_limit_is_refused() {
        let ty = TensorType::known(DType::F32, &[1, 2]);
        let media = MediaArguments {
            sample_rate: Some(768_000),
            ..MediaArguments::default()
        };
        let error = read(&wav(1, 1, &[0; 1000]), &ty, &media).unwrap_err();
        assert!(error.to_string().contains("samples, more than"), "{error}");
    }
}
