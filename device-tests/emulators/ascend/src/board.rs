//! The boards: chip, number, counters of work, and injected faults.

use std::sync::atomic::AtomicU64;
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_emulator_chip::fault::Faults;
use polychip_emulator_chip::file::Magic;
use polychip_emulator_chip::model::Newest;
use polychip_emulator_chip::table::{Chip, Heat, Spent, Width, Work};
use serde::{Deserialize, Serialize};

/// The chip's name for the compiler.
pub(crate) const SOC: &str = "Ascend310P3";
/// Bytes of its memory.
pub(crate) const MEMORY_BYTES: usize = 24 << 30;
/// Magic number of compiled files.
pub(crate) const MAGIC: &Magic = b"IMODEMU1";
/// Newest model format that the compiler reads: opset 18, as the vendor states for CANN 7.
pub(crate) const NEWEST: Newest = Newest { opset: 18, ir: 9 };

/// The description at the end of a compiled file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) soc_version: String,
}

/// Calls at which faults can be injected. `run` is the run of a model on the board, not the call
/// that enqueues it.
const CALLS: &[&str] = &[
    "init",
    "create_context",
    "malloc",
    "memcpy",
    "query_size",
    "load",
    "execute",
    "run",
    "synchronize",
];

static FAULTS: LazyLock<Faults> = LazyLock::new(|| {
    let faults = Faults::new(CALLS);
    faults.set_from("POLYCHIP_ASCEND_FAULTS");
    faults
});

static CHIP: LazyLock<Chip> = LazyLock::new(|| {
    Chip::parse(include_str!("../tables/ascend310p3.toml")).expect("invariant: the table is held by a test")
});
static HEAT: Mutex<Heat> = Mutex::new(Heat::cold());

/// Work since the library was opened.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) runs: AtomicU64,
    pub(crate) to_board_bytes: AtomicU64,
    pub(crate) from_board_bytes: AtomicU64,
    pub(crate) on_board_bytes: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) nanojoules: AtomicU64,
}

pub(crate) static COUNTS: LazyLock<Tally> = LazyLock::new(Tally::default);

/// The fault rules.
pub(crate) fn faults() -> &'static Faults {
    &FAULTS
}

/// Number of boards.
pub(crate) fn boards() -> u32 {
    let said = std::env::var("POLYCHIP_ASCEND_BOARDS");
    said.ok().and_then(|said| said.parse().ok()).unwrap_or(1)
}

/// Time and energy of a run, which heats the chip.
pub(crate) fn spend(work: Work) -> Spent {
    let mut heat = HEAT.lock().unwrap_or_else(PoisonError::into_inner);
    heat.run(&CHIP, work, Width::Bits16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one_and_full_load_is_within_the_cards_power() {
        let spent = spend(Work {
            macs: 35_000_000_000,
            bytes: 1000,
        });
        assert!(spent.ns > 30_000 && spent.nj > 0.0);
        // a nanojoule per nanosecond is a watt
        let watts = spent.nj / spent.ns as f64;
        assert!((40.0..72.0).contains(&watts), "{watts}");
    }
}
