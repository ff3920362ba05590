//! Sessions that learn, on scripted devices whose true costs differ from the stated ones, and virtual time.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
#[allow(dead_code, reason = "not every test crate writes every kind of model")]
mod scripted;

use std::time::Duration;

use polychip::{EventKind, Learn, Policy, Session, TrialState};
use scripted::{PATIENCE, filled, right, runtime};

/// A device that takes so long for each of the model's two nodes as is stated, and truly so many thousandths of that.
fn device(name: &str, stated_us: f64, actual: &str, more: &str) -> String {
    format!(
        "[[device]]
        name = {name:?}
        cost = {{ fixed_ns = {}, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }}
        actual = {actual}
        {more}
        ",
        stated_us * 1e3 / 2.0
    )
}

fn permille(time: u32) -> String {
    format!("[{{ time_permille = {time} }}]")
}

fn session(script: &str, policy: Policy) -> Session {
    let (runtime, model) = runtime(script);
    runtime.session(&model, policy.devices(["null"])).unwrap()
}

/// So many runs one after the other, whose answers are right; how long they took together, shadow runs too.
fn drive(session: &Session, runs: usize) -> u64 {
    let before = session.now_ns();
    for run in 0..runs {
        let value = 1.0 + (run % 100) as f32;
        let input = filled(session, value);
        right(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap(), value);
    }
    session.now_ns() - before
}

fn devices_of(session: &Session) -> Vec<String> {
    let parts = session.report().parts.into_iter();
    let mut all: Vec<String> = parts.map(|part| part.device).collect();
    all.dedup();
    all
}

#[test]
fn session_settles_on_the_fastest_measured_plan() {
    // stated 100 and 150 µs, truly 200 and 150
    let script = device("a", 100.0, &permille(2000), "") + &device("b", 150.0, &permille(1000), "");
    let learns = session(&script, Policy::latency());
    assert_eq!(devices_of(&learns), ["null:0"]);
    drive(&learns, 300);
    let report = learns.report();
    assert_eq!(devices_of(&learns), ["null:1"], "{report}");
    assert_eq!(report.count(EventKind::Adopted), 1, "{report}");
    let learning = report.learning.unwrap();
    assert!(learning.settled, "{learning:?}");
    assert_eq!(learning.plan, "null:1");
    let words = &learning.words;
    assert!(words.starts_with("on null:1; "), "{words}");
    assert!(words.ends_with(" % of 5.0 %"), "{words}");
    let first = learning
        .trials
        .iter()
        .find(|trial| trial.plan == "null:0")
        .unwrap();
    assert_eq!(first.state, TrialState::Slower);
    let ratio = first.ratio.unwrap();
    assert!((1.3..1.4).contains(&ratio), "200 over 150: {ratio}");
}

#[test]
fn frozen_session_keeps_its_plan_without_a_report() {
    let script = device("a", 100.0, &permille(2000), "") + &device("b", 150.0, &permille(1000), "");
    for (learn, has_report) in [(Learn::No, false), (Learn::Watch, true)] {
        let session = session(&script, Policy::latency().learn(learn));
        assert_eq!(drive(&session, 300), 300 * 200_000, "nothing is tried");
        assert_eq!(devices_of(&session), ["null:0"]);
        assert_eq!(session.report().learning.is_some(), has_report);
    }
}

#[test]
fn right_first_plan_costs_few_trials() {
    let script = device("a", 100.0, &permille(1000), "")
        + &device("b", 150.0, &permille(1000), "")
        + &device("c", 120.0, &permille(1100), "");
    let session = session(&script, Policy::latency());
    let runs = 2_000;
    let took = drive(&session, runs) as f64 / (runs as f64 * 100_000.0);
    assert_eq!(devices_of(&session), ["null:0"]);
    assert!(took < 1.01, "{took}");
    let learning = session.report().learning.unwrap();
    assert!(learning.trial_runs > 0 && learning.settled, "{learning:?}");
}

#[test]
fn slowed_device_is_left_and_used_again() {
    // 10 ms, from 10 s on 40 ms, from 30 s on 10 ms again
    let actual =
        "[{ time_permille = 1000 }, { after_ms = 10000, time_permille = 4000 }, { after_ms = 30000 }]";
    let script = device("a", 10_000.0, actual, "") + &device("b", 15_000.0, &permille(1000), "");
    let session = session(&script, Policy::latency());
    while session.now_ns() < 9_000_000_000 {
        drive(&session, 10);
    }
    assert_eq!(devices_of(&session), ["null:0"]);
    while session.now_ns() < 12_000_000_000 {
        drive(&session, 10);
    }
    assert_eq!(devices_of(&session), ["null:1"], "{}", session.report());
    // one look a minute at most, once nothing changes where it is
    while session.now_ns() < 120_000_000_000 {
        drive(&session, 100);
    }
    assert_eq!(devices_of(&session), ["null:0"], "{}", session.report());
    let report = session.report();
    assert_eq!(report.count(EventKind::Adopted), 2, "{report}");
    assert!(report.count(EventKind::Reopened) >= 1, "{report}");
}

#[test]
fn trials_do_not_miss_deadlines() {
    let script = device("a", 10_000.0, &permille(1000), "") + &device("b", 12_000.0, &permille(500), "");
    let policy = Policy::latency().deadline(Duration::from_millis(11));
    let (runtime, model) = runtime(&script);
    let session = runtime.session(&model, policy.devices(["null"])).unwrap();
    // 20 frames a second: gaps of 40 ms have room for shadow runs
    for frame in 0..400u64 {
        runtime.sleep_until_ns(frame * 50_000_000);
        drive(&session, 1);
    }
    let report = session.report();
    assert_eq!(devices_of(&session), ["null:1"], "{report}");
    assert_eq!(report.late, 0, "{report}");
    assert_eq!(report.learning.unwrap().excess_permille, 0.0);
}

#[test]
fn failed_trial_plan_is_dropped_without_losing_a_run() {
    let fails = "fault = [{ kind = \"error\", at = 0, times = 1000 }]";
    let script = device("a", 100.0, &permille(1000), "") + &device("b", 110.0, &permille(500), fails);
    let session = session(&script, Policy::latency());
    drive(&session, 300);
    let report = session.report();
    assert_eq!(devices_of(&session), ["null:0"], "{report}");
    assert_eq!(report.count(EventKind::NotAdopted), 1, "{report}");
    assert_eq!(report.runs, 300);
}

#[test]
fn plan_with_other_outputs_is_never_adopted() {
    // it leaves outputs as they are
    let script =
        device("a", 100.0, &permille(1000), "") + &device("b", 110.0, &permille(500), "answers = false");
    let session = session(&script, Policy::latency());
    drive(&session, 300);
    let report = session.report();
    assert_eq!(devices_of(&session), ["null:0"], "{report}");
    let trials = report.learning.unwrap().trials;
    assert_eq!(trials[0].state, TrialState::OtherAnswers, "{trials:?}");
}

#[test]
fn next_start_uses_the_settled_plan() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    // truly 200, 150 and 300 µs, and all stated too low, so that what is unmeasured looks cheap
    let script = device("a", 100.0, &permille(2000), "")
        + &device("b", 110.0, &permille(1364), "")
        + &device("c", 60.0, &permille(5000), "");
    let mut took = Vec::new();
    for start in 0..5 {
        let more = |builder: polychip::Builder| builder.profiles(&profile);
        let (runtime, model) = scripted::runtime_with(&script, more);
        let session = runtime
            .session(&model, Policy::latency().devices(["null"]))
            .unwrap();
        let first = devices_of(&session);
        let expected = if start == 0 { ["null:2"] } else { ["null:1"] };
        assert_eq!(first, expected, "start {start}: {}", session.report());
        drive(&session, 10);
        took.push(drive(&session, 400));
        assert_eq!(
            devices_of(&session),
            ["null:1"],
            "start {start}: {}",
            session.report()
        );
    }
    let slowest = took.iter().copied().max().unwrap();
    assert_eq!(slowest, took[0], "no start is slower than the first: {took:?}");
}

#[test]
fn settled_plan_is_retried_after_a_minute_or_slowdown() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let start = |actual: &str, runs: usize| {
        let script = device("a", 10_000.0, &permille(2000), "") + &device("b", 15_000.0, actual, "");
        let more = |builder: polychip::Builder| builder.profiles(&profile);
        let (runtime, model) = scripted::runtime_with(&script, more);
        let session = runtime
            .session(&model, Policy::latency().devices(["null"]))
            .unwrap();
        drive(&session, runs);
        let report = session.report();
        (devices_of(&session), report.learning.unwrap())
    };
    let (devices, first) = start(&permille(1000), 400);
    assert_eq!(devices, ["null:1"]);
    assert!(first.settled && first.trial_runs > 0, "{first:?}");
    let (devices, second) = start(&permille(1000), 400);
    assert_eq!(devices, ["null:1"]);
    assert!(second.settled && second.trial_runs == 0, "{second:?}");
    assert_eq!(second.words, "on null:1, on which an earlier session settled");
    // 4,000 runs of 15 ms are a minute
    let (_, long) = start(&permille(1000), 4_100);
    assert!(long.trial_runs > 0, "{long:?}");
    let (devices, slower) = start(&permille(1500), 400);
    assert_eq!(devices, ["null:0"]);
    assert!(slower.trial_runs > 0, "{slower:?}");
}

#[test]
fn unreadable_profile_error_names_the_file() {
    let builder = polychip::Runtime::builder().only_given_folders();
    let error = builder
        .profiles("/no/such/folder/device.profile")
        .build()
        .unwrap_err();
    let words = error.to_string();
    assert!(words.contains("/no/such/folder/device.profile"), "{words}");
}

#[test]
fn learning_can_change_while_a_session_runs() {
    let script = device("a", 100.0, &permille(2000), "") + &device("b", 150.0, &permille(1000), "");
    let learns = session(&script, Policy::latency().learn(Learn::Watch));
    drive(&learns, 100);
    let before = learns.report().learning.unwrap();
    assert_eq!((before.mode.as_str(), before.settled), ("watch", false));
    assert_eq!(devices_of(&learns), ["null:0"]);
    learns.set("learn", "10%").unwrap();
    drive(&learns, 300);
    let after = learns.report().learning.unwrap();
    assert_eq!((after.mode.as_str(), after.settled), ("10%", true), "{after:?}");
    assert_eq!(devices_of(&learns), ["null:1"]);
    learns.set("learn", "no").unwrap();
    let trials = after.trial_runs;
    drive(&learns, 300);
    let frozen = learns.report().learning.unwrap();
    assert_eq!((frozen.mode.as_str(), frozen.trial_runs), ("no", trials));
    assert_eq!(devices_of(&learns), ["null:1"]);
}

#[test]
fn unsupported_runtime_settings_are_errors() {
    let script = device("a", 100.0, &permille(1000), "") + &device("b", 150.0, &permille(1000), "");
    let frozen = session(&script, Policy::latency().learn(Learn::No));
    frozen.set("learn", "no").unwrap();
    frozen.set("deadline", "33ms").unwrap();
    assert_eq!(frozen.report().deadline_ns, Some(33_000_000));
    for (name, value, words) in [
        ("learn", "yes", "made with learn=no"),
        ("learn", "1%", "2% to 20%"),
        ("max-power", "5W", "governed"),
        ("threads", "2", "in the session's policy"),
    ] {
        let error = frozen.set(name, value).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let governed = session(&script, Policy::latency().governed());
    for (name, value) in [("max-power", "5W"), ("background", "yes"), ("max-power", "no")] {
        governed.set(name, value).unwrap();
    }
    assert!(
        governed
            .set("learn", "yes")
            .unwrap_err()
            .to_string()
            .contains("governed")
    );
}

#[test]
fn settings_apply_to_all_sizes_of_an_open_model() {
    let script = device("a", 100.0, &permille(2000), "") + &device("b", 150.0, &permille(1000), "");
    let (runtime, _) = runtime(&script);
    let folder = tempfile::tempdir().unwrap();
    let open = model::Model {
        nodes: vec![model::node("Neg", "neg", &["x"], &["a"])],
        inputs: vec![model::port("x", model::F32, &["n"])],
        outputs: vec![model::port("a", model::F32, &["n"])],
        ..model::Model::default()
    };
    let model = runtime.load(open.write(folder.path(), "open.onnx")).unwrap();
    let session = runtime
        .session(&model, Policy::latency().devices(["null"]))
        .unwrap();
    let run = |size: usize| {
        let mut input = session.input("x").unwrap();
        input.resize(&[size]).unwrap();
        drop(session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap());
        session.report()
    };
    assert_eq!(run(3).learning.unwrap().mode, "5%");
    session.set("learn", "watch").unwrap();
    session.set("deadline", "33ms").unwrap();
    session.set("learn", "no").unwrap();
    for size in [3, 5] {
        let report = run(size);
        assert_eq!(report.learning.unwrap().mode, "no", "{size}");
        assert_eq!(report.deadline_ns, Some(33_000_000), "{size}");
    }
    let frozen = Policy::latency().devices(["null"]).learn(Learn::No);
    let frozen = runtime.session(&model, frozen).unwrap();
    assert!(
        frozen
            .set("learn", "yes")
            .unwrap_err()
            .to_string()
            .contains("made with learn=no")
    );
}
