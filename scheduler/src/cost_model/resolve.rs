//! Turns evidence into costs: the one place that defines which layer counts.
//!
//! Order of trust for a node: its share of the whole model measured on the device, its share of a
//! whole composed of measured segments, its share of its fusion group's prediction, its share of
//! the whole model measured at another cadence, of that measured on another chip, the calibrated
//! plugin estimate, the plugin's estimate, the roofline. A layer of a larger unit is shared in
//! proportion to the layers below it. A measured part has its own figure.
//!
//! Invariants:
//! 1. Costs depend only on the evidence, not on the order of its collection or on earlier
//!    resolutions.
//! 2. Border losses of parts are charged once, besides the stated or measured launch.
//!
//! Not here: collecting (`evidence`).

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_partitioner::{
    Cost, CostTable, DeviceIndex, EnergyProvenance, Milliwatts, Power, Provenance, Time,
};
use polychip_profile::Summary;

use super::evidence::{Evidence, Layers, measured};
use super::power::{drawing, taking};
use super::{Prices, runs_all};

impl Evidence {
    /// The costs that all of this gives.
    pub(crate) fn resolve(&self) -> Prices {
        let nodes = self.layers.first().map_or(0, |layers| layers.stated.len());
        let mut prices = Prices {
            model: Arc::clone(&self.model),
            targets: self.targets.clone(),
            costs: CostTable::new(nodes, self.targets.len()),
            stated: CostTable::new(nodes, self.targets.len()),
            links: self.links.clone(),
            measured: BTreeMap::new(),
            inherited: BTreeMap::new(),
        };
        let all: Vec<u32> = (0..nodes as u32).collect();
        let inherited = self.inherited_factor(&all);
        for (device, layers) in self.layers.iter().enumerate() {
            let target = &mut prices.targets[device];
            let mut costs = self.stated(device);
            prices.stated.set_device(device, Arc::clone(&costs));
            let inherited_whole = self.inherited[device]
                .as_ref()
                .filter(|_| runs_all(target, nodes));
            let other = self.others[device].as_ref().filter(|_| runs_all(target, nodes));
            let other = other.map(|other| (other.p50, Provenance::OtherDevice));
            let other = inherited_whole
                .map(|whole| (whole.p50, Provenance::OtherCadence))
                .or(other);
            layers.share(&mut costs, &all, other);
            if let Some(whole) = inherited_whole {
                let key = (DeviceIndex::new(device), all.clone());
                prices.inherited.insert(key, whole.clone());
            }
            if let Some(factor) = inherited.filter(|_| !self.is_measured(device) && !target.emulated) {
                let costs: &mut Vec<_> = Arc::make_mut(&mut costs);
                scale_estimates(costs, factor);
            }
            let whole = self.wholes[device].as_ref();
            // a plan that gives the device everything is not possible any more where it was refused a node since
            if let Some(whole) = whole.filter(|_| runs_all(target, nodes)) {
                let costs = Arc::make_mut(&mut costs);
                share_measured(costs, whole.p50);
                if let Some(active) = power(whole) {
                    let power = Power {
                        idle: target.power.map_or(Milliwatts::default(), |power| power.idle),
                        ..Power::exact(active, EnergyProvenance::Measured)
                    };
                    target.power = Some(power);
                    // what the plugin guessed gives way to what was measured
                    let costs = costs.iter_mut().flatten();
                    costs.for_each(|cost| *cost = drawing(*cost, power));
                }
                let key = (DeviceIndex::new(device), all.clone());
                prices.measured.insert(key, whole.clone());
            }
            prices.costs.set_device(device, costs);
        }
        for ((device, part), summary) in &self.parts {
            let part_nodes: Vec<usize> = part.iter().map(|node| *node as usize).collect();
            let cost = with_energy_of(&prices, &part_nodes, device.index(), measured(summary));
            prices.costs.set_part(&part_nodes, device.index(), cost);
            let known = if summary.inherited {
                &mut prices.inherited
            } else {
                &mut prices.measured
            };
            known.insert((*device, part.clone()), summary.clone());
        }
        self.charge_borders(&mut prices);
        prices
    }

    /// What is stated of each node, scaled where the device was calibrated.
    fn stated(&self, device: usize) -> Arc<Vec<Option<Cost>>> {
        let stated = &self.layers[device].stated;
        let Some(calibration) = self.calibrations[device] else {
            return Arc::clone(stated);
        };
        let scaled =
            |(cost, computes): (&Option<Cost>, &bool)| cost.map(|cost| calibration.scaled(cost, *computes));
        Arc::new(stated.iter().zip(self.computes.iter()).map(scaled).collect())
    }

    /// Whether the profile has a time of the whole model, or of a part of a plan, on a device.
    fn is_measured(&self, device: usize) -> bool {
        let mut parts = self.parts.iter().filter(|(_, summary)| !summary.inherited);
        self.wholes[device].is_some() || parts.any(|((other, _), _)| other.index() == device)
    }

    /// By how much estimates of devices that were not measured are off, as far as those that were measured tell: the
    /// geometric mean of measured over estimated times, shrunk toward 1 as if one more device had been exact. Without
    /// this a device that was measured to be slower than stated makes every other one look cheap.
    fn inherited_factor(&self, all: &[u32]) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0.0);
        for (device, target) in self
            .targets
            .iter()
            .enumerate()
            .filter(|(_, target)| !target.emulated)
        {
            let Some(whole) = self.wholes[device]
                .as_ref()
                .filter(|_| runs_all(target, all.len()))
            else {
                continue;
            };
            // as the plugin states it: this is the error of plugins without calibration
            let stated = self.layers[device].stated.iter().flatten();
            let stated: f64 = stated.map(|cost| cost.time.picoseconds() as f64).sum();
            if stated > 0.0 {
                sum += (whole.p50.picoseconds().max(1) as f64 / stated).ln();
                count += 1.0;
            }
        }
        (count > 0.0).then(|| (sum / (count + 1.0)).exp())
    }

    /// Charges the cost of part borders: a measured part takes longer than its nodes' shares of earlier measurements,
    /// because it reads another layout and fuses less. Every part of the device gets the mean excess as part of its
    /// launch, so that plans of unmeasured parts do not get their borders for free. A measurement of the whole model
    /// on one device shows no border cost.
    fn charge_borders(&self, prices: &mut Prices) {
        let mut lost: Vec<Vec<i128>> = vec![Vec::new(); prices.targets.len()];
        for ((device, part), summary) in self.parts.iter().filter(|(_, summary)| !summary.inherited) {
            let cost = |node: &u32| prices.costs.node(*node as usize, device.index());
            let summed: Option<i128> = part
                .iter()
                .map(|node| Some(i128::from(cost(node)?.time.picoseconds())))
                .sum();
            if let Some(summed) = summed.filter(|_| part.len() < prices.costs.nodes()) {
                lost[device.index()].push(i128::from(summary.p50.picoseconds()) - summed);
            }
        }
        for (target, lost) in prices.targets.iter_mut().zip(lost) {
            let mean = lost.iter().sum::<i128>() / i128::try_from(lost.len().max(1)).unwrap_or(1);
            let mean = u64::try_from(mean.max(0)).unwrap_or(u64::MAX / 1_000_000);
            let more = Time::from_picoseconds(mean.min(u64::MAX / 1_000_000));
            target.launch = target.launch.checked_add(more).unwrap_or(target.launch);
        }
    }
}

impl Layers {
    /// Gives each node its share of what the whole takes at another cadence or on another chip, of what is predicted of its
    /// group, and of what is composed of all. Where nothing is, the costs stay those that others share.
    fn share(&self, costs: &mut Arc<Vec<Option<Cost>>>, all: &[u32], other: Option<(Time, Provenance)>) {
        if other.is_none() && self.predicted.groups.is_empty() && self.predicted.whole.is_none() {
            return;
        }
        let costs = Arc::make_mut(costs);
        if let Some((time, provenance)) = other {
            share(costs, all, time.nanoseconds() as f64, provenance);
        }
        let of_cadence = |provenance| {
            if self.predicted.inherited {
                Provenance::OtherCadence
            } else {
                provenance
            }
        };
        for (nodes, time) in &self.predicted.groups {
            share(costs, nodes, *time, of_cadence(Provenance::Predicted));
        }
        if let Some(time) = self.predicted.whole {
            share(costs, all, time, of_cadence(Provenance::Composed));
        }
    }
}

/// Shares a time in nanoseconds among nodes, in proportion to their stated costs.
fn share(costs: &mut [Option<Cost>], nodes: &[u32], time: f64, provenance: Provenance) {
    let cost = |node: &u32| costs.get(*node as usize).copied().flatten();
    let summed: f64 = nodes
        .iter()
        .filter_map(cost)
        .map(|cost| cost.time.picoseconds() as f64)
        .sum();
    for node in nodes {
        let Some(cost) = costs.get_mut(*node as usize).and_then(Option::as_mut) else {
            continue;
        };
        let part = if summed > 0.0 {
            cost.time.picoseconds() as f64 / summed
        } else {
            1.0 / nodes.len() as f64
        };
        // a node that takes nothing at all is one that a plan may put anywhere; `as` saturates
        let picoseconds = ((time * 1e3 * part).round() as u64).max(1);
        *cost = taking(*cost, picoseconds, provenance);
    }
}

/// Multiplies what is only stated; what is predicted from measurements stays.
fn scale_estimates(costs: &mut [Option<Cost>], factor: f64) {
    for cost in costs.iter_mut().flatten() {
        if cost.provenance >= Provenance::Estimated {
            let picoseconds = (cost.time.picoseconds() as f64 * factor).round();
            *cost = taking(
                *cost,
                (picoseconds as u64).clamp(1, u64::MAX / 1_000_000),
                cost.provenance,
            );
        }
    }
}

/// Shares the measured time of the whole model among the nodes, in proportion to their stated costs. A plan that
/// moves a few nodes is thereby compared with the measurement, not with optimistic estimates.
fn share_measured(costs: &mut [Option<Cost>], whole: Time) {
    let time = |cost: &Cost| u128::from(cost.time.picoseconds());
    let summed: u128 = costs.iter().flatten().map(time).sum();
    for cost in costs.iter_mut().flatten() {
        let share = time(cost) * u128::from(whole.picoseconds()) / summed.max(1);
        *cost = taking(
            *cost,
            u64::try_from(share).unwrap_or(u64::MAX),
            Provenance::Composed,
        );
    }
}

/// The cost of a part of which only the time was measured, with the energy that its nodes' power makes of that.
fn with_energy_of(prices: &Prices, nodes: &[usize], device: usize, cost: Cost) -> Cost {
    if cost.energy.is_some() {
        return cost;
    }
    let mut nodes = nodes.iter().map(|node| prices.costs.node(*node, device).copied());
    let summed = nodes
        .next()
        .flatten()
        .and_then(|first| nodes.try_fold(first, |sum, cost| sum.sum(cost?)));
    let shared = summed.filter(|sum| sum.time > Time::ZERO && sum.energy.is_some());
    match (shared, prices.targets[device].power) {
        (Some(sum), _) => Cost {
            emulated: cost.emulated,
            ..taking(sum, cost.time.picoseconds(), cost.provenance)
        },
        (None, Some(power)) => drawing(cost, power),
        (None, None) => cost,
    }
}

/// The mean power of a run of the whole model, where its energy was measured.
fn power(whole: &Summary) -> Option<Milliwatts> {
    // microjoules over picoseconds are 1e9 milliwatts
    let power = u128::from(whole.energy_uj?) * 1_000_000_000 / u128::from(whole.p50.picoseconds().max(1));
    let power = u64::try_from(power).ok().filter(|&power| power > 0)?;
    Some(Milliwatts::new(power))
}

#[cfg(test)]
mod tests {
    use polychip_partitioner::{Energy, LinkTable, Target};

    use super::*;

    fn summary(ns: u64, energy_uj: Option<u64>) -> Summary {
        let time = Time::from_nanoseconds(ns);
        Summary {
            samples: 8,
            batches: 1,
            all_batches: 1,
            conditions: String::new(),
            agrees: true,
            cadence: None,
            inherited: false,
            p10: time,
            p50: time,
            p90: time,
            p99: time,
            interval: None,
            energy_uj,
            newest_us: 0,
            emulated: false,
        }
    }

    fn evidence(devices: &[(u64, u64)], nodes: usize) -> Evidence {
        let target = |name: usize, launch: u64| {
            Target::new(&format!("d:{name}"), nodes).launch(Time::from_nanoseconds(launch))
        };
        let targets = devices.iter().enumerate();
        let layers = devices.iter().map(|(_, node)| {
            let cost = Cost::time(Time::from_nanoseconds(*node), Provenance::Estimated);
            Layers {
                stated: Arc::new(vec![Some(cost); nodes]),
                ..Layers::default()
            }
        });
        Evidence {
            structure: [0; 32],
            model: "".into(),
            is_resized: false,
            targets: targets.map(|(name, (launch, _))| target(name, *launch)).collect(),
            links: LinkTable::new(devices.len()),
            layers: Arc::new(layers.collect()),
            calibrations: vec![None; devices.len()],
            computes: Arc::default(),
            wholes: vec![None; devices.len()],
            inherited: vec![None; devices.len()],
            others: vec![None; devices.len()],
            parts: BTreeMap::new(),
        }
    }

    #[test]
    fn unmeasured_parts_inherit_the_measured_loss() {
        let mut evidence = evidence(&[(5, 10), (0, 20)], 4);
        // the whole model has no borders
        let part = |device: usize, nodes: &[u32]| (DeviceIndex::new(device), nodes.to_vec());
        evidence.parts.insert(part(0, &[0, 1, 2, 3]), summary(90, None));
        let launches = |evidence: &Evidence| {
            let targets = evidence.resolve().targets.into_iter();
            targets
                .map(|target| target.launch.nanoseconds())
                .collect::<Vec<_>>()
        };
        assert_eq!(launches(&evidence), [5, 0]);
        // 20 and 4 beyond their nodes on the one device; faster than its nodes on the other
        for (part, time) in [(part(0, &[0]), 30), (part(1, &[1, 2]), 35), (part(0, &[3]), 14)] {
            evidence.parts.insert(part, summary(time, None));
        }
        assert_eq!(launches(&evidence), [5 + 12, 0]);
        assert_eq!(launches(&evidence), [5 + 12, 0], "resolved again");
        // a part more, which a replan has learnt
        evidence.parts.insert(part(0, &[1]), summary(13, None));
        assert_eq!(launches(&evidence), [5 + 9, 0]);
    }

    #[test]
    fn unmeasured_device_inherits_the_measured_error() {
        let mut evidence = evidence(&[(0, 100), (0, 10)], 4);
        let time = |evidence: &Evidence, device: usize| {
            let prices = evidence.resolve();
            prices.costs.node(0, device).unwrap().time.nanoseconds()
        };
        assert_eq!(time(&evidence, 1), 10);
        // four times as long as stated: half of that, as a logarithm, is believed of the other
        evidence.wholes[0] = Some(summary(1_600, None));
        assert_eq!((time(&evidence, 0), time(&evidence, 1)), (400, 20));
        evidence.targets[1].emulated = true;
        assert_eq!(time(&evidence, 1), 10, "a script means what it says");
        evidence.targets[1].emulated = false;
        evidence.wholes[1] = Some(summary(48, None));
        assert_eq!(time(&evidence, 1), 12);
    }

    #[test]
    fn layers_are_shared_in_proportion() {
        let mut evidence = evidence(&[(0, 10)], 4);
        let cost = |evidence: &Evidence, node: usize| {
            let prices = evidence.resolve();
            let cost = prices.costs.node(node, 0).copied().unwrap();
            (cost.time.nanoseconds(), cost.provenance)
        };
        assert_eq!(cost(&evidence, 0), (10, Provenance::Estimated));
        evidence.others[0] = Some(polychip_profile::NearMatch {
            differences: Vec::new(),
            p50: Time::from_nanoseconds(100),
            samples: 7,
        });
        assert_eq!(cost(&evidence, 0), (25, Provenance::OtherDevice));
        let of_another_cadence = Summary {
            inherited: true,
            ..summary(80, None)
        };
        evidence.inherited[0] = Some(of_another_cadence.clone());
        assert_eq!(cost(&evidence, 0), (20, Provenance::OtherCadence));
        assert!(evidence.resolve().measured.is_empty());
        assert_eq!(evidence.resolve().inherited.len(), 1);
        let part = (DeviceIndex::new(0), vec![0, 1]);
        evidence.parts.insert(part.clone(), of_another_cadence);
        let prices = evidence.resolve();
        let known = prices.costs.part(&[0, 1], 0).unwrap();
        assert_eq!(
            (known.time.nanoseconds(), known.provenance),
            (80, Provenance::OtherCadence)
        );
        assert!(prices.measured.is_empty(), "it is no measurement of this cadence");
        evidence.parts.clear();
        evidence.inherited[0] = None;
        evidence.others[0] = None;
        let layers = Arc::get_mut(&mut evidence.layers).unwrap();
        layers[0].predicted.groups = vec![(vec![0, 1], 60.0)];
        assert_eq!(cost(&evidence, 0), (30, Provenance::Predicted));
        assert_eq!(cost(&evidence, 2), (10, Provenance::Estimated));
        evidence.wholes[0] = Some(summary(160, Some(16)));
        assert_eq!(cost(&evidence, 0), (60, Provenance::Composed));
        assert_eq!(cost(&evidence, 2), (20, Provenance::Composed));
        // 16 µJ in 160 ns
        let prices = evidence.resolve();
        let power = Power::exact(Milliwatts::new(100_000), EnergyProvenance::Measured);
        assert_eq!(prices.targets[0].power, Some(power));
        // 60 ns at 100 W
        assert_eq!(
            prices.costs.node(0, 0).unwrap().energy.unwrap().nanojoules(),
            6_000
        );
        // what the device refuses now was no part of a whole that it can run
        let words = "refused".to_owned();
        evidence.targets[0].refusals[3] = Some(polychip_partitioner::Refusal { code: 13, words });
        assert_eq!(cost(&evidence, 0), (30, Provenance::Predicted));
        assert_eq!(evidence.resolve().targets[0].power, None);
    }

    #[test]
    fn node_energy_is_stated_power_times_time() {
        let mut evidence = evidence(&[(0, 10)], 2);
        let layers = Arc::get_mut(&mut evidence.layers).unwrap();
        for cost in Arc::make_mut(&mut layers[0].stated).iter_mut().flatten() {
            *cost = cost.with_energy(Energy::from_microjoules(3));
        }
        let energy = |evidence: &Evidence| {
            let prices = evidence.resolve();
            prices.costs.node(0, 0).unwrap().energy.unwrap().nanojoules()
        };
        assert_eq!(energy(&evidence), 3_000);
        let layers = Arc::get_mut(&mut evidence.layers).unwrap();
        layers[0].predicted.groups = vec![(vec![0, 1], 60.0)];
        assert_eq!(energy(&evidence), 9_000);
        evidence.wholes[0] = Some(summary(30, None));
        assert_eq!(energy(&evidence), 4_500);
    }
}
