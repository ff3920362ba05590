//! Devices that are lost or hang while a session runs: right outputs or an error that names the
//! device, valid app tensors, and a report of the events.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;
#[path = "scripted/session.rs"]
mod scripted;

use std::time::Duration;

use polychip::{Error, ErrorKind, EventKind, Policy, Report, Runtime, Session};
use scripted::{PATIENCE, filled, right};

/// The model on a fast device and a slow one.
fn runtime(rest: &str) -> (Runtime, polychip::Model) {
    scripted::runtime(&format!(
        "[[device]]\nname = \"npu\"\nlaunch_ns = 1\ncost = {{ fixed_ns = 1 }}\n{rest}\n\
         [[device]]\nname = \"slow\"\ncost = {{ fixed_ns = 1e6 }}\n"
    ))
}

fn both() -> Policy {
    Policy::latency()
        .devices(["null"])
        .hang_timeout(Duration::from_secs(1))
}

fn session(rest: &str, policy: Policy) -> Session {
    let (runtime, model) = runtime(rest);
    runtime.session(&model, policy).unwrap()
}

fn fault(kind: &str, more: &str) -> String {
    format!("fault = [{{ kind = \"{kind}\"{more} }}]")
}

/// A run on a value, whose answer is right where it is one.
fn run(session: &Session, value: f32) -> Result<(), Error> {
    let input = filled(session, value);
    right(&session.submit(&[&input])?.wait(PATIENCE)?, value);
    Ok(())
}

fn counts(report: &Report, kinds: &[EventKind]) -> Vec<u64> {
    kinds.iter().map(|kind| report.count(*kind)).collect()
}

fn device_of(session: &Session) -> String {
    let report = session.report();
    assert!(
        report
            .parts
            .iter()
            .all(|part| part.device == report.parts[0].device)
    );
    report.parts[0].device.clone()
}

const STEPS: [EventKind; 6] = [
    EventKind::Lost,
    EventKind::Hung,
    EventKind::Reset,
    EventKind::Reloaded,
    EventKind::Replanned,
    EventKind::Retried,
];

#[test]
fn lost_device_is_reset_and_the_run_retried() {
    let session = session(&fault("lost", ", at = 2"), both());
    for value in 1..=4 {
        run(&session, value as f32).unwrap();
    }
    let report = session.report();
    assert_eq!(counts(&report, &STEPS), [1, 0, 1, 1, 0, 1], "{report}");
    assert_eq!((device_of(&session).as_str(), report.runs), ("null:0", 4));
    for words in [
        "lost: null:0: scripted loss of the device in run 2",
        "reset: null:0",
        "reloaded: null:0: 1 part",
        "retried after a failure of null:0",
    ] {
        assert!(report.to_string().contains(words), "{words:?} is not in {report}");
    }
}

#[test]
fn without_a_retry_the_run_fails_and_the_next_one_works() {
    let session = session(&fault("lost", ", at = 1"), both().retry(0));
    run(&session, 1.0).unwrap();
    let error = run(&session, 2.0).unwrap_err();
    assert_eq!(
        (error.kind(), error.device()),
        (ErrorKind::DeviceLost, Some("null:0")),
        "{error}"
    );
    assert!(
        error.to_string().contains("scripted loss of the device in run 1"),
        "{error}"
    );
    run(&session, 3.0).unwrap();
    let report = session.report();
    assert_eq!(counts(&report, &STEPS), [1, 0, 1, 1, 0, 0], "{report}");
}

#[test]
fn repeatedly_lost_device_is_excluded() {
    let session = session(&fault("lost", ", at = 1, times = 1000"), both());
    let mut failed = 0;
    for value in 0..8 {
        if let Err(error) = run(&session, value as f32) {
            assert_eq!(error.device(), Some("null:0"), "{error}");
            failed += 1;
        }
    }
    let report = session.report();
    assert_eq!(failed, 1, "{report}");
    assert_eq!(counts(&report, &STEPS), [3, 0, 2, 2, 1, 2], "{report}");
    assert_eq!(device_of(&session), "null:1");
    let words = "replanned: 2 nodes moved from null:0: lost 3 times recently, last: scripted loss";
    assert!(report.to_string().contains(words), "{report}");
}

#[test]
fn distant_losses_do_not_accumulate() {
    let faults: Vec<String> = (0..5)
        .map(|index| format!("{{ kind = \"lost\", at = {} }}", 20 * index + 5))
        .collect();
    let session = session(&format!("fault = [{}]", faults.join(", ")), both());
    for value in 0..100 {
        run(&session, value as f32).unwrap();
    }
    let report = session.report();
    assert_eq!(counts(&report, &STEPS), [5, 0, 5, 5, 0, 5], "{report}");
}

#[test]
fn unresettable_device_is_excluded_at_once() {
    let script = "fault = [{ kind = \"lost\", at = 1 }, { kind = \"reset\", times = 1000 }]";
    let other = session(script, both());
    for value in 0..4 {
        run(&other, value as f32).unwrap();
    }
    let report = other.report();
    assert_eq!(counts(&report, &STEPS), [1, 0, 0, 0, 1, 1], "{report}");
    assert_eq!(report.count(EventKind::ResetFailed), 1);
    assert_eq!(device_of(&other), "null:1");

    // where nothing may be moved, or nothing else is there, every run says so
    for policy in [both().replan(false), both().devices(["null:0"])] {
        let session = session(script, policy);
        run(&session, 0.0).unwrap();
        for value in 1..4 {
            let error = run(&session, value as f32).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
            for words in ["null:0", "scripted loss", "scripted refusal of reset"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
        let report = session.report();
        assert_eq!(report.count(EventKind::Replanned), 0, "{report}");
    }
}

#[test]
fn hung_run_is_cancelled_or_reset_and_retried() {
    let other = session(&fault("hang", ", at = 1"), both());
    for value in 0..3 {
        run(&other, value as f32).unwrap();
    }
    let report = other.report();
    assert_eq!(counts(&report, &STEPS), [0, 1, 0, 0, 0, 1], "{report}");
    assert!(
        report
            .to_string()
            .contains("null:0 hung: the run takes longer than 1.000 s"),
        "{report}"
    );

    let other = session(&fault("stuck", ", at = 1"), both());
    for value in 0..3 {
        run(&other, value as f32).unwrap();
    }
    let report = other.report();
    assert_eq!(counts(&report, &STEPS), [1, 1, 1, 1, 0, 1], "{report}");

    let error = run(&session(&fault("stuck", ""), both().retry(0)), 1.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.to_string().contains("null:0"), "{error}");
}

#[test]
fn repeatedly_hung_device_is_excluded() {
    let session = session(&fault("hang", ", times = 1000"), both());
    let failed = (0..6)
        .filter(|value| run(&session, *value as f32).is_err())
        .count();
    let report = session.report();
    assert_eq!((failed, device_of(&session).as_str()), (1, "null:1"), "{report}");
    assert_eq!(counts(&report, &STEPS), [0, 3, 0, 0, 1, 2], "{report}");
}

#[test]
fn app_tensors_outlive_the_plan() {
    // a run that never ends and a device that is never reset: its memory is left to it
    let stuck = "fault = [{ kind = \"stuck\", at = 1 }, { kind = \"reset\", times = 1000 }]";
    let lost = "fault = [{ kind = \"lost\", at = 1 }, { kind = \"reset\", times = 1000 }]";
    for script in [stuck, lost] {
        for imports in ["", "imports = []\n"] {
            let session = session(&format!("{imports}{script}"), both());
            let mut input = filled(&session, 1.0);
            let own = session.output("b").unwrap();
            let kept = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
            input.write(&[2.0f32; 4]).unwrap();
            // this run changes its device under way
            let outputs = session
                .submit_into(&[&input], &[&own])
                .unwrap()
                .wait(PATIENCE)
                .unwrap();
            assert_eq!(device_of(&session), "null:1");
            assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [-2.0; 4]);
            assert_eq!(own.bytes().unwrap()[..], 2f32.to_le_bytes().repeat(4));
            right(&kept, 1.0);
            drop(outputs);
            for value in [3.0, 4.0] {
                input.write(&[value; 4]).unwrap();
                right(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap(), value);
                drop(
                    session
                        .submit_into(&[&input], &[&own])
                        .unwrap()
                        .wait(PATIENCE)
                        .unwrap(),
                );
                assert_eq!(own.bytes().unwrap()[..], value.to_le_bytes().repeat(4));
            }
            right(&kept, 1.0);
        }
    }
}

#[test]
fn input_of_a_failed_run_can_be_written() {
    for kind in ["lost", "hang", "stuck"] {
        for reset in ["", ", { kind = \"reset\", times = 1000 }"] {
            let script = format!("fault = [{{ kind = \"{kind}\", at = 1 }}{reset}]");
            let session = session(&script, both().retry(0));
            let mut input = filled(&session, 1.0);
            drop(session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap());
            session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap_err();
            input.write(&[5.0f32; 4]).unwrap();
            right(&session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap(), 5.0);
        }
    }
}

#[test]
fn input_in_flight_cannot_be_written_during_retry() {
    let session = session(&fault("lost", ""), both());
    let mut input = filled(&session, 1.0);
    let run = session.submit(&[&input]).unwrap();
    let error = input.write(&[2.0f32; 4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight, "{error}");
    right(&run.wait(PATIENCE).unwrap(), 1.0);
    input.write(&[2.0f32; 4]).unwrap();
}

#[test]
fn runs_in_flight_end_correctly_after_device_loss() {
    for order in [[0, 1, 2], [2, 1, 0]] {
        let session = session(&fault("lost", ", at = 1"), both().in_flight(3));
        let inputs = [1.0, 2.0, 3.0].map(|value| filled(&session, value));
        let mut runs: Vec<_> = inputs
            .iter()
            .map(|input| Some(session.submit(&[input]).unwrap()))
            .collect();
        for index in order {
            let outputs = runs[index].take().unwrap().wait(PATIENCE).unwrap();
            right(&outputs, index as f32 + 1.0);
        }
        let report = session.report();
        assert_eq!(report.count(EventKind::Lost), 1, "{report}");
        assert_eq!(report.runs, 3);
    }
}

#[test]
fn reset_by_one_session_reloads_the_other() {
    let (runtime, model) = runtime(&fault("lost", ", at = 2"));
    let (first, second) = (
        runtime.session(&model, both()).unwrap(),
        runtime.session(&model, both()).unwrap(),
    );
    run(&first, 1.0).unwrap();
    run(&second, 2.0).unwrap();
    run(&first, 3.0).unwrap();
    run(&second, 4.0).unwrap();
    assert_eq!(counts(&first.report(), &STEPS), [1, 0, 1, 1, 0, 1]);
    let report = second.report();
    assert_eq!(counts(&report, &STEPS), [0, 0, 0, 1, 0, 1], "{report}");
}

#[test]
fn transient_fault_is_retried_on_the_same_plan() {
    let session = session(&fault("error", ", at = 1, class = \"transient\""), both());
    run(&session, 1.0).unwrap();
    run(&session, 2.0).unwrap();
    let report = session.report();
    assert_eq!(counts(&report, &STEPS), [0, 0, 0, 0, 0, 1], "{report}");
}

#[test]
fn threads_sharing_a_session_get_outputs_or_errors() {
    const THREADS: usize = 4;
    const RUNS: usize = 60;
    let faults: Vec<String> = (0..12)
        .map(|index| {
            let kind = ["lost", "hang", "stuck", "error"][index % 4];
            format!(
                "{{ kind = \"{kind}\", at = {}, class = \"transient\" }}",
                17 * index + 5
            )
        })
        .collect();
    let policy = both().in_flight(THREADS).retry(2);
    let session = session(&format!("fault = [{}]", faults.join(", ")), policy);
    let right: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let session = &session;
                scope.spawn(move || {
                    let runs = (0..RUNS).map(|run| (thread * RUNS + run) as f32);
                    let answers = runs.map(|value| match run(session, value) {
                        Ok(()) => true,
                        Err(error) => {
                            assert_eq!(error.device(), Some("null:0"), "{error}");
                            false
                        }
                    });
                    answers.filter(|right| *right).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let report = session.report();
    assert_eq!(report.runs, right as u64, "{report}");
    assert!(right >= THREADS * RUNS * 9 / 10, "{report}");
    assert!(
        report.count(EventKind::Lost) > 0 && report.count(EventKind::Retried) > 0,
        "{report}"
    );
}
