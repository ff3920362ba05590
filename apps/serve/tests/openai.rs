//! What clients by others in Python make of the server, of a tiny model and of a trained one: those of OpenAI, Anthropic, Ollama
//! and LangChain (`device-tests/witness/openai`).
//!
//! Where `cargo xtask vendor openai` has not been run, and `OPENAI_PYTHON` names no Python with the package, it is reported as
//! skipped.

#[path = "server/site.rs"]
#[expect(dead_code, reason = "the client here is Python's")]
mod site;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_llm::LanguageModel;
use polychip_serve::{Options, Server};
use polychip_test_requirements::{Need, skipped};

const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const KEY: &str = "secret";
/// Programs, and the paths of their base URLs.
const PROGRAMS: [(&str, &str); 4] = [
    ("client.py", "/v1"),
    ("anthropic_client.py", ""),
    ("ollama_client.py", ""),
    ("langchain_client.py", "/v1"),
];

fn main() {
    let arguments = Arguments::from_args();
    let vendor = root().join("target/vendor");
    let named = |variable: &str, file: &str| {
        let named = std::env::var_os(variable).filter(|path| !path.is_empty());
        Some(named.map_or_else(|| vendor.join(file), PathBuf::from)).filter(|path| path.is_file())
    };
    let python = named("OPENAI_PYTHON", "openai/venv/bin/python");
    let trained = named("SMOLLM2_GGUF", &format!("gguf/{MODEL}"));
    let no_client = |name| skipped(name, Need::Openai, "`cargo xtask vendor openai` has not been run");
    let (tiny, smollm2) = ("a tiny model's clients", "SmolLM2's clients");
    let trials = match (python, trained) {
        (None, _) => vec![no_client(tiny), no_client(smollm2)],
        (Some(python), trained) => {
            let other = python.clone();
            let first = Trial::test(tiny, move || done(clients(&python, site::roomy(site::TEMPLATE))));
            let second = match trained {
                None => skipped(
                    smollm2,
                    Need::Smollm2,
                    "`cargo xtask vendor gguf` has not been run",
                ),
                Some(model) => Trial::test(smollm2, move || {
                    let model = LanguageModel::open(&model, polychip_llm::Options::new().capacity(1024));
                    done(model.map_err(Into::into).and_then(|model| clients(&other, model)))
                }),
            };
            vec![first, second]
        }
    };
    libtest_mimic::run(&arguments, trials).exit()
}

fn done(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Serves a model to the programs in Python.
fn clients(python: &Path, model: LanguageModel) -> Result<()> {
    let options = Options::new().port(0).api_key(KEY).max_active(3);
    let server = Server::new(model, options.alias("gpt-4o-mini").alias("claude"))?;
    let url = format!("http://{}", server.address());
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());
    let done = PROGRAMS.iter().try_for_each(|(program, path)| {
        let output = Command::new(python)
            .arg(root().join("device-tests/witness/openai").join(program))
            .args([&format!("{url}{path}"), KEY])
            .output()
            .with_context(|| python.display().to_string())?;
        ensure!(
            output.status.success(),
            "{program}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    });
    handle.give_up();
    let ended = running.join().ok().context("the server panicked")?;
    done?;
    Ok(ended?)
}
