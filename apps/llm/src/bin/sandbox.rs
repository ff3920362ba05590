//! `polychip-llm-sandbox`: reads chat templates, JSON schemas and grammars for an app that started it
//! ([`polychip_llm::sandbox`]).

#![forbid(unsafe_code)]

use std::io::IsTerminal as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::io::stdin().is_terminal() {
        eprintln!("this program is started by apps that use language models");
        return ExitCode::from(2);
    }
    ExitCode::from(polychip_llm::sandbox::serve())
}
