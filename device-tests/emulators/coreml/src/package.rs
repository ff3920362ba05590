//! Packages, decoded from their bytes.
//!
//! Invariant: a decoded program names each value once, before it is read, with a type and extents.
//!
//! Not here: what ops mean (`program`).

mod blob;
mod element;
mod model;
mod wire;

use std::path::Path;

pub(crate) use element::Type;
pub(crate) use model::{Constant, Content, Function, Model, Operation, Shaped};

/// Reads a package's folder.
pub(crate) fn open(folder: &Path) -> Result<Model, String> {
    let manifest = read(&folder.join("Manifest.json"))?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&manifest).map_err(|error| format!("Manifest.json: {error}"))?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    if text(&manifest["fileFormatVersion"]).as_deref() != Some("1.0.0") {
        return Err("Manifest.json: fileFormatVersion is not 1.0.0".to_owned());
    }
    let root = text(&manifest["rootModelIdentifier"]).ok_or("Manifest.json: no rootModelIdentifier")?;
    let items = &manifest["itemInfoEntries"];
    for (id, item) in items.as_object().ok_or("Manifest.json: no itemInfoEntries")? {
        for key in ["author", "description", "name", "path"] {
            text(&item[key]).ok_or_else(|| format!("Manifest.json: item {id} has no {key}"))?;
        }
    }
    let path = text(&items[&root]["path"]).ok_or("Manifest.json: the root model is no item")?;
    let path = folder.join("Data").join(path);
    compiled(&path)
}

/// Reads a model with the weights beside it.
pub(crate) fn compiled(path: &Path) -> Result<Model, String> {
    let beside = path.parent().unwrap_or(path).join("weights/weight.bin");
    let weights = if beside.is_file() {
        read(&beside)?
    } else {
        Vec::new()
    };
    Model::decode(&read(path)?, &weights)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
