//! What the device's figures are worth: the chips by name, with rates for the planner until something is measured.
//!
//! Huawei publishes no rates of its phones' NPUs, so that these are orders of magnitude: 16-bit multiply-adds of the NPU as
//! benchmarks of the chips' generation place them, and the peak rate of the memory that phones of the chip are built with.
//! They only order plans. The runtime has no sensors that a program can read, so there is no telemetry call.
//!
//! Invariant: an emulated device measures nothing: its times are those of the emulating computer.

/// One system on chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Soc {
    /// The name in small letters.
    pub(crate) name: &'static str,
    /// Its trade name.
    pub(crate) trade: &'static str,
    /// Multiply-adds of 16-bit floats per second.
    pub(crate) macs_per_s: u64,
    /// Bytes of memory per second.
    pub(crate) bytes_per_s: u64,
}

/// The chips by name; the first is the default.
pub(crate) const SOCS: &[Soc] = &[
    Soc {
        name: "kirin9010",
        trade: "Kirin 9010",
        macs_per_s: 4_000_000_000_000,
        bytes_per_s: 51_000_000_000,
    },
    Soc {
        name: "kirin9000s",
        trade: "Kirin 9000S",
        macs_per_s: 4_000_000_000_000,
        bytes_per_s: 51_000_000_000,
    },
    Soc {
        name: "kirin8000",
        trade: "Kirin 8000",
        macs_per_s: 1_500_000_000_000,
        bytes_per_s: 34_000_000_000,
    },
];

/// The chip of this name.
///
/// # Errors
/// A message that names the value and the accepted ones.
pub(crate) fn find(text: &str) -> Result<Soc, String> {
    let known = SOCS.iter().find(|soc| soc.name.eq_ignore_ascii_case(text.trim()));
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = SOCS.iter().map(|soc| soc.name).collect();
        format!("soc {text:?} is none of {}", names.join(", "))
    })
}
