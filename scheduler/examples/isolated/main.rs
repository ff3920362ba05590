//! What plugins in processes of their own cost, and how sessions survive their deaths.
//!
//! ```sh
//! cargo build --release -p polychip --example isolated -p polychip-plugin-host -p polychip-plugin-openvino
//! cargo build --release -p polychip-isolation --example fatal
//! target/release/examples/isolated overhead --plugins target/release --device openvino:0 MODEL.onnx
//! target/release/examples/isolated deaths --plugins target/release --device openvino:0 --deaths 1000 \
//!     --faults target/release/examples/libfatal.so MODEL.onnx
//! ```
//!
//! `overhead` runs the model on the device alternately with the plugin in this process and in a process of its own,
//! and prints the median times and their ratio. `deaths` has the plugin's process die while the model runs, in the
//! ways of `--kinds` (default: all), compares each output with the CPU's, and prints for each kind how long the
//! session took until a run that began after the death was answered, and what is left of the processes. Options:
//! `--hang-timeout` (1s), `--restart-delay` (0, in milliseconds). It fails if a run fails, an output differs or is
//! lost, or a descriptor, a mapping or a process is left.

#[cfg(target_os = "linux")]
mod deaths;
#[cfg(target_os = "linux")]
mod overhead;
#[cfg(target_os = "linux")]
mod world;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().ok_or("expected overhead or deaths")?;
    let world = world::World::parse(arguments)?;
    match kind.as_str() {
        "overhead" => overhead::run(&world),
        "deaths" => deaths::run(&world),
        // started by `deaths`
        "app" => deaths::app(&world),
        other => Err(format!("{other}: expected overhead or deaths").into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("plugins run in processes of their own on Linux only");
}
