//! The emulated compiler as a program, with the vendor's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    eprintln!("ATC start working now, please wait for a moment. (emulated)");
    match ascendcl::atc::run(&arguments) {
        Ok(()) => {
            eprintln!("ATC run success, welcome to the next use. (emulated)");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("ATC run failed, Please check the detail log. (emulated)\n{words}");
            ExitCode::FAILURE
        }
    }
}
