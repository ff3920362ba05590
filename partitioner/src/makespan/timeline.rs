//! Evaluates an order of nodes, each on a device: the start of everything, which the search
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

/// Words of one place: devices, links, the latest end.
fn width(devices: usize) -> usize {
    end_word(devices) + 1
}

/// Where the latest end stands among the words of a place.
fn end_word(devices: usize) -> usize {
    devices + devices * devices
}

/// The times of one draft, and those of a changed one beside them.
///
/// What a change does to the makespan is seen without going to the end of the run: behind the places that it touches,
/// each device, link and tensor still needs the same time to the end, from whenever it is free or there.
pub(super) struct Timeline<'m> {
    machine: &'m Machine,
    /// Time from the end of a node on a device to the end of the run, at least.
    tail: Vec<u64>,
    /// Place of each node in the order.
    pub(super) place: Vec<u32>,
    /// Per place, where its part starts.
    part: Vec<u32>,
    /// Per place where a part starts: when each device and each link is free, and the latest end before.
    free: Vec<u64>,
    /// Per place where a part starts: when it starts.
    start: Vec<u64>,
    /// Per tensor and device.
    arrival: Vec<u64>,
    /// Per place where a part starts: the time to the end of the run from when each device and each link is free.
    rest: Vec<u64>,
    /// Per place where a part starts: the time from its start to the end of the run.
    lead: Vec<u64>,
    /// Times before this place are those of the draft that was kept.
    fresh: usize,
    /// Times to the end from this place on are those of the draft that was kept.
    sound: usize,
    new_free: Vec<u64>,
    new_start: Vec<u64>,
    new_arrival: Vec<u64>,
    new_part: Vec<u32>,
    arrived: Vec<u32>,
    /// The places that were valued last.
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

    /// The makespan of a draft, which becomes the one that changes start from; none where it uses what is forbidden.
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

    /// Where the part of a place starts, in the draft that was kept.
    pub(super) fn part_start(&self, place: usize) -> usize {
        self.part[place] as usize
    }

    /// Where the part of a place ends, in the draft that was kept.
    pub(super) fn part_end(&self, place: usize) -> usize {
        let start = self.part[place];
        let rest = self.part[place..].iter().position(|&other| other != start);
        rest.map_or(self.part.len(), |more| place + more)
    }

    /// Whether the end of the run waits for the part of a place, as far as is known.
    pub(super) fn is_critical(&self, place: usize, end: u64) -> bool {
        let part = self.part_start(place);
        add(self.start[part], self.lead[part]) >= end
    }

    /// The longest way to the end over what a change touched, for a draft that equals the kept one before a place and
    /// from another place on, where parts start, and whose places are up to date; none above a limit or where it uses
    /// what is forbidden. The makespan is this, or that of the kept draft where that is longer and does not wait for
    /// what was touched.
    pub(super) fn value(&mut self, draft: &Draft, from: usize, to: usize, limit: u64) -> Option<u64> {
        self.advance(draft, from);
        self.retreat(draft, to);
        let possible = self.forward(draft, from, to, limit);
        let value = if possible { self.joined(draft) } else { FORBIDDEN };
        (value <= limit).then_some(value)
    }

    /// Computes the kept draft's times up to a place where a part starts.
    fn advance(&mut self, draft: &Draft, to: usize) {
        if self.fresh < to {
            self.forward(draft, self.fresh, to, FORBIDDEN - 1);
            self.settle();
        }
    }

    /// Computes the kept draft's times to the end from a place on where a part starts.
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

    /// The longest way to the end over what lies before the last valued place.
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

    /// Computes the times of a draft from a place on where a part starts, up to another or the first later place
    /// where both it and the kept draft start a part; whether all is possible, and ends early enough for a limit.
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

    /// Sends a tensor from where it is to all devices that need it.
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

    /// Keeps the draft that was valued last.
    pub(super) fn keep(&mut self) {
        self.settle();
        self.sound = self.sound.max(self.to);
    }

    /// Takes over the times that were computed last.
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
