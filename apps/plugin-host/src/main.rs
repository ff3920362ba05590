//! `polychip-plugin-host LIBRARY`: loads one plugin library and serves it to the process that
//! started this one.
//!
//! Invariants:
//! 1. Standard input is the control socket. Only Polychip starts this program.
//! 2. The process ends when its host closes that socket or ends.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(library) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("this program is started by Polychip, with the plugin library that it loads");
        return ExitCode::from(2);
    };
    match serve(&library) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn serve(library: &std::path::Path) -> Result<(), String> {
    polychip_isolation::restrict()?;
    match polychip_host::open_library(library) {
        Ok(table) => polychip_isolation::serve(&table),
        Err(reason) => polychip_isolation::greet_failure(&reason),
    }
}

#[cfg(not(target_os = "linux"))]
fn serve(_: &std::path::Path) -> Result<(), String> {
    Err("plugins in a process of their own are not supported on this system; only on Linux".to_owned())
}
