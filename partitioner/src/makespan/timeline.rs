//! When everything happens, for nodes in an order, each on a device: the evaluation that the search repeats.
//!
//! Invariants: parts are maximal runs of one device in the order, cut also where a node is a head; a value is the
//! same whether it is computed from the start or from a part on, because what lies before cannot have changed.
//! Deliberately not here: which order and devices (`seeds`, `search`).

use super::machine::Machine;
use crate::problem::{FORBIDDEN, add};

/// Nodes in an order in which writers precede readers, and where each runs.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) order: Vec<u32>,
    /// By node.
    pub(super) device: Vec<u8>,
    /// By node: it starts a part whatever stands before it.
    pub(super) head: Vec<bool>,
}

impl Draft {
    /// Parts in order: their nodes, ascending.
    pub(super) fn parts(&self) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for (at, &node) in self.order.iter().enumerate() {
            match parts.last_mut() {
                Some(part) if !self.starts(at) => part.push(node as usize),
                _ => parts.push(vec![node as usize]),
            }
        }
        parts.iter_mut().for_each(|part| part.sort_unstable());
        parts
    }

    pub(super) fn placement(&self) -> Vec<usize> {
        self.device.iter().map(|&device| usize::from(device)).collect()
    }

    /// Whether a part starts at a place of the order.
    pub(super) fn starts(&self, at: usize) -> bool {
        let node = self.order[at] as usize;
        at == 0 || self.head[node] || self.device[node] != self.device[self.order[at - 1] as usize]
    }
}

/// No part.
const NONE: u32 = u32::MAX;

/// Words of one place: devices, links, the latest end and its part, the last part of each device.
fn width(devices: usize) -> usize {
    end_word(devices) + 2 + devices
}

/// Where the latest end stands among the words of a place.
fn end_word(devices: usize) -> usize {
    devices + devices * devices
}

/// The times of one draft, and those of a changed one beside them.
pub(super) struct Timeline<'m> {
    machine: &'m Machine,
    /// Time from the end of a node on a device to the end of the run, at least.
    tail: Vec<u64>,
    /// Place of each node in the order.
    pub(super) place: Vec<u32>,
    /// Per place, where its part starts.
    part: Vec<u32>,
    /// Per place where a part starts: when each device and each link is free, the latest end before, and where the
    /// part of that end and the last part of each device start.
    free: Vec<u64>,
    /// Per place where a part starts: the part that it waited for.
    cause: Vec<u32>,
    new_cause: Vec<u32>,
    /// Per tensor and device.
    arrival: Vec<u64>,
    new_free: Vec<u64>,
    new_arrival: Vec<u64>,
    new_part: Vec<u32>,
    arrived: Vec<u32>,
    from: usize,
    /// Nodes visited so far.
    pub(super) visited: u64,
}

impl<'m> Timeline<'m> {
    pub(super) fn new(machine: &'m Machine, tail: Vec<u64>) -> Self {
        let (nodes, devices) = (machine.nodes, machine.devices);
        let width = width(devices);
        let tensors = machine.tensors.len() * devices;
        Self {
            machine,
            tail,
            place: vec![0; nodes],
            part: vec![0; nodes],
            free: vec![0; (nodes + 1) * width],
            arrival: vec![0; tensors],
            new_free: vec![0; (nodes + 1) * width],
            new_arrival: vec![0; tensors],
            new_part: vec![0; nodes],
            cause: vec![NONE; nodes],
            new_cause: vec![NONE; nodes],
            arrived: Vec::new(),
            from: 0,
            visited: 0,
        }
    }

    /// The makespan of a draft, which becomes the one that changes start from; none where it uses what is forbidden.
    pub(super) fn set(&mut self, draft: &Draft) -> Option<u64> {
        for (at, &node) in draft.order.iter().enumerate() {
            self.place[node as usize] = at as u32;
        }
        let value = self.value(draft, 0, FORBIDDEN - 1)?;
        self.keep(draft);
        Some(value)
    }

    /// Where the part of a place starts, in the draft that was kept.
    pub(super) fn part_start(&self, place: usize) -> usize {
        self.part[place] as usize
    }

    /// The makespan of a draft that equals the kept one before a place where a part starts, and whose places are up
    /// to date; none above a limit or where it uses what is forbidden.
    pub(super) fn value(&mut self, draft: &Draft, from: usize, limit: u64) -> Option<u64> {
        let machine = self.machine;
        let devices = machine.devices;
        let width = width(devices);
        self.from = from;
        self.arrived.clear();
        let mut now = std::mem::take(&mut self.new_free);
        if from == 0 {
            now[..width].fill(0);
            now[end_word(devices) + 1..width].fill(u64::from(NONE));
            let inputs = machine
                .tensors
                .iter()
                .enumerate()
                .filter(|(_, tensor)| tensor.writer.is_none());
            for (index, tensor) in inputs {
                self.send(draft, &mut now[..width], index, tensor.from, (u64::from(NONE), 0));
            }
        } else {
            now[from * width..(from + 1) * width]
                .copy_from_slice(&self.free[from * width..(from + 1) * width]);
        }
        let mut at = from;
        let mut possible = true;
        while at < draft.order.len() && possible {
            let device = usize::from(draft.device[draft.order[at] as usize]);
            let last_of = width - devices + device;
            let mut ready = now[at * width + device];
            let mut cause = now[at * width + last_of] as u32;
            let mut work = machine.launch[device];
            let mut end = at;
            while end < draft.order.len() && (end == at || !draft.starts(end)) {
                let node = draft.order[end] as usize;
                self.new_part[end] = at as u32;
                work = add(work, machine.cost(node, device));
                for read in &machine.reads[node] {
                    if usize::from(draft.device[read.writer]) != device {
                        let slot = read.tensor * devices + device;
                        let place = self.place[read.writer] as usize;
                        let new = place >= from;
                        let arrival = if new {
                            self.new_arrival[slot]
                        } else {
                            self.arrival[slot]
                        };
                        if arrival > ready {
                            ready = arrival;
                            cause = if new {
                                self.new_part[place]
                            } else {
                                self.part[place]
                            };
                        }
                    }
                }
                for &tensor in &machine.fed[node] {
                    let slot = tensor * devices + device;
                    if machine.tensors[tensor].from != device {
                        ready = ready.max(if from == 0 {
                            self.new_arrival[slot]
                        } else {
                            self.arrival[slot]
                        });
                    }
                }
                end += 1;
            }
            self.visited += (end - at) as u64;
            let done = add(ready, work);
            let (before, after) = now.split_at_mut(end * width);
            let after = &mut after[..width];
            after.copy_from_slice(&before[at * width..(at + 1) * width]);
            after[device] = done;
            after[last_of] = at as u64;
            self.new_cause[at] = cause;
            let end_of_all = end_word(devices);
            if done > after[end_of_all] {
                after[end_of_all] = done;
                after[end_of_all + 1] = at as u64;
            }
            for place in at..end {
                let node = draft.order[place] as usize;
                for &tensor in &machine.writes[node] {
                    self.send(draft, after, tensor, device, (at as u64, done));
                }
            }
            let last = draft.order[end - 1] as usize;
            possible =
                after[end_word(devices)] <= limit && add(done, self.tail[last * devices + device]) <= limit;
            at = end;
        }
        let value = now[at * width + end_word(devices)];
        self.new_free = now;
        possible.then_some(value)
    }

    /// Sends a tensor from where it is to all devices that need it.
    fn send(
        &mut self,
        draft: &Draft,
        free: &mut [u64],
        index: usize,
        from: usize,
        (sender, ready): (u64, u64),
    ) {
        let devices = self.machine.devices;
        let tensor = &self.machine.tensors[index];
        let home = tensor.home.map_or(0u32, |home| 1 << home);
        let readers = tensor
            .readers
            .iter()
            .fold(home, |set, &reader| set | 1 << draft.device[reader]);
        let mut rest = readers & !(1 << from);
        while rest != 0 {
            let to = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let link = devices + from * devices + to;
            let end = add(ready.max(free[link]), tensor.transfer[from * devices + to]);
            free[link] = end;
            self.new_arrival[index * devices + to] = end;
            self.arrived.push((index * devices + to) as u32);
            if tensor.home == Some(to) {
                let end_of_all = end_word(devices);
                if end > free[end_of_all] {
                    free[end_of_all] = end;
                    free[end_of_all + 1] = sender;
                }
            }
        }
    }

    /// Keeps the draft that was valued last.
    pub(super) fn keep(&mut self, draft: &Draft) {
        let devices = self.machine.devices;
        let width = width(devices);
        for &slot in &self.arrived {
            self.arrival[slot as usize] = self.new_arrival[slot as usize];
        }
        let nodes = draft.order.len();
        self.part[self.from..].copy_from_slice(&self.new_part[self.from..]);
        let end = nodes * width;
        self.free[end..].copy_from_slice(&self.new_free[end..]);
        let mut at = self.from;
        while at < nodes {
            if self.new_part[at] as usize == at {
                self.cause[at] = self.new_cause[at];
                self.free[at * width..(at + 1) * width]
                    .copy_from_slice(&self.new_free[at * width..(at + 1) * width]);
            }
            at += 1;
        }
    }

    /// Where the parts start that the end of the kept draft waits for, one for the other.
    pub(super) fn critical(&self, out: &mut Vec<u32>) {
        out.clear();
        let devices = self.machine.devices;
        let mut next = self.free[self.place.len() * width(devices) + end_word(devices) + 1] as u32;
        while next != NONE && out.len() < self.place.len() {
            out.push(next);
            next = self.cause[next as usize];
        }
    }
}
