//! Runs the small calibration networks on devices, in turns, within the budget.
//!
//! Invariants:
//! 1. Devices alternate after a few runs each, so that external load affects all of them.
//! 2. If a network fails on a device, or its time is over, the completed ones calibrate it; without
//!    any, it keeps its stated figures.
//! 3. A network that takes little longer than a launch shows nothing about a device's speed, and
//!    does not count.

mod fit;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use polychip_host::Device;
use polychip_partitioner::Time;

use super::candidate::Loaded;
use crate::cost_model::{Calibration, key};
use crate::error::Result;
use crate::model::Model;
use crate::planned::{Prepared, choose_devices};
use crate::policy::{Learn, Policy, Settings};
use crate::runtime::Runtime;
use crate::shared::Shared;
use fit::{Observed, fit};

/// How long calibration may take, on all devices together, beside the compilation of devices whose compiler alone takes longer. The
/// compilation that is under way then is still waited for.
const BUDGET: Duration = Duration::from_millis(300);

/// Turns of each device, and the runs of a turn, which follow each other as an app's do. The first run of a turn does not
/// count: the threads of the device may have slept while another one had its turn.
const TURNS: usize = 3;
const RUNS: usize = 3;
/// The same of the network that tells the launch, whose runs take next to nothing.
const LAUNCHES: usize = 20;
/// The run that is taken, from the fastest: the app may be running beside them.
const TAKEN: usize = 1;
/// A run that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minimum time of a network that counts, in launches.
const LEAST_LAUNCHES: f64 = 2.0;

impl Runtime {
    /// Calibrates the devices that a policy allows, where it asks for that.
    pub(crate) fn calibrated_for(&self, policy: &Policy) -> Result<()> {
        if policy.calibrates() {
            let devices = choose_devices(&self.0, policy)?;
            let tried = self.0.calibrating.lock();
            let mut tried = tried.unwrap_or_else(PoisonError::into_inner);
            calibrate(self, &devices, policy.settings(), &mut tried);
        }
        Ok(())
    }

    /// Calibrates the real devices of a session, unless that is done or in progress.
    pub(crate) fn calibrate_for_session(shared: &Arc<Shared>, devices: &[Device], settings: Settings) {
        let real = devices.iter().filter(|device| !device.info().emulated);
        let real: Vec<Device> = real.cloned().collect();
        let runtime = Runtime(Arc::clone(shared), Arc::default());
        if let Ok(mut tried) = shared.calibrating.try_lock()
            && real.len() > 1
        {
            calibrate(&runtime, &real, settings, &mut tried);
        }
    }
}

/// What is found of a device.
struct Found {
    device: Device,
    launch: Option<f64>,
    observed: Vec<Observed>,
    /// Longest that it took to make a network ready.
    made_ready: Duration,
    is_left_out: bool,
}

/// Calibrates the devices of which nothing is known and that were not tried in this process.
fn calibrate(runtime: &Runtime, devices: &[Device], settings: Settings, tried: &mut BTreeSet<String>) {
    let shared = &runtime.0;
    let is_open = |device: &&Device| {
        let is_known = || Calibration::read(&shared.profile, device, settings).is_some();
        !device.is_quarantined() && !tried.contains(&key(device, settings)) && !is_known()
    };
    let mut found: Vec<Found> = devices
        .iter()
        .filter(is_open)
        .map(|device| Found {
            device: device.clone(),
            launch: None,
            observed: Vec::new(),
            made_ready: Duration::ZERO,
            is_left_out: false,
        })
        .collect();
    if found.is_empty() {
        return;
    }
    tried.extend(found.iter().map(|one| key(&one.device, settings)));
    let mut start = Instant::now();
    let networks = match Model::calibration_networks() {
        Ok(networks) => networks,
        Err(error) => {
            tracing::warn!("devices are not calibrated: {error}");
            return;
        }
    };
    for (number, network) in networks.iter().enumerate() {
        run(runtime, network, number, &mut found, settings, &mut start);
    }
    for one in found {
        let launch = Time::from_nanoseconds(one.launch.unwrap_or(0.0) as u64);
        let Some(calibration) = fit(&one.observed, launch).filter(|_| one.launch.is_some()) else {
            tracing::info!("{}: not calibrated; its stated figures stay", one.device.name());
            continue;
        };
        tracing::info!(
            "{}: {:.2} times the stated time of arithmetic, {:.2} times that of memory, a launch of {launch}",
            one.device.name(),
            calibration.compute,
            calibration.traffic,
        );
        if let Err(error) = calibration.keep(&shared.profile, &one.device, settings) {
            tracing::warn!("the calibration of {} is not kept: {error}", one.device.name());
        }
    }
}

/// Runs a network on all devices that have time for it. The first one has next to no work: it tells the launch.
fn run(
    runtime: &Runtime,
    network: &Model,
    number: usize,
    found: &mut [Found],
    settings: Settings,
    start: &mut Instant,
) {
    let policy = |device: &Device| {
        Policy::latency()
            .learn(Learn::No)
            .threads(settings.threads)
            .precision(settings.precision)
            .period(Duration::ZERO)
            .devices([device.name()])
    };
    let mut ready: Vec<(usize, Observed, Loaded, Vec<u64>)> = Vec::new();
    for (index, one) in found.iter_mut().enumerate() {
        if one.is_left_out || start.elapsed() + one.made_ready > BUDGET {
            continue;
        }
        let began = Instant::now();
        let policy = policy(&one.device);
        let made = Prepared::new(&runtime.0, network, &policy).and_then(|prepared| {
            let stated = prepared.evidence.stated_work(&prepared.graph, 0);
            let loaded = Loaded::of(runtime, &policy, &one.device, network, 1, PATIENCE)?;
            Ok((stated, loaded))
        });
        tracing::debug!(
            "{}: network {number} is ready in {:?}",
            one.device.name(),
            began.elapsed()
        );
        let took = began.elapsed();
        one.made_ready = one.made_ready.max(took);
        if took > BUDGET {
            // its compiler alone takes longer than all may: the others have what time it took
            one.is_left_out = true;
            *start += took;
            continue;
        }
        match made {
            Ok((Some((compute, traffic)), loaded)) => {
                let observed = Observed {
                    compute,
                    traffic,
                    took: 0.0,
                };
                ready.push((index, observed, loaded, Vec::new()));
            }
            Ok((None, _)) => {}
            Err(error) => {
                tracing::debug!("{} is calibrated without {network:?}: {error}", one.device.name());
            }
        }
    }
    let clock = runtime.0.host.clock();
    let runs = if number == 0 { LAUNCHES } else { RUNS };
    for turn in 0..TURNS {
        // a network that is ready has one turn
        if turn > 0 && start.elapsed() > BUDGET {
            break;
        }
        for (index, _, loaded, times) in &mut ready {
            for run in 0..runs {
                let began = clock.now_ns();
                if loaded.run().is_err() {
                    found[*index].is_left_out = true;
                } else if run > 0 {
                    times.push(clock.now_ns() - began);
                }
            }
        }
        ready.retain(|(index, ..)| !found[*index].is_left_out);
    }
    for (index, observed, _, mut times) in ready {
        times.sort_unstable();
        let Some(&took) = times.get(TAKEN).or(times.first()) else {
            continue;
        };
        let one = &mut found[index];
        let stated = observed.compute + observed.traffic;
        tracing::debug!(
            "{}: network {number}: {took} ns, {:.2} times what is stated, of which {:.0} % is arithmetic",
            one.device.name(),
            took as f64 / stated,
            1e2 * observed.compute / stated,
        );
        match (number, one.launch) {
            (0, _) => one.launch = Some(took as f64),
            (_, Some(launch)) if took as f64 >= LEAST_LAUNCHES * launch => one.observed.push(Observed {
                took: took as f64 - launch,
                ..observed
            }),
            _ => {}
        }
    }
}
