//! Start times of a plan's parts on concurrent devices, and how busy each device is.
//!
//! A device runs one part at a time, in the plan's order, and so do devices that share hardware. A
//! part starts as soon as its device is free and all of its inputs have arrived; it takes one
//! launch and the time of its nodes; its outputs leave when it ends. The link of an ordered pair of
//! devices carries one tensor at a time, in the order of the plan's crossings, while both devices
//! continue. Graph inputs leave their home, if any, at the start.
//!
//! Invariants: a schedule follows from parts and crossings alone. Deliberately not here: finding
//! good schedules (`makespan`); judging them (`check` has its own way).

use crate::crossing::Crossing;
use crate::error::{Error, Repr};
use crate::index::DeviceIndex;
use crate::part::Part;
use crate::unit::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schedule of a run on concurrent devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Start of each part, from the start of the run; JSON holds picoseconds.
    #[serde(rename = "starts_ps")]
    pub starts: Vec<Time>,
    /// When all parts have ended and all outputs are at their home; JSON holds picoseconds.
    #[serde(rename = "makespan_ps")]
    pub makespan: Time,
    /// Busy time of each device in one run; JSON holds picoseconds.
    #[serde(rename = "busy_ps")]
    pub busy: Vec<Time>,
    /// Per device, the first device that shares its hardware; empty if none is shared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<DeviceIndex>,
    /// Busy time of the busiest hardware or link in one run, which bounds the sustained run rate.
    /// JSON holds picoseconds.
    #[serde(rename = "period_ps")]
    pub period: Time,
}

impl Schedule {
    /// The schedule of parts and crossings in a plan's order. `resources` has, per device, the first
    /// device that shares its hardware, or the device itself.
    pub(crate) fn of(parts: &[Part], crossings: &[Crossing], resources: &[usize]) -> Result<Self, Error> {
        let devices = resources.len();
        let sum = |a: u64, b: u64| {
            a.checked_add(b)
                .ok_or_else(|| Error::from(Repr::Overflow("time of the schedule".to_owned())))
        };
        let mut leaving: Vec<Vec<&Crossing>> = vec![Vec::new(); parts.len()];
        let mut awaited: Vec<Vec<&Crossing>> = vec![Vec::new(); parts.len()];
        let moved = |crossing: &&Crossing| crossing.from_device != crossing.to_device;
        for crossing in crossings.iter().filter(moved) {
            if let Some(from) = crossing.from_part {
                leaving[from.index()].push(crossing);
            }
            for &part in &crossing.to_parts {
                awaited[part.index()].push(crossing);
            }
        }
        let (mut free, mut links) = (vec![0u64; devices], vec![0u64; devices * devices]);
        let (mut busy, mut used) = (vec![0u64; devices], vec![0u64; devices * devices]);
        let mut shared = vec![0u64; devices];
        let mut arrived: BTreeMap<(u32, DeviceIndex), u64> = BTreeMap::new();
        let mut makespan = 0;
        let mut send =
            |crossing: &Crossing, ready: u64, makespan: &mut u64| -> Result<(u32, DeviceIndex, u64), Error> {
                let link = crossing.from_device.index() * devices + crossing.to_device.index();
                let time = crossing.time.picoseconds();
                links[link] = sum(ready.max(links[link]), time)?;
                used[link] = sum(used[link], time)?;
                // every tensor that crosses is read, or must be home before the run ends
                *makespan = links[link].max(*makespan);
                Ok((crossing.tensor, crossing.to_device, links[link]))
            };
        for crossing in crossings
            .iter()
            .filter(moved)
            .filter(|crossing| crossing.from_part.is_none())
        {
            let (tensor, device, end) = send(crossing, 0, &mut makespan)?;
            arrived.insert((tensor, device), end);
        }
        let mut starts = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let device = part.device.index();
            let arrivals = awaited[index]
                .iter()
                .filter_map(|crossing| arrived.get(&(crossing.tensor, crossing.to_device)));
            let start = arrivals.copied().max().unwrap_or(0).max(free[resources[device]]);
            let work = sum(part.launch.picoseconds(), part.cost.time.picoseconds())?;
            let end = sum(start, work)?;
            starts.push(Time::from_picoseconds(start));
            let resource = resources[device];
            free[resource] = end;
            busy[device] = sum(busy[device], work)?;
            shared[resource] = sum(shared[resource], work)?;
            makespan = makespan.max(end);
            for crossing in &leaving[index] {
                let (tensor, device, end) = send(crossing, end, &mut makespan)?;
                arrived.insert((tensor, device), end);
            }
        }
        let period = shared.iter().chain(&used).copied().max().unwrap_or(0);
        let alone = resources
            .iter()
            .enumerate()
            .all(|(device, &first)| device == first);
        let resources = if alone { &[] } else { resources };
        Ok(Self {
            starts,
            resources: resources.iter().copied().map(DeviceIndex::new).collect(),
            makespan: Time::from_picoseconds(makespan),
            busy: busy.into_iter().map(Time::from_picoseconds).collect(),
            period: Time::from_picoseconds(period),
        })
    }
}
