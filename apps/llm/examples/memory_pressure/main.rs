//! Four sessions and a language model that is larger than the memory of the process's control group.
//!
//! ```sh
//! cargo build --release --workspace --bins --examples
//! target/release/examples/memory_pressure [--minutes 10] [--group-mib 1024] [--limit-mib 288] [--session-mib 100]
//!     [--language-mib 2048] [--folder DIR]
//! ```
//!
//! The command writes models with random weights to the folder, computes the language model's answers outside the group,
//! and starts itself in a new control group (version 1 or 2, or a scope of `systemd-run`). There, four threads run one
//! session each, with pauses, and one thread continues three conversations alternately. The runtime's limit has room for
//! about two sessions, so they are parked and resumed all the time. The language model's packed weights lie in files
//! (`cpu.weights-folder`), whose pages the kernel drops and reads again.
//!
//! It fails if an output or an answer is wrong, the process is killed, nothing was parked, or resuming a session takes
//! longer than 0.3 s per 100 MB (median of the rounds before the load).

#![allow(clippy::print_stdout, reason = "the figures are what the command is for")]

#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod models;
#[cfg(target_os = "linux")]
mod settings;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    let settings = settings::Settings::parse(std::env::args().skip(1))?;
    if settings.is_inside {
        return load::run(&settings);
    }
    models::write(&settings)?;
    load::expect(&settings)?;
    group::run_inside(&settings)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("control groups are a feature of Linux");
}
