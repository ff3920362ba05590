//! The `polychip` program; all of it is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(polychip_cli::run(std::env::args_os()))
}
