//! The board: its chip, whether it is there, and the faults that are wished for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::file::Magic;
use polychip_emulator_chip::model::Newest;
use polychip_emulator_chip::table::{Chip, Heat, Spent, Width, Work};
use serde::{Deserialize, Serialize};

/// The chip that the files are made for.
pub(crate) const TARGET: &str = "rk3588";
/// What they begin with.
pub(crate) const MAGIC: &Magic = b"RKNNEMU1";
/// What the toolkit reads at most.
pub(crate) const NEWEST: Newest = Newest { opset: 19, ir: 11 };

/// What was done since the library was opened.
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

/// Calls of the runtime that can be made to fail.
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

/// The rules of faults.
pub(crate) fn faults() -> &'static Faults {
    &FAULTS
}

/// Whether a board is there.
pub(crate) fn is_there() -> bool {
    std::env::var("POLYCHIP_RKNN_BOARD").as_deref() != Ok("none")
}

static INCOHERENT: LazyLock<AtomicBool> =
    LazyLock::new(|| AtomicBool::new(std::env::var("POLYCHIP_RKNN_INCOHERENT").as_deref() == Ok("1")));

/// Whether the chip sees memory otherwise than the processor.
pub(crate) fn is_incoherent() -> bool {
    INCOHERENT.load(Ordering::Relaxed)
}

/// Changes that, for memory that is made from now on.
pub(crate) fn set_incoherent(on: bool) {
    INCOHERENT.store(on, Ordering::Relaxed);
}

/// What a run costs the chip, which is warmer afterwards.
pub(crate) fn spend(work: Work, integers: bool) -> Spent {
    let mut heat = HEAT.lock().unwrap_or_else(PoisonError::into_inner);
    heat.run(&CHIP, work, width(integers))
}

fn width(integers: bool) -> Width {
    if integers { Width::Bits8 } else { Width::Bits16 }
}

/// What work costs the cold chip: cycles of memory and of arithmetic, at 1 GHz.
pub(crate) fn cycles(macs: u64, bytes: u64, integers: bool) -> (u64, u64) {
    let arithmetic = macs as f64 / CHIP.macs_per_ns[width(integers) as usize];
    ((bytes as f64 / CHIP.bytes_per_ns) as u64, arithmetic as u64)
}

/// What happens at a call, once its waiting is over; a call that is to crash does not come back.
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
