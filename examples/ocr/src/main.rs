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
#[command(about = "Reads the text of a picture, by two models in two sessions of one runtime")]
struct Arguments {
    /// The picture, a PNG
    page: PathBuf,
    /// Model that finds lines: DBNet, as PP-OCR's
    #[arg(long, value_name = "MODEL")]
    detector: PathBuf,
    /// Model that reads a line: CTC, with its letters in the metadata, as PP-OCR's
    #[arg(long, value_name = "MODEL")]
    recogniser: PathBuf,
    /// Folder of plugins for more chips than the CPU
    #[arg(long, value_name = "FOLDER")]
    plugins: Option<PathBuf>,
    /// Threads of each session on the CPU; by default the plugin chooses
    #[arg(long, default_value_t = 0)]
    threads: u32,
    /// Read the picture so many times, and say how fast that was and what ran where
    #[arg(long, value_name = "COUNT")]
    frames: Option<usize>,
    /// Print one object of JSON
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
