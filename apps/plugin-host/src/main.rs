//! `polychip-plugin-host LIBRARY [--no-sandbox]`: loads one plugin library and serves it to the
//! process that started this one.
//!
//! Invariants:
//! 1. Standard input is the control socket. Only Polychip starts this program.
//! 2. The process ends when its host closes that socket or ends.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod sandbox;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(library) = arguments.next().map(PathBuf::from) else {
        eprintln!("this program is started by Polychip, with the plugin library that it loads");
        return ExitCode::from(2);
    };
    let is_confined = arguments.all(|argument| argument != polychip_isolation::NO_SANDBOX);
    match serve(&library, is_confined) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn serve(library: &std::path::Path, is_confined: bool) -> Result<(), String> {
    polychip_isolation::restrict()?;
    let confinement = if is_confined {
        sandbox::enter()
    } else {
        polychip_isolation::Confinement::default()
    };
    match polychip_host::open_library(library) {
        Ok(table) => polychip_isolation::serve(&table, confinement),
        Err(reason) => polychip_isolation::greet_failure(&reason),
    }
}

#[cfg(not(target_os = "linux"))]
fn serve(_: &std::path::Path, _: bool) -> Result<(), String> {
    Err("plugins in a process of their own are not supported on this system; only on Linux".to_owned())
}
