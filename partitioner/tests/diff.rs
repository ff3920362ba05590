//! Differences of plans: each cause of a move is named, parts keep their ids, files keep what they need.

use polychip_graph::{Graph, Node, NodeId, Tensor};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{
    Because, Cost, CostTable, Link, LinkTable, Objective, Options, Plan, Provenance, Refusal, Request,
    Target, Time, diff, partition, record,
};

/// A chain of named nodes on two devices, of which `npu:0` is cheaper for all.
#[derive(Clone)]
struct World {
    graph: Graph,
    targets: Vec<Target>,
    costs: CostTable,
    options: Options,
    objective: Objective,
}

fn chain(names: &[&str]) -> Graph {
    let mut graph = Graph::new("chain");
    let tensor = |graph: &mut Graph, name: &str| {
        graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])))
    };
    let mut last = tensor(&mut graph, "x");
    graph.inputs.push(last);
    for name in names {
        let next = tensor(&mut graph, &format!("{name}_out"));
        graph.add_node(Node::new(Op::Relu, vec![Some(last)], vec![Some(next)]).named(*name));
        last = next;
    }
    graph.outputs.push(last);
    graph
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn world(names: &[&str]) -> World {
    let nodes = names.len();
    let mut costs = CostTable::new(nodes, 2);
    for node in 0..nodes {
        price(&mut costs, node, 0, 1000);
        price(&mut costs, node, 1, 100);
    }
    World {
        graph: chain(names),
        targets: vec![Target::new("cpu:0", nodes), Target::new("npu:0", nodes)],
        costs,
        options: Options::default(),
        objective: Objective::latency(),
    }
}

fn price(costs: &mut CostTable, node: usize, device: usize, ns: u64) {
    let time = Time::from_nanoseconds(ns);
    costs.set_node(node, device, Cost::time(time, Provenance::Estimated));
}

impl World {
    fn plan(&self) -> Plan {
        let mut links = LinkTable::new(self.targets.len());
        for from in 0..self.targets.len() {
            for to in 0..self.targets.len() {
                links.set(from, to, Link::native(Time::from_nanoseconds(10)));
            }
        }
        let request = Request {
            objective: self.objective,
            options: &self.options,
            ..Request::new(&self.graph, &self.targets, &self.costs, &links)
        };
        let mut plan = partition(request).unwrap();
        plan.nodes = record(request);
        // as a file holds it
        let read = Plan::from_json(&plan.to_json()).unwrap();
        assert_eq!(read, plan);
        read
    }

    fn refuse(&mut self, node: usize, device: usize) {
        let words = "known to be slow".to_owned();
        self.targets[device].refusals[node] = Some(Refusal { code: 9, words });
    }
}

#[test]
fn nothing_changed() {
    let plan = world(&NAMES).plan();
    let same = diff(&plan, &plan);
    assert!(
        same.same_model
            && same.moved.is_empty()
            && same.parts_added.is_empty()
            && same.parts_removed.is_empty()
    );
    assert_eq!((same.nodes, same.parts_kept, same.dearer_ppm), (6, 1, Some(0)));
}

#[test]
fn lost_support_quotes_the_device() {
    let old = world(&NAMES);
    let mut new = old.clone();
    new.refuse(2, 1);
    let found = diff(&old.plan(), &new.plan());
    let [moved] = &found.moved[..] else {
        panic!("{found}")
    };
    assert_eq!(
        (&*moved.name, &*moved.op, &*moved.from, &*moved.to),
        ("c", "Relu", "npu:0", "cpu:0")
    );
    let lost = Because::SupportLost {
        device: "npu:0".into(),
        words: "known to be slow (code 9)".into(),
    };
    assert_eq!(moved.because, [lost]);
    // 600 ns before; now 500 + 1000 + two crossings of 10
    assert_eq!(found.after.time.nanoseconds(), 1520);
    assert_eq!(found.dearer_ppm, Some(1_533_333));
    assert_eq!(
        (
            found.parts_kept,
            found.parts_removed.len(),
            found.parts_added.len()
        ),
        (0, 1, 3)
    );
    let text = found.to_string();
    assert!(
        text.starts_with("1 of 6 nodes moved; ") && text.contains("+153.33 %"),
        "{text}"
    );
    assert!(
        text.contains("  c (Relu): npu:0 → cpu:0: npu:0 no longer supports it: known to be slow (code 9)"),
        "{text}"
    );
    // and back
    let back = diff(&new.plan(), &old.plan());
    assert!(
        matches!(&back.moved[0].because[..], [Because::SupportGained { device, .. }] if device == "npu:0")
    );
}

#[test]
fn move_reasons_are_distinguished() {
    let old = world(&NAMES);
    let because = |new: &World| {
        let found = diff(&old.plan(), &new.plan());
        found
            .moved
            .into_iter()
            .map(|moved| (moved.name, moved.because))
            .collect::<Vec<_>>()
    };
    let mut dearer = old.clone();
    price(&mut dearer.costs, 3, 1, 5000);
    let found = because(&dearer);
    assert!(
        matches!(&found[..], [(name, because)] if name == "d" && matches!(
            &because[..],
            [Because::Cost { device, before, after }]
                if device == "npu:0" && before.time.nanoseconds() == 100 && after.time.nanoseconds() == 5000
        )),
        "{found:?}"
    );

    let mut pinned = old.clone();
    pinned.options.pins.insert(0, 0);
    let pins = Because::Pins {
        before: None,
        after: Some("cpu:0".into()),
    };
    assert_eq!(because(&pinned), [("a".to_owned(), vec![pins])]);

    // c is dear on the NPU, and both its neighbours now are too: the node between them goes along
    let mut around = old.clone();
    for node in [1, 3] {
        around.refuse(node, 1);
    }
    around.targets[1].launch = Time::from_nanoseconds(2000);
    let found = because(&around);
    let c = found.iter().find(|(name, _)| name == "c").unwrap();
    assert_eq!(c.1, [Because::Neighbours]);

    let mut gone = old.clone();
    gone.targets.truncate(1);
    gone.costs = CostTable::new(6, 1);
    (0..6).for_each(|node| price(&mut gone.costs, node, 0, 1000));
    let found = diff(&old.plan(), &gone.plan());
    assert_eq!(
        (found.moved.len(), &found.devices_removed[..]),
        (6, &["npu:0".to_owned()][..])
    );
    assert!(matches!(
        &found.moved[0].because[..],
        [Because::DeviceRemoved { .. }]
    ));

    let mut energy = pinned.clone();
    energy.objective = Objective::weighted(2, 0);
    let found = diff(&old.plan(), &energy.plan());
    assert!(found.objective.is_some() && found.moved[0].because.contains(&Because::Objective));
}

#[test]
fn parts_and_nodes_are_recognised_in_a_changed_model() {
    let mut old = world(&NAMES);
    old.refuse(3, 1);
    let mut new = world(&["new", "a", "b", "c", "d", "e", "f"]);
    new.refuse(0, 1);
    new.refuse(4, 1);
    let found = diff(&old.plan(), &new.plan());
    assert!(
        !found.same_model && found.moved.is_empty() && found.removed.is_empty(),
        "{found}"
    );
    assert_eq!(
        found.added.iter().map(|node| &*node.name).collect::<Vec<_>>(),
        ["new"]
    );
    // a, b, c on the NPU, d on the CPU, e, f on the NPU: all three as before
    assert_eq!(
        (
            found.parts_kept,
            found.parts_added.len(),
            found.parts_removed.len()
        ),
        (3, 1, 0)
    );
}

#[test]
fn unnamed_nodes_are_matched_by_content() {
    let mut old = world(&["", "", ""]);
    old.refuse(1, 1);
    let mut new = world(&["", "", "", ""]);
    new.refuse(1, 1);
    let found = diff(&old.plan(), &new.plan());
    assert_eq!((found.nodes, found.added.len(), found.moved.len()), (3, 1, 0));
}

#[test]
fn plans_without_records_still_compare() {
    let strip = |world: &World| Plan {
        nodes: Vec::new(),
        ..world.plan()
    };
    let old = world(&NAMES);
    let mut new = old.clone();
    new.refuse(2, 1);
    let found = diff(&strip(&old), &strip(&new));
    assert_eq!(found.moved[0].because, [Because::Unrecorded]);
    assert!(
        found
            .to_string()
            .contains("  node 2: npu:0 → cpu:0: a plan does not record")
    );
}

#[test]
fn each_record_is_one_line_of_the_file() {
    let plan = world(&NAMES).plan();
    let text = plan.to_json();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("    {\"name\":"))
        .collect();
    assert_eq!(lines.len(), 6);
    assert!(
        lines[0].starts_with("    {\"name\":\"a\",\"op\":\"Relu\",\"key\":\""),
        "{}",
        lines[0]
    );
    let graph = chain(&NAMES);
    assert_eq!(graph.node(NodeId::new(0)).name, "a");
}

/// The world of [`world`] in which all costs were measured, at a third of what was guessed.
fn measured(world: &World) -> World {
    let mut measured = world.clone();
    for node in 0..world.costs.nodes() {
        for device in 0..world.targets.len() {
            let guessed = world.costs.node(node, device).unwrap().time;
            let time = Time::from_picoseconds(guessed.picoseconds() / 3);
            measured
                .costs
                .set_node(node, device, Cost::time(time, Provenance::Measured));
        }
    }
    measured
}

#[test]
fn measured_plan_is_not_dearer_than_an_estimate() {
    // guessed: the CPU at a tenth of what it takes, so that all goes there; measured: the NPU is three times as fast
    let guess = {
        let mut world = world(&NAMES);
        (0..6).for_each(|node| price(&mut world.costs, node, 0, 50));
        world
    };
    let known = {
        let mut world = guess.clone();
        for node in 0..6 {
            for (device, ns) in [(0, 300), (1, 95)] {
                let time = Time::from_nanoseconds(ns);
                world
                    .costs
                    .set_node(node, device, Cost::time(time, Provenance::Measured));
            }
        }
        world
    };
    let (old, new) = (guess.plan(), known.plan());
    // by their own totals the new plan takes 90 % more
    assert_eq!(
        (old.totals.time.nanoseconds(), new.totals.time.nanoseconds()),
        (300, 570)
    );
    let found = diff(&old, &new);
    assert!(found.sources.differ);
    let compared = found.sources.compared.unwrap();
    assert!(compared.anew);
    // six nodes of 300 ns on the CPU
    assert_eq!(compared.before.time.nanoseconds(), 1800);
    assert_eq!(compared.after.time.nanoseconds(), 570);
    assert_eq!(found.dearer_ppm, Some(-683_333));
    assert_eq!(
        found.headline(),
        "the costs come from different sources, estimated before and composed now; both plans by the better of them \
         (composed): predicted time 1.800 µs → 570.000 ns, -68.33 %; 6 of 6 nodes moved"
    );
    // and both sources stand at the figures of each plan
    let text = found.to_string();
    assert!(
        text.contains("predicted time: 300.000 ns (estimated) → 570.000 ns (composed)"),
        "{text}"
    );
    // the other way about
    let back = diff(&new, &old);
    assert!(back.dearer_ppm.unwrap() > 0, "{back}");
}

#[test]
fn figures_not_measured_for_both_are_not_compared() {
    let old = world(&NAMES);
    let mut new = measured(&old);
    // nothing is known of the NPU any more but a guess, and all nodes are on the CPU now
    for node in 0..6 {
        price(&mut new.costs, node, 1, 100_000);
    }
    let found = diff(&old.plan(), &new.plan());
    assert!(
        found.sources.differ && found.sources.compared.is_none(),
        "{found}"
    );
    assert_eq!(found.dearer_ppm, None);
    assert!(
        found.headline().starts_with(
            "the costs come from different sources, estimated before and composed now; nothing known of both plans \
             is from one source, so their time is not compared"
        ),
        "{}",
        found.headline()
    );
}

#[test]
fn costs_of_a_renamed_device_are_not_used() {
    let old = world(&NAMES);
    let new = measured(&old);
    let named = |world: &World, cpu: &str| Plan {
        device_names: vec![cpu.to_owned(), "Neural".to_owned()],
        ..world.plan()
    };
    let same = diff(&named(&old, "Big core"), &named(&new, "Big core"));
    assert!(same.sources.compared.is_some_and(|found| found.anew));
    let mut other = named(&new, "Big core");
    other.device_names[1] = "Another NPU".into();
    let found = diff(&named(&old, "Big core"), &other);
    assert!(found.sources.compared.is_none(), "{found}");
    assert!(
        found
            .to_string()
            .contains("device npu:0 was Neural, is Another NPU"),
        "{found}"
    );
}

#[test]
fn devices_are_named_and_counted() {
    let old = world(&NAMES);
    let mut new = old.clone();
    new.refuse(2, 1);
    let named = |world: &World| Plan {
        device_names: vec!["Big core".into(), "Neural".into()],
        ..world.plan()
    };
    let found = diff(&named(&old), &named(&new));
    let text = found.to_string();
    assert!(
        text.contains("  c (Relu): Neural (npu:0) → Big core (cpu:0): Neural (npu:0) no longer supports it"),
        "{text}"
    );
    assert!(text.contains("Big core (cpu:0), 1 node\n"), "{text}");
    assert!(
        text.starts_with("1 of 6 nodes moved; predicted time 600.000 ns → 1.520 µs (estimated), +153.33 %\n"),
        "{text}"
    );
    // of a model of one node, too
    let one = world(&["a"]).plan();
    assert!(diff(&one, &one).headline().starts_with("0 of 1 node moved"));
    let read = Plan::from_json(&named(&old).to_json()).unwrap();
    assert_eq!(read.device_names, ["Big core", "Neural"]);
}

#[test]
fn concurrent_plans_are_compared_by_makespan() {
    let old = World {
        objective: Objective::makespan(),
        ..world(&NAMES)
    };
    let mut new = old.clone();
    new.refuse(2, 1);
    let (old, new) = (old.plan(), new.plan());
    let found = diff(&old, &new);
    let makespan = |plan: &Plan| plan.schedule.as_ref().unwrap().makespan;
    let compared = found.sources.compared.unwrap();
    assert_eq!(
        (compared.before.time, compared.after.time),
        (makespan(&old), makespan(&new))
    );
    // priced anew a schedule is kept, too
    let measured = measured(&World {
        objective: Objective::makespan(),
        ..world(&NAMES)
    });
    let compared = diff(&old, &measured.plan()).sources.compared.unwrap();
    assert!(compared.anew);
    assert_eq!(compared.before.time.nanoseconds(), 200);
}
