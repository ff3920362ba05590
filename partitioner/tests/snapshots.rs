//! One small graph, from its plan to its report and explanation, as text to review.
//!
//! Invariants: figures are chosen by hand; nothing here depends on a host.

use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{
    Cost, CostTable, Energy, Link, LinkTable, Options, Plan, Provenance, Reason, Refusal, Report, Request,
    Target, Time, cheapest_per_node, check, explain, greedy_by_priority, partition,
};

struct World {
    graph: Graph,
    targets: Vec<Target>,
    costs: CostTable,
    links: LinkTable,
    options: Options,
}

impl World {
    fn plan(&self) -> Plan {
        let plan = partition(self.request()).unwrap();
        check(self.request(), &plan).unwrap();
        plan
    }

    fn request(&self) -> Request<'_> {
        Request::new(&self.graph, &self.targets, &self.costs, &self.links).with(&self.options)
    }
}

/// Conv, Relu, Softmax, Add (residual), MatMul on a CPU and an emulated NPU that refuses Softmax.
fn world() -> World {
    let mut graph = Graph::new("residual");
    let ty = TensorType::known(DType::F32, &[1, 8, 16, 16]);
    let tensor = |graph: &mut Graph, name: &str| graph.add_tensor(Tensor::new(name, ty.clone()));
    let weight = |graph: &mut Graph, name: &str, size: usize| {
        let ty = TensorType::known(DType::F32, &[size]);
        graph.add_tensor(Tensor::constant(name, ty, Constant::new(vec![0u8; 4 * size])))
    };
    let x = tensor(&mut graph, "x");
    let kernel = weight(&mut graph, "kernel", 576);
    let matrix = weight(&mut graph, "matrix", 256);
    let names = ["conv", "relu", "softmax", "sum", "y"];
    let [conv, relu, softmax, sum, y]: [TensorId; 5] = names.map(|name| tensor(&mut graph, name));
    for (op, name, inputs, output) in [
        (Op::Conv, "stem", vec![x, kernel], conv),
        (Op::Relu, "act", vec![conv], relu),
        (Op::Softmax, "attend", vec![relu], softmax),
        (Op::Add, "residual", vec![softmax, conv], sum),
        (Op::MatMul, "head", vec![sum, matrix], y),
    ] {
        let inputs = inputs.into_iter().map(Some).collect();
        graph.add_node(Node::new(op, inputs, vec![Some(output)]).named(name));
    }
    graph.inputs.push(x);
    graph.outputs.push(y);
    let mut costs = CostTable::new(5, 2);
    for (node, (cpu, npu)) in [
        (90_000, 6_000),
        (4_000, 800),
        (12_000, 0),
        (5_000, 900),
        (70_000, 5_000),
    ]
    .into_iter()
    .enumerate()
    {
        let energy = Energy::from_nanojoules(cpu * 3 / 10);
        let cost = Cost::time(Time::from_nanoseconds(cpu), Provenance::Measured).with_energy(energy);
        costs.set_node(node, 0, cost);
        if npu > 0 {
            let energy = Energy::from_nanojoules(npu / 2);
            let cost = Cost::time(Time::from_nanoseconds(npu), Provenance::Estimated).with_energy(energy);
            costs.set_node(node, 1, cost.emulated());
        }
    }
    let mut npu = Target::new("null:0", 5)
        .launch(Time::from_nanoseconds(2_000))
        .refuse(
            2,
            Refusal {
                code: 2,
                words: "op Softmax".into(),
            },
        );
    npu.emulated = true;
    let mut links = LinkTable::new(2);
    links.set(0, 1, Link::imported(Time::from_nanoseconds(1_500)));
    links.set(1, 0, Link::copy(Time::from_nanoseconds(1_000), 4_000_000_000));
    World {
        graph,
        targets: vec![Target::new("cpu:0", 5), npu],
        costs,
        links,
        options: Options::default(),
    }
}

/// The text without hashes, which change with every addition to what a fingerprint covers.
fn unnamed(plan: &Plan, text: String) -> String {
    let names = plan.parts.iter().enumerate();
    let text = names.fold(text, |text, (index, part)| {
        text.replace(&part.id, &format!("<id of part {index}>"))
    });
    text.replace(&plan.model, "<model>")
}

#[test]
fn plan_file() {
    let plan = world().plan();
    insta::assert_snapshot!(unnamed(&plan, plan.to_json()));
}

#[test]
fn report() {
    let world = world();
    let (request, plan) = (world.request(), world.plan());
    let comparisons = vec![
        greedy_by_priority(request, &[1, 0]).unwrap(),
        cheapest_per_node(request).unwrap(),
        greedy_by_priority(request, &[0]).unwrap(),
    ];
    for comparison in &comparisons {
        assert!(comparison.objective.unwrap() >= plan.certificate.objective);
    }
    let report = Report::new(&world.graph, &plan, comparisons);
    insta::assert_snapshot!(report.to_string());
    insta::assert_snapshot!(unnamed(&plan, serde_json::to_string_pretty(&report).unwrap()));
}

#[test]
fn explanation() {
    let world = world();
    let plan = world.plan();
    let explanation = explain(world.request(), &plan).unwrap();
    let mut text = String::new();
    for node in &explanation.nodes {
        let cost = node.cost.unwrap();
        text += &format!(
            "{} {} ({}): {} {}\n",
            node.node, node.name, node.op, node.device, cost.time
        );
        for other in &node.alternatives {
            text += &format!("  not {}: {}\n", other.device, other.reason);
        }
    }
    for unlock in &explanation.unlocks {
        let Polished {
            op,
            device,
            nodes,
            words,
            derived,
        } = Polished::from(unlock);
        text += &format!("unlock {op} on {device} ({nodes} nodes): saves {words}{derived}\n");
    }
    insta::assert_snapshot!(text);
}

struct Polished<'a> {
    op: &'a str,
    device: &'a str,
    nodes: u32,
    words: &'a str,
    derived: &'static str,
}

impl<'a> From<&'a polychip_partitioner::Unlock> for Polished<'a> {
    fn from(unlock: &'a polychip_partitioner::Unlock) -> Self {
        let derived = if unlock.derived { ", derived" } else { "" };
        Self {
            op: &unlock.op,
            device: &unlock.device,
            nodes: unlock.nodes,
            words: &unlock.words,
            derived,
        }
    }
}

#[test]
fn every_reason_is_found() {
    let mut world = world();
    world.options.pins = [(0, 0)].into();
    world.targets[1].memory_limit = Some(40_000);
    let plan = world.plan();
    let request = world.request();
    let reasons = |request: Request<'_>, plan: &Plan| -> Vec<Reason> {
        let explanation = explain(request, plan).unwrap();
        explanation
            .nodes
            .into_iter()
            .flat_map(|node| node.alternatives)
            .map(|other| other.reason)
            .collect()
    };
    let all = reasons(request, &plan);
    assert_eq!(all[0], Reason::Pinned { to: "cpu:0".into() });
    assert_eq!(
        all[2],
        Reason::Unsupported {
            code: 2,
            words: "op Softmax".into()
        }
    );
    // a device out of use, and a node without a cost there
    let mut idle = world.targets.clone();
    idle[1].quarantined = Some("device lost".into());
    let lost = Request {
        targets: &idle,
        ..request
    };
    let all = reasons(lost, &partition(lost).unwrap());
    assert!(all.iter().all(|reason| *reason
        == Reason::Quarantined {
            words: "device lost".into()
        }));
    let mut unpriced = CostTable::new(5, 2);
    for node in 0..5 {
        unpriced.set_node(node, 0, *world.costs.node(node, 0).unwrap());
    }
    let unknown = Request {
        costs: &unpriced,
        ..request
    };
    let plan = partition(unknown).unwrap();
    assert!(reasons(unknown, &plan).contains(&Reason::NoCost));
    // without links every other device is out of reach; with little memory the limit is the reason
    let lonely = Request {
        links: &LinkTable::new(2),
        ..request
    };
    let explanation = explain(lonely, &plan).unwrap();
    assert_eq!(explanation.nodes[4].alternatives[0].reason, Reason::NoLink);
    let mut small = world.targets.clone();
    small[1].memory_limit = Some(100);
    let tight = Request {
        targets: &small,
        ..request
    };
    let words = reasons(tight, &partition(tight).unwrap());
    assert!(
        words
            .iter()
            .any(|reason| reason.to_string().contains("memory of null:0: limit 100 bytes")),
        "{words:?}"
    );
}

#[test]
fn counterfactuals_are_differences_of_whole_plans() {
    let world = world();
    let plan = world.plan();
    let explanation = explain(world.request(), &plan).unwrap();
    let mut compared = 0;
    for node in &explanation.nodes {
        for other in &node.alternatives {
            let Reason::Dearer { by, time_ps, .. } = other.reason else {
                continue;
            };
            // pin every node where it is, and this one elsewhere
            let mut pinned = world.options.clone();
            for (index, device) in plan.devices_of_nodes(5).into_iter().enumerate() {
                pinned.pins.insert(index, device.unwrap().index());
            }
            let device = plan
                .devices
                .iter()
                .position(|name| *name == other.device)
                .unwrap();
            pinned.pins.insert(node.node as usize, device);
            let moved = partition(world.request().with(&pinned)).unwrap();
            assert_eq!(moved.certificate.objective, plan.certificate.objective + by);
            assert_eq!(by as i64, time_ps);
            compared += 1;
        }
    }
    assert!(compared >= 4);
}
