//! What is known of a device's rates before anything is measured, and its sensors.

use crate::driver::adapter::Found;
use crate::target::Rates;

/// Rates of a GPU of this sort, to begin with.
pub(crate) fn rates(found: &Found) -> Rates {
    let (f32_macs, memory_bytes, link_bytes) = if found.software() {
        (8_000_000_000, 8_000_000_000, 8_000_000_000)
    } else if found.discrete() {
        (10_000_000_000_000, 1_000_000_000_000, 20_000_000_000)
    } else {
        (500_000_000_000, 50_000_000_000, 50_000_000_000)
    };
    Rates {
        f32_macs,
        f16_macs: f32_macs,
        i8_macs: f32_macs,
        memory_bytes,
        link_bytes,
        launch_ns: 4_000,
        submit_ns: if found.software() { 80_000 } else { 25_000 },
    }
}
