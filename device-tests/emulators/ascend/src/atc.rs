//! The emulated compiler: the vendor's command line and error codes, and files in our own format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::file;
use polychip_emulator_chip::model::{self, Model};
use polychip_graph::Graph;

use crate::board::{Description, MAGIC, NEWEST, SOC};

static FAULTS: Faults = Faults::new(&["compile"]);

/// The vendor's options that it supports.
const OPTIONS: [&str; 8] = [
    "model",
    "framework",
    "output",
    "soc_version",
    "input_shape",
    "input_format",
    "precision_mode",
    "log",
];

/// Compiles a model, as the arguments specify.
///
/// # Errors
/// A message with a code, like the vendor's, which the program prints.
pub fn run(arguments: &[String]) -> Result<(), String> {
    FAULTS.set_from("POLYCHIP_ATC_FAULTS");
    let mut options: BTreeMap<&str, &str> = BTreeMap::new();
    for argument in arguments {
        let option = argument
            .strip_prefix("--")
            .and_then(|option| option.split_once('='));
        let known = option.filter(|(name, _)| OPTIONS.contains(name));
        let (name, value) =
            known.ok_or_else(|| format!("E10035: unknown command line option [{argument}]."))?;
        options.insert(name, value);
    }
    let needed = |name: &str| {
        let value = options.get(name).copied();
        value.ok_or_else(|| format!("E10004: Value for [--{name}] is empty."))
    };
    let bad = |name: &str, value: &str, reason: &str| {
        format!("E10001: Value [{value}] for parameter [--{name}] is invalid. Reason: {reason}")
    };
    let (framework, soc) = (needed("framework")?, needed("soc_version")?);
    if framework != "5" {
        return Err(bad(
            "framework",
            framework,
            "the emulated compiler reads ONNX (5) only",
        ));
    }
    if soc != SOC {
        return Err(bad(
            "soc_version",
            soc,
            &format!("the emulated compiler compiles for {SOC} only"),
        ));
    }
    match options.get("precision_mode").copied().unwrap_or("force_fp16") {
        "force_fp16" | "allow_fp32_to_fp16" | "allow_mix_precision" => {}
        mode => return Err(bad("precision_mode", mode, "16-bit floats are emulated only")),
    }
    let (from, to) = (
        needed("model")?,
        PathBuf::from(format!("{}.om", needed("output")?)),
    );
    let bytes = std::fs::read(from).map_err(|error| bad("model", from, &error.to_string()))?;
    let graph = model::graph(bytes.clone(), NEWEST).map_err(|words| bad("model", from, &words))?;
    let stated = options.get("input_shape").copied().unwrap_or("");
    shapes(&graph, stated).map_err(|words| bad("input_shape", stated, &words))?;
    let effect = FAULTS.at("compile", |op| {
        graph.nodes().any(|(_, node)| &*node.op_name == op)
    });
    match effect {
        None | Some(Effect::Wait(_)) => {}
        Some(Effect::Crash) => std::process::abort(),
        Some(Effect::Fail(code)) => return Err(format!("EZ3003: injected failure {code}")),
        // the compiler reports success but writes no file
        Some(Effect::Lost) => return Ok(()),
        Some(Effect::Wrong) => {
            return std::fs::write(to, "no compiled part").map_err(|error| error.to_string());
        }
    }
    if let Some(Effect::Wait(time)) = effect {
        FAULTS.wait(time);
    }
    Model::new(&graph, String::new()).map_err(|words| format!("EZ3003: No supported Ops kernel: {words}"))?;
    let description = Description {
        soc_version: soc.to_owned(),
    };
    let file = file::write(MAGIC, &bytes, &description)?;
    std::fs::write(&to, file).map_err(|error| bad("output", &to.display().to_string(), &error.to_string()))
}

/// Checks that the stated extents (`i0:1,3;i1:4`) are those of the model's inputs.
fn shapes(graph: &Graph, stated: &str) -> Result<(), String> {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for input in stated.split(';').filter(|input| !input.is_empty()) {
        let (name, extents) = input.rsplit_once(':').ok_or("no name:extents")?;
        let extents: Result<Vec<usize>, _> = extents.split(',').map(str::parse).collect();
        found.insert(name, extents.map_err(|error| format!("{name}: {error}"))?);
    }
    for (name, extents) in &found {
        let mut inputs = graph.inputs.iter();
        let input = inputs.find(|&&input| graph.tensor(input).name == *name);
        let input = input.ok_or_else(|| format!("the model has no input [{name}]"))?;
        let own = model::shape(graph, *input)?;
        if own != *extents {
            return Err(format!("[{name}] is of {own:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        run(&arguments).unwrap_err()
    }

    #[test]
    fn a_wrong_command_line_has_a_code_and_names_the_option() {
        for (arguments, code, word) in [
            (&["--models=x"][..], "E10035", "--models=x"),
            (&["--framework=5"], "E10004", "--soc_version"),
            (
                &["--framework=3", "--soc_version=Ascend310P3"],
                "E10001",
                "--framework",
            ),
            (
                &["--framework=5", "--soc_version=Ascend310"],
                "E10001",
                "--soc_version",
            ),
            (
                &[
                    "--framework=5",
                    "--soc_version=Ascend310P3",
                    "--precision_mode=force_fp32",
                ],
                "E10001",
                "--precision_mode",
            ),
            (
                &[
                    "--framework=5",
                    "--soc_version=Ascend310P3",
                    "--model=/nowhere",
                    "--output=/nowhere/x",
                ],
                "E10001",
                "/nowhere",
            ),
        ] {
            let words = refused(arguments);
            assert!(words.starts_with(code) && words.contains(word), "{words}");
        }
    }
}
