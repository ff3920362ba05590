//! Seeded random graphs with targets, costs and links.
//!
//! Invariants: the same seed gives the same world on every host; graphs are in canonical order.

use polychip_graph::{Constant, Graph, Node, NodeId, State, Tensor, TensorId};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{
    Cost, CostTable, Energy, Link, LinkTable, Objective, Options, Provenance, Refusal, Request, Target, Time,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Everything one plan is made from.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) graph: Graph,
    pub(crate) targets: Vec<Target>,
    pub(crate) costs: CostTable,
    pub(crate) links: LinkTable,
    pub(crate) objective: Objective,
    pub(crate) options: Options,
}

impl World {
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            graph: &self.graph,
            targets: &self.targets,
            costs: &self.costs,
            links: &self.links,
            objective: self.objective,
            options: &self.options,
            model: None,
        }
    }

    pub(crate) fn partition(&self) -> Result<polychip_partitioner::Plan, polychip_partitioner::Error> {
        polychip_partitioner::partition(self.request())
    }

    pub(crate) fn check(
        &self,
        plan: &polychip_partitioner::Plan,
    ) -> Result<(), polychip_partitioner::Violation> {
        polychip_partitioner::check(self.request(), plan)
    }
}

/// A random graph: nodes of one to three inputs and one or two outputs, some with weights.
pub(crate) fn graph(random: &mut Random, nodes: usize) -> Graph {
    let mut graph = Graph::new("random");
    let tensor = |graph: &mut Graph, random: &mut Random| {
        let name = format!("x{}", graph.tensor_count());
        let size = 1 + random.below(4000);
        graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[1, size])))
    };
    let mut pool: Vec<TensorId> = Vec::new();
    for _ in 0..1 + random.below(2) {
        let input = tensor(&mut graph, random);
        graph.inputs.push(input);
        pool.push(input);
    }
    let mut shared: Option<TensorId> = None;
    for _ in 0..nodes {
        // mostly recent tensors: networks are nearly chains
        let mut inputs: Vec<Option<TensorId>> = (0..1 + random.below(3))
            .map(|_| {
                let back = if random.chance(80) {
                    random.below(3)
                } else {
                    random.below(pool.len())
                };
                Some(pool[pool.len() - 1 - back.min(pool.len() - 1)])
            })
            .collect();
        if random.chance(40) {
            let reuse = random.chance(30);
            let weight = shared.filter(|_| reuse).unwrap_or_else(|| {
                let size = 4 * (1 + random.below(500));
                let data = Constant::new(vec![0u8; size]);
                let ty = TensorType::known(DType::F32, &[size / 4]);
                graph.add_tensor(Tensor::constant(format!("w{}", graph.tensor_count()), ty, data))
            });
            shared = Some(weight);
            inputs.push(Some(weight));
        }
        let outputs: Vec<TensorId> = (0..1 + usize::from(random.chance(15)))
            .map(|_| tensor(&mut graph, random))
            .collect();
        let op = [Op::Conv, Op::Add, Op::Relu, Op::MatMul, Op::Softmax][random.below(5)];
        graph.add_node(Node::new(op, inputs, outputs.iter().copied().map(Some).collect()));
        pool.extend(outputs);
    }
    let ends: Vec<TensorId> = pool
        .iter()
        .copied()
        .filter(|&id| graph.consumers(id).is_empty())
        .collect();
    graph.outputs = ends
        .into_iter()
        .filter(|&id| graph.producer(id).is_some())
        .collect();
    graph
}

/// A random world of a given size.
pub(crate) fn world(random: &mut Random, nodes: usize, devices: usize) -> World {
    let graph = graph(random, nodes);
    around(graph, random, devices)
}

/// A random world of a given graph.
pub(crate) fn around(graph: Graph, random: &mut Random, devices: usize) -> World {
    let nodes = graph.node_count();
    let objective = [
        Objective::latency(),
        Objective::energy(),
        Objective::weighted(2, 3),
    ][random.below(3)];
    let mut costs = CostTable::new(nodes, devices);
    let mut targets: Vec<Target> = (0..devices)
        .map(|device| {
            let mut target = Target::new(&format!("null:{device}"), nodes)
                .launch(Time::from_picoseconds(random.below(3_000_000) as u64));
            target.launch_energy = Energy::from_nanojoules(random.below(500) as u64);
            target.emulated = device == 1;
            target
        })
        .collect();
    for node in 0..nodes {
        let sure = random.below(devices);
        for (device, target) in targets.iter_mut().enumerate() {
            if device != sure && random.chance(15) {
                target.refusals[node] = Some(Refusal {
                    code: 3,
                    words: "dtype".into(),
                });
            }
            let time = Time::from_picoseconds(random.below(9_000_000) as u64);
            let provenance =
                [Provenance::Measured, Provenance::Estimated, Provenance::Roofline][random.below(3)];
            let energy = Energy::from_nanojoules(random.below(9000) as u64);
            costs.set_node(node, device, Cost::time(time, provenance).with_energy(energy));
        }
    }
    let mut links = LinkTable::new(devices);
    for from in 0..devices {
        for to in 0..devices {
            let latency = Time::from_picoseconds(random.below(2_000_000) as u64);
            let mut link = match random.below(3) {
                0 => Link::native(latency),
                1 => Link::imported(latency),
                _ => Link::copy(latency, 1_000_000 * (1 + random.below(20_000) as u64)),
            };
            link.energy_per_kilobyte = Energy::from_nanojoules(random.below(300) as u64);
            links.set(from, to, link);
        }
    }
    let mut options = Options::default();
    if random.chance(30) {
        options.input_home = Some(random.below(devices));
        options.output_home = Some(random.below(devices));
    }
    World {
        graph,
        targets,
        costs,
        links,
        objective,
        options,
    }
}

/// Makes the graph's first input and a later tensor one state, where the graph allows it.
pub(crate) fn add_state(world: &mut World, random: &mut Random) {
    let input = world.graph.inputs[0];
    let nodes = world.graph.node_count();
    let writer = NodeId::new(random.below(nodes));
    let output = world
        .graph
        .node(writer)
        .writes()
        .next()
        .expect("nodes of random graphs write");
    if !world.graph.is_output(output) {
        world.graph.outputs.push(output);
    }
    world.graph.states.push(State { input, output });
}
