//! The `polychip` program; its code is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(polychip_cli::run(std::env::args_os()))
}
