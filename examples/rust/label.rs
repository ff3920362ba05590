//! Names the shape in a picture, as the first command of the README does, in Rust.
//!
//! ```sh
//! cargo run --release --package polychip --example label -- examples/shapes/shapes.onnx examples/shapes/star.ppm examples/shapes/labels.txt
//! ```

#![allow(clippy::print_stdout)]

use std::io::{BufRead, Read};
use std::time::Duration;

use polychip::{Policy, Runtime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Width, height, and the red, green and blue planes of a PPM picture of 8 bits, each value / 255.
fn read_ppm(path: &str) -> Result<(usize, usize, Vec<f32>)> {
    let bad = || format!("{path} is no PPM picture of 8 bits");
    let mut file = std::io::BufReader::new(std::fs::File::open(path)?);
    let mut words = Vec::new();
    while words.len() < 4 {
        let mut line = String::new();
        if file.read_line(&mut line)? == 0 {
            return Err(bad().into());
        }
        let before = line.split('#').next().unwrap_or_default();
        words.extend(before.split_whitespace().map(str::to_owned));
    }
    let (width, height): (usize, usize) = (words[1].parse()?, words[2].parse()?);
    if words[0] != "P6" || words[3] != "255" {
        return Err(bad().into());
    }
    let pixels = width.checked_mul(height).ok_or_else(bad)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes.len() < pixels.saturating_mul(3) {
        return Err(bad().into());
    }
    let planes = (0..3).flat_map(|colour| {
        let values = bytes[colour..].iter().step_by(3).take(pixels);
        values.map(|value| f32::from(*value) / 255.0)
    });
    Ok((width, height, planes.collect()))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, picture, labels] = arguments.as_slice() else {
        return Err("usage: label MODEL.onnx PICTURE.ppm LABELS.txt".into());
    };
    let (width, height, planes) = read_ppm(picture)?;
    let runtime = Runtime::builder().build()?;
    let session = runtime.session(&runtime.load(model)?, Policy::latency())?;
    let name = session
        .inputs()
        .next()
        .ok_or("the model has no input")?
        .name
        .clone();
    let mut image = session.input(&name)?;
    if image.shape() != [1, 3, height, width] {
        let words = format!(
            "the model takes {:?}, the picture is {width} x {height}",
            image.shape()
        );
        return Err(words.into());
    }
    image.write(&planes)?;

    // a first run, and one that is warm, for the report
    session.submit(&[&image])?.wait(PATIENCE)?;
    let outputs = session.submit(&[&image])?.wait(PATIENCE)?;
    let output = outputs.at(0)?;
    let probabilities = output.values::<f32>()?;
    let ranked = probabilities.iter().enumerate();
    let (best, probability) = ranked
        .max_by(|a, b| a.1.total_cmp(b.1))
        .ok_or("the model has no classes")?;
    let labels = std::fs::read_to_string(labels)?;
    let label = labels
        .lines()
        .nth(best)
        .ok_or("the labels are fewer than the classes")?;
    println!("{label}: probability {probability:.4}\n");
    println!("{}", session.report());
    Ok(())
}
