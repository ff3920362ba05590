//! What a device is priced by. OpenCL has no sensors, and spans of runs are `polychip_sdk::Run`'s.

use polychip_gpu_lowering::Rates;

use crate::driver::discovery::ClDevice;

/// Rates of a device: orders of magnitude, from what the driver tells of its units and clock.
pub(crate) fn rates(cl_device: &ClDevice) -> Rates {
    let (f32_macs, memory_bytes) = if cl_device.software {
        (4_000_000_000, 8_000_000_000)
    } else {
        // Adreno and Mali compute 64 to 128 multiply-adds per unit and tick, and share the memory of their chip
        (
            cl_device.ticks_per_s.saturating_mul(64).max(1_000_000_000),
            30_000_000_000,
        )
    };
    Rates {
        f32_macs,
        f16_macs: f32_macs,
        i8_macs: f32_macs,
        memory_bytes,
        link_bytes: if cl_device.unified {
            memory_bytes
        } else {
            8_000_000_000
        },
        launch_ns: if cl_device.software { 20_000 } else { 10_000 },
        submit_ns: 80_000,
    }
}
