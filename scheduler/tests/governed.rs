//! Sessions with several plans ready: the governor changes between them, no run is lost and each answer is right.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
mod scripted;

use std::time::Duration;

use polychip::{EventKind, Hint, MilliCelsius, Milliwatts, Policy, Precision, Session};
use scripted::{PATIENCE, filled, right, runtime};

/// A fast device that heats up at 4 W to 105 °C, and a slow, cool one.
const HOT: &str = "
    [[device]]
    name = \"npu\"
    cost = { fixed_ns = 1e6, ps_per_byte = 0.0, fixed_nj = 4e6, pj_per_byte = 0.0 }
    heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 20000, throttle_mc = 95000 }
    [[device]]
    name = \"dsp\"
    cost = { fixed_ns = 4e6, ps_per_byte = 0.0, fixed_nj = 4e6, pj_per_byte = 0.0 }
    heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 20000, throttle_mc = 95000 }
";

fn governed() -> Policy {
    Policy::latency()
        .devices(["null"])
        .governed()
        .patience(Duration::from_secs(1))
}

fn session(devices: &str, policy: Policy) -> Session {
    let (runtime, model) = runtime(devices);
    runtime.session(&model, policy).unwrap()
}

/// A run on a value, whose answer is right.
fn run(session: &Session, value: f32) {
    let input = filled(session, value);
    right(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap(), value);
}

fn devices_of(session: &Session) -> Vec<String> {
    let mut all: Vec<String> = session
        .report()
        .parts
        .into_iter()
        .map(|part| part.device)
        .collect();
    all.dedup();
    all
}

/// Runs for so long on virtual time, with the sensors read every 100 ms; the hottest temperature seen of each device.
fn drive(session: &Session, seconds: u64) -> Vec<i64> {
    let mut hottest = vec![i64::MIN; 2];
    let mut next = 0;
    let mut end = None;
    let mut value = 1.0;
    loop {
        run(session, value);
        value = if value > 1000.0 { 1.0 } else { value + 1.0 };
        // the clock moves with the runs
        let now = session.now_ns();
        let end = *end.get_or_insert(now + seconds * 1_000_000_000);
        if now >= next {
            let sample = session.govern().unwrap();
            next = now + 100_000_000;
            for (hottest, device) in hottest.iter_mut().zip(sample.devices) {
                *hottest = (*hottest).max(device.temperature_mc.value.unwrap_or(i64::MIN));
            }
        }
        if now >= end {
            return hottest;
        }
    }
}

#[test]
fn the_portfolio_has_each_device_alone_and_no_plan_twice() {
    let session = session(HOT, governed());
    let report = session.governed().unwrap();
    let names: Vec<&str> = report
        .candidates
        .iter()
        .map(|candidate| candidate.name.as_str())
        .collect();
    assert_eq!(names.first(), Some(&"fastest"));
    let alone = |device: &str| {
        let mut found = report
            .candidates
            .iter()
            .filter(|candidate| candidate.devices == [device]);
        found.next().is_some() && found.next().is_none()
    };
    assert!(alone("null:0") && alone("null:1"), "{report:?}");
    assert!(
        report
            .candidates
            .iter()
            .all(|candidate| candidate.usable && candidate.bytes > 0)
    );
    assert_eq!((report.switches, report.pace_permille), (0, 1000));
    assert!(session.report().governed.is_some());
    // a session that is not governed has none of it
    let plain = self::session(HOT, Policy::latency().devices(["null"]));
    assert!(plain.governed().is_none() && plain.decisions().is_none() && plain.govern().is_none());
    assert!(plain.takes_frame());
}

#[test]
fn precisions_that_the_policy_allows_are_told_apart() {
    let session = session(HOT, governed().precision(Precision::Reduced));
    let report = session.governed().unwrap();
    let names: Vec<&str> = report
        .candidates
        .iter()
        .map(|candidate| candidate.name.as_str())
        .collect();
    assert_eq!(names[0], "fastest, reduced");
    assert!(names.contains(&"fastest, exact"), "{names:?}");
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    run(&session, 3.0);
}

#[test]
fn a_lost_device_is_left_at_once_and_comes_back_after_its_reset() {
    let devices = HOT.replacen("heat =", "fault = [{ kind = \"lost\", at = 2 }]\nheat =", 1);
    let session = session(&devices, governed());
    for value in 1..=2 {
        run(&session, value as f32);
    }
    assert_eq!(devices_of(&session), ["null:0"]);
    // the third run loses the device, and is run again on the other one
    run(&session, 3.0);
    let report = session.report();
    assert_eq!(devices_of(&session), ["null:1"], "{report}");
    let counts = [EventKind::Lost, EventKind::Switched, EventKind::Retried].map(|kind| report.count(kind));
    assert_eq!(counts, [1, 1, 1], "{report}");
    assert_eq!(report.count(EventKind::Reset), 0, "no run waits for a reset");
    // the device is mended between runs
    session.govern().unwrap();
    let report = session.report();
    assert_eq!(
        (
            report.count(EventKind::Reset),
            report.count(EventKind::Reloaded) > 0
        ),
        (1, true),
        "{report}"
    );
    assert!(
        report
            .governed
            .unwrap()
            .candidates
            .iter()
            .all(|candidate| candidate.usable)
    );
    run(&session, 4.0);
    let log = session.decisions().unwrap();
    assert_eq!(log.replay().unwrap(), log.entries().len());
}

#[test]
fn where_every_device_was_lost_a_recovery_brings_the_session_back() {
    let devices = HOT.replace("heat =", "fault = [{ kind = \"lost\", at = 1 }]\nheat =");
    let session = session(&devices, governed().retry(4));
    for value in 1..=6 {
        run(&session, value as f32);
    }
    for _ in 0..3 {
        session.govern().unwrap();
    }
    let report = session.report();
    assert_eq!(report.count(EventKind::Lost), 2, "{report}");
    assert_eq!(report.runs, 6);
    assert!(
        report
            .governed
            .unwrap()
            .candidates
            .iter()
            .all(|candidate| candidate.usable)
    );
}

#[test]
fn it_leaves_a_device_before_its_limit_and_comes_back() {
    // one that follows its power within 20 s, and one within a minute
    leaves_and_comes_back(HOT);
    leaves_and_comes_back(&HOT.replace("settle_ms = 20000", "settle_ms = 60000"));
}

fn leaves_and_comes_back(devices: &str) {
    let limit = 60_000;
    let policy = governed().max_temperature(MilliCelsius::new(limit));
    let session = session(devices, policy);
    let hottest = drive(&session, 240);
    let report = session.governed().unwrap();
    assert!(
        hottest.iter().all(|&mc| mc <= limit),
        "{hottest:?} {:#?}",
        report.changes
    );
    // it was used as far as it could be, and the other one in its place
    assert!(hottest[0] > 45_000, "{hottest:?}");
    assert!(report.switches >= 2, "{report:?}");
    let plans: Vec<&str> = report.changes.iter().map(|change| change.plan.as_str()).collect();
    assert!(plans.iter().any(|plan| plan.contains("null:1")), "{plans:?}");
    assert!(plans.iter().any(|plan| !plan.contains("null:1")), "{plans:?}");
    let log = session.decisions().unwrap();
    assert_eq!(log.replay().unwrap(), log.entries().len());
}

#[test]
fn a_power_limit_is_held_by_the_frugal_plan() {
    let session = session(HOT, governed());
    assert_eq!(devices_of(&session), ["null:0"]);
    session.hint(Hint::MaxPower(Some(Milliwatts::new(2000))));
    drive(&session, 30);
    assert_eq!(devices_of(&session), ["null:1"], "{}", session.report());
    let change = session.governed().unwrap().changes[0].clone();
    assert!(change.words.contains("the limit is 2.0 W"), "{change:?}");
    session.hint(Hint::MaxPower(None));
    drive(&session, 60);
    assert_eq!(devices_of(&session), ["null:0"], "{}", session.report());
}
