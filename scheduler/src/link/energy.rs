//! Measures the energy of launches and transfers between devices: differences between runs of the
//! two-node model, read from the machine's sensors.
//!
//! With `L` for a launch, `n` for a node and `X` for the transfer: both nodes on one device take
//! `L₁ + 2n₁`, both on the other `L₂ + 2n₂`, one on each `L₁ + L₂ + n₁ + n₂ + X`. For a small
//! tensor, nodes take nothing besides launches.
//!
//! Invariants:
//! 1. Every figure is a difference of net energies, with a derived interval.
//! 2. A missing sensor counts as zero and is reported; such figures are lower bounds, and are not
//!    stored.

use std::time::{Duration, Instant};

use polychip_host::Device;
use polychip_partitioner::Energy;
use polychip_profile::LinkCost;
use schemars::JsonSchema;
use serde::Serialize;

use super::{SIZES, Timed, UnmeasuredLink, bytes, probe};
use crate::error::Result;
use crate::planned::choose_devices;
use crate::policy::Policy;
use crate::runtime::Runtime;
use crate::telemetry::{EnergyBench, EnergyOf, Interval, Rules, Sampler, Sensors};

/// Durations of the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEnergyOptions {
    /// Time for each of the six measurements of a pair of devices: a small and a large tensor, each
    /// on one device, on the other, and from one to the other. Sensors update ten times a second at
    /// best.
    pub time: Duration,
    /// Idle time before and after each measurement.
    pub rest: Duration,
    /// Time for clocks and sensors to settle, before idle times and measurements.
    pub settle: Duration,
    /// Number of blocks into which the time is split, for intervals.
    pub blocks: u32,
}

impl Default for LinkEnergyOptions {
    fn default() -> LinkEnergyOptions {
        LinkEnergyOptions {
            time: Duration::from_secs(10),
            rest: Duration::from_secs(3),
            settle: Duration::from_secs(2),
            blocks: 5,
        }
    }
}

/// Energies of a link between two devices, in microjoules above idle.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LinkEnergy {
    /// Device that writes.
    pub from: String,
    /// Device that reads.
    pub to: String,
    /// Transfer of a small tensor, without the launches of the two devices.
    pub transfer_uj: Interval,
    /// Each further million bytes.
    pub megabyte_uj: Interval,
    /// Launch of a run on the writing device.
    pub from_launch_uj: Interval,
    /// Launch of a run on the reading device.
    pub to_launch_uj: Interval,
    /// Which of the two devices have a sensor that was read.
    pub seen: Vec<String>,
    /// Which of the two devices have no sensor, with the reason. The figures are then lower bounds,
    /// and the profile does not keep them.
    pub unseen: Vec<String>,
}

impl Runtime {
    /// Measures the energy of transfers between the devices that the policy allows, with the
    /// machine's own sensors. The profile keeps the figures of a pair if both devices have a sensor
    /// and the transfer times of the pair are measured too ([`Runtime::measure_links`]). Later
    /// plans use them. `watch` receives the number of finished measurements, and the number of all.
    ///
    /// # Errors
    /// A device that the policy names does not exist, or the profile cannot be written.
    pub fn measure_link_energies(
        &self,
        policy: &Policy,
        options: &LinkEnergyOptions,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<(Vec<LinkEnergy>, Vec<UnmeasuredLink>)> {
        let devices = choose_devices(&self.0, policy)?;
        let pairs = devices.iter().flat_map(|from| {
            let others = devices.iter().filter(|to| to.name() != from.name());
            others.map(move |to| (from, to))
        });
        let pairs: Vec<(&Device, &Device)> = pairs.collect();
        let total = pairs.len() as u64 * 6;
        let (mut measured, mut not, mut done) = (Vec::new(), Vec::new(), 0);
        for (from, to) in pairs {
            let mut step = || {
                done += 1;
                watch(done, total);
            };
            let found = if self.0.host.clock().is_virtual() {
                Err("the clock is virtual, but a transfer takes real energy".to_owned())
            } else {
                measure(self, policy, options, [from, to], &mut step)
                    .and_then(|found| found.between([from.name(), to.name()]))
            };
            match found {
                Ok(found) => {
                    if found.unseen.is_empty() {
                        keep(self, from, to, &found)?;
                    }
                    measured.push(found);
                }
                Err(reason) => not.push(UnmeasuredLink {
                    from: from.name().to_owned(),
                    to: to.name().to_owned(),
                    reason,
                }),
            }
        }
        Ok((measured, not))
    }
}

/// Net energies of a run, by size and way: both nodes on the first device, on the second, one on each.
struct Found {
    runs: [[Vec<EnergyOf>; 3]; 2],
}

fn measure(
    runtime: &Runtime,
    policy: &Policy,
    options: &LinkEnergyOptions,
    [from, to]: [&Device; 2],
    step: &mut dyn FnMut(),
) -> std::result::Result<Found, String> {
    let words = |error: crate::Error| error.to_string();
    let sampler = Sampler::new(runtime, Sensors::of_this_machine(&Rules::default()));
    let mut bench = EnergyBench::new(sampler, options.settle, options.rest);
    let block = options.time / options.blocks.max(2);
    let mut runs: [[Vec<EnergyOf>; 3]; 2] = Default::default();
    bench.rest();
    for (size, elements) in SIZES.into_iter().enumerate() {
        let model = probe(elements);
        for (way, places) in [[from, from], [to, to], [from, to]].into_iter().enumerate() {
            let mut timed = Timed::new(runtime, policy, &model, places).map_err(words)?;
            let mut for_a_while = |length: Duration| -> Result<u64> {
                let (start, mut count) = (Instant::now(), 0);
                while start.elapsed() < length {
                    timed.run()?;
                    count += 1;
                }
                timed.took.clear();
                Ok(count)
            };
            for_a_while(options.settle).map_err(words)?;
            let ran = bench
                .run(options.blocks.max(2), || for_a_while(block))
                .map_err(words)?;
            runs[size][way] = bench.judge(&ran);
            step();
        }
    }
    Ok(Found { runs })
}

/// `sum of factor × figure`, of figures whose errors are independent.
fn combined(figures: &[(f64, Interval)]) -> Interval {
    let mean = figures.iter().map(|(factor, figure)| factor * figure.mean).sum();
    let squares: f64 = figures
        .iter()
        .map(|(factor, figure)| (factor * figure.half()).powi(2))
        .sum();
    Interval::around(mean, squares.sqrt())
}

impl Found {
    fn between(&self, names: [&str; 2]) -> std::result::Result<LinkEnergy, String> {
        let (mut seen, mut unseen) = (Vec::new(), Vec::new());
        for name in names {
            match self.runs.iter().flatten().find_map(|run| unknown(run, name)) {
                None => seen.push(name.to_owned()),
                Some(reason) => unseen.push(format!("{name}: {reason}")),
            }
        }
        if seen.is_empty() {
            return Err(unseen.join("; "));
        }
        let net = |size: usize, way: usize| {
            let of_device = |name: &String| figure(&self.runs[size][way], name).map(|figure| (1.0, figure));
            combined(&seen.iter().filter_map(of_device).collect::<Vec<_>>())
        };
        let [first, second, across] = [0, 1, 2].map(|way| net(0, way));
        let transfer = combined(&[(1.0, across), (-1.0, first), (-1.0, second)]);
        let [first_large, second_large, across_large] = [0, 1, 2].map(|way| net(1, way));
        let large = combined(&[
            (1.0, across_large),
            (-0.5, first_large),
            (-0.5, second_large),
            (-0.5, first),
            (-0.5, second),
        ]);
        let megabytes = (bytes(SIZES[1]) - bytes(SIZES[0])) as f64 / 1e6;
        Ok(LinkEnergy {
            from: names[0].to_owned(),
            to: names[1].to_owned(),
            transfer_uj: transfer,
            megabyte_uj: combined(&[(1.0 / megabytes, large), (-1.0 / megabytes, transfer)]),
            from_launch_uj: first,
            to_launch_uj: second,
            seen,
            unseen,
        })
    }
}

/// Why the sensors do not say what a run took on a device.
fn unknown(run: &[EnergyOf], device: &str) -> Option<String> {
    match run.iter().find(|one| one.device == device) {
        None => Some("no sensor was read".to_owned()),
        Some(EnergyOf {
            figures: Err(reason), ..
        }) => Some(reason.clone()),
        Some(EnergyOf {
            figures: Ok(figures), ..
        }) if figures.net_uj.is_none() => Some("what it takes at rest is not known".to_owned()),
        Some(_) => None,
    }
}

fn figure(run: &[EnergyOf], device: &str) -> Option<Interval> {
    let found = run.iter().find(|one| one.device == device)?;
    found.figures.as_ref().ok()?.net_uj
}

/// Beside the times, of which the profile has some: nothing is kept for a size that was never timed, nor what cannot be told
/// from nothing, where the estimate is nearer to the truth than 0.
fn keep(runtime: &Runtime, from: &Device, to: &Device, found: &LinkEnergy) -> Result<()> {
    let (writer, reader, profile) = (from.identity(), to.identity(), runtime.profile());
    let record = |from: &str, to: &str, size: u64, figure: Interval| {
        if figure.low <= 0.0 {
            return Ok(());
        }
        let points = profile.or_nothing(profile.link(from, to));
        let Some((_, timed)) = points.into_iter().find(|(bytes, _)| *bytes == size) else {
            return Ok(());
        };
        let energy = Energy::from_nanojoules((figure.mean * 1e3).round() as u64);
        let cost = LinkCost {
            energy: Some(energy),
            ..timed
        };
        profile.record_link(from, to, size, cost)
    };
    let large = bytes(SIZES[1]);
    let megabytes = (large - bytes(SIZES[0])) as f64 / 1e6;
    record(&writer, &writer, 0, found.from_launch_uj)?;
    record(&reader, &reader, 0, found.to_launch_uj)?;
    record(&writer, &reader, bytes(SIZES[0]), found.transfer_uj)?;
    let of_large = combined(&[(1.0, found.transfer_uj), (megabytes, found.megabyte_uj)]);
    record(&writer, &reader, large, of_large)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_cancel_launches_and_nodes() {
        let of = |name: &str, uj: f64| EnergyOf {
            device: name.to_owned(),
            figures: Ok(crate::telemetry::EnergyFigures {
                gross_uj: Interval::around(uj, 1.0),
                net_uj: Some(Interval::around(uj, 1.0)),
                power_mw: 1.0,
                idle_mw: Some(1.0),
                idle_drift_mw: None,
                runs: 10,
                blocks: 2,
                updates: 3,
                counted: true,
            }),
        };
        // launches 10 and 30, nodes of the large tensor 100 and 200, a hand-over 5 and of the large one 45
        let runs = [
            [10.0, 30.0, 45.0],
            [210.0, 430.0, 10.0 + 30.0 + 100.0 + 200.0 + 45.0],
        ];
        let found = Found {
            runs: runs.map(|ways| ways.map(|uj| vec![of("a", uj), of("b", 0.0)])),
        };
        let link = found.between(["a", "b"]).unwrap();
        assert!((link.transfer_uj.mean - 5.0).abs() < 1e-9);
        let megabytes = (bytes(SIZES[1]) - bytes(SIZES[0])) as f64 / 1e6;
        assert!((link.megabyte_uj.mean * megabytes - 40.0).abs() < 1e-9);
        assert!(link.megabyte_uj.half() > 0.0 && link.unseen.is_empty());
        let link = found.between(["a", "c"]).unwrap();
        assert_eq!(
            (link.seen, link.unseen),
            (vec!["a".to_owned()], vec!["c: no sensor was read".to_owned()])
        );
        assert!(found.between(["c", "d"]).unwrap_err().contains("d: no sensor"));
    }
}
