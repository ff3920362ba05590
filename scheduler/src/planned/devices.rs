//! The devices that a policy allows.

use polychip_host::Device;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};
use crate::policy::Policy;
use crate::shared::Shared;

/// The devices that a policy names, however hot they are.
pub(crate) fn choose_devices(shared: &Shared, policy: &Policy) -> Result<Vec<Device>> {
    let all = shared.host.devices();
    let devices: Vec<Device> = match policy.wanted_devices() {
        None => all.to_vec(),
        Some(names) => {
            let mut chosen: Vec<Device> = Vec::new();
            for name in names {
                let matches = |device: &&Device| device.name() == name || device.plugin().name == *name;
                let found: Vec<&Device> = all.iter().filter(matches).collect();
                if found.is_empty() {
                    return Err(no_such_device(shared, name));
                }
                for device in found {
                    if !chosen.iter().any(|other| other.name() == device.name()) {
                        chosen.push(device.clone());
                    }
                }
            }
            chosen
        }
    };
    if devices.is_empty() {
        return Err(Error::new(ErrorKind::NoDevice, "no device was found"));
    }
    Ok(devices)
}

/// An event for each quarantined device that the policy would use.
pub(super) fn quarantined(shared: &Shared, policy: &Policy) -> Vec<Event> {
    if policy.wanted_devices().is_some() {
        return Vec::new();
    }
    let refusals = shared.host.refusals().iter();
    let left_out = refusals.filter(|refusal| refusal.is_quarantined);
    left_out
        .map(|refusal| Event::new(EventKind::LeftOut, &refusal.subject, 0, &refusal.reason))
        .collect()
}

pub(super) fn no_such_device(shared: &Shared, name: &str) -> Error {
    let known: Vec<&str> = shared.host.devices().iter().map(Device::name).collect();
    let mut words = format!("there is no device {name}; there are: {}", known.join(", "));
    // of what is not used, what may have had the device; the rest would bury it
    let plugin = name.split(':').next().unwrap_or(name);
    let file = format!("polychip_plugin_{plugin}");
    for refusal in shared.host.refusals() {
        let device = refusal.subject.split(':').next() == Some(plugin);
        let linked = refusal
            .reason
            .split_whitespace()
            .take(2)
            .any(|word| word == plugin);
        if device || linked || refusal.subject.contains(&file) {
            words.push_str(&format!("; not used: {refusal}"));
        }
    }
    Error::new(ErrorKind::BadPlugin, words)
}
