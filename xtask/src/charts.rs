//! `cargo xtask charts`: the charts of `docs/benchmarks/charts`, drawn from the raw files beside them.
//!
//! Invariants:
//! 1. Every number of a chart is read from a committed raw file, which its footer names.
//! 2. The same raw files give the same bytes; `--check` fails if a committed chart differs or has no raw file.
//! 3. Every chart is shown on the page of charts.
//!
//! Start reading at [`CHARTS`], which has a row per chart.

mod data;
mod draw;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use data::Table;

use crate::root::{files, root};

/// Folder of the charts.
const FOLDER: &str = "docs/benchmarks/charts";
/// The page that shows them.
const PAGE: &str = "docs/charts.md";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare the committed charts with the drawn ones, without writing
    #[arg(long)]
    check: bool,
}

/// One chart.
struct Chart {
    name: &'static str,
    title: &'static str,
    /// The raw file, relative to `docs/benchmarks`.
    raw: &'static str,
    /// Reads its rows.
    read: fn(&serde_json::Value) -> Result<Table>,
}

/// All charts.
const CHARTS: [Chart; 11] = [
    Chart {
        name: "cpu-1",
        title: "f32, one thread, AMD EPYC (Zen 5): run time relative to Polychip",
        raw: "cpu/float-1.json",
        read: data::floats,
    },
    Chart {
        name: "cpu-2",
        title: "f32, two threads, AMD EPYC (Zen 5): run time relative to Polychip",
        raw: "cpu/float-2.json",
        read: data::floats,
    },
    Chart {
        name: "cpu-xeon-1",
        title: "f32, one thread, Intel Xeon: run time relative to Polychip",
        raw: "cpu-xeon/float-1.json",
        read: data::floats,
    },
    Chart {
        name: "cpu-xeon-2",
        title: "f32, two threads, Intel Xeon: run time relative to Polychip",
        raw: "cpu-xeon/float-2.json",
        read: data::floats,
    },
    Chart {
        name: "cpu-avx2-1",
        title: "f32, one thread, Polychip limited to AVX2: run time relative to Polychip",
        raw: "cpu-avx2/float-1.json",
        read: data::floats,
    },
    Chart {
        name: "cpu-avx2-2",
        title: "f32, two threads, Polychip limited to AVX2: run time relative to Polychip",
        raw: "cpu-avx2/float-2.json",
        read: data::floats,
    },
    Chart {
        name: "int8-1",
        title: "int8, one thread, AMD EPYC (Zen 5): run time relative to Polychip",
        raw: "cpu/int8-1.json",
        read: data::bytes,
    },
    Chart {
        name: "int8-2",
        title: "int8, two threads, AMD EPYC (Zen 5): run time relative to Polychip",
        raw: "cpu/int8-2.json",
        read: data::bytes,
    },
    Chart {
        name: "gpu",
        title: "NVIDIA H200: run time relative to Polychip",
        raw: "gpu/peers.json",
        read: data::gpu,
    },
    Chart {
        name: "language-1",
        title: "SmolLM2-135M, Q4_0, one thread: token time relative to Polychip, reduced",
        raw: "language-models/smollm2-q4_0.json",
        read: |raw| data::tokens(raw, 1),
    },
    Chart {
        name: "language-2",
        title: "SmolLM2-135M, Q4_0, two threads: token time relative to Polychip, reduced",
        raw: "language-models/smollm2-q4_0.json",
        read: |raw| data::tokens(raw, 2),
    },
];

impl Chart {
    fn svg(&self) -> Result<String> {
        let path = root().join("docs/benchmarks").join(self.raw);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let raw = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let table = (self.read)(&raw).with_context(|| path.display().to_string())?;
        let foot = format!(
            "medians, docs/benchmarks/{}; longer bars are slower, below 1 is faster",
            self.raw
        );
        draw::svg(self.title, &foot, &table).with_context(|| format!("drawing {}", self.name))
    }

    fn file(&self) -> String {
        format!("{FOLDER}/{}.svg", self.name)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let mut wrong = Vec::new();
    for chart in &CHARTS {
        let (svg, file) = (chart.svg()?, chart.file());
        let path = root().join(&file);
        if !options.check {
            fs::write(&path, svg).with_context(|| file.clone())?;
        } else if fs::read_to_string(&path).ok().as_deref() != Some(svg.as_str()) {
            wrong.push(format!("{file} differs from docs/benchmarks/{}", chart.raw));
        }
        if !page.contains(&format!("](benchmarks/charts/{}.svg)", chart.name)) {
            wrong.push(format!("{PAGE} does not show {file}"));
        }
    }
    let known: BTreeSet<String> = CHARTS.iter().map(Chart::file).collect();
    for file in files("svg")? {
        let file = file.display().to_string();
        if file.starts_with(FOLDER) && !known.contains(&file) {
            wrong.push(format!("{file} belongs to no chart"));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{}\nredraw them with `cargo xtask charts`",
        wrong.join("\n")
    );
    eprintln!("{} charts match their raw files", CHARTS.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_unique_names_and_are_deterministic() {
        let names: BTreeSet<&str> = CHARTS.iter().map(|chart| chart.name).collect();
        assert_eq!(names.len(), CHARTS.len());
        let chart = &CHARTS[0];
        let svg = chart.svg().unwrap();
        assert_eq!(svg, chart.svg().unwrap());
        assert!(
            svg.contains("mobilenet_v2") && svg.contains("onnxruntime") && svg.contains(chart.raw),
            "{svg}"
        );
    }
}
