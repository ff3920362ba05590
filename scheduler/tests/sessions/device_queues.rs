//! Several sessions on one device, on virtual time: order of turns, no starvation, and late frames.

use std::time::Duration;

use polychip::{
    Builder, ErrorKind, EventKind, Late, LateCause, Policy, Priority, Run, RunOptions, Runtime, Session,
    TracedRun,
};
use polychip_null::NullPlugin;

use crate::streams::{Stream, chain, filled};

const PATIENCE: Duration = Duration::from_secs(60);
const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two devices: nodes with `b` in their name run on the second one, all others on the first. `more`
/// adds to the first one's description.
fn runtime_with(more: &str, build: impl FnOnce(Builder) -> Builder) -> Runtime {
    let device = |refused: &str, more: &str| {
        format!(
            "[[device]]\nrefuse = [{{ node = \"{refused}\" }}]\n\
             cost = {{ fixed_ns = 1000.0, ps_per_byte = 0.0, ps_per_mac = 0.0 }}\n\
             op = {{ Abs = {{ fixed_ns = 8e6 }}, Neg = {{ fixed_ns = 2e7 }}, Relu = {{ fixed_ns = 1e3 }} }}\n{more}\n"
        )
    };
    let builder = Runtime::builder()
        .link(polychip_sdk::plugin_query::<NullPlugin>)
        .configure("null", "script", device("b*", more) + &device("a*", ""))
        .only_given_folders();
    build(builder).build().unwrap()
}

fn runtime(more: &str) -> Runtime {
    runtime_with(more, Builder::virtual_time)
}

/// 8 ms.
const CAMERA: &[(&str, &str)] = &[("Abs", "a1")];
/// 20 ms.
const SPEECH: &[(&str, &str)] = &[("Neg", "a1")];
/// 60 ms in parts of 20, between which something small is done elsewhere.
const BACKGROUND: &[(&str, &str)] = &[
    ("Neg", "a1"),
    ("Relu", "b1"),
    ("Neg", "a2"),
    ("Relu", "b2"),
    ("Neg", "a3"),
];

fn null() -> Policy {
    Policy::latency().devices(["null"]).in_flight(8)
}

fn session(runtime: &Runtime, ops: &[(&str, &str)], policy: Policy) -> Session {
    runtime.session(&chain(runtime, ops), policy).unwrap()
}

fn submit(session: &Session) -> Run {
    session.submit(&[&filled(session)]).unwrap()
}

/// Drives all runs concurrently until each has its outputs. Returns the lateness of each.
fn drive(mut runs: Vec<Run>) -> Vec<Option<Duration>> {
    let mut ended: Vec<Option<Option<Duration>>> = vec![None; runs.len()];
    while ended.contains(&None) {
        for (run, ended) in runs.iter_mut().zip(&mut ended) {
            if ended.is_none() {
                *ended = run.poll(Duration::ZERO).unwrap().map(|outputs| outputs.late_by());
            }
        }
        if let Some(at) = ended.iter().position(Option::is_none) {
            ended[at] = runs[at]
                .poll(Duration::from_micros(50))
                .unwrap()
                .map(|outputs| outputs.late_by());
        }
    }
    ended.into_iter().flatten().collect()
}

/// A camera every 33.3 ms, speech every 100 ms, and an endless background, for three seconds of virtual time.
fn three(policies: [Policy; 3]) -> [Stream; 3] {
    let runtime = runtime("");
    let [camera, speech, background] = policies;
    let mut streams = [
        Stream::new(session(&runtime, CAMERA, camera), Some(33_300_000)),
        Stream::new(session(&runtime, SPEECH, speech), Some(100 * MS)),
        Stream::new(session(&runtime, BACKGROUND, background), None),
    ];
    let clock = streams[0].session.clone();
    while clock.now_ns() < 3000 * MS {
        let now_ns = clock.now_ns();
        streams.iter_mut().for_each(|stream| stream.go_on(now_ns));
        streams[2].poll(Duration::from_micros(50));
    }
    streams
}

#[test]
fn camera_and_speech_meet_deadlines_beside_background_work() {
    let urgent = |deadline| null().priority(Priority::Urgent).deadline(deadline);
    let [camera, speech, background] = three([
        urgent(Duration::from_micros(33_300)),
        urgent(ms(100)),
        null().priority(Priority::Batch),
    ]);
    assert!(camera.runs >= 89 && speech.runs >= 29);
    assert_eq!(
        (camera.late, speech.late),
        (0, 0),
        "{:?} {:?}",
        camera.worst,
        speech.worst
    );
    assert_eq!(camera.session.report().late + speech.session.report().late, 0);
    // a part of the background, then a part of the speech that began before it
    assert!(camera.worst < ms(20 + 8 + 1), "{:?}", camera.worst);
    // (1 - 8/33.3 - 20/100) / 60 ms is 9.3 a second
    assert!(background.runs >= 26, "{}", background.runs);

    let [camera, speech, background] = three([null(), null(), null()]);
    assert!(camera.late > 0, "{:?} {:?}", camera.worst, speech.worst);
    assert!(background.runs >= 20, "{}", background.runs);
}

/// The start of each session's run, where the first one is with the device before the others come.
fn starts(sessions: &[Session], runs: Vec<Run>) -> Vec<u64> {
    drive(runs);
    sessions.iter().map(|session| part_starts(session)[0]).collect()
}

fn part_starts(session: &Session) -> Vec<u64> {
    let (runs, _): (Vec<TracedRun>, u64) = session.trace();
    runs.iter().map(|run| run.parts[0].start_ns).collect()
}

#[test]
fn queue_orders_by_class_then_deadline() {
    let runtime = runtime("");
    let make = |policy: Policy| {
        let session = session(&runtime, CAMERA, policy);
        session.start_trace(1);
        session
    };
    let sessions = [
        make(null()),
        make(null().deadline(ms(900))),
        make(null()),
        make(null().deadline(ms(500))),
        make(null().priority(Priority::Batch).deadline(ms(1))),
        make(null().priority(Priority::Urgent)),
    ];
    let runs = sessions.iter().map(submit).collect();
    let starts = starts(&sessions, runs);
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    order.sort_by_key(|index| starts[*index]);
    assert_eq!(order, [0, 5, 3, 1, 2, 4], "{starts:?}");
}

/// When a run of 20 ms in the background and an urgent one of 8 ms begin that are submitted one after the other.
fn batch_and_urgent(more: &str) -> [u64; 2] {
    let runtime = runtime(more);
    let make = |ops, priority| {
        let session = session(&runtime, ops, null().priority(priority));
        session.start_trace(1);
        session
    };
    let sessions = [make(SPEECH, Priority::Batch), make(CAMERA, Priority::Urgent)];
    drive(sessions.iter().map(submit).collect());
    sessions.each_ref().map(|session| part_starts(session)[0])
}

#[test]
fn urgent_part_preempts_on_preemptible_devices() {
    let [batch, urgent] = batch_and_urgent("");
    assert_eq!(urgent - batch, 20 * MS);
    let [batch, urgent] = batch_and_urgent("preemption = \"any_time\"\npreemption_bound_ns = 1_000_000");
    assert_eq!(urgent - batch, MS);
    // no bound is stated, and it gives way all the same
    let [batch, urgent] = batch_and_urgent("preemption = \"commands\"");
    assert_eq!(urgent, batch);
}

#[test]
fn device_gets_its_stated_number_of_parts() {
    let [batch, urgent] = batch_and_urgent("serial = false\nqueue_depth = 2");
    assert_eq!(urgent, batch);
    for depth in [0, 1] {
        let [batch, urgent] = batch_and_urgent(&format!("serial = false\nqueue_depth = {depth}"));
        assert_eq!(urgent - batch, 20 * MS, "{depth}");
    }
}

#[test]
fn run_deadline_counts_and_frames_stay_in_order() {
    let runtime = runtime("");
    let (first, other, own) = (
        session(&runtime, CAMERA, null()),
        session(&runtime, CAMERA, null()),
        session(&runtime, CAMERA, null()),
    );
    for session in [&other, &own] {
        session.start_trace(3);
    }
    let mut runs = vec![submit(&first)];
    runs.extend((0..3).map(|_| submit(&own)));
    let soon = RunOptions::new().deadline(ms(100));
    runs.push(other.submit_with(&[&filled(&other)], &[], soon).unwrap());
    drive(runs);
    let (other, own) = (part_starts(&other), part_starts(&own));
    assert!(other[0] < own[0], "{other:?} {own:?}");
    assert!(own.is_sorted(), "{own:?}");
}

#[test]
fn late_run_that_waited_is_counted_as_queued() {
    let runtime = runtime("");
    let (long, short) = (
        session(&runtime, SPEECH, null()),
        session(&runtime, CAMERA, null().deadline(ms(10))),
    );
    assert_eq!(
        drive(vec![submit(&long), submit(&short)])[1].map(|late| late.as_millis()),
        Some(18)
    );
    let report = short.report();
    assert_eq!(report.lateness[0].cause, LateCause::Queued, "{report}");
}

#[test]
fn background_gets_its_share_under_endless_urgent_runs() {
    let runtime = runtime("");
    let urgent = session(&runtime, CAMERA, null().priority(Priority::Urgent));
    let batch = session(&runtime, CAMERA, null().priority(Priority::Batch));
    let mut streams = [0; 3].map(|_| Stream::new(urgent.clone(), None));
    let mut background = Stream::new(batch, None);
    while urgent.now_ns() < 3000 * MS {
        let now_ns = urgent.now_ns();
        streams.iter_mut().for_each(|stream| stream.go_on(now_ns));
        background.go_on(now_ns);
        streams[0].poll(Duration::from_micros(50));
    }
    // a twentieth of the time that it waits is 8 ms every 160
    assert!((15..=20).contains(&background.runs), "{}", background.runs);
    let runs: u64 = streams.iter().map(|stream| stream.runs).sum();
    assert!(runs > 330, "{runs}");
}

#[test]
fn cancelled_request_does_not_block_the_queue() {
    let runtime = runtime("");
    let [first, second, third] = [0; 3].map(|_| session(&runtime, SPEECH, null()));
    for _ in 0..3 {
        let (holds, dropped, last) = (submit(&first), submit(&second), submit(&third));
        drop(dropped);
        drive(vec![holds, last]);
    }
    let (holds, cancelled, last) = (submit(&first), submit(&second), submit(&third));
    cancelled.cancel();
    assert_eq!(cancelled.wait(PATIENCE).unwrap_err().kind(), ErrorKind::Cancelled);
    drive(vec![holds, last]);
    // a session that goes, with a run that waits and one that has its turn
    let (holds, waits, last) = (submit(&second), submit(&second), submit(&third));
    drop((holds, waits));
    drop(second);
    drive(vec![last]);
    drive(vec![submit(&first), submit(&third)]);
}

#[test]
fn unused_turn_goes_to_the_next_waiter() {
    let runtime = runtime("");
    let [first, second, third] = [0; 3].map(|_| session(&runtime, CAMERA, null()));
    let (holds, given, last) = (submit(&first), submit(&second), submit(&third));
    last.wait(PATIENCE).unwrap();
    given.wait(PATIENCE).unwrap();
    holds.wait(PATIENCE).unwrap();
}

#[test]
fn waiting_runs_end_correctly_after_device_loss() {
    for at in 0..6 {
        let runtime = runtime(&format!("fault = [{{ kind = \"lost\", at = {at}, times = 1 }}]"));
        let sessions = [0; 3].map(|_| session(&runtime, BACKGROUND, null().retry(3)));
        for _ in 0..3 {
            drive(sessions.iter().map(submit).collect());
        }
    }
}

#[test]
fn waiter_detects_a_hung_run_of_another_session() {
    let runtime = runtime("fault = [{ kind = \"hang\", at = 2, times = 1 }]");
    let patient = |patience: u64| null().hang_timeout(ms(patience)).retry(2);
    let (first, second) = (
        session(&runtime, CAMERA, patient(3_600_000)),
        session(&runtime, CAMERA, patient(30_000)),
    );
    drive(vec![submit(&first), submit(&second)]);
    let hangs = submit(&first);
    submit(&second).wait(PATIENCE).unwrap();
    let report = second.report();
    assert_eq!(report.count(EventKind::Hung), 1, "{report}");
    // it was with the device when that was reset
    let _ = hangs.wait(ms(1000));
    drive(vec![submit(&first), submit(&second)]);
}

#[test]
fn run_queued_beyond_hang_timeout_is_dropped() {
    let runtime = runtime("");
    let urgent = session(&runtime, SPEECH, null().priority(Priority::Urgent));
    let batch = session(
        &runtime,
        CAMERA,
        null().priority(Priority::Batch).hang_timeout(ms(30)),
    );
    let mut runs: Vec<Run> = (0..4).map(|_| submit(&urgent)).collect();
    let mut waits = submit(&batch);
    let error = loop {
        for run in &mut runs {
            let _ = run.poll(Duration::ZERO);
        }
        match waits.poll(Duration::from_micros(50)) {
            Ok(outputs) => assert!(outputs.is_none(), "it had its turn"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Dropped, "{error}");
    assert!(
        error.to_string().contains("waited for its turn on null:0"),
        "{error}"
    );
    let report = batch.report();
    assert_eq!(
        (report.dropped, report.count(EventKind::Hung)),
        (1, 0),
        "{report}"
    );
}

#[test]
fn late_policy_finishes_drops_or_keeps_the_latest() {
    let runtime = runtime("");
    let long = session(&runtime, SPEECH, null());
    let camera = session(&runtime, CAMERA, null().deadline(ms(15)));
    // it finishes, 13 ms late
    assert_eq!(
        drive(vec![submit(&long), submit(&camera)])[1].map(|late| late.as_millis()),
        Some(13)
    );
    let input = filled(&camera);
    let with = |late| {
        camera
            .submit_with(&[&input], &[], RunOptions::new().late(late))
            .unwrap()
    };

    let (holds, late) = (submit(&long), with(Late::Drop));
    let began = camera.now_ns();
    let error = late.wait(PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dropped);
    assert!(error.to_string().contains("its deadline passed"), "{error}");
    // once its deadline had passed, and not once its turn had come
    assert!((15..18).contains(&((camera.now_ns() - began) / MS)));
    drive(vec![holds]);

    let (holds, first, second) = (submit(&long), with(Late::Latest), with(Late::Latest));
    assert_eq!(first.wait(PATIENCE).unwrap_err().kind(), ErrorKind::Dropped);
    drive(vec![holds, second]);
    // what is with its device is not dropped; the second one takes 16 ms
    let (first, second) = (with(Late::Latest), with(Late::Latest));
    drive(vec![first, second]);

    let report = camera.report();
    assert_eq!(
        (report.dropped, report.count(EventKind::Dropped)),
        (2, 2),
        "{report}"
    );
    assert_eq!((report.runs, report.late), (4, 3), "{report}");
    assert!(report.to_string().contains("2 runs dropped"), "{report}");
}

#[test]
fn plan_is_cut_for_other_sessions() {
    let runtime = runtime("");
    let ops = [("Neg", "a1"), ("Neg", "a2"), ("Neg", "a3")];
    let whole = session(&runtime, &ops, null());
    let cut = session(&runtime, &ops, null().longest_part(ms(25)));
    assert_eq!((whole.report().parts.len(), cut.report().parts.len()), (1, 3));
    let camera = session(
        &runtime,
        CAMERA,
        null().priority(Priority::Urgent).deadline(ms(29)),
    );
    let behind = |other: &Session| {
        let late = drive(vec![submit(other), submit(&camera)]);
        late[1].map(|late| late.as_millis())
    };
    assert_eq!((behind(&cut), behind(&whole)), (None, Some(39)));
}

#[test]
fn urgent_run_is_not_interleaved() {
    let runtime = runtime("");
    let ops = [("Neg", "a1"), ("Neg", "a2"), ("Neg", "a3")];
    let urgent = null().priority(Priority::Urgent).longest_part(ms(25));
    let urgent = session(&runtime, &ops, urgent.deadline(ms(81)));
    assert_eq!(urgent.report().parts.len(), 3);
    let batch = [0; 3].map(|_| session(&runtime, SPEECH, null().priority(Priority::Batch)));
    // one part that was begun before, and its own three
    let mut runs: Vec<Run> = batch.iter().map(submit).collect();
    runs.push(submit(&urgent));
    assert_eq!(drive(runs)[3], None);
}

#[test]
fn sessions_on_separate_threads_all_progress() {
    // the machine's clock: parts of a millisecond, whose ends the devices tell
    let script = "[[device]]\nrefuse = [{ node = \"b*\" }]\ncost = { fixed_ns = 1e6 }\n\
                  [[device]]\nrefuse = [{ node = \"a*\" }]\ncost = { fixed_ns = 1e5 }\n";
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders()
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let priority = [Priority::Urgent, Priority::Normal, Priority::Batch][number % 3];
            let (ops, answer) = [(CAMERA, 0.5), (BACKGROUND, 0.0)][number / 3];
            let session = session(&runtime, ops, null().priority(priority));
            scope.spawn(move || {
                let input = filled(&session);
                for _ in 0..20 {
                    let runs = [0; 2].map(|_| session.submit(&[&input]).unwrap());
                    for run in runs {
                        let outputs = run.wait(PATIENCE).unwrap();
                        assert_eq!(outputs.at(0).unwrap().values::<f32>().unwrap()[0].abs(), answer);
                    }
                    // a run without a waiter continues by itself
                    drop(session.submit(&[&input]).unwrap());
                }
            });
        }
    });
}
