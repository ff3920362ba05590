//! Pictures, sound and text as inputs, and what is printed of their outputs.

use std::path::Path;

use crate::model::{F32, Model, add_relu, node, port};
use crate::tool::{polychip, shapes, shapes_file};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// A picture of the model that ships, with four pixels for each.
fn doubled(class: &str) -> Vec<u8> {
    let file = std::fs::File::open(shapes_file(&format!("pictures/{class}.png"))).unwrap();
    let mut decoder = png::Decoder::new(std::io::BufReader::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    let samples = frame.color_type.samples();
    let mut out = Vec::new();
    for line in pixels.chunks_exact(frame.line_size) {
        for _ in 0..2 {
            for pixel in line.chunks_exact(samples) {
                out.extend([pixel, pixel].concat());
            }
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, frame.width * 2, frame.height * 2);
    encoder.set_color(frame.color_type);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(&out).unwrap();
    bytes
}

#[test]
fn resized_picture_keeps_its_label() {
    let folder = tempfile::tempdir().unwrap();
    let image = format!("image={}", write(folder.path(), "star.png", &doubled("star")));
    let (model, labels) = (shapes(), shapes_file("labels.txt"));
    let run = |more: &[&str]| {
        let mut arguments = vec!["run", &model, "--input", &image, "--labels", &labels];
        arguments.extend(more);
        polychip(&arguments)
    };
    run(&[]).fails(3, &["the picture is 192 × 192", "96 × 96", "--resize"]);
    for resize in ["stretch", "crop", "pad"] {
        let text = run(&["--resize", resize, "--top", "3"]).ok();
        let lines: Vec<&str> = text.lines().take(4).collect();
        assert!(lines[0].starts_with("star: probability "), "{text}");
        assert!(
            lines[1].contains(": probability ") && lines[2].contains(": probability "),
            "{text}"
        );
        assert_eq!(lines[3], "");
    }
    let json = run(&["--resize", "pad", "--top", "2", "--json"]).json("run");
    assert_eq!(json["labels"].as_array().unwrap().len(), 2);
    run(&["--resize", "pad", "--mean", "0.5,0.5"]).fails(3, &["--mean has 2 numbers"]);
    run(&["--resize", "pad", "--boxes"]).fails(3, &["no outputs hold boxes"]);
}

#[test]
fn numbers_in_text_are_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let model = add_relu().write(folder.path(), "m.onnx");
    let input = format!("x={}", write(folder.path(), "x.txt", b"1 -2 3\n0, 2, 0\n"));
    let text = polychip(&["run", &model, "--input", &input]).ok();
    // w is 1, -1, 0.5
    let line = "y/out:0: f32 [2, 3]: 2.00000 0.00000 3.50000 1.00000 1.00000 0.50000";
    assert_eq!(text.lines().next(), Some(line));
}

#[test]
fn sound_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("Relu", "relu", &["x"], &["y"])],
        inputs: vec![port("x", F32, &["1", "n"])],
        outputs: vec![port("y", F32, &["1", "n"])],
        ..Model::default()
    }
    .write(folder.path(), "m.onnx");
    let samples = [16_384i16, -16_384, 8_192].map(i16::to_le_bytes).concat();
    // PCM, one channel of 16 bits at 16 kHz
    let mut wav =
        b"RIFF\x2a\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x06\0\0\0"
            .to_vec();
    wav.extend(&samples);
    let input = format!("x={}", write(folder.path(), "x.wav", &wav));
    let text = polychip(&["run", &model, "--input", &input]).ok();
    assert_eq!(
        text.lines().next(),
        Some("y: f32 [1, 3]: 0.50000 0.00000 0.25000")
    );
    let slow = polychip(&["run", &model, "--input", &input, "--sample-rate", "8000"]).ok();
    assert!(slow.starts_with("y: f32 [1, 2]: "), "{slow}");
}

#[test]
fn boxes_of_a_detector_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model {
        nodes: vec![node("Identity", "same", &["x"], &["boxes"])],
        inputs: vec![port("x", F32, &["1", "n", "6"])],
        outputs: vec![port("boxes", F32, &["1", "n", "6"])],
        ..Model::default()
    }
    .write(folder.path(), "m.onnx");
    let rows = b"1 2 3 4 0.5 1\n5 6 7 8 0.9 0\n0 0 1 1 0.1 0\n";
    let input = format!("x={}", write(folder.path(), "x.txt", rows));
    let labels = write(folder.path(), "labels.txt", b"cat\ndog\n");
    let arguments = ["run", &model, "--input", &input, "--labels", &labels, "--boxes"];
    let text = polychip(&arguments).ok();
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(
        lines,
        [
            "cat: score 0.9000, box 5.0 6.0 7.0 8.0",
            "dog: score 0.5000, box 1.0 2.0 3.0 4.0",
            ""
        ]
    );
    let json = polychip(&[&arguments[..], &["0.6", "--json"]].concat()).json("run");
    assert_eq!(json["boxes"][0]["label"], "cat");
    assert_eq!(json["boxes"].as_array().unwrap().len(), 1);
}
