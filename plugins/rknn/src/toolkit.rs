//! The vendor's compiler in a separate process: a Python with `rknn-toolkit2`, or a program with
//! the same protocol.
//!
//! The program is started with one argument, a file with the request in JSON. It writes its reply,
//! in JSON, to the file that the request names, and the compiled part to another. Its output is the
//! log from which the table of layers is read. `compile.py` is the program if a Python is named.
//!
//! Invariants:
//! 1. However the program ends (never, too late, by a signal, without a reply, with an invalid
//!    one), compilation ends with an error that names it and the remedy. No process and no file of
//!    it remains.
//! 2. Files of the program are read up to a limit, and checked.
//!
//! Not here: what is compiled (`lower`), the table's text ([`table`]).

pub(crate) mod table;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use polychip_lowering::vendor_compiler::{Child, Folder, read};
use polychip_sdk::onnx::Release;
use polychip_sdk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use self::table::Row;
use crate::settings::Settings;

const PREFIX: &str = "polychip-rknn-";
const REMEDY: &str = "set python to a Python that has rknn-toolkit2 (or RKNN_PYTHON), or compiler";
/// The program that a Python runs.
const SCRIPT: &str = include_str!("toolkit/compile.py");
/// What the toolkit reads at most.
pub(crate) const READ: Release = Release {
    opset: 19,
    ir_version: 9,
};
/// Magic number of a compiled part.
pub(crate) const MAGIC: &[u8] = b"RKNN";
/// The longest answer, log and compiled part that are read, in bytes.
const ANSWER_BYTES: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;
const BLOB_BYTES: u64 = u32::MAX as u64;
/// The longest that the version may take: a Python reads its packages.
const VERSION_PATIENCE: Duration = Duration::from_secs(30);

/// The request to the program.
#[derive(Serialize)]
struct Request<'a> {
    /// `version` or `compile`.
    ask: &'a str,
    model: &'a Path,
    blob: &'a Path,
    result: &'a Path,
    target_platform: &'a str,
    quantized_dtype: Option<&'a str>,
    quantized_algorithm: Option<&'a str>,
    dataset: Option<&'a Path>,
    optimization_level: u32,
    single_core_mode: bool,
    custom_string: &'a str,
}

/// The reply.
#[derive(Deserialize)]
struct ToolkitReply {
    ok: bool,
    #[serde(default)]
    toolkit: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    stage: String,
    #[serde(default)]
    error: String,
}

/// A part that was compiled.
pub(crate) struct Compiled {
    /// The `.rknn` file.
    pub(crate) blob: Vec<u8>,
    /// The table of layers; empty where the log held none.
    pub(crate) rows: Vec<Row>,
}

/// The compiler.
pub(crate) struct Toolkit {
    settings: Settings,
    version: String,
}

impl Toolkit {
    /// The compiler that the settings name, once it has said its version.
    ///
    /// # Errors
    /// A message that names what is missing and how to obtain it.
    pub(crate) fn find(settings: &Settings) -> std::result::Result<Toolkit, String> {
        let mut toolkit = Toolkit {
            settings: settings.clone(),
            version: String::new(),
        };
        toolkit.version = match &settings.toolkit {
            Some(stated) => stated.clone(),
            None => toolkit.ask_version().map_err(|error| error.to_string())?,
        };
        Ok(toolkit)
    }

    /// Its version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    fn name(&self) -> String {
        match &self.settings.compiler {
            Some(program) => program.display().to_string(),
            None => format!("{} with rknn-toolkit2", self.settings.python),
        }
    }

    fn ask_version(&self) -> Result<String> {
        let folder = Folder::new(PREFIX)?;
        let patience = self.settings.patience.min(VERSION_PATIENCE);
        let answer = self.ask(&folder, "version", "", "", patience)?;
        let plain = |c: char| c.is_ascii_graphic();
        if answer.toolkit.is_empty() || answer.toolkit.len() > 64 || !answer.toolkit.chars().all(plain) {
            return Err(Error::unsupported(format!("{} says no version", self.name())));
        }
        Ok(answer.toolkit)
    }

    /// Compiles a model for a target. The compiled part carries `mark`, which the runtime gives back.
    ///
    /// # Errors
    /// `Unsupported` if the toolkit refuses; `Transient` where the machine failed it; both name the compiler.
    pub(crate) fn compile(&self, model: &[u8], target: &str, mark: &str) -> Result<Compiled> {
        let folder = Folder::new(PREFIX)?;
        folder.write("part.onnx", model)?;
        self.ask(&folder, "compile", target, mark, self.settings.patience)?;
        let blob = read(&folder.file("part.rknn"), BLOB_BYTES)
            .map_err(|why| Error::unsupported(format!("{} left no compiled part: {why}", self.name())))?;
        if !blob.starts_with(MAGIC) {
            return Err(Error::unsupported(format!(
                "{} left {} bytes that are no .rknn file",
                self.name(),
                blob.len()
            )));
        }
        // the log is the toolkit's own, and a part runs without its table too
        let log = read(&folder.file("log"), LOG_BYTES).unwrap_or_default();
        Ok(Compiled {
            blob,
            rows: table::rows(&String::from_utf8_lossy(&log)),
        })
    }

    /// Runs the program on a request to its end, and reads its answer.
    fn ask(
        &self,
        folder: &Folder,
        ask: &str,
        target: &str,
        mark: &str,
        patience: Duration,
    ) -> Result<ToolkitReply> {
        let settings = &self.settings;
        let quantise = settings.quantise.as_ref();
        let (model, blob, result) = (
            folder.file("part.onnx"),
            folder.file("part.rknn"),
            folder.file("result.json"),
        );
        let request = Request {
            ask,
            model: &model,
            blob: &blob,
            result: &result,
            target_platform: target,
            quantized_dtype: quantise.map(|quantise| &*quantise.dtype),
            quantized_algorithm: quantise.map(|quantise| &*quantise.algorithm),
            dataset: quantise.map(|quantise| &*quantise.dataset),
            optimization_level: settings.optimization_level,
            single_core_mode: settings.single_core_mode,
            custom_string: mark,
        };
        let json = serde_json::to_vec(&request).map_err(|error| Error::unsupported(error.to_string()))?;
        let request = folder.write("request.json", &json)?;
        let mut command = match &settings.compiler {
            Some(program) => Command::new(program),
            None => {
                let mut command = Command::new(&settings.python);
                command.arg(folder.write("compile.py", SCRIPT.as_bytes())?);
                command
            }
        };
        command.arg(&request).current_dir(folder.path());
        let name = self.name();
        let child = Child {
            name: &name,
            remedy: REMEDY,
            patience,
        };
        let status = child.run(command, &folder.file("log"))?;
        let Ok(answer) = read(&result, ANSWER_BYTES) else {
            return Err(child.ended(status, &folder.file("log")));
        };
        let answer: ToolkitReply = serde_json::from_slice(&answer).map_err(|error| {
            Error::unsupported(format!("{} answered what is no answer: {error}", self.name()))
        })?;
        if answer.ok {
            return Ok(answer);
        }
        Err(self.refused(&answer))
    }

    /// The error of a program that reports a failure.
    fn refused(&self, answer: &ToolkitReply) -> Error {
        let words: String = answer.error.chars().take(600).collect();
        let words = words.replace('\n', " ");
        let name = self.name();
        match &*answer.kind {
            "missing" => Error::unsupported(format!(
                "{name} lacks a module ({words}): install rknn-toolkit2 for that Python, or set python to another"
            )),
            "memory" => Error::new(ErrorKind::OutOfMemory, format!("{name} ran out of memory")),
            _ => {
                let stage: String = answer.stage.chars().take(40).collect();
                Error::unsupported(format!("{name} refused the part in {stage}: {words}"))
            }
        }
    }
}
