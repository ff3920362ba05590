//! `cargo xtask bindgen`: Rust declarations of the vendors' C libraries, made from our own headers.
//!
//! Invariants:
//! 1. Nothing but `sys/headers/*.h` is read; a vendor's header never is.
//! 2. `--check` writes nothing: the committed file is compared with what the program makes.
//! 3. A machine without the program or its libclang says *skipped*, never *passed*.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare the committed files with the generated ones, without writing
    #[arg(long)]
    check: bool,
}

/// One header and what is made of it. A further SDK is a further row.
struct Binding {
    header: &'static str,
    output: &'static str,
    /// What is taken from the header: a regular expression over the names.
    allow: &'static str,
    /// First line of the output.
    title: &'static str,
    /// Whether its functions are exports, found by their names (`sys/src/symbols.rs`).
    by_name: bool,
}

const BINDINGS: &[Binding] = &[
    Binding {
        header: "sys/headers/qnn.h",
        output: "sys/src/qnn/bindings.rs",
        allow: "polychip_qnn_.*|POLYCHIP_QNN_.*",
        title: "Declarations of the QNN libraries",
        // two exports lead to tables of pointers
        by_name: false,
    },
    Binding {
        header: "sys/headers/openvino.h",
        output: "sys/src/openvino/bindings.rs",
        allow: "ov_.*|OV_.*",
        title: "Declarations of the OpenVINO C library",
        by_name: true,
    },
    Binding {
        header: "sys/headers/neuron.h",
        output: "sys/src/neuron/bindings.rs",
        allow: "Neuron.*|NEURON_.*",
        title: "Declarations of MediaTek's NeuronAdapter",
        by_name: true,
    },
    Binding {
        header: "sys/headers/nnrt.h",
        output: "sys/src/nnrt/bindings.rs",
        allow: "OH_NN.*|NN_.*",
        title: "Declarations of OpenHarmony's Neural Network Runtime",
        by_name: true,
    },
    Binding {
        header: "sys/headers/rknn.h",
        output: "sys/src/rknn/bindings.rs",
        allow: "rknn_.*|RKNN_.*",
        title: "Declarations of Rockchip's NPU runtime",
        by_name: true,
    },
    Binding {
        header: "sys/headers/ascend.h",
        output: "sys/src/ascend/bindings.rs",
        allow: "acl.*|ACL_.*",
        title: "Declarations of AscendCL",
        by_name: true,
    },
    Binding {
        header: "sys/headers/onnxruntime.h",
        output: "sys/src/onnxruntime/bindings.rs",
        allow: "Ort.*|ORT_.*",
        title: "Declarations of ONNX Runtime's interface for providers",
        // the runtime hands its tables in
        by_name: false,
    },
];

/// Makes the bindings anew, or compares them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut stale = Vec::new();
    for binding in BINDINGS {
        let made = generate(binding)?;
        let path = root().join(binding.output);
        if options.check {
            let committed =
                fs::read_to_string(&path).with_context(|| format!("reading {}", binding.output))?;
            if committed == made {
                eprintln!("bindgen: {} matches {}", binding.output, binding.header);
            } else {
                stale.push(binding.output);
            }
        } else {
            fs::write(&path, made).with_context(|| format!("writing {}", binding.output))?;
            eprintln!("bindgen: wrote {}", binding.output);
        }
    }
    ensure!(
        stale.is_empty(),
        "{} differs from its header: run `cargo xtask bindgen` and review the diff",
        stale.join(", ")
    );
    Ok(())
}

/// Release whose text the committed files are; another writes the same declarations in other words.
const RELEASE: &str = "0.73.";

/// Why bindings cannot be made here, if so: the program `bindgen` of our release or its libclang is missing.
pub(crate) fn missing() -> Option<String> {
    let runs = Command::new("bindgen").arg("--version").output();
    let Some(output) = runs.ok().filter(|output| output.status.success()) else {
        return Some("bindgen is not installed (cargo install --locked bindgen-cli@0.73.2)".to_owned());
    };
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !version.starts_with(&format!("bindgen {RELEASE}")) {
        return Some(format!(
            "{version} is installed, but the committed files are from {RELEASE}x (cargo install --locked bindgen-cli@0.73.2)"
        ));
    }
    // only a run opens libclang
    match BINDINGS.first().map(bindgen)? {
        Err(error) if error.to_string().contains("libclang") => {
            Some("bindgen finds no libclang (on Debian: apt-get install libclang-dev clang)".to_owned())
        }
        // anything else is the check's own finding
        _ => None,
    }
}

/// The text of one output file: what bindgen makes, under a header, as rustfmt writes it.
fn generate(binding: &Binding) -> Result<String> {
    let body = bindgen(binding)?;
    let text = format!(
        "//! {}: made by `cargo xtask bindgen` from `{}`, never edited.\n//!\n\
         //! Sizes and offsets are checked at compile time against those that the C compiler gave.\n\n{body}",
        binding.title, binding.header
    );
    let text = format(&text)?;
    Ok(if binding.by_name { by_name(&text) } else { text })
}

/// The same declarations with all functions in `symbols!`, at the end, instead of blocks for the linker; variadic ones
/// last.
fn by_name(text: &str) -> String {
    let (mut others, mut functions, mut variadic) = (String::new(), String::new(), String::new());
    let mut function: Option<String> = None;
    for line in text.lines() {
        match (line, &mut function) {
            ("unsafe extern \"C\" {", _) => function = Some(String::new()),
            ("}", Some(whole)) => {
                if whole.contains("...") {
                    variadic.push_str(whole);
                } else {
                    functions.push_str(whole);
                }
                function = None;
            }
            (line, part) => {
                let part = part.as_mut().unwrap_or(&mut others);
                part.push_str(line);
                part.push('\n');
            }
        }
    }
    if !variadic.is_empty() {
        functions.push_str("    variadic:\n");
        functions.push_str(&variadic);
    }
    format!("{others}crate::symbols::symbols! {{\n{functions}}}\n")
}

fn bindgen(binding: &Binding) -> Result<String> {
    let output = Command::new("bindgen")
        .args([
            "--no-doc-comments",
            "--disable-header-comment",
            "--formatter",
            "none",
            "--use-core",
            "--default-enum-style",
            "consts",
            "--no-prepend-enum-name",
            "--rust-edition",
            "2024",
            "--rust-target",
            "1.85.0",
            "--allowlist-item",
            binding.allow,
        ])
        .args([
            binding.header,
            "--",
            "-std=c11",
            // one ABI for everybody: LP64, whatever machine runs this
            "--target=x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .context("running bindgen (cargo install --locked bindgen-cli; on Debian: apt-get install libclang-dev clang)")?;
    ensure!(
        output.status.success(),
        "bindgen failed on {}: {}",
        binding.header,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("bindgen's output is not UTF-8")
}

fn format(text: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--quiet"])
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("running rustfmt (rustup component add rustfmt)")?;
    let mut stdin = child
        .stdin
        .take()
        .expect("invariant: the child's input is a pipe");
    stdin.write_all(text.as_bytes()).context("writing to rustfmt")?;
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("rustfmt failed on bindgen's output");
    }
    String::from_utf8(output.stdout).context("rustfmt's output is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name_and_types_stay() {
        let text = "pub type a = u8;\nunsafe extern \"C\" {\n    pub fn f(x: a);\n}\npub struct b {\n    pub c: a,\n}\n\
                    unsafe extern \"C\" {\n    pub fn v(x: a, ...);\n}\nunsafe extern \"C\" {\n    pub fn g();\n}\n";
        assert_eq!(
            by_name(text),
            "pub type a = u8;\npub struct b {\n    pub c: a,\n}\n\
             crate::symbols::symbols! {\n    pub fn f(x: a);\n    pub fn g();\n    variadic:\n    pub fn v(x: a, ...);\n}\n"
        );
    }
}
