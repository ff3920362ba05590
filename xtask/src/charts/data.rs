//! Rows of charts, from the raw files of their commands.
//!
//! Invariant: a cell missing in the raw file is a gap, never 0.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What is drawn: a group of bars per column, one bar per series.
#[derive(Debug, PartialEq)]
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    /// Name and a value per column.
    pub(super) series: Vec<(String, Vec<Option<f64>>)>,
}

/// Who computes f32 in files of `cargo xtask peers`.
pub(super) fn floats(raw: &Value) -> Result<Table> {
    peers(
        raw,
        &[
            "onnxruntime",
            "openvino-f32",
            "litert",
            "ncnn",
            "mnn",
            "rten",
            "tract",
        ],
    )
}

/// Who computes 8 bits there.
pub(super) fn bytes(raw: &Value) -> Result<Table> {
    peers(raw, &["onnxruntime", "openvino", "rten", "tract"])
}

fn peers(raw: &Value, names: &[&str]) -> Result<Table> {
    let models = raw["models"].as_object().context("it has no models")?;
    let median = |model: &Value, peer: &str| model["peers"][peer]["p50_ms"].as_f64();
    let mut columns: Vec<&String> = models.keys().collect();
    columns.sort();
    ratios(
        &columns,
        names,
        |model, name| median(&models[model], name),
        "polychip",
    )
}

/// The H200's file: f32 and 16 bits of each model.
pub(super) fn gpu(raw: &Value) -> Result<Table> {
    let rows = raw["rows"].as_array().context("it has no rows")?;
    let column = |row: &Value| {
        Some(format!(
            "{} {}",
            row["model"].as_str()?,
            row["precision"].as_str()?
        ))
    };
    let mut columns: Vec<String> = rows.iter().filter_map(column).collect();
    columns.dedup();
    let names = ["litert", "ncnn", "onnxruntime-webgpu", "torch"];
    let median = |of: &String, peer: &str| {
        let row = rows
            .iter()
            .find(|row| column(row).as_ref() == Some(of) && row["peer"] == peer)?;
        row["median_ms"].as_f64()
    };
    ratios(&columns.iter().collect::<Vec<_>>(), &names, median, "polychip")
}

/// Tokens a second of language models, as times of a token.
pub(super) fn tokens(raw: &Value, threads: u64) -> Result<Table> {
    let tables = raw.as_array().context("it is not a list")?;
    let table = tables
        .iter()
        .find(|table| table["threads"] == threads)
        .with_context(|| format!("it has no figures for {threads} threads"))?;
    let columns = ["pp32", "pp128", "pp512", "pp2048", "tg128"].map(str::to_owned);
    let names = [
        "polychip exact",
        "llama.cpp",
        "onnxruntime-genai",
        "openvino-genai",
    ];
    let median = |column: &String, name: &str| Some(1.0 / table["medians"][name][column].as_f64()?);
    ratios(
        &columns.iter().collect::<Vec<_>>(),
        &names,
        median,
        "polychip reduced",
    )
}

/// Each over ours.
fn ratios(
    columns: &[&String],
    names: &[&str],
    time: impl Fn(&String, &str) -> Option<f64>,
    ours: &str,
) -> Result<Table> {
    ensure!(!columns.is_empty(), "it has no columns");
    let mut base = Vec::new();
    for column in columns {
        let time = time(column, ours).with_context(|| format!("{column} has no figure for {ours}"))?;
        ensure!(time > 0.0, "{column}: {ours} takes {time}");
        base.push(time);
    }
    let series = names.iter().map(|name| {
        let values = columns.iter().zip(&base);
        let values = values.map(|(column, base)| Some(time(column, name)? / base));
        ((*name).to_owned(), values.collect::<Vec<_>>())
    });
    let series: Vec<(String, Vec<Option<f64>>)> = series.collect();
    for (name, values) in &series {
        ensure!(values.iter().any(Option::is_some), "it has no figures for {name}");
    }
    Ok(Table {
        columns: columns.iter().map(|column| (*column).clone()).collect(),
        series,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratio_is_peer_over_ours_and_missing_values_are_gaps() {
        let of = |ms: f64| json!({ "p50_ms": ms });
        let raw = json!({ "models": {
            "b": { "peers": { "polychip": of(2.0), "onnxruntime": of(3.0), "openvino": of(1.0), "rten": of(4.0), "tract": of(8.0) } },
            "a": { "peers": { "polychip": of(1.0), "onnxruntime": of(0.5), "openvino": of(1.0), "rten": of(4.0) } },
        } });
        let table = bytes(&raw).unwrap();
        assert_eq!(table.columns, ["a", "b"]);
        assert_eq!(
            table.series[0],
            ("onnxruntime".to_owned(), vec![Some(0.5), Some(1.5)])
        );
        assert_eq!(table.series[3], ("tract".to_owned(), vec![None, Some(4.0)]));
        let error = format!("{:#}", floats(&raw).unwrap_err());
        assert!(error.contains("openvino-f32"), "{error}");
        assert!(bytes(&json!({ "models": { "a": { "peers": {} } } })).is_err());
    }
}
