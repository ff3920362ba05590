//! Costs that are neither stated nor measured: launches, transfers between devices, estimates for
//! another thread count.
//!
//! Invariants:
//! 1. A launch of a real device and a transfer to another real device are never free: otherwise
//!    vendors that state no launch cost would get plans of many small parts.
//! 2. An emulated device keeps exactly its scripted figures.
//!
//! Not here: measurements in the profile, which replace all of this (`crate::link::known`).

use polychip_host::{Device, DeviceInfo, DeviceKind};
use polychip_partitioner::{Cost, Energy, Link, Time};

use crate::policy::Settings;

/// Starting a run on a real device whose plugin states no launch cost: as much as a cut, until the profile knows
/// (`polychip links`).
const LAUNCH: Time = Time::from_nanoseconds(50_000);
/// What a cut between two real devices was measured to lose beside the bytes: a fence, a wake-up, ops that are no longer
/// fused across it.
const CUT: Time = Time::from_nanoseconds(50_000);
/// A fence and a wake-up alone, where a device is scripted: 6 to 9 µs for a fork and join of sleeping threads on a
/// two-core x86 machine.
const WAKE: Time = Time::from_nanoseconds(8_000);
/// One core of the same machine copies 8 to 17 GB/s beside busy neighbors. At a cut each device brings the tensor into a
/// layout of its own, at about the same rate.
const COPY_BYTES_PER_S: u64 = 8_000_000_000;
/// What each thread after the second adds to the speed of one: the CPU plugin estimates with the same share
/// (`plugins/cpu/src/estimate/price.rs`), from ResNet-50 on 8 and 16 threads.
const FURTHER_THREAD: f64 = 0.55;

/// Starting a run on a device that states no launch cost.
pub(super) fn launch(device: &Device) -> Time {
    if device.info().emulated {
        Time::ZERO
    } else {
        LAUNCH
    }
}

/// The transfer from one device to another, before anything was measured.
pub(super) fn link(from: &DeviceInfo, to: &DeviceInfo) -> Link {
    let is_scripted = from.emulated || to.emulated;
    let latency = if is_scripted { WAKE } else { CUT };
    let bus = bus(from.link_bytes_per_s, to.link_bytes_per_s);
    let relayout = (!is_scripted).then_some(COPY_BYTES_PER_S);
    if from.shares_host_memory && to.shares_host_memory {
        Link {
            bytes_per_second: relayout,
            ..Link::native(latency)
        }
    } else if from.imports_memory() && to.imports_memory() {
        Link {
            bytes_per_second: bus.into_iter().chain(relayout).min(),
            ..Link::imported(latency)
        }
    } else {
        Link::copy(latency, bus.unwrap_or(u64::MAX).min(COPY_BYTES_PER_S))
    }
}

/// The factor from an estimate for a CPU's default threads to one for the threads that a policy asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadScale(f64);

impl ThreadScale {
    pub(super) fn new(device: &Device, settings: Settings) -> ThreadScale {
        let is_cpu = device.info().kind == DeviceKind::Cpu && !device.info().emulated;
        let all = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32);
        match settings.threads {
            threads if is_cpu && threads > 0 => ThreadScale::between(all, threads.min(all)),
            _ => ThreadScale(1.0),
        }
    }

    fn between(all: u32, asked: u32) -> ThreadScale {
        ThreadScale(speed(all) / speed(asked))
    }

    /// The cost with the time that other threads take, at the same power: `power` knows how many cores draw it.
    pub(super) fn scaled(self, cost: Cost) -> Cost {
        if self.0 == 1.0 {
            return cost;
        }
        let picoseconds = (cost.time.picoseconds() as f64 * self.0).min((u64::MAX / 1_000_000) as f64);
        let energy = cost.energy.map(|energy| {
            let nanojoules = energy.nanojoules() as f64 * self.0;
            Energy::from_nanojoules(nanojoules as u64)
        });
        Cost {
            time: Time::from_picoseconds((picoseconds as u64).max(1)),
            energy,
            ..cost
        }
    }
}

/// Speed of this many threads relative to one.
fn speed(threads: u32) -> f64 {
    let threads = f64::from(threads.max(1));
    threads.min(2.0) + FURTHER_THREAD * (threads - 2.0).max(0.0)
}

/// Bytes per second between two devices, of which either may lie behind a bus: what it imports, it reads across that.
/// Between two such devices a tensor crosses both.
fn bus(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    match (from, to) {
        (Some(from), Some(to)) => {
            let both = u128::from(from) * u128::from(to) / (u128::from(from) + u128::from(to)).max(1);
            Some(u64::try_from(both).unwrap_or(u64::MAX).max(1))
        }
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_crosses_the_bus_of_each_discrete_device() {
        assert_eq!(bus(None, None), None);
        assert_eq!(bus(Some(12), None), Some(12));
        assert_eq!(bus(None, Some(12)), Some(12));
        assert_eq!(bus(Some(12), Some(4)), Some(3));
        assert_eq!(bus(Some(u64::MAX), Some(u64::MAX)), Some(u64::MAX / 2));
        assert_eq!(bus(Some(1), Some(1)), Some(1));
    }
    #[test]
    fn fewer_threads_take_longer() {
        let scale = ThreadScale::between(8, 1);
        let before = Cost::time(
            Time::from_nanoseconds(1_000),
            polychip_partitioner::Provenance::Estimated,
        )
        .with_energy(Energy::from_nanojoules(8_000));
        let after = scale.scaled(before);
        // 8 threads are 5.3 times as fast as one
        assert_eq!(after.time.nanoseconds(), 5_300);
        assert_eq!(after.energy.map(Energy::nanojoules), Some(42_400));
        let same = ThreadScale::between(8, 8);
        assert_eq!(same.scaled(before), before);
    }
}
