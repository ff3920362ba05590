//! The Python process that draws graphs and runs them in ONNX Runtime (`peer.py`).
//!
//! Invariants:
//! 1. A dead process is restarted, and a crash is distinguished from a refusal.
//! 2. Answers come in the order of the questions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use polychip_ops::{DType, Literal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tensor in a file.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct TensorFile {
    pub(crate) name: String,
    dtype: String,
    shape: Vec<usize>,
    file: PathBuf,
}

/// A model in a file, with what goes into it and what ONNX Runtime makes of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Drawn {
    pub(crate) model: Option<PathBuf>,
    /// Op types of its nodes.
    pub(crate) ops: Vec<String>,
    #[serde(default)]
    inputs: Vec<TensorFile>,
    #[serde(default)]
    outputs: Vec<TensorFile>,
    /// Why ONNX Runtime does not run it.
    pub(crate) refusal: Option<String>,
    /// Names of its nodes, in order.
    #[serde(default)]
    pub(crate) nodes: Vec<String>,
    /// Whether values are infinite, or so large or small that products leave their type's range.
    #[serde(default)]
    pub(crate) extreme: bool,
    /// Ops that were drawn and that ONNX Runtime refused.
    #[serde(default)]
    pub(crate) refused: BTreeMap<String, String>,
}

/// What others make of a part.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Judged {
    /// The part in ONNX's text form.
    pub(crate) text: String,
    /// Attributes of its nodes, in words.
    pub(crate) attributes: BTreeMap<String, String>,
    /// Why ONNX's checker refuses it.
    pub(crate) invalid: Option<String>,
    /// Whether values are so large or small that products leave their type's range.
    pub(crate) extreme: bool,
    /// Whether an infinity or a NaN is read.
    pub(crate) not_finite: bool,
    pub(crate) referee: Option<Vec<TensorFile>>,
    pub(crate) referee_refusal: Option<String>,
    pub(crate) optimised: Option<Vec<TensorFile>>,
    /// Outputs of a part of several nodes, each time with what passes between its nodes moved by rounding.
    #[serde(default)]
    pub(crate) rounded: Vec<Vec<TensorFile>>,
    /// How far partial products go, of a lone ReduceProd.
    pub(crate) products: Option<Vec<TensorFile>>,
    /// What a lone Resize of integers makes before they become integers.
    pub(crate) averages: Option<Vec<TensorFile>>,
}

pub(crate) type Tensors = BTreeMap<String, Literal>;

/// Data types by NumPy's names.
const DTYPES: [(&str, DType); 12] = [
    ("float16", DType::F16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("bool", DType::Bool),
];

/// Writes tensors into a folder, for [`Peer::cut`].
///
/// # Errors
/// A file cannot be written, or a tensor has a type that is not drawn.
pub(crate) fn write(folder: &Path, tensors: &Tensors) -> Result<Vec<TensorFile>> {
    tensors
        .iter()
        .enumerate()
        .map(|(place, (name, value))| {
            let known = DTYPES.iter().find(|(_, dtype)| *dtype == value.dtype);
            let (dtype, _) = known.with_context(|| format!("{name}: elements of {}", value.dtype.name()))?;
            let file = folder.join(place.to_string());
            std::fs::write(&file, &value.bytes).with_context(|| file.display().to_string())?;
            Ok(TensorFile {
                name: name.clone(),
                dtype: (*dtype).to_owned(),
                shape: value.shape.clone(),
                file,
            })
        })
        .collect()
}

/// Reads tensors by their names.
///
/// # Errors
/// A file is not there, or holds a type that is not compared.
pub(crate) fn read(files: &[TensorFile]) -> Result<Tensors> {
    files
        .iter()
        .map(|file| {
            let known = DTYPES.iter().find(|(name, _)| *name == file.dtype);
            let dtype = known
                .with_context(|| format!("{}: elements of {}", file.name, file.dtype))?
                .1;
            let literal = Literal::new(dtype, file.shape.clone(), std::fs::read(&file.file)?);
            Ok((
                file.name.clone(),
                literal.with_context(|| format!("{}: another size", file.name))?,
            ))
        })
        .collect()
}

impl Drawn {
    /// Values of its inputs.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn inputs(&self) -> Result<Tensors> {
        read(&self.inputs)
    }

    /// What ONNX Runtime made.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn outputs(&self) -> Result<Tensors> {
        read(&self.outputs)
    }
}

struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process, and how to start another.
pub(crate) struct Peer {
    python: PathBuf,
    arguments: Vec<String>,
    process: Process,
    /// Times that it died.
    pub(crate) deaths: usize,
}

fn start(python: &Path, arguments: &[String]) -> Result<Process> {
    let mut child = Command::new(python)
        .arg("-B")
        .arg(script())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // ONNX Runtime's warnings; what matters comes in the answers
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", python.display()))?;
    let to = child.stdin.take().context("no standard input")?;
    let from = BufReader::new(child.stdout.take().context("no standard output")?);
    Ok(Process { child, to, from })
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peer.py")
}

impl Peer {
    /// Starts the process; its files go to `folder`.
    ///
    /// # Errors
    /// Python cannot be started.
    pub(crate) fn start(python: &Path, seed: u64, folder: &Path, only: &[String]) -> Result<Peer> {
        let mut arguments = vec![seed.to_string(), folder.display().to_string()];
        arguments.extend(only.iter().cloned());
        Ok(Peer {
            python: python.to_owned(),
            process: start(python, &arguments)?,
            arguments,
            deaths: 0,
        })
    }

    /// The answer to a question; none where the process died of it.
    fn ask<T: for<'a> Deserialize<'a>>(&mut self, question: &Value) -> Result<Option<T>> {
        let mut line = String::new();
        let asked = writeln!(self.process.to, "{question}").and_then(|()| self.process.to.flush());
        if asked.is_ok() && self.process.from.read_line(&mut line)? > 0 {
            return Ok(Some(serde_json::from_str(&line).with_context(|| line)?));
        }
        self.deaths += 1;
        self.process = start(&self.python, &self.arguments)?;
        Ok(None)
    }

    /// The graph of an index; none where the process died of it.
    ///
    /// # Errors
    /// The process cannot be started, or answers nonsense.
    pub(crate) fn draw(&mut self, index: usize) -> Result<Option<Drawn>> {
        self.ask(&json!({ "draw": index }))
    }

    /// The nodes of these names of a graph, on what ONNX Runtime made before them but for the tensors that are given.
    ///
    /// # Errors
    /// As [`Peer::draw`].
    pub(crate) fn cut(
        &mut self,
        index: usize,
        keep: &[String],
        given: &[TensorFile],
    ) -> Result<Option<Drawn>> {
        self.ask(&json!({ "cut": index, "keep": keep, "given": given }))
    }

    /// What others make of the part that was cut last.
    ///
    /// # Errors
    /// As [`Peer::draw`].
    pub(crate) fn judge(&mut self) -> Result<Option<Judged>> {
        self.ask(&json!({ "judge": true }))
    }
}

/// The ops that are drawn.
///
/// # Errors
/// Python cannot be started, or answers nonsense.
pub(crate) fn ops(python: &Path) -> Result<Vec<String>> {
    let found = Command::new(python).arg("-B").arg(script()).arg("ops").output()?;
    ensure!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    Ok(serde_json::from_slice(&found.stdout)?)
}
