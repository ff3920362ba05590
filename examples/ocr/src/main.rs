//! `polychip-ocr PAGE.png --detector DET.onnx --recogniser REC.onnx`: prints the text of a picture.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this program prints")]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use polychip::{Policy, Runtime};
use polychip_example_ocr::{Picture, Reader};
use serde_json::json;

#[derive(Parser)]
#[command(about = "Reads the text in a picture with two models in two sessions of one runtime")]
struct Arguments {
    /// PNG picture
    page: PathBuf,
    /// Line detection model: DBNet, as in PP-OCR
    #[arg(long, value_name = "MODEL")]
    detector: PathBuf,
    /// Line recognition model: CTC, with its letters in the metadata, as in PP-OCR
    #[arg(long, value_name = "MODEL")]
    recogniser: PathBuf,
    /// Plugin folder for devices other than the CPU
    #[arg(long, value_name = "FOLDER")]
    plugins: Option<PathBuf>,
    /// CPU threads per session; default: the plugin's choice
    #[arg(long, default_value_t = 0)]
    threads: u32,
    /// Read the picture this many times, and report the speed and the device of each part
    #[arg(long, value_name = "COUNT")]
    frames: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let picture = Picture::read(&arguments.page)?;
    let mut builder = Runtime::builder();
    if let Some(folder) = &arguments.plugins {
        builder = builder.plugins(folder);
    }
    let runtime = builder.build()?;
    let policy = Policy::latency().threads(arguments.threads);
    let mut reader = Reader::new(&runtime, &arguments.detector, &arguments.recogniser, &policy)?;

    let (start, count) = (Instant::now(), arguments.frames.unwrap_or(1));
    let mut lines = Vec::new();
    reader.read(std::iter::repeat_n(&picture, count), |page| {
        lines = page.lines;
        Ok(())
    })?;
    let rate = count as f64 / start.elapsed().as_secs_f64();

    if arguments.json {
        let [detector, recogniser] = reader.reports();
        let speed = arguments.frames.map(|frames| {
            json!({ "frames": frames, "frames_per_second": rate, "detector": detector, "recogniser": recogniser })
        });
        println!("{}", json!({ "lines": lines, "speed": speed }));
        return Ok(());
    }
    for line in &lines {
        let area = line.area;
        println!(
            "{:.2}  {:4.0} {:4.0} {:4.0} {:4.0}  {}",
            line.score, area.left, area.top, area.right, area.bottom, line.text
        );
    }
    if arguments.frames.is_some() {
        println!("\n{count} frames, {rate:.2} a second");
        for report in reader.reports() {
            println!("\n{report}");
        }
    }
    Ok(())
}
