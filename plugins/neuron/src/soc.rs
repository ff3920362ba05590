//! The chips: names, and rates for the planner until something is measured.
//!
//! Rates are estimates from public figures: the maker's peak integer rate of the NPU (two operations per multiply-add) where
//! it gives one, and the peak rate of the memory that phones of this chip are built with. They only order plans.

/// One system on chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Soc {
    /// The maker's part number, in small letters.
    pub(crate) name: &'static str,
    /// Its trade name.
    pub(crate) trade: &'static str,
    /// Multiply-adds of 8-bit integers per second.
    pub(crate) macs_per_s: u64,
    /// Bytes of memory per second.
    pub(crate) bytes_per_s: u64,
}

const fn soc(name: &'static str, trade: &'static str, tera_ops: u64, giga_bytes: u64) -> Soc {
    Soc {
        name,
        trade,
        macs_per_s: tera_ops * 500_000_000_000,
        bytes_per_s: giga_bytes * 1_000_000_000,
    }
}

/// The chips by name; the first is the default.
pub(crate) const SOCS: &[Soc] = &[
    soc("mt6989", "Dimensity 9300", 33, 76),
    soc("mt6985", "Dimensity 9200", 25, 68),
    soc("mt6983", "Dimensity 9000", 21, 60),
    soc("mt6991", "Dimensity 9400", 50, 85),
    soc("mt6897", "Dimensity 8300", 14, 68),
    soc("mt6878", "Dimensity 7300", 5, 51),
];

impl Soc {
    /// The chip of this name.
    ///
    /// # Errors
    /// A message that names the value and the accepted ones.
    pub(crate) fn find(text: &str) -> Result<Soc, String> {
        let wanted = text.trim();
        let known = SOCS.iter().find(|soc| soc.name.eq_ignore_ascii_case(wanted));
        known.copied().ok_or_else(|| {
            let names: Vec<&str> = SOCS.iter().map(|soc| soc.name).collect();
            format!("soc {wanted:?} is none of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_found_by_name() {
        assert_eq!(Soc::find(" MT6989 ").unwrap().trade, "Dimensity 9300");
        let words = Soc::find("mt1").unwrap_err();
        assert!(words.contains("mt1") && words.contains("mt6989"), "{words}");
    }
}
