//! Precompiled plans run, and stale ones are refused, for each reason.

use std::time::Duration;

use polychip_graph::{Constant, Graph, Node, Tensor};
use polychip_ops::{DType, Dim, Op, TensorType};

use super::*;
use crate::{Runtime, Session};

/// `y = relu(x + w)` of f32 `[rows, 4]`.
fn model(runtime: &Runtime, rows: Dim, w: f32) -> Model {
    let mut graph = Graph::new("bias");
    let ty = TensorType::new(DType::F32, vec![rows, Dim::Known(4)]);
    let x = graph.add_tensor(Tensor::new("x", ty.clone()));
    let bytes: Vec<u8> = [w, -1.0, 0.5, 0.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let w = graph.add_tensor(Tensor::constant(
        "w",
        TensorType::known(DType::F32, &[4]),
        Constant::new(bytes),
    ));
    let h = graph.add_tensor(Tensor::new("h", ty.clone()));
    let y = graph.add_tensor(Tensor::new("y", ty));
    graph.add_node(Node::new(Op::Add, vec![Some(x), Some(w)], vec![Some(h)]));
    graph.add_node(Node::new(Op::Relu, vec![Some(h)], vec![Some(y)]));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    runtime.load_graph("bias", graph)
}

fn runtime() -> Runtime {
    Runtime::builder().only_given_folders().build().unwrap()
}

fn policy() -> Policy {
    Policy::latency().threads(1)
}

/// What a session gives for rows of `[2, 2, 2, 2]`.
fn answer(session: &Session, rows: usize) -> Vec<f32> {
    let mut x = session.input("x").unwrap();
    x.resize(&[rows, 4]).unwrap();
    x.write(&vec![2.0f32; rows * 4]).unwrap();
    let outputs = session
        .submit(&[&x])
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    outputs.get("y").unwrap().values::<f32>().unwrap().into_owned()
}

#[test]
fn precompiled_session_matches_without_compiling() {
    let runtime = runtime();
    let model = model(&runtime, Dim::Known(3), 1.0);
    let made = runtime.precompile(&model, &policy(), &[]).unwrap();
    assert!(made.blobs().iter().all(Option::is_some) && !made.blobs().is_empty());
    let session = runtime
        .session_precompiled(&model, policy(), std::slice::from_ref(&made))
        .unwrap();
    let report = session.report();
    assert!(report.parts.iter().all(|part| part.cached));
    assert_eq!(session.plan().as_ref(), Some(made.plan()));
    let usual = runtime.session(&model, policy()).unwrap();
    assert_eq!(answer(&session, 3), answer(&usual, 3));
    // one plan, not none and not two
    for wrong in [vec![], vec![made.clone(), made]] {
        let error = runtime.session_precompiled(&model, policy(), &wrong).unwrap_err();
        assert!(error.to_string().contains("1 precompiled plan"), "{error}");
    }
}

#[test]
fn precompiled_sizes_are_used_and_others_planned() {
    let runtime = runtime();
    let model = model(&runtime, Dim::symbol("n"), 1.0);
    let made: Vec<Precompiled> = [2, 5]
        .map(|n| runtime.precompile(&model, &policy(), &[("n", n)]).unwrap())
        .into();
    let session = runtime.session_precompiled(&model, policy(), &made).unwrap();
    let usual = runtime.session(&model, policy()).unwrap();
    for rows in [5, 2, 3] {
        assert_eq!(answer(&session, rows), answer(&usual, rows));
    }
    let shapes = session.report().shapes.unwrap();
    assert_eq!(
        (shapes.hits, shapes.misses),
        (2, 1),
        "the sizes of the last run alone were planned for"
    );
    let wrong = Precompiled {
        sizes: BTreeMap::from([("m".to_owned(), 2)]),
        ..made[0].clone()
    };
    let error = runtime
        .session_precompiled(&model, policy(), &[wrong])
        .unwrap_err();
    assert!(error.to_string().contains("\"n\""), "{error}");
}

/// Why a session of this is refused.
fn refusal(runtime: &Runtime, model: &Model, policy: Policy, made: &Precompiled) -> String {
    let refused = runtime.session_precompiled(model, policy, std::slice::from_ref(made));
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadPlan, "{error}");
    error.to_string()
}

#[test]
fn stale_precompiled_plan_is_refused_with_the_reason() {
    let runtime = runtime();
    let rows = || Dim::Known(3);
    let model_of = |w| model(&runtime, rows(), w);
    let model = model_of(1.0);
    let made = runtime.precompile(&model, &policy(), &[]).unwrap();
    let changed = |change: &dyn Fn(&mut Precompiled)| {
        let mut made = made.clone();
        change(&mut made);
        refusal(&runtime, &model, policy(), &made)
    };
    let of_device = |change: &dyn Fn(&mut Stamp)| changed(&|made| change(&mut made.devices[0]));
    let said = [
        (
            changed(&|made| made.version = "0.0.1".into()),
            "version of Polychip was \"0.0.1\"",
        ),
        (
            changed(&|made| made.contract = [0, 9]),
            "contract with plugins was \"0.9\"",
        ),
        (
            of_device(&|device| device.plugin_version = "v".into()),
            "plugin's version was \"v\"",
        ),
        (
            of_device(&|device| device.plugin_build = "b".into()),
            "plugin's build was \"b\"",
        ),
        (of_device(&|device| device.model = "m".into()), "model was \"m\""),
        (
            of_device(&|device| device.driver = "d".into()),
            "driver was \"d\"",
        ),
        (
            of_device(&|device| device.settings = "s".into()),
            "settings was \"s\"",
        ),
        (
            changed(&|made| {
                made.devices[0].name = "npu:9".into();
                made.plan.devices[0] = "npu:9".into();
            }),
            "device npu:9 is not there any more",
        ),
        (changed(&|made| made.parts[0][0] ^= 1), "other nodes or constants"),
        (changed(&|made| made.blobs.clear()), "has no part 0"),
        (changed(&|made| made.plan.model = "00".repeat(32)), "model"),
        // of another build, or torn
        (
            changed(&|made| made.blobs[0] = Some(Bytes::from_static(b"torn"))),
            "part 0 on cpu",
        ),
        (
            refusal(&runtime, &model_of(1.5), policy(), &made),
            "other nodes or constants",
        ),
        (
            refusal(&runtime, &model, policy().threads(2), &made),
            "threads was 1",
        ),
        (
            refusal(&runtime, &model, policy().precision(Precision::Reduced), &made),
            "precision was \"exact\"",
        ),
        (
            refusal(&runtime, &model, Policy::energy().threads(1), &made),
            "objective was",
        ),
        (
            refusal(&runtime, &model, policy().devices(["cpu"]), &made),
            "devices asked for was \"all\"",
        ),
        (
            refusal(&runtime, &model, policy().pin("*", "cpu:0"), &made),
            "pinned nodes was []",
        ),
        (
            refusal(
                &runtime,
                &model,
                policy().longest_part(Duration::from_secs(1)),
                &made,
            ),
            "longest part",
        ),
    ];
    for (said, wanted) in said {
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
    }
}
