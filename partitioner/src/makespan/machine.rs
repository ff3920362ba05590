//! The machine model of a schedule: concurrent devices, and links between them.
//!
//! `check` judges this model with its own code. A device, and devices that share hardware together,
//! runs one part at a time, in the plan's order. A part starts as soon as its device is free and
//! all of its inputs have arrived; it takes one launch and the time of its nodes; its outputs leave
//! when it ends. The link of an ordered pair of devices carries one tensor at a time, in the order
//! in which parts of the sending device end, while both devices continue to compute; a tensor goes
//! to a device once. Graph inputs leave their home, if any, at the start; the run ends when all
//! parts have ended and all outputs are at their home, if any.
//!
//! Invariants: nodes are in canonical order, so writers come before readers; all times are
//! picoseconds, and sums of finite ones fit; nodes of one state share a group, which runs on one
//! device. Deliberately not here: orders and starts (`timeline`).

use crate::problem::{FORBIDDEN, Problem, Source};
use std::sync::Arc;

/// A tensor with a reader or a home.
#[derive(Clone)]
pub(super) struct Tensor {
    /// `None` for a graph input.
    pub(super) writer: Option<usize>,
    pub(super) readers: Vec<usize>,
    /// The device that holds a graph input at the start.
    pub(super) from: usize,
    pub(super) home: Option<usize>,
    /// Per sender and receiver; [`FORBIDDEN`] without a link.
    pub(super) transfer: Arc<[u64]>,
}

/// A tensor between two nodes.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) writer: usize,
    pub(super) tensor: usize,
}

#[derive(Clone)]
pub(super) struct Machine {
    pub(super) nodes: usize,
    pub(super) devices: usize,
    /// Per device, the first device that shares its hardware; these never run at once.
    pub(super) resource: Vec<usize>,
    pub(super) cost: Vec<u64>,
    pub(super) launch: Vec<u64>,
    pub(super) tensors: Vec<Tensor>,
    /// Per node, its inputs from other nodes.
    pub(super) reads: Vec<Vec<Read>>,
    /// Per node, graph inputs that it reads from their home.
    pub(super) fed: Vec<Vec<usize>>,
    /// Per node, tensors that it writes.
    pub(super) writes: Vec<Vec<usize>>,
    /// Per node, all nodes that must share its device, itself included.
    pub(super) groups: Vec<Vec<usize>>,
}

impl Machine {
    /// The machine of a problem in picoseconds, whose first `states` tensors only group nodes on
    /// one device.
    pub(super) fn new(problem: &Problem, states: usize) -> Self {
        let (nodes, devices) = (problem.nodes(), problem.devices());
        let mut group: Vec<usize> = (0..nodes).collect();
        for tensor in &problem.tensors()[..states] {
            let Source::Node(writer) = tensor.source else {
                continue;
            };
            for &reader in &tensor.readers {
                let (kept, gone) = (group[writer], group[reader]);
                group
                    .iter_mut()
                    .filter(|of| **of == gone)
                    .for_each(|of| *of = kept);
            }
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for node in 0..nodes {
            members[group[node]].push(node);
        }
        let mut machine = Self {
            nodes,
            devices,
            resource: (0..devices).collect(),
            cost: (0..nodes * devices)
                .map(|at| problem.cost(at / devices, at % devices))
                .collect(),
            launch: (0..devices).map(|device| problem.launch(device)).collect(),
            tensors: Vec::with_capacity(problem.tensors().len() - states),
            reads: vec![Vec::new(); nodes],
            fed: vec![Vec::new(); nodes],
            writes: vec![Vec::new(); nodes],
            groups: group.iter().map(|&of| members[of].clone()).collect(),
        };
        for moved in &problem.tensors()[states..] {
            let tensor = machine.tensors.len();
            let (writer, from) = match moved.source {
                Source::Node(node) => (Some(node), 0),
                Source::Device(device) => (None, device),
            };
            for &reader in &moved.readers {
                match writer {
                    Some(writer) => machine.reads[reader].push(Read { writer, tensor }),
                    None => machine.fed[reader].push(tensor),
                }
            }
            if let Some(writer) = writer {
                machine.writes[writer].push(tensor);
            }
            machine.tensors.push(Tensor {
                writer,
                readers: moved.readers.clone(),
                from,
                home: moved.home,
                transfer: moved.transfer.clone(),
            });
        }
        machine
    }

    /// The same machine, whose devices share hardware.
    pub(super) fn sharing(mut self, resource: Vec<usize>) -> Self {
        self.resource = resource;
        self
    }

    pub(super) fn cost(&self, node: usize, device: usize) -> u64 {
        self.cost[node * self.devices + device]
    }

    /// Whether a node and all that share its device may run there.
    pub(super) fn allows(&self, node: usize, device: usize) -> bool {
        self.groups[node]
            .iter()
            .all(|&node| self.cost(node, device) != FORBIDDEN)
    }

    pub(super) fn transfer(&self, tensor: usize, from: usize, to: usize) -> u64 {
        self.tensors[tensor].transfer[from * self.devices + to]
    }

    /// Tensors that graph inputs bring to each node, as a time of arrival on a device without other traffic.
    pub(super) fn arrival(&self, node: usize, device: usize) -> u64 {
        let arrivals = self.fed[node]
            .iter()
            .map(|&tensor| self.transfer(tensor, self.tensors[tensor].from, device));
        arrivals.max().unwrap_or(0)
    }

    /// The readers of a node's outputs, with the tensor.
    pub(super) fn readers(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let tensors = self.writes[node].iter();
        tensors.flat_map(|&tensor| {
            self.tensors[tensor]
                .readers
                .iter()
                .map(move |&reader| (reader, tensor))
        })
    }
}
