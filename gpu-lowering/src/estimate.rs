//! What a part is expected to cost: its launches over the device's rates.
//!
//! Invariant: nothing is measured here; the cost carries the error that such an estimate is known to have.

use polychip_gpu_kernels::Access;
use polychip_lowering::{Extract, Part};
use polychip_sdk::{Cost, GraphView, Result};

use crate::blob::Lowered;
use crate::lower::lower_dry;
use crate::program::Home;
use crate::target::Target;

/// Share of the device's multiply-adds that products and convolutions of common sizes reach (H200, f32: tiles of
/// 4096 cubed reach 0.56 of the datasheet, layers at batch 1 far less).
const REACHED: f64 = 0.4;
/// Error of a roofline against measured networks, in thousandths.
const ERROR_PERMILLE: u32 = 500;

/// Expected cost of each of some parts of a graph; without figures for one that is not lowered.
///
/// # Errors
/// Where a part cannot be lowered for another reason than that it is not supported.
pub fn estimate(
    graph: &GraphView<'_>,
    parts: &[&[u32]],
    target: &Target,
    emulated: bool,
) -> Result<Vec<Cost>> {
    let whole = Part::of(graph, |_| true);
    let mut extract = Extract::new(&whole);
    let estimate = |nodes: &&[u32]| {
        lower_dry(extract.nodes(nodes), target)
            .map(|lowered| cost(&lowered, target, emulated))
            .or_else(Cost::unknown)
    };
    parts.iter().map(estimate).collect()
}

/// Expected cost of one run of a lowered part.
fn cost(lowered: &Lowered, target: &Target, emulated: bool) -> Cost {
    let rates = &target.rates;
    let per = |amount: u64, rate: u64| amount as f64 / rate.max(1) as f64 * 1e9;
    let mut time_ns = 0.0;
    for step in &lowered.program.steps {
        let kernel = &lowered.program.kernels[step.kernel as usize];
        let (mut memory, mut link) = (0u64, 0u64);
        for (binding, &value) in kernel.bindings.iter().zip(&step.operands) {
            let far =
                matches!(lowered.program.values[value as usize].home, Home::Port(..)) && target.discrete;
            // a table of constants is read in places, not from end to end
            let bytes = match binding.access {
                Access::Constant => binding.bytes,
                Access::Read | Access::Write => binding.bytes.min(kernel.work.saturating_mul(64)),
            };
            if far {
                link += bytes;
            } else {
                memory += bytes;
            }
        }
        let macs = if kernel.variant.contains("i8") || kernel.variant.contains("u8") {
            rates.i8_macs
        } else if kernel.variant.contains("f16") {
            rates.f16_macs
        } else {
            rates.f32_macs
        };
        let computed = per(kernel.work, macs) / REACHED;
        let moved = per(memory, rates.memory_bytes) + per(link, rates.link_bytes);
        time_ns += computed.max(moved) + rates.launch_ns as f64;
    }
    let ports: u64 = lowered.ports.iter().map(|port| port.bytes).sum();
    Cost {
        time_ns: Some(time_ns as u64),
        launch_ns: Some(rates.submit_ns),
        memory_bytes: Some(lowered.program.arena_bytes + lowered.constants.len() as u64 + ports),
        error_permille: Some(ERROR_PERMILLE),
        emulated,
        ..Cost::default()
    }
}
