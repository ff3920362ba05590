//! How long the convolutions of two networks take on the GPU that is there: for each layer the medians of all
//! tiles, by the GPU's own clock, with values checked; and the sum over each network.
//!
//! `cargo bench -p polychip-gpu-kernels --bench convolutions -- [--json FILE] [--wide] [--network NAME]`
//!
//! A layer's time is that of one of several launches in a row, each of which waits for the one before. Own code, not
//! criterion: the clock is the GPU's.

#![allow(clippy::print_stdout)] // the figures are what it is for

mod clock;
#[path = "../../tests/kernels/device.rs"]
#[allow(dead_code)] // runs of one kernel are the tests'
mod device;
mod layers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use polychip_gpu_kernels::{Generate, Kernel, Limits, Sample};

use clock::Clock;
use layers::{Layer, Shape};

/// One kernel's outcome.
struct Timed {
    kernel: Kernel,
    /// Rank by the rule, of the tiles that the library offers.
    rank: Option<usize>,
    median_us: f64,
    wrong: Option<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    // cargo test runs benches too, without asking for one
    if !arguments.iter().any(|a| a == "--bench") && value("--json").is_none() {
        return;
    }
    let clock = match Clock::open() {
        Ok(clock) => clock,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let wide = arguments.iter().any(|a| a == "--wide");
    let mut networks = Vec::new();
    for (name, layers) in layers::networks() {
        if value("--network").is_none_or(|wanted| name.contains(&wanted)) {
            networks.push(network(&clock, name, &layers, wide));
        }
    }
    let json = serde_json::json!({ "device": clock.gpu.name, "networks": networks });
    if let Some(path) = value("--json")
        && let Err(error) = std::fs::write(&path, format!("{json:#}\n"))
    {
        eprintln!("{path}: {error}");
    }
}

fn network(clock: &Clock, name: &str, layers: &[Layer], wide: bool) -> serde_json::Value {
    let samples = in_parallel(layers, |layer| layer.shape.sample());
    let mut rows = Vec::new();
    let (mut first_us, mut best_us, mut launches) = (0.0, 0.0, 0);
    for (layer, sample) in layers.iter().zip(&samples) {
        let timed = measure(clock, &layer.shape, sample, wide);
        let best = timed
            .iter()
            .filter(|t| t.wrong.is_none())
            .min_by(|a, b| a.median_us.total_cmp(&b.median_us));
        let first = timed.iter().find(|t| t.rank == Some(0));
        let us = |t: Option<&Timed>| t.map_or(f64::NAN, |t| t.median_us);
        println!(
            "{name} {} x{}: first {:.1} us ({}), best {:.1} us ({})",
            layer.name,
            layer.count,
            us(first),
            first.map_or("none", |t| &t.kernel.variant),
            us(best),
            best.map_or("none", |t| &t.kernel.variant),
        );
        for t in timed.iter().filter(|t| t.wrong.is_some()) {
            println!(
                "  WRONG {}: {}",
                t.kernel.variant,
                t.wrong.as_deref().unwrap_or("")
            );
        }
        first_us += us(first) * f64::from(layer.count);
        best_us += us(best) * f64::from(layer.count);
        launches += layer.count;
        let kernels: Vec<serde_json::Value> = timed
            .iter()
            .map(|t| {
                serde_json::json!({
                    "variant": t.kernel.variant,
                    "rank": t.rank,
                    "groups": t.kernel.groups.iter().map(|&g| u64::from(g)).product::<u64>(),
                    "threads": t.kernel.workgroup.iter().product::<u32>(),
                    "median_us": t.median_us,
                    "wrong": t.wrong.is_some(),
                })
            })
            .collect();
        rows.push(serde_json::json!({ "layer": layer.name, "count": layer.count, "kernels": kernels }));
    }
    println!("{name}: {launches} launches, first tiles {first_us:.0} us, best tiles {best_us:.0} us");
    serde_json::json!({
        "network": name,
        "layers": rows,
        "launches": launches,
        "first_us": first_us,
        "best_us": best_us,
    })
}

/// All kernels of a shape: built side by side, then timed one after another.
fn measure(clock: &Clock, shape: &Shape, sample: &Sample, wide: bool) -> Vec<Timed> {
    let kernels = shape.kernels(&clock.gpu.limits, wide);
    let pipelines = in_parallel(&kernels, |(_, kernel)| clock.gpu.pipeline(kernel));
    let buffers = clock.buffers(&kernels[0].1, sample);
    kernels
        .into_iter()
        .zip(pipelines)
        .map(|((rank, kernel), pipeline)| {
            let (median_us, wrong) = clock.time(&kernel, &pipeline, &buffers, sample);
            Timed {
                kernel,
                rank,
                median_us,
                wrong,
            }
        })
        .collect()
}

/// Runs over all items on all cores; results in order.
fn in_parallel<T: Sync, R: Send>(items: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    let result = one(item);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The kernel, where the device can hold it.
fn kernel_of(generator: &dyn Generate, limits: &Limits) -> Option<Kernel> {
    generator.kernel(limits).ok()
}
