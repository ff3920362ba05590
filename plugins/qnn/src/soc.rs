//! The chips: SoC ids of Qualcomm's libraries, their Hexagon architecture, and rates for the planner.
//!
//! Rates are estimates from public figures: the maker's peak integer rate for the NPU (two operations per
//! multiply-add) and the peak rate of the memory that phones of this SoC are built with. They only order
//! plans until something is measured.
//!
//! Invariant: ids are those that `deviceCreate` takes; a SoC that is not in the table has no entry here and is
//! refused by name, but taken by id with the rates of the oldest.

/// One system on chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Soc {
    /// The vendor's id.
    pub(crate) id: u32,
    /// The maker's part number; empty where only the id is known.
    pub(crate) name: &'static str,
    /// Hexagon architecture, as in `v73`; 0 if unknown.
    pub(crate) arch: u32,
    /// Whether the NPU computes in 16-bit floats.
    pub(crate) floats: bool,
    /// Multiply-adds of 8-bit integers per second.
    pub(crate) macs_per_s: u64,
    /// Bytes of memory per second.
    pub(crate) bytes_per_s: u64,
}

const fn soc(id: u32, name: &'static str, arch: u32, tera_ops: u64, giga_bytes: u64) -> Soc {
    Soc {
        id,
        name,
        arch,
        // 16-bit floats came with v69
        floats: arch >= 69,
        macs_per_s: tera_ops * 500_000_000_000,
        bytes_per_s: giga_bytes * 1_000_000_000,
    }
}

/// The chips known by name.
pub(crate) const SOCS: &[Soc] = &[
    soc(30, "SM8350", 68, 26, 51),
    soc(36, "SM8450", 69, 27, 51),
    soc(39, "SA8295", 68, 30, 51),
    soc(42, "SM8475", 69, 27, 51),
    soc(43, "SM8550", 73, 34, 67),
    soc(57, "SM8650", 75, 45, 76),
    soc(69, "SM8750", 79, 50, 85),
    soc(87, "SM8850", 81, 60, 85),
];

/// Default chip: the one that the vendor's x86 library emulates.
pub(crate) const DEFAULT: Soc = SOCS[0];

impl Soc {
    /// The chip of this id or name.
    ///
    /// # Errors
    /// A message that names the value and the accepted ones.
    pub(crate) fn find(text: &str) -> Result<Soc, String> {
        let text = text.trim();
        if let Ok(id) = text.parse::<u32>() {
            let known = SOCS.iter().find(|soc| soc.id == id);
            return Ok(known.copied().unwrap_or(Soc {
                id,
                name: "",
                arch: 0,
                floats: true,
                ..DEFAULT
            }));
        }
        let known = SOCS.iter().find(|soc| soc.name.eq_ignore_ascii_case(text));
        known.copied().ok_or_else(|| {
            let names: Vec<&str> = SOCS.iter().map(|soc| soc.name).collect();
            format!(
                "soc {text:?} is neither an id of Qualcomm's nor one of {}",
                names.join(", ")
            )
        })
    }

    /// Human-readable name.
    pub(crate) fn title(&self) -> String {
        match (self.arch, self.name) {
            (0, _) => format!("Hexagon (SoC {})", self.id),
            (arch, name) => format!("Hexagon v{arch} ({name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_found_by_id_and_name() {
        assert_eq!(Soc::find("57").unwrap().title(), "Hexagon v75 (SM8650)");
        assert_eq!(Soc::find(" sm8550 ").unwrap().id, 43);
        assert_eq!(Soc::find("118").unwrap().title(), "Hexagon (SoC 118)");
        let words = Soc::find("SM9999").unwrap_err();
        assert!(words.contains("SM9999") && words.contains("SM8350"), "{words}");
        assert!(!Soc::find("30").unwrap().floats && Soc::find("43").unwrap().floats);
    }
}
