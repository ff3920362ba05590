//! Parts that run: answers, lanes, blobs, costs.

use std::sync::Arc;
use std::time::Duration;

use polychip_graph::{Graph, Node};
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, Submission};
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_parts::cached_bytes_load_and_changed_ones_are_refused;
use polychip_parts::{buffers, constant, floats, load, numbers, read, runs_more_than_once, tensor, write};

use crate::board::Board;

/// A convolution over planes, with weights that are no numbers of 16 bits, and a Relu.
pub(crate) fn convolution() -> Graph {
    let mut graph = Graph::new("convolution");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 3, 5, 4]);
    let weights: Vec<f32> = (0..4 * 3 * 9).map(|i| (i % 7) as f32 * 0.1 - 0.3).collect();
    let w = constant(&mut graph, "w", DType::F32, &[4, 3, 3, 3], floats(&weights));
    let b = constant(&mut graph, "b", DType::F32, &[4], floats(&[0.5, -0.5, 0.25, 0.0]));
    let sum = tensor(&mut graph, "sum", DType::F32, &[1, 4, 5, 4]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 4, 5, 4]);
    let mut node = Node::new(Op::Conv, vec![Some(x), Some(w), Some(b)], vec![Some(sum)]);
    node.attributes.set(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]));
    graph.add_node(node);
    graph.add_node(Node::new(Op::Relu, vec![Some(sum)], vec![Some(y)]));
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// Runs a part of one input and one output.
pub(crate) fn run(device: &Device, executable: &Executable, x: &[f32], results: usize) -> Vec<f32> {
    let mut submission = Submission::new(executable, 4);
    let buffers = buffers(device, executable, &mut submission);
    write(&buffers[0], &floats(x));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    numbers(&read(&buffers[1], 4 * results))
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// The convolution in f64, of tensors in the graph's order.
fn convolved(x: &[f32]) -> Vec<f64> {
    let weight = |at: usize| f64::from((at % 7) as f32 * 0.1 - 0.3);
    let bias = [0.5, -0.5, 0.25, 0.0];
    let mut y = Vec::new();
    for (m, bias) in bias.into_iter().enumerate() {
        for row in 0..5i32 {
            for column in 0..4i32 {
                let mut sum: f64 = bias;
                for c in 0..3 {
                    for k in 0..9 {
                        let (at_row, at_column) = (row + k / 3 - 1, column + k % 3 - 1);
                        if (0..5).contains(&at_row) && (0..4).contains(&at_column) {
                            let place = (c * 5 + at_row) * 4 + at_column;
                            let tap = (m as i32 * 3 + c) * 9 + k;
                            sum += f64::from(x[place as usize]) * weight(tap as usize);
                        }
                    }
                }
                y.push(sum.max(0.0));
            }
        }
    }
    y
}

/// Planes go in channels first, whatever order the runtime has: in place and by copies.
#[test]
fn convolution_is_right_in_place_and_by_copies() {
    for board in [Board::own as fn() -> Board, Board::connected] {
        let board = board();
        let device = board.device(&[]);
        let executable = load(&device, &convolution());
        let x = values(60);
        let (found, wanted) = (run(&device, &executable, &x, 80), convolved(&x));
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((f64::from(*found) - wanted).abs() < 4e-3, "{found} {wanted}");
        }
        // rounded to 16 bits, so it is not computed here
        assert!(
            found
                .iter()
                .zip(&wanted)
                .any(|(found, wanted)| f64::from(*found) != *wanted)
        );
        let counts = board.counts();
        assert!(counts.runs > 0 && counts.nanoseconds > 0);
        drop(executable);
        drop(device);
        assert_eq!((board.counts().contexts, board.counts().memories), (0, 0));
    }
}

#[test]
fn a_part_runs_more_than_once() {
    let board = Board::own();
    runs_more_than_once(&board.device(&[]));
    assert_eq!(board.counts().copied_bytes, 0, "memory files are used in place");
    drop(board);
    let board = Board::connected();
    runs_more_than_once(&board.device(&[]));
    assert!(board.counts().copied_bytes > 0);
}

#[test]
fn cached_bytes_load() {
    let board = Board::own();
    cached_bytes_load_and_changed_ones_are_refused(&board.device(&[]));
}

#[test]
fn blob_key_covers_every_input_of_the_blob() {
    let board = Board::own();
    let graph = convolution();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let device = board.device(&[]);
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let other = board.device(&[("optimization_level", "1")]);
    let refused = other.load_bytes(bytes.into(), &flat, 1).map(drop).unwrap_err();
    assert!(refused.to_string().contains("was made by build"), "{refused}");
    assert_ne!(device.info().settings, other.info().settings);
}

/// The device says what it is: lanes by cores, kinds of memory, that it is emulated.
#[test]
fn device_reports_true_figures() {
    let board = Board::own();
    let device = board.device(&[]);
    let info = device.info();
    assert!(info.emulated && info.imports_memory_files && !info.imports_host_memory);
    assert!(info.name.contains("emulated"), "{}", info.name);
    assert!(info.driver.contains("2.5.0-emulated"), "{}", info.driver);
    assert!(info.settings.contains("lanes=3"), "{}", info.settings);
    assert!(
        board
            .device(&[("lanes", "1")])
            .info()
            .settings
            .contains("lanes=1")
    );
    drop(board);
    // the library of a connected board has no contexts per core, and takes no memory
    let board = Board::connected();
    let device = board.device(&[("target_platform", "rk3588")]);
    assert!(device.info().settings.contains("lanes=1") && !device.info().imports_memory());
}

/// Runs in flight on every lane, each on memory of its own, in the order of what they wait for.
#[test]
fn runs_on_all_lanes_wait_for_each_other() {
    let board = Board::own();
    let device = board.device(&[]);
    let executable = load(&device, &polychip_parts::relu_of_sum());
    let mut first = Submission::new(&executable, 4);
    let one = buffers(&device, &executable, &mut first);
    let mut second = Submission::new(&executable, 4);
    second.bind(0, &one[1], 0).unwrap();
    let other = buffers(&device, &executable, &mut Submission::new(&executable, 4));
    second.bind(1, &other[1], 0).unwrap();
    for round in 0..30u8 {
        let x = f32::from(round);
        write(&one[0], &floats(&[x; 4]));
        let before = executable.execute(&mut first, &[]).unwrap();
        let after = executable.execute(&mut second, &[&before]).unwrap();
        after.wait(Duration::from_secs(60)).unwrap();
        before.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(numbers(&read(&other[1], 16))[0], x + 2.0);
    }
}

/// Before a compilation the roofline speaks, after it the compiler's table does.
#[test]
fn compiler_report_refines_the_estimate() {
    let board = Board::own();
    let device = board.device(&[]);
    let graph = convolution();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let before = device.estimate(&flat, &[0]).unwrap().unwrap();
    let executable = load(&device, &graph);
    let after = device.estimate(&flat, &[0]).unwrap().unwrap();
    assert!(before.emulated && after.emulated);
    assert!(
        after.error_permille < before.error_permille,
        "{before:?} {after:?}"
    );
    // a Relu that the compiler fused has no row, and keeps its roofline
    let relu = device.estimate(&flat, &[1]).unwrap().unwrap();
    assert_eq!(relu.error_permille, before.error_permille);
    drop(executable);
}

/// Runs of several threads at once, each with buffers of its own.
#[test]
fn threads_share_a_device() {
    let board = Board::own();
    let device = Arc::new(board.device(&[]));
    let executable = load(&device, &polychip_parts::relu_of_sum());
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (device, executable) = (&device, &executable);
            scope.spawn(move || {
                for round in 0..20u8 {
                    let x = f32::from(thread) * 32.0 + f32::from(round);
                    let y = run(device, executable, &[x; 4], 4);
                    assert_eq!(y, [x + 1.0, (x - 1.0).max(0.0), x + 0.5, (x - 8.0).max(0.0)]);
                }
            });
        }
    });
}
