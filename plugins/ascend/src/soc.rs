//! The chips: rates for the planner, from the manufacturer's data sheets.
//!
//! Ascend310: 8 TFLOPS in 16-bit floats; four chips with 204.8 GB/s and one PCIe 3.0 x16 on an
//! Atlas 300I. Ascend310B: 10 TFLOPS and 51.2 GB/s of LPDDR4X on an Atlas 200I A2, whose host is on
//! the chip, so that a copy reads and writes one memory. Ascend310P: 70 TFLOPS, 204.8 GB/s, PCIe
//! 4.0 x16 on an Atlas 300I Pro. A multiply-add is two operations. These rates only order plans
//! until something is measured.
//!
//! Invariant: a chip that is not in the table has no rates; only a slow link is assumed for it.

/// What is known of a chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rates {
    /// Multiply-adds of 16-bit floats per second.
    pub(crate) macs_per_s: f64,
    /// Bytes of the board's memory per second.
    pub(crate) bytes_per_s: f64,
    /// Bytes per second between the host's memory and the board's.
    pub(crate) link_bytes_per_s: f64,
}

/// Names begin with these; the longest that fits counts.
const SOCS: [(&str, Rates); 3] = [
    ("Ascend310", rates(4.0, 51.2, 3.9)),
    ("Ascend310B", rates(5.0, 51.2, 25.6)),
    ("Ascend310P", rates(35.0, 204.8, 31.5)),
];

/// A link that is slow for any board: PCIe 3.0 x4.
const SLOW_LINK: f64 = 3.9e9;

const fn rates(tera_macs: f64, giga_bytes: f64, giga_link: f64) -> Rates {
    Rates {
        macs_per_s: tera_macs * 1e12,
        bytes_per_s: giga_bytes * 1e9,
        link_bytes_per_s: giga_link * 1e9,
    }
}

impl Rates {
    /// Those of the chip of this name, as the library gives it.
    pub(crate) fn of(soc: &str) -> Option<Rates> {
        let fits = SOCS.iter().filter(|(name, _)| soc.starts_with(name));
        fits.max_by_key(|(name, _)| name.len()).map(|(_, rates)| *rates)
    }

    /// The link of any chip.
    pub(crate) fn link(soc: &str) -> f64 {
        Rates::of(soc).map_or(SLOW_LINK, |rates| rates.link_bytes_per_s)
    }

    /// Nanoseconds that so much work takes, the longer of the two.
    pub(crate) fn work_ns(&self, macs: u64, bytes: u64) -> u64 {
        let arithmetic = macs as f64 / self.macs_per_s;
        let memory = bytes as f64 / self.bytes_per_s;
        (arithmetic.max(memory) * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_matching_name_is_used_and_others_have_no_rates() {
        assert_eq!(Rates::of("Ascend310P3").unwrap().bytes_per_s, 204.8e9);
        assert_eq!(Rates::of("Ascend310B4").unwrap().macs_per_s, 5e12);
        assert_eq!(Rates::of("Ascend310").unwrap().macs_per_s, 4e12);
        assert_eq!(Rates::of("Ascend999"), None);
        assert_eq!(Rates::link("Ascend999"), SLOW_LINK);
    }

    #[test]
    fn slower_of_arithmetic_and_memory_is_used() {
        let rates = Rates::of("Ascend310P3").unwrap();
        assert_eq!(rates.work_ns(35_000_000, 1), 1000);
        assert_eq!(rates.work_ns(1, 204_800), 1000);
    }
}
