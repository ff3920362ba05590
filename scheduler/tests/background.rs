//! Background planning: runs of new sizes use the CPU until the plan over all devices is ready.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

use std::path::Path;
use std::time::Duration;

use model::add_relu;
use polychip::{EventKind, Policy, Runtime, Session, ShapesReport};

const PATIENCE: Duration = Duration::from_secs(60);

/// A session of a model with an open size, on the CPU and on a device that is faster, of this script.
fn session(script: &str, policy: Policy) -> Session {
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure(
            "null",
            "script",
            format!("[[device]]\nlaunch_ns = 1\ncost = {{ fixed_ns = 1, ps_per_byte = 0 }}\n{script}\n"),
        )
        .only_given_folders()
        .build()
        .unwrap();
    let model = runtime.load_bytes("made.onnx", add_relu().bytes()).unwrap();
    runtime
        .session(&model, policy.threads(1).hang_timeout(PATIENCE))
        .unwrap()
}

fn waiting(file: &Path) -> String {
    format!("compile_waits_for = {:?}", file.display().to_string())
}

fn run(session: &Session, rows: usize) {
    let mut x = session.input("x").unwrap();
    x.resize(&[rows, 3]).unwrap();
    x.write(&vec![2.0f32; rows * 3]).unwrap();
    let outputs = session
        .submit_within(&[&x], &[], PATIENCE)
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    let y = outputs.get("y/out:0").unwrap();
    assert_eq!(y.shape(), [rows, 3]);
    assert_eq!(y.values::<f32>().unwrap()[..], [3.0, 1.0, 2.5].repeat(rows));
}

fn shapes(session: &Session) -> ShapesReport {
    session.report().shapes.unwrap()
}

fn devices(session: &Session) -> Vec<String> {
    session
        .report()
        .parts
        .into_iter()
        .map(|part| part.device)
        .collect()
}

/// Waits until the thread is done with what it was asked for.
fn settled(session: &Session) {
    let start = std::time::Instant::now();
    while shapes(session).planning > 0 {
        assert!(start.elapsed() < PATIENCE, "{:?}", shapes(session));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn run_returns_before_background_compile_ends() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let session = session(&waiting(&go), Policy::latency().background_planning());
    for _ in 0..3 {
        run(&session, 2);
    }
    let report = shapes(&session);
    assert_eq!((report.misses, report.hits), (1, 2));
    assert_eq!(
        (report.stand_in_runs, report.took_over, report.planning),
        (3, 0, 1)
    );
    assert!(report.kept[0].stand_in);
    assert_eq!(devices(&session), ["cpu:0"]);

    std::fs::write(&go, "").unwrap();
    settled(&session);
    run(&session, 2);
    let report = shapes(&session);
    assert_eq!(
        (report.stand_in_runs, report.took_over, report.kept.len()),
        (3, 1, 1)
    );
    assert_eq!((report.kept[0].stand_in, report.kept[0].runs), (false, 4));
    assert_eq!(devices(&session), ["null:0"]);
    let whole = session.report();
    assert_eq!(whole.count(EventKind::TookOver), 1);
    let words = whole.to_string();
    assert!(
        words.contains("took over: a plan for null:0") && words.contains("3 runs used the CPU-only plan"),
        "{words}"
    );
}

#[test]
fn prepare_waits_for_the_plan_over_all_devices() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let session = session(&waiting(&go), Policy::latency().background_planning());
    run(&session, 2);
    std::thread::scope(|scope| {
        let prepared = scope.spawn(|| session.prepare([("x", [2, 3])]).unwrap());
        assert!(!prepared.is_finished());
        std::fs::write(&go, "").unwrap();
    });
    assert_eq!(shapes(&session).took_over, 1);
    session.prepare([("x", [5, 3])]).unwrap();
    run(&session, 5);
    assert_eq!(
        (devices(&session), shapes(&session).stand_in_runs),
        (vec!["null:0".to_owned()], 1)
    );
}

#[test]
fn failed_background_plan_is_an_event() {
    let refuses = "fault = [{ kind = \"compile\", times = 1000, class = \"persistent\" }]";
    let session = session(refuses, Policy::latency().background_planning().replan(false));
    run(&session, 2);
    settled(&session);
    run(&session, 2);
    let report = session.report();
    assert_eq!(report.count(EventKind::NotPlanned), 1);
    assert!(
        report.to_string().contains("not planned in the background")
            && report.to_string().contains("scripted refusal of compilation 0"),
        "{report}"
    );
    let shapes = shapes(&session);
    assert_eq!((shapes.stand_in_runs, shapes.took_over), (2, 0));
    assert!(shapes.kept[0].stand_in);
}

#[test]
fn background_thread_ends_with_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let session = session(&waiting(&go), Policy::latency().background_planning());
    run(&session, 2);
    run(&session, 3);
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&go, "").unwrap());
        drop(session);
        // the compilation that it waited for has ended
        assert!(go.exists());
    });
}

#[test]
fn cpu_only_machine_waits_for_its_plan() {
    let session = session("", Policy::latency().devices(["cpu"]).background_planning());
    run(&session, 2);
    run(&session, 2);
    let report = shapes(&session);
    assert_eq!(
        (report.misses, report.stand_in_runs, report.kept[0].stand_in),
        (1, 0, false)
    );
}

#[test]
fn outputs_are_right_while_plans_take_over() {
    let policy = Policy::latency()
        .background_planning()
        .in_flight(4)
        .specialization_cache_bytes(1 << 16);
    let session = session("", policy);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let session = &session;
            scope.spawn(move || (0..40).for_each(|turn| run(session, 1 + (thread + turn) % 6)));
        }
    });
    settled(&session);
    assert!(shapes(&session).took_over > 0);
}
