//! Rates of the first GPU: products in every tile that suits them, copies, launches; by timestamps of the device,
//! after a warm-up, medians, values checked.
//!
//! `cargo bench -p polychip-gpu-kernels --bench rates -- [--json] [--shapes] [FILTER]`; `--shapes` adds the
//! products of ResNet-50 and MobileNetV2 at batch 1.

#[path = "../tests/kernels/device.rs"]
#[allow(dead_code)] // runs of one kernel are the tests'
mod device;
#[path = "rates/product.rs"]
mod product;
#[path = "rates/stopwatch.rs"]
mod stopwatch;

use std::{io::Write as _, time::Duration};

use polychip_gpu_kernels::{Copy, Generate, Scalar, Values};
use product::Product;
use stopwatch::Stopwatch;

/// 1x1 convolutions of ResNet-50 and MobileNetV2 at 224x224, and their classifiers: rows, columns, length of sums.
const SHAPES: [[u32; 3]; 20] = [
    [3136, 64, 64],
    [3136, 256, 64],
    [784, 128, 512],
    [784, 512, 128],
    [196, 256, 1024],
    [196, 1024, 256],
    [49, 512, 2048],
    [49, 2048, 512],
    [1, 1000, 2048],
    [12544, 96, 16],
    [3136, 24, 96],
    [3136, 144, 24],
    [784, 32, 192],
    [196, 384, 64],
    [196, 96, 576],
    [49, 960, 160],
    [49, 160, 960],
    [49, 320, 960],
    [49, 1280, 320],
    [1, 1000, 1280],
];

/// One line of the table.
struct Line {
    name: String,
    variant: String,
    value: f64,
    unit: &'static str,
    nanoseconds: f64,
    wrong: Option<String>,
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let filter = arguments
        .iter()
        .find(|a| !a.starts_with("--"))
        .cloned()
        .unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let gpu = match device::Gpu::open() {
        Ok(gpu) => gpu,
        Err(why) => {
            writeln!(out, "skipped: {why}").map_err(|error| error.to_string())?;
            return Ok(());
        }
    };
    let watch = Stopwatch::new(gpu.clone())?;
    let mut lines = Vec::new();

    // a processor that plays a GPU gets small sizes
    let copied: u64 = if gpu.software { 16 << 20 } else { 1 << 30 };
    let copy = Copy {
        bytes: copied.min(gpu.limits.binding_bytes),
    };
    let kernel = copy.kernel(&gpu.limits).map_err(|error| error.to_string())?;
    let pattern: Vec<u8> = Values::F32(Values::floats(3, 1 << 18)).bytes();
    let launch = watch.launch(&kernel, &[&pattern])?;
    let warm = Duration::from_millis(if gpu.software { 0 } else { 500 });
    watch.warm_up(&launch, warm)?;
    if "copy".contains(&filter) || filter.is_empty() {
        let nanoseconds = watch.time(&launch)?;
        let same = watch.read(&launch, 1)?[..pattern.len()] == pattern;
        lines.push(Line {
            name: format!("copy/{} MiB", copy.bytes >> 20),
            variant: kernel.variant.clone(),
            value: 2.0 * copy.bytes as f64 / nanoseconds / 1e3,
            unit: "TB/s",
            nanoseconds,
            wrong: (!same).then(|| "the copy differs".to_owned()),
        });
    }
    let small = Copy { bytes: 4096 }
        .kernel(&gpu.limits)
        .map_err(|error| error.to_string())?;
    let small = watch.launch(&small, &[])?;
    for count in [1, 100] {
        let name = format!("launch/{count}");
        if !name.contains(&filter) {
            continue;
        }
        let nanoseconds = watch.latency(&small, count)?;
        lines.push(Line {
            name,
            variant: "copy-u32x4, seen by asking without pause".to_owned(),
            value: nanoseconds / 1e3,
            unit: "us",
            nanoseconds,
            wrong: None,
        });
    }

    let mut products: Vec<(Scalar, [u32; 3])> = Vec::new();
    let cubes: &[u32] = if gpu.software { &[256] } else { &[1024, 4096] };
    let mut scalars = vec![Scalar::F32, Scalar::I8];
    if gpu.limits.features.f16 {
        scalars.insert(1, Scalar::F16);
    }
    for &side in cubes {
        products.extend(scalars.iter().map(|&scalar| (scalar, [side; 3])));
    }
    if has("--shapes") {
        for &scalar in &scalars {
            products.extend(SHAPES.iter().map(|&shape| (scalar, shape)));
        }
    }
    for (scalar, shape) in products {
        let product = Product::new(scalar, shape);
        if !product.name().contains(&filter) {
            continue;
        }
        let [a, b] = product.inputs()?;
        let (mut launches, mut checks) = (Vec::new(), Vec::new());
        for tile in product.candidates(&gpu.limits) {
            let kernel = product.kernel(tile, &gpu.limits)?;
            launches.push((watch.launch(&kernel, &[&a, &b])?, kernel));
        }
        // making pipelines has let the clock fall
        if let Some((launch, _)) = launches.first() {
            watch.warm_up(launch, warm)?;
        }
        for (launch, kernel) in launches {
            watch.warm_up(&launch, warm / 20)?;
            let nanoseconds = watch.time(&launch)?;
            lines.push(Line {
                name: product.name(),
                variant: kernel.variant,
                value: product.operations() / nanoseconds / 1e3,
                unit: if scalar == Scalar::I8 { "TOP/s" } else { "TFLOP/s" },
                nanoseconds,
                wrong: None,
            });
            checks.push((lines.len() - 1, launch));
        }
        for (line, launch) in checks {
            lines[line].wrong = product.check(&watch, &launch).err();
        }
    }

    let write = |text: String| writeln!(out, "{text}").map_err(|error| error.to_string());
    report(&gpu.name, &lines, has("--json"), write)?;
    match lines
        .iter()
        .find_map(|line| line.wrong.as_ref().map(|why| (line, why)))
    {
        Some((line, why)) => Err(format!("{} {}: {why}", line.name, line.variant)),
        None => Ok(()),
    }
}

fn report(
    device: &str,
    lines: &[Line],
    json: bool,
    mut write: impl FnMut(String) -> Result<(), String>,
) -> Result<(), String> {
    if json {
        let rows: Vec<serde_json::Value> = lines
            .iter()
            .map(|line| {
                serde_json::json!({
                    "name": line.name,
                    "variant": line.variant,
                    "value": line.value,
                    "unit": line.unit,
                    "ns": line.nanoseconds,
                    "right": line.wrong.is_none(),
                })
            })
            .collect();
        let answer = serde_json::json!({ "device": device, "lines": rows });
        return write(format!("{answer:#}"));
    }
    write(format!("{device}; medians by the device's clock"))?;
    for line in lines {
        write(format!(
            "{:<28} {:<42} {:>9.3} {:<8} {:>11.2} us  {}",
            line.name,
            line.variant,
            line.value,
            line.unit,
            line.nanoseconds / 1e3,
            line.wrong.as_deref().unwrap_or("")
        ))?;
    }
    Ok(())
}
