//! The inputs of a run, from files or generated from a seed.
//!
//! Invariants:
//! 1. Every input has a value of its type and shape, or an error names it.
//! 2. A named dimension takes its size from the file; where files disagree, each input has its own size.
//! 3. The first bytes of a file say what it holds, because a pipe has no name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polychip::{DType, Literal, Model, Packed};
use polychip_graph::onnx::content;
use polychip_graph::{Container, Tensor};
use polychip_ops::PACKED_BYTES;

use crate::array::Array;
use crate::exit::{bad_input, usage};
use crate::media_arguments::MediaArguments;
use crate::{file, fill, media, npy};

/// Where the inputs come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArguments {
    /// Read an input from a .npy file of its type and shape; strings also from nested lists in a .json file; or from a .png
    /// or .jpg picture, a .wav or a .txt file
    ///
    /// `-` reads standard input. Repeat the option for each tensor of a sequence.
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
    /// The file, `left out` of an optional, or `None` if generated.
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
        let mut arrays: BTreeMap<String, (Array, PathBuf)> = BTreeMap::new();
        let mut sequences: BTreeMap<String, Vec<Literal>> = BTreeMap::new();
        for (name, path) in &self.inputs {
            let (name, path) = split(model, name, path);
            let Some(tensor) = input(model, &name) else {
                return Err(no_input(model, &name));
            };
            let is_sequence = matches!(
                tensor.container,
                Container::Sequence | Container::OptionalSequence
            );
            if arrays.contains_key(&name) && !is_sequence {
                return Err(usage(format!("--input {name} is given twice")));
            }
            let mut array = array(&path, tensor, media)
                .map_err(|error| bad_input(format!("input {name:?}: {}: {error:#}", path.display())))?;
            if is_sequence {
                let elements = sequences.entry(name.clone()).or_default();
                elements.push(element(&name, tensor, array, &path)?);
                array = packed(&name, &Packed::Sequence(elements.clone()))?;
            } else {
                fit(&mut array, tensor, &name, &path)?;
            }
            if tensor.container == Container::Optional {
                array = packed(&name, &Packed::Tensor(element(&name, tensor, array, &path)?))?;
            }
            arrays.insert(name, (array, path));
        }
        let model = bind_sizes(model, &arrays)?;
        let unranked = model.graph().inputs.iter().map(|id| model.graph().tensor(*id));
        let mut unranked =
            unranked.filter(|tensor| tensor.typed && tensor.is_tensor() && tensor.ty.shape.is_none());
        if let Some(tensor) = unranked.next() {
            return Err(bad_input(format!(
                "input {0:?} has no shape in the model; give --input {0}=FILE, or set it with --shape {0}=1x2x3",
                tensor.name
            )));
        }
        let open = model.open_dims();
        if !open.is_empty() && self.fill.is_none() && !arrays.is_empty() {
            let missing: Vec<&str> = model
                .graph()
                .inputs
                .iter()
                .map(|id| model.graph().tensor(*id))
                .filter(|tensor| !arrays.contains_key(&tensor.name) && !is_optional(tensor))
                .map(|tensor| &*tensor.name)
                .collect();
            if let Some(name) = missing.first() {
                return Err(bad_input(format!(
                    "these inputs have no value: {}; give --input {name}=FILE for each, or generate them with --fill SEED",
                    missing.join(", ")
                )));
            }
        }
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
            let name = tensor.name.clone();
            if tensor.container != Container::Tensor
                && let Some((array, path)) = arrays.remove(&name)
            {
                given.push(InputData {
                    name,
                    array,
                    file: Some(path),
                });
                continue;
            }
            if is_optional(tensor) {
                let array = packed(&name, &Packed::Nothing)?;
                given.push(InputData {
                    name,
                    array,
                    file: Some("left out".into()),
                });
                continue;
            }
            let (dtype, shape) = wanted(tensor)?;
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
                        file: Some(path),
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

/// Whether the model takes an input as left out.
fn is_optional(tensor: &Tensor) -> bool {
    matches!(
        tensor.container,
        Container::Optional | Container::OptionalSequence
    )
}

/// Type and shape of an input whose sizes are bound.
fn wanted(tensor: &Tensor) -> anyhow::Result<(DType, Vec<usize>)> {
    let name = &tensor.name;
    if tensor.container == Container::Sequence {
        return Err(bad_input(format!(
            "input {name:?} is a sequence; give each of its tensors, as --input {name}=a.npy --input {name}=b.npy"
        )));
    }
    if !tensor.typed || tensor.container != Container::Tensor {
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

/// The input of this name, or the one with a default.
fn input<'a>(model: &'a Model, name: &str) -> Option<&'a Tensor> {
    let graph = model.graph();
    let input = graph.input_named(name).map(|id| graph.tensor(id));
    input.or_else(|| graph.defaults.iter().find(|tensor| tensor.name == name))
}

/// The name and file of `NAME=FILE`, which was split at the first `=`: where a longer name is an input of the model, that
/// one.
fn split(model: &Model, name: &str, path: &Path) -> (String, PathBuf) {
    let text = format!("{name}={}", path.display());
    let places = text.rmatch_indices('=').map(|(at, _)| at);
    let mut splits = places.map(|at| (&text[..at], &text[at + 1..]));
    match splits.find(|(name, file)| !file.is_empty() && input(model, name).is_some()) {
        Some((name, file)) if path.to_str().is_some() => (name.to_owned(), file.into()),
        _ => (name.to_owned(), path.to_owned()),
    }
}

/// Files that an input may be read from.
const FILES: &str = ".npy, .json, .png, .jpg, .wav or .txt files";

/// Reads a file as the value of an input.
fn array(path: &Path, tensor: &Tensor, media: &MediaArguments) -> anyhow::Result<Array> {
    let bytes = file::content(path)?;
    if bytes.starts_with(b"\x93NUMPY") {
        return npy::read(&bytes);
    }
    if let Some(array) = media::read(path, &bytes, tensor, media)? {
        return Ok(array);
    }
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    if extension.as_deref() == Some("json") {
        anyhow::ensure!(
            tensor.typed && tensor.ty.dtype == DType::String,
            "only inputs of strings are read from JSON; this one is {}",
            tensor.ty
        );
        return strings(&serde_json::from_slice(&bytes)?);
    }
    let what = content::of(&bytes);
    if let Some(what) = what.as_ref().filter(|what| what.is_certain) {
        anyhow::bail!("it is {}: {}", what.words, what.remedy);
    }
    match (extension.as_deref(), what) {
        (Some("npy"), _) => npy::read(&bytes),
        (_, Some(what)) => anyhow::bail!("it is {}; inputs are {FILES}", what.words),
        (_, None) => anyhow::bail!("inputs are {FILES}"),
    }
}

/// The declared sizes of an input, such as `[batch, 4]`.
fn dims_of(tensor: &Tensor) -> String {
    let dims: Vec<String> = tensor
        .ty
        .shape
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    format!("[{}]", dims.join(", "))
}

/// Checks the rank of an array. A scalar and a list of one have the rank that the model declares.
fn fit(array: &mut Array, tensor: &Tensor, name: &str, path: &Path) -> anyhow::Result<()> {
    let Some(dims) = &tensor.ty.shape else {
        return Ok(());
    };
    let declared: Option<Vec<usize>> = dims.iter().map(polychip_ops::Dim::known).collect();
    let is_one = |shape: &[usize]| matches!(shape, [] | [1]);
    if let Some(declared) = declared.filter(|declared| is_one(declared) && is_one(&array.shape)) {
        array.shape = declared;
    }
    let is_packed = tensor.ty.dtype.bits().is_some_and(|bits| bits < 8);
    if array.shape.len() == dims.len() || is_packed {
        return Ok(());
    }
    Err(bad_input(format!(
        "input {name:?} takes rank {}, {} {}; {} holds rank {}, {} {:?}",
        dims.len(),
        tensor.ty.dtype.name(),
        dims_of(tensor),
        path.display(),
        array.shape.len(),
        array.dtype.name(),
        array.shape
    )))
}

/// A tensor of a sequence, or that of an optional.
fn element(name: &str, tensor: &Tensor, array: Array, path: &Path) -> anyhow::Result<Literal> {
    if tensor.typed && tensor.ty.dtype != array.dtype {
        return Err(bad_input(format!(
            "input {name:?} is {} of {}; {} holds {}",
            if tensor.container == Container::Optional {
                "an optional tensor"
            } else {
                "a sequence"
            },
            tensor.ty.dtype.name(),
            path.display(),
            array.dtype.name()
        )));
    }
    let literal = Literal::new(array.dtype, array.shape, array.bytes);
    literal.ok_or_else(|| {
        bad_input(format!(
            "input {name:?}: {}: its bytes do not fit its shape",
            path.display()
        ))
    })
}

/// A sequence or an optional as a session takes it.
fn packed(name: &str, value: &Packed) -> anyhow::Result<Array> {
    let mut bytes = value.to_bytes();
    if bytes.len() > PACKED_BYTES {
        return Err(bad_input(format!(
            "input {name:?}: a sequence or an optional has at most {PACKED_BYTES} bytes; this one has {}",
            bytes.len()
        )));
    }
    bytes.resize(PACKED_BYTES, 0);
    Ok(Array {
        dtype: DType::U8,
        shape: vec![PACKED_BYTES],
        bytes,
    })
}

/// The model with the sizes, ranks and inputs with a default that files give.
fn bind_sizes(model: &Model, arrays: &BTreeMap<String, (Array, PathBuf)>) -> anyhow::Result<Model> {
    let packed = |name: &str| {
        input(model, name).is_none_or(|tensor| {
            let bits = tensor.ty.dtype.bits();
            !tensor.is_tensor() || bits.map_or(tensor.ty.dtype != DType::String, |bits| bits < 8)
        })
    };
    let given = arrays.iter().filter(|(name, _)| !packed(name));
    let shapes: Vec<(&str, &[usize])> = given
        .clone()
        .map(|(name, (array, _))| (&**name, &*array.shape))
        .collect();
    // a size that does not fit is said with the file, later
    let fits = |(name, shape): &(&str, &[usize])| {
        let dims = input(model, name).and_then(|tensor| tensor.ty.shape.as_deref());
        dims.is_none_or(|dims| {
            let mut sizes = dims.iter().zip(*shape);
            dims.len() == shape.len()
                && sizes.all(|(dim, size)| dim.known().is_none_or(|known| known == *size))
        })
    };
    if let Some((name, (array, path))) = given
        .zip(&shapes)
        .find(|(_, shape)| !fits(shape))
        .map(|(given, _)| given)
    {
        let tensor = input(model, name).expect("invariant: it was found");
        return Err(bad_input(format!(
            "input {name:?} expects {} {}; {} holds {} {:?}",
            tensor.ty.dtype.name(),
            dims_of(tensor),
            path.display(),
            array.dtype.name(),
            array.shape
        )));
    }
    Ok(model.bind_shapes(shapes)?)
}

fn no_input(model: &Model, name: &str) -> anyhow::Error {
    let graph = model.graph();
    let inputs = graph.inputs.iter().map(|id| graph.tensor(*id));
    let known: Vec<&str> = inputs
        .chain(&graph.defaults)
        .map(|tensor| &*tensor.name)
        .collect();
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
