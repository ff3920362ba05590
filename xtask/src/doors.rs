//! `cargo xtask doors`: the demo through every binding, with the program that the binding's page names.
//!
//! Invariants:
//! 1. Every binding prints the label and probability of the command line, digit by digit.
//! 2. A page without its binding's command fails: the test runs what users type, with an unoptimised build.
//! 3. C and C++ are built only against the installed tree, found by pkg-config and CMake.
//! 4. A binding with a missing need is *skipped* by the need's name, or fails if `POLYCHIP_EXPECT` contains it.
//!
//! A further binding is a row of [`DOORS`]. Learning sessions through every binding: `learn`.

mod learn;
mod programs;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;
use crate::{capi_install, ci, onnxruntime, python};
use programs::{Built, DEMO, compiled, in_python, lacks, program, words};

/// The packages of the bindings' programs.
const PACKAGES: [&str; 7] = [
    "polychip",
    "polychip-capi",
    "polychip-cli",
    "polychip-onnxruntime",
    "polychip-plugin-null",
    "polychip-plugin-openvino",
    "polychip-python",
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use the test build in target/debug, without building
    #[arg(long)]
    built: bool,
}

/// A way to the runtime.
struct Door {
    name: &'static str,
    /// Where a person finds the command.
    page: &'static str,
    /// How the command on the page begins; the demo's files follow it.
    command: &'static str,
    /// Names of what it needs that a machine may lack.
    needs: &'static [&'static str],
    /// The command on what is built.
    program: fn(&Built) -> Result<Command>,
}

/// All bindings, the one that the others are compared with first.
const DOORS: [Door; 6] = [
    Door {
        name: "command line",
        page: "README.md",
        command: "cargo run --release --package polychip-cli -- run",
        needs: &[],
        program: command_line,
    },
    Door {
        name: "Rust",
        page: "README.md",
        command: "cargo run --release --package polychip --example label --",
        needs: &[],
        program: |_| Ok(program("target/debug/examples/label")),
    },
    Door {
        name: "C, by pkg-config",
        page: "docs/c.md",
        command: "./label",
        needs: &["pkg-config"],
        program: by_pkg_config,
    },
    Door {
        name: "C++, by CMake",
        page: "docs/c.md",
        command: "build/label_cpp",
        needs: &["c++", "cmake"],
        program: by_cmake,
    },
    Door {
        name: "Python",
        page: "bindings/python/README.md",
        command: "target/python/bin/python examples/python/label.py",
        needs: &["python"],
        program: |_| {
            let mut command = in_python("examples/python/label.py")?;
            command.env("PYTHONPATH", python::assembled()?);
            Ok(command)
        },
    },
    Door {
        name: "ONNX Runtime",
        page: "bindings/onnxruntime/README.md",
        command: "python examples/onnxruntime/label.py",
        needs: &["python"],
        program: |_| {
            let mut command = in_python("examples/onnxruntime/label.py")?;
            command.env("PYTHONPATH", onnxruntime::assembled()?);
            Ok(command)
        },
    },
];

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.built {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--lib", "--bins", "--examples"]);
        for package in PACKAGES {
            build.args(["--package", package]);
        }
        let status = build.current_dir(root()).status().context("starting cargo")?;
        ensure!(status.success(), "the programs cannot be built");
    }
    let folder = root().join("target/doors");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let built = Built {
        prefix: folder.join("installed"),
        folder,
    };
    if cfg!(target_os = "linux") {
        let library = root().join("target/debug/libpolychip_capi.so");
        capi_install::lay_out(
            &capi_install::Prefix::at(&built.prefix),
            &[library],
            env!("CARGO_PKG_VERSION"),
        )?;
    }
    let mut wanted: Option<String> = None;
    let (mut passed, mut skipped) = (0, 0);
    let mut wrong = Vec::new();
    for door in &DOORS {
        if let Some((need, why)) = missing(door) {
            if ci::is_expected(need)? {
                wrong.push(format!("{}: {need} should be available: {why}", door.name));
            } else {
                skipped += 1;
                eprintln!("binding {} (skipped, needs {need}: {why}) ... ignored", door.name);
            }
            continue;
        }
        match answer(door, &built) {
            Ok(said) if wanted.as_ref().is_none_or(|wanted| *wanted == said) => {
                passed += 1;
                eprintln!("binding {} ... ok: {said}", door.name);
                wanted.get_or_insert(said);
            }
            Ok(said) => wrong.push(format!(
                "{}: it printed {said:?}, but the command line printed {:?}",
                door.name,
                wanted.as_deref().unwrap_or_default()
            )),
            Err(error) => wrong.push(format!("{}: {error:#}", door.name)),
        }
    }
    let (more, left) = learn::run(&built, &mut wrong)?;
    (passed, skipped) = (passed + more, skipped + left);
    let failed = wrong.len();
    eprintln!("test result: {passed} passed; {failed} failed; {skipped} ignored");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A binding's answer about the picture, once its page was read.
fn answer(door: &Door, built: &Built) -> Result<String> {
    let page = fs::read_to_string(root().join(door.page)).with_context(|| door.page.to_owned())?;
    ensure!(
        shows(&page, door.command),
        "{} shows no command `{} {} …`",
        door.page,
        door.command,
        DEMO[0]
    );
    let mut command = (door.program)(built)?;
    if door.name != DOORS[0].name {
        command.args(DEMO);
    }
    label(&words(command.current_dir(root()))?)
}

/// Whether a page has this command on the demo's model.
fn shows(page: &str, command: &str) -> bool {
    let wanted = format!("{command} {}", DEMO[0]);
    page.lines().any(|line| line.trim_start().starts_with(&wanted))
}

/// The line that names the picture.
fn label(said: &str) -> Result<String> {
    let line = said.lines().next().unwrap_or_default();
    let (label, probability) = line
        .split_once(": probability ")
        .with_context(|| format!("it printed no label, but {said:?}"))?;
    let number: f64 = probability
        .parse()
        .with_context(|| format!("the probability of {line:?}"))?;
    ensure!(
        !label.is_empty() && number > 0.0 && number <= 1.0,
        "{line:?} is not a label with a probability"
    );
    Ok(line.to_owned())
}

/// What a door needs and is not here: its name, and why that is thought.
fn missing(door: &Door) -> Option<(&'static str, String)> {
    let missing = |need: &&'static str| {
        let why = match *need {
            "python" => python::missing(),
            _ if cfg!(not(target_os = "linux")) => {
                Some("the C library is installed only on Linux".to_owned())
            }
            program => lacks(program),
        };
        why.map(|why| (*need, why))
    };
    door.needs.iter().find_map(missing)
}

fn command_line(_: &Built) -> Result<Command> {
    let mut command = program("target/debug/polychip");
    command.args([
        "run",
        DEMO[0],
        "--input",
        "image=examples/shapes/pictures/star.png",
    ]);
    command.args(["--labels", DEMO[2]]);
    Ok(command)
}

fn by_pkg_config(built: &Built) -> Result<Command> {
    compiled(built, "label")
}

fn by_cmake(built: &Built) -> Result<Command> {
    let folder = built.folder.join("build");
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(root().join("examples/c"))
        .arg("-B")
        .arg(&folder)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", built.prefix.display()));
    words(&mut configure)?;
    words(Command::new("cmake").arg("--build").arg(&folder))?;
    check_c(&folder)?;
    Ok(Command::new(folder.join("label_cpp")))
}

/// The example in C runs as CMake makes it, too.
fn check_c(folder: &Path) -> Result<()> {
    let mut command = Command::new(folder.join("label_c"));
    label(&words(command.args(DEMO).current_dir(root()))?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_page_shows_a_command_with_the_demo_model() {
        let page = format!("text\n./label {}  more\n", DEMO[0]);
        assert!(shows(&page, "./label"));
        assert!(!shows("./label other.onnx", "./label"));
        assert!(!shows(&page, "label"));
    }

    #[test]
    fn a_label_has_a_probability() {
        assert_eq!(
            label("star: probability 0.9747\n\nreport").unwrap(),
            "star: probability 0.9747"
        );
        for said in [
            "",
            "star 0.97",
            "star: probability",
            "star: probability nan",
            "star: probability 1.2",
        ] {
            assert!(label(said).is_err(), "{said}");
        }
    }

    #[test]
    fn every_binding_page_shows_its_command() {
        for door in &DOORS {
            let page = fs::read_to_string(root().join(door.page)).unwrap();
            assert!(shows(&page, door.command), "{}: {}", door.page, door.command);
        }
    }
}
