//! The energy of launches and transfers that were not measured.
//!
//! Invariants:
//! 1. No transfer of a real device is free: its energy is measured (`link`), or estimated here and
//!    labelled so.
//! 2. A device on virtual time states the energy of its runs; nothing is added.
//!
//! Estimates: a core is awake while a device is started or waited for, and a tensor is written to
//! memory and read again, and once more for a copy. Memory: 1.3 to 2.6 nJ per 64 bits (M. Horowitz,
//! "Computing's energy problem", ISSCC 2014), of which the middle is used. Bus: the measured energy
//! of a GPU's side (`docs/benchmarks/energy.md`).

use polychip_host::Device;
use polychip_partitioner::{Energy, Link, LinkMode, Provenance, Time};

use super::power::CORE;

/// A thousand bytes through memory once, in nanojoules: 125 words of 64 bits.
const PASS_NJ: u64 = 244;
/// A thousand bytes over the bus of a device with memory of its own, in nanojoules.
const BUS_NJ: u64 = 3_700;

/// Of starting a run on a device.
pub(super) fn launch(device: &Device, time: Time) -> Energy {
    if device.info().emulated {
        return Energy::ZERO;
    }
    CORE.over(time).unwrap_or(Energy::ZERO)
}

/// The link with the energies of its transfers.
pub(super) fn estimated(from: &Device, to: &Device, link: Link) -> Link {
    if from.info().emulated && to.info().emulated {
        return link;
    }
    let has_bus = [from, to]
        .iter()
        .any(|device| device.info().link_bytes_per_s.is_some());
    with(link, has_bus)
}

fn with(link: Link, has_bus: bool) -> Link {
    let passes = match link.mode {
        LinkMode::Native | LinkMode::Imported => 2,
        LinkMode::Copy => 4,
    };
    let latency = CORE.over(link.latency).unwrap_or(Energy::ZERO);
    let per_kilobyte = Energy::from_nanojoules(passes * PASS_NJ + u64::from(has_bus) * BUS_NJ);
    link.with_energy(latency, per_kilobyte, Provenance::Estimated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_transfer_is_free() {
        let latency = Time::from_nanoseconds(10_000);
        let native = with(Link::native(latency), false);
        let copied = with(Link::copy(latency, 1_000_000_000), false);
        let imported = with(Link::imported(latency), true);
        assert!(native.energy(1).unwrap() > Energy::ZERO);
        // a microsecond of a watt is a microjoule
        assert_eq!(native.latency_energy, CORE.over(latency).unwrap());
        let moved =
            |link: &Link| link.energy(1_000_000).unwrap().nanojoules() - link.latency_energy.nanojoules();
        assert_eq!(moved(&native), 488_000);
        assert_eq!(moved(&copied), 2 * moved(&native));
        assert_eq!(moved(&imported), moved(&native) + 1000 * BUS_NJ);
        assert_eq!(native.energy_provenance, Provenance::Estimated);
    }
}
