//! Sessions of models with open sizes: plans per size, states between runs, app memory.

use crate::model;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::model::{F32, add_relu, node, port};
use polychip::{ErrorKind, Literal, Memory, Packed, Policy, Runtime, Session};

const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Runtime::builder().only_given_folders().build().unwrap()
}

/// A session of a model in memory, on the CPU with one thread.
fn session(model: &model::Model, policy: Policy) -> Session {
    let runtime = runtime();
    let model = runtime.load_bytes("made.onnx", model.bytes()).unwrap();
    runtime.session(&model, policy.threads(1)).unwrap()
}

/// `sum = x + before` over f32 `[n, width]`, and the sum again as an output of its own.
fn counter(width: &str) -> model::Model {
    model::Model {
        nodes: vec![
            node("Add", "add", &["x", "before"], &["after"]),
            node("Neg", "neg", &["after"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["n", width]), port("before", F32, &["n", width])],
        outputs: vec![port("y", F32, &["n", width]), port("after", F32, &["n", width])],
        ..model::Model::default()
    }
}

fn run(session: &Session, rows: usize) -> Vec<f32> {
    let mut x = session.input("x").unwrap();
    x.resize(&[rows, 3]).unwrap();
    let values: Vec<f32> = (0..rows * 3).map(|i| i as f32 - 4.0).collect();
    x.write(&values).unwrap();
    let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
    let y = outputs.get("y/out:0").unwrap();
    assert_eq!(y.shape(), [rows, 3]);
    y.values::<f32>().unwrap().into_owned()
}

fn right(rows: usize) -> Vec<f32> {
    let weights = [1.0, -1.0, 0.5];
    let value = |i: usize| (i as f32 - 4.0 + weights[i % 3]).max(0.0);
    (0..rows * 3).map(value).collect()
}

#[test]
fn session_accepts_all_model_shapes_and_reports_the_cache() {
    let session = session(&add_relu(), Policy::latency());
    assert_eq!(session.inputs().next().unwrap().open, [(0, "n".to_owned())]);
    assert!(session.plan().is_none() && session.report().parts.is_empty());
    for rows in [1, 7, 2, 7, 1, 1000, 7] {
        assert_eq!(run(&session, rows), right(rows), "{rows} rows");
    }
    let report = session.report().shapes.unwrap();
    assert_eq!((report.hits, report.misses, report.dropped), (3, 4, 0));
    let kept: Vec<(usize, u64)> = report.kept.iter().map(|one| (one.sizes["n"], one.runs)).collect();
    assert_eq!(kept, [(7, 3), (1000, 1), (1, 2), (2, 1)]);
    assert!(report.bytes <= report.limit_bytes && report.kept.iter().all(|one| one.planning_ns > 0));
    assert!(
        session.report().to_string().contains("4 kept"),
        "{}",
        session.report()
    );
    session.prepare([("x", [5, 3])]).unwrap();
    assert_eq!(run(&session, 5), right(5));
    assert_eq!(session.report().shapes.unwrap().misses, 5);
}

#[test]
fn output_sizes_are_known_before_the_run() {
    let session = session(&add_relu(), Policy::latency());
    let outputs = session.outputs_for([("x", [7, 3])]).unwrap();
    let y = outputs[0].as_ref().unwrap();
    assert_eq!((&*y.shape, y.bytes, y.open.len()), (&[7, 3][..], 84, 0));
    assert_eq!(run(&session, 7), right(7), "of the plan that was made for it");
    assert_eq!(session.report().shapes.unwrap().misses, 1);
    let error = session.outputs_for([("x", [7, 4])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
}

#[test]
fn binding_an_unwritten_output_is_refused() {
    let made = model::Model {
        nodes: vec![
            node("Shape", "shape", &["x"], &["y"]),
            node("Neg", "neg", &["x"], &["z"]),
        ],
        inputs: vec![port("x", F32, &["n", "3"])],
        outputs: vec![port("y", model::I64, &["2"]), port("z", F32, &["n", "3"])],
        ..model::Model::default()
    };
    let session = session(&made, Policy::latency());
    let outputs = session.outputs_for([("x", [7, 3])]).unwrap();
    assert!(outputs[0].is_none() && outputs[1].is_some());
    let lent = Memory::of_vec(vec![0i64; 2]);
    let y = session.output_in_memory("y", &[2], &lent).unwrap();
    let mut x = session.input("x").unwrap();
    x.resize(&[7, 3]).unwrap();
    let error = session.submit_into(&[&x], &[&y]).unwrap_err();
    assert!(error.to_string().contains("so no run writes it"), "{error}");
    let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
    assert_eq!(outputs.get("y").unwrap().values::<i64>().unwrap()[..], [7, 3]);
}

/// `y = a + b` of strings `[n]`, and `z = -x` of f32 `[n]`.
fn texts() -> model::Model {
    const STRING: u64 = 8;
    model::Model {
        opset: 20,
        nodes: vec![
            node("StringConcat", "concat", &["a", "b"], &["y"]),
            node("Neg", "neg", &["x"], &["z"]),
        ],
        inputs: vec![
            port("a", STRING, &["n"]),
            port("b", STRING, &["n"]),
            port("x", F32, &["m"]),
        ],
        outputs: vec![port("y", STRING, &["n"]), port("z", F32, &["m"])],
        ..model::Model::default()
    }
}

#[test]
fn string_count_comes_from_the_value() {
    let session = session(&texts(), Policy::latency());
    assert!(session.is_open());
    let strings = |texts: &[&str]| Packed::Tensor(Literal::from_strings(texts).unwrap());
    for texts in [&["x", "", "été"][..], &["y"], &["x", "z", ""]] {
        let (mut a, mut b) = (session.input("a").unwrap(), session.input("b").unwrap());
        let mut x = session.input("x").unwrap();
        x.resize(&[2]).unwrap();
        x.write(&[1.0f32, 2.0]).unwrap();
        a.write_packed(&strings(texts)).unwrap();
        b.write_packed(&strings(&vec!["!"; texts.len()])).unwrap();
        let outputs = session.submit(&[&a, &b, &x]).unwrap().wait(PATIENCE).unwrap();
        let joined: Vec<String> = texts.iter().map(|text| format!("{text}!")).collect();
        let joined: Vec<&str> = joined.iter().map(String::as_str).collect();
        assert_eq!(
            Packed::from_bytes(outputs.at(0).unwrap().bytes()),
            Some(strings(&joined))
        );
    }
    let report = session.report().shapes.unwrap();
    assert_eq!((report.hits, report.misses), (1, 2), "a session for each size");
    let outputs = session.outputs_for([("a", &[3][..]), ("b", &[3]), ("x", &[2])]);
    assert!(outputs.unwrap()[0].as_ref().unwrap().packed);
}

#[test]
fn wrong_string_sizes_are_refused_by_name() {
    let made = session(&texts(), Policy::latency());
    let (mut a, mut b) = (made.input("a").unwrap(), made.input("b").unwrap());
    let mut x = made.input("x").unwrap();
    x.resize(&[2]).unwrap();
    let refused = |inputs: &[&polychip::Input]| {
        let error = made.submit(inputs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        error.to_string()
    };
    let words = refused(&[&a, &b, &x]);
    assert!(words.contains("input \"a\" holds no strings"), "{words}");
    let strings = |texts: &[&str]| Packed::Tensor(Literal::from_strings(texts).unwrap());
    a.write_packed(&strings(&["x", "y"])).unwrap();
    b.write_packed(&strings(&["x"])).unwrap();
    let words = refused(&[&a, &b, &x]);
    assert!(
        words.contains("\"n\" is 2 in input \"a\" and 1 in input \"b\""),
        "{words}"
    );
    let mut square = Literal::from_strings(&["x", "y"]).unwrap();
    square.shape = vec![1, 2];
    b.write_packed(&Packed::Tensor(square)).unwrap();
    let words = refused(&[&a, &b, &x]);
    assert!(words.contains("tensor \"b\" is [n]"), "{words}");
    b.write_packed(&Packed::Sequence(vec![])).unwrap();
    let words = refused(&[&a, &b, &x]);
    assert!(words.contains("input \"b\" holds no strings"), "{words}");

    let runtime = runtime();
    let model = runtime.load_bytes("texts.onnx", texts().bytes()).unwrap();
    let buckets = |name: &str| {
        let policy = Policy::latency().shapes(name, [4, 8]);
        runtime.session(&model, policy)
    };
    let error = buckets("n").unwrap_err().to_string();
    assert!(error.contains("\"a\" is packed"), "{error}");
    buckets("m").unwrap();
}

#[test]
fn specialization_cache_stays_below_its_limit() {
    let session = session(&add_relu(), Policy::latency().specialization_cache_bytes(1));
    for rows in [3, 4, 3] {
        assert_eq!(run(&session, rows), right(rows));
    }
    let report = session.report().shapes.unwrap();
    assert_eq!((report.misses, report.dropped, report.kept.len()), (3, 2, 1));
}

#[test]
fn unfitting_shapes_are_refused_by_name() {
    let session = session(&counter("w"), Policy::latency());
    let (mut x, mut before) = (session.input("x").unwrap(), session.input("before").unwrap());
    let words = |error: polychip::Error| {
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        error.to_string()
    };
    let unsized_yet = words(x.write(&[1.0f32]).unwrap_err());
    assert!(unsized_yet.contains("leaves n, w open"), "{unsized_yet}");
    assert!(words(session.submit(&[&x, &before]).unwrap_err()).contains("Input::resize"));
    assert!(words(x.resize(&[2]).unwrap_err()).contains("[n, w]"));
    x.resize(&[2, 3]).unwrap();
    before.resize(&[4, 3]).unwrap();
    let apart = words(session.submit(&[&x, &before]).unwrap_err());
    // names of sizes are hints, but Add needs sizes that broadcast
    assert!(
        apart.contains("shapes [2, 3] and [4, 3] do not broadcast"),
        "{apart}"
    );
    let missing = words(session.submit(&[&x]).unwrap_err());
    assert!(missing.contains("\"before\" is missing"), "{missing}");
    let governed = Policy::latency().governed();
    let runtime = runtime();
    let model = runtime.load_bytes("made.onnx", add_relu().bytes()).unwrap();
    assert!(words(runtime.session(&model, governed).unwrap_err()).contains("governed"));
    assert!(words(model.bind_shapes([("z", [1])]).unwrap_err()).contains("no input \"z\""));
    let bound = model.bind_shapes([("x", [2, 3])]).unwrap();
    assert!(bound.open_dims().is_empty());
}

#[test]
fn bound_outputs_get_the_shape_of_the_run() {
    let session = session(&add_relu(), Policy::latency());
    let (mut x, mut y) = (session.input("x").unwrap(), session.output("y/out:0").unwrap());
    for rows in [2, 5] {
        x.resize(&[rows, 3]).unwrap();
        x.write(&vec![1.0f32; rows * 3]).unwrap();
        let error = session.submit_into(&[&x], &[&y]).unwrap_err();
        assert!(error.to_string().contains("Output::resize"), "{error}");
        y.resize(&[rows, 3]).unwrap();
        session.submit_into(&[&x], &[&y]).unwrap().wait(PATIENCE).unwrap();
        let wanted: Vec<u8> = (0..rows).flat_map(|_| model::floats(&[2.0, 0.0, 1.5])).collect();
        assert_eq!(y.bytes().unwrap()[..], wanted);
    }
}

#[test]
fn state_is_fed_back_reset_saved_and_loaded_in_place() {
    for width in ["3", "w"] {
        let session = session(&counter(width), Policy::latency());
        session.bind_state("before", "after").unwrap();
        let again = session.bind_state("before", "after").unwrap_err();
        assert!(again.to_string().contains("bound already"), "{again}");
        let mut x = session.input("x").unwrap();
        x.resize(&[2, 3]).unwrap();
        x.write(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let step = || {
            let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
            assert!(outputs.get("after").is_err(), "the session keeps it");
            outputs.get("y").unwrap().values::<f32>().unwrap()[..2].to_vec()
        };
        assert_eq!(
            (step(), step(), step()),
            (vec![-1.0, -2.0], vec![-2.0, -4.0], vec![-3.0, -6.0])
        );
        let (shape, saved) = session.state("before").unwrap();
        assert_eq!(
            (&shape[..], &saved[..4]),
            (&[2, 3][..], &3.0f32.to_le_bytes()[..])
        );
        session.reset_state().unwrap();
        assert_eq!(step(), [-1.0, -2.0]);
        session.set_state("before", &shape, &saved).unwrap();
        assert_eq!(step(), [-4.0, -8.0]);
        assert_eq!(session.report().copies, 0);
        // another session continues from this one's state
        let other = self::session(&counter(width), Policy::latency());
        other.bind_state("before", "after").unwrap();
        other.set_state("before", &shape, &saved).unwrap();
        let mut x = other.input("x").unwrap();
        x.resize(&[2, 3]).unwrap();
        x.write(&[1.0f32; 6]).unwrap();
        let outputs = other.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(outputs.get("y").unwrap().values::<f32>().unwrap()[0], -4.0);
        let wrong = session.set_state("before", &[2, 3], &[0; 3]).unwrap_err();
        assert!(wrong.to_string().contains("24 bytes"), "{wrong}");
        assert!(
            session
                .state("x")
                .unwrap_err()
                .to_string()
                .contains("not a state")
        );
    }
}

#[test]
fn stateful_runs_are_serial_and_dropped_ones_count() {
    let session = session(&counter("3"), Policy::latency().in_flight(4));
    session.bind_state("before", "after").unwrap();
    let mut x = session.input("x").unwrap();
    x.resize(&[1, 3]).unwrap();
    x.write(&[1.0f32; 3]).unwrap();
    let first = session.submit(&[&x]).unwrap();
    let error = session.submit(&[&x]).unwrap_err();
    assert!(
        error.kind() == ErrorKind::InFlight && error.to_string().contains("state"),
        "{error}"
    );
    drop(first);
    // the dropped run ends by itself, and its state is the next one's
    let outputs = session
        .submit_within(&[&x], &[], PATIENCE)
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    assert_eq!(outputs.get("y").unwrap().values::<f32>().unwrap()[0], -2.0);
    let given = session
        .submit(&[&x, &session.input("before").unwrap()])
        .unwrap_err();
    assert!(given.kind() == ErrorKind::BadInput, "{given}");
}

#[test]
fn data_dependent_output_grows() {
    let model = model::Model {
        nodes: vec![node("ConstantOfShape", "fill", &["shape"], &["y"])],
        inputs: vec![port("shape", model::I64, &["2"])],
        outputs: vec![port("y", F32, &["a", "b"])],
        ..model::Model::default()
    };
    let session = session(&model, Policy::latency());
    let mut shape = session.input("shape").unwrap();
    // more than the room that an output of unknown size has at first, which is 64 MiB
    for sizes in [[2i64, 3], [4_500, 4_000], [1, 1], [5_000, 4_000], [0, 7]] {
        shape.write(&sizes).unwrap();
        let outputs = session.submit(&[&shape]).unwrap().wait(PATIENCE).unwrap();
        let y = outputs.get("y").unwrap();
        assert_eq!(y.shape(), sizes.map(|size| size as usize));
        assert!(
            y.bytes().len() == 4 * y.shape().iter().product::<usize>()
                && y.bytes().iter().all(|byte| *byte == 0)
        );
    }
}

#[test]
fn held_outputs_do_not_block_runs() {
    let session = session(&add_relu(), Policy::latency().in_flight(2));
    let mut kept = Vec::new();
    for rows in [2, 2, 2, 2, 3, 3, 3, 2] {
        let mut x = session.input("x").unwrap();
        x.resize(&[rows, 3]).unwrap();
        x.write(&vec![kept.len() as f32; rows * 3]).unwrap();
        kept.push(session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap());
    }
    for (value, outputs) in kept.iter().enumerate() {
        let y = outputs.get("y/out:0").unwrap();
        assert_eq!(
            y.values::<f32>().unwrap()[0],
            value as f32 + 1.0,
            "each keeps its own"
        );
    }
}

#[test]
fn submitting_threads_all_get_outputs() {
    let session = session(&add_relu(), Policy::latency().in_flight(3));
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (session, answered) = (&session, &answered);
            scope.spawn(move || {
                let rows = 1 + thread % 4;
                let mut x = session.input("x").unwrap();
                x.resize(&[rows, 3]).unwrap();
                for turn in 0..20 {
                    let value = (thread * 100 + turn) as f32;
                    x.write(&vec![value; rows * 3]).unwrap();
                    let outputs = session
                        .submit_within(&[&x], &[], PATIENCE)
                        .unwrap()
                        .wait(PATIENCE)
                        .unwrap();
                    let y = outputs.get("y/out:0").unwrap();
                    assert_eq!(
                        y.values::<f32>().unwrap()[..3],
                        [value + 1.0, (value - 1.0).max(0.0), value + 0.5]
                    );
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(answered.into_inner(), 64 * 20);
    assert_eq!(
        session.report().shapes.unwrap().misses,
        4,
        "each shape is planned once"
    );
}

#[test]
fn inputs_and_outputs_use_app_memory() {
    let session = session(&add_relu(), Policy::latency());
    let x = Memory::of_vec(vec![1.0f32; 6]);
    let y = Memory::of_vec(vec![0.0f32; 6]);
    let input = session.input_from("x", &[2, 3], &x).unwrap();
    let output = session.output_in_memory("y/out:0", &[2, 3], &y).unwrap();
    session
        .submit_into(&[&input], &[&output])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    let wanted = model::floats(&[2.0, 0.0, 1.5, 2.0, 0.0, 1.5]);
    assert_eq!(y.access(polychip::Access::Read).unwrap()[..], wanted);
    // the app writes its own memory, and the next run reads it there
    x.access(polychip::Access::Write).unwrap()[..4].copy_from_slice(&9.0f32.to_le_bytes());
    session
        .submit_into(&[&input], &[&output])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    assert_eq!(output.bytes().unwrap()[..4], 10.0f32.to_le_bytes());
    let report = session.report();
    assert_eq!((report.copies, report.copied_bytes), (0, 0));
    let small = session.input_from("x", &[3, 3], &x).unwrap_err();
    assert!(
        small
            .to_string()
            .contains("needs 36 bytes, the given memory has 24"),
        "{small}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn frame_in_a_memory_file_is_read_in_place() {
    use std::os::fd::OwnedFd;
    let file = rustix::fs::memfd_create("frame", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 8192).unwrap();
    rustix::io::pwrite(&file, &model::floats(&[5.0; 6]), 4096).unwrap();
    let other: OwnedFd = file.try_clone().unwrap();
    let frame = Memory::of_file(other, 4096, 24).unwrap();
    let session = session(&add_relu(), Policy::latency());
    let input = session.input_from("x", &[2, 3], &frame).unwrap();
    for value in [5.0f32, 7.0] {
        rustix::io::pwrite(&file, &model::floats(&[value; 6]), 4096).unwrap();
        let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(
            outputs.get("y/out:0").unwrap().values::<f32>().unwrap()[0],
            value + 1.0
        );
    }
    assert_eq!(session.report().copies, 0);
}

#[test]
fn models_load_from_memory_and_from_a_file_range() {
    let runtime = runtime();
    let made = add_relu().bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assets.bin");
    std::fs::write(&path, [&[7; 100][..], &made, &[8; 50]].concat()).unwrap();
    let open = || std::fs::File::open(&path).unwrap();
    let inside = runtime
        .load_file("asset.onnx", open(), 100, Some(made.len() as u64))
        .unwrap();
    let bytes = runtime.load_bytes("bytes.onnx", made.clone()).unwrap();
    for model in [inside, bytes] {
        let session = runtime.session(&model, Policy::latency().threads(1)).unwrap();
        assert_eq!(run(&session, 2), right(2));
    }
    let error = runtime
        .load_file("asset.onnx", open(), 200, Some(made.len() as u64 + 100))
        .unwrap_err();
    assert!(
        error.to_string().contains("asset.onnx") && error.to_string().contains("exceeds the file"),
        "{error}"
    );
    assert_eq!(
        runtime.load_bytes("none.onnx", vec![1, 2, 3]).unwrap_err().kind(),
        ErrorKind::BadModel
    );
}
