//! Refusals of devices from the profile, with the vendor's message, applied to the targets of a
//! plan.
//!
//! Not here: recognizing a refused run (`polychip_profile::refusal`), finding one (`bisect`,
//! `replan`).

use std::collections::BTreeMap;

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::{DeviceIndex, Target};
use polychip_profile::Profile;
use polychip_profile::refusal::mark_known;

use crate::event::{Event, EventKind};

/// The vendor library's message with its code.
pub(crate) fn words_of(error: &polychip_host::Error) -> String {
    match error.vendor_code() {
        0 => error.message().to_owned(),
        code => format!("{} (vendor code {code})", error.message()),
    }
}

/// Marks every run of the graph that a device is known to refuse. Returns one event per device and
/// message.
pub(crate) fn apply(
    graph: &Graph,
    devices: &[Device],
    targets: &mut [Target],
    pins: &BTreeMap<usize, usize>,
    profile: &Profile,
) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for (index, (device, target)) in devices.iter().zip(targets.iter_mut()).enumerate() {
        let known = profile.or_nothing(profile.refusals(&device.identity()));
        for (words, nodes) in mark_known(graph, target, DeviceIndex::new(index), &known, pins) {
            events.push(Event::new(EventKind::Avoided, device.name(), nodes, words));
        }
    }
    events
}
