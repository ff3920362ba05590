//! A device that refuses a part when it is compiled: a new plan, reported and remembered.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

use std::path::Path;
use std::time::Duration;

use model::{F32, node, port};
use polychip::{Builder, Error, ErrorKind, EventKind, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);
const OPS: [&str; 12] = [
    "Neg", "Abs", "Sin", "Cos", "Tanh", "Sigmoid", "Relu", "Erf", "Atan", "Softplus", "Sqrt", "Floor",
];
const NODES: usize = OPS.len();

/// A chain of nodes n0, n1, … over `x` [4], each of an op of its own.
fn chain(folder: &Path) -> String {
    let name = |index: usize| {
        if index == 0 {
            "x".into()
        } else {
            format!("t{index}")
        }
    };
    let nodes = (0..NODES)
        .map(|index| {
            node(
                OPS[index],
                &format!("n{index}"),
                &[&name(index)],
                &[&name(index + 1)],
            )
        })
        .collect();
    let made = model::Model {
        nodes,
        inputs: vec![port("x", F32, &["4"])],
        outputs: vec![port("t12", F32, &["4"])],
        ..model::Model::default()
    };
    made.write(folder, "chain.onnx")
}

fn builder(script: &str) -> Builder {
    Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", script)
        .virtual_time()
        .only_given_folders()
}

/// A device that is far cheaper than the other.
fn device(rest: &str) -> String {
    format!(
        "[[device]]\nname = \"npu\"\nlaunch_ns = 1\ncost = {{ fixed_ns = 1, ps_per_mac = 0.001 }}\n{rest}\n\
         [[device]]\nname = \"slow\"\ncost = {{ fixed_ns = 1e6 }}\n"
    )
}

/// Both scripted devices.
fn both() -> Policy {
    Policy::latency().devices(["null"])
}

fn refuse(what: &str) -> String {
    device(&format!("refuse_compile = [{what}]"))
}

fn session(script: &str, policy: Policy) -> Result<Session, Error> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = builder(script).build()?;
    let model = runtime.load(chain(folder.path()))?;
    runtime.session(&model, policy)
}

/// What the CPU computes of the chain.
fn wanted() -> Vec<f32> {
    let session = session("", Policy::latency().devices(["cpu"])).unwrap();
    run(&session)
}

fn right(session: &Session) {
    for (found, wanted) in run(session).iter().zip(wanted()) {
        assert!((found - wanted).abs() <= 1e-5, "{found} instead of {wanted}");
    }
}

fn run(session: &Session) -> Vec<f32> {
    let mut input = session.input("x").unwrap();
    input.write(&[1.0f32, -2.0, 3.0, -4.0]).unwrap();
    let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
    outputs.at(0).unwrap().values::<f32>().unwrap().into_owned()
}

/// Names of the nodes that are on the slow device.
fn moved(session: &Session) -> Vec<String> {
    let planned = session.planned().unwrap();
    let slow = planned
        .devices()
        .iter()
        .position(|device| device.name() == "null:1");
    let placed = planned.plan().devices_of_nodes(NODES);
    planned
        .graph()
        .nodes()
        .zip(placed)
        .filter(|(_, device)| device.map(|device| device.index()) == slow)
        .map(|((_, node), _)| node.name.clone())
        .collect()
}

#[test]
fn only_the_refused_node_moves_and_is_reported() {
    for names in [false, true] {
        let script = refuse(&format!(
            "{{ node = \"n7\", code = 6001, detail = \"graph finalize failed\", names_node = {names} }}"
        ));
        let session = session(&script, both()).unwrap();
        assert_eq!(moved(&session), ["n7"]);
        right(&session);
        let report = session.report();
        assert_eq!(report.count(EventKind::Replanned), 1, "{report}");
        let words = "replanned: 1 node moved from null:0: graph finalize failed (vendor code 6001)";
        assert!(report.to_string().contains(words), "{report}");
    }
}

#[test]
fn refusal_during_precompile_moves_nodes() {
    let script = refuse("{ node = \"n7\", code = 6001, detail = \"graph finalize failed\" }");
    let folder = tempfile::tempdir().unwrap();
    let runtime = builder(&script).build().unwrap();
    let model = runtime.load(chain(folder.path())).unwrap();
    let made = runtime.precompile(&model, &both(), &[]).unwrap();
    let session = runtime
        .session_precompiled(&model, both(), std::slice::from_ref(&made))
        .unwrap();
    assert_eq!(moved(&session), ["n7"]);
    assert!(session.report().parts.iter().all(|part| part.cached));
    right(&session);
    // with no other device to go to, it is its error
    let error = runtime
        .precompile(&model, &Policy::latency().devices(["null:0"]), &[])
        .unwrap_err();
    assert!(error.to_string().contains("graph finalize failed"), "{error}");
}

#[test]
fn jointly_refused_nodes_move_together() {
    let script = refuse("{ node = \"n3\", with = \"n5\", detail = \"not in one graph\" }");
    let session = session(&script, both()).unwrap();
    let found = moved(&session);
    assert_eq!(found, ["n3", "n4", "n5"]);
    right(&session);
}

#[test]
fn device_that_refuses_everything_is_excluded() {
    for class in ["persistent", "unsupported", "out_of_memory", "transient"] {
        let script = refuse(&format!(
            "{{ node = \"*\", class = \"{class}\", detail = \"licence expired\" }}"
        ));
        let session = session(&script, both()).unwrap();
        assert_eq!(moved(&session).len(), NODES, "{class}");
        right(&session);
        assert!(
            session
                .report()
                .to_string()
                .contains("replanned: 12 nodes moved from null:0: licence expired"),
            "{}",
            session.report()
        );
    }
}

#[test]
fn transient_fault_moves_no_node() {
    let script = device("fault = [{ kind = \"compile\", at = 0, class = \"transient\" }]");
    let session = session(&script, both()).unwrap();
    assert_eq!(moved(&session), [""; 0]);
    let report = session.report();
    assert_eq!(
        (
            report.count(EventKind::Retried),
            report.count(EventKind::Replanned)
        ),
        (1, 0),
        "{report}"
    );
    right(&session);
}

#[test]
fn policy_can_forbid_replanning() {
    let script = refuse("{ node = \"n7\", code = 6001, detail = \"graph finalize failed\" }");
    let error = session(&script, both().replan(false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceFailed, "{error}");
    for words in ["null:0", "graph finalize failed", "6001"] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn refused_pinned_node_is_an_error() {
    let script = refuse("{ node = \"n7\", detail = \"graph finalize failed\" }");
    let error = session(&script, both().pin("n7", "null:0")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
    for words in ["\"n7\"", "pinned", "null:0", "graph finalize failed"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    // of a refused combination the pinned node stays and the others go
    let script = refuse("{ node = \"n3\", with = \"n4\", detail = \"not in one graph\" }");
    let session = session(&script, both().pin("n3", "null:0")).unwrap();
    let found = moved(&session);
    assert_eq!(found, ["n4"]);
    right(&session);
}

#[test]
fn error_without_devices_quotes_the_refusal() {
    let script = refuse("{ node = \"n7\", code = 6001, detail = \"graph finalize failed\" }");
    let error = session(&script, both().devices(["null:0"])).unwrap_err();
    for words in ["null:0", "graph finalize failed", "6001"] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn refusal_is_remembered_until_forgotten_or_new_build() {
    let folder = tempfile::tempdir().unwrap();
    let model = chain(folder.path());
    let profile = folder.path().join("device.profile");
    let refusing = refuse("{ node = \"n7\", code = 6001, detail = \"graph finalize failed\" }");
    let open = |script: &str| {
        let runtime = builder(script).profiles(&profile).build().unwrap();
        let session = runtime.session(&runtime.load(&model).unwrap(), both()).unwrap();
        (runtime, session)
    };
    let first = {
        let (_, session) = open(&refusing);
        moved(&session)
    };
    let (runtime, session) = open(&refusing);
    let report = session.report();
    assert_eq!(
        (
            report.count(EventKind::Avoided),
            report.count(EventKind::Replanned)
        ),
        (1, 0),
        "{report}"
    );
    assert!(
        report
            .to_string()
            .contains("refused them earlier: graph finalize failed"),
        "{report}"
    );
    assert_eq!(moved(&session), first);
    right(&session);
    assert!(runtime.profile().forget_refusals(None).unwrap() > 0);
    drop((runtime, session));
    let (_, session) = open(&device(""));
    assert_eq!(moved(&session), [""; 0], "forgotten: the device is asked anew");
    assert_eq!(session.report().events, []);
}

#[test]
fn device_lost_while_compiling_is_reset_once_then_excluded() {
    for (fault, left_out) in [("", false), ("fault = [{ kind = \"reset\", times = 9 }]", true)] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = builder(&device(fault)).build().unwrap();
        let model = runtime.load(chain(folder.path())).unwrap();
        let mut devices = runtime.devices().iter();
        let null = devices.find(|device| device.name() == "null:0").unwrap();
        let planned = runtime.plan(&model, &both()).unwrap();
        null.quarantine();
        let session = runtime.session_of(planned, both()).unwrap();
        let report = session.report();
        assert_eq!(report.count(EventKind::Lost), 1, "{report}");
        assert_eq!(report.count(EventKind::Reset), u64::from(!left_out), "{report}");
        assert_eq!(
            report.count(EventKind::ResetFailed),
            u64::from(left_out),
            "{report}"
        );
        assert_eq!(
            moved(&session).len(),
            if left_out { NODES } else { 0 },
            "{report}"
        );
        right(&session);
    }
}

#[test]
fn loss_with_several_parts_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = builder(&device("")).build().unwrap();
    let model = runtime.load(chain(folder.path())).unwrap();
    let policy = || both().pin("n6", "null:1");
    let planned = runtime.plan(&model, &policy()).unwrap();
    assert_eq!(planned.plan().parts.len(), 3);
    let mut devices = runtime.devices().iter();
    devices
        .find(|device| device.name() == "null:0")
        .unwrap()
        .quarantine();
    let session = runtime.session_of(planned, policy()).unwrap();
    let report = session.report();
    assert_eq!(
        (report.count(EventKind::Lost), report.count(EventKind::Reset)),
        (1, 1),
        "{report}"
    );
    assert_eq!(moved(&session), ["n6"], "{report}");
    right(&session);
}

#[test]
fn device_lost_during_bisection_is_reset() {
    let script = device(
        "refuse_compile = [{ node = \"n7\", code = 6001, detail = \"no\" }]\n\
         fault = [{ kind = \"compile\", class = \"device_lost\", at = 3 }]",
    );
    let session = session(&script, both()).unwrap();
    let report = session.report();
    assert_eq!(
        (report.count(EventKind::Lost), report.count(EventKind::Reset)),
        (1, 1),
        "{report}"
    );
    assert_eq!(moved(&session), ["n7"], "{report}");
    right(&session);
}
