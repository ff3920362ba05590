//! What goes wrong in the library: codes, a board that starts anew, runs that hang.

use std::time::Duration;

use polychip_host::{CompileOptions, ErrorKind, FlatGraph, Submission};
use polychip_parts::{buffers, floats, load, numbers, read, relu_of_sum, write};

use crate::board::{Board, PATIENCE, run};

#[test]
fn codes_of_runs_have_their_class() {
    let board = Board::new();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    for (call, code, kind) in [
        ("execute", 145_000, ErrorKind::Unsupported),
        ("run", 507_011, ErrorKind::Persistent),
        ("run", 507_014, ErrorKind::Transient),
        ("synchronize", 207_001, ErrorKind::OutOfMemory),
        ("run", 599_999, ErrorKind::Persistent),
    ] {
        let mut submission = Submission::new(&executable, 4);
        let _held = buffers(&device, &executable, &mut submission);
        board.faults(&format!("{call}:1={code}"));
        let error = executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&code.to_string()), "{error}");
        board.faults("");
        assert_eq!(run(&device, &executable, &[1.0; 4], 4)[0], 2.0, "after {code}");
    }
}

#[test]
fn failing_calls_at_load_fail_the_load_and_leak_nothing() {
    let board = Board::new();
    let device = board.device(&[]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let alive = |counts: crate::board::Counts| (counts.memories, counts.models);
    let before = alive(board.counts());
    for (rule, word) in [
        ("query_size:1=145006", "one release"),
        ("malloc:2=207001", "memory"),
        ("load:1=500002", "of this chip"),
    ] {
        let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
        board.faults(rule);
        let error = device.load(blob, &flat, 1).map(drop).unwrap_err();
        board.faults("");
        assert!(error.to_string().contains(word), "{rule}: {error}");
        assert_eq!(alive(board.counts()), before, "{rule}");
    }
}

/// A lost board is reset: what was loaded is void, and a part loaded anew runs.
#[test]
fn reset_recovers_a_lost_board() {
    let board = Board::new();
    let device = board.device(&[]);
    let lost = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&lost, 4);
    let held = buffers(&device, &lost, &mut submission);
    board.faults("run:1=lost");
    let error = lost
        .execute(&mut submission, &[])
        .unwrap()
        .wait(PATIENCE)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    board.faults("");
    device.reset().unwrap();
    let void = lost.execute(&mut submission, &[]).map(drop).unwrap_err();
    assert_eq!(void.kind(), ErrorKind::DeviceLost, "{void}");
    drop((held, submission, lost));
    let anew = load(&device, &relu_of_sum());
    assert_eq!(run(&device, &anew, &[3.0; 4], 4)[0], 4.0);
}

/// A run that never comes back is left behind; the device goes on.
#[test]
fn hanging_run_is_left_behind() {
    let board = Board::new();
    let device = board.device(&[]);
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let held = buffers(&device, &executable, &mut submission);
    board.faults("run:1=hang");
    let fence = executable.execute(&mut submission, &[]).unwrap();
    let waited = fence.wait(Duration::from_millis(200)).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::Timeout);
    device.reset().unwrap();
    assert_eq!(fence.wait(PATIENCE).unwrap_err().kind(), ErrorKind::DeviceLost);
    let again = load(&device, &relu_of_sum());
    assert_eq!(run(&device, &again, &[3.0; 4], 4)[0], 4.0);
    // lets the thread that was left behind go; what its run held stays, as the SDK says
    board.faults("");
    drop((held, executable));
}

/// What a run wrote before a reset is read after it; what a lost board held is gone, by name.
#[test]
fn buffers_survive_a_reset_but_not_a_loss() {
    let board = Board::new();
    let device = board.device(&[]);
    for (lost, rule) in [(false, ""), (true, "run:2=lost")] {
        board.faults(rule);
        let executable = load(&device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 4);
        let held = buffers(&device, &executable, &mut submission);
        write(&held[0], &floats(&[1.0; 4]));
        executable
            .execute(&mut submission, &[])
            .unwrap()
            .wait(PATIENCE)
            .unwrap();
        if lost {
            let mut other = Submission::new(&executable, 4);
            let _held = buffers(&device, &executable, &mut other);
            executable
                .execute(&mut other, &[])
                .unwrap()
                .wait(PATIENCE)
                .unwrap_err();
        }
        device.reset().unwrap();
        if lost {
            let gone = held[1]
                .access(polychip_host::Access::Read, 0, 16)
                .map(drop)
                .unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::DeviceLost, "{gone}");
        } else {
            assert_eq!(numbers(&read(&held[1], 16))[0], 2.0);
        }
    }
    board.faults("");
}
