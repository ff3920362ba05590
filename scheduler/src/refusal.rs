//! Refusals of devices from the profile, with the vendor's message, applied to the targets of a
//! plan.
//!
//! Not here: recognizing a refused run (`polychip_profile::refusal`), finding one (`bisect`,
//! `replan`).

use std::collections::BTreeMap;

use polychip_graph::Graph;
use polychip_host::Device;
use polychip_partitioner::{DeviceIndex, Part, Target};
use polychip_profile::Profile;
use polychip_profile::refusal::mark_known;

use crate::cost_model::part_graph;
use crate::event::{Event, EventKind};

/// The vendor library's message with its code.
pub(crate) fn words_of(error: &polychip_host::Error) -> String {
    match error.vendor_code() {
        0 => error.message().to_owned(),
        code => format!("{} (vendor code {code})", error.message()),
    }
}

/// The node of a part that a device named, with the names and types of its inputs; the part's only node
/// where the device named none.
pub(crate) fn node_words(graph: &Graph, part: &Part, node: Option<u32>) -> Option<String> {
    let graph = part_graph(graph, part);
    let place = match (node, &part.nodes[..]) {
        (Some(node), _) => node as usize,
        (None, [_]) => 0,
        (None, _) => return None,
    };
    let (_, node) = graph.nodes().nth(place)?;
    let inputs: Vec<String> = node
        .inputs
        .iter()
        .flatten()
        .map(|id| {
            let tensor = graph.tensor(*id);
            let bound = if tensor.upper_bound { " at most" } else { "" };
            match (tensor.typed, tensor.is_tensor()) {
                (true, true) => format!("{:?}{bound} {}", tensor.name, tensor.ty),
                (true, false) => format!("{:?} {} of {}", tensor.name, tensor.container.name(), tensor.ty),
                (false, _) => format!("{:?}", tensor.name),
            }
        })
        .collect();
    let name = graph.describe(node);
    Some(match &inputs[..] {
        [] => format!("node {name}"),
        [input] => format!("node {name} with input {input}"),
        inputs => format!("node {name} with inputs {}", inputs.join(", ")),
    })
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
