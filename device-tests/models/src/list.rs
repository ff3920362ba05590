//! The tables of models: `models.toml`, of packages, and `tabular.toml`, of what is trained on request.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

const PUBLISHED: &str = include_str!("../models.toml");
const TABULAR: &str = include_str!("../tabular.toml");

#[derive(Deserialize)]
struct Table {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    model: Vec<ModelRow>,
}

#[derive(Deserialize)]
struct ModelRow {
    name: String,
    file: String,
    inputs: BTreeMap<String, toml::Value>,
}

/// A model of the table.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Package and model, such as `silero-vad/half`.
    pub(crate) name: String,
    /// The file beneath the folder of packages.
    pub(crate) file: String,
    /// What inputs are made of, as `inputs.py` reads it: JSON.
    pub(crate) inputs: String,
}

fn read(name: &str, text: &str) -> Result<Vec<Package>> {
    let table: Table = toml::from_str(text).with_context(|| name.to_owned())?;
    Ok(table.package)
}

/// The models whose names contain one of these texts; all without any text.
///
/// # Errors
/// The table is malformed.
pub(crate) fn models(only: &[String]) -> Result<Vec<Entry>> {
    let mut packages = read("models.toml", PUBLISHED)?;
    packages.extend(read("tabular.toml", TABULAR)?);
    let mut entries = Vec::new();
    for package in packages {
        for model in package.model {
            let name = format!("{}/{}", package.name, model.name);
            if only.is_empty() || only.iter().any(|text| name.contains(text)) {
                entries.push(Entry {
                    name,
                    file: format!("{}-{}/{}", package.name, package.version, model.file),
                    inputs: serde_json::to_string(&model.inputs)?,
                });
            }
        }
    }
    Ok(entries)
}
