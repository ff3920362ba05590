//! A plan over time: transfers, launches and parts, one after the other or at once, as they are priced.
//!
//! Invariant: the last span ends at the plan's predicted time, or at its makespan.

use polychip_graph::{Graph, TensorId};
use polychip_partitioner::report::count;
use polychip_partitioner::{Crossing, DeviceIndex, PartIndex, Plan, Provenance, Time};
use serde::Serialize;
use std::collections::BTreeMap;

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

/// The spans of a plan, in the order of parts. Tensors go by their names in the graph that the plan is of, where that is
/// at hand.
pub(super) fn of(plan: &Plan, graph: Option<&Graph>) -> Vec<Span> {
    let made = Spans {
        plan,
        graph,
        all: Vec::new(),
    };
    match &plan.schedule {
        Some(schedule) => made.at_once(&schedule.starts),
        None => made.in_turn(),
    }
}

struct Spans<'a> {
    plan: &'a Plan,
    graph: Option<&'a Graph>,
    all: Vec<Span>,
}

impl Spans<'_> {
    /// One after the other: a tensor is brought before the first part that reads it, or to the home of outputs at
    /// the end.
    fn in_turn(mut self) -> Vec<Span> {
        let (plan, mut now) = (self.plan, 0);
        let brought = |to: Option<PartIndex>| {
            let all = plan.crossings.iter();
            all.filter(move |crossing| crossing.to_parts.first().copied() == to)
        };
        for index in 0..plan.parts.len() {
            for crossing in brought(Some(PartIndex::new(index))) {
                now = self.transfer(crossing, now);
            }
            now = self.part(index, now);
        }
        for crossing in brought(None) {
            now = self.transfer(crossing, now);
        }
        debug_assert_eq!(now, plan.totals.time.picoseconds());
        self.all
    }

    /// On several devices at once: parts at their starts; a link carries one tensor at a time, in the plan's order.
    fn at_once(mut self, starts: &[Time]) -> Vec<Span> {
        let plan = self.plan;
        let mut links: BTreeMap<(DeviceIndex, DeviceIndex), u64> = BTreeMap::new();
        let mut send = |spans: &mut Self, from: Option<PartIndex>, ready: u64| {
            let leaving = plan
                .crossings
                .iter()
                .filter(|crossing| crossing.from_part == from);
            for crossing in leaving.filter(|crossing| crossing.from_device != crossing.to_device) {
                let free = links
                    .entry((crossing.from_device, crossing.to_device))
                    .or_default();
                *free = spans.transfer(crossing, ready.max(*free));
            }
        };
        send(&mut self, None, 0);
        for (index, start) in starts.iter().enumerate().take(plan.parts.len()) {
            let end = self.part(index, start.picoseconds());
            send(&mut self, Some(PartIndex::new(index)), end);
        }
        self.all
    }

    /// A part with its launch; gives its end.
    fn part(&mut self, index: usize, start: u64) -> u64 {
        let part = &self.plan.parts[index];
        let (cost, what) = (part.cost, format!("part {index}"));
        let launch = format!("launch of {what}");
        let from = (Provenance::Estimated, cost.emulated);
        let launched = self.push(Kind::Launch, part.device, launch, start, part.launch, from);
        let label = format!("{what}, {}", count(part.nodes.len(), "node"));
        let from = (cost.provenance, cost.emulated);
        self.push(Kind::Part, part.device, label, launched, cost.time, from)
    }

    /// A transfer, on the device that it goes to; gives its end.
    fn transfer(&mut self, crossing: &Crossing, start: u64) -> u64 {
        let id = crossing.tensor as usize;
        let name = match self.graph {
            Some(graph) if id < graph.tensor_count() => graph.tensor(TensorId::new(id)).name.clone(),
            _ => format!("tensor {id}"),
        };
        let label = format!(
            "transfer of {name} from {}",
            self.plan.device_label(crossing.from_device)
        );
        let either = self.is_emulated(crossing.from_device) || self.is_emulated(crossing.to_device);
        let from = (crossing.provenance, either);
        self.push(
            Kind::Transfer,
            crossing.to_device,
            label,
            start,
            crossing.time,
            from,
        )
    }

    fn is_emulated(&self, device: DeviceIndex) -> bool {
        let mut parts = self.plan.parts.iter().filter(|part| part.device == device);
        parts.any(|part| part.cost.emulated)
    }

    fn push(
        &mut self,
        kind: Kind,
        device: DeviceIndex,
        label: String,
        start: u64,
        time: Time,
        (provenance, emulated): (Provenance, bool),
    ) -> u64 {
        let end = start.saturating_add(time.picoseconds());
        // what takes no time is not seen, but a part is there
        if end > start || kind == Kind::Part {
            self.all.push(Span {
                kind,
                device: self.plan.devices[device.index()].clone(),
                label,
                start_ps: start,
                end_ps: end,
                provenance,
                emulated,
            });
        }
        end
    }
}
