//! The schedule of a plan for concurrent devices, recomputed from parts and crossings.
//!
//! Invariants: events are recomputed one by one, under the model of `crate::schedule`, from
//! crossings that `figures` has compared with the links; times are in 128 bits, so that no wrong
//! figure passes by overflow.

use super::evidence::Evidence;
use super::violation::{Violation, ViolationKind};
use crate::index::{DeviceIndex, PartIndex};
use crate::objective::Goal;
use crate::plan::Plan;
use crate::unit::Time;
use std::collections::{BTreeMap, VecDeque};

fn wrong(words: String) -> Violation {
    Violation::new(ViolationKind::Schedule, words)
}

fn differs(what: &str, stated: Time, real: u128) -> Result<(), Violation> {
    if u128::from(stated.picoseconds()) == real {
        Ok(())
    } else {
        Err(wrong(format!(
            "{what} is stated as {} ps, it is {real} ps",
            stated.picoseconds()
        )))
    }
}

/// The first of the devices on the hardware of a device.
pub(super) fn hardware(e: &Evidence<'_>, device: usize) -> usize {
    let Some(number) = e.targets[device].resource else {
        return device;
    };
    let mut devices = 0..e.targets.len();
    devices
        .find(|&other| e.targets[other].resource == Some(number))
        .unwrap_or(device)
}

/// When a run ends; a stated schedule is what parts and crossings give.
pub(super) fn ends(e: &Evidence<'_>) -> Result<Time, Violation> {
    let plan = e.plan;
    let Some(schedule) = &plan.schedule else {
        return match plan.objective.goal {
            Goal::Serial => Ok(plan.totals.time),
            Goal::Makespan | Goal::Throughput => Err(wrong("the plan has no schedule".to_owned())),
        };
    };
    if plan.objective.goal == Goal::Serial {
        return Err(wrong(
            "a plan of one part after another has a schedule".to_owned(),
        ));
    }
    if (schedule.starts.len(), schedule.busy.len()) != (plan.parts.len(), e.targets.len()) {
        return Err(wrong(format!(
            "the schedule has {} starts and {} devices, the plan {} parts on {}",
            schedule.starts.len(),
            schedule.busy.len(),
            plan.parts.len(),
            e.targets.len()
        )));
    }
    // hardware by the first device on it
    let hardware: Vec<DeviceIndex> = (0..e.targets.len())
        .map(|device| DeviceIndex::new(hardware(e, device)))
        .collect();
    let stated = &schedule.resources;
    let alone = (0..e.targets.len()).all(|device| hardware[device].index() == device);
    if *stated != hardware && !(alone && stated.is_empty()) {
        return Err(wrong(format!(
            "devices are stated to share hardware as {stated:?}, they share it as {hardware:?}"
        )));
    }
    // queues: parts of each hardware, and what each link will carry once it has been written
    let mut queues: BTreeMap<DeviceIndex, VecDeque<usize>> = BTreeMap::new();
    for (index, part) in plan.parts.iter().enumerate() {
        let on = hardware[part.device.index()];
        queues.entry(on).or_default().push_back(index);
    }
    let mut idle: BTreeMap<DeviceIndex, u128> = BTreeMap::new();
    let mut link_idle: BTreeMap<(DeviceIndex, DeviceIndex), u128> = BTreeMap::new();
    let mut link_work: BTreeMap<(DeviceIndex, DeviceIndex), u128> = BTreeMap::new();
    let mut there: Vec<Option<u128>> = vec![None; plan.crossings.len()];
    let mut ended: Vec<Option<u128>> = vec![None; plan.parts.len()];
    let mut last = 0u128;
    // what one event sends, in the plan's order
    let mut send = |writer: Option<PartIndex>, at: u128, there: &mut Vec<Option<u128>>, last: &mut u128| {
        for (slot, crossing) in there.iter_mut().zip(&plan.crossings) {
            if crossing.from_part != writer {
                continue;
            }
            if crossing.from_device == crossing.to_device {
                *slot = Some(at);
                continue;
            }
            let link = (crossing.from_device, crossing.to_device);
            let time = u128::from(crossing.time.picoseconds());
            let begin = at.max(link_idle.get(&link).copied().unwrap_or(0));
            link_idle.insert(link, begin + time);
            *link_work.entry(link).or_default() += time;
            *slot = Some(begin + time);
            *last = (*last).max(begin + time);
        }
    };
    send(None, 0, &mut there, &mut last);
    while ended.iter().any(Option::is_none) {
        // any device whose next part has all that it reads
        let ready = |part: usize| {
            let mut arrival = 0;
            for (crossing, there) in plan.crossings.iter().zip(&there) {
                if crossing.to_parts.contains(&PartIndex::new(part)) {
                    arrival = (*there)?.max(arrival);
                }
            }
            Some(arrival)
        };
        let next = queues
            .iter()
            .filter_map(|(&device, queue)| Some((device, *queue.front()?)))
            .find_map(|(device, part)| Some((device, part, ready(part)?)));
        let Some((device, part, arrival)) = next else {
            return Err(wrong("parts wait for each other for ever".to_owned()));
        };
        queues.entry(device).or_default().pop_front();
        let found = &plan.parts[part];
        let start = arrival.max(idle.get(&device).copied().unwrap_or(0));
        differs(&format!("the start of part {part}"), schedule.starts[part], start)?;
        let end = start + u128::from(found.launch.picoseconds()) + u128::from(found.cost.time.picoseconds());
        idle.insert(device, end);
        ended[part] = Some(end);
        last = last.max(end);
        send(Some(PartIndex::new(part)), end, &mut there, &mut last);
    }
    differs("the makespan", schedule.makespan, last)?;
    let mut longest = link_work.values().copied().max().unwrap_or(0);
    let mut work_of: BTreeMap<DeviceIndex, u128> = BTreeMap::new();
    for (device, &stated) in schedule.busy.iter().enumerate() {
        let own = plan.parts.iter().filter(|part| part.device.index() == device);
        let work: u128 = own
            .map(|part| u128::from(part.launch.picoseconds()) + u128::from(part.cost.time.picoseconds()))
            .sum();
        differs(&format!("the work of {}", e.targets[device].name), stated, work)?;
        let shared = work_of.entry(hardware[device]).or_default();
        *shared += work;
        longest = longest.max(*shared);
    }
    differs("the period", schedule.period, longest)?;
    Ok(schedule.makespan)
}

/// The certificate's objective is the schedule's, and its bound is not above it.
pub(super) fn certificate(e: &Evidence<'_>) -> Result<(), Violation> {
    let Some(schedule) = &e.plan.schedule else {
        return Err(wrong("the plan has no schedule".to_owned()));
    };
    let (what, real) = match e.plan.objective.goal {
        Goal::Throughput => ("period", period(e)?),
        Goal::Serial | Goal::Makespan => ("makespan", schedule.makespan),
    };
    let stated = e.plan.certificate;
    let bad = |words: String| Err(Violation::new(ViolationKind::Certificate, words));
    if stated.objective != real.picoseconds() {
        return bad(format!(
            "certificate is about objective {}, the {what} is {} ps",
            stated.objective,
            real.picoseconds()
        ));
    }
    if stated.bound > stated.objective {
        return bad(format!(
            "certificate has bound {} above its objective {}",
            stated.bound, stated.objective
        ));
    }
    Ok(())
}

/// The time between runs of all copies together: their rates, rounded up, are added.
fn period(e: &Evidence<'_>) -> Result<Time, Violation> {
    let stated = |plan: &Plan| match &plan.schedule {
        Some(schedule) => Ok(u128::from(schedule.period.picoseconds())),
        None => Err(wrong("a copy has no schedule".to_owned())),
    };
    let first = stated(e.plan)?;
    let mut periods = vec![first];
    for copy in &e.plan.replicas {
        periods.push(stated(copy)?);
    }
    let period = match (periods.len(), periods.contains(&0)) {
        (1, _) => first,
        (_, true) => 0,
        _ => {
            let per_picosecond: u128 = periods
                .iter()
                .map(|period| ((1u128 << 100) - 1) / period + 1)
                .sum();
            let (whole, rest) = ((1u128 << 100) / per_picosecond, (1u128 << 100) % per_picosecond);
            whole + u128::from(rest != 0)
        }
    };
    u64::try_from(period)
        .map(Time::from_picoseconds)
        .map_err(|_| wrong("the rates of copies do not add up".to_owned()))
}
