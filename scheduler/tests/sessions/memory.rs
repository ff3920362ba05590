//! The memory limit of a runtime, and sessions that are parked and resumed.

use std::sync::Barrier;
use std::time::Duration;

use polychip::{ErrorKind, EventKind, Learn, MemoryPressure, Model, Policy, Runtime, Session};

use crate::model::{self, F32, constant, floats, node, port};
use crate::scripted;

const PATIENCE: Duration = Duration::from_secs(60);
/// Rows and columns of the weights: 1 MiB, far more than what else a session holds.
const SIDE: usize = 512;
const MIB: u64 = 1 << 20;

fn runtime(limit: u64) -> Runtime {
    let builder = Runtime::builder().only_given_folders().memory_limit(limit);
    builder.build().unwrap()
}

/// `y = x w`, where each row of `w` has one element, `seed`, in another column; `rows` is a size or a name.
fn product(runtime: &Runtime, seed: usize, rows: &str) -> Model {
    let mut weights = vec![0.0f32; SIDE * SIDE];
    for row in 0..SIDE {
        weights[row * SIDE + (row + seed) % SIDE] = seed as f32;
    }
    let made = model::Model {
        nodes: vec![node("MatMul", "product", &["x", "w"], &["y"])],
        constants: vec![constant("w", F32, &[SIDE as u64, SIDE as u64], &floats(&weights))],
        inputs: vec![port("x", F32, &[rows, "512"])],
        outputs: vec![port("y", F32, &[rows, "512"])],
        ..model::Model::default()
    };
    runtime
        .load_bytes(&format!("product{seed}.onnx"), made.bytes())
        .unwrap()
}

fn policy() -> Policy {
    Policy::latency().devices(["cpu"]).threads(1).learn(Learn::No)
}

fn session(runtime: &Runtime, seed: usize) -> Session {
    runtime.session(&product(runtime, seed, "1"), policy()).unwrap()
}

/// Runs the model of this seed, and checks its output.
fn check(session: &Session, seed: usize, rows: usize) {
    let mut x = session.input("x").unwrap();
    x.resize(&[rows, SIDE]).unwrap();
    let values: Vec<f32> = (0..rows * SIDE).map(|at| (at % 97) as f32).collect();
    x.write(&values).unwrap();
    let outputs = session.submit_blocking(&[&x]).unwrap().wait(PATIENCE).unwrap();
    let y = outputs.at(0).unwrap().values::<f32>().unwrap().to_vec();
    for row in 0..rows {
        for column in 0..SIDE {
            let from = (column + SIDE - seed % SIDE) % SIDE;
            assert_eq!(
                y[row * SIDE + column],
                values[row * SIDE + from] * seed as f32,
                "seed {seed}, row {row}, column {column}"
            );
        }
    }
}

/// What a loaded session of these models holds.
fn size_of_one() -> u64 {
    let runtime = runtime(u64::MAX);
    let session = session(&runtime, 1);
    let held = runtime.memory();
    assert_eq!(held.held_bytes, session.resident_bytes());
    assert!(held.parts_bytes >= MIB, "the weights are packed: {held:?}");
    assert_eq!(
        held.held_bytes,
        held.parts_bytes + held.buffers_bytes + held.plans_bytes
    );
    assert_eq!((held.limit_bytes, held.sessions.len()), (None, 1));
    drop(session);
    assert_eq!(runtime.memory().held_bytes, 0, "all of it is released");
    held.held_bytes
}

#[test]
fn two_sessions_take_turns_under_a_limit_for_one() {
    let limit = size_of_one() * 3 / 2;
    let runtime = runtime(limit);
    let sessions = [session(&runtime, 1), session(&runtime, 2)];
    assert!(sessions[0].is_parked() && !sessions[1].is_parked());
    for _ in 0..3 {
        for (session, seed) in sessions.iter().zip(1..) {
            check(session, seed, 1);
        }
        let memory = runtime.memory();
        assert!(memory.peak_bytes <= limit, "{memory:?}");
    }
    let memory = runtime.memory();
    assert_eq!(
        (memory.limit_bytes, memory.limit_from.as_str()),
        (Some(limit), "memory-limit")
    );
    assert_eq!(memory.parked, 7);
    let report = sessions[0].report();
    assert!(report.parked && sessions[0].is_parked());
    assert_eq!(report.resident_bytes, sessions[0].resident_bytes());
    assert_eq!(
        (report.count(EventKind::Parked), report.count(EventKind::Resumed)),
        (4, 3)
    );
    assert!(
        report
            .to_string()
            .contains("in this session, parked; all sessions: "),
        "{report}"
    );
}

#[test]
fn parked_session_frees_memory_and_answers_the_same() {
    let runtime = runtime(u64::MAX);
    let session = session(&runtime, 3);
    let mut x = session.input("x").unwrap();
    x.write(&vec![2.0f32; SIDE]).unwrap();
    let run = || -> Vec<f32> {
        let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
        outputs.at(0).unwrap().values::<f32>().unwrap().to_vec()
    };
    let expected = run();
    let before = session.resident_bytes();
    // outputs that the app keeps are in use
    let kept = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
    let error = session.park().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    assert!(error.to_string().contains("drop its outputs"), "{error}");
    drop(kept);
    let freed = session.park().unwrap();
    assert!(freed >= MIB && session.is_parked());
    assert_eq!(session.resident_bytes(), before - freed, "the plan stays");
    assert_eq!(session.park().unwrap(), 0, "it is parked already");
    // an input from before, and tensors made while it is parked
    assert_eq!(run(), expected);
    assert!(!session.is_parked());
    assert_eq!(session.resident_bytes(), before);
    session.park().unwrap();
    check(&session, 3, 1);
    session.park().unwrap();
    session.resume().unwrap();
    assert!(!session.is_parked());
    session.resume().unwrap();
    assert_eq!(run(), expected);
    assert_eq!(session.report().count(EventKind::Resumed), 3);
}

#[test]
fn limit_below_one_model_is_an_error_with_the_figures() {
    let runtime = runtime(MIB / 2);
    let error = runtime.session(&product(&runtime, 1, "1"), policy()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let words = error.to_string();
    for part in [
        "product1.onnx needs 1.",
        "the limit for all sessions is 0.5 MiB (memory-limit)",
        "0.0 MiB are held",
        "raise the limit",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(runtime.memory().held_bytes, 0);
}

#[test]
fn three_threads_share_a_limit_for_two_sessions() {
    let limit = size_of_one() * 5 / 2;
    let runtime = runtime(limit);
    let sessions: Vec<Session> = (1..4).map(|seed| session(&runtime, seed)).collect();
    let start = Barrier::new(sessions.len());
    std::thread::scope(|scope| {
        for (session, seed) in sessions.iter().zip(1..) {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                (0..40).for_each(|_| check(session, seed, 1));
            });
        }
    });
    let memory = runtime.memory();
    assert!(memory.peak_bytes <= limit, "{memory:?}");
    assert!(memory.parked >= 1, "{memory:?}");
}

#[test]
fn sessions_made_at_once_wait_for_each_other() {
    let limit = size_of_one() * 3 / 2;
    let runtime = runtime(limit);
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let runtime = &runtime;
            scope.spawn(move || check(&session(runtime, seed), seed, 1));
        }
    });
    let memory = runtime.memory();
    assert!(memory.peak_bytes <= limit && memory.held_bytes == 0, "{memory:?}");
}

#[test]
fn shared_part_counts_once_and_stays_while_one_session_has_it() {
    let runtime = runtime(u64::MAX);
    let model = product(&runtime, 1, "1");
    let one = runtime.session(&model, policy()).unwrap();
    let alone = runtime.memory();
    let other = runtime.session(&model, policy()).unwrap();
    assert_eq!(runtime.memory().parts_bytes, alone.parts_bytes);
    assert!(one.park().unwrap() < MIB, "the other session uses the weights");
    assert_eq!(runtime.memory().parts_bytes, alone.parts_bytes);
    check(&other, 1, 1);
    drop(other);
    assert_eq!(runtime.memory().parts_bytes, 0);
    check(&one, 1, 1);
}

#[test]
fn weights_that_specializations_share_stay_charged_until_the_last_is_freed() {
    let runtime = runtime(u64::MAX);
    let model = product(&runtime, 1, "rows");
    let open = runtime.session(&model, policy()).unwrap();
    (1..4).for_each(|rows| check(&open, 1, rows));
    let all = runtime.memory();
    assert!((MIB..2 * MIB).contains(&all.parts_bytes), "packed once: {all:?}");
    // lets the first two go, of which the first has packed the weights
    runtime.trim_memory(MemoryPressure::Moderate);
    let one = runtime.memory();
    assert!((MIB..all.parts_bytes + 1).contains(&one.parts_bytes), "{one:?}");
    // the same weights with other settings
    let threads = policy().threads(2);
    let fixed = runtime
        .session(&model.bind([("rows", 1)]).unwrap(), threads)
        .unwrap();
    assert!(runtime.memory().parts_bytes < 2 * MIB, "{:?}", runtime.memory());
    open.park().unwrap();
    assert!(runtime.memory().parts_bytes >= MIB, "{:?}", runtime.memory());
    check(&fixed, 1, 1);
    fixed.park().unwrap();
    assert_eq!(runtime.memory().parts_bytes, 0);
}

#[test]
fn memory_pressure_evicts_specializations_and_parks_idle_sessions() {
    let runtime = runtime(u64::MAX);
    let open = runtime.session(&product(&runtime, 1, "rows"), policy()).unwrap();
    (1..4).for_each(|rows| check(&open, 1, rows));
    assert_eq!(open.report().shapes.unwrap().kept.len(), 3);
    let fixed = session(&runtime, 2);
    assert!(runtime.trim_memory(MemoryPressure::Moderate) > 0);
    assert_eq!(open.report().shapes.unwrap().kept.len(), 1);
    assert!(!fixed.is_parked());
    assert!(runtime.trim_memory("critical".parse().unwrap()) >= 2 * MIB);
    assert!(open.is_parked() && fixed.is_parked());
    let held = runtime.memory();
    assert_eq!((held.parts_bytes, held.buffers_bytes), (0, 0), "{held:?}");
    (1..4).for_each(|rows| check(&open, 1, rows));
    check(&fixed, 2, 1);
    let error = "severe".parse::<MemoryPressure>().unwrap_err();
    assert!(error.to_string().contains("moderate, critical"), "{error}");
}

#[test]
fn governed_session_keeps_its_plans() {
    let runtime = runtime(u64::MAX);
    let governed = policy().sampling(Duration::from_secs(3600));
    let session = runtime.session(&product(&runtime, 1, "1"), governed).unwrap();
    let error = session.park().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    assert!(error.to_string().contains("governor"), "{error}");
    assert_eq!(runtime.trim_memory(MemoryPressure::Critical), 0);
    check(&session, 1, 1);
}

#[test]
fn state_survives_parking() {
    let runtime = runtime(u64::MAX);
    let made = model::Model {
        nodes: vec![node("Add", "add", &["x", "sum"], &["next"])],
        inputs: vec![port("x", F32, &["4"]), port("sum", F32, &["4"])],
        outputs: vec![port("next", F32, &["4"])],
        ..model::Model::default()
    };
    let model = runtime.load_bytes("sum.onnx", made.bytes()).unwrap();
    let session = runtime.session(&model, policy()).unwrap();
    session.bind_state("sum", "next").unwrap();
    let mut x = session.input("x").unwrap();
    for run in 1..4 {
        x.write(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        drop(session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap());
        session.park().unwrap();
        let (_, bytes) = session.state("sum").unwrap();
        let sums: Vec<f32> = [1.0, 2.0, 3.0, 4.0].map(|value| value * run as f32).to_vec();
        assert_eq!(bytes, floats(&sums));
    }
}

#[test]
fn learning_session_is_parked_with_its_plans_on_trial() {
    let device = |name: &str, stated_ns: u32, permille: u32| {
        format!(
            "[[device]]
            name = {name:?}
            cost = {{ fixed_ns = {stated_ns}, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }}
            actual = [{{ time_permille = {permille} }}]
            "
        )
    };
    // stated 100 and 150 µs, truly 200 and 150
    let script = device("a", 50_000, 2000) + &device("b", 75_000, 1000);
    let (runtime, model) = scripted::runtime(&script);
    let session = runtime
        .session(&model, Policy::latency().devices(["null"]))
        .unwrap();
    let drive = |runs: usize| {
        for run in 0..runs {
            let value = 1.0 + run as f32;
            let input = scripted::filled(&session, value);
            let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
            scripted::right(&outputs, value);
        }
    };
    // before, while and after other plans are tried
    for runs in [1, 17, 30, 60, 300] {
        drive(runs);
        let one_plan = session.resident_bytes();
        assert!(session.park().unwrap() > 0);
        assert!(session.resident_bytes() < one_plan);
        let memory = runtime.memory();
        assert_eq!((memory.parts_bytes, memory.buffers_bytes), (0, 0), "{memory:?}");
    }
    drive(300);
    let report = session.report();
    assert_eq!(report.parts[0].device, "null:1", "{report}");
    assert!(report.learning.as_ref().unwrap().settled, "{report}");
    assert_eq!(
        (report.count(EventKind::Parked), report.count(EventKind::Resumed)),
        (5, 5)
    );
}

#[test]
fn plans_on_trial_take_free_memory_only() {
    let device = |stated_ns: u32| {
        format!(
            "[[device]]
            cost = {{ fixed_ns = {stated_ns}, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }}
            "
        )
    };
    let script = device(50_000) + &device(60_000);
    let held = |limit: u64| {
        let limited = |builder: polychip::Builder| builder.memory_limit(limit);
        let (runtime, model) = scripted::runtime_with(&script, limited);
        let policy = || Policy::latency().devices(["null"]);
        let (idle, session) = (
            runtime.session(&model, policy().learn(Learn::No)).unwrap(),
            runtime.session(&model, policy()).unwrap(),
        );
        let first = runtime.memory().held_bytes;
        for _ in 0..100 {
            let input = scripted::filled(&session, 1.0);
            drop(session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap());
        }
        assert!(!idle.is_parked());
        let report = session.report();
        (
            first,
            runtime.memory().peak_bytes,
            report.count(EventKind::NotAdopted),
        )
    };
    let (first, peak, refused) = held(u64::MAX);
    assert!(peak > first && refused == 0, "a plan on trial takes memory");
    let (same, peak, refused) = held(first);
    assert_eq!((same, peak), (first, first));
    assert!(refused > 0, "there is no memory for it");
}

#[test]
fn idle_sessions_are_parked_before_a_load_that_may_not_fit() {
    let limit = size_of_one() * 3 / 2;
    let large = |runtime: &Runtime, side: usize| {
        let weights = vec![0.5f32; side * side];
        let size = side.to_string();
        let made = model::Model {
            nodes: vec![node("MatMul", "product", &["x", "w"], &["y"])],
            constants: vec![constant("w", F32, &[side as u64, side as u64], &floats(&weights))],
            inputs: vec![port("x", F32, &["1", &size])],
            outputs: vec![port("y", F32, &["1", &size])],
            ..model::Model::default()
        };
        let model = runtime.load_bytes("large.onnx", made.bytes()).unwrap();
        let error = runtime.session(&model, policy()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    };
    let runtime = runtime(limit);
    let idle = session(&runtime, 1);
    // 16 times the limit: no device holds it in less
    large(&runtime, SIDE * 5);
    assert!(!idle.is_parked());
    // 4 MiB, which a device might hold in 1: the load gets all that there is
    large(&runtime, SIDE * 2);
    assert!(idle.is_parked());
    let event = idle
        .report()
        .events
        .into_iter()
        .find(|event| event.kind == EventKind::Parked);
    assert!(event.unwrap().words.contains("the memory limit"));
    check(&idle, 1, 1);
}

#[test]
fn models_of_the_same_weights_count_them_until_the_last_is_freed() {
    let runtime = runtime(u64::MAX);
    let model = product(&runtime, 1, "rows");
    let first = model.bind([("rows", 1)]).unwrap();
    let bytes = product(&runtime, 1, "2");
    let second = bytes.sharing_weights_with(&first);
    let one = runtime.session(&first, policy()).unwrap();
    let two = runtime.session(&second, policy()).unwrap();
    assert!((MIB..2 * MIB).contains(&runtime.memory().parts_bytes));
    one.park().unwrap();
    assert!(
        runtime.memory().parts_bytes >= MIB,
        "the other one has them still"
    );
    two.park().unwrap();
    assert_eq!(runtime.memory().parts_bytes, 0);
    check(&one, 1, 1);
}
