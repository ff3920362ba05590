//! Time, energy and heat of a device: costs of runs, and sensor readings.
//!
//! Invariants:
//! 1. The same script and the same runs at the same times yield the same figures.
//! 2. Temperature follows one thermal resistance and one capacity: towards ambient + power ×
//!    resistance.

use polychip_sdk::{Telemetry, Throttle};

use crate::chip::Spent;
use crate::script::{DeviceScript, Heat};
use crate::work::Price;

/// History of the device.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    /// End of the last run.
    pub(crate) busy_until_ns: u64,
    /// The part that ran last, by its number.
    last: Option<u64>,
    /// Time spent computing.
    busy_ns: u64,
    /// Energy of all runs, in nanojoules.
    energy_nj: f64,
    temperature_mc: f64,
    /// When the temperature was that.
    heat_ns: u64,
    throttled: bool,
    /// Computing time since its clocks fell; `None` while they are high.
    risen_ns: Option<f64>,
    power_mw: f64,
    /// Operating point in use.
    pub(crate) point: usize,
    pub(crate) memory_used_bytes: u64,
}

/// Inputs of a run's cost beside its part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Its part, by its number.
    pub(crate) part: u64,
    /// When it may start.
    pub(crate) ready_ns: u64,
    /// Its number.
    pub(crate) run: u64,
    pub(crate) slow_permille: u32,
    /// When other runs yield to it, if they do.
    pub(crate) instead_from_ns: Option<u64>,
}

impl Meter {
    pub(crate) fn new(script: &DeviceScript) -> Meter {
        Meter {
            busy_until_ns: 0,
            last: None,
            busy_ns: 0,
            energy_nj: 0.0,
            temperature_mc: script.heat.map_or(0.0, |heat| heat.ambient_mc),
            heat_ns: 0,
            throttled: false,
            risen_ns: script.idle.map(|_| 0.0),
            power_mw: 0.0,
            point: 0,
            memory_used_bytes: 0,
        }
    }

    /// Spends a run.
    pub(crate) fn spend(&mut self, script: &DeviceScript, price: Price, work: &Work) -> Spent {
        let Work {
            part,
            ready_ns,
            run,
            slow_permille,
            instead_from_ns,
        } = *work;
        let start_ns = match instead_from_ns {
            Some(from_ns) => from_ns,
            None if script.serial => ready_ns.max(self.busy_until_ns),
            None => ready_ns,
        };
        let is_other = self.last.is_some_and(|last| last != part);
        self.last = Some(part);
        let switch_ns = if is_other { script.switch_ns } else { 0 };
        self.cool(script, start_ns);
        let (time_permille, energy_permille) = script
            .operating_point
            .get(self.point)
            .map_or((1000, 1000), |point| (point.time_permille, point.energy_permille));
        let throttle = match script.heat {
            Some(heat) if self.throttled => f64::from(heat.throttle_permille) / 1e3,
            _ => 1.0,
        };
        let (actual_time, actual_energy) = script.actual(start_ns);
        let scale = f64::from(time_permille) / 1e3 * throttle * f64::from(slow_permille) / 1e3;
        let scale = scale * f64::from(actual_time) / 1e3 * self.fallen(script, start_ns);
        let noise = 1.0 + f64::from(script.noise_permille) / 1e3 * unit_noise(script.seed, run);
        let ns = ((script.launch_ns as f64 + price.ns * scale) * noise)
            .max(0.0)
            .round()
            + switch_ns as f64;
        let nj = (script.launch_nj + price.nj) * f64::from(energy_permille) / 1e3;
        let nj = nj * f64::from(actual_energy) / 1e3;
        let end_ns = start_ns.saturating_add(ns as u64);
        self.rise(script, ns);
        if let Some(heat) = script.heat.filter(|_| ns > 0.0) {
            // nanojoules per nanosecond are watts
            self.warm(&heat, nj / ns * 1e3, ns);
            self.heat_ns = self.heat_ns.max(end_ns);
        }
        self.power_mw = if ns > 0.0 { nj / ns * 1e3 } else { 0.0 };
        self.busy_until_ns = match instead_from_ns {
            // what gives way ends as much later
            Some(_) => self.busy_until_ns.saturating_add(ns as u64).max(end_ns),
            None => self.busy_until_ns.max(end_ns),
        };
        self.busy_ns = self.busy_ns.saturating_add(ns as u64);
        self.energy_nj += nj;
        Spent {
            start_ns,
            end_ns,
            energy_uj: (nj / 1e3).round() as u64,
        }
    }

    /// How many times as long a run takes that begins now, for clocks that have fallen since the last one.
    fn fallen(&mut self, script: &DeviceScript, start_ns: u64) -> f64 {
        let Some(idle) = script.idle else { return 1.0 };
        if start_ns.saturating_sub(self.busy_until_ns) as f64 >= idle.after_ms * 1e6 {
            self.risen_ns = Some(0.0);
        }
        match self.risen_ns {
            Some(_) => f64::from(idle.time_permille) / 1e3,
            None => 1.0,
        }
    }

    /// Raises the clocks while it computes.
    fn rise(&mut self, script: &DeviceScript, ns: f64) {
        if let (Some(idle), Some(risen)) = (script.idle, &mut self.risen_ns) {
            *risen += ns;
            if *risen >= idle.rise_ms * 1e6 {
                self.risen_ns = None;
            }
        }
    }

    /// Heats up or cools down for a time at a power.
    fn warm(&mut self, heat: &Heat, power_mw: f64, ns: f64) {
        let settled = heat.ambient_mc + power_mw * heat.mc_per_mw;
        let left = if heat.settle_ms > 0.0 {
            (-ns / 1e6 / heat.settle_ms).exp()
        } else {
            0.0
        };
        self.temperature_mc = settled + (self.temperature_mc - settled) * left;
        if let Some(throttle_mc) = heat.throttle_mc {
            let release_mc = heat.release_mc.unwrap_or(throttle_mc - 5000.0);
            if self.temperature_mc >= throttle_mc {
                self.throttled = true;
            } else if self.temperature_mc < release_mc {
                self.throttled = false;
            }
        }
    }

    /// Cools down until a moment.
    fn cool(&mut self, script: &DeviceScript, now_ns: u64) {
        if let Some(heat) = script.heat
            && now_ns > self.heat_ns
        {
            self.warm(&heat, 0.0, (now_ns - self.heat_ns) as f64);
            self.heat_ns = now_ns;
        }
    }

    /// Sensor readings.
    pub(crate) fn read(&mut self, script: &DeviceScript, now_ns: u64) -> Telemetry {
        self.cool(script, now_ns);
        let computing = now_ns < self.busy_until_ns;
        let point = script.operating_point.get(self.point);
        let pending = self.busy_until_ns.saturating_sub(now_ns);
        let busy = self.busy_ns.saturating_sub(pending);
        Telemetry {
            time_ns: now_ns,
            temperature_mc: script.heat.map(|_| self.temperature_mc.round() as i64),
            power_mw: script.states_energy.then(|| {
                let of_run = if computing { self.power_mw } else { 0.0 };
                (of_run + script.idle_mw).round() as u64
            }),
            // milliwatts times nanoseconds are picojoules
            energy_uj: script
                .states_energy
                .then(|| (self.energy_nj / 1e3 + script.idle_mw * now_ns as f64 / 1e6).round() as u64),
            frequency_khz: point
                .map(|point| point.frequency_khz)
                .filter(|&frequency| frequency > 0),
            memory_used_bytes: Some(self.memory_used_bytes),
            load_permille: (now_ns > 0).then(|| (busy as f64 / now_ns as f64 * 1e3).min(1e3) as u32),
            throttle: script.heat.map(|_| Throttle {
                heat: self.throttled,
                power: false,
            }),
        }
    }
}

/// A number from −1 to 1 for a run: a hash (SplitMix64) of its number, not a stream, so that a run has the same
/// number whatever ran before it. `rand` has no such function.
#[must_use]
pub fn unit_noise(seed: u64, run: u64) -> f64 {
    let mut z = seed.wrapping_add(run.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Script;

    fn script(text: &str) -> DeviceScript {
        Script::parse(&format!("[[device]]\n{text}")).unwrap().devices[0].clone()
    }

    const WORK: Price = Price {
        ns: 1e6,
        nj: 2e6,
        memory_ns: 0.0,
        bytes: 0.0,
    };

    fn work(ready_ns: u64, run: u64, slow_permille: u32) -> Work {
        Work {
            part: 0,
            ready_ns,
            run,
            slow_permille,
            instead_from_ns: None,
        }
    }

    #[test]
    fn runs_of_a_serial_device_follow_each_other() {
        let script = script("launch_ns = 500");
        let mut meter = Meter::new(&script);
        let first = meter.spend(&script, WORK, &work(10, 0, 1000));
        let second = meter.spend(&script, WORK, &work(10, 1, 3000));
        assert_eq!(
            (first.start_ns, first.end_ns, first.energy_uj),
            (10, 1_000_510, 2000)
        );
        assert_eq!(second.start_ns, first.end_ns);
        assert_eq!(second.end_ns - second.start_ns, 3_000_500);
    }

    #[test]
    fn part_switch_costs_time_and_preempted_run_ends_later() {
        let script = script("switch_ns = 500\npreemption = \"any_time\"\npreemption_bound_ns = 100");
        let mut meter = Meter::new(&script);
        let of = |part: u64, ready_ns: u64, instead_from_ns: Option<u64>| Work {
            part,
            instead_from_ns,
            ..work(ready_ns, 0, 1000)
        };
        let mut spend = |work: Work| meter.spend(&script, WORK, &work).end_ns;
        assert_eq!(spend(of(7, 0, None)), 1_000_000);
        assert_eq!(spend(of(7, 0, None)), 2_000_000);
        assert_eq!(spend(of(8, 2_000_000, None)), 3_000_500);
        assert_eq!(spend(of(9, 2_100_000, Some(2_100_100))), 3_100_600);
        assert_eq!(meter.busy_until_ns, 4_001_000);
    }

    #[test]
    fn work_heats_until_clocks_drop_and_rest_cools() {
        let script = script("heat = { mc_per_mw = 20.0, settle_ms = 10.0, throttle_mc = 60000 }");
        let mut meter = Meter::new(&script);
        // 2 W: the settled temperature is 25 + 40 degrees
        let mut now = 0;
        let mut durations = Vec::new();
        for run in 0..60 {
            let spent = meter.spend(&script, WORK, &work(now, run, 1000));
            durations.push(spent.end_ns - spent.start_ns);
            now = spent.end_ns;
        }
        assert_eq!(durations[0], 1_000_000);
        assert!(durations.contains(&2_000_000), "{durations:?}");
        let hot = meter.read(&script, now);
        assert!(hot.temperature_mc.unwrap() > 40_000, "{hot:?}");
        let cold = meter.read(&script, now + 1_000_000_000);
        assert_eq!(cold.temperature_mc, Some(25_000));
        assert_eq!(cold.throttle, Some(Throttle::default()));
    }

    #[test]
    fn sensors_include_idle_power() {
        let script = script("idle_mw = 300.0");
        let mut meter = Meter::new(&script);
        let spent = meter.spend(&script, WORK, &work(0, 0, 1000));
        // 2 mJ in 1 ms, and 300 mW beside them
        let during = meter.read(&script, spent.end_ns / 2);
        assert_eq!((during.power_mw, during.energy_uj), (Some(2_300), Some(2_150)));
        let after = meter.read(&script, 1_000_000_000);
        assert_eq!((after.power_mw, after.energy_uj), (Some(300), Some(302_000)));
    }

    #[test]
    fn actual_times_may_differ_from_stated_ones() {
        let script = script("actual = [{ time_permille = 1500 }, { after_ms = 10, time_permille = 500 }]");
        let mut meter = Meter::new(&script);
        let first = meter.spend(&script, WORK, &work(0, 0, 1000)).end_ns;
        assert_eq!(first, 1_500_000);
        let later = meter.spend(&script, WORK, &work(20_000_000, 1, 1000)).end_ns;
        assert_eq!(later - 20_000_000, 500_000);
    }

    #[test]
    fn clocks_fall_between_runs_and_rise_while_it_computes() {
        let script = script("idle = { after_ms = 20, time_permille = 4000, rise_ms = 5 }");
        let mut meter = Meter::new(&script);
        let mut now = 0;
        let mut run = |gap_ms: u64| {
            let spent = meter.spend(&script, WORK, &work(now + gap_ms * 1_000_000, 0, 1000));
            now = spent.end_ns;
            (spent.end_ns - spent.start_ns) / 1_000_000
        };
        // low at first, up after 5 ms of work, low again after 20 ms without
        let took = [0, 0, 0, 0, 19, 19, 20, 0, 0].map(&mut run);
        assert_eq!(took, [4, 4, 1, 1, 1, 1, 4, 4, 1]);
    }

    #[test]
    fn noise_is_bounded_and_repeats() {
        let script = script("noise_permille = 100\nseed = 7");
        let run = |run| {
            Meter::new(&script)
                .spend(&script, WORK, &work(0, run, 1000))
                .end_ns
        };
        let all: Vec<u64> = (0..100).map(run).collect();
        assert_eq!(all, (0..100).map(run).collect::<Vec<_>>());
        assert!(all.iter().all(|ns| (900_000..=1_100_000).contains(ns)));
        assert!(all.iter().any(|&ns| ns < 950_000) && all.iter().any(|&ns| ns > 1_050_000));
    }
}
