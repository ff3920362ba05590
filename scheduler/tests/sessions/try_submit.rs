//! Submitting without waiting: a run that would have to wait for a run, a plan or a device is refused at once, and
//! what it lacks is made on another thread.

use std::path::Path;
use std::time::Duration;

use polychip::{Error, ErrorKind, Input, Policy, Run, Runtime, Session};

use crate::model::{F32, Model, node, port};

const PATIENCE: Duration = Duration::from_secs(60);
/// Calls until a plan must be ready, with a pause after each.
const CALLS: usize = 6_000;
const PAUSE: Duration = Duration::from_millis(10);

/// `y = -x` over n elements.
fn model(size: &str) -> Model {
    Model {
        nodes: vec![node("Neg", "neg", &["x"], &["y"])],
        inputs: vec![port("x", F32, &[size])],
        outputs: vec![port("y", F32, &[size])],
        ..Model::default()
    }
}

fn session(script: &str, size: &str, policy: Policy) -> Session {
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", format!("[[device]]\n{script}"))
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load_bytes("made.onnx", model(size).bytes()).unwrap();
    runtime
        .session(&model, policy.learn(polychip::Learn::No))
        .unwrap()
}

fn on_null() -> Policy {
    Policy::latency().devices(["null"])
}

fn input(session: &Session, values: &[f32]) -> Input {
    let mut input = session.input("x").unwrap();
    input.resize(&[values.len()]).unwrap();
    input.write(values).unwrap();
    input
}

fn answer(run: Run) -> Vec<f32> {
    let outputs = run.wait(PATIENCE).unwrap();
    outputs.at(0).unwrap().values::<f32>().unwrap().to_vec()
}

/// What comes of a call that is made until it is not refused.
fn eventually(session: &Session, input: &Input) -> Result<Run, Error> {
    for _ in 0..CALLS {
        match session.try_submit(&[input]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            ended => return ended,
        }
    }
    panic!("the plan is not ready");
}

fn refused(result: Result<Run, Error>, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

/// A script whose compilations wait for a file.
fn waiting_for(file: &Path) -> String {
    format!("compile_waits_for = {:?}\n", file.display().to_string())
}

#[test]
fn new_sizes_are_refused_until_their_plan_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let session = session(&waiting_for(&go), "n", on_null());
    let (two, three) = (input(&session, &[1.0, 2.0]), input(&session, &[1.0, 2.0, 3.0]));
    for input in [&two, &two, &three] {
        // no compilation ends before the file exists: a call that waited would not return
        refused(
            session.try_submit(&[input]),
            "there is no plan for these sizes yet",
        );
    }
    std::fs::write(&go, b"").unwrap();
    assert_eq!(answer(eventually(&session, &two).unwrap()), [-1.0, -2.0]);
    assert_eq!(answer(eventually(&session, &three).unwrap()), [-1.0, -2.0, -3.0]);
    // both plans are there from now on
    assert_eq!(answer(session.try_submit(&[&two]).unwrap()), [-1.0, -2.0]);
}

#[test]
fn full_session_is_refused_with_the_runs_in_flight() {
    let session = session("", "2", on_null().in_flight(1));
    let input = input(&session, &[1.0, 2.0]);
    let first = session.try_submit(&[&input]).unwrap();
    refused(
        session.try_submit(&[&input]),
        "1 run is in flight, as many as the policy allows",
    );
    let blocking = session.submit(&[&input]).unwrap_err();
    assert_eq!(blocking.kind(), ErrorKind::InFlight);
    assert_eq!(answer(first), [-1.0, -2.0]);
    assert_eq!(answer(session.try_submit(&[&input]).unwrap()), [-1.0, -2.0]);
    session.close();
    assert_eq!(
        session.try_submit(&[&input]).unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn session_whose_device_was_lost_is_refused_until_it_has_another_plan() {
    let session = session("fault = [{ kind = \"lost\", at = 1 }]\n", "2", on_null().retry(0));
    let input = input(&session, &[1.0, 2.0]);
    assert_eq!(answer(session.try_submit(&[&input]).unwrap()), [-1.0, -2.0]);
    let lost = session
        .try_submit(&[&input])
        .and_then(|run| run.wait(PATIENCE).map(drop));
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::DeviceLost);
    refused(session.try_submit(&[&input]), "a device of the plan was lost");
    assert_eq!(answer(eventually(&session, &input).unwrap()), [-1.0, -2.0]);
}

#[test]
fn failure_of_a_plan_is_returned_once() {
    let script = "refuse_compile = [{ node = \"*\", class = \"unsupported\", detail = \"no such size\" }]\n";
    let session = session(script, "n", on_null());
    let two = input(&session, &[1.0, 2.0]);
    refused(session.try_submit(&[&two]), "there is no plan");
    let error = eventually(&session, &two).unwrap_err();
    assert!(error.to_string().contains("no such size"), "{error}");
    refused(session.try_submit(&[&two]), "there is no plan");
}
