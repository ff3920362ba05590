//! Parts that run: answers, where their bytes go, blobs, costs.

use polychip_graph::{Graph, Node};
use polychip_host::{CompileOptions, FlatGraph, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::cached_bytes_load_and_changed_ones_are_refused;
use polychip_parts::{
    buffers, constant, floats, load, numbers, read, relu_of_sum, runs_more_than_once, tensor, write,
};

use crate::board::{Board, PATIENCE, run};

/// `x [2, 3] * w [3, 4]`, with weights that are no numbers of 16 bits.
fn product() -> Graph {
    let mut graph = Graph::new("product");
    let x = tensor(&mut graph, "x", DType::F32, &[2, 3]);
    let w: Vec<f32> = (0..12).map(|i| i as f32 * 0.1 - 0.3).collect();
    let w = constant(&mut graph, "w", DType::F32, &[3, 4], floats(&w));
    let y = tensor(&mut graph, "y", DType::F32, &[2, 4]);
    graph.add_node(Node::new(Op::MatMul, vec![Some(x), Some(w)], vec![Some(y)]));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    graph
}

#[test]
fn matrix_product_is_right_in_sixteen_bits() {
    let board = Board::new();
    let alive = || {
        (
            board.counts().contexts,
            board.counts().memories,
            board.counts().models,
        )
    };
    let before = alive();
    let device = board.device(&[]);
    let executable = load(&device, &product());
    let x = [0.1f32, -0.7, 0.4, 1.3, 0.2, -0.9];
    let found = run(&device, &executable, &x, 8);
    let mut rounded = false;
    for (at, found) in found.iter().enumerate() {
        let (row, column) = (at / 4, at % 4);
        let terms =
            (0..3).map(|k| f64::from(x[row * 3 + k]) * f64::from((k * 4 + column) as f32 * 0.1 - 0.3));
        let wanted: f64 = terms.sum();
        assert!((f64::from(*found) - wanted).abs() < 2e-3, "{found} {wanted}");
        rounded |= (f64::from(*found) - wanted).abs() > 1e-6;
    }
    assert!(rounded, "the cores round to 16 bits");
    let counts = board.counts();
    assert!(
        counts.runs > 0 && counts.nanoseconds >= 30_000 && counts.nanojoules > 0,
        "{counts:?}"
    );
    drop((executable, device));
    assert_eq!(alive(), before);
}

#[test]
fn a_part_runs_more_than_once() {
    let board = Board::new();
    runs_more_than_once(&board.device(&[]));
}

#[test]
fn cached_bytes_load() {
    let board = Board::new();
    cached_bytes_load_and_changed_ones_are_refused(&board.device(&[]));
}

/// Bytes cross the link where the host writes and reads, and in no run.
#[test]
fn run_copies_nothing_over_the_link_and_each_access_copies_once() {
    let board = Board::new();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let held = buffers(&device, &executable, &mut submission);
    let since = |before: crate::board::Counts| {
        let now = board.counts();
        [
            now.to_board_bytes - before.to_board_bytes,
            now.from_board_bytes - before.from_board_bytes,
            now.on_board_bytes - before.on_board_bytes,
        ]
    };
    let before = board.counts();
    write(&held[0], &floats(&[1.0; 4]));
    assert_eq!(since(before), [held[0].bytes() as u64, 0, 0]);
    let before = board.counts();
    for _ in 0..3 {
        executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap();
    }
    assert_eq!(since(before), [0, 0, 0]);
    assert_eq!(
        board.counts().memories,
        before.memories,
        "a warm run allocates nothing"
    );
    assert_eq!(numbers(&read(&held[1], 16))[0], 2.0);
    assert_eq!(since(before), [0, held[1].bytes() as u64, 0]);
    let _again = read(&held[1], 16);
    assert_eq!(
        since(before),
        [0, held[1].bytes() as u64, 0],
        "what was read is not read again"
    );
}

/// A buffer that one run wrote and the next reads stays on the board.
#[test]
fn output_of_one_run_is_input_of_the_next_in_place() {
    let board = Board::new();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    let mut first = Submission::new(&executable, 4);
    let one = buffers(&device, &executable, &mut first);
    let mut second = Submission::new(&executable, 4);
    let other = buffers(&device, &executable, &mut second);
    second.bind(0, &one[1], 0).unwrap();
    write(&one[0], &floats(&[5.0; 4]));
    let before = board.counts();
    let fence = executable.execute(&mut first, &[]).unwrap();
    let last = executable.execute(&mut second, &[&fence]).unwrap();
    last.wait(PATIENCE).unwrap();
    let after = board.counts();
    assert_eq!(after.to_board_bytes, before.to_board_bytes);
    assert_eq!(
        (after.from_board_bytes, after.on_board_bytes),
        (before.from_board_bytes, before.on_board_bytes)
    );
    assert_eq!(numbers(&read(&other[1], 16))[0], 7.0);
}

/// The device says what it is: a board with memory of its own, what the link costs, that it is emulated.
#[test]
fn device_reports_true_figures() {
    let board = Board::new();
    let device = board.device(&[("cann", "8.0")]);
    let info = device.info();
    assert!(info.emulated && !info.shares_host_memory && !info.imports_memory());
    assert_eq!(info.link_bytes_per_s, Some(31_500_000_000));
    assert_eq!((&*info.soc, info.memory_bytes), ("Ascend310P3", Some(24 << 30)));
    assert!(
        info.name.contains("emulated") && info.driver.contains("CANN 8.0"),
        "{} {}",
        info.name,
        info.driver
    );
    let used = device.telemetry().unwrap().memory_used_bytes.unwrap();
    let executable = load(&device, &product());
    assert!(device.telemetry().unwrap().memory_used_bytes.unwrap() > used);
    drop(executable);
}

#[test]
fn blob_key_covers_every_input_of_the_blob() {
    let board = Board::new();
    let graph = product();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let bytes = |settings: &[(&str, &str)]| {
        let device = board.device(settings);
        let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        blob.bytes().unwrap().to_vec()
    };
    let device = board.device(&[("cann", "8.0")]);
    device
        .load_bytes(bytes(&[("cann", "8.0")]).into(), &flat, 1)
        .map(drop)
        .unwrap();
    for other in [("cann", "7.0"), ("precision_mode", "allow_mix_precision")] {
        let bytes = bytes(&[("cann", "8.0"), other]);
        let refused = device.load_bytes(bytes.into(), &flat, 1).map(drop).unwrap_err();
        assert!(refused.to_string().contains("was made by build"), "{refused}");
    }
}

/// A roofline: more work costs more, and the host is told that nothing was measured.
#[test]
fn an_estimate_is_a_roofline() {
    let board = Board::new();
    let device = board.device(&[]);
    let cost = |graph: &Graph| {
        let flat = FlatGraph::new(graph, &[]).unwrap();
        device.estimate(&flat, &[0]).unwrap().unwrap()
    };
    let large = |rows: usize| {
        let mut graph = Graph::new("large");
        let x = tensor(&mut graph, "x", DType::F32, &[rows, 1024]);
        let y = tensor(&mut graph, "y", DType::F32, &[rows, 1024]);
        graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]));
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        graph
    };
    let (one, two) = (cost(&large(1024)), cost(&large(2048)));
    assert!(one.emulated && one.error_permille >= Some(500));
    // two bytes each way at 204.8 GB/s
    assert_eq!(one.time_ns, Some(20_480));
    assert_eq!(two.time_ns, Some(40_960));
}

/// An output that lies on an input goes through memory of the part's: one copy on the board, and it is counted.
#[test]
fn output_over_its_input_is_copied_on_the_board() {
    let board = Board::new();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let held = buffers(&device, &executable, &mut submission);
    submission.bind(1, &held[0], 0).unwrap();
    write(&held[0], &floats(&[5.0; 4]));
    let before = board.counts();
    for _ in 0..2 {
        executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap();
    }
    let after = board.counts();
    assert_eq!(after.on_board_bytes - before.on_board_bytes, 2 * 16);
    assert_eq!(
        (after.to_board_bytes, after.from_board_bytes),
        (before.to_board_bytes, before.from_board_bytes)
    );
    assert_eq!(numbers(&read(&held[0], 16))[0], 7.0);
}
