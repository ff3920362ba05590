//! Replicas of a model on scripted devices and virtual time: each run uses one, rates add up, and a
//! slow device costs nothing.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[allow(dead_code, reason = "not every test crate makes every kind of runtime")]
#[path = "scripted/session.rs"]
mod session;

use std::collections::VecDeque;

use polychip::{EventKind, Policy, Session};
use session::{PATIENCE, filled, right, runtime};

/// A device on which each of the model's two nodes takes so many microseconds.
fn device(us: u64, more: &str) -> String {
    format!("[[device]]\ncost = {{ fixed_ns = {us}000, ps_per_byte = 0.0, ps_per_mac = 0.0 }}\n{more}\n")
}

fn planned(script: &str, policy: Policy) -> Session {
    let (runtime, model) = runtime(script);
    runtime.session(&model, policy.devices(["null"])).unwrap()
}

/// Runs of a session whose app keeps as many in flight as it may and waits for the oldest, per second of virtual time;
/// every answer is checked.
fn driven(session: &Session, runs: usize) -> f64 {
    let inputs: Vec<_> = (0..16u8).map(|value| filled(session, f32::from(value))).collect();
    let mut flying = VecDeque::new();
    let began = session.now_ns();
    let mut ended = 0;
    let mut most = usize::MAX;
    for at in 0..runs {
        let value = at % inputs.len();
        loop {
            if flying.len() < most {
                match session.submit(&[&inputs[value]]) {
                    Ok(run) => {
                        flying.push_back((run, value));
                        break;
                    }
                    Err(_) => most = flying.len(),
                }
            }
            let (run, value): (polychip::Run, usize) = flying.pop_front().unwrap();
            right(&run.wait(PATIENCE).unwrap(), value as f32);
            ended += 1;
        }
    }
    for (run, value) in flying {
        right(&run.wait(PATIENCE).unwrap(), value as f32);
        ended += 1;
    }
    let report = session.report();
    assert_eq!((ended, report.runs), (runs, runs as u64));
    runs as f64 * 1e9 / (session.now_ns() - began) as f64
}

/// Runs by replica.
fn shares(session: &Session) -> Vec<u64> {
    session.report().replicas.iter().map(|copy| copy.runs).collect()
}

#[test]
fn two_equal_devices_double_the_throughput() {
    let one = driven(&planned(&device(500, ""), Policy::throughput()), 400);
    let session = planned(&[device(500, ""), device(500, "")].concat(), Policy::throughput());
    let both = driven(&session, 400);
    assert!(both >= 1.9 * one, "{both} runs/s on two, {one} on one");
    let shares = shares(&session);
    assert!(
        shares.len() == 2 && shares.iter().all(|&runs| runs >= 180),
        "{shares:?}"
    );
    let plan = session.plan().unwrap();
    assert_eq!(plan.copies().count(), 2);
    assert_eq!(shares.iter().sum::<u64>(), 400, "each run takes one copy");
}

#[test]
fn slow_third_device_does_not_reduce_throughput() {
    let two = [device(500, ""), device(500, "")].concat();
    let without = driven(&planned(&two, Policy::throughput().in_flight(6)), 600);
    for slow in [2_000, 20_000, 500_000] {
        let three = [two.clone(), device(slow, "")].concat();
        let session = planned(&three, Policy::throughput().in_flight(6));
        let with = driven(&session, 600);
        assert!(
            with >= 0.98 * without,
            "{with} runs/s with a device of {slow} µs, {without} without: {:?}",
            shares(&session)
        );
    }
}

#[test]
fn device_that_refuses_a_node_shares_a_replica() {
    let script = [device(500, "refuse = [{ node = \"neg\" }]"), device(500, "")].concat();
    let session = planned(&script, Policy::throughput());
    driven(&session, 60);
    let plan = session.plan().unwrap();
    assert!(plan.replicas.is_empty(), "{}", session.report());
}

#[test]
fn policy_can_disable_replicas() {
    let script = [device(500, ""), device(500, "")].concat();
    let session = planned(&script, Policy::throughput().replicas(false));
    driven(&session, 40);
    assert!(session.report().replicas.is_empty());
}

#[test]
fn stateful_session_has_one_replica() {
    let script = [device(500, ""), device(500, "")].concat();
    let session = planned(&script, Policy::throughput());
    session.bind_state("x", "a").unwrap();
    session.set_state("x", &[4], &bytes(3.0)).unwrap();
    for _ in 0..5 {
        drop(session.submit(&[]).unwrap().wait(PATIENCE).unwrap());
    }
    assert_eq!(session.state("x").unwrap().1, bytes(-3.0));
}

fn bytes(value: f32) -> Vec<u8> {
    [value; 4].iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn every_replica_writes_bound_outputs() {
    for imports in ["", "imports = []"] {
        let script = [device(500, imports), device(500, imports)].concat();
        let session = planned(&script, Policy::throughput());
        let output = session.output("b").unwrap();
        for value in 0..8u8 {
            let input = filled(&session, f32::from(value));
            let run = session.submit_into(&[&input], &[&output]).unwrap();
            drop(run.wait(PATIENCE).unwrap());
            assert_eq!(output.values::<f32>().unwrap()[..], [f32::from(value); 4]);
        }
        let shares = shares(&session);
        assert!(shares.iter().all(|&runs| runs > 0), "{shares:?}");
    }
}

#[test]
fn lost_device_removes_its_replica_and_no_run() {
    let lost = "fault = [{ kind = \"lost\", at = 10 }, { kind = \"reset\", at = 0, times = 9 }]";
    let script = [device(500, lost), device(500, "")].concat();
    let session = planned(&script, Policy::throughput().retry(2));
    driven(&session, 200);
    let report = session.report();
    assert!(report.count(EventKind::Lost) > 0, "{report}");
}
