//! Pictures against values that Pillow gives of the same files.

use super::decode::Pixels;
use super::*;
use crate::media_arguments::Resize;

/// JPEG of the picture in [`gradient`], quality 95, by Pillow.
const COLOUR: &str = "ffd8ffe000104a46494600010100000100010000ffdb0043000201010101010201010102020202020403020202020504\
     040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affdb0043010202\
     02020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\
     0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080006000a03011100021101031101ffc400150001010000000000000000\
     0000000000000708ffc40024100000030509000000000000000000000000010402070923430308142431335171d1ffc4\
     0017010003010000000000000000000000000004060709ffc4002611000002060b000000000000000000000000040102\
     0507416103060814162123313271e1ffda000c03010002110311003f002bbb4426dd865e622d4a91f82434f5c0dcc243\
     927fedcd3e508fa2b14909a76184b2988b6d9a47c7400c606e63400bda01b9775325b64465d8ffd9";
/// Its red channel alone.
const GREY: &str = "ffd8ffe000104a46494600010100000100010000ffdb0043000201010101010201010102020202020403020202020504\
     040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affc0000b080006\
     000a01011100ffc400150001010000000000000000000000000000080affc4001f100001000b00000000000000000000\
     000000010304060936457483b2c1ffda0008010100003f002ec0de8f8f850d3b92f30592ad107fffd9";

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().as_chunks::<2>().0.iter();
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn png(color: png::ColorType, width: u32, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let height = pixels.len() / color.samples() / width as usize;
    let mut encoder = png::Encoder::new(&mut bytes, width, height as u32);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

/// A picture of 10 × 6 pixels.
fn gradient() -> Vec<u8> {
    let pixel = |x: u32, y: u32| [x * 25, y * 40, (x * 7 + y * 13) % 256].map(|value| value as u8);
    let pixels: Vec<u8> = (0..6)
        .flat_map(|y| (0..10).flat_map(move |x| pixel(x, y)))
        .collect();
    png(png::ColorType::Rgb, 10, &pixels)
}

fn ty(dtype: DType, dims: &[Option<usize>]) -> TensorType {
    let dim = |dim: &Option<usize>| dim.map_or(Dim::Unknown, Dim::Known);
    TensorType::new(dtype, dims.iter().map(dim).collect::<Vec<_>>())
}

fn planes(channels: usize) -> TensorType {
    ty(DType::F32, &[Some(1), Some(channels), None, None])
}

fn plain() -> MediaArguments {
    MediaArguments::default()
}

fn values(array: &Array) -> Vec<f32> {
    let words = array.bytes.as_chunks().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn colours_become_planes() {
    let bytes = png(png::ColorType::Rgb, 2, &[0, 51, 102, 255, 204, 153]);
    let array = read(&bytes, &planes(3), &plain()).unwrap();
    assert_eq!(array.shape, [1, 3, 1, 2]);
    assert_eq!(values(&array), [0.0, 1.0, 0.2, 0.8, 0.4, 0.6]);
    let beside = [Some(1), None, None, Some(3)];
    let array = read(&bytes, &ty(DType::F32, &beside), &plain()).unwrap();
    assert_eq!(array.shape, [1, 1, 2, 3]);
    assert_eq!(values(&array), [0.0, 0.2, 0.4, 1.0, 0.8, 0.6]);
    let array = read(&bytes, &ty(DType::U8, &beside[1..]), &plain()).unwrap();
    assert_eq!(
        (array.shape, array.bytes),
        (vec![1, 2, 3], vec![0, 51, 102, 255, 204, 153])
    );
}

#[test]
fn alpha_is_dropped_and_grey_repeated() {
    let of = |color, pixels: &[u8], channels| {
        let array = read(&png(color, 1, pixels), &planes(channels), &plain()).unwrap();
        (values(&array), array.shape)
    };
    assert_eq!(of(png::ColorType::Rgba, &[0, 51, 102, 7], 3).0, [0.0, 0.2, 0.4]);
    assert_eq!(of(png::ColorType::GrayscaleAlpha, &[51, 9], 3).0, [0.2, 0.2, 0.2]);
    assert_eq!(
        of(png::ColorType::Grayscale, &[51, 0], 1),
        (vec![0.2, 0.0], vec![1, 1, 2, 1])
    );
}

#[test]
fn mismatched_picture_is_an_error() {
    let colour = png(png::ColorType::Rgb, 1, &[1, 2, 3]);
    let refused = |bytes: &[u8], ty: &TensorType| read(bytes, ty, &plain()).unwrap_err().to_string();
    assert!(refused(&colour, &planes(1)).contains("--colors grey"));
    assert!(refused(&colour, &planes(4)).contains("4 channels"));
    assert!(refused(&colour, &ty(DType::I64, &[None; 4])).contains("[1, 3, h, w]"));
    let small = ty(DType::F32, &[Some(1), Some(3), Some(2), Some(4)]);
    assert!(refused(&gradient(), &small).contains("is 10 × 6, the input takes 4 × 2; choose --resize"));
    for end in 0..colour.len() - 12 {
        assert!(read(&colour[..end], &planes(3), &plain()).is_err(), "{end}");
    }
    let jpeg = unhex(COLOUR);
    for end in 0..jpeg.len() / 2 {
        let _ = read(&jpeg[..end], &planes(3), &plain());
    }
    assert!(read(&jpeg[..40], &planes(3), &plain()).is_err());
}

#[test]
fn numbers_of_the_options_are_used() {
    let bytes = png(png::ColorType::Rgb, 1, &[255, 51, 0]);
    let of = |media: MediaArguments| read(&bytes, &planes(3), &media).map(|array| values(&array));
    let mut media = plain();
    (media.mean, media.std) = (vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225]);
    // as torchvision's Normalize
    let found = of(media.clone()).unwrap();
    for (found, wanted) in found.iter().zip([2.248_908_3, -1.142_857_2, -1.804_444_4]) {
        assert!((found - wanted).abs() < 1e-6, "{found} for {wanted}");
    }
    media.mean = vec![0.5, 0.5];
    assert!(
        of(media)
            .unwrap_err()
            .to_string()
            .contains("--mean has 2 numbers")
    );
    let mut media = plain();
    (media.scale, media.mean, media.colors) = (Some(1.0), vec![100.0], Some(Colors::Bgr));
    assert_eq!(of(media.clone()).unwrap(), [-100.0, -49.0, 155.0]);
    let error = read(&bytes, &ty(DType::U8, &[Some(1), Some(3), None, None]), &media);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("the picture's own values")
    );
    let mut media = plain();
    media.colors = Some(Colors::Grey);
    let grey = read(&bytes, &ty(DType::U8, &[Some(1), Some(1), None, None]), &media).unwrap();
    assert_eq!(grey.bytes, [106]);
    media.layout = Some(Layout::Nhwc);
    let array = read(&bytes, &ty(DType::F32, &[None; 4]), &media).unwrap();
    assert_eq!(array.shape, [1, 1, 1, 1]);
    let half = read(&bytes, &ty(DType::F16, &[Some(3), None, None]), &plain()).unwrap();
    assert_eq!((half.shape, &half.bytes[..2]), (vec![3, 1, 1], &[0x00, 0x3c][..]));
}

#[test]
fn jpeg_pictures_match_pillow() {
    let near = |bytes: &[u8], is_grey, wanted: &[i32]| {
        let pixels = decode(bytes).unwrap();
        assert_eq!((pixels.width, pixels.height, pixels.is_grey), (10, 6, is_grey));
        let some = (0..6)
            .step_by(3)
            .flat_map(|y| (0..10).step_by(3).map(move |x| (y * 10 + x) * 3));
        let found: Vec<i32> = some
            .flat_map(|at| {
                pixels.rgb[at..at + wanted.len() / 8]
                    .iter()
                    .copied()
                    .map(i32::from)
            })
            .collect();
        assert_eq!(found.len(), wanted.len());
        assert!(
            found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 2),
            "{found:?}"
        );
    };
    near(
        &unhex(COLOUR),
        false,
        &[
            3, 0, 0, 75, 0, 21, 152, 0, 43, 227, 0, 63, 0, 120, 40, 72, 120, 60, 149, 120, 80, 225, 119, 103,
        ],
    );
    near(&unhex(GREY), true, &[0, 75, 150, 225, 0, 75, 150, 225]);
}

#[test]
fn other_sizes_match_pillow() {
    let pixels = decode(&gradient()).unwrap();
    let near = |found: &[u8], wanted: &[i32]| {
        let all = found.iter().zip(wanted);
        let is_near = all.clone().all(|(a, b)| (i32::from(*a) - b).abs() <= 1);
        assert!(found.len() == wanted.len() && is_near, "{found:?}");
    };
    near(
        &resize::resize(&pixels, 5, 3, Resize::Separate).unwrap().rgb,
        &[
            18, 29, 14, 63, 29, 27, 113, 29, 41, 163, 29, 55, 207, 29, 67, 18, 100, 38, 63, 100, 51, 113,
            100, 65, 163, 100, 79, 207, 100, 91, 18, 171, 61, 63, 171, 74, 113, 171, 88, 163, 171, 102, 207,
            171, 114,
        ],
    );
    near(
        &resize::resize(&pixels, 4, 4, Resize::Separate).unwrap().rgb,
        &[
            25, 15, 12, 81, 15, 28, 144, 15, 45, 200, 15, 61, 25, 71, 30, 81, 71, 46, 144, 71, 63, 200, 71,
            79, 25, 129, 49, 81, 129, 65, 144, 129, 82, 200, 129, 98, 25, 185, 67, 81, 185, 83, 144, 185,
            100, 200, 185, 116,
        ],
    );
    let up = resize::resize(&pixels, 12, 7, Resize::Separate).unwrap();
    near(&up.rgb[..12], &[0, 0, 0, 19, 0, 5, 40, 0, 11, 60, 0, 17]);
    near(&up.rgb[36..48], &[0, 31, 10, 19, 31, 15, 40, 31, 21, 60, 31, 27]);
    // half the size is 5 × 3: the middle three columns
    let half = resize::resize(&pixels, 5, 3, Resize::Separate).unwrap();
    let cut = resize::resize(&pixels, 3, 3, Resize::Crop).unwrap();
    let row = |pixels: &Pixels, y: usize, x: std::ops::Range<usize>| {
        pixels.rgb[(y * pixels.width + x.start) * 3..(y * pixels.width + x.end) * 3].to_vec()
    };
    for y in 0..3 {
        assert_eq!(row(&cut, y, 0..3), row(&half, y, 1..4));
    }
    let padded = resize::resize(&pixels, 5, 5, Resize::Pad).unwrap();
    assert_eq!(
        [row(&padded, 0, 0..5), row(&padded, 4, 0..5)],
        [[114; 15], [114; 15]]
    );
    for y in 0..3 {
        assert_eq!(row(&padded, y + 1, 0..5), row(&half, y, 0..5));
    }
}

#[test]
fn a_picture_that_grows_beyond_the_limit_on_the_way_is_refused() {
    let pixels = Pixels {
        width: 1,
        height: 1_000_000,
        rgb: vec![0; 3_000_000],
        is_grey: false,
    };
    assert!(resize::resize(&pixels, 224, 224, Resize::Crop).is_none());
    assert!(resize::resize(&pixels, 224, 224, Resize::Separate).is_none());
    assert!(resize::resize(&pixels, 224, 224, Resize::Pad).is_some());
}
