//! The abstract placement problem: ordered nodes, devices, whole-number costs; no graph, no units.
//!
//! Invariants: all sums of finite costs fit in 64 bits, so every value is exact; a value of
//! [`FORBIDDEN`] marks what no placement may use; the objective of a placement is the sum of node
//! costs, one launch per maximal run of one device in the nodes' order, and one transfer per tensor
//! and destination device other than the source's.
//! Deliberately not here: how an instance is made from a graph (`instance`) and solved (`solve`).

use crate::error::{Error, Repr};
use smallvec::SmallVec;
use std::sync::Arc;

/// The cost that marks an impossible choice.
pub const FORBIDDEN: u64 = u64::MAX;

/// Maximum number of devices in one problem: sets of devices are bit masks.
pub const MAX_DEVICES: usize = 16;

/// The devices that a node may run on, ascending.
pub(crate) type Domain = SmallVec<[usize; 4]>;

/// The location of a tensor before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// On the device of the node that writes it.
    Node(usize),
    /// On a given device.
    Device(usize),
}

/// A tensor that may have to be transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it is written.
    pub source: Source,
    /// Nodes that read it, ascending, each once.
    pub readers: Vec<usize>,
    /// A device that needs it even without readers there.
    pub home: Option<usize>,
    /// Cost of one transfer, by source device (row) and destination (column); the diagonal is free.
    /// Tensors of equal size share it.
    pub transfer: Arc<[u64]>,
}

/// A placement problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    devices: usize,
    nodes: usize,
    cost: Vec<u64>,
    launch: Vec<u64>,
    tensors: Vec<Moved>,
    touching: Vec<Vec<u32>>,
}

impl Problem {
    /// A problem without tensors: `cost` has one row of `launch.len()` devices per node.
    ///
    /// # Errors
    /// No device, more than [`MAX_DEVICES`], or rows of the wrong length.
    pub fn new(cost: Vec<u64>, launch: Vec<u64>) -> Result<Self, Error> {
        let devices = launch.len();
        if devices == 0 || devices > MAX_DEVICES {
            return Err(Error::bad_input(format!(
                "a plan needs 1 to {MAX_DEVICES} devices, {devices} were given"
            )));
        }
        if !cost.len().is_multiple_of(devices) {
            return Err(Error::bad_input(format!(
                "{} node costs do not make rows of {devices} devices",
                cost.len()
            )));
        }
        let nodes = cost.len() / devices;
        Ok(Self {
            devices,
            nodes,
            cost,
            launch,
            tensors: Vec::new(),
            touching: vec![Vec::new(); nodes],
        })
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// A node or device outside the problem, or a transfer matrix of the wrong size.
    pub fn push(&mut self, mut tensor: Moved) -> Result<(), Error> {
        tensor.readers.sort_unstable();
        tensor.readers.dedup();
        let node = match tensor.source {
            Source::Node(node) => Some(node),
            Source::Device(device) if device < self.devices => None,
            Source::Device(device) => {
                return Err(Error::bad_input(format!(
                    "tensor on device {device} of {}",
                    self.devices
                )));
            }
        };
        if let Some(&bad) = tensor
            .readers
            .iter()
            .chain(&node)
            .find(|&&node| node >= self.nodes)
        {
            return Err(Error::bad_input(format!(
                "tensor of node {bad} of {}",
                self.nodes
            )));
        }
        if tensor.home.is_some_and(|home| home >= self.devices)
            || tensor.transfer.len() != self.devices * self.devices
        {
            return Err(Error::bad_input(
                "tensor with a home or transfer costs outside the devices",
            ));
        }
        let diagonal = |device: usize| device * (self.devices + 1);
        if (0..self.devices).any(|device| tensor.transfer[diagonal(device)] != 0) {
            let transfer = Arc::make_mut(&mut tensor.transfer);
            (0..self.devices).for_each(|device| transfer[diagonal(device)] = 0);
        }
        let index = u32::try_from(self.tensors.len())
            .map_err(|_| Error::bad_input("more than 4294967295 tensors"))?;
        for node in tensor.readers.iter().copied().chain(node) {
            if self.touching[node].last() != Some(&index) {
                self.touching[node].push(index);
            }
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Cost of a node on a device; [`FORBIDDEN`] if it cannot run there.
    #[must_use]
    pub fn cost(&self, node: usize, device: usize) -> u64 {
        self.cost[node * self.devices + device]
    }

    /// Sets the cost of a node on a device.
    pub fn set_cost(&mut self, node: usize, device: usize, cost: u64) {
        self.cost[node * self.devices + device] = cost;
    }

    /// Cost of one launch on a device.
    #[must_use]
    pub fn launch(&self, device: usize) -> u64 {
        self.launch[device]
    }

    /// Tensors that may have to be transferred.
    #[must_use]
    pub fn tensors(&self) -> &[Moved] {
        &self.tensors
    }

    /// The devices that can run a node, ascending.
    #[must_use]
    pub fn allowed(&self, node: usize) -> Vec<usize> {
        (0..self.devices)
            .filter(|&device| self.cost(node, device) != FORBIDDEN)
            .collect()
    }

    /// The devices of every node.
    pub(crate) fn domains(&self) -> Vec<Domain> {
        let allowed = |node| (0..self.devices).filter(move |&device| self.cost(node, device) != FORBIDDEN);
        (0..self.nodes()).map(|node| allowed(node).collect()).collect()
    }

    /// Checks that no sum of finite costs can overflow.
    ///
    /// # Errors
    /// The largest conceivable sum does not fit.
    pub fn bounded(&self) -> Result<(), Error> {
        let sum = self.dearest();
        // half the range, so that a bound plus a value also fits
        if sum > u128::from(u64::MAX / 2) {
            return Err(Repr::Overflow(format!(
                "the most expensive placement costs {sum}, limit {}",
                u64::MAX / 2
            ))
            .into());
        }
        Ok(())
    }

    /// More than any placement costs.
    pub(crate) fn dearest(&self) -> u128 {
        let largest = |row: &[u64]| row.iter().copied().filter(|&c| c != FORBIDDEN).max().unwrap_or(0);
        let mut sum: u128 = 0;
        for row in self.cost.chunks(self.devices) {
            sum += u128::from(largest(row)) + u128::from(largest(&self.launch));
        }
        // neighbours mostly share one table
        let mut last: Option<(&Arc<[u64]>, u64)> = None;
        for tensor in &self.tensors {
            let known = last.filter(|(transfer, _)| Arc::ptr_eq(transfer, &tensor.transfer));
            let most = known.map_or_else(|| largest(&tensor.transfer), |(_, most)| most);
            last = Some((&tensor.transfer, most));
            sum += u128::from(most) * self.devices as u128;
        }
        sum
    }

    /// The objective of a placement; `None` if it uses a forbidden choice.
    #[must_use]
    pub fn objective(&self, placement: &[usize]) -> Option<u64> {
        debug_assert_eq!(placement.len(), self.nodes);
        let mut sum = 0u64;
        for (node, &device) in placement.iter().enumerate() {
            sum = add(sum, self.cost(node, device));
            if node == 0 || placement[node - 1] != device {
                sum = add(sum, self.launch[device]);
            }
        }
        for tensor in &self.tensors {
            sum = add(sum, self.moving(tensor, placement));
        }
        (sum != FORBIDDEN).then_some(sum)
    }

    /// Cost of all transfers of one tensor.
    fn moving(&self, tensor: &Moved, placement: &[usize]) -> u64 {
        let from = match tensor.source {
            Source::Node(node) => placement[node],
            Source::Device(device) => device,
        };
        let readers = tensor.readers.iter().map(|&node| 1u32 << placement[node]);
        let set = readers.fold(tensor.home.map_or(0, |home| 1 << home), |set, bit| set | bit);
        self.spread(tensor, from, set)
    }

    /// Cost of bringing a tensor from one device to a set of devices.
    pub(crate) fn spread(&self, tensor: &Moved, from: usize, set: u32) -> u64 {
        let row = &tensor.transfer[from * self.devices..(from + 1) * self.devices];
        let mut rest = set & !(1 << from);
        let mut sum = 0;
        while rest != 0 {
            sum = add(sum, row[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
        sum
    }

    /// The part of the objective that depends on one node's device, the node costing this.
    fn around(&self, placement: &[usize], node: usize, cost: u64) -> u64 {
        let device = placement[node];
        let mut sum = cost;
        if node == 0 || placement[node - 1] != device {
            sum = add(sum, self.launch[device]);
        }
        if node + 1 < self.nodes && placement[node + 1] != device {
            sum = add(sum, self.launch[placement[node + 1]]);
        }
        for &index in &self.touching[node] {
            sum = add(sum, self.moving(&self.tensors[index as usize], placement));
        }
        sum
    }

    /// The change of the objective when one node moves to another device; `None` if that is
    /// forbidden.
    #[must_use]
    pub fn difference(&self, placement: &mut [usize], node: usize, device: usize) -> Option<i64> {
        self.difference_at(placement, node, device, self.cost(node, device))
    }

    /// The same, the node costing this on the other device, whatever the problem says.
    pub(crate) fn difference_at(
        &self,
        placement: &mut [usize],
        node: usize,
        device: usize,
        cost: u64,
    ) -> Option<i64> {
        let old = placement[node];
        let before = self.around(placement, node, self.cost(node, old));
        placement[node] = device;
        let after = self.around(placement, node, cost);
        placement[node] = old;
        if after == FORBIDDEN || before == FORBIDDEN {
            return None;
        }
        i64::try_from(i128::from(after) - i128::from(before)).ok()
    }
}

/// A sum in which forbidden stays forbidden.
pub(crate) fn add(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Problem {
        // node 0 → node 1 → node 2, node 0 also → node 2
        let mut problem = Problem::new(vec![5, 1, 5, 1, FORBIDDEN, 1], vec![10, 20]).unwrap();
        let transfer: Arc<[u64]> = [9, 3, 4, 9].into();
        problem
            .push(Moved {
                source: Source::Node(0),
                readers: vec![2, 1, 2],
                home: None,
                transfer: transfer.clone(),
            })
            .unwrap();
        problem
            .push(Moved {
                source: Source::Node(1),
                readers: vec![2],
                home: Some(0),
                transfer,
            })
            .unwrap();
        problem
    }

    #[test]
    fn objective_charges_each_destination_once() {
        let problem = chain();
        // costs 5+1+1, launches 10+20, tensor 0 to device 1 once: 3, tensor 1 home to device 0: 4
        assert_eq!(problem.objective(&[0, 1, 1]), Some(5 + 1 + 1 + 10 + 20 + 3 + 4));
        assert_eq!(problem.objective(&[0, 0, 0]), None);
    }

    #[test]
    fn difference_equals_two_objectives() {
        let problem = chain();
        let mut placement = vec![0, 1, 1];
        let moved =
            problem.objective(&[1, 1, 1]).unwrap() as i64 - problem.objective(&placement).unwrap() as i64;
        assert_eq!(problem.difference(&mut placement, 0, 1), Some(moved));
        assert_eq!(problem.difference(&mut placement, 2, 0), None);
        assert_eq!(placement, [0, 1, 1]);
    }

    #[test]
    fn bad_instances_are_refused() {
        assert!(Problem::new(vec![1], vec![]).is_err());
        assert!(Problem::new(vec![1, 2, 3], vec![0, 0]).is_err());
        assert!(Problem::new(vec![0; 17], vec![0; 17]).is_err());
        let mut problem = chain();
        let tensor = |source, readers, home, len| Moved {
            source,
            readers,
            home,
            transfer: vec![0; len].into(),
        };
        assert!(problem.push(tensor(Source::Node(3), vec![], None, 4)).is_err());
        assert!(problem.push(tensor(Source::Device(2), vec![], None, 4)).is_err());
        assert!(problem.push(tensor(Source::Node(0), vec![3], None, 4)).is_err());
        assert!(problem.push(tensor(Source::Node(0), vec![], Some(2), 4)).is_err());
        assert!(problem.push(tensor(Source::Node(0), vec![], None, 3)).is_err());
        assert!(
            Problem::new(vec![u64::MAX - 1, 0], vec![0])
                .unwrap()
                .bounded()
                .is_err()
        );
        assert!(problem.bounded().is_ok());
    }
}
