//! The inputs of a run, from files or generated from a seed.
//!
//! Invariants:
//! 1. Every input has a value of its type and shape, or an error names it.
//! 2. A named dimension takes its size from the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use polychip::{DType, Model};
use polychip_graph::Tensor;

use crate::array::Array;
use crate::exit::{bad_input, usage};
use crate::media::{self, MediaArguments};
use crate::{file, fill, npy};

/// Where the inputs come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArguments {
    /// Read an input from a .npy file of its type and shape; strings also from nested lists in a .json file; or from a .png
    /// or .jpg picture, a .wav or a .txt file
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = assignment)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// Generate inputs without a file from this seed: normally distributed floats, integers 0 or 1
    #[arg(long, value_name = "SEED")]
    pub(crate) fill: Option<u64>,
}

/// Reads `NAME=FILE`.
fn assignment(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("write NAME=FILE.npy, NAME=FILE.json or NAME=FILE.png".into()),
    }
}

/// An input with its value.
#[derive(Debug, Clone)]
pub(crate) struct InputData {
    pub(crate) name: String,
    pub(crate) array: Array,
    /// The file, or `None` if generated.
    pub(crate) file: Option<PathBuf>,
}

impl InputArguments {
    /// All inputs generated from seed 0, for runs whose values do not matter.
    pub(crate) fn of_seed() -> InputArguments {
        InputArguments {
            inputs: Vec::new(),
            fill: Some(0),
        }
    }

    /// Reads or generates every input of the model. Also returns the model with sizes from the files.
    pub(crate) fn read(&self, model: &Model) -> anyhow::Result<(Model, Vec<InputData>)> {
        self.read_by(model, &MediaArguments::default())
    }

    /// Like [`InputArguments::read`], with pictures and sound as these options say.
    pub(crate) fn read_by(
        &self,
        model: &Model,
        media: &MediaArguments,
    ) -> anyhow::Result<(Model, Vec<InputData>)> {
        let mut arrays: BTreeMap<&str, (Array, &PathBuf)> = BTreeMap::new();
        for (name, path) in &self.inputs {
            if arrays.contains_key(&**name) {
                return Err(usage(format!("--input {name} is given twice")));
            }
            let Some(id) = model.graph().input_named(name) else {
                return Err(no_input(model, name));
            };
            let array = array(path, model.graph().tensor(id), media)
                .map_err(|error| bad_input(format!("input {name:?}: {}: {error:#}", path.display())))?;
            arrays.insert(name, (array, path));
        }
        let model = bind_sizes(model, &arrays)?;
        let open = model.open_dims();
        if !open.is_empty() {
            return Err(bad_input(format!(
                "{}: the size of {} is open; set each with --dim NAME=N or --shape INPUT=1x2x3",
                model.path().display(),
                open.join(", ")
            )));
        }
        let graph = model.graph();
        let mut names: Vec<&str> = graph.inputs.iter().map(|id| &*graph.tensor(*id).name).collect();
        names.sort_unstable();
        let mut given = Vec::with_capacity(names.len());
        for id in &graph.inputs {
            let tensor = graph.tensor(*id);
            let (dtype, shape) = wanted(tensor)?;
            let name = tensor.name.clone();
            let value = match (arrays.remove(&*name), self.fill) {
                (Some((array, path)), _) => {
                    let array = npy::from_bits(array, dtype, &shape);
                    if (array.dtype, &array.shape) != (dtype, &shape) {
                        return Err(bad_input(format!(
                            "input {name:?} expects {} {shape:?}; {} holds {} {:?}",
                            dtype.name(),
                            path.display(),
                            array.dtype.name(),
                            array.shape
                        )));
                    }
                    InputData {
                        name,
                        array,
                        file: Some(path.clone()),
                    }
                }
                (None, Some(seed)) => {
                    let place = names.iter().position(|other| **other == *name).unwrap_or(0);
                    let array = fill::fill(seed, place as u64, dtype, &shape)
                        .map_err(|error| bad_input(format!("input {name:?} {error}")))?;
                    InputData {
                        name,
                        array,
                        file: None,
                    }
                }
                (None, None) => {
                    return Err(bad_input(format!(
                        "input {name:?} has no value; give --input {name}=FILE, or generate one with --fill SEED"
                    )));
                }
            };
            given.push(value);
        }
        Ok((model, given))
    }
}

/// Type and shape of an input whose sizes are bound.
fn wanted(tensor: &Tensor) -> anyhow::Result<(DType, Vec<usize>)> {
    let name = &tensor.name;
    if !tensor.typed || tensor.container != polychip_graph::Container::Tensor {
        return Err(bad_input(format!(
            "input {name:?} is not a tensor of a known type, and cannot be given"
        )));
    }
    let shape = tensor.ty.sizes().ok_or_else(|| {
        bad_input(format!(
            "input {name:?} has a dimension without size or name; export the model with one"
        ))
    })?;
    Ok((tensor.ty.dtype, shape))
}

/// Reads a file as the value of an input.
fn array(path: &PathBuf, tensor: &Tensor, media: &MediaArguments) -> anyhow::Result<Array> {
    let bytes = std::fs::read(path)?;
    if let Some(array) = media::read(path, &bytes, tensor, media)? {
        return Ok(array);
    }
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("npy") => npy::read(&bytes),
        Some("json") => {
            anyhow::ensure!(
                tensor.typed && tensor.ty.dtype == DType::String,
                "only inputs of strings are read from JSON; this one is {}",
                tensor.ty
            );
            strings(&serde_json::from_slice(&bytes)?)
        }
        _ => anyhow::bail!("inputs are .npy, .json, .png, .jpg, .wav or .txt files"),
    }
}

/// Strings in nested lists, whose lengths are the shape.
fn strings(value: &serde_json::Value) -> anyhow::Result<Array> {
    let mut texts = Vec::new();
    let shape = shape_of(value, &mut texts)?;
    Array::of_strings(shape, &texts).context("holds a text that is too long")
}

fn shape_of<'a>(value: &'a serde_json::Value, texts: &mut Vec<&'a str>) -> anyhow::Result<Vec<usize>> {
    let list = match value {
        serde_json::Value::String(text) => {
            texts.push(text);
            return Ok(Vec::new());
        }
        serde_json::Value::Array(list) => list,
        other => anyhow::bail!("holds {other}, which is neither a string nor a list of strings"),
    };
    let mut inner: Option<Vec<usize>> = None;
    for item in list {
        let shape = shape_of(item, texts)?;
        anyhow::ensure!(
            *inner.get_or_insert_with(|| shape.clone()) == shape,
            "holds lists of different lengths, which have no shape"
        );
    }
    Ok([vec![list.len()], inner.unwrap_or_default()].concat())
}

/// The model with the sizes that files have for dimensions that are only named.
fn bind_sizes(model: &Model, arrays: &BTreeMap<&str, (Array, &PathBuf)>) -> anyhow::Result<Model> {
    let open = model.open_dims();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for (name, (array, _)) in arrays {
        let Some(id) = model.graph().input_named(name) else {
            continue;
        };
        let dims = model.graph().tensor(id).ty.shape.as_deref().unwrap_or_default();
        if dims.len() != array.shape.len() {
            continue; // named as a wrong shape later
        }
        for (dim, size) in dims.iter().zip(&array.shape) {
            let symbol = dim.to_string();
            if dim.known().is_none() && open.contains(&symbol) {
                let before = sizes.entry(symbol.clone()).or_insert(*size);
                if before != size {
                    return Err(bad_input(format!(
                        "the files have sizes {before} and {size} for dimension {symbol}"
                    )));
                }
            }
        }
    }
    Ok(model.bind(sizes)?)
}

fn no_input(model: &Model, name: &str) -> anyhow::Error {
    let graph = model.graph();
    let known: Vec<&str> = graph.inputs.iter().map(|id| &*graph.tensor(*id).name).collect();
    let path = model.path().display();
    match &known[..] {
        [] => bad_input(format!("{path} has no input {name:?}; it has no inputs")),
        known => bad_input(format!(
            "{path} has no input {name:?}; its inputs are: {}",
            known.join(", ")
        )),
    }
}

/// Reads the lines of a file of labels.
pub(crate) fn labels(path: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let text = file::read_text(path)?;
    let labels: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect();
    if labels.is_empty() {
        return Err(bad_input(format!(
            "{}: contains no labels (one per line)",
            path.display()
        )));
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_input_as_name_and_file() {
        assert_eq!(
            assignment("image=a=b.png"),
            Ok(("image".into(), "a=b.png".into()))
        );
        assert!(assignment("image").is_err());
        assert!(assignment("image=").is_err());
    }

    #[test]
    fn nested_lists_of_json_are_strings_of_a_shape() {
        let of = |text: &str| strings(&serde_json::from_str(text).unwrap());
        for (text, shape, texts) in [
            (r#""one""#, &[][..], &["one"][..]),
            (r#"["a", "b"]"#, &[2], &["a", "b"]),
            (r#"[["a"], [""], ["ü"]]"#, &[3, 1], &["a", "", "ü"]),
            ("[]", &[0], &[]),
        ] {
            let array = of(text).unwrap();
            assert_eq!(
                (&*array.shape, array.strings().unwrap()),
                (shape, texts.iter().map(ToString::to_string).collect())
            );
        }
        for (text, said) in [
            (r#"[["a"], ["b", "c"]]"#, "different lengths"),
            ("[1]", "holds 1, which is neither"),
            (r#"["a", ["b"]]"#, "different lengths"),
        ] {
            assert!(of(text).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
