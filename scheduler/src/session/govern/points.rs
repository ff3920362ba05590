//! Operating points: each ready plan also at lower clocks of its devices, as separate candidates.
//!
//! Invariants:
//! 1. Time and energy of a candidate at lower clocks are bounds: all of its time is assumed to
//!    scale with the clock, and its power to be the device's stated one. Measured runs correct
//!    them.
//! 2. A device is set to a point only if its next runs are of a candidate that requests it; when
//!    the session ends it returns to its first one.
//!
//! Not here: which candidate runs (`governor`), the meaning of a point to a device (its plugin).

use std::sync::Arc;

use polychip_governor::{Candidate, Load, Point};
use polychip_host::Device;

use super::ready::Ready;

/// Candidates at lower clocks, at most: each is looked at twice a second.
const MOST: usize = 24;

/// The operating points of one device that state both clock and power; the first one is in use until another is set.
#[derive(Debug, Clone, Default)]
pub(super) struct Offered(Vec<(u32, u64, u64)>);

/// What each device offers, fastest first; nothing where its first point is not its fastest, or it states none.
pub(super) fn offered(devices: &[Device]) -> Vec<Offered> {
    let of = |device: &Device| {
        let points = device.operating_points().unwrap_or_default();
        let stated = points.iter().zip(0..).filter_map(|(point, index)| {
            let power = point.power_mw?;
            Some((index, point.frequency_khz?, power))
        });
        let stated: Vec<(u32, u64, u64)> = stated.collect();
        let falls = stated.windows(2).all(|pair| pair[0].1 > pair[1].1);
        match stated.first() {
            Some((0, ..)) if falls && stated.len() > 1 => Offered(stated),
            _ => Offered::default(),
        }
    };
    devices.iter().map(of).collect()
}

/// The longest that a run of frames may take, by their period and deadline.
pub(super) fn longest((period_ns, deadline_ns): (Option<u64>, Option<u64>)) -> Option<u64> {
    deadline_ns.or(period_ns)
}

/// Adds candidates at lower clocks: all devices of a plan by as many points, where a run then takes no longer than
/// `longest_ns` and no other candidate on the same devices or fewer takes less time and less energy.
pub(super) fn add(
    ready: &mut Vec<Ready>,
    candidates: &mut Vec<Candidate>,
    offered: &[Offered],
    longest_ns: Option<u64>,
) {
    let Some(longest_ns) = longest_ns else {
        return;
    };
    let deepest = offered.iter().map(|one| one.0.len()).max().unwrap_or(0);
    let plans = candidates.len();
    for step in 1..deepest {
        for base in 0..plans {
            let Some((made, points)) = at(&candidates[base], offered, step) else {
                continue;
            };
            let is_fewer = |other: &Candidate| other.loads.iter().all(|load| made.uses(load.device));
            let is_worse = candidates.iter().any(|other| {
                let energy = other.energy_uj.zip(made.energy_uj);
                is_fewer(other)
                    && other.latency_ns <= made.latency_ns
                    && energy.is_some_and(|(other, made)| other <= made)
            });
            if made.latency_ns > longest_ns || is_worse || candidates.len() >= plans + MOST {
                continue;
            }
            let one = Ready {
                name: made.name.clone(),
                policy: Arc::clone(&ready[base].policy),
                plan: Arc::clone(&ready[base].plan),
                points,
            };
            ready.push(one);
            candidates.push(made);
        }
    }
}

/// A candidate whose devices all run so many points lower; none where one offers no points, or says no energy.
fn at(base: &Candidate, offered: &[Offered], step: usize) -> Option<(Candidate, Vec<(usize, u32)>)> {
    let (mut longer, mut less) = (0, 0);
    let (mut loads, mut points, mut set) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_lower = false;
    for load in &base.loads {
        let Offered(own) = offered.get(load.device)?;
        let &(_, top_khz, top_mw) = own.first()?;
        let &(index, khz, mw) = own.get(step.min(own.len() - 1))?;
        is_lower |= own.len() > step;
        let scaled = |value: u64, by: u64, over: u64| {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(over.max(1))).unwrap_or(u64::MAX)
        };
        let busy_ns = scaled(load.busy_ns, top_khz, khz);
        let energy_uj = scaled(scaled(load.energy_uj?, mw, top_mw), top_khz, khz);
        longer += busy_ns - load.busy_ns;
        less += load.energy_uj?.saturating_sub(energy_uj);
        loads.push(Load {
            device: load.device,
            busy_ns,
            energy_uj: Some(energy_uj),
        });
        points.push(Point {
            device: load.device,
            khz,
        });
        set.push((load.device, index));
    }
    let name = match &points[..] {
        [one] => format!("{} at {} MHz", base.name, one.khz / 1000),
        _ => format!("{} at lower clocks {step}", base.name),
    };
    let made = Candidate::new(&name, base.latency_ns + longer, loads).at(points);
    let made = made.energy(base.energy_uj?.saturating_sub(less));
    is_lower.then_some((made, set))
}

/// What the devices are set to.
#[derive(Debug)]
pub(super) struct Setting {
    devices: Vec<Device>,
    set: Vec<u32>,
}

impl Setting {
    pub(super) fn new(devices: &[Device]) -> Setting {
        Setting {
            set: vec![0; devices.len()],
            devices: devices.to_vec(),
        }
    }

    /// Sets the points that a candidate asks for; devices that it does not name go back to their first.
    pub(super) fn set(&mut self, points: &[(usize, u32)]) {
        for (index, (device, set)) in self.devices.iter().zip(&mut self.set).enumerate() {
            let asked = points.iter().find(|(of, _)| *of == index);
            let wanted = asked.map_or(0, |(_, point)| *point);
            if *set == wanted {
                continue;
            }
            match device.set_operating_point(wanted) {
                Ok(()) => *set = wanted,
                Err(error) => tracing::warn!("cannot set operating point {wanted}: {error}"),
            }
        }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.set(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(device: usize, busy_ns: u64, energy_uj: u64) -> Load {
        Load {
            device,
            busy_ns,
            energy_uj: Some(energy_uj),
        }
    }

    #[test]
    fn time_grows_with_the_clock_and_energy_falls_with_the_power() {
        // half the clock at a fifth of the power; the second device has one lower point only
        let offered = [
            Offered(vec![(0, 1000, 2000), (1, 500, 400), (2, 250, 100)]),
            Offered(vec![(0, 800, 1000), (3, 400, 250)]),
        ];
        let base = Candidate::new("fastest", 10_000, vec![load(0, 6_000, 12), load(1, 4_000, 4)]);
        let (one, points) = at(&base, &offered, 1).unwrap();
        assert_eq!((one.latency_ns, one.energy_uj), (20_000, Some(6)));
        assert_eq!(points, [(0, 1), (1, 3)]);
        assert_eq!((one.khz(0), one.khz(1)), (Some(500), Some(400)));
        let (two, points) = at(&base, &offered, 2).unwrap();
        assert_eq!((two.latency_ns, points), (32_000, vec![(0, 2), (1, 3)]));
        assert!(at(&base, &offered, 3).is_none());
        // a device without points, or without energy
        assert!(at(&base, &offered[..1], 1).is_none());
        let unknown = Candidate::new(
            "u",
            1,
            vec![Load {
                energy_uj: None,
                ..load(0, 1, 0)
            }],
        );
        assert!(at(&unknown, &offered, 1).is_none());
    }
}
