//! TensorFlow Lite's partitions: the largest few go to one delegate, the CPU keeps the rest.
//!
//! Invariants: partitions are independent node subsets as `graph_info.cc` makes them: nodes of one kind that are
//! ready are taken until none is left, then those of the other kind.
//! Deliberately not here: a choice by cost; TFLite has none.

use std::cmp::Reverse;

use polychip_partitioner::problem::FORBIDDEN;

use super::reads::reads;
use crate::world::{Kind, World};

pub(super) fn largest_partitions(world: &World, kind: Kind, count: usize) -> Vec<usize> {
    let problem = &world.problem;
    let find = |kind: Kind| world.kinds.iter().position(|&other| other == kind);
    let cpu = find(Kind::Cpu).expect("every table has a CPU");
    let Some(device) = find(kind) else {
        return vec![cpu; problem.nodes()];
    };
    let mut partitions = partitions(world, device);
    // the largest by number of nodes, the first among equals
    partitions.sort_by_key(|partition| (Reverse(partition.len()), partition[0]));
    let mut placement = vec![cpu; problem.nodes()];
    for node in partitions.into_iter().take(count).flatten() {
        placement[node] = device;
    }
    placement
}

fn partitions(world: &World, device: usize) -> Vec<Vec<usize>> {
    let problem = &world.problem;
    let mut waiting: Vec<usize> = vec![0; problem.nodes()];
    let mut readers = vec![Vec::new(); problem.nodes()];
    for (node, inputs) in reads(problem).into_iter().enumerate() {
        waiting[node] = inputs.len();
        for (writer, _) in inputs {
            readers[writer].push(node);
        }
    }
    let kind = |node: usize| usize::from(problem.cost(node, device) != FORBIDDEN);
    let mut ready: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    for node in (0..problem.nodes()).rev().filter(|&node| waiting[node] == 0) {
        ready[kind(node)].push(node);
    }
    let mut found = Vec::new();
    let mut turn = usize::from(ready[0].is_empty());
    while !ready[turn].is_empty() {
        let mut subset = Vec::new();
        while let Some(node) = ready[turn].pop() {
            subset.push(node);
            for &reader in &readers[node] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready[kind(reader)].push(reader);
                }
            }
        }
        if turn == 1 {
            found.push(subset);
        }
        turn = 1 - turn;
    }
    found
}
