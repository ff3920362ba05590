//! The chips: names of the toolkit's targets, cores, and rates for the planner.
//!
//! Rates are those of one core in 16-bit floats. For RK3588 the vendor's compiler counts 1024
//! multiply-adds of 8-bit integers per cycle and core, half of that in 16-bit floats, at 1 GHz. The
//! others follow from the manufacturer's TOPS (two operations per multiply-add, 8-bit integers) in
//! the same way. Bytes are the peak rate of the memory on boards with the chip. These rates only
//! order plans until something is measured.
//!
//! `calibration` is the ratio of board time to the compiler's cycles for two nets: the geometric
//! mean over ResNet-50 and MobileNetV2 in 8 bits on one core, cycles of toolkit 2.5.0 against the
//! frames per second that the vendor publishes. With two points for one number it is a prior, not a
//! measurement of ours.
//!
//! Invariant: a chip that is not in the table is refused by name.

/// One system on chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chip {
    /// The toolkit's name of it.
    pub(crate) target: &'static str,
    /// Human-readable name.
    pub(crate) title: &'static str,
    /// Cores of the NPU.
    pub(crate) cores: usize,
    /// Clock of the compiler's cycles.
    pub(crate) clock_hz: f64,
    /// Time on a board by the compiler's time.
    pub(crate) calibration: f64,
    /// Multiply-adds of 16-bit floats per second and core.
    pub(crate) macs_per_s: f64,
    /// Bytes of memory per second.
    pub(crate) bytes_per_s: f64,
}

const fn chip(
    target: &'static str,
    title: &'static str,
    cores: usize,
    calibration: f64,
    giga_macs: f64,
    giga_bytes: f64,
) -> Chip {
    Chip {
        target,
        title,
        cores,
        clock_hz: 1e9,
        calibration,
        macs_per_s: giga_macs * 1e9,
        bytes_per_s: giga_bytes * 1e9,
    }
}

/// The chips known. Those with a 32-bit processor (RV1103, RV1106) have another layout of the runtime's structs.
pub(crate) const CHIPS: [Chip; 5] = [
    // 6 TOPS, LPDDR4X-4224 of 64 bits
    chip("rk3588", "RK3588", 3, 1.64, 512.0, 33.8),
    // 6 TOPS, LPDDR4X-4224 of 32 bits
    chip("rk3576", "RK3576", 2, 1.02, 750.0, 16.9),
    // 1 TOPS, LPDDR4-3200 of 32 bits
    chip("rk3562", "RK3562", 1, 1.38, 250.0, 12.8),
    chip("rk3566", "RK3566", 1, 1.95, 250.0, 12.8),
    chip("rk3568", "RK3568", 1, 1.95, 250.0, 12.8),
];

impl Chip {
    /// The chip of this name.
    ///
    /// # Errors
    /// A message that names the value and the accepted ones.
    pub(crate) fn find(text: &str) -> Result<Chip, String> {
        let name = text.trim();
        let known = CHIPS.iter().find(|chip| chip.target.eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| {
            let names = CHIPS.map(|chip| chip.target).join(", ");
            format!("target_platform {text:?} is none of {names}")
        })
    }

    /// The chip that a board's device tree names: `compatible`, texts that each end with a zero.
    pub(crate) fn of_device_tree(compatible: &[u8]) -> Option<Chip> {
        let names = compatible.split(|&byte| byte == 0);
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        names
            .filter_map(|name| name.strip_prefix("rockchip,"))
            // rk3588s is a smaller package of the same chip
            .find_map(|name| CHIPS.iter().copied().find(|chip| name.starts_with(chip.target)))
    }

    /// Nanoseconds that so many of the compiler's cycles take on a board.
    pub(crate) fn cycles_ns(&self, cycles: u64) -> u64 {
        (cycles as f64 / self.clock_hz * 1e9 * self.calibration) as u64
    }

    /// Nanoseconds that so much work takes, the longer of the two.
    pub(crate) fn work_ns(&self, macs: u64, bytes: u64) -> u64 {
        let arithmetic = macs as f64 / self.macs_per_s;
        let memory = bytes as f64 / self.bytes_per_s;
        (arithmetic.max(memory) * 1e9 * self.calibration) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_found_by_name_and_by_device_tree() {
        assert_eq!(Chip::find(" RK3588 ").unwrap().cores, 3);
        let words = Chip::find("rk9999").unwrap_err();
        assert!(words.contains("rk9999") && words.contains("rk3562"), "{words}");
        let orange = b"xunlong,orangepi-5\0rockchip,rk3588s\0";
        assert_eq!(Chip::of_device_tree(orange).unwrap().target, "rk3588");
        assert_eq!(Chip::of_device_tree(b"qcom,sm8650\0"), None);
        assert_eq!(Chip::of_device_tree(b"\xff\xfe"), None);
    }

    #[test]
    fn cycles_are_converted_to_board_time() {
        let chip = Chip::find("rk3588").unwrap();
        // ResNet-50 in 8 bits: 5.73 ms of cycles, 9.08 ms on a board, and the scalar is a mean over two nets
        let ns = chip.cycles_ns(5_730_000);
        assert!((ns as f64 / 9.08e6 - 1.0).abs() < 0.04, "{ns}");
    }
}
