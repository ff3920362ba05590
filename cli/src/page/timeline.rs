//! A plan over time: transfers, launches and parts, one after the other as they are priced.
//!
//! Invariant: the last span ends at the plan's predicted time.

use polychip_graph::{Graph, TensorId};
use polychip_partitioner::{Crossing, Nanos, Plan, Provenance};
use serde::Serialize;

/// What one device does for some time.
#[derive(Debug, Serialize)]
pub(super) struct Span {
    kind: Kind,
    device: String,
    label: String,
    start_ps: u64,
    end_ps: u64,
    provenance: Provenance,
    emulated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Transfer,
    Launch,
    Part,
}

/// The spans of a plan. A tensor is brought before the first part that reads it, and to the home of outputs at the end.
pub(super) fn of(plan: &Plan, graph: &Graph) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut now = 0u64;
    let mut push = |kind, device: u32, label: String, time: Nanos, provenance, emulated| {
        if time == Nanos::ZERO && kind != Kind::Part {
            return;
        }
        let end = now.saturating_add(time.picoseconds());
        spans.push(Span {
            kind,
            device: plan.devices[device as usize].clone(),
            label,
            start_ps: now,
            end_ps: end,
            provenance,
            emulated,
        });
        now = end;
    };
    let name = |crossing: &Crossing| {
        let id = crossing.tensor as usize;
        let name = match id < graph.tensor_count() {
            true => graph.tensor(TensorId::new(id)).name.clone(),
            false => format!("number {id}"),
        };
        format!(
            "transfer of {name} from {}",
            plan.devices[crossing.from_device as usize]
        )
    };
    let emulated = |device: u32| {
        let mut parts = plan.parts.iter().filter(|part| part.device == device);
        parts.any(|part| part.cost.emulated)
    };
    for (index, part) in plan.parts.iter().enumerate() {
        for crossing in plan
            .crossings
            .iter()
            .filter(|crossing| crossing.to_parts.first() == Some(&(index as u32)))
        {
            let either = emulated(crossing.from_device) || emulated(crossing.to_device);
            push(
                Kind::Transfer,
                crossing.to_device,
                name(crossing),
                crossing.time,
                crossing.provenance,
                either,
            );
        }
        let (cost, what) = (part.cost, format!("part {index}"));
        let launch = format!("launch of {what}");
        push(
            Kind::Launch,
            part.device,
            launch,
            part.launch,
            Provenance::Estimated,
            cost.emulated,
        );
        let label = format!("{what}, {} nodes", part.nodes.len());
        push(
            Kind::Part,
            part.device,
            label,
            cost.time,
            cost.provenance,
            cost.emulated,
        );
    }
    for crossing in plan
        .crossings
        .iter()
        .filter(|crossing| crossing.to_parts.is_empty())
    {
        let either = emulated(crossing.from_device) || emulated(crossing.to_device);
        push(
            Kind::Transfer,
            crossing.to_device,
            name(crossing),
            crossing.time,
            crossing.provenance,
            either,
        );
    }
    debug_assert_eq!(now, plan.totals.time.picoseconds());
    spans
}
