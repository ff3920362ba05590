//! The vendor's compiler: a program that reads an ONNX model and writes an `.om` file.
//!
//! Invariants:
//! 1. However the program ends, compilation ends with a part or with an error that names it and the
//!    remedy.
//! 2. Its output is read up to a limit, and accepted only if it begins like an `.om` file; ports
//!    are checked against the graph when it is loaded (`lower`).
//!
//! Not here: the process (`polychip_lowering::vendor_compiler`), what is compiled (`lower`).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use polychip_lowering::vendor_compiler::{Child, Folder, read};
use polychip_sdk::{Error, GraphView, Result};
use polychip_sys::ascend::HOME;

use crate::settings::{Settings, is_word};

const NAME: &str = "atc";
const PREFIX: &str = "polychip-ascend-";
const REMEDY: &str =
    "install CANN's toolkit and source its set_env.sh, or set the option atc to the program's path";
/// What an `.om` file begins with: the file's magic number, little-endian.
pub(crate) const MAGIC: &[u8] = b"IMOD";
/// An `.om` file has a header of this many bytes at least before anything else.
const HEAD_BYTES: usize = 16;
/// ONNX, in the compiler's numbers of frameworks.
const FRAMEWORK: &str = "5";
/// The longest log, release text and compiled part that are read, in bytes.
const LOG_BYTES: u64 = 64 << 20;
const RELEASE_BYTES: u64 = 1 << 16;
const OM_BYTES: u64 = 1 << 33;
/// Names that it gives the file; with the system's and processor's, where the part needs the host's help.
const FILES: [&str; 3] = ["part.om", "part_linux_x86_64.om", "part_linux_aarch64.om"];
/// Where the toolkit's release stands, from the folder of the program up.
const RELEASES: [&str; 3] = ["../version.info", "../compiler/version.info", "version.info"];

/// The compiler.
pub(crate) struct Atc {
    settings: Settings,
    program: PathBuf,
    release: String,
}

impl Atc {
    /// The compiler: of the settings, of the toolkit that the environment names, or of the system's path.
    ///
    /// # Errors
    /// A message that names what is missing and how to obtain it.
    pub(crate) fn find(settings: &Settings) -> std::result::Result<Atc, String> {
        let home = std::env::var_os(HOME).filter(|home| !home.is_empty());
        let of_home = home.map(|home| Path::new(&home).join("bin").join(NAME));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let of_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
        let program = match &settings.atc {
            Some(stated) => Some(stated.clone()).filter(|program| program.is_file()),
            None => of_home
                .into_iter()
                .chain(of_path)
                .find(|program| program.is_file()),
        };
        let Some(program) = program else {
            let stated = settings
                .atc
                .as_ref()
                .map_or(NAME.into(), |stated| stated.display().to_string());
            return Err(format!("{stated} is not there: {REMEDY}"));
        };
        let release = match &settings.cann {
            Some(stated) => stated.clone(),
            None => release(&program),
        };
        Ok(Atc {
            settings: settings.clone(),
            program,
            release,
        })
    }

    /// Release of the toolkit; of an unknown one, the program's length.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// Compiles a model for a chip: the `.om` file.
    ///
    /// # Errors
    /// `Unsupported` if the compiler refuses; `Transient` where the machine failed it; both name the compiler.
    pub(crate) fn compile(&self, graph: &GraphView<'_>, model: &[u8], soc: &str) -> Result<Vec<u8>> {
        let folder = Folder::new(PREFIX)?;
        let onnx = folder.write("part.onnx", model)?;
        let option = |name: &str, value: &str| format!("--{name}={value}");
        let mut command = Command::new(&self.program);
        command
            .arg(option("model", &onnx.display().to_string()))
            .arg(option("framework", FRAMEWORK))
            .arg(option("output", &folder.file("part").display().to_string()))
            .arg(option("soc_version", soc))
            .arg(option("input_shape", &shapes(graph)?))
            .arg(option("precision_mode", self.settings.precision_mode))
            .arg(option("log", "error"))
            // it writes beside itself: kernels, results of fusion, logs
            .current_dir(folder.path())
            .env("ASCEND_PROCESS_LOG_PATH", folder.file("logs"));
        let name = self.program.display().to_string();
        let child = Child {
            name: &name,
            remedy: REMEDY,
            patience: self.settings.patience,
        };
        let log = folder.file("log");
        let status = child.run(command, &log)?;
        if !status.success() {
            return Err(refused(&name, status, &log).unwrap_or_else(|| child.ended(status, &log)));
        }
        let written = FILES
            .iter()
            .map(|file| folder.file(file))
            .find(|file| file.exists());
        let Some(written) = written else {
            return Err(Error::unsupported(format!(
                "{name} says that it is done and left no compiled part"
            )));
        };
        let om = read(&written, OM_BYTES)
            .map_err(|why| Error::unsupported(format!("{name} left no compiled part: {why}")))?;
        if !om.starts_with(MAGIC) || om.len() < HEAD_BYTES {
            let bytes = om.len();
            return Err(Error::unsupported(format!(
                "{name} left {bytes} bytes that are no .om file"
            )));
        }
        Ok(om)
    }
}

/// The option that fixes all extents: `i0:1,3,8,8;i1:4`.
fn shapes(graph: &GraphView<'_>) -> Result<String> {
    let shape = |(place, &tensor): (usize, &u32)| {
        let shape = graph.tensor(tensor).shape();
        let shape = shape.ok_or_else(|| Error::unsupported("a dynamic shape").at_tensor(tensor))?;
        let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
        Ok(format!("i{place}:{}", extents.join(",")))
    };
    let all: Result<Vec<String>> = graph.inputs().iter().enumerate().map(shape).collect();
    Ok(all?.join(";"))
}

/// The compiler's own words, where it said why: a line of its code (`E10001: …`).
fn refused(name: &str, status: ExitStatus, log: &Path) -> Option<Error> {
    status.code()?;
    let log = read(log, LOG_BYTES).ok()?;
    let log = String::from_utf8_lossy(&log);
    let words: String = log
        .lines()
        .find(|line| is_reason(line))?
        .trim()
        .chars()
        .take(600)
        .collect();
    Some(Error::unsupported(format!(
        "{name} refused the part ({status}): {words}"
    )))
}

fn is_reason(line: &str) -> bool {
    let code = line.trim_start().split_once(':').map(|(code, _)| code);
    let code = code.and_then(|code| code.strip_prefix('E'));
    code.is_some_and(|code| code.len() == 5 && code.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// The release that stands beside the program.
fn release(program: &Path) -> String {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let folders = program
        .parent()
        .into_iter()
        .flat_map(|folder| [Some(folder), folder.parent()]);
    let files = folders
        .flatten()
        .flat_map(|folder| RELEASES.map(|file| folder.join(file)));
    let texts = files.filter_map(|file| read(&file, RELEASE_BYTES).ok());
    let mut found = texts.filter_map(|text| stated(&String::from_utf8_lossy(&text)));
    found.next().unwrap_or_else(|| {
        let bytes = std::fs::metadata(&program).map_or(0, |about| about.len());
        format!("unstated-{bytes}")
    })
}

/// `Version=8.0.0` of a text.
fn stated(text: &str) -> Option<String> {
    let mut versions = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Version="));
    versions
        .next()
        .map(str::to_owned)
        .filter(|version| is_word(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_reasons_are_extracted_from_its_output() {
        assert!(is_reason(
            "E10001: Value [x] for parameter [--soc_version] is invalid."
        ));
        assert!(is_reason("  EZ3003: No supported Ops kernel"));
        for line in [
            "ATC run failed",
            "Error: what",
            "E1: short",
            "EZ30-3: odd",
            "E10001",
        ] {
            assert!(!is_reason(line), "{line}");
        }
    }

    #[test]
    fn release_is_read_only_as_a_whole_word() {
        assert_eq!(stated("Name=x\nVersion=8.0.0.1\n"), Some("8.0.0.1".to_owned()));
        assert_eq!(stated("Version=8 0\n"), None);
        assert_eq!(stated("version 8"), None);
    }
}
