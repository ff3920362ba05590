//! The learning program through every binding: the session starts cold and settles, and all bindings report the same
//! plan.
//!
//! Invariants:
//! 1. On scripted devices the first and last plans are known: the device stated as fast is four times slower.
//! 2. On this machine's devices all bindings start with the same plan and settle; the final plan depends on the
//!    machine, and on chance between equally fast ones.
//!
//! A further binding is a row of [`DOORS`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::programs::{Built, DEMO, compiled, in_python, lacks, program, words};
use crate::root::root;
use crate::{ci, onnxruntime, protobuf, python};

/// The small model, written as the programs in C have it.
#[path = "../../../bindings/c/tests/c/models.rs"]
#[allow(dead_code, reason = "one of its models is used")]
mod small;

/// Runs after the first: enough for all trials, and on devices of this machine for a plugin to compile meanwhile.
const RUNS: [&str; 2] = ["400", "4000"];
/// Stated to take 0.5 and 0.75 ms, truly 3 and 0.75.
const SCRIPT: &str = r#"
[[device]]
name = "slower than it says"
cost = { fixed_ns = 166667, ps_per_byte = 0.0 }
actual = [{ time_permille = 6000 }]
[[device]]
name = "as it says"
cost = { fixed_ns = 250000, ps_per_byte = 0.0 }
"#;
/// What each door says on scripted devices.
const SCRIPTED: &str = "cold on null:0\nsettled on null:1\n";

/// What a program is given.
struct Given {
    model: PathBuf,
    devices: &'static str,
    /// Where the plugin of the devices lies, and nothing else.
    plugins: PathBuf,
    script: Option<PathBuf>,
    runs: &'static str,
    /// What each door says, where that is known.
    wanted: Option<&'static str>,
}

/// A door: its name, what it needs that a machine may lack, and what its program says.
struct Door {
    name: &'static str,
    missing: fn() -> Option<(&'static str, String)>,
    says: fn(&Built, &Given) -> Result<String>,
}

/// All bindings, the one that the others are compared with first.
const DOORS: [Door; 5] = [
    Door {
        name: "command line",
        missing: || None,
        says: command_line,
    },
    Door {
        name: "Rust",
        missing: || None,
        says: |_, given| given.said(program("target/debug/examples/learn")),
    },
    Door {
        name: "C",
        missing: || lacks("pkg-config").map(|why| ("pkg-config", why)),
        says: |built, given| given.said(compiled(built, "learn")?),
    },
    Door {
        name: "Python",
        missing: || python::missing().map(|why| ("python", why)),
        says: |_, given| {
            let mut command = in_python("examples/python/learn.py")?;
            command.env("PYTHONPATH", python::assembled()?);
            given.said(command)
        },
    },
    Door {
        name: "ONNX Runtime",
        missing: || python::missing().map(|why| ("python", why)),
        says: |_, given| {
            let mut command = in_python("examples/onnxruntime/learn.py")?;
            command.env("PYTHONPATH", onnxruntime::assembled()?);
            given.said(command)
        },
    },
];

/// Runs the program through every binding, counts successes and skips, and collects errors.
pub(super) fn run(built: &Built, wrong: &mut Vec<String>) -> Result<(usize, usize)> {
    if cfg!(not(target_os = "linux")) {
        eprintln!("learning bindings (skipped: the libraries are built for Linux) ... ignored");
        return Ok((0, DOORS.len()));
    }
    let folder = built.folder.join("learn");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    small::write(&folder)?;
    let script = folder.join("devices.toml");
    fs::write(&script, SCRIPT)?;
    let scripted = Given {
        model: folder.join("sum.onnx"),
        devices: "null",
        plugins: plugin(&folder, "null")?,
        script: Some(script),
        runs: RUNS[0],
        wanted: Some(SCRIPTED),
    };
    let (mut passed, mut skipped) = each(built, &scripted, wrong)?;
    if std::env::var_os("OPENVINO_LIB_DIR").is_some() {
        let real = Given {
            model: root().join(DEMO[0]),
            devices: "cpu,openvino",
            plugins: plugin(&folder, "openvino")?,
            script: None,
            runs: RUNS[1],
            wanted: None,
        };
        let (more, left) = each(built, &real, wrong)?;
        (passed, skipped) = (passed + more, skipped + left);
    } else if ci::is_expected("openvino")? {
        wrong.push("learning bindings: OPENVINO_LIB_DIR contains no OpenVINO library".to_owned());
    } else {
        eprintln!("learning bindings on this machine's devices (skipped, needs openvino) ... ignored");
        skipped += 1;
    }
    Ok((passed, skipped))
}

/// The program through each door.
fn each(built: &Built, given: &Given, wrong: &mut Vec<String>) -> Result<(usize, usize)> {
    // where it is not known, all begin as the first door does
    let mut first: Option<String> = None;
    let (mut passed, mut skipped) = (0, 0);
    for door in &DOORS {
        if let Some((need, why)) = (door.missing)() {
            if ci::is_expected(need)? {
                wrong.push(format!("{} learns: {need} should be available: {why}", door.name))
            } else {
                skipped += 1;
                eprintln!(
                    "binding {} learns (skipped, needs {need}: {why}) ... ignored",
                    door.name
                );
            }
            continue;
        }
        let name = format!("binding {} learns on {}", door.name, given.devices);
        match (door.says)(built, given) {
            Ok(said) if !is_story(&said) => wrong.push(format!("{name}: it printed {said:?}")),
            Ok(said) => {
                let begun = said.lines().next().unwrap_or_default().to_owned();
                let is_wanted = given.wanted.is_none_or(|wanted| wanted == said);
                if is_wanted && first.as_ref().is_none_or(|first| *first == begun) {
                    passed += 1;
                    eprintln!("{name} ... ok: {}", said.trim_end().replace('\n', ", "));
                } else {
                    let others = given.wanted.or(first.as_deref()).unwrap_or_default();
                    wrong.push(format!("{name}: it printed {said:?}, expected {others:?}"));
                }
                first.get_or_insert(begun);
            }
            Err(error) => wrong.push(format!("{name}: {error:#}")),
        }
    }
    Ok((passed, skipped))
}

/// Whether a session was cold and has settled.
fn is_story(said: &str) -> bool {
    let lines: Vec<&str> = said.lines().collect();
    matches!(lines[..], [first, last] if first.starts_with("cold on ") && last.starts_with("settled on "))
}

/// A folder with a plugin's library alone, as it was built.
fn plugin(folder: &Path, name: &str) -> Result<PathBuf> {
    let file = format!("libpolychip_plugin_{name}.so");
    let library = root().join("target/debug").join(&file);
    ensure!(library.is_file(), "{} is not built", library.display());
    let alone = folder.join(name);
    fs::create_dir_all(&alone)?;
    let link = alone.join(&file);
    fs::copy(&library, &link).with_context(|| link.display().to_string())?;
    Ok(alone)
}

impl Given {
    /// A program's answer about the model.
    fn said(&self, mut command: Command) -> Result<String> {
        command.arg(&self.model).args([self.devices, self.runs]);
        words(self.here(&mut command))
    }

    fn here<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("POLYCHIP_PLUGINS", &self.plugins);
        if let Some(script) = &self.script {
            command.env("POLYCHIP_NULL_SCRIPT", script);
        }
        command.current_dir(root())
    }
}

/// One run is cold; one and as many more have settled.
fn command_line(built: &Built, given: &Given) -> Result<String> {
    // beside the program as it is built lie the plugins of all chips
    let alone = built.folder.join("learn/polychip");
    if !alone.exists() {
        fs::copy(root().join("target/debug/polychip"), &alone)?;
    }
    let of = |command: &str, more: &[&str]| -> Result<String> {
        let mut polychip = Command::new(&alone);
        polychip.arg(command).arg(&given.model).args(more);
        polychip.args([
            "--fill",
            "0",
            "--devices",
            given.devices,
            "--learn",
            "10%",
            "--json",
        ]);
        let said = words(given.here(&mut polychip))?;
        line(&said).with_context(|| format!("what {command} printed"))
    };
    Ok(of("run", &[])? + &of("bench", &["--warmup", "1", "--iters", given.runs])?)
}

/// The learning state in the command line's output.
fn line(json: &str) -> Result<String> {
    let answer: Value = serde_json::from_str(json)?;
    let learning = &answer["report"]["learning"];
    let settled = learning["settled"].as_bool().context("no report of learning")?;
    let plan = learning["plan"].as_str().context("no plan")?;
    Ok(format!(
        "{} on {plan}\n",
        if settled { "settled" } else { "cold" }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learning_output_starts_cold_and_settles() {
        assert!(is_story(SCRIPTED));
        for other in [
            "",
            "cold on a\n",
            "settled on a\nsettled on b\n",
            "cold on a\ncold on b\n",
        ] {
            assert!(!is_story(other), "{other}");
        }
        let json = r#"{"report": {"learning": {"settled": true, "plan": "null:1"}}}"#;
        assert_eq!(line(json).unwrap(), "settled on null:1\n");
        assert!(line(r#"{"report": {"learning": null}}"#).is_err());
    }
}
