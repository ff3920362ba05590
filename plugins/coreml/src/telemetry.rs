//! Stated rates of the chips for the planner, by the chip name that the system reports.
//!
//! Core ML reports neither clocks nor heat, and the span of a run is the host's measurement.
//!
//! Rates of the Neural Engine follow from Apple's own figures of operations per second, two to a
//! multiply-add. Where Apple counts 8-bit operations (A17, A18, M4), 16 bits are assumed to be half
//! as fast. Rates of GPUs are cores times 128 multiply-adds per clock; rates of memory are the
//! bus's peak. They only order plans until something is measured.

/// A chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    /// How the system's name of the chip or device starts.
    pub(crate) name: &'static str,
    /// Billions of operations per second of the Neural Engine, in 16 bits.
    neural_giga_ops: u64,
    /// Billions of multiply-adds per second of the GPU, in 32 bits.
    gpu_giga_macs: u64,
    /// Billions of bytes per second of memory.
    giga_bytes: u64,
}

const fn chip(name: &'static str, neural_giga_ops: u64, gpu_giga_macs: u64, giga_bytes: u64) -> Chip {
    Chip {
        name,
        neural_giga_ops,
        gpu_giga_macs,
        giga_bytes,
    }
}

/// Chips, longer names before those that they start with.
const CHIPS: &[Chip] = &[
    chip("Apple A18", 17_500, 900, 60),
    chip("Apple A17", 17_500, 1070, 51),
    chip("Apple A16", 17_000, 890, 51),
    chip("Apple A15", 15_800, 850, 34),
    chip("Apple A14", 11_000, 750, 34),
    chip("Apple M4", 19_000, 2100, 120),
    chip("Apple M3", 18_000, 2050, 102),
    chip("Apple M2", 15_800, 1800, 102),
    chip("Apple M1", 11_000, 1300, 68),
];

/// A chip that is not in the table is taken for the slowest.
const UNKNOWN: Chip = CHIPS[4];

impl Chip {
    /// The chip of this name.
    pub(crate) fn named(name: &str) -> Chip {
        let known = CHIPS.iter().find(|chip| name.trim().starts_with(chip.name));
        known.copied().unwrap_or(UNKNOWN)
    }

    /// Multiply-adds per second of the Neural Engine or the GPU.
    pub(crate) fn macs_per_s(&self, ane: bool) -> u64 {
        if ane {
            self.neural_giga_ops * 500_000_000
        } else {
            self.gpu_giga_macs * 1_000_000_000
        }
    }

    /// Bytes of memory per second.
    pub(crate) fn bytes_per_s(&self) -> u64 {
        self.giga_bytes * 1_000_000_000
    }

    /// Nanoseconds of so much work, by the roofline.
    pub(crate) fn time_ns(&self, ane: bool, (macs, bytes): (u64, u64)) -> u64 {
        let of = |count: u64, rate: u64| (count as f64 / rate as f64 * 1e9) as u64;
        of(macs, self.macs_per_s(ane)).max(of(bytes, self.bytes_per_s()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_identified_by_name_prefix() {
        assert_eq!(Chip::named("Apple A17 Pro").name, "Apple A17");
        assert_eq!(Chip::named("Apple M1 Max").name, "Apple M1");
        assert_eq!(Chip::named("Intel"), UNKNOWN);
        assert_eq!(Chip::named("Apple M1").macs_per_s(true), 5_500_000_000_000);
    }
}
