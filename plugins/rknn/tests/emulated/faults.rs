//! What goes wrong in the runtime: codes, a chip that starts anew, runs that hang or are cut short.

use std::time::Duration;

use polychip_host::{CompileOptions, ErrorKind, FlatGraph, Submission};
use polychip_parts::{buffers, floats, load, numbers, read, relu_of_sum, write};

use crate::board::Board;
use crate::runs::run;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn codes_of_runs_have_their_class() {
    let board = Board::own();
    let device = board.device(&[("lanes", "1")]);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let buffers = buffers(&device, &executable, &mut submission);
    for (code, kind) in [
        (-1, ErrorKind::Persistent),
        (-2, ErrorKind::Transient),
        (-3, ErrorKind::DeviceLost),
        (-4, ErrorKind::OutOfMemory),
        (-7, ErrorKind::DeviceLost),
        (-77, ErrorKind::Persistent),
    ] {
        board.faults(&format!("run:1=error:{code}"));
        write(&buffers[0], &floats(&[1.0; 4]));
        let fence = executable.execute(&mut submission, &[]).unwrap();
        let error = fence.wait(PATIENCE).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&code.to_string()), "{error}");
        if kind == ErrorKind::DeviceLost {
            break;
        }
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(PATIENCE).unwrap();
        assert_eq!(numbers(&read(&buffers[1], 16))[0], 2.0);
    }
    board.faults("");
}

#[test]
fn failing_calls_at_load_fail_the_load() {
    let board = Board::own();
    let device = board.device(&[("lanes", "2")]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    for (rule, word) in [
        ("init:1=-6", "release"),
        ("init:1=-13", "target_platform"),
        ("init:1=-4", "memory"),
        ("dup:1=-1", "rknn_dup_context"),
        ("set_core_mask:1=-5", "rknn_set_core_mask"),
        ("query:1=-5", "code -5"),
    ] {
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        board.faults(rule);
        let error = device.load(blob, &flat, 1).map(drop);
        board.faults("");
        match error {
            Err(error) => assert!(error.to_string().contains(word), "{rule}: {error}"),
            // the first question is for the mark, which a runtime may leave out
            Ok(()) => assert!(rule.starts_with("query"), "{rule}"),
        }
        assert_eq!(board.counts().contexts, 0, "{rule}");
    }
}

/// A lost chip is reset: what was loaded is void, and a part loaded anew runs.
#[test]
fn reset_recovers_a_lost_chip() {
    let board = Board::own();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    board.faults("run:1=lost");
    let mut submission = Submission::new(&executable, 4);
    let held = buffers(&device, &executable, &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    assert_eq!(fence.wait(PATIENCE).unwrap_err().kind(), ErrorKind::DeviceLost);
    board.faults("");
    device.reset().unwrap();
    drop((held, executable));
    let executable = load(&device, &relu_of_sum());
    assert_eq!(run(&device, &executable, &[3.0; 4], 4)[0], 4.0);
}

/// A run that never comes back is left behind; the device goes on.
#[test]
fn hanging_run_is_left_behind() {
    let board = Board::own();
    let device = board.device(&[("lanes", "1")]);
    let executable = load(&device, &relu_of_sum());
    board.faults("run:1=hang");
    let mut submission = Submission::new(&executable, 4);
    let held = buffers(&device, &executable, &mut submission);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    let waited = fence.wait(Duration::from_millis(200)).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::Timeout);
    device.reset().unwrap();
    assert_eq!(fence.wait(PATIENCE).unwrap_err().kind(), ErrorKind::DeviceLost);
    let again = load(&device, &relu_of_sum());
    assert_eq!(run(&device, &again, &[3.0; 4], 4)[0], 4.0);
    // lets the run that was left behind go, before its memory does
    board.faults("");
    std::thread::sleep(Duration::from_millis(200));
    drop((held, executable));
}
