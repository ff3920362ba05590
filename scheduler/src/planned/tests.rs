//! Costs learnt from measured parts, over a plan and its successor.

use polychip_graph::{Node, Tensor, fingerprint};
use polychip_ops::{DType, Op, TensorType};
use polychip_partitioner::{Part, Refusal, Time};
use polychip_profile::{Measurement, PartKey};

use super::*;
use crate::Runtime;
use crate::cost_model::part_graph;

/// Two devices; the second runs what the first does not, and `Abs` dearly.
const SCRIPT: &str = "
[[device]]
ops = [\"Abs\", \"Neg\"]
launch_ns = 1000
cost = { fixed_ns = 10000 }
[[device]]
ops = [\"Abs\", \"Tanh\"]
launch_ns = 1000
cost = { fixed_ns = 90000 }
";

/// What a measured part takes beyond the sum of its nodes.
const LOST: Time = Time::from_nanoseconds(4_000);

/// `Neg`, `Tanh`, `Abs`, `Neg`, `Tanh`, `Neg`, one after the other.
fn chain() -> Model {
    let mut graph = Graph::new("chain");
    let mut add = |name: String| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
    let tensors: Vec<_> = (0..7).map(|index| add(format!("t{index}"))).collect();
    let ops = [Op::Neg, Op::Tanh, Op::Abs, Op::Neg, Op::Tanh, Op::Neg];
    for (op, pair) in ops.into_iter().zip(tensors.windows(2)) {
        graph.add_node(Node::new(op, vec![Some(pair[0])], vec![Some(pair[1])]));
    }
    (graph.inputs, graph.outputs) = (vec![tensors[0]], vec![tensors[6]]);
    Model::made("chain", graph)
}

/// Keeps in the profile that a part takes as long as its nodes and what it loses.
fn measure(runtime: &Runtime, planned: &Planned, part: &Part, policy: &Policy) {
    let device = &planned.devices()[part.device.index()];
    let nodes = part.nodes.iter();
    let nodes: Time = nodes
        .filter_map(|node| planned.request().costs.node(*node as usize, part.device.index()))
        .try_fold(Time::ZERO, |sum, cost| sum.checked_add(cost.time))
        .unwrap();
    let key = PartKey {
        device: &device.identity(),
        fingerprint: &fingerprint::structure(&part_graph(planned.graph(), part)),
        operating_point: &policy.settings().operating_point(device.info().kind),
    };
    let measurement = Measurement {
        time: nodes.checked_add(LOST).unwrap(),
        energy_uj: None,
    };
    runtime.profile().record(key, true, &[measurement; 8]).unwrap();
}

#[test]
fn replan_charges_each_border_once() {
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", SCRIPT)
        .virtual_time()
        .only_given_folders()
        .build()
        .unwrap();
    let (model, policy) = (chain(), Policy::latency().devices(["null"]));
    let launch = |planned: &Planned| planned.targets()[0].launch.nanoseconds();

    let unmeasured = runtime.plan(&model, &policy).unwrap();
    assert_eq!(launch(&unmeasured), 1_000);
    for part in unmeasured
        .plan()
        .parts
        .iter()
        .filter(|part| part.device.index() == 0)
    {
        measure(&runtime, &unmeasured, part, &policy);
    }
    let planned = runtime.plan(&model, &policy).unwrap();
    assert_eq!(launch(&planned), 1_000 + 4_000);

    // without `Abs` the device has a part that it had not: a `Neg` alone, which was measured
    let replanned = planned
        .again(&runtime.0, policy.settings(), |targets| {
            let words = "refused".to_owned();
            targets[0].refusals[2] = Some(Refusal { code: 13, words });
        })
        .unwrap();
    let is_new = |part: &&Part| part.device.index() == 0 && part.nodes == [3];
    let new = replanned.plan().parts.iter().find(is_new).expect("a new part");
    assert!(
        replanned.request().costs.part(&[3], 0).is_some(),
        "{new:?} was measured"
    );
    assert_eq!(
        launch(&replanned),
        1_000 + 4_000,
        "what parts lose is charged once"
    );
}
