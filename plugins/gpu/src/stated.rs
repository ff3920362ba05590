//! Rates of an unmeasured GPU, from its identity: its units, its memory, its bus slot.
//!
//! Invariants:
//! 1. The same device and driver give the same rates in each process: nothing read here moves with the load.
//! 2. What a driver does not tell is an order of magnitude of the device's sort.
//!
//! Sources: `VK_NV_shader_sm_builtins`, `VK_AMD_shader_core_properties2`, `VK_ARM_shader_core_properties`; Linux's
//! `max_link_speed` and `max_link_width` of the PCI device; data sheets for clocks and memory.
//!
//! Not here: measuring (`probe`).

use std::fs;
use std::path::Path;

use polychip_gpu_lowering::Rates;

use crate::driver::adapter::GpuAdapter;
use crate::driver::gpu::Gpu;

/// Clock of GPUs with memory of their own: data sheets give 1.1 to 2.5 GHz.
const DISCRETE_HZ: u64 = 1_500_000_000;
/// Clock of GPUs in a system on chip: 0.6 to 1.3 GHz.
const INTEGRATED_HZ: u64 = 800_000_000;
/// How often a GPU can read all of its own memory in a second. Data sheets: RTX 3060 30, RTX 4090 42, T4 20, A100 39 and
/// 26 (40 and 80 GB), H100 42, H200 34, RX 7900 XTX 40, MI210 26.
const READS_PER_S: u64 = 35;
/// Memory rate if the size of the memory is unknown.
const OWN_BYTES_PER_S: u64 = 300_000_000_000;
/// A link whose speed the system does not tell: PCIe 3.0 with 16 lanes.
const LINK_BYTES_PER_S: u64 = 12_000_000_000;
/// Share of a link's bits that carry data in large reads, in percent.
const LINK_CARRIES: u64 = 80;

/// The rates of a device.
pub(crate) fn rates(found: &GpuAdapter, gpu: &Gpu) -> Rates {
    let (f32_macs, memory_bytes, link_bytes) = if found.software() {
        (6_000_000_000, 8_000_000_000, 8_000_000_000)
    } else if found.discrete() {
        let link = link(Path::new("/sys"), &found.info.device_pci_bus_id);
        (
            gpu.fma_lanes()
                .map_or(5_000_000_000_000, |lanes| lanes * DISCRETE_HZ),
            match gpu.local_bytes() {
                0 => OWN_BYTES_PER_S,
                bytes => bytes.saturating_mul(READS_PER_S),
            },
            link.unwrap_or(LINK_BYTES_PER_S),
        )
    } else {
        let lanes = gpu.fma_lanes();
        (
            lanes.map_or(300_000_000_000, |lanes| lanes * INTEGRATED_HZ),
            40_000_000_000,
            40_000_000_000,
        )
    };
    Rates {
        f32_macs,
        f16_macs: f32_macs,
        i8_macs: f32_macs,
        memory_bytes,
        link_bytes,
        launch_ns: if found.software() { 10_000 } else { 4_000 },
        submit_ns: if found.software() { 80_000 } else { 30_000 },
    }
}

/// Bytes per second of the widest and fastest link that a PCI device can have; the present one sleeps with the device.
fn link(sys: &Path, pci: &str) -> Option<u64> {
    if pci.is_empty() {
        return None;
    }
    let device = sys.join("bus/pci/devices").join(pci.to_lowercase());
    let word = |file: &str| {
        let text = fs::read_to_string(device.join(file)).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    // such as "16.0 GT/s PCIe" and "16"; a virtual device says "Unknown" or 0
    let bits = word("max_link_speed")? * 1e9 * word("max_link_width")?;
    let bytes = (bits as u64 / 8).saturating_mul(LINK_CARRIES) / 100;
    (1_000_000_000..1 << 40).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_rate_is_the_best_supported() {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("bus/pci/devices/0000:0a:00.0");
        fs::create_dir_all(&device).unwrap();
        let says = |speed: &str, width: &str| {
            fs::write(device.join("max_link_speed"), speed).unwrap();
            fs::write(device.join("max_link_width"), width).unwrap();
            link(sys.path(), "0000:0A:00.0")
        };
        assert_eq!(says("16.0 GT/s PCIe\n", "16\n"), Some(25_600_000_000));
        assert_eq!(says("8 GT/s\n", "4\n"), Some(3_200_000_000));
        assert_eq!(says("Unknown\n", "16\n"), None);
        assert_eq!(says("16.0 GT/s PCIe\n", "0\n"), None);
        assert_eq!(says("2.5 GT/s PCIe\n", "255\n"), Some(63_750_000_000));
        assert_eq!(link(sys.path(), "0000:0b:00.0"), None);
        assert_eq!(link(sys.path(), ""), None);
    }
}
