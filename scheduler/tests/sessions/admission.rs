//! Admitted sessions on virtual time: no late frame, cuts and their removal, and refusals.

use std::time::Duration;

use polychip::admission::{Admission, CertificateReport, Proof, TimeSource, Wanted};
use polychip::{Builder, ErrorKind, EventKind, Policy, Priority, Run, Runtime, Session};
use polychip_null::NullPlugin;

use crate::streams::{Stream, chain, filled};

const MS: u64 = 1_000_000;
/// A camera's frames, 30 a second.
const FRAME: Duration = Duration::from_micros(33_300);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two devices: nodes with `a` run on the first, those with `b` on the second, all others on both.
/// Abs takes 8 ms and on the second one 9.5, Neg 20, Relu 60. `more` adds to the first one's
/// description.
fn runtime(more: &str) -> Runtime {
    runtime_with(more, Builder::virtual_time)
}

fn runtime_with(more: &str, build: impl FnOnce(Builder) -> Builder) -> Runtime {
    let device = |refused: &str, abs_ns: f64, more: &str| {
        format!(
            "[[device]]\nrefuse = [{{ node = \"{refused}\" }}]\nlaunch_ns = 500000\n\
             cost = {{ fixed_ns = 1000.0, ps_per_byte = 0.0, ps_per_mac = 0.0 }}\n\
             op = {{ Abs = {{ fixed_ns = {abs_ns} }}, Neg = {{ fixed_ns = 2e7 }}, Relu = {{ fixed_ns = 6e7 }} }}\n{more}\n"
        )
    };
    let script = device("b*", 8e6, more) + &device("a*", 9.5e6, "");
    let builder = Runtime::builder()
        .link(polychip_sdk::plugin_query::<NullPlugin>)
        .configure("null", "script", script)
        .only_given_folders();
    build(builder).build().unwrap()
}

/// 8 ms.
const CAMERA: &[(&str, &str)] = &[("Abs", "a1")];
/// 20 ms.
const SPEECH: &[(&str, &str)] = &[("Neg", "a1")];
/// 60 ms in one part, which may be cut.
const BACKGROUND: &[(&str, &str)] = &[("Neg", "a1"), ("Neg", "a2"), ("Neg", "a3")];

fn null() -> Policy {
    Policy::latency().devices(["null"]).in_flight(2)
}

fn urgent(period: Duration) -> Policy {
    null().priority(Priority::Urgent).period(period)
}

fn batch() -> Policy {
    null().priority(Priority::Batch)
}

/// Times as they are predicted: an emulated device keeps to them.
fn wanted(runtime: &Runtime, name: &str, ops: &[(&str, &str)], policy: Policy) -> Wanted {
    Wanted::new(name, &chain(runtime, ops), policy).margin_percent(0.0)
}

fn made(runtime: &Runtime, wanted: impl IntoIterator<Item = Wanted>) -> Vec<Session> {
    runtime
        .admit(wanted)
        .unwrap()
        .admitted()
        .unwrap()
        .sessions()
        .unwrap()
}

fn parts(session: &Session) -> Vec<String> {
    let plan = session.plan().unwrap();
    plan.parts.iter().map(|part| part.id.clone()).collect()
}

/// Lets runs come until the first stream has had so many.
fn drive(streams: &mut [Stream], runs: u64) {
    let clock = streams[0].session.clone();
    while streams[0].runs < runs {
        let now_ns = clock.now_ns();
        streams.iter_mut().for_each(|stream| stream.go_on(now_ns));
        let endless = streams.len() - 1;
        streams[endless].poll(Duration::from_millis(1));
    }
}

fn three(runtime: &Runtime) -> [Wanted; 3] {
    [
        wanted(runtime, "camera", CAMERA, urgent(FRAME)),
        wanted(runtime, "speech", SPEECH, urgent(ms(100))),
        wanted(runtime, "background", BACKGROUND, batch()),
    ]
}

#[test]
fn admitted_set_misses_no_deadline() {
    let runtime = runtime("");
    let admission = runtime.admit(three(&runtime)).unwrap();
    let certificate = admission.certificate().unwrap().clone();
    let sessions = admission.admitted().unwrap().sessions().unwrap();
    assert_eq!(
        sessions.iter().map(|one| parts(one).len()).collect::<Vec<_>>(),
        [1, 1, 3]
    );
    assert_eq!(runtime.admitted().unwrap(), certificate);
    let [camera, speech, background] = <[Session; 3]>::try_from(sessions).unwrap();
    let mut streams = [
        Stream::new(camera, Some(33_300_000)),
        Stream::new(speech, Some(100 * MS)),
        Stream::new(background, None),
    ];
    drive(&mut streams, 3000);
    let [camera, speech, background] = &streams;
    let said = format!("{:?} {:?}\n{certificate}", camera.worst, speech.worst);
    assert_eq!((camera.late, speech.late), (0, 0), "{said}");
    assert_eq!(
        camera.session.report().late + speech.session.report().late,
        0,
        "{said}"
    );
    assert!(
        speech.runs > 900 && background.runs > 800,
        "{} {}",
        speech.runs,
        background.runs
    );
}

#[test]
fn uncut_set_misses_deadlines() {
    let runtime = runtime("");
    // as admitted but for the cut
    let session = |ops, policy| runtime.session(&chain(&runtime, ops), policy).unwrap();
    let mut streams = [
        Stream::new(
            session(CAMERA, urgent(FRAME).deadline(FRAME).in_flight(8)),
            Some(33_300_000),
        ),
        Stream::new(
            session(SPEECH, urgent(ms(100)).deadline(ms(100)).in_flight(8)),
            Some(100 * MS),
        ),
        Stream::new(session(BACKGROUND, batch()), None),
    ];
    drive(&mut streams, 300);
    assert!(streams[0].late > 30, "{}", streams[0].late);
    assert_eq!(streams[0].session.report().late, streams[0].late);
}

#[test]
fn certificate_lists_its_evidence() {
    let runtime = runtime("");
    let certificate = |admission: &Admission| admission.certificate().unwrap().clone();
    let admission = runtime.admit(three(&runtime)).unwrap();
    let CertificateReport { devices, sessions } = certificate(&admission);
    assert_eq!(devices.len(), 1, "{admission}");
    // 8.5 of 33.3 and 20.5 of 100
    assert!((devices[0].utilisation - (8.5 / 33.3 + 0.205)).abs() < 1e-5);
    let tightest = &devices[0].tightest[0];
    assert_eq!(
        (tightest.device.as_str(), tightest.supply_ns),
        ("null:0", 33_300_000)
    );
    assert_eq!((tightest.due_ns, tightest.blocking_ns), (8_500_000, 20_499_999));
    let background = &sessions[2];
    assert_eq!((background.parts.len(), background.uncut_ready), (3, true));
    assert!(
        background
            .cut_ns
            .is_some_and(|cut| (20_500_000..33_300_000).contains(&cut))
    );
    let part = &background.parts[0];
    assert_eq!((part.timed.time_ns, part.due_ns), (20_500_000, None));
    assert!(
        matches!(
            part.timed.source,
            TimeSource::Predicted {
                margin_percent: 0.0,
                ..
            }
        ),
        "{part:?}"
    );
    assert_eq!(sessions[0].parts[0].due_ns, Some(33_300_000));
    let words = admission.to_string();
    for word in [
        "admitted",
        "null:0: utilisation by deadlines at most 46.",
        "camera, urgent",
        "endless",
        "emulated device",
    ] {
        assert!(words.contains(word), "{word:?} is not in: {words}");
    }
    drop(admission);
    assert!(runtime.admitted().is_none());
    // half as much again as predicted, without a measurement
    let speech = Wanted::new("speech", &chain(&runtime, SPEECH), urgent(ms(100)));
    let admission = runtime.admit([speech]).unwrap();
    assert_eq!(
        certificate(&admission).sessions[0].parts[0].timed.time_ns,
        30_750_000
    );
}

#[test]
fn plan_is_cut_only_as_needed() {
    let runtime = runtime("");
    let counts = [34, 60, 150].map(|period| {
        let camera = wanted(&runtime, "camera", CAMERA, urgent(ms(period)));
        let background = wanted(&runtime, "background", BACKGROUND, batch());
        let admission = runtime.admit([camera, background]).unwrap();
        let background = admission.certificate().unwrap().sessions[1].clone();
        (background.parts.len(), background.uncut_ready)
    });
    assert_eq!(counts, [(3, true), (2, true), (1, false)]);
}

#[test]
fn refusal_names_device_demand_supply_and_fits() {
    let runtime = runtime("");
    let camera = || wanted(&runtime, "camera", CAMERA, urgent(FRAME));
    // a single node is not cut
    let long = wanted(&runtime, "long", &[("Relu", "a1")], batch());
    let admission = runtime.admit([camera(), long]).unwrap();
    let refusal = admission.refusal().unwrap();
    let instant = refusal.instant.as_ref().unwrap();
    assert_eq!(
        (instant.device.as_str(), instant.supply_ns),
        ("null:0", 33_300_000)
    );
    assert_eq!((instant.demand_ns, instant.blocking_ns), (68_999_999, 60_499_999));
    assert_eq!(refusal.proof, Proof::Misses);
    let words = admission.to_string();
    for word in [
        "refused: null:0, urgent: demand within 33.3 ms may reach 69 ms",
        "60.5 ms of long already begun",
        "would fit: parts of long on null:0 no longer than 21.145 ms",
        "would fit: without long",
        "camera arrived at 0 ms, was due at 33.3 ms and ended at",
    ] {
        assert!(words.contains(word), "{word:?} is not in: {words}");
    }
    let error = admission.admitted().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAdmitted);
    assert!(error.to_string().contains("may reach 69 ms"), "{error}");
    // what was refused leaves nothing behind
    let sessions = made(&runtime, [camera()]);
    let error = runtime.admit([camera()]).unwrap_err();
    assert!(error.to_string().contains("already called \"camera\""), "{error}");
    drop(sessions);
    made(&runtime, [camera()]);
}

#[test]
fn cut_plan_is_restored_after_session_drop() {
    // the seventh compilation and all after it fail
    let runtime = runtime("fault = [{ kind = \"compile\", at = 6, times = 1000, class = \"persistent\" }]");
    let camera = || wanted(&runtime, "camera", CAMERA, urgent(FRAME));
    let background = wanted(&runtime, "background", BACKGROUND, batch());
    let [background] = <[Session; 1]>::try_from(made(&runtime, [background])).unwrap();
    let whole = parts(&background);
    assert_eq!(whole.len(), 1);
    let run = || {
        background
            .submit(&[&filled(&background)])
            .unwrap()
            .wait(ms(60_000))
            .unwrap()
    };
    run();

    let first = made(&runtime, [camera()]);
    let cut = parts(&background);
    assert_eq!(cut.len(), 3);
    run();
    let proof = runtime.admitted().unwrap();
    let named = |name: &str| proof.sessions.iter().find(|one| one.session == name).unwrap();
    assert!(named("background").uncut_ready && named("camera").cut_ns.is_none());

    drop(first);
    assert_eq!(parts(&background), whole);
    run();
    // one for the background, one for the camera, three for the cuts, one for this camera: nothing else is compiled
    let second = made(&runtime, [camera()]);
    assert_eq!(parts(&background), cut);
    run();
    let mut streams = [
        Stream::new(second.into_iter().next().unwrap(), Some(33_300_000)),
        Stream::new(background.clone(), None),
    ];
    drive(&mut streams, 200);
    assert_eq!(streams[0].late, 0, "{:?}", streams[0].worst);
    assert_eq!(
        background.report().count(EventKind::Switched),
        3,
        "{}",
        background.report()
    );
    // the script allows no further compilation: another session is one too many
    drop(streams);
    let speech = wanted(&runtime, "speech", SPEECH, urgent(ms(100)));
    let admitted = runtime.admit([speech]).unwrap().admitted().unwrap();
    assert!(admitted.sessions().is_err());
    assert_eq!(runtime.admitted().unwrap().sessions.len(), 1);
    assert_eq!(parts(&background), whole);
}

#[test]
fn conflicting_best_plans_are_replaced() {
    let runtime = runtime("");
    // both devices run it, the first one faster
    let either: &[(&str, &str)] = &[("Abs", "c1")];
    let alone = chain(&runtime, either);
    let best = runtime.plan(&alone, &urgent(ms(11))).unwrap();
    assert_eq!(best.plan().parts[0].device.index(), 0);
    let pair = ["left", "right"].map(|name| wanted(&runtime, name, either, urgent(ms(11))));
    let admission = runtime.admit(pair).unwrap();
    let words = admission.to_string();
    let used: Vec<String> = (admission.certificate().expect(&words).sessions.iter())
        .map(|session| session.parts[0].timed.device.clone())
        .collect();
    assert!(
        used == ["null:0", "null:1"] || used == ["null:1", "null:0"],
        "{words}"
    );
    let sessions = admission.admitted().unwrap().sessions().unwrap();
    let device = |session: &Session| session.report().parts[0].device.clone();
    assert_eq!(sessions.iter().map(device).collect::<Vec<_>>(), used);
    // a third one has no place left
    let third = wanted(&runtime, "third", either, urgent(ms(11)));
    assert!(runtime.admit([third]).unwrap().refusal().is_some());
}

#[test]
fn part_deadline_is_its_subtask_deadline() {
    let runtime = runtime("");
    let set = [
        wanted(
            &runtime,
            "through",
            &[("Abs", "a1"), ("Abs", "b1")],
            urgent(ms(40)),
        ),
        wanted(&runtime, "other", CAMERA, urgent(ms(40)).deadline(ms(30))),
        wanted(&runtime, "first", CAMERA, urgent(ms(40)).deadline(ms(39))),
    ];
    let admitted = runtime.admit(set).unwrap().admitted().unwrap();
    let due: Vec<Option<u64>> = (admitted.certificate().sessions[0].parts.iter())
        .map(|part| part.due_ns)
        .collect();
    assert!(
        due[0].is_some_and(|due| (8_500_000..30 * MS).contains(&due)),
        "{due:?}"
    );
    assert_eq!(due[1], Some(40 * MS));
    let [through, other, first] = <[Session; 3]>::try_from(admitted.sessions().unwrap()).unwrap();
    let sessions = [first, other, through];
    sessions.iter().for_each(|session| session.start_trace(1));
    let submit = |session: &Session| session.submit(&[&filled(session)]).unwrap();
    let mut runs: Vec<Run> = sessions.iter().map(submit).collect();
    while !runs.is_empty() {
        runs.retain_mut(|run| run.poll(Duration::from_micros(50)).unwrap().is_none());
    }
    let start = |session: &Session| session.trace().0[0].parts[0].start_ns;
    let starts: Vec<u64> = sessions.iter().map(start).collect();
    // its run is due last
    assert!(starts[0] < starts[2] && starts[2] < starts[1], "{starts:?}");
}

#[test]
fn cut_and_uncut_plans_both_count_memory() {
    // tensors of 16 bytes: an uncut plan holds two, that in three parts four
    let held = |limit: u64| {
        let runtime = runtime(&format!("memory_bytes = {limit}"));
        let set = [
            wanted(&runtime, "camera", CAMERA, urgent(FRAME)),
            wanted(&runtime, "background", BACKGROUND, batch()),
        ];
        let admission = runtime.admit(set).unwrap();
        let held = admission.certificate().map(|proof| proof.devices[0].memory_bytes);
        (held, admission.to_string())
    };
    let both = 32 + (32 + 64);
    let (admitted, words) = held(both);
    assert_eq!(admitted, Some(both), "{words}");
    let (refused, words) = held(both - 1);
    assert_eq!(refused, None, "{words}");
    assert!(words.contains("null:0: 128 bytes needed, limit 127"), "{words}");
}

#[test]
fn uncertifiable_sets_are_errors() {
    let runtime = runtime("");
    let refused = |policy: Policy, words: &str| {
        let error = runtime
            .admit([wanted(&runtime, "camera", CAMERA, policy)])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
    };
    refused(
        null().deadline(FRAME),
        "session camera: a deadline needs a period",
    );
    refused(urgent(FRAME).governed(), "a governor changes plans");
    refused(urgent(Duration::ZERO), "the period is 0ns");
    refused(
        urgent(FRAME).deadline(ms(100)),
        "4 runs may be in flight at once, the policy allows 2",
    );
    let margin = wanted(&runtime, "camera", CAMERA, urgent(FRAME)).margin_percent(-1.0);
    let error = runtime.admit([margin]).unwrap_err();
    assert!(error.to_string().contains("the margin is -1 %"), "{error}");
}

#[test]
fn admitted_sessions_come_and_go_on_real_time() {
    let runtime = runtime_with("", |builder| builder);
    let camera = || wanted(&runtime, "camera", CAMERA, urgent(FRAME));
    let background = wanted(&runtime, "background", BACKGROUND, batch());
    let [background] = <[Session; 1]>::try_from(made(&runtime, [background])).unwrap();
    let answer = |run: Run| {
        let outputs = run.wait(ms(60_000)).unwrap();
        outputs.at(0).unwrap().values::<f32>().unwrap()[0]
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let input = filled(&background);
            for _ in 0..12 {
                let runs = [0; 2].map(|_| background.submit(&[&input]).unwrap());
                assert_eq!(runs.map(answer), [0.5; 2]);
            }
        });
        for _ in 0..4 {
            let sessions = made(&runtime, [camera()]);
            assert_eq!(parts(&background).len(), 3);
            let input = filled(&sessions[0]);
            for _ in 0..4 {
                assert_eq!(answer(sessions[0].submit(&[&input]).unwrap()), 0.5);
            }
            drop((input, sessions));
            assert_eq!(parts(&background).len(), 1);
        }
    });
}
