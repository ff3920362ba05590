//! How long a model takes to load and how much memory that needs, against the size of its file.
//!
//! `cargo run --release -p polychip-host --example load -- MODEL.onnx`
//!
//! Peak memory is `VmHWM` of `/proc/self/status`, less what the process had before; `RssAnon` is the
//! part of it that is not the mapped file itself.

#![allow(clippy::print_stdout)] // a report is what it is for

use std::path::Path;
use std::time::Instant;

use polychip_graph::{fingerprint, onnx};
use polychip_host::ModelFolder;

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or("");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: load MODEL.onnx")?;
    let path = Path::new(&path);
    let before = status("VmHWM");
    let start = Instant::now();
    let model = ModelFolder::open(path)?;
    let graph = onnx::import(model.bytes(), &model, &onnx::Options::default())?;
    let loaded = start.elapsed();
    let (peak, anonymous) = (status("VmHWM").saturating_sub(before), status("RssAnon"));
    let size = model.bytes().len() as f64 / 1e6;
    println!("file            {size:10.1} MB");
    println!("weights         {:10.1} MB", graph.constant_bytes() as f64 / 1e6);
    println!("nodes           {:10}", graph.node_count());
    println!("load time       {:10.1} ms", loaded.as_secs_f64() * 1e3);
    println!(
        "peak memory     {:10.1} MB more than before",
        peak as f64 * 1.024e-3
    );
    println!("not file-backed {:10.1} MB", anonymous as f64 * 1.024e-3);
    let start = Instant::now();
    fingerprint::content(&graph);
    println!(
        "fingerprint     {:10.1} ms (reads every weight)",
        start.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}
