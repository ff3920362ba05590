//! Evaluates an order of nodes, each on a device: the start of every part, which the search
//! recomputes repeatedly.
//!
//! Invariants: parts are maximal runs of one device in the order, cut also at head nodes; a value
//! is the same whether it is computed from the start or from a part on, because earlier times
//! cannot have changed. Deliberately not here: which order and devices (`seeds`, `search`).

use super::machine::{Machine, Tensor};
use crate::problem::{FORBIDDEN, add};

/// Nodes in an order in which writers precede readers, and where each runs.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) order: Vec<u32>,
    /// By node.
    pub(super) device: Vec<u8>,
    /// By node: whether it always starts a part.
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

    /// Whether a part starts at a position of the order.
    pub(super) fn starts(&self, at: usize) -> bool {
        let node = self.order[at] as usize;
        at == 0 || self.head[node] || self.device[node] != self.device[self.order[at - 1] as usize]
    }
}

/// Words per position: devices, links, the latest end.
fn width(devices: usize) -> usize {
    end_word(devices) + 1
}

/// Index of the latest end among the words of a position.
fn end_word(devices: usize) -> usize {
    devices + devices * devices
}

/// The times of one draft, and of a changed one.
///
/// The makespan of a change is computed without evaluating what follows it: from the moment when a
/// device or link is free, or a tensor is ready, the unchanged rest takes as long as before.
pub(super) struct Timeline<'m> {
    machine: &'m Machine,
    /// Time from the end of a node on a device to the end of the run, at least.
    tail: Vec<u64>,
    /// Position of each node in the order.
    pub(super) place: Vec<u32>,
    /// Per position, the start of its part.
    part: Vec<u32>,
    /// Per start of a part: when each device and each link is free, and the latest end before.
    free: Vec<u64>,
    /// Per start of a part: its start time.
    start: Vec<u64>,
    /// Per tensor and device.
    arrival: Vec<u64>,
    /// Per start of a part: the time to the end of the run from when each device and each link is
    /// free.
    rest: Vec<u64>,
    /// Per start of a part: the time from its start to the end of the run.
    lead: Vec<u64>,
    /// Times before this position are those of the kept draft.
    fresh: usize,
    /// Times to the end from this position on are those of the kept draft.
    sound: usize,
    new_free: Vec<u64>,
    new_start: Vec<u64>,
    new_arrival: Vec<u64>,
    new_part: Vec<u32>,
    arrived: Vec<u32>,
    /// The positions evaluated last.
    from: usize,
    to: usize,
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
            start: vec![0; nodes],
            arrival: vec![0; tensors],
            rest: vec![0; (nodes + 1) * width],
            lead: vec![0; nodes],
            fresh: 0,
            sound: nodes,
            new_free: vec![0; (nodes + 1) * width],
            new_start: vec![0; nodes],
            new_arrival: vec![0; tensors],
            new_part: vec![0; nodes],
            arrived: Vec::new(),
            from: 0,
            to: 0,
            visited: 0,
        }
    }

    /// The makespan of a draft, which becomes the kept one; `None` if it uses forbidden devices or
    /// links.
    pub(super) fn set(&mut self, draft: &Draft) -> Option<u64> {
        for (at, &node) in draft.order.iter().enumerate() {
            self.place[node as usize] = at as u32;
        }
        self.sound = draft.order.len();
        let possible = self.forward(draft, 0, self.sound, FORBIDDEN - 1);
        self.settle();
        possible.then(|| self.end(draft))
    }

    /// The makespan of the kept draft.
    pub(super) fn end(&mut self, draft: &Draft) -> u64 {
        let nodes = draft.order.len();
        self.advance(draft, nodes);
        let devices = self.machine.devices;
        self.free[nodes * width(devices) + end_word(devices)]
    }

    /// The start of a position's part, in the kept draft.
    pub(super) fn part_start(&self, place: usize) -> usize {
        self.part[place] as usize
    }

    /// The end of a position's part, in the kept draft.
    pub(super) fn part_end(&self, place: usize) -> usize {
        let start = self.part[place];
        let rest = self.part[place..].iter().position(|&other| other != start);
        rest.map_or(self.part.len(), |more| place + more)
    }

    /// Whether a position's part is on the critical path, as far as known.
    pub(super) fn is_critical(&self, place: usize, end: u64) -> bool {
        let part = self.part_start(place);
        add(self.start[part], self.lead[part]) >= end
    }

    /// The longest path to the end through changed positions, for a draft that equals the kept one
    /// before a start of a part and from another one on, and whose positions are up to date. `None`
    /// above a limit, or if it uses forbidden devices or links. The makespan is this path, or the
    /// kept draft's if that is longer and does not depend on the changed positions.
    pub(super) fn value(&mut self, draft: &Draft, from: usize, to: usize, limit: u64) -> Option<u64> {
        self.advance(draft, from);
        self.retreat(draft, to);
        let possible = self.forward(draft, from, to, limit);
        let value = if possible { self.joined(draft) } else { FORBIDDEN };
        (value <= limit).then_some(value)
    }

    /// Computes the kept draft's times up to a start of a part.
    fn advance(&mut self, draft: &Draft, to: usize) {
        if self.fresh < to {
            self.forward(draft, self.fresh, to, FORBIDDEN - 1);
            self.settle();
        }
    }

    /// Computes the kept draft's times to the end from a start of a part on.
    fn retreat(&mut self, draft: &Draft, to: usize) {
        let machine = self.machine;
        let devices = machine.devices;
        let width = width(devices);
        if self.sound == draft.order.len() {
            self.rest[self.sound * width..].fill(0);
        }
        while self.sound > to {
            let end = self.sound;
            let start = self.part_start(end - 1);
            let device = usize::from(draft.device[draft.order[start] as usize]);
            self.visited += (end - start) as u64;
            let (before, after) = self.rest.split_at_mut(end * width);
            let now = &mut before[start * width..(start + 1) * width];
            now.copy_from_slice(&after[..width]);
            let own = machine.resource[device];
            let mut rest = now[own];
            let mut work = machine.launch[device];
            for &node in draft.order[start..end].iter().rev() {
                work = add(work, machine.cost(node as usize, device));
                for &index in machine.writes[node as usize].iter().rev() {
                    let tensor = &machine.tensors[index];
                    let mut to = receivers(draft, tensor) & !(1 << device);
                    while to != 0 {
                        let receiver = to.trailing_zeros() as usize;
                        to &= to - 1;
                        let there = tensor
                            .readers
                            .iter()
                            .filter(|&&reader| usize::from(draft.device[reader]) == receiver)
                            .map(|&reader| self.lead[self.part[self.place[reader] as usize] as usize]);
                        let link = devices + device * devices + receiver;
                        let behind = there.max().unwrap_or(0).max(now[link]);
                        now[link] = add(behind, tensor.transfer[device * devices + receiver]);
                        rest = rest.max(now[link]);
                    }
                }
            }
            now[own] = add(work, rest);
            self.lead[start] = now[own];
            self.sound = start;
        }
    }

    /// The longest path to the end through positions before the last evaluated one.
    fn joined(&mut self, draft: &Draft) -> u64 {
        let devices = self.machine.devices;
        let width = width(devices);
        let row = self.to * width..self.to * width + end_word(devices);
        let mut value = self.new_free[row.end];
        for (&free, &rest) in self.new_free[row.clone()].iter().zip(&self.rest[row]) {
            value = value.max(add(free, rest));
        }
        for &slot in &self.arrived {
            let (tensor, device) = (slot as usize / devices, slot as usize % devices);
            for &reader in &self.machine.tensors[tensor].readers {
                let place = self.place[reader] as usize;
                if place >= self.to && usize::from(draft.device[reader]) == device {
                    let lead = self.lead[self.part[place] as usize];
                    value = value.max(add(self.new_arrival[slot as usize], lead));
                }
            }
        }
        value
    }

    /// Computes the times of a draft from a start of a part on, up to another position or the first
    /// later one where both it and the kept draft start a part. Whether the draft is allowed and
    /// ends within a limit.
    fn forward(&mut self, draft: &Draft, from: usize, to: usize, limit: u64) -> bool {
        let machine = self.machine;
        let devices = machine.devices;
        let width = width(devices);
        self.from = from;
        self.arrived.clear();
        let mut now = std::mem::take(&mut self.new_free);
        if from == 0 {
            now[..width].fill(0);
            let inputs = machine
                .tensors
                .iter()
                .enumerate()
                .filter(|(_, tensor)| tensor.writer.is_none());
            for (index, tensor) in inputs {
                self.send(draft, &mut now[..width], index, tensor.from, 0);
            }
        } else {
            now[from * width..(from + 1) * width]
                .copy_from_slice(&self.free[from * width..(from + 1) * width]);
        }
        let mut at = from;
        let mut possible = true;
        let nodes = draft.order.len();
        while possible && at < nodes && (at < to || self.part[at] as usize != at) {
            let device = usize::from(draft.device[draft.order[at] as usize]);
            let own = machine.resource[device];
            let mut ready = now[at * width + own];
            let mut work = machine.launch[device];
            let mut end = at;
            while end < nodes && (end == at || !draft.starts(end)) {
                let node = draft.order[end] as usize;
                self.new_part[end] = at as u32;
                work = add(work, machine.cost(node, device));
                for read in &machine.reads[node] {
                    if usize::from(draft.device[read.writer]) != device {
                        let slot = read.tensor * devices + device;
                        let new = self.place[read.writer] as usize >= from;
                        ready = ready.max(if new {
                            self.new_arrival[slot]
                        } else {
                            self.arrival[slot]
                        });
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
            self.new_start[at] = ready;
            let done = add(ready, work);
            let (before, after) = now.split_at_mut(end * width);
            let after = &mut after[..width];
            after.copy_from_slice(&before[at * width..(at + 1) * width]);
            after[own] = done;
            let end_of_all = end_word(devices);
            after[end_of_all] = after[end_of_all].max(done);
            for place in at..end {
                let node = draft.order[place] as usize;
                for &tensor in &machine.writes[node] {
                    self.send(draft, after, tensor, device, done);
                }
            }
            let last = draft.order[end - 1] as usize;
            possible = after[end_of_all] <= limit && add(done, self.tail[last * devices + device]) <= limit;
            at = end;
        }
        self.to = at;
        self.new_free = now;
        possible
    }

    /// Sends a tensor to all devices that need it.
    fn send(&mut self, draft: &Draft, free: &mut [u64], index: usize, from: usize, ready: u64) {
        let devices = self.machine.devices;
        let tensor = &self.machine.tensors[index];
        let mut rest = receivers(draft, tensor) & !(1 << from);
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
                free[end_of_all] = free[end_of_all].max(end);
            }
        }
    }

    /// Keeps the draft that was evaluated last.
    pub(super) fn keep(&mut self) {
        self.settle();
        self.sound = self.sound.max(self.to);
    }

    /// Adopts the times that were computed last.
    fn settle(&mut self) {
        let width = width(self.machine.devices);
        for &slot in &self.arrived {
            self.arrival[slot as usize] = self.new_arrival[slot as usize];
        }
        let (from, to) = (self.from, self.to);
        self.part[from..to].copy_from_slice(&self.new_part[from..to]);
        for at in (from..to).filter(|&at| self.part[at] as usize == at) {
            self.start[at] = self.new_start[at];
            self.free[at * width..(at + 1) * width]
                .copy_from_slice(&self.new_free[at * width..(at + 1) * width]);
        }
        self.free[to * width..(to + 1) * width].copy_from_slice(&self.new_free[to * width..(to + 1) * width]);
        self.fresh = to;
    }
}

/// The set of devices that read a tensor or are its home.
fn receivers(draft: &Draft, tensor: &Tensor) -> u32 {
    let home = tensor.home.map_or(0u32, |home| 1 << home);
    tensor
        .readers
        .iter()
        .fold(home, |set, &reader| set | 1 << draft.device[reader])
}
