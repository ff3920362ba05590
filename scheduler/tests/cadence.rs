//! Plans for the app's cadence, on a scripted device whose clock falls between runs and one whose
//! clock stays.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
#[allow(dead_code, reason = "not every test crate writes every kind of model")]
mod scripted;

use std::path::Path;
use std::time::Duration;

use polychip::{Builder, Cadence, EventKind, Learn, Policy, ProfileOptions, Report, Runtime, Session};
use scripted::{PATIENCE, filled, right, runtime_with};

const MS: u64 = 1_000_000;
const FRAME: Duration = Duration::from_millis(100);

/// A GPU of 1 ms whose runs take 3 ms once it did nothing for 20 ms, and a CPU of 2 ms.
fn script() -> String {
    let device = |name: &str, ms: f64, more: &str| {
        format!(
            "[[device]]
            name = {name:?}
            cost = {{ fixed_ns = {}, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }}
            {more}
            ",
            ms * 1e6 / 2.0
        )
    };
    device("gpu", 1.0, "idle = { after_ms = 20, time_permille = 3000 }") + &device("cpu", 2.0, "")
}

fn runtime(profile: &Path) -> (Runtime, polychip::Model) {
    let more = |builder: Builder| builder.profiles(profile);
    runtime_with(&script(), more)
}

/// So many runs, of which each begins a period after the one before began.
fn drive(runtime: &Runtime, session: &Session, period: Duration, runs: usize) {
    let period = u64::try_from(period.as_nanos()).unwrap();
    for run in 0..runs {
        let start = session.now_ns();
        let value = 1.0 + (run % 100) as f32;
        let input = filled(session, value);
        right(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap(), value);
        runtime.sleep_until_ns((start + period).max(session.now_ns()));
    }
}

fn devices_of(report: &Report) -> Vec<String> {
    let mut all: Vec<String> = report.parts.iter().map(|part| part.device.clone()).collect();
    all.dedup();
    all
}

/// Measures both devices at a cadence.
fn measure(profile: &Path, period: Duration) {
    let (runtime, model) = runtime(profile);
    for device in ["null:0", "null:1"] {
        let policy = Policy::latency()
            .devices([device])
            .period(period)
            .learn(Learn::No);
        let session = runtime.session(&model, policy).unwrap();
        drive(&runtime, &session, period, 20);
        session.record().unwrap();
    }
}

fn planned(profile: &Path, policy: Policy) -> polychip::Planned {
    let (runtime, model) = runtime(profile);
    runtime.plan(&model, &policy.devices(["null"])).unwrap()
}

fn used(planned: &polychip::Planned) -> String {
    let part = &planned.plan().parts[0];
    planned.plan().devices[part.device.index()].clone()
}

#[test]
fn plan_uses_the_requested_cadence() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    measure(&profile, Duration::ZERO);
    measure(&profile, FRAME);
    let back_to_back = planned(&profile, Policy::latency().period(Duration::ZERO));
    assert_eq!(
        (used(&back_to_back), back_to_back.cadence()),
        ("null:0".to_owned(), Cadence::BackToBack)
    );
    assert_eq!(back_to_back.plan().time().nanoseconds(), MS);
    let frames = planned(&profile, Policy::latency().period(FRAME));
    assert_eq!(
        (used(&frames), frames.cadence()),
        ("null:1".to_owned(), Cadence::of_period(FRAME))
    );
    assert_eq!(frames.plan().time().nanoseconds(), 2 * MS);
    for planned in [back_to_back, frames] {
        let cadence = planned.cadence();
        let known = planned.measured();
        assert!(
            known
                .iter()
                .all(|figure| figure.cadence == cadence && !figure.inherited),
            "{known:?}"
        );
    }
}

#[test]
fn other_cadence_figures_are_inherited_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    measure(&profile, Duration::ZERO);
    let frames = planned(&profile, Policy::latency().period(FRAME));
    let known = frames.measured();
    assert!(
        !known.is_empty() && known.iter().all(|figure| figure.inherited),
        "{known:?}"
    );
    assert!(
        known[0]
            .to_string()
            .ends_with("(inherited from another cadence, back-to-back)"),
        "{}",
        known[0]
    );
    let provenance = frames.plan().parts[0].cost.provenance;
    assert_eq!(provenance.word(), "other cadence");
}

#[test]
fn longer_periods_never_select_the_gpu_again() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let periods = [0, 5, 10, 20, 33, 66, 100, 200, 500, 1_000].map(Duration::from_millis);
    for period in periods {
        measure(&profile, period);
    }
    let chosen: Vec<String> = periods
        .iter()
        .map(|period| used(&planned(&profile, Policy::latency().period(*period))))
        .collect();
    let gpu = chosen.iter().take_while(|device| *device == "null:0").count();
    assert!((1..periods.len()).contains(&gpu), "{chosen:?}");
    assert!(
        chosen[gpu..].iter().all(|device| device == "null:1"),
        "{chosen:?}"
    );
}

#[test]
fn cadence_change_reopens_learning() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    let (runtime, model) = runtime(&profile);
    let policy = Policy::latency().devices(["null"]);
    let session = runtime.session(&model, policy).unwrap();
    drive(&runtime, &session, Duration::ZERO, 400);
    let report = session.report();
    assert_eq!(devices_of(&report), ["null:0"], "{report}");
    assert_eq!(report.count(EventKind::Reopened), 0, "{report}");
    drive(&runtime, &session, FRAME, 400);
    let report = session.report();
    assert_eq!(devices_of(&report), ["null:1"], "{report}");
    let words: Vec<&str> = report.events.iter().map(|event| event.words.as_str()).collect();
    let told = "the cadence changed from back-to-back to 56..112ms; other plans are tried again";
    assert!(words.contains(&told), "{words:?}");
    drive(&runtime, &session, Duration::ZERO, 1_000);
    let report = session.report();
    assert_eq!(devices_of(&report), ["null:0"], "{report}");
    // each figure is booked under its cadence
    session.record().unwrap();
    let lines = runtime.profile().parts().unwrap();
    let of = |device: &str, cadence: Cadence| {
        let mut found = lines
            .iter()
            .filter(|line| line.device.starts_with(device) && line.cadence == cadence);
        found.next().map(|line| line.p50_ns)
    };
    assert_eq!(of("null:0", Cadence::BackToBack), Some(MS));
    assert_eq!(of("null:1", Cadence::of_period(FRAME)), Some(2 * MS));
    assert!(of("null:0", Cadence::of_period(FRAME)).is_none_or(|ns| ns == 3 * MS));
}

#[test]
fn next_start_plans_for_the_last_cadence() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    for start in 0..3 {
        let (runtime, model) = runtime(&profile);
        let session = runtime
            .session(&model, Policy::latency().devices(["null"]))
            .unwrap();
        let first = devices_of(&session.report());
        assert_eq!(
            first,
            [if start == 0 { "null:0" } else { "null:1" }],
            "start {start}"
        );
        drive(&runtime, &session, FRAME, 300);
        assert_eq!(
            devices_of(&session.report()),
            ["null:1"],
            "start {start}: {}",
            session.report()
        );
        if start > 0 {
            assert_eq!(
                session.report().count(EventKind::Reopened),
                0,
                "{}",
                session.report()
            );
        }
    }
    let known = planned(&profile, Policy::latency());
    assert_eq!(known.cadence(), Cadence::of_period(FRAME));
    // an app that states its own is not planned for that of others
    let stated = planned(&profile, Policy::latency().period(Duration::ZERO));
    assert_eq!(stated.cadence(), Cadence::BackToBack);
}

#[test]
fn profiling_uses_the_period() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("device.profile");
    for period in [Duration::ZERO, FRAME] {
        let (runtime, model) = runtime(&profile);
        let policy = Policy::latency().devices(["null"]).period(period);
        let mut watch = |_: &polychip::ProfileProgress<'_>| std::ops::ControlFlow::Continue(());
        let report = runtime
            .profile_models(&[model], &policy, &ProfileOptions::default(), &mut watch)
            .unwrap();
        assert!(report.complete && report.measurements > 0, "{report:?}");
    }
    assert_eq!(
        used(&planned(&profile, Policy::latency().period(Duration::ZERO))),
        "null:0"
    );
    assert_eq!(
        used(&planned(&profile, Policy::latency().period(FRAME))),
        "null:1"
    );
}
