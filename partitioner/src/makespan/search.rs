//! Better schedules by small changes: record-to-record travel (Dueck, 1993) over devices, orders and parts.
//!
//! Invariants: the changes follow from a seed, and their number from counts, never from time, so
//! the result is the same on every host; the result is the best draft seen, never worse than any
//! seed.
//! Deliberately not here: initial drafts (`seeds`).

use super::machine::Machine;
use super::timeline::{Draft, Timeline};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Limits of the search.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) moves: u32,
    /// Maximum computed node times.
    pub(super) visits: u64,
    pub(super) seed: u64,
}

/// Initial acceptance threshold above the best draft, in thousandths; falls to zero.
const SLACK_PERMILLE: u64 = 4;

/// Number of tried seeds, each with one of `SHARES` shares of the effort.
const SEEDS: usize = 8;
const SHARES: u32 = 20;

/// Number of positions after the focus that may change.
const REACH: usize = 64;

/// Number of changes before the focus moves.
const STAY: usize = 64;

/// Number of positions examined for one on the critical path.
const TRIES: usize = 4;

/// Exponent limit of the number of neighbours that change device together, a power of two.
const LENGTHS: usize = 5;

/// Maximum nodes of a branch that is moved as a whole.
const BRANCH: usize = 64;

/// Data to undo a change.
enum Undo {
    Device(u32, u8),
    Head(u32, bool),
    /// The order from a position on.
    Order(usize, Vec<u32>),
}

struct Walk<'m> {
    machine: &'m Machine,
    draft: Draft,
    times: Timeline<'m>,
    random: ChaCha8Rng,
    undo: Vec<Undo>,
    /// The first position whose part may change, and the position after the last.
    from: usize,
    to: usize,
    /// Changes are made from this position on.
    focus: usize,
    steps: usize,
    /// The makespan.
    now: u64,
}

/// The best draft found, with its makespan: some effort on each of the best seeds, then the rest on
/// the best result. `None` if all seeds use forbidden devices or links.
pub(super) fn best(
    machine: &Machine,
    tails: &[u64],
    seeds: Vec<Draft>,
    effort: Effort,
    bound: u64,
) -> Option<(Draft, u64)> {
    let valued = seeds.into_iter().filter_map(|seed| {
        let value = Timeline::new(machine, tails.to_vec()).set(&seed)?;
        Some((value, seed))
    });
    let mut valued: Vec<(u64, Draft)> = valued.collect();
    valued.sort_by_key(|&(value, _)| value);
    valued.truncate(SEEDS);
    let little = Effort {
        moves: effort.moves / SHARES,
        visits: effort.visits / u64::from(SHARES),
        ..effort
    };
    let rest = SHARES.saturating_sub(valued.len() as u32);
    let tried = valued
        .into_iter()
        .filter_map(|(_, seed)| improve(machine, tails.to_vec(), seed, little, bound));
    let (first, _) = tried.min_by_key(|&(_, value)| value)?;
    let most = Effort {
        moves: little.moves.saturating_mul(rest),
        visits: little.visits.saturating_mul(u64::from(rest)),
        ..effort
    };
    improve(machine, tails.to_vec(), first, most, bound)
}

/// The best draft found from an initial one, with its makespan.
fn improve(
    machine: &Machine,
    tails: Vec<u64>,
    first: Draft,
    effort: Effort,
    bound: u64,
) -> Option<(Draft, u64)> {
    let mut walk = Walk::new(machine, tails, first, effort.seed)?;
    let mut best = (walk.draft.clone(), walk.now);
    if machine.nodes == 0 || machine.devices == 1 && machine.nodes == 1 {
        return Some(best);
    }
    for step in 0..effort.moves {
        if best.1 <= bound || walk.times.visited >= effort.visits {
            break;
        }
        // progress of the budget that is closer to its end
        let spent = (u64::from(step) * 1000 / u64::from(effort.moves))
            .max(walk.times.visited.saturating_mul(1000) / effort.visits.max(1));
        let slack =
            u128::from(best.1) * u128::from(SLACK_PERMILLE * 1000u64.saturating_sub(spent)) / 1_000_000;
        walk.step(best.1.saturating_add(slack as u64));
        if walk.now < best.1 {
            best = (walk.draft.clone(), walk.now);
        }
    }
    Some(best)
}

impl<'m> Walk<'m> {
    /// `None` if the draft uses forbidden devices or links.
    fn new(machine: &'m Machine, tails: Vec<u64>, draft: Draft, seed: u64) -> Option<Self> {
        let mut times = Timeline::new(machine, tails);
        let now = times.set(&draft)?;
        Some(Self {
            machine,
            draft,
            times,
            random: ChaCha8Rng::seed_from_u64(seed),
            undo: Vec::new(),
            from: 0,
            to: 0,
            focus: 0,
            steps: 0,
            now,
        })
    }

    /// Tries one change, and undoes it if the makespan exceeds a limit.
    fn step(&mut self, limit: u64) {
        self.steps += 1;
        if self.steps.is_multiple_of(STAY) {
            self.focus = (self.focus + REACH / 2) % self.machine.nodes;
        }
        self.undo.clear();
        (self.from, self.to) = (self.machine.nodes, 0);
        self.change();
        if self.undo.is_empty() {
            return;
        }
        let to = self.times.part_end(self.to - 1);
        match self.times.value(&self.draft, self.from, to, limit.max(self.now)) {
            Some(value) => {
                self.times.keep();
                self.now = if value < self.now {
                    self.times.end(&self.draft)
                } else {
                    value
                };
            }
            None => self.take_back(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.random.next_u64() % limit.max(1) as u64) as usize
    }

    /// A position near the focus, every other time in a part on the critical path if possible.
    fn somewhere(&mut self) -> usize {
        let nodes = self.draft.order.len();
        let near = |walk: &mut Self| (walk.focus + walk.below(REACH.min(nodes))) % nodes;
        let mut at = near(self);
        if self.below(2) == 0 {
            for _ in 0..TRIES {
                if self.times.is_critical(at, self.now) {
                    break;
                }
                at = near(self);
            }
        }
        at
    }

    /// One random change, if it is possible.
    fn change(&mut self) {
        let at = self.somewhere();
        let device = usize::from(self.draft.device[self.draft.order[at] as usize]);
        let device = (device + 1 + self.below(self.machine.devices - 1)) % self.machine.devices;
        match self.below(16) {
            0..4 => {
                let length = 1 << self.below(LENGTHS);
                self.flip(at, at + length, device);
            }
            4..6 => {
                let (start, end) = self.part(at);
                self.flip(start, end, device);
            }
            6..8 => {
                // up to a boundary of its part, so that a part grows or shrinks
                let (start, end) = self.part(at);
                match self.below(2) {
                    0 => self.flip(start, at + 1, device),
                    _ => self.flip(at, end, device),
                }
            }
            8..10 => self.branch(at, device),
            10..13 => {
                let (_, end) = self.part(at);
                let length = 1 << self.below(LENGTHS);
                self.shift(at, end.min(at + length));
            }
            13..15 => self.split(at),
            _ => {
                let length = 1 << self.below(5);
                self.flip(at, at + length, device);
                self.split_behind_last_writer(at);
            }
        }
    }

    /// The part of a position, in the kept draft.
    fn part(&self, at: usize) -> (usize, usize) {
        (self.times.part_start(at), self.times.part_end(at))
    }

    /// Marks times as changed from the part before a position on, at least up to the position.
    fn touch(&mut self, place: usize) {
        let start = self.times.part_start(place.saturating_sub(1));
        self.from = self.from.min(start);
        self.to = self.to.max(place + 1);
    }

    /// Marks times as changed from where a node's inputs leave.
    fn touch_inputs(&mut self, node: usize) {
        let machine = self.machine;
        for read in &machine.reads[node] {
            self.touch(self.times.place[read.writer] as usize);
        }
        if !machine.fed[node].is_empty() {
            self.from = 0;
        }
    }

    /// Moves nodes to a device, if it can run them.
    fn flip(&mut self, from: usize, to: usize, device: usize) {
        for place in from..to.min(self.draft.order.len()) {
            self.bring(self.draft.order[place] as usize, device);
        }
    }

    /// Moves a node and its group to a device that can run them.
    fn bring(&mut self, node: usize, device: usize) {
        let machine = self.machine;
        if usize::from(self.draft.device[node]) == device || !machine.allows(node, device) {
            return;
        }
        for &node in &machine.groups[node] {
            self.undo.push(Undo::Device(node as u32, self.draft.device[node]));
            self.draft.device[node] = device as u8;
            self.touch(self.times.place[node] as usize);
            self.touch_inputs(node);
        }
    }

    fn set_head(&mut self, place: usize, head: bool) {
        let node = self.draft.order[place];
        let old = std::mem::replace(&mut self.draft.head[node as usize], head);
        if old != head {
            self.undo.push(Undo::Head(node, old));
            self.touch(self.times.place[node as usize] as usize);
        }
    }

    /// Splits a part, or joins two.
    fn split(&mut self, at: usize) {
        if at > 0
            && self.draft.device[self.draft.order[at - 1] as usize]
                == self.draft.device[self.draft.order[at] as usize]
        {
            let head = self.draft.head[self.draft.order[at] as usize];
            self.set_head(at, !head);
        }
    }

    /// Ends the part of the last writer that a node waits for, so that its input leaves early.
    fn split_behind_last_writer(&mut self, at: usize) {
        let behind = self.after_writers(self.draft.order[at] as usize);
        if let Some(behind) = behind.filter(|&behind| behind > 0 && behind < at) {
            self.set_head(behind, true);
        }
    }

    /// The position after the last writer that a node waits for.
    fn after_writers(&self, node: usize) -> Option<usize> {
        let places = self.machine.reads[node]
            .iter()
            .map(|read| self.times.place[read.writer] as usize + 1);
        places.max()
    }

    /// Writes an order from a position on, with the positions of its nodes.
    fn reorder(&mut self, from: usize, nodes: &[u32]) {
        let to = from + nodes.len();
        if self.draft.order[from..to] == *nodes {
            return;
        }
        self.touch(from);
        // a tensor leaves at the same time, but to another part: the first position covers it
        self.undo
            .push(Undo::Order(from, self.draft.order[from..to].to_vec()));
        self.to = self.to.max(to);
        self.draft.order[from..to].copy_from_slice(nodes);
        for (offset, &node) in nodes.iter().enumerate() {
            self.times.place[node as usize] = (from + offset) as u32;
        }
    }

    /// Moves neighbouring nodes to another position that graph order allows.
    fn shift(&mut self, from: usize, to: usize) {
        let machine = self.machine;
        let moved = self.draft.order[from..to].to_vec();
        let inside = |place: usize| (from..to).contains(&place);
        let (mut low, mut high) = (0, self.draft.order.len());
        for &node in &moved {
            for read in &machine.reads[node as usize] {
                let place = self.times.place[read.writer] as usize;
                if !inside(place) {
                    low = low.max(place + 1);
                }
            }
            for (reader, _) in machine.readers(node as usize) {
                let place = self.times.place[reader] as usize;
                if !inside(place) {
                    high = high.min(place);
                }
            }
        }
        if low < from && (high <= to || self.below(2) == 0) {
            let target = self.beside_own_device(low, from, moved[0]);
            let nodes = [&moved[..], &self.draft.order[target..from]].concat();
            self.reorder(target, &nodes);
        } else if high > to {
            let target = self.beside_own_device(to + 1, high + 1, moved[0]);
            let nodes = [&self.draft.order[to..target], &moved[..]].concat();
            self.reorder(from, &nodes);
        }
    }

    /// A position in a range, after a node of the same device if possible.
    fn beside_own_device(&mut self, low: usize, high: usize, node: u32) -> usize {
        let mut place = low + self.below(high - low);
        let device = self.draft.device[node as usize];
        let wanted = self.below(3) > 0;
        while wanted && place > low && self.draft.device[self.draft.order[place - 1] as usize] != device {
            place -= 1;
        }
        place
    }

    /// Moves a node, and all nodes that depend on it alone, to a device, directly after the nodes
    /// that it waits for.
    fn branch(&mut self, at: usize, device: usize) {
        let machine = self.machine;
        let root = self.draft.order[at] as usize;
        let Some(start) = self.after_writers(root) else {
            return;
        };
        let size = 1 + self.below(BRANCH);
        let mut branch = vec![root];
        let mut next = 0;
        while next < branch.len() && branch.len() < size {
            for (reader, _) in machine.readers(branch[next]) {
                let own = machine.reads[reader]
                    .iter()
                    .all(|read| branch.contains(&read.writer));
                if own && branch.len() < size && !branch.contains(&reader) {
                    branch.push(reader);
                }
            }
            next += 1;
        }
        let mut places: Vec<usize> = branch
            .iter()
            .map(|&node| self.times.place[node] as usize)
            .collect();
        places.sort_unstable();
        let end = places[places.len() - 1] + 1;
        let inside: Vec<u32> = places.iter().map(|&place| self.draft.order[place]).collect();
        let outside = self.draft.order[start..end]
            .iter()
            .copied()
            .filter(|&node| !branch.contains(&(node as usize)));
        let nodes: Vec<u32> = inside.iter().copied().chain(outside).collect();
        let count = inside.len();
        self.reorder(start, &nodes);
        for place in start..start + count {
            self.bring(self.draft.order[place] as usize, device);
        }
        if start > 0 {
            self.set_head(start, true);
        }
        if start + count < self.draft.order.len() && self.below(2) == 0 {
            self.set_head(start + count, true);
        }
    }

    fn take_back(&mut self) {
        while let Some(change) = self.undo.pop() {
            match change {
                Undo::Device(node, device) => self.draft.device[node as usize] = device,
                Undo::Head(node, head) => self.draft.head[node as usize] = head,
                Undo::Order(from, nodes) => {
                    for (offset, &node) in nodes.iter().enumerate() {
                        self.times.place[node as usize] = (from + offset) as u32;
                    }
                    self.draft.order[from..from + nodes.len()].copy_from_slice(&nodes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{FORBIDDEN, Moved, Problem, Source};

    /// Nodes that read one or two others not far before, some refused somewhere, in part joined by states.
    fn random_machine(below: &mut impl FnMut(usize) -> usize) -> Machine {
        let (nodes, devices) = (2 + below(90), 2 + below(2));
        let time = |below: &mut dyn FnMut(usize) -> usize| 1 + below(1000) as u64;
        let mut costs = Vec::new();
        for at in 0..nodes * devices {
            let refused = at % devices > 0 && below(8) == 0;
            costs.push(if refused { FORBIDDEN } else { time(below) });
        }
        let launch = (0..devices).map(|_| time(below)).collect();
        let mut problem = Problem::new(costs, launch).unwrap();
        let mut moved = |problem: &mut Problem, source, readers: Vec<usize>, home| {
            let transfer = (0..devices * devices).map(|_| time(below)).collect();
            let tensor = Moved {
                source,
                readers,
                home,
                transfer,
            };
            problem.push(tensor).unwrap();
        };
        moved(&mut problem, Source::Device(0), vec![0, nodes / 2], None);
        for writer in 0..nodes {
            let readers = [writer + 1, writer + 2 + writer % 7, writer + 30];
            let readers: Vec<usize> = readers[writer % 2..]
                .iter()
                .copied()
                .filter(|&reader| reader < nodes)
                .collect();
            let home = (readers.is_empty() || writer % 11 == 0).then_some(0);
            moved(&mut problem, Source::Node(writer), readers, home);
        }
        Machine::new(&problem, 0)
    }

    #[test]
    fn incremental_times_match_full_evaluation() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut below = |limit: usize| (random.next_u64() % limit as u64) as usize;
        let (mut kept, mut better) = (0, 0);
        for seed in 0..40 {
            let machine = random_machine(&mut below);
            let tails = super::super::bound::tails(&machine);
            let draft = Draft {
                order: (0..machine.nodes as u32).collect(),
                device: vec![0; machine.nodes],
                head: vec![false; machine.nodes],
            };
            let mut walk = Walk::new(&machine, tails.clone(), draft, seed).unwrap();
            for _ in 0..300 {
                let before = walk.now;
                // a loose limit, so that what is worse is seen too
                let limit = before.saturating_add(before / 20);
                walk.step(limit);
                let whole = Timeline::new(&machine, tails.clone()).set(&walk.draft);
                assert_eq!(whole, Some(walk.now), "seed {seed}");
                assert!(walk.now <= limit);
                kept += usize::from(walk.now != before);
                better += usize::from(walk.now < before);
            }
        }
        assert!(
            kept > 1000 && better > 300,
            "{kept} changes, {better} for the better"
        );
    }
}
