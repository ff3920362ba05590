//! Governed sessions: the governor switches between ready plans, no run is lost and every output is
//! right.

use crate::scripted;

use std::time::Duration;

use crate::scripted::{PATIENCE, filled, right, runtime};
use polychip::governor::{Input, SensorLocation};
use polychip::telemetry::{Rules, Sensors};
use polychip::{EventKind, Hint, MilliCelsius, Milliwatts, MissedLimit, Policy, Precision, Session};

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
        .hang_timeout(Duration::from_secs(1))
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
fn portfolio_has_single_device_plans_without_duplicates() {
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
fn allowed_precisions_are_separate_candidates() {
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
fn lost_device_is_left_at_once_and_used_after_reset() {
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
    // the device recovers between runs
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
fn session_recovers_after_losing_every_device() {
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
fn governor_leaves_a_device_before_its_limit_and_returns() {
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
fn frugal_plan_holds_the_power_limit() {
    let session = session(HOT, governed());
    assert_eq!(devices_of(&session), ["null:0"]);
    session.hint(Hint::MaxPower(Some(Milliwatts::new(2000))));
    drive(&session, 30);
    assert_eq!(devices_of(&session), ["null:1"], "{}", session.report());
    let change = session.governed().unwrap().changes[0].clone();
    assert!(change.words.contains("limit 2.0 W"), "{change:?}");
    session.hint(Hint::MaxPower(None));
    drive(&session, 60);
    assert_eq!(devices_of(&session), ["null:0"], "{}", session.report());
}

/// `HOT` with runs that take a hundred times as long, at the same power, and without throttling.
fn slow() -> String {
    HOT.replace("e6", "e8").replace(", throttle_mc = 95000", "")
}

/// Runs for two minutes on a tree of sensors, of which `skin` says the surface's temperature before each sample of a second,
/// by its number and whether the hot device is in use.
fn with_sensors(policy: Policy, mut skin: impl FnMut(u64, bool) -> u64) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let zone = "sys/class/thermal/thermal_zone40/";
    write(&format!("{zone}type"), "skin-therm");
    write(&format!("{zone}temp"), "36000");
    write("sys/class/thermal/thermal_zone41/type", "xo-therm");
    write("sys/class/thermal/thermal_zone41/temp", "41000");
    let sensors = Sensors::at(folder.path(), &Rules::default());
    let (runtime, model) = scripted::runtime_with(&slow(), |builder| builder.sensors(sensors));
    let session = runtime.session(&model, policy).unwrap();
    let mut samples = 0;
    let mut next = session.now_ns();
    while samples < 120 {
        run(&session, 2.0);
        if session.now_ns() >= next {
            samples += 1;
            let is_hot = devices_of(&session) == ["null:0"];
            write(&format!("{zone}temp"), &skin(samples, is_hot).to_string());
            session.govern().unwrap();
            next += 1_000_000_000;
        }
    }
    session
}

fn readings(session: &Session, place: SensorLocation) -> Vec<i64> {
    let log = session.decisions().unwrap();
    let readings = log
        .entries()
        .iter()
        .filter_map(|entry| match &entry.observation.input {
            Input::Reading(reading) if reading.place == place => reading.temperature_mc,
            _ => None,
        });
    readings.collect()
}

#[test]
fn surface_limit_is_held_by_its_sensor() {
    let limit = MilliCelsius::new(42_000);
    // it settles at 30 °C and 4 K a watt, within minutes: at 46 °C under the fast device
    let mut degrees = 39.5;
    let session = with_sensors(governed().max_surface_temperature(limit), |_, is_hot| {
        let watts = if is_hot { 4.0 } else { 1.0 };
        degrees += (30.0 + 4.0 * watts - degrees) / 500.0;
        (degrees * 1e3) as u64
    });
    let report = session.report();
    let changes = report.governed.as_ref().unwrap().changes.clone();
    assert!(
        changes[0].words.starts_with("the case is at") && changes[0].words.ends_with("limit 42.0 °C"),
        "{changes:?}"
    );
    assert!(changes[0].plan.contains("null:1"), "{changes:?}");
    assert_eq!(report.missed_limits, [], "{report}");
    assert_eq!(readings(&session, SensorLocation::Skin).len(), 120);
    assert_eq!(readings(&session, SensorLocation::Package), [41_000; 120]);
    let log = session.decisions().unwrap();
    assert_eq!(log.replay().unwrap(), log.entries().len());
}

#[test]
fn missed_limit_is_reported_with_its_count() {
    let limit = MilliCelsius::new(42_000);
    // the sun shines on it: a degree in ten seconds, up to 44 °C
    let sun = |sample: u64, _: bool| (36_000 + 100 * sample).min(44_000);
    let session = with_sensors(governed().max_surface_temperature(limit), sun);
    let report = session.report();
    let [
        MissedLimit::Temperature {
            place,
            limit_mc,
            worst_mc,
            samples,
            of_samples,
        },
    ] = &report.missed_limits[..]
    else {
        panic!("{report}");
    };
    // from the 61st sample of 120 on
    assert_eq!((place.as_str(), *samples, *of_samples), ("surface", 60, 120));
    assert_eq!((*limit_mc, *worst_mc), (42_000, 44_000));
    assert!(
        report
            .to_string()
            .contains("limit missed: surface above 42.0 °C in 60 of 120 samples, highest 44.0 °C"),
        "{report}"
    );
}

#[test]
fn hint_limits_the_surface_temperature() {
    let session = session(HOT, governed());
    session.hint(Hint::MaxSurfaceTemperature(Some(MilliCelsius::new(42_000))));
    let log = session.decisions().unwrap();
    let limited = log.entries().iter().any(
        |entry| matches!(&entry.observation.input, Input::Limits(limits) if limits.skin_mc == Some(42_000)),
    );
    assert!(limited, "{log}");
}

#[test]
fn governor_observes_late_runs() {
    let devices = HOT.replacen(
        "heat =",
        "fault = [{ kind = \"slow\", at = 4, times = 2 }]\nheat =",
        1,
    );
    let session = session(&devices, governed().deadline(Duration::from_millis(3)));
    for value in 1..=10 {
        run(&session, value as f32);
    }
    session.govern().unwrap();
    let log = session.decisions().unwrap();
    let runs = log
        .entries()
        .iter()
        .filter_map(|entry| match &entry.observation.input {
            Input::Run(run) => Some((run.late, run.runs, run.latency_ns)),
            _ => None,
        });
    assert_eq!(
        runs.collect::<Vec<_>>(),
        [(false, 8, 2_000_000), (true, 2, 20_000_000)]
    );
    assert_eq!(session.report().late, 2);
}

/// The late runs in the governor's observations.
fn late_runs(session: &Session) -> u64 {
    let log = session.decisions().unwrap();
    let late = log
        .entries()
        .iter()
        .filter_map(|entry| match &entry.observation.input {
            Input::Run(run) if run.late => Some(run.runs),
            _ => None,
        });
    late.sum()
}

#[test]
fn late_run_is_observed_without_reading_sensors() {
    let session = session(HOT, governed().deadline(Duration::from_micros(1)));
    run(&session, 1.0);
    assert_eq!(
        late_runs(&session),
        0,
        "on virtual time who moves the clock says when"
    );
    session.govern_runs();
    assert_eq!(late_runs(&session), 1);
    let log = session.decisions().unwrap();
    let has_read = |input: &Input| matches!(input, Input::Reading(_));
    assert!(
        !log.entries()
            .iter()
            .any(|entry| has_read(&entry.observation.input))
    );
    assert_eq!(log.replay().unwrap(), log.entries().len());
    // told once
    session.govern().unwrap();
    assert_eq!(late_runs(&session), 1);
}

#[test]
fn late_run_wakes_the_governor_before_the_next_sample() {
    let (runtime, model) = scripted::runtime_of(polychip::Runtime::builder(), HOT);
    let policy = governed()
        .deadline(Duration::from_micros(1))
        .sampling(Duration::from_secs(100_000));
    let session = runtime.session(&model, policy).unwrap();
    run(&session, 1.0);
    // it never comes where nothing wakes the thread
    while late_runs(&session) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(late_runs(&session), 1);
}
