//! Plans for further sizes of a model, derived from those that the device was asked about.

use std::collections::BTreeMap;
use std::time::Duration;

use polychip::{Policy, Runtime, Session};

use crate::model::{self, F32, add_relu, node, port};

const PATIENCE: Duration = Duration::from_secs(60);
/// Columns of `x`, and of the result.
const INNER: usize = 1100;
const COLUMNS: usize = 4;

fn weight(row: usize, column: usize) -> f32 {
    ((row * 5 + column * 3) % 7) as f32 - 3.0
}

fn x_at(row: usize, column: usize) -> f32 {
    ((row * 2 + column) % 5) as f32 - 2.0
}

fn b_at(row: usize, column: usize) -> f32 {
    ((row + column) % 3) as f32 - 1.0
}

/// `y = relu(x w + b)`, and `z = -b` in the shape of `y`, where either of `x` and `b` may have a single row. Which nodes do
/// nothing depends on the sizes.
fn products() -> model::Model {
    let weights: Vec<f32> = (0..INNER * COLUMNS)
        .map(|at| weight(at / COLUMNS, at % COLUMNS))
        .collect();
    model::Model {
        nodes: vec![
            node("MatMul", "product", &["x", "w"], &["p"]),
            node("Add", "add", &["p", "b"], &["q"]),
            node("Shape", "shape", &["q"], &["s"]),
            node("Reshape", "reshape", &["q", "s"], &["r"]),
            node("Relu", "relu", &["r"], &["y"]),
            node("Expand", "expand", &["b", "s"], &["e"]),
            node("Neg", "neg", &["e"], &["z"]),
        ],
        constants: vec![model::constant(
            "w",
            F32,
            &[INNER as u64, COLUMNS as u64],
            &model::floats(&weights),
        )],
        inputs: vec![port("x", F32, &["n", "1100"]), port("b", F32, &["m", "4"])],
        outputs: vec![port("y", F32, &["rows", "4"]), port("z", F32, &["rows", "4"])],
        ..model::Model::default()
    }
}

fn session(model: &model::Model, policy: Policy) -> Session {
    let runtime = Runtime::builder().only_given_folders().build().unwrap();
    let model = runtime.load_bytes("made.onnx", model.bytes()).unwrap();
    runtime.session(&model, policy.threads(1)).unwrap()
}

/// `y` and `z` of a run with `n` rows of `x` and `m` rows of `b`.
fn run(session: &Session, n: usize, m: usize) -> [Vec<f32>; 2] {
    let mut x = session.input("x").unwrap();
    x.resize(&[n, INNER]).unwrap();
    let values: Vec<f32> = (0..n * INNER).map(|at| x_at(at / INNER, at % INNER)).collect();
    x.write(&values).unwrap();
    let mut b = session.input("b").unwrap();
    b.resize(&[m, COLUMNS]).unwrap();
    let values: Vec<f32> = (0..m * COLUMNS)
        .map(|at| b_at(at / COLUMNS, at % COLUMNS))
        .collect();
    b.write(&values).unwrap();
    let outputs = session.submit(&[&x, &b]).unwrap().wait(PATIENCE).unwrap();
    ["y", "z"].map(|name| outputs.get(name).unwrap().values::<f32>().unwrap().into_owned())
}

/// The same by ONNX's definition; all sums are whole numbers.
fn right(n: usize, m: usize) -> [Vec<f32>; 2] {
    let rows = if n == 1 { m } else { n };
    let row = |count: usize, row: usize| if count == 1 { 0 } else { row };
    let at = |index: usize| (index / COLUMNS, index % COLUMNS);
    let y = (0..rows * COLUMNS).map(|index| {
        let (i, j) = at(index);
        let sum: f32 = (0..INNER).map(|l| x_at(row(n, i), l) * weight(l, j)).sum();
        (sum + b_at(row(m, i), j)).max(0.0)
    });
    let z = (0..rows * COLUMNS).map(|index| {
        let (i, j) = at(index);
        -b_at(row(m, i), j)
    });
    [y.collect(), z.collect()]
}

fn sizes(n: usize, m: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("m".to_owned(), m), ("n".to_owned(), n)])
}

#[test]
fn derived_plans_compute_what_fresh_ones_do() {
    let made = products();
    let session = session(&made, Policy::latency());
    let all = [
        (8, 8),
        (9, 9),
        (9, 1),
        (11, 1),
        (1, 11),
        (1, 13),
        (1, 1),
        (2, 2),
        (2, 1),
        (0, 1),
        (0, 0),
        (1, 0),
        (100, 100),
        (130, 130),
        (8, 8),
    ];
    for (n, m) in all {
        let found = run(&session, n, m);
        assert_eq!(found, right(n, m), "{n} and {m} rows");
        let fresh = self::session(&made, Policy::latency());
        assert_eq!(found, run(&fresh, n, m), "{n} and {m} rows");
        let (ours, other) = (session.plan().unwrap(), fresh.plan().unwrap());
        assert_eq!(ours.model, other.model, "the same graph is planned");
        assert_eq!(ours.memory_bytes, other.memory_bytes, "{n} and {m} rows");
        let parts = |plan: &polychip::Plan| -> Vec<_> {
            let parts = plan.parts.iter();
            parts
                .map(|part| (part.device, part.nodes.clone(), part.inputs.clone()))
                .collect()
        };
        assert_eq!(parts(&ours), parts(&other));
    }
    let report = session.report().shapes.unwrap();
    assert_eq!((report.hits, report.misses), (1, all.len() as u64 - 1));
    let of = |n, m| {
        let one = report.kept.iter().find(|one| one.sizes == sizes(n, m)).unwrap();
        one.costs_of.clone()
    };
    assert_eq!(of(8, 8), None, "the first is asked about");
    assert_eq!(of(9, 9), Some(sizes(8, 8)));
    assert_eq!(of(11, 1), Some(sizes(9, 1)));
    assert_eq!(of(2, 2), Some(sizes(1, 1)));
    assert_eq!(of(2, 1), None, "Expand has work to do here");
    assert_eq!(of(100, 100), None, "too far from what is known");
    assert_eq!(of(130, 130), Some(sizes(100, 100)));
}

#[test]
fn scaled_costs_follow_the_sizes() {
    let session = session(&add_relu(), Policy::latency());
    let time = |rows: usize| {
        session.prepare([("x", [rows, 3])]).unwrap();
        let planned = session.planned().unwrap();
        (0..planned.graph().node_count())
            .map(|node| planned.request().costs.node(node, 0).unwrap().time.picoseconds())
            .sum::<u64>()
    };
    let (one, two) = (time(100_000), time(200_000));
    assert!(one.abs_diff(two / 2) <= one / 1000, "{one} and {two}");
    let report = session.report().shapes.unwrap();
    let derived = report.kept.iter().filter(|one| one.costs_of.is_some());
    assert_eq!(derived.count(), 1);
    let phases = &report.kept[0].phases;
    assert!(phases.bind_ns > 0 && phases.compile_ns > 0);
}

#[test]
fn limits_are_judged_by_stated_costs() {
    let policy = Policy::latency().deadline(Duration::from_secs(10));
    let session = session(&add_relu(), policy);
    for rows in [4, 5, 6] {
        session.prepare([("x", [rows, 3])]).unwrap();
    }
    let report = session.report().shapes.unwrap();
    assert!(report.kept.iter().all(|one| one.costs_of.is_none()));
}

#[test]
fn many_sizes_share_weights_and_keep_the_cache_limit() {
    let session = session(&products(), Policy::latency());
    let bytes = |session: &Session| session.report().shapes.unwrap().bytes;
    run(&session, 8, 8);
    let first = bytes(&session);
    for rows in 9..41 {
        assert_eq!(run(&session, rows, rows), right(rows, rows));
    }
    let each = (bytes(&session) - first) / 32;
    assert!(each < first, "{each} of {first} bytes for each further size");
    let session = self::session(&products(), Policy::latency().specialization_cache_bytes(1));
    for rows in 8..20 {
        assert_eq!(run(&session, rows, rows), right(rows, rows), "{rows} rows");
    }
    let report = session.report().shapes.unwrap();
    assert_eq!((report.kept.len(), report.dropped), (1, 11));
}

#[test]
fn plans_are_not_derived_from_sizes_that_were_evicted() {
    let session = session(&products(), Policy::latency().specialization_cache_bytes(1));
    let costs_of = |rows: usize| {
        assert_eq!(run(&session, rows, rows), right(rows, rows), "{rows} rows");
        session.report().shapes.unwrap().kept[0].costs_of.clone()
    };
    assert_eq!(costs_of(8), None);
    assert_eq!(costs_of(9), Some(sizes(8, 8)), "one plan is kept");
    assert_eq!(costs_of(100), None, "too far from 8");
    assert_eq!(costs_of(99), Some(sizes(100, 100)));
    assert_eq!(costs_of(9), None, "8 was evicted");
}
