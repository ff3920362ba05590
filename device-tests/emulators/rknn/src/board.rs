//! The board: its chip, whether it is present, and injected faults.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::file::Magic;
use polychip_emulator_chip::model::Newest;
use polychip_emulator_chip::table::{Chip, Heat, Spent, Width, Work};
use serde::{Deserialize, Serialize};

/// The chip that the files are made for.
pub(crate) const TARGET: &str = "rk3588";
/// Magic number of the files.
pub(crate) const MAGIC: &Magic = b"RKNNEMU1";
/// Newest model format that the toolkit reads.
pub(crate) const NEWEST: Newest = Newest { opset: 19, ir: 11 };

/// Work since the library was opened.
pub(crate) struct Tally {
    pub(crate) runs: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) nanojoules: AtomicU64,
}

pub(crate) static COUNTS: Tally = Tally {
    runs: AtomicU64::new(0),
    copied_bytes: AtomicU64::new(0),
    syncs: AtomicU64::new(0),
    nanoseconds: AtomicU64::new(0),
    nanojoules: AtomicU64::new(0),
};

/// The description at their end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) target_platform: String,
    pub(crate) version: String,
    pub(crate) custom_string: String,
}

/// Calls of the runtime at which faults can be injected.
const CALLS: &[&str] = &[
    "init",
    "dup",
    "query",
    "inputs_set",
    "run",
    "outputs_get",
    "create_mem",
    "create_mem_from_fd",
    "set_io_mem",
    "mem_sync",
    "set_core_mask",
];

static FAULTS: LazyLock<Faults> = LazyLock::new(|| {
    let faults = Faults::new(CALLS);
    faults.set_from("POLYCHIP_RKNN_FAULTS");
    faults
});

static CHIP: LazyLock<Chip> = LazyLock::new(|| {
    Chip::parse(include_str!("../tables/rk3588.toml")).expect("invariant: the table is held by a test")
});
static HEAT: Mutex<Heat> = Mutex::new(Heat::cold());

/// The fault rules.
pub(crate) fn faults() -> &'static Faults {
    &FAULTS
}

/// Whether the board is present.
pub(crate) fn is_there() -> bool {
    std::env::var("POLYCHIP_RKNN_BOARD").as_deref() != Ok("none")
}

static INCOHERENT: LazyLock<AtomicBool> =
    LazyLock::new(|| AtomicBool::new(std::env::var("POLYCHIP_RKNN_INCOHERENT").as_deref() == Ok("1")));

/// Whether the chip is incoherent: it has its own view of memory.
pub(crate) fn is_incoherent() -> bool {
    INCOHERENT.load(Ordering::Relaxed)
}

/// Sets whether the chip is incoherent, for memory that is made from now on.
pub(crate) fn set_incoherent(on: bool) {
    INCOHERENT.store(on, Ordering::Relaxed);
}

/// Time and energy of a run, which heats the chip.
pub(crate) fn spend(work: Work, integers: bool) -> Spent {
    let mut heat = HEAT.lock().unwrap_or_else(PoisonError::into_inner);
    heat.run(&CHIP, work, width(integers))
}

fn width(integers: bool) -> Width {
    if integers { Width::Bits8 } else { Width::Bits16 }
}

/// Cycles of memory and of arithmetic that work takes on a cold chip, at 1 GHz.
pub(crate) fn cycles(macs: u64, bytes: u64, integers: bool) -> (u64, u64) {
    let arithmetic = macs as f64 / CHIP.macs_per_ns[width(integers) as usize];
    ((bytes as f64 / CHIP.bytes_per_ns) as u64, arithmetic as u64)
}

/// Counts a call, spends its additional time, and returns its effect. For `crash`, ends the
/// process.
pub(crate) fn fault(call: &str) -> Option<Effect> {
    faults().act(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one() {
        let first = spend(
            Work {
                macs: 1_024_000,
                bytes: 1000,
            },
            false,
        );
        assert!(first.ns > 60_000 && first.nj > 0.0);
        // the vendor's count for the same convolution in integers of 8 bits, doubled
        assert_eq!(cycles(451_584 * 1024, 0, true), (0, 451_584));
        assert_eq!(cycles(451_584 * 1024, 0, false), (0, 2 * 451_584));
    }
}
