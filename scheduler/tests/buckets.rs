//! Buckets: runs of intermediate sizes are padded, and match unpadded runs.

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

use std::time::Duration;

use model::{F32, I64, constant, floats, node, port, with_integer};
use polychip::{ErrorKind, Memory, Policy, Runtime, Session, ShapesReport};
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_secs(60);
/// Sizes of the axes behind the first.
const INNER: [usize; 2] = [3, 4];

/// A runtime with the CPU and a device that computes as the oracle does, of this script.
fn runtime(script: &str) -> Runtime {
    Runtime::builder()
        .link(polychip_sdk::plugin_query::<polychip_null::NullPlugin>)
        .configure("null", "script", format!("[[device]]\n{script}\n"))
        .only_given_folders()
        .build()
        .unwrap()
}

fn session(model: &model::Model, device: &str, policy: Policy) -> Result<Session, polychip::Error> {
    let runtime = runtime("");
    let model = runtime.load_bytes("made.onnx", model.bytes()).unwrap();
    runtime.session(&model, policy.devices([device]).threads(1))
}

/// Why there is no session.
fn refused(model: &model::Model, policy: Policy) -> String {
    let error = session(model, "cpu", policy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    error.to_string()
}

/// Rows of `x` by weights, and the same with the rows last.
fn rows() -> model::Model {
    let weights: Vec<f32> = (0..12).map(|i| i as f32 / 4.0 - 1.0).collect();
    model::Model {
        nodes: vec![
            node("MatMul", "product", &["x", "w"], &["h"]),
            with_integer(node("Softmax", "soft", &["h"], &["y"]), "axis", 1),
            node("Transpose", "turn", &["y"], &["t"]),
        ],
        constants: vec![constant("w", F32, &[4, 3], &floats(&weights))],
        inputs: vec![port("x", F32, &["n", "4"])],
        outputs: vec![port("y", F32, &["n", "3"]), port("t", F32, &["3", "n"])],
        ..model::Model::default()
    }
}

/// The outputs of a run of so many rows, with their shapes.
fn run(session: &Session, name: &str, rows: usize, inner: &[usize]) -> Vec<(Vec<usize>, Vec<f32>)> {
    let mut x = session.input(name).unwrap();
    let shape = [&[rows], inner].concat();
    x.resize(&shape).unwrap();
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|i| (i * 37 % 19) as f32 / 8.0 - 1.0)
        .collect();
    x.write(&values).unwrap();
    let outputs = session.submit(&[&x]).unwrap().wait(PATIENCE).unwrap();
    let all = 0..outputs.len();
    all.map(|index| {
        let view = outputs.at(index).unwrap();
        (view.shape().to_vec(), view.values::<f32>().unwrap().into_owned())
    })
    .collect()
}

fn near(have: &[(Vec<usize>, Vec<f32>)], wanted: &[(Vec<usize>, Vec<f32>)]) {
    assert_eq!(have.len(), wanted.len());
    for ((shape, have), (other, wanted)) in have.iter().zip(wanted) {
        assert_eq!((shape, have.len()), (other, wanted.len()));
        for (a, b) in have.iter().zip(wanted) {
            let bound = 1e-5 * b.abs().max(1.0);
            assert!(
                (a - b).abs() <= bound || a.to_bits() == b.to_bits(),
                "{a} instead of {b}"
            );
        }
    }
}

fn shapes(session: &Session) -> ShapesReport {
    session.report().shapes.unwrap()
}

#[test]
fn intermediate_sizes_use_the_next_bucket() {
    let padded = session(&rows(), "cpu", Policy::latency().shapes("n", [16, 4])).unwrap();
    let plain = session(&rows(), "cpu", Policy::latency()).unwrap();
    for n in [1, 4, 3, 16, 7, 2, 5, 20, 1] {
        near(&run(&padded, "x", n, &[4]), &run(&plain, "x", n, &[4]));
    }
    let report = shapes(&padded);
    assert_eq!(report.buckets["n"], [4, 16]);
    // 4, 16, and 20, which is above every bucket
    assert_eq!((report.misses, report.hits), (3, 6));
    assert_eq!(report.padded_runs, 6);
    // inputs of 19 rows of 4, and transposed outputs of 3 columns of so many
    assert_eq!(report.padded_bytes, 19 * 4 * 4 + 19 * 3 * 4);
    let words = padded.report().to_string();
    assert!(words.contains("6 runs padded"), "{words}");
    assert_eq!(shapes(&plain).padded_runs, 0);
}

#[test]
fn device_compiles_once_per_bucket() {
    // the fourth compilation fails
    let runtime = runtime("fault = [{ kind = \"compile\", at = 3, times = 99, class = \"persistent\" }]");
    let model = runtime.load_bytes("made.onnx", rows().bytes()).unwrap();
    let policy = Policy::latency()
        .devices(["null"])
        .replan(false)
        .shapes("n", [1, 4, 16]);
    let session = runtime.session(&model, policy).unwrap();
    for n in 1..=16 {
        assert_eq!(run(&session, "x", n, &[4])[1].0, [3, n]);
    }
    assert_eq!((shapes(&session).misses, shapes(&session).padded_runs), (3, 13));
    let error = session.prepare([("x", [17, 4])]).unwrap_err();
    assert!(
        error.to_string().contains("scripted refusal of compilation 3"),
        "{error}"
    );
}

#[test]
fn padded_outputs_are_cut_into_app_memory_without_a_wait() {
    let session = session(&rows(), "cpu", Policy::latency().shapes("n", [8])).unwrap();
    let wanted = run(&session, "x", 3, &[4]);
    let (mut y, mut t) = (session.output("y").unwrap(), session.output("t").unwrap());
    y.resize(&[3, 3]).unwrap();
    t.resize(&[3, 3]).unwrap();
    let known = session.outputs_for([("x", [3, 4])]).unwrap();
    let is_cut = |spec: &polychip::TensorSpec| spec.shape == [3, 3] && spec.bytes == 36;
    assert!(
        known.iter().flatten().filter(|spec| is_cut(spec)).count() == 2,
        "{known:?}"
    );
    let lent = Memory::of_vec(vec![0.0f32; 9]);
    let of_app = session.output_in_memory("t", &[3, 3], &lent).unwrap();
    let mut x = session.input("x").unwrap();
    x.resize(&[3, 4]).unwrap();
    let values: Vec<f32> = (0..12).map(|i| (i * 37 % 19) as f32 / 8.0 - 1.0).collect();
    x.write(&values).unwrap();
    let outputs = session
        .submit_into(&[&x], &[&y, &t])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    assert!(
        outputs
            .get("t")
            .err()
            .unwrap()
            .to_string()
            .contains("bound by the app")
    );
    drop(outputs);
    assert_eq!(y.bytes().unwrap()[..], floats(&wanted[0].1));
    assert_eq!(t.bytes().unwrap()[..], floats(&wanted[1].1));
    drop(session.submit_into(&[&x], &[&of_app]).unwrap());
    let deadline = std::time::Instant::now() + PATIENCE;
    while of_app.bytes().is_err() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(of_app.bytes().unwrap()[..], floats(&wanted[1].1));
    // memory of the bucket's shape is not that of the run
    y.resize(&[8, 3]).unwrap();
    let error = session.submit_into(&[&x], &[&y]).unwrap_err();
    assert!(error.to_string().contains("this run writes [3, 3]"), "{error}");
}

#[test]
fn padded_runs_have_separate_memory() {
    let session = session(&rows(), "cpu", Policy::latency().shapes("n", [8]).in_flight(3)).unwrap();
    let mut x = session.input("x").unwrap();
    x.resize(&[2, 4]).unwrap();
    x.write(&[0.5f32; 8]).unwrap();
    let first = session.submit(&[&x]).unwrap();
    // the run has its own copy, so that the app may write the next one
    x.write(&[-2.0f32; 8]).unwrap();
    let second = session.submit(&[&x]).unwrap();
    let (first, second) = (first.wait(PATIENCE).unwrap(), second.wait(PATIENCE).unwrap());
    let values =
        |outputs: &polychip::Outputs| outputs.get("t").unwrap().values::<f32>().unwrap().into_owned();
    let kept = values(&first);
    assert_ne!(kept, values(&second));
    let _more = run(&session, "x", 7, &[4]);
    assert_eq!(kept, values(&first));
}

#[test]
fn bucket_error_names_the_mixing_node() {
    let conv = model::Model {
        nodes: vec![
            node("Relu", "relu", &["x"], &["r"]),
            node("Conv", "conv1", &["r", "w"], &["y"]),
        ],
        constants: vec![constant("w", F32, &[1, 1, 3], &floats(&[1.0, 2.0, 3.0]))],
        inputs: vec![port("x", F32, &["batch", "1", "width"])],
        outputs: vec![port("y", F32, &["batch", "1", "columns"])],
        ..model::Model::default()
    };
    let words = refused(&conv, Policy::latency().shapes("width", [96, 192]));
    assert!(
        words.contains("Conv \"conv1\" mixes positions of \"width\""),
        "{words}"
    );
    session(&conv, "cpu", Policy::latency().shapes("batch", [1, 4])).unwrap();
    let sum = model::Model {
        nodes: vec![with_integer(
            node("Softmax", "over_rows", &["x"], &["y"]),
            "axis",
            0,
        )],
        inputs: vec![port("x", F32, &["n", "4"])],
        outputs: vec![port("y", F32, &["n", "4"])],
        ..model::Model::default()
    };
    let words = refused(&sum, Policy::latency().shapes("n", [4]));
    assert!(
        words.contains("Softmax \"over_rows\" mixes positions of \"n\""),
        "{words}"
    );
    let words = refused(&rows(), Policy::latency().shapes("batch", [4]));
    assert!(
        words.contains("\"batch\"") && words.contains("leaves open: n"),
        "{words}"
    );
    for sizes in [vec![], vec![0, 4]] {
        let words = refused(&rows(), Policy::latency().shapes("n", sizes));
        assert!(words.contains("all above 0"), "{words}");
    }
    let known = model::Model {
        inputs: vec![port("x", F32, &["2", "4"])],
        outputs: vec![port("y", F32, &["2", "3"])],
        ..rows()
    };
    let words = refused(&known, Policy::latency().shapes("n", [4]));
    assert!(words.contains("no open dimension"), "{words}");
}

#[test]
fn state_with_buckets_is_refused() {
    let counter = model::Model {
        nodes: vec![
            node("Add", "add", &["x", "before"], &["after"]),
            node("Neg", "neg", &["after"], &["y"]),
        ],
        inputs: vec![port("x", F32, &["n", "3"]), port("before", F32, &["n", "3"])],
        outputs: vec![port("y", F32, &["n", "3"]), port("after", F32, &["n", "3"])],
        ..model::Model::default()
    };
    let session = session(&counter, "cpu", Policy::latency().shapes("n", [4])).unwrap();
    let error = session.bind_state("before", "after").unwrap_err();
    assert!(
        error.kind() == ErrorKind::BadInput && error.to_string().contains("\"n\" has buckets"),
        "{error}"
    );
}

#[test]
fn invalid_sizes_fail_the_same_with_buckets() {
    // an even number of columns only
    let target: Vec<u8> = [-1i64, 2].iter().flat_map(|size| size.to_le_bytes()).collect();
    let pairs = model::Model {
        nodes: vec![node("Reshape", "pairs", &["x", "to"], &["y"])],
        constants: vec![constant("to", I64, &[2], &target)],
        inputs: vec![port("x", F32, &["n"])],
        outputs: vec![port("y", F32, &["m", "2"])],
        ..model::Model::default()
    };
    let session = session(&pairs, "cpu", Policy::latency().shapes("n", [4, 16])).unwrap();
    assert_eq!(run(&session, "x", 6, &[])[0].0, [3, 2]);
    let mut x = session.input("x").unwrap();
    x.resize(&[7]).unwrap();
    assert!(session.submit(&[&x]).is_err());
}

/// A chain of nodes that are independent along the first axis of `x: [n, 3, 4]`, by their genes.
fn chain(genes: &[u8]) -> model::Model {
    let weights: Vec<f32> = (0..16).map(|i| (i * 7 % 5) as f32 / 4.0 - 0.5).collect();
    let mut made = model::Model {
        constants: vec![
            constant("w", F32, &[4, 4], &floats(&weights)),
            constant("last", I64, &[1], &2i64.to_le_bytes()),
            constant(
                "flat",
                I64,
                &[3],
                &[0i64, 3, 4]
                    .iter()
                    .flat_map(|size| size.to_le_bytes())
                    .collect::<Vec<_>>(),
            ),
        ],
        inputs: vec![port("x", F32, &["n", "3", "4"])],
        ..model::Model::default()
    };
    let mut before = "x".to_owned();
    for (index, gene) in genes.iter().enumerate() {
        let (out, inner) = (format!("t{index}"), format!("i{index}"));
        let read: &str = &before;
        let nodes = match gene % 9 {
            0 => vec![node("Relu", "", &[read], &[&out])],
            1 => vec![node("Add", "", &[read, "x"], &[&out])],
            2 => vec![node("MatMul", "", &[read, "w"], &[&out])],
            3 => vec![with_integer(
                node("Softmax", "", &[read], &[&out]),
                "axis",
                u64::from(gene / 9 % 2) + 1,
            )],
            4 => vec![node("Sigmoid", "", &[read], &[&out])],
            5 => vec![
                node("ReduceSum", "", &[read, "last"], &[&inner]),
                node("Sub", "", &[read, &inner], &[&out]),
            ],
            6 => vec![
                with_integer(node("Flatten", "", &[read], &[&inner]), "axis", 1),
                node("Reshape", "", &[&inner, "flat"], &[&out]),
            ],
            7 => vec![
                // the rows are last, and first again
                node("Transpose", "", &[read], &[&inner]),
                node("Transpose", "", &[&inner], &[&out]),
            ],
            _ => vec![
                node("Reciprocal", "", &[read], &[&inner]),
                node("Tanh", "", &[&inner], &[&out]),
            ],
        };
        made.nodes.extend(nodes);
        before = out;
    }
    made.nodes.push(node("Transpose", "", &[&before], &["last_rows"]));
    made.outputs = vec![
        port(&before, F32, &["n", "3", "4"]),
        port("last_rows", F32, &["4", "3", "n"]),
    ];
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn padded_runs_of_random_graphs_match_unpadded_runs(genes in prop::collection::vec(any::<u8>(), 1..7)) {
        let model = chain(&genes);
        for device in ["null", "cpu"] {
            let padded = session(&model, device, Policy::latency().shapes("n", [2, 6])).unwrap();
            let plain = session(&model, device, Policy::latency()).unwrap();
            for n in [1, 5, 3, 6] {
                let (have, wanted) = (run(&padded, "x", n, &INNER), run(&plain, "x", n, &INNER));
                match device {
                    "null" => {
                        let bits = |all: &[(Vec<usize>, Vec<f32>)]| -> Vec<(Vec<usize>, Vec<u32>)> {
                            let one = |(shape, values): &(Vec<usize>, Vec<f32>)| {
                                (shape.clone(), values.iter().map(|value| value.to_bits()).collect())
                            };
                            all.iter().map(one).collect()
                        };
                        prop_assert_eq!(bits(&have), bits(&wanted));
                    }
                    _ => near(&have, &wanted),
                }
            }
            prop_assert_eq!((shapes(&padded).misses, shapes(&padded).padded_runs), (2, 3));
        }
    }
}
