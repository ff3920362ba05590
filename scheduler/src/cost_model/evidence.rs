//! The evidence about a model on the devices, collected once and then only extended.
//!
//! A node's cost has independent layers: the plugin's estimate or the device's stated rates, the
//! profile's prediction for the node's fusion group, the composed time of the whole, and the
//! measured time of the whole. Besides these there are measured parts, launches, links and device
//! power. Only [`Evidence::resolve`] turns them into costs.
//!
//! Invariants:
//! 1. No layer changes another one: collected evidence stays unchanged.
//! 2. A device is asked at most twice, regardless of the number of nodes: for support and for
//!    costs.
//!
//! Not here: which layer counts (`resolve`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use polychip_graph::{Graph, Node, fingerprint};
use polychip_host::{Device, DeviceKind, FlatGraph};
use polychip_partitioner::{
    Cost, DeviceIndex, Energy, EnergyProvenance, EnergyRange, LinkTable, Milliwatts, Part, Provenance,
    Refusal, Target, Time, model_fingerprint_of,
};
use polychip_profile::predict::Predicted;
use polychip_profile::{NearMatch, Profile, Summary, work};

use super::calibration::{self, Calibration};
use super::{Rows, first_use, moving, power};
use crate::error::Result;
use crate::policy::Settings;

/// The roofline of a device that states no peaks: a core slow enough that plans avoid it. Chosen an order of
/// magnitude below one core of any machine that runs this.
const UNKNOWN_MACS_PER_S: u64 = 1_000_000_000;
const UNKNOWN_BYTES_PER_S: u64 = 1_000_000_000;
/// So many answers, of devices times nodes, take longer than threads do to start.
const MANY_ANSWERS: usize = 20_000;
/// The cores of the CPU, which every plugin that computes on them shares.
const CPU_CORES: u32 = 0;

/// All that is known of a model on some devices.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// Hash of the graph's structure.
    pub(crate) structure: [u8; 32],
    /// The graph's fingerprint.
    pub(super) model: Arc<str>,
    /// Whether the devices were asked about other sizes of the model, and their costs scaled.
    pub(crate) is_resized: bool,
    /// What each device runs, holds and takes to start, and whether it may be used now.
    pub(crate) targets: Vec<Target>,
    pub(super) links: LinkTable,
    pub(super) layers: Arc<Vec<Layers>>,
    /// By device, where it was calibrated.
    pub(super) calibrations: Vec<Option<Calibration>>,
    /// Which nodes compute, rather than move bytes; empty where no device was calibrated.
    pub(super) computes: Arc<Vec<bool>>,
    /// The whole model on each device, where that was measured.
    pub(super) wholes: Vec<Option<Summary>>,
    /// The same at another cadence than the one asked for, where it was not measured at that.
    pub(super) inherited: Vec<Option<Summary>>,
    /// The whole model on the device of the same name on another chip, where nothing is known of this one.
    pub(super) others: Vec<Option<NearMatch>>,
    /// Measured parts of plans that were made, by device and nodes; also those that are inherited from another cadence.
    pub(super) parts: BTreeMap<(DeviceIndex, Vec<u32>), Summary>,
}

/// What is known of the nodes of one device.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// By node: the plugin's estimate, or the roofline; none where the device does not run it.
    pub(super) stated: Arc<Vec<Option<Cost>>>,
    /// What the profile predicts and composes.
    pub(super) predicted: Predicted,
}

impl Evidence {
    /// Asks every device what it supports and what that costs, and the profile what it knows; says before each device
    /// which it is.
    pub(crate) fn collect(
        graph: &Graph,
        flat: &FlatGraph,
        devices: &[Device],
        rows: Rows<'_>,
        begin: &dyn Fn(usize, &str),
    ) -> Result<Evidence> {
        let Rows {
            profile, settings, ..
        } = rows;
        let (mut targets, mut layers) = (Vec::new(), Vec::new());
        let (mut wholes, mut inherited, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut whole = Whole::default();
        let calibrations = calibrations(devices, rows);
        let at_once = asked_at_once(graph, devices, |device| ask(graph, flat, device, settings));
        let mut asked = at_once.map(Vec::into_iter);
        for (place, device) in devices.iter().enumerate() {
            begin(place, device.name());
            let index = DeviceIndex::new(place);
            let answer = asked.as_mut().and_then(Iterator::next);
            let answer = answer.unwrap_or_else(|| ask(graph, flat, device, settings));
            let (mut target, mut stated) = answer?;
            let launch = crate::link::known::launch(device, profile);
            let calibrated = calibrations[place].map(|known| known.launch);
            target.launch = launch
                .map(|launch| launch.time)
                .or(calibrated)
                .unwrap_or(target.launch);
            target.launch_energy = match launch.and_then(|launch| launch.energy) {
                Some(energy) => energy,
                None => moving::launch(device, target.launch),
            };
            let regression = profile.or_nothing(profile.regression(&device.identity(), &rows.now(index)));
            let point = settings.operating_point(device.info().kind);
            let drawn = regression.power(&device.identity(), &point);
            power::complete(device, settings, drawn, &mut target, &mut stated);
            layers.push(Layers {
                stated: Arc::new(stated),
                predicted: regression.predicted(graph, &device.identity(), &point, &target),
            });
            let found = whole.of(graph, device, index, &target, rows);
            others.push(match found {
                Some(_) => None,
                None => whole.of_other_device(graph, device, &target, rows),
            });
            let (own, of_other) = by_cadence(found);
            wholes.push(own);
            inherited.push(of_other);
            targets.push(target);
        }
        let structure = fingerprint::structure(graph);
        Ok(Evidence {
            structure,
            model: model_fingerprint_of(graph, &structure).into(),
            is_resized: false,
            targets,
            links: links(devices, profile),
            layers: Arc::new(layers),
            computes: computing(graph, &calibrations),
            calibrations,
            wholes,
            inherited,
            others,
            parts: BTreeMap::new(),
        })
    }

    /// The same devices and what they state, with what the profile knows under other conditions.
    pub(crate) fn under(&self, graph: &Graph, devices: &[Device], rows: Rows<'_>) -> Evidence {
        let mut made = self.clone();
        let mut whole = Whole::default();
        let mut layers = Vec::with_capacity(devices.len());
        for (place, (device, target)) in devices.iter().zip(&self.targets).enumerate() {
            let index = DeviceIndex::new(place);
            let identity = device.identity();
            let regression = rows
                .profile
                .or_nothing(rows.profile.regression(&identity, &rows.now(index)));
            let point = rows.settings.operating_point(device.info().kind);
            layers.push(Layers {
                stated: Arc::clone(&self.layers[place].stated),
                predicted: regression.predicted(graph, &identity, &point, target),
            });
            (made.wholes[place], made.inherited[place]) =
                by_cadence(whole.of(graph, device, index, target, rows));
        }
        made.layers = Arc::new(layers);
        made.calibrations = calibrations(devices, rows);
        for (place, device) in devices.iter().enumerate() {
            let is_measured = crate::link::known::launch(device, rows.profile).is_some();
            if let Some(known) = made.calibrations[place].filter(|_| !is_measured) {
                made.targets[place].launch = known.launch;
                made.targets[place].launch_energy = moving::launch(device, known.launch);
            }
        }
        made.computes = computing(graph, &made.calibrations);
        made.parts.clear();
        made
    }

    /// Whether the costs rest on all that is known by calibration now.
    pub(crate) fn is_calibrated(&self, devices: &[Device], rows: Rows<'_>) -> bool {
        self.calibrations == calibrations(devices, rows)
    }

    /// What a device's plugin states of all nodes, in nanoseconds: of those that compute, and of the others. None where it
    /// does not run all of them.
    pub(crate) fn stated_work(&self, graph: &Graph, device: usize) -> Option<(f64, f64)> {
        let mut work = (0.0, 0.0);
        for (cost, computes) in self.layers[device]
            .stated
            .iter()
            .zip(calibration::computes(graph))
        {
            let ns = cost.as_ref()?.time.picoseconds() as f64 / 1e3;
            if computes { work.0 += ns } else { work.1 += ns }
        }
        Some(work)
    }

    /// Adds what the profile knows of the parts of a plan; whether a cost became known or is another now.
    pub(crate) fn learn(
        &mut self,
        graph: &Graph,
        devices: &[Device],
        parts: &[Part],
        rows: Rows<'_>,
    ) -> bool {
        if rows.are_none() {
            return false;
        }
        let mut is_new = false;
        for part in parts {
            let Some(found) = devices
                .get(part.device.index())
                .and_then(|device| rows.of(&super::structure(graph, part), device, part.device))
            else {
                continue;
            };
            let cost = measured(&found);
            if part.nodes.len() == graph.node_count() && !found.inherited {
                // measured since, by another session: nodes of it are no cheaper than it is
                self.wholes[part.device.index()] = Some(found.clone());
            }
            let before = self.parts.insert((part.device, part.nodes.clone()), found);
            is_new |= before.is_none_or(|before| measured(&before) != cost);
        }
        is_new
    }
}

/// What is known of each device by calibration.
fn calibrations(devices: &[Device], rows: Rows<'_>) -> Vec<Option<Calibration>> {
    let known = |device| Calibration::read(rows.profile, device, rows.settings);
    devices.iter().map(known).collect()
}

/// Which nodes compute, where a device's figures ask for it.
fn computing(graph: &Graph, calibrations: &[Option<Calibration>]) -> Arc<Vec<bool>> {
    let is_asked = calibrations.iter().any(Option::is_some);
    Arc::new(if is_asked {
        calibration::computes(graph)
    } else {
        Vec::new()
    })
}

/// What is of the cadence asked for, and what is of another one.
fn by_cadence(found: Option<Summary>) -> (Option<Summary>, Option<Summary>) {
    match found {
        Some(found) if found.inherited => (None, Some(found)),
        found => (found, None),
    }
}

/// The cost that a measured part has; without an energy where none was measured.
pub(super) fn measured(summary: &Summary) -> Cost {
    let provenance = if summary.inherited {
        Provenance::OtherCadence
    } else {
        Provenance::Measured
    };
    let cost = Cost::time(summary.p50, provenance);
    let cost = match summary.energy_uj {
        Some(energy) => {
            let energy = Energy::from_microjoules(energy);
            cost.with_energy_within(energy, EnergyRange::exact(energy, EnergyProvenance::Measured))
        }
        None => cost,
    };
    if summary.emulated { cost.emulated() } else { cost }
}

/// The whole model as one part; hashed once for all devices, and only where somebody measured anything.
#[derive(Default)]
struct Whole(Option<[u8; 32]>);

impl Whole {
    fn of(
        &mut self,
        graph: &Graph,
        device: &Device,
        index: DeviceIndex,
        target: &Target,
        rows: Rows<'_>,
    ) -> Option<Summary> {
        let structure = self.structure(graph, target, rows)?;
        rows.of(structure, device, index)
    }

    fn of_other_device(
        &mut self,
        graph: &Graph,
        device: &Device,
        target: &Target,
        rows: Rows<'_>,
    ) -> Option<NearMatch> {
        let structure = self.structure(graph, target, rows)?;
        rows.of_other_device(structure, device)
    }

    /// The model's structure, where somebody measured something and the device runs all of it.
    fn structure(&mut self, graph: &Graph, target: &Target, rows: Rows<'_>) -> Option<&[u8; 32]> {
        if rows.are_none() || !super::runs_all(target, graph.node_count()) {
            return None;
        }
        Some(self.0.get_or_insert_with(|| super::whole_structure(graph)))
    }
}

/// A device's supported nodes of a graph, and its stated cost of each node.
type DeviceCosts = Result<(Target, Vec<Option<Cost>>)>;

/// Asks several devices about a large graph, on as many threads as there are cores; `None` if
/// asking them one after the other is as fast.
fn asked_at_once<T: Send + Sync>(
    graph: &Graph,
    devices: &[Device],
    ask: impl Fn(&Device) -> T + Sync,
) -> Option<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if devices.len() * graph.node_count() < MANY_ANSWERS || devices.len() < 2 || threads < 2 {
        return None;
    }
    let answers: Vec<OnceLock<T>> = devices.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(devices.len()) {
            scope.spawn(|| {
                while let Some((device, answer)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    devices.get(place).zip(answers.get(place))
                } {
                    let _ = answer.set(ask(device));
                }
            });
        }
    });
    answers.into_iter().map(OnceLock::into_inner).collect()
}

/// The devices' supported nodes of a graph.
pub(crate) fn support_of(graph: &Graph, flat: &FlatGraph, devices: &[Device]) -> Result<Vec<Target>> {
    let ask = |device: &Device| supported(graph, flat, device);
    let answers = asked_at_once(graph, devices, ask);
    answers.map_or_else(
        || devices.iter().map(ask).collect(),
        |answers| answers.into_iter().collect(),
    )
}

/// A device's supported nodes of a graph.
fn supported(graph: &Graph, flat: &FlatGraph, device: &Device) -> Result<Target> {
    let info = device.info();
    let mut target = Target::new(device.name(), graph.node_count());
    target.memory_limit = info.memory_bytes;
    target.emulated = info.emulated;
    target.resource = (info.kind == DeviceKind::Cpu && !info.emulated).then_some(CPU_CORES);
    if device.is_quarantined() {
        target.quarantined = Some(not_reset(device));
        return Ok(target);
    }
    let support = match device.query_support(flat) {
        Ok(support) => support,
        Err(error) => {
            target.quarantined = Some(unusable(device, "query_support", &error));
            return Ok(target);
        }
    };
    for (support, refusal) in support.iter().zip(&mut target.refusals) {
        if support.reason != 0 {
            *refusal = Some(Refusal {
                code: support.reason,
                words: reason_words(support.reason, &support.detail),
            });
        }
    }
    Ok(target)
}

/// Why a lost or hung device is not used.
fn not_reset(device: &Device) -> String {
    match &*device.last_loss() {
        "" => "lost or hung, and not reset since".to_owned(),
        words => format!("lost or hung, and not reset since: {words}"),
    }
}

/// Why a device is not used whose plugin fails at a call that every device must answer. Says it in the log, too: the
/// plan is made without the device.
fn unusable(device: &Device, call: &str, error: &polychip_host::Error) -> String {
    let words = match error.message() {
        words if words.contains(call) => words.to_owned(),
        words => format!("{call}: {words}"),
    };
    let plugin = &device.plugin().name;
    tracing::warn!(
        "{} is not used: its plugin {plugin} failed when it was asked about the model: {words}",
        device.name()
    );
    words
}

/// A device's supported nodes of a graph, and its stated cost of each node.
fn ask(graph: &Graph, flat: &FlatGraph, device: &Device, settings: Settings) -> DeviceCosts {
    let mut target = supported(graph, flat, device)?;
    let mut costs = vec![None; graph.node_count()];
    if target.quarantined.is_some() {
        return Ok((target, costs));
    }
    let number = |row: usize| u32::try_from(row).expect("invariant: a flat graph counts nodes in 32 bits");
    let offered: Vec<u32> = (0..target.refusals.len())
        .filter(|row| target.refusals[*row].is_none())
        .map(number)
        .collect();
    let mut estimates = match device.estimate_parts(flat, offered.chunks(1)) {
        Ok(estimates) => estimates,
        Err(error) if device.is_quarantined() => {
            target.quarantined = Some(unusable(device, "estimate", &error));
            return Ok((target, costs));
        }
        Err(error) => {
            tracing::warn!("{error}; costs are computed from the rates of {}", device.name());
            vec![None; offered.len()]
        }
    };
    super::believable::check(graph, device, &offered, &mut estimates);
    let mut estimates = estimates.into_iter();
    let threads = first_use::ThreadScale::new(device, settings);
    let mut states_launch = false;
    for ((refusal, (_, node)), cost) in target.refusals.iter().zip(graph.nodes()).zip(&mut costs) {
        if refusal.is_some() {
            continue;
        }
        let estimate = estimates.next().flatten().unwrap_or_default();
        *cost = Some(threads.scaled(stated(graph, node, device, &estimate)));
        if let Some(launch) = estimate.launch_ns {
            states_launch = true;
            target.launch = target.launch.max(Time::from_nanoseconds(launch));
        }
        if let Some(power) = estimate.power_mw {
            let most = target
                .power
                .map_or(0, |before| before.active.milliwatts())
                .max(power);
            target.power = Some(Milliwatts::new(most).into());
        }
    }
    if !states_launch {
        target.launch = first_use::launch(device);
    }
    Ok((target, costs))
}

/// The cost of a node as the plugin estimates it; by the roofline where it states no time.
fn stated(graph: &Graph, node: &Node, device: &Device, estimate: &polychip_host::Cost) -> Cost {
    let cost = match estimate.time_ns {
        Some(ns) => Cost::time(Time::from_nanoseconds(ns), Provenance::Estimated),
        None => Cost::time(roofline(graph, node, device), Provenance::Roofline),
    };
    let energy = estimate.energy_uj.map(Energy::from_microjoules).or_else(|| {
        estimate
            .power_mw
            .and_then(|power| Milliwatts::new(power).over(cost.time))
    });
    let cost = match energy {
        Some(energy) => cost.with_energy(energy),
        None => cost,
    };
    if device.info().emulated || estimate.emulated {
        cost.emulated()
    } else {
        cost
    }
}

fn roofline(graph: &Graph, node: &polychip_graph::Node, device: &Device) -> Time {
    let (info, work) = (device.info(), work::of_node(graph, node));
    let ns = |amount: u64, per_second: u64| {
        u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(per_second.max(1))).unwrap_or(u64::MAX)
    };
    let arithmetic = ns(work.macs, info.peak_macs_per_s.unwrap_or(UNKNOWN_MACS_PER_S));
    let traffic = ns(work.bytes, info.peak_bytes_per_s.unwrap_or(UNKNOWN_BYTES_PER_S));
    // the partitioner counts picoseconds in 64 bits
    Time::from_nanoseconds(arithmetic.max(traffic).clamp(1, u64::MAX / 1_000_000))
}

fn links(devices: &[Device], profile: &Profile) -> LinkTable {
    let mut links = LinkTable::new(devices.len());
    for (from, a) in devices.iter().enumerate() {
        for (to, b) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            let link = first_use::link(a.info(), b.info());
            let link = moving::estimated(&devices[from], &devices[to], link);
            let link = crate::link::known::link(&devices[from], &devices[to], link, profile);
            links.set(from, to, link);
        }
    }
    links
}

/// Words for a reason code, with the device's own detail.
fn reason_words(code: u32, detail: &str) -> String {
    let words = match code {
        1 => "op not offered",
        2 => "data type not offered",
        3 => "shape out of bounds",
        4 => "rank not offered",
        5 => "attribute not offered",
        6 => "layout not offered",
        7 => "input must be a constant",
        8 => "shape known only at run time",
        9 => "body graph not offered",
        10 => "encoding not offered",
        11 => "memory too small",
        12 => "quarantined",
        13 => "refused by the vendor's library",
        _ => "refused",
    };
    if detail.is_empty() {
        words.to_owned()
    } else {
        format!("{words}: {detail}")
    }
}
