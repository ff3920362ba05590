//! A list of models in TOML, each with its shapes, inputs and boards.
//!
//! ```toml
//! [[model]]
//! file = "detector.onnx"
//! shapes = { images = [1, 3, 640, 640] }
//! boards = ["soc=rk3588", "phone-a"]
//!
//! [[model]]
//! file = "text.onnx"
//! name = "text encoder"
//! inputs = { ids = "ids.npy" }
//! ```
//!
//! Invariant: a file with an error is refused as a whole, and the message names the model and the key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polychip_farm_record::InventoryEntry;
use serde::Deserialize;

use crate::inventory;

/// A model to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Its file.
    pub file: PathBuf,
    /// Name in records, if another one than the file's.
    pub name: Option<String>,
    /// Shapes of inputs, `INPUT=1x3x48x192`, sorted.
    pub shapes: Vec<String>,
    /// Files with the values of inputs (.npy), by input.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Names of boards, or tags (`key=value`): a board with any of them measures it. Empty for all boards.
    pub boards: Vec<String>,
}

impl ListedModel {
    /// A model without settings of its own.
    #[must_use]
    pub fn of(file: &Path) -> ListedModel {
        ListedModel {
            file: file.to_owned(),
            name: None,
            shapes: Vec::new(),
            inputs: BTreeMap::new(),
            boards: Vec::new(),
        }
    }

    /// Whether a board may measure it.
    #[must_use]
    pub fn is_for(&self, board: &InventoryEntry) -> bool {
        let matches = |wanted: &String| inventory::matches(board, std::slice::from_ref(wanted));
        self.boards.is_empty() || self.boards.iter().any(matches)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "model")]
    models: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: PathBuf,
    name: Option<String>,
    #[serde(default)]
    shapes: BTreeMap<String, Vec<u64>>,
    #[serde(default)]
    inputs: BTreeMap<String, PathBuf>,
    #[serde(default)]
    boards: Vec<String>,
}

/// Reads a list. Paths in it start where the file lies.
///
/// # Errors
/// It cannot be read, or describes a model wrongly; the text names the file.
pub fn read(path: &Path) -> Result<Vec<ListedModel>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    parse(&text, path.parent().unwrap_or(Path::new("."))).map_err(|words| format!("{shown}: {words}"))
}

fn parse(text: &str, base: &Path) -> Result<Vec<ListedModel>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    if file.models.is_empty() {
        return Err("it lists no model; a model begins with [[model]] and a file".to_owned());
    }
    let models = file.models.into_iter().map(|entry| {
        let model = entry.file.display().to_string();
        if entry.name.as_ref().is_some_and(String::is_empty) {
            return Err(format!("model {model:?}: name is empty"));
        }
        for (input, sizes) in &entry.shapes {
            if sizes.is_empty() || sizes.contains(&0) {
                return Err(format!(
                    "model {model:?}: the shape of {input:?} has no size, or one that is 0"
                ));
            }
        }
        for (input, file) in &entry.inputs {
            let is_array = file.extension().is_some_and(|extension| extension == "npy");
            if !is_array || !base.join(file).is_file() {
                let file = file.display();
                return Err(format!(
                    "model {model:?}: {file} for input {input:?} is not an existing .npy file"
                ));
            }
        }
        let shapes = entry.shapes.iter().map(|(input, sizes)| {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("{input}={}", sizes.join("x"))
        });
        Ok(ListedModel {
            file: base.join(&entry.file),
            name: entry.name,
            shapes: shapes.collect(),
            inputs: entry
                .inputs
                .into_iter()
                .map(|(input, file)| (input, base.join(file)))
                .collect(),
            boards: entry.boards,
        })
    });
    models.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_shapes_inputs_and_boards() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ids.npy"), "").unwrap();
        let text = r#"
            [[model]]
            file = "a.onnx"
            shapes = { y = [2], x = [1, 3, 8] }
            boards = ["soc=x", "alone"]
            [[model]]
            file = "/b.onnx"
            name = "b c"
            inputs = { ids = "ids.npy" }
        "#;
        let models = parse(text, folder.path()).unwrap();
        assert_eq!(models[0].file, folder.path().join("a.onnx"));
        assert_eq!(models[0].shapes, ["x=1x3x8", "y=2"]);
        assert_eq!(
            (models[1].file.to_str(), models[1].name.as_deref()),
            (Some("/b.onnx"), Some("b c"))
        );
        assert_eq!(models[1].inputs["ids"], folder.path().join("ids.npy"));
        let board = |name: &str, tag: &str| InventoryEntry {
            name: name.into(),
            transport: "ssh".into(),
            tags: vec![tag.into()],
        };
        assert!(models[0].is_for(&board("a", "soc=x")) && models[0].is_for(&board("alone", "soc=y")));
        assert!(!models[0].is_for(&board("a", "soc=y")) && models[1].is_for(&board("a", "soc=y")));
        for (bad, words) in [
            ("", "lists no model"),
            ("[[model]]\nfile = 'a'\nspeed = 1", "unknown field"),
            (
                "[[model]]\nfile = 'a'\nshapes = { x = [0] }",
                "model \"a\": the shape of \"x\"",
            ),
            (
                "[[model]]\nfile = 'a'\ninputs = { x = 'no.npy' }",
                "not an existing .npy file",
            ),
        ] {
            let error = parse(bad, folder.path()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
