//! The emulated toolkit as a program: one argument, a file with the request.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(request) = std::env::args_os().nth(1) else {
        eprintln!("rknn-toolkit-emulated: the argument is a file with a request");
        return ExitCode::FAILURE;
    };
    match polychip_emulator_rknn::compile::serve(Path::new(&request)) {
        Ok(log) => {
            eprint!("{log}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("rknn-toolkit-emulated: {words}");
            ExitCode::FAILURE
        }
    }
}
