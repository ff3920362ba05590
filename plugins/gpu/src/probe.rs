//! What a device achieves, measured once per driver and build and kept in the host's store: products, copies, the
//! link, launches.
//!
//! Invariants:
//! 1. Nothing is measured unless the host asks for it (configuration `gpu.rates`); until then a device has the rates that
//!    are stated of it (`stated`), so that two processes reckon alike.
//! 2. A measured figure is what this plugin's own kernels reach after the clocks have risen, not a data sheet's.
//! 3. A software GPU is not measured: an order of magnitude suffices.
//!
//! Not here: the cost of a part (`Target` says what one would be made of).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polychip_gpu_kernels::{Copy, Epilogue, Gemm, GemmInt8, Generate, Kernel, Limits, Right, Scalar};
use polychip_sdk::{Error, HostServices, RatesWanted, Result};

use crate::driver::adapter::GpuAdapter;
use crate::driver::gpu::Gpu;
use crate::driver::kernel_timer::KernelTimer;
use crate::driver::memory::{Hosted, MemoryBlock};
use crate::stated;
use polychip_gpu_lowering::Rates;

/// The rates of a device, with the time where they were measured, in seconds since 1970: those stated of it, those in the
/// host's store, or measured now and stored, as the host wants.
pub(crate) fn rates(
    host: &HostServices,
    wanted: RatesWanted,
    build_id: &str,
    found: &GpuAdapter,
    gpu: &Arc<Gpu>,
    limits: &Limits,
) -> (Rates, Option<u64>) {
    let usual = stated::rates(found, gpu);
    if found.software() {
        return (usual, None);
    }
    let key = format!("rates {build_id} {}", found.identity());
    let kept = || {
        let (rates, seconds) = postcard::from_bytes(&host.store_read(&key).ok().flatten()?).ok()?;
        Some((rates, Some(seconds)))
    };
    let known = match wanted {
        RatesWanted::Stated => Some((usual, None)),
        RatesWanted::Kept => Some(kept().unwrap_or((usual, None))),
        RatesWanted::Measured => kept(),
        RatesWanted::MeasuredAnew => None,
    };
    if let Some(known) = known {
        return known;
    }
    // a failure is not kept: it may pass
    let Ok(rates) = measure(gpu, limits, usual, WARM) else {
        return (usual, None);
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Ok(bytes) = postcard::to_stdvec(&(rates, since.as_secs())) {
        // a host without a store reckons with the usual ones next time
        let _ = host.store_write(&key, &bytes);
    }
    (rates, Some(since.as_secs()))
}

/// How long a device works before its clocks count as risen.
const WARM: Duration = Duration::from_millis(300);
/// How long a figure is looked for.
const EACH: Duration = Duration::from_millis(60);

/// Time of one launch of a kernel, the shortest seen, in seconds.
fn shortest(timer: &KernelTimer<'_>) -> Result<f64> {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut launches = 1;
    while begin.elapsed() < EACH || best.is_infinite() {
        let all = timer.time(launches)?.as_secs_f64();
        best = best.min(all / f64::from(launches));
        // long enough for the clock, short enough for whoever shares the device
        if all < 2e-3 && launches < 256 {
            launches *= 2;
        }
    }
    Ok(best.max(1e-9))
}

fn product(scalar: Scalar, side: u32, limits: &Limits) -> Result<Kernel> {
    let shape = |tile| Gemm {
        batch: Vec::new(),
        m: side,
        n: side,
        k: side,
        transposed_a: false,
        b: Right::Plain,
        scalar,
        epilogue: Epilogue::sum(scalar),
        tile,
    };
    let none = || Error::unsupported("no tile for a product");
    let any = polychip_gpu_kernels::GemmTile::Blocked {
        m: 32,
        n: 32,
        k: 16,
        rows: 4,
        columns: 4,
    };
    let tile = shape(any).candidates(limits).first().copied().ok_or_else(none)?;
    kernel(&shape(tile), limits)
}

fn bytes_product(side: u32, limits: &Limits) -> Result<Kernel> {
    let any = polychip_gpu_kernels::GemmTile::Blocked {
        m: 32,
        n: 32,
        k: 16,
        rows: 4,
        columns: 4,
    };
    let shape = |tile| GemmInt8 {
        batch: Vec::new(),
        m: side,
        n: side,
        k: side,
        a: Scalar::I8,
        a_zero: 0,
        b: Scalar::I8,
        b_zeros: vec![0],
        epilogue: Epilogue::sum(Scalar::F32),
        tile,
    };
    let none = || Error::unsupported("no tile for a product of bytes");
    let tile = shape(any).candidates(limits).first().copied().ok_or_else(none)?;
    kernel(&shape(tile), limits)
}

fn kernel(generator: &impl Generate, limits: &Limits) -> Result<Kernel> {
    generator
        .kernel(limits)
        .map_err(|error| Error::unsupported(error.to_string()))
}

/// Measures a device; figures that it cannot give stay the usual ones.
fn measure(gpu: &Arc<Gpu>, limits: &Limits, usual: Rates, warm: Duration) -> Result<Rates> {
    let mut rates = usual;
    let side = if usual.f32_macs > 1_000_000_000_000 {
        2048
    } else {
        512
    };
    let macs = f64::from(side).powi(3);
    let begin = Instant::now();
    let of_f32 = product(Scalar::F32, side, limits)?;
    let timer = KernelTimer::new(gpu, &of_f32)?;
    while begin.elapsed() < warm {
        timer.time(4)?;
    }
    rates.f32_macs = (macs / shortest(&timer)?) as u64;
    rates.f16_macs = rates.f32_macs;
    drop(timer);
    if limits.features.f16
        && let Ok(of_f16) = product(Scalar::F16, side, limits)
    {
        rates.f16_macs = (macs / shortest(&KernelTimer::new(gpu, &of_f16)?)?) as u64;
    }
    if let Ok(of_i8) = bytes_product(side, limits) {
        rates.i8_macs = (macs / shortest(&KernelTimer::new(gpu, &of_i8)?)?) as u64;
    }
    let megabytes = if side == 2048 { 256 } else { 16 };
    let copy = Copy {
        bytes: (megabytes << 20).min(limits.binding_bytes & !15),
    };
    let of_copy = kernel(&copy, limits)?;
    let timer = KernelTimer::new(gpu, &of_copy)?;
    rates.memory_bytes = (2.0 * copy.bytes as f64 / shortest(&timer)?) as u64;
    drop(timer);
    rates.link_bytes = rates.memory_bytes / 2;
    let reach = Copy { bytes: 8 << 20 };
    if let Ok(hosted) = Hosted::new(gpu, reach.bytes) {
        let of_reach = kernel(&reach, limits)?;
        let Hosted { block, memory } = hosted;
        let timer = KernelTimer::over(
            gpu,
            &of_reach,
            vec![block, Arc::new(MemoryBlock::local(gpu, reach.bytes)?)],
        )?;
        rates.link_bytes = (reach.bytes as f64 / shortest(&timer)?) as u64;
        drop(timer);
        // the GPU has ended what read it
        drop(memory);
    }
    let small = kernel(&Copy { bytes: 1024 }, limits)?;
    let timer = KernelTimer::new(gpu, &small)?;
    rates.launch_ns = (timer.time(256)?.as_nanos() / 256) as u64;
    rates.submit_ns = timer.round_trip(20)?.as_nanos() as u64;
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use polychip_test_requirements::{Need, absent};

    use super::*;
    use crate::driver::adapter;
    use crate::driver::gpu::Commands;

    #[test]
    fn probe_of_an_available_device_is_finite() {
        let Ok(found) = adapter::find(None) else {
            return absent(Need::Vulkan, "no GPU's driver is installed");
        };
        let found = &found[0];
        let gpu = Gpu::open(found, None, Commands::Recorded).unwrap();
        let usual = stated::rates(found, &gpu);
        let rates = measure(&gpu, &found.limits(), usual, Duration::ZERO).unwrap();
        let all = [
            rates.f32_macs,
            rates.f16_macs,
            rates.i8_macs,
            rates.memory_bytes,
            rates.link_bytes,
        ];
        eprintln!("{rates:?}");
        // no GPU, and no processor that plays one, is slower or faster than this
        assert!(
            all.iter().all(|rate| (1_000_000..1 << 56).contains(rate)),
            "{rates:?}"
        );
        assert!(rates.launch_ns > 0 && rates.submit_ns > 0, "{rates:?}");
    }
}
