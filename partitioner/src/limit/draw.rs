//! Mean power of a plan under runs back to back, and its limit.
//!
//! Energy over time is a quotient, but a limit on it is linear: `energy − power × time ≤ 0`. A
//! temperature limit is a power limit on each device with a thermal model: it settles at `rest +
//! resistance × power`.
//!
//! Invariants: powers are rounded up to a milliwatt, and limits down, so that a limit reported as
//! held is held; a temperature exceeds its limit exactly if the power exceeds the power that the
//! limit allows.

use crate::instance::Inputs;
use crate::plan::Plan;
use crate::target::Heat;
use crate::unit::{MilliCelsius, Time};

/// Most mean power of one device, or of all together beyond what they draw idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub(crate) device: Option<usize>,
    pub(crate) milliwatts: u64,
}

/// The caps that an objective puts on devices.
pub(crate) fn caps(inputs: &Inputs<'_>) -> Vec<Cap> {
    let mut caps = Vec::new();
    if let Some(limit) = inputs.objective.max_predicted_power {
        caps.push(Cap {
            device: None,
            milliwatts: limit.milliwatts().saturating_sub(idle(inputs)),
        });
    }
    if let Some(limit) = inputs.objective.max_predicted_temperature {
        let heats = inputs.targets.iter().enumerate();
        caps.extend(heats.filter_map(|(device, target)| {
            Some(Cap {
                device: Some(device),
                milliwatts: power_at(target.heat?, limit),
            })
        }));
    }
    caps
}

/// What all devices are stated to draw idle, in milliwatts.
pub(crate) fn idle(inputs: &Inputs<'_>) -> u64 {
    let idle = inputs.targets.iter().filter_map(|target| target.idle);
    idle.fold(0u64, |sum, idle| sum.saturating_add(idle.milliwatts()))
}

/// The most power at which a device settles at no more than a temperature, in milliwatts.
fn power_at(heat: Heat, limit: MilliCelsius) -> u64 {
    let rise = i128::from(limit.millidegrees()) - i128::from(heat.rest.millidegrees());
    match (rise, heat.resistance_mk_per_w) {
        (..0, _) => 0,
        (_, 0) => u64::MAX,
        (rise, resistance) => u64::try_from(rise * 1000 / i128::from(resistance)).unwrap_or(u64::MAX),
    }
}

/// Where a device settles at a power in milliwatts, in thousandths of a degree.
pub(crate) fn settles(heat: Heat, milliwatts: u64) -> i64 {
    let rise = (u128::from(heat.resistance_mk_per_w) * u128::from(milliwatts)).div_ceil(1000);
    let rise = i64::try_from(rise).unwrap_or(i64::MAX);
    heat.rest.millidegrees().saturating_add(rise)
}

/// Mean powers in milliwatts; none where an energy is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// All devices together, without what they draw idle.
    pub(crate) all: Option<u64>,
    /// Per device; none where it is not used.
    pub(crate) devices: Vec<Option<u64>>,
}

/// What a plan draws.
pub(crate) fn draw(inputs: &Inputs<'_>, plan: &Plan) -> Draw {
    let interval = plan.own_interval();
    let energy = plan.totals.energy;
    let devices = (0..inputs.targets.len()).map(|device| {
        let parts = plan.parts.iter().filter(|part| part.device.index() == device);
        let energies = parts.map(|part| {
            let own = part.cost.energy?;
            Some(u128::from(own.nanojoules()) + u128::from(part.launch_energy.nanojoules()))
        });
        let mut used = false;
        let sum = energies.inspect(|_| used = true).sum::<Option<u128>>();
        sum.filter(|_| used).map(|sum| mean(sum, interval))
    });
    Draw {
        devices: devices.collect(),
        all: energy.map(|energy| mean(u128::from(energy.nanojoules()), interval)),
    }
}

/// The mean power of an energy in nanojoules over a time, in milliwatts, rounded up.
pub(crate) fn mean(energy: u128, time: Time) -> u64 {
    match (energy, u128::from(time.picoseconds())) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        // a nanojoule in a picosecond is a kilowatt
        (energy, time) => u64::try_from((energy * 1_000_000).div_ceil(time)).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_limit_equals_a_power_cap() {
        for (rest, resistance, limit) in [(25_000, 9_000, 70_000), (30_000, 7_001, 42_345), (-5_000, 3, 0)] {
            let heat = Heat {
                rest: MilliCelsius::new(rest),
                resistance_mk_per_w: resistance,
            };
            let cap = power_at(heat, MilliCelsius::new(limit));
            for power in [0, cap - 1, cap, cap + 1, cap * 2] {
                assert_eq!(settles(heat, power) > limit, power > cap, "{power} of {cap}");
            }
        }
        let hot = Heat {
            rest: MilliCelsius::new(80_000),
            resistance_mk_per_w: 1_000,
        };
        assert_eq!(power_at(hot, MilliCelsius::new(70_000)), 0);
    }

    #[test]
    fn mean_power_is_energy_over_time() {
        // 2 mJ in 1 ms is 2 W
        assert_eq!(mean(2_000_000, Time::from_nanoseconds(1_000_000)), 2_000);
        assert_eq!(mean(2_000_001, Time::from_nanoseconds(1_000_000)), 2_001);
        assert_eq!(mean(0, Time::ZERO), 0);
        assert_eq!(mean(1, Time::ZERO), u64::MAX);
    }
}
