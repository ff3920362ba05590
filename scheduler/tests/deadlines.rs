//! Deadlines on virtual time: late runs are counted by cause; hot devices are excluded with an
//! event, and return.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
mod scripted;

use std::time::Duration;

use polychip::{ErrorKind, EventKind, LateCause, MilliCelsius, Policy, Report, RunOptions, Runtime, Session};
use scripted::{PATIENCE, filled, right, runtime};

/// One device whose runs take 2 ms.
const STEADY: &str = "[[device]]\ncost = { fixed_ns = 1e6, ps_per_byte = 0.0 }\n";

/// A fast device that heats up at 4 W to 105 °C, and a slow, cool one.
const HOT: &str = "
    [[device]]
    name = \"npu\"
    cost = { fixed_ns = 1e7, ps_per_byte = 0.0, fixed_nj = 4e7, pj_per_byte = 0.0 }
    heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 20000 }
    [[device]]
    name = \"dsp\"
    cost = { fixed_ns = 4e7, ps_per_byte = 0.0, fixed_nj = 1e6, pj_per_byte = 0.0 }
    heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 20000 }
";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn null() -> Policy {
    Policy::latency().devices(["null"])
}

fn session(script: &str, policy: Policy) -> Session {
    let (runtime, model) = runtime(script);
    runtime.session(&model, policy).unwrap()
}

/// A run whose answer is right; by how much it was late.
fn run(session: &Session, options: RunOptions) -> Option<Duration> {
    let input = filled(session, 3.0);
    let outputs = session
        .submit_with(&[&input], &[], options)
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    right(&outputs, 3.0);
    outputs.late_by()
}

fn causes(report: &Report) -> Vec<(LateCause, u64)> {
    report
        .lateness
        .iter()
        .map(|line| (line.cause, line.runs))
        .collect()
}

#[test]
fn unmet_deadline_counts_every_run() {
    let session = session(STEADY, null().deadline(ms(1)));
    for _ in 0..100 {
        assert_eq!(run(&session, RunOptions::new()), Some(ms(1)));
    }
    let report = session.report();
    assert_eq!(
        (report.runs, report.late, report.deadline_ns),
        (100, 100, Some(1_000_000))
    );
    assert_eq!(causes(&report), [(LateCause::Plan, 100)]);
    let line = &report.lateness[0];
    assert_eq!((line.worst_ns, line.total_ns), (1_000_000, 100_000_000));
    assert_eq!(report.count(EventKind::DeadlineMissed), 100);
    let latency = report.latency.unwrap();
    assert_eq!((latency.p50_ns, latency.worst_ns), (2_000_000, 2_000_000));
    let text = report.to_string();
    assert!(text.contains("deadline 1.00 ms: 100 of 100 runs late"), "{text}");
    assert!(
        text.contains(
            "deadline missed: late by 1.000 ms: the predicted time exceeds the deadline (100 times)"
        ),
        "{text}"
    );
}

#[test]
fn run_deadline_overrides_the_policy() {
    let session = session(STEADY, null().deadline(ms(2)));
    assert_eq!(run(&session, RunOptions::new()), None, "just in time");
    assert_eq!(
        run(&session, RunOptions::new().deadline(Duration::from_micros(1_500))),
        Some(Duration::from_micros(500))
    );
    assert_eq!(run(&session, RunOptions::new().deadline(ms(60))), None);
    let report = session.report();
    assert_eq!((report.runs, report.late), (3, 1));
    // without any deadline nothing is late
    let free = self::session(STEADY, null());
    assert_eq!(run(&free, RunOptions::new()), None);
    let report = free.report();
    assert_eq!((report.late, report.deadline_ns), (0, None));
    assert!(!report.to_string().contains("deadline"), "{report}");
    assert_eq!(run(&free, RunOptions::new().deadline(ms(1))), Some(ms(1)));
    assert!(free.report().to_string().contains("1 of 2 runs late"));
}

#[test]
fn slow_part_is_named() {
    let script = STEADY.replace("cost", "fault = [{ kind = \"slow\", at = 2, times = 3 }]\ncost");
    let session = session(&script, null().deadline(ms(5)));
    for _ in 0..10 {
        run(&session, RunOptions::new());
    }
    let report = session.report();
    assert_eq!(
        (report.late, causes(&report)),
        (3, vec![(LateCause::SlowPart, 3)])
    );
    let line = &report.lateness[0];
    assert_eq!(line.device.as_deref(), Some("null:0"));
    assert_eq!(line.part.as_ref(), Some(&report.parts[0].id));
    assert!(
        line.words.ends_with("took 20.000 ms instead of 2.000 ms"),
        "{line}"
    );
    let latency = report.latency.unwrap();
    assert!(
        latency.p50_ns <= 2_020_000 && latency.p90_ns >= 19_800_000,
        "{latency:?}"
    );
}

#[test]
fn throttled_part_has_its_own_cause() {
    let script = "[[device]]\ncost = { fixed_ns = 1e6, ps_per_byte = 0.0, fixed_nj = 4e6, pj_per_byte = 0.0 }\n\
                  heat = { mc_per_mw = 20.0, settle_ms = 1000, throttle_mc = 60000, release_mc = 30000, \
                  throttle_permille = 4000 }\n";
    let session = session(script, null().deadline(ms(3)));
    for _ in 0..600 {
        run(&session, RunOptions::new());
    }
    let report = session.report();
    assert!(report.late > 10, "{report}");
    assert!(
        causes(&report)
            .iter()
            .any(|(cause, _)| *cause == LateCause::Throttled),
        "{report}"
    );
    assert!(report.to_string().contains("(throttled or hot)"), "{report}");
}

#[test]
fn queued_runs_are_late_by_queueing() {
    let session = session(STEADY, null().in_flight(4).deadline(ms(3)));
    let input = filled(&session, 3.0);
    for _ in 0..5 {
        let runs: Vec<_> = (0..4).map(|_| session.submit(&[&input]).unwrap()).collect();
        for run in runs {
            right(&run.wait(PATIENCE).unwrap(), 3.0);
        }
    }
    let report = session.report();
    // of four at once the first is in time, and the second takes 4 ms
    assert_eq!(
        (report.late, causes(&report)),
        (15, vec![(LateCause::Queued, 15)])
    );
    assert_eq!(report.lateness[0].worst_ns, 5_000_000);
    assert_eq!(report.latency.unwrap().worst_ns, 8_000_000);
}

#[test]
fn retried_run_is_late_by_replanning() {
    // the second run ends with an error after its 2 ms
    let script = STEADY.replace(
        "cost",
        "fault = [{ kind = \"error\", at = 1, class = \"transient\" }]\ncost",
    );
    let session = session(&script, null().deadline(ms(3)));
    assert_eq!(run(&session, RunOptions::new()), None);
    assert_eq!(run(&session, RunOptions::new()), Some(ms(1)));
    let report = session.report();
    assert_eq!(causes(&report), [(LateCause::Replanned, 1)], "{report}");
}

#[test]
fn a_trace_marks_late_runs() {
    let session = session(STEADY, null().deadline(ms(2)));
    session.start_trace(2);
    run(&session, RunOptions::new());
    run(&session, RunOptions::new().deadline(ms(1)));
    let (runs, _) = session.trace();
    let late: Vec<Option<u64>> = runs.iter().map(|run| run.late_ns).collect();
    assert_eq!(late, [None, Some(1_000_000)]);
    assert_eq!(runs[1].submitted_ns + runs[1].latency_ns, runs[1].parts[0].end_ns);
}

/// Runs one device alone for so long on virtual time.
fn heat_up(runtime: &Runtime, model: &polychip::Model, device: &str, seconds: u64) {
    let session = runtime
        .session(model, Policy::latency().devices([device]))
        .unwrap();
    let end = session.now_ns() + seconds * 1_000_000_000;
    while session.now_ns() < end {
        run(&session, RunOptions::new());
    }
}

fn devices_of(session: &Session) -> Vec<String> {
    session
        .report()
        .parts
        .into_iter()
        .map(|part| part.device)
        .collect()
}

#[test]
fn hot_device_is_excluded_with_an_event_and_returns() {
    let (runtime, model) = runtime(HOT);
    heat_up(&runtime, &model, "null:0", 60);
    let policy = null().max_temperature(MilliCelsius::new(60_000));
    let planned = runtime.plan(&model, &policy).unwrap();
    let words = planned
        .events()
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    assert!(
        words.starts_with("left out: null:0: ") && words.ends_with(" °C, limit 60.0 °C"),
        "{words}"
    );
    let session = runtime.session_of(planned, policy.clone()).unwrap();
    assert_eq!(devices_of(&session), ["null:1"]);
    let began = session.now_ns();
    while devices_of(&session) == ["null:1"] {
        run(&session, RunOptions::new());
        assert!(session.now_ns() - began < 60_000_000_000, "{}", session.report());
    }
    // it falls from 100 °C by a factor of e in 20 s, and is looked at every second
    assert!(session.now_ns() - began > 6_000_000_000, "{}", session.report());
    run(&session, RunOptions::new());
    let report = session.report();
    assert_eq!(devices_of(&session), ["null:0"], "{report}");
    assert_eq!(
        (report.count(EventKind::LeftOut), report.count(EventKind::LetIn)),
        (1, 1),
        "{report}"
    );
    assert!(report.to_string().contains("let in again: null:0: "), "{report}");
    // where all devices are too hot there is no plan
    let cold = policy.max_temperature(MilliCelsius::new(20_000));
    let error = runtime.plan(&model, &cold).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    let words = error.to_string();
    assert!(
        words.contains("left out: null:0: ") && words.contains("null:1"),
        "{words}"
    );
}

/// An NPU of 10 ms that takes 40 once it throttles, and a CPU of 25.
const THROTTLES: &str = "
    [[device]]
    name = \"npu\"
    cost = { fixed_ns = 5e6, ps_per_byte = 0.0, fixed_nj = 1.25e7, pj_per_byte = 0.0 }
    heat = { ambient_mc = 25000, mc_per_mw = 20.0, settle_ms = 20000, throttle_mc = 70000, throttle_permille = 4000 }
    [[device]]
    name = \"cpu\"
    kind = \"cpu\"
    cost = { fixed_ns = 1.25e7, ps_per_byte = 0.0, fixed_nj = 5e6, pj_per_byte = 0.0 }
";

#[test]
fn device_that_overheats_is_excluded_until_cool() {
    let late = |policy: Policy| {
        let (runtime, model) = runtime(THROTTLES);
        let session = runtime
            .session(&model, policy.deadline(Duration::from_millis(33)))
            .unwrap();
        let end = session.now_ns() + 120_000_000_000;
        while session.now_ns() < end {
            run(&session, RunOptions::new());
        }
        session.report()
    };
    let free = late(null());
    assert!(free.late > 0, "without a limit it throttles: {free}");
    let limited = late(null().max_temperature(MilliCelsius::new(60_000)));
    assert_eq!(limited.late, 0, "{limited}");
    let [out, back] = [EventKind::LeftOut, EventKind::LetIn].map(|kind| limited.count(kind));
    assert!(out >= 2 && back + 1 >= out, "{limited}");
    assert!(limited.to_string().contains("left out: null:0: 6"), "{limited}");
    // where nothing else runs the model, the plan goes on
    let alone = Policy::latency().devices(["null:0"]);
    let alone = late(alone.max_temperature(MilliCelsius::new(60_000)));
    assert_eq!(
        (alone.count(EventKind::LeftOut), alone.parts[0].device.as_str()),
        (0, "null:0")
    );
}

#[test]
fn governed_session_readmits_a_cooled_device() {
    let (runtime, model) = runtime(HOT);
    heat_up(&runtime, &model, "null:0", 60);
    let policy = null().governed().max_temperature(MilliCelsius::new(60_000));
    let session = runtime.session(&model, policy).unwrap();
    assert_eq!(session.governed().unwrap().plan, "fastest without null:0");
    assert_eq!(session.report().count(EventKind::LeftOut), 1);
    let began = session.now_ns();
    let mut next = began;
    while devices_of(&session) == ["null:1"] {
        run(&session, RunOptions::new());
        if session.now_ns() >= next {
            let sample = session.govern().unwrap();
            let used = devices_of(&session);
            let hot = sample.devices[0].temperature_mc.value.unwrap() > 60_000;
            assert!(!hot || used == ["null:1"], "{}", session.report());
            next = session.now_ns() + 100_000_000;
        }
        assert!(session.now_ns() - began < 90_000_000_000, "{}", session.report());
    }
    let log = session.decisions().unwrap();
    assert_eq!(log.replay().unwrap(), log.entries().len());
}
