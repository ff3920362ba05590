//! What a frame takes: the inferences of one plan on units of given speeds, with others beside them.
//!
//! Parts start when all that they read has arrived and their unit is free; the inferences of a frame follow one
//! another, or overlap where the plan was made for that.
//!
//! Invariants: at first levels and without others, a serial plan without side branches takes the time that the
//! planner says; the same state gives the same frame.

use polychip_partitioner::{Goal, Plan};

use crate::network::World;
use crate::table::MOST_UNITS;

/// How fast units are just now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Speed of each unit against its first level.
    pub speed: [f64; MOST_UNITS],
    /// Share of each unit that others use.
    pub others: [f64; MOST_UNITS],
    /// Share of memory that others use.
    pub memory: f64,
}

impl Pace {
    /// First levels, nobody else.
    #[must_use]
    pub fn full() -> Self {
        Self {
            speed: [1.0; MOST_UNITS],
            others: [0.0; MOST_UNITS],
            memory: 0.0,
        }
    }
}

/// What one frame takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Frame {
    /// From its start to its last output.
    pub latency_ns: f64,
    /// How long each unit is busy with it, as its fences see it.
    pub busy_ns: [f64; MOST_UNITS],
    /// How long each unit really works for it, without what others take in between.
    pub work_ns: [f64; MOST_UNITS],
    /// Bytes to and from memory.
    pub bytes: f64,
    /// Energy of links.
    pub link_nj: f64,
}

/// A plan's parts with the work of each.
#[derive(Debug, Clone)]
pub struct Demand {
    parts: Vec<Part>,
    inferences: usize,
    overlaps: bool,
    bytes: f64,
    link_nj: f64,
}

#[derive(Debug, Clone)]
struct Part {
    unit: usize,
    launch_ns: f64,
    compute_ns: f64,
    memory_ns: f64,
    /// Parts that it waits for, and the time of what crosses.
    after: Vec<(usize, f64)>,
}

impl Demand {
    /// The demand of so many inferences a frame by a plan.
    #[must_use]
    pub fn new(world: &World, plan: &Plan, inferences: usize) -> Self {
        let mut bytes = 0.0;
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let unit = part.device.index();
            let mut made = Part {
                unit,
                launch_ns: part.launch.picoseconds() as f64 / 1e3,
                compute_ns: 0.0,
                memory_ns: 0.0,
                after: part.after.iter().map(|&before| (before.index(), 0.0)).collect(),
            };
            for &node in &part.nodes {
                let times = world.times[node as usize][unit];
                made.compute_ns += times.compute_ns;
                made.memory_ns += times.memory_ns;
                bytes += times.bytes;
            }
            // what arrives at a unit is there for all of its parts, the first one waits for it
            for crossing in &plan.crossings {
                let first = crossing
                    .to_parts
                    .first()
                    .is_some_and(|&part| part.index() == index);
                if let Some(from) = crossing.from_part.filter(|_| first)
                    && let Some(after) = made.after.iter_mut().find(|(before, _)| *before == from.index())
                {
                    after.1 += crossing.time.picoseconds() as f64 / 1e3;
                }
            }
            made
        });
        let parts: Vec<Part> = parts.collect();
        let link_nj = plan
            .crossings
            .iter()
            .map(|crossing| crossing.energy.nanojoules() as f64);
        let link_nj: f64 = link_nj.sum();
        let times = inferences as f64;
        Self {
            parts,
            inferences,
            overlaps: plan.objective.goal == Goal::Throughput,
            bytes: bytes * times,
            link_nj: link_nj * times,
        }
    }

    /// One frame at a pace.
    #[must_use]
    pub fn frame(&self, pace: &Pace) -> Frame {
        let mut frame = Frame {
            bytes: self.bytes,
            link_nj: self.link_nj,
            ..Frame::default()
        };
        let count = self.parts.len();
        let times: Vec<(f64, f64)> = self.parts.iter().map(|part| part.time(pace)).collect();
        let mut free = [0.0f64; MOST_UNITS];
        let mut memory_free = 0.0f64;
        let window = if self.overlaps { self.inferences } else { 1 };
        let mut ends: Vec<Vec<Option<f64>>> = vec![vec![None; count]; self.inferences];
        let mut next = vec![0usize; self.inferences];
        let (mut from, mut left) = (0, self.inferences * count);
        while left > 0 {
            // of the inferences in flight, the part that can start first; each keeps its plan's order
            let mut best: Option<(f64, usize)> = None;
            for run in from..(from + window).min(self.inferences) {
                let Some(part) = self.parts.get(next[run]) else {
                    continue;
                };
                let arrived = part
                    .after
                    .iter()
                    .map(|&(before, link)| ends[run][before].unwrap_or(0.0) + link);
                let start = arrived.fold(free[part.unit], f64::max);
                if best.is_none_or(|(earliest, _)| start < earliest) {
                    best = Some((start, run));
                }
            }
            let Some((start, run)) = best else { break };
            let index = next[run];
            let part = &self.parts[index];
            let (time, work) = times[index];
            let mut end = start + time;
            if self.overlaps {
                // all units share one memory: it is needed for so long by each
                memory_free = memory_free.max(start) + part.memory_ns / (1.0 - pace.memory);
                end = end.max(memory_free);
            }
            frame.busy_ns[part.unit] += end - start;
            frame.work_ns[part.unit] += work;
            free[part.unit] = end;
            ends[run][index] = Some(end);
            frame.latency_ns = frame.latency_ns.max(end);
            next[run] += 1;
            left -= 1;
            if !self.overlaps && next[run] == count {
                // the next one starts when this one has ended
                free = [frame.latency_ns; MOST_UNITS];
            }
            while from < self.inferences && next[from] == count {
                from += 1;
            }
        }
        frame
    }
}

impl Part {
    /// How long its unit is taken, and how long it works.
    fn time(&self, pace: &Pace) -> (f64, f64) {
        let work =
            self.launch_ns + self.compute_ns / pace.speed[self.unit] + self.memory_ns / (1.0 - pace.memory);
        (work / (1.0 - pace.others[self.unit]), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::table::Table;
    use polychip_partitioner::partition;

    #[test]
    fn an_undisturbed_frame_is_what_the_planner_says() {
        let world = Network::named("mobilenet_v2").unwrap().on(&Table::phone());
        let plan = partition(world.request()).unwrap();
        let frame = Demand::new(&world, &plan, 3).frame(&Pace::full());
        let planned = 3.0 * plan.totals.time.picoseconds() as f64 / 1e3;
        assert!(
            (frame.latency_ns / planned - 1.0).abs() < 0.01,
            "{frame:?} {planned}"
        );
        let mut half = Pace::full();
        half.speed = [0.5; MOST_UNITS];
        let slow = Demand::new(&world, &plan, 3).frame(&half);
        assert!(slow.latency_ns > 1.5 * frame.latency_ns && slow.latency_ns < 2.0 * frame.latency_ns);
    }
}
