//! Which layout each node computes in, planned once for a whole part.
//!
//! Some kernels and some operations of vendors want channels last, some the order of the ONNX shape, most take either.
//! A tensor lies as the node that writes it does; where a reader wants the other layout, it is transposed, once for all
//! such readers. The plan minimises what is so transposed, exactly: it is a minimum cut between "channels last" and
//! "row-major", in which each tensor costs its bytes where it is cut.
//!
//! Invariants:
//! 1. A fixed want is kept.
//! 2. The same uses give the same plan: of all minimum cuts the one with the fewest nodes channels last, so that ties and
//!    nodes that nothing pulls are row-major.
//!
//! Not here: what a node wants (each plugin's `lower`).

use std::collections::VecDeque;

use crate::Layout;

/// What a node wants of the tensors on one of its sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// This layout.
    Fixed(Layout),
    /// The layout that is planned for the node.
    Planned,
}

/// Who writes or reads a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Index of the node; any for a fixed want.
    pub node: usize,
    /// What it wants.
    pub want: Want,
}

/// One tensor whose layout matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What a transposition costs.
    pub cost: u64,
    /// Who writes it.
    pub writer: Use,
    /// Who reads it.
    pub readers: Vec<Use>,
}

/// The planned layout of each of `nodes` nodes.
pub fn plan(nodes: usize, flows: &[Flow]) -> Vec<Layout> {
    const CHANNELS_LAST: usize = 0;
    const ROW_MAJOR: usize = 1;
    let mut cut = Cut::new(2 + nodes);
    let vertex = |of: Use| match of.want {
        Want::Fixed(Layout::ChannelsLast) => CHANNELS_LAST,
        Want::Fixed(Layout::RowMajor) => ROW_MAJOR,
        Want::Planned => 2 + of.node,
    };
    for flow in flows {
        let writer = vertex(flow.writer);
        // written channels last, wanted row-major by any reader
        let to_row_major = cut.vertex();
        // written row-major, wanted channels last by any reader
        let to_channels_last = cut.vertex();
        cut.edge(writer, to_row_major, flow.cost);
        cut.edge(to_channels_last, writer, flow.cost);
        for &reader in &flow.readers {
            cut.edge(to_row_major, vertex(reader), u64::MAX);
            cut.edge(vertex(reader), to_channels_last, u64::MAX);
        }
    }
    let side = cut.minimum(CHANNELS_LAST, ROW_MAJOR);
    (0..nodes)
        .map(|node| {
            if side[2 + node] {
                Layout::ChannelsLast
            } else {
                Layout::RowMajor
            }
        })
        .collect()
}

/// What the plan costs: the sum over tensors that some reader wants otherwise than they were written.
#[cfg(test)]
fn cost(layouts: &[Layout], flows: &[Flow]) -> u64 {
    let layout = |of: Use| match of.want {
        Want::Fixed(layout) => layout,
        Want::Planned => layouts[of.node],
    };
    flows
        .iter()
        .filter(|flow| {
            flow.readers
                .iter()
                .any(|&reader| layout(reader) != layout(flow.writer))
        })
        .map(|flow| flow.cost)
        .sum()
}

/// A network of capacities, for a minimum cut by blocking flows (Dinic). Own code: petgraph gives the flow, and which of
/// all minimum cuts is meant must not hang on its order of edges.
struct Cut {
    /// Edges that leave each vertex.
    edges_of: Vec<Vec<usize>>,
    /// Target and capacity left; edge `e ^ 1` is the way back.
    edges: Vec<(usize, u64)>,
}

impl Cut {
    fn new(vertices: usize) -> Cut {
        Cut {
            edges_of: vec![Vec::new(); vertices],
            edges: Vec::new(),
        }
    }

    fn vertex(&mut self) -> usize {
        self.edges_of.push(Vec::new());
        self.edges_of.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        if from == to {
            return;
        }
        self.edges_of[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.edges_of[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    /// Distance of each vertex from the source over edges with capacity left.
    fn levels(&self, source: usize) -> Vec<Option<u32>> {
        let mut levels = vec![None; self.edges_of.len()];
        levels[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(vertex) = queue.pop_front() {
            let next = levels[vertex].map(|level| level + 1);
            for &edge in &self.edges_of[vertex] {
                let (to, left) = self.edges[edge];
                if left > 0 && levels[to].is_none() {
                    levels[to] = next;
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Sends flow along one path of rising levels; `false` where there is none left.
    fn augment(&mut self, source: usize, sink: usize, levels: &[Option<u32>], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut vertex = source;
        while vertex != sink {
            let edge = loop {
                let Some(&edge) = self.edges_of[vertex].get(next[vertex]) else {
                    break None;
                };
                let (to, left) = self.edges[edge];
                if left > 0 && levels[to] == levels[vertex].map(|level| level + 1) {
                    break Some(edge);
                }
                next[vertex] += 1;
            };
            if let Some(edge) = edge {
                path.push(edge);
                vertex = self.edges[edge].0;
            } else {
                // a dead end: step back and never come here again
                let Some(edge) = path.pop() else { return false };
                vertex = self.edges[edge ^ 1].0;
                next[vertex] += 1;
            }
        }
        let sent = path.iter().map(|&edge| self.edges[edge].1).min().unwrap_or(0);
        for edge in path {
            // unlimited edges stay so
            if self.edges[edge].1 != u64::MAX {
                self.edges[edge].1 -= sent;
            }
            let back = &mut self.edges[edge ^ 1].1;
            *back = back.saturating_add(sent);
        }
        true
    }

    /// Whether each vertex is on the source's side of a minimum cut.
    fn minimum(&mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source);
            if levels[sink].is_none() {
                return levels.iter().map(Option::is_some).collect();
            }
            let mut next = vec![0; self.edges_of.len()];
            while self.augment(source, sink, &levels, &mut next) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const ROW: Want = Want::Fixed(Layout::RowMajor);
    const LAST: Want = Want::Fixed(Layout::ChannelsLast);

    fn of(node: usize, want: Want) -> Use {
        Use { node, want }
    }

    fn flow(cost: u64, writer: Use, readers: &[Use]) -> Flow {
        Flow {
            cost,
            writer,
            readers: readers.to_vec(),
        }
    }

    #[test]
    fn elementwise_nodes_between_convolutions_follow_them() {
        // port → conv 0 → relu 1 → conv 2 → sum 3 (with relu's result) → port
        let flows = [
            flow(10, of(0, ROW), &[of(0, LAST)]),
            flow(10, of(0, LAST), &[of(1, Want::Planned)]),
            flow(10, of(1, Want::Planned), &[of(2, LAST), of(3, Want::Planned)]),
            flow(10, of(2, LAST), &[of(3, Want::Planned)]),
            flow(10, of(3, Want::Planned), &[of(0, ROW)]),
        ];
        let layouts = plan(4, &flows);
        assert_eq!(
            (layouts[1], layouts[3]),
            (Layout::ChannelsLast, Layout::ChannelsLast)
        );
        assert_eq!(cost(&layouts, &flows), 20);
    }

    #[test]
    fn the_plan_costs_no_more_than_any_other() {
        let mut numbers = ChaCha8Rng::seed_from_u64(1);
        let mut random = |below: u64| numbers.random_range(0..below);
        for _ in 0..300 {
            let nodes = 1 + random(7) as usize;
            let mut want = |node: usize| match random(4) {
                0 => of(node, ROW),
                1 => of(node, LAST),
                _ => of(node, Want::Planned),
            };
            let mut flows = Vec::new();
            for writer in 0..nodes {
                let readers: Vec<Use> = (writer + 1..nodes).map(&mut want).collect();
                flows.push(flow(1 + writer as u64 * 3 % 5, want(writer), &readers));
            }
            flows.push(flow(2, of(0, ROW), &[want(0)]));
            let planned = cost(&plan(nodes, &flows), &flows);
            let best = (0..1u32 << nodes)
                .map(|bits| {
                    let layouts: Vec<Layout> = (0..nodes)
                        .map(|node| {
                            if bits >> node & 1 == 1 {
                                Layout::ChannelsLast
                            } else {
                                Layout::RowMajor
                            }
                        })
                        .collect();
                    cost(&layouts, &flows)
                })
                .min()
                .unwrap();
            assert_eq!(planned, best);
        }
    }
}
