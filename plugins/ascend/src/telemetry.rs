//! Expected costs of parts, and the one sensor that the library has.
//!
//! The compiler reports no times, so each node has a roofline of the chip's stated rates: an
//! estimate, never a measurement.
//!
//! Not here: spans of runs (`polychip_sdk::Run`; the board's own time comes from its events).
//! Temperature and power belong to the driver's tools (`npu-smi`, DCMI), another library.

use polychip_lowering::vendor_compiler;
use polychip_sdk::{Cost, Error, GraphView, Result, Telemetry};

use crate::caps;
use crate::driver::Opening;
use crate::shared::Common;
use crate::soc::Rates;

/// A roofline forgets all but arithmetic and traffic.
const OF_ROOFLINE_PERMILLE: u32 = 700;
/// Bytes of an element in the cores.
const ELEMENT: u64 = 2;

/// Cost of the listed nodes as one part.
pub(crate) fn estimate(common: &Common, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
    let soc = &common.soc;
    let rates = Rates::of(soc).ok_or_else(|| Error::unsupported(format!("rates of {soc} are not known")))?;
    let mut sum = 0u64;
    for &node in nodes {
        let node = graph.node(node as usize);
        caps::promised(graph, &node)?;
        let work = vendor_compiler::work(graph, &node, ELEMENT);
        sum = sum.saturating_add(rates.work_ns(work.macs, work.bytes));
    }
    Ok(Cost {
        time_ns: Some(sum),
        error_permille: Some(OF_ROOFLINE_PERMILLE),
        emulated: common.driver.library().is_emulated(),
        ..Cost::default()
    })
}

/// Reads the sensor.
pub(crate) fn read(common: &Common, opening: &Opening) -> Result<Telemetry> {
    let (free, total) = opening
        .memory()?
        .ok_or_else(|| Error::unsupported("the library does not say how much memory is used"))?;
    Ok(Telemetry {
        time_ns: common.host.now_ns(),
        memory_used_bytes: Some(total.saturating_sub(free)),
        ..Telemetry::default()
    })
}
