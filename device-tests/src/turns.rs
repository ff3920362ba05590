//! Plans with pins that alternate two devices.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use polychip::{Model, Policy, Runtime};

/// Nodes that stay together: each change of device costs a copy or a wake-up, and a compilation of some
/// milliseconds.
const TURNS: usize = 8;

/// Pins some nodes to the one device, the next to the other, where it takes them. Names of nodes that are not unique
/// are not pinned.
///
/// # Errors
/// A plan cannot be made, or one of the devices has no part in it.
pub fn policy(runtime: &Runtime, model: &Model, policy: Policy, devices: [&str; 2]) -> Result<Policy> {
    let mut policy = policy.devices(devices);
    let planned = runtime.plan(model, &policy)?;
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, node) in planned.graph().nodes() {
        *names.entry(node.name.as_str()).or_default() += 1;
    }
    let column = |name: &str| planned.devices().iter().position(|device| device.name() == name);
    let columns = devices.map(column);
    let mut pinned = [0usize; 2];
    for (place, (_, node)) in planned.graph().nodes().enumerate() {
        if names.get(node.name.as_str()) != Some(&1) || node.name.is_empty() {
            continue;
        }
        let turn = (place / TURNS) % 2;
        if columns[turn].is_some_and(|column| planned.targets()[column].supports(place)) {
            pinned[turn] += 1;
            policy = policy.pin(node.name.clone(), devices[turn]);
        }
    }
    let planned = runtime.plan(model, &policy)?;
    let parts = &planned.plan().parts;
    ensure!(
        pinned[0] > 0 && pinned[1] > 0 && parts.iter().any(|part| part.device != parts[0].device),
        "both devices should have parts, {pinned:?} nodes are pinned: {parts:?}"
    );
    Ok(policy)
}
