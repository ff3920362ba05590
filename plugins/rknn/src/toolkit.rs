//! The vendor's compiler, in a process of its own: a Python that has `rknn-toolkit2`, or a program that speaks the same.
//!
//! The program is started with one argument, a file with the request in JSON; it writes its answer, in JSON, to the file
//! that the request names, and the compiled part to another. What it prints is the log that the table of layers is read
//! from. `compile.py` is the program where a Python is named.
//!
//! Invariants:
//! 1. However the program ends (never, too late, by a signal, without an answer, with nonsense), compiling ends with an
//!    error that names it and says what to do; nothing that it started goes on, and no file of it stays.
//! 2. Files of the program's are read up to a limit, and checked: none is believed.
//!
//! Not here: what is compiled (`lower`), the table's text ([`table`]).

pub(crate) mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use self::table::Row;
use crate::settings::Settings;

/// The program that a Python runs.
const SCRIPT: &str = include_str!("toolkit/compile.py");
/// What a compiled part begins with.
pub(crate) const MAGIC: &[u8] = b"RKNN";
/// The longest answer, log and compiled part that are read, in bytes.
const ANSWER_BYTES: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;
const BLOB_BYTES: u64 = u32::MAX as u64;
/// How often the program's end is looked for, at first and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// The longest that the version may take: a Python reads its packages.
const VERSION_PATIENCE: Duration = Duration::from_secs(30);

/// What the program is asked.
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

/// What it answers.
#[derive(Deserialize)]
struct Answer {
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

/// The files of one question; they go when it is dropped.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Result<Folder> {
        let folder = tempfile::Builder::new().prefix("polychip-rknn-").tempdir();
        let folder =
            folder.map_err(|error| passing(format!("no folder for the compiler's files: {error}")))?;
        Ok(Folder { folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.file(name);
        std::fs::write(&path, bytes)
            .map_err(|error| passing(format!("{} cannot be written: {error}", path.display())))?;
        Ok(path)
    }
}

fn passing(words: String) -> Error {
    Error::new(ErrorKind::Transient, words)
}

impl Toolkit {
    /// The compiler that the settings name, once it has said its version.
    ///
    /// # Errors
    /// Words that say what is missing and how to get it.
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
        let folder = Folder::new()?;
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
    /// `Unsupported` where the toolkit refuses; `Transient` where the machine failed it; both name the compiler.
    pub(crate) fn compile(&self, model: &[u8], target: &str, mark: &str) -> Result<Compiled> {
        let folder = Folder::new()?;
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
    ) -> Result<Answer> {
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
        command.arg(&request).current_dir(folder.folder.path());
        let status = self.run(command, &folder.file("log"), patience)?;
        let Ok(answer) = read(&result, ANSWER_BYTES) else {
            return Err(self.ended(status, &folder.file("log")));
        };
        let answer: Answer = serde_json::from_slice(&answer).map_err(|error| {
            Error::unsupported(format!("{} answered what is no answer: {error}", self.name()))
        })?;
        if answer.ok {
            return Ok(answer);
        }
        Err(self.refused(&answer))
    }

    /// Starts the program, its words into a file, and waits for its end; what it started ends with it.
    fn run(&self, mut command: Command, log: &Path, patience: Duration) -> Result<ExitStatus> {
        let to_log = || -> std::io::Result<(File, File)> {
            let file = File::create(log)?;
            Ok((file.try_clone()?, file))
        };
        let (out, err) = to_log().map_err(|error| passing(format!("{}: {error}", log.display())))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        #[cfg(unix)]
        {
            // a group of its own, so that its end is the end of all of it
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let child = command.spawn().map_err(|error| {
            Error::unsupported(format!(
                "{} cannot be started ({error}): set python to a Python that has rknn-toolkit2 (or RKNN_PYTHON), or compiler",
                self.name()
            ))
        })?;
        let mut child = Ended(child);
        let start = Instant::now();
        let mut look = LOOK.0;
        loop {
            match child.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(passing(format!("{} is lost: {error}", self.name()))),
            }
            if start.elapsed() >= patience {
                return Err(Error::unsupported(format!(
                    "{} took more than {} s and was ended: raise timeout_s",
                    self.name(),
                    patience.as_secs()
                )));
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK.1);
        }
    }

    /// The error of a program that ended without an answer.
    fn ended(&self, status: ExitStatus, log: &Path) -> Error {
        let last = read(log, LOG_BYTES).unwrap_or_default();
        let last = String::from_utf8_lossy(&last);
        let last = last.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or("nothing".to_owned(), |line| {
            line.trim().chars().take(200).collect()
        });
        Error::unsupported(format!(
            "{} ended ({status}) without an answer; it said last: {last}",
            self.name()
        ))
    }

    /// The error of a program that says that it failed.
    fn refused(&self, answer: &Answer) -> Error {
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

/// A program that is ended with all that it started when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            let group = i32::try_from(self.0.id()).ok();
            if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
                // the group outlives its first process where that left others behind
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file of the program's, up to a limit.
fn read(path: &Path, most: u64) -> std::result::Result<Vec<u8>, String> {
    let words = |error: std::io::Error| error.to_string();
    // opening a pipe would wait for its other end
    if !std::fs::metadata(path).map_err(words)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = File::open(path).map_err(words)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(words)?;
    if bytes.len() as u64 > most {
        return Err(format!("it is longer than {most} bytes"));
    }
    Ok(bytes)
}
