//! Calls from several threads at once.

use std::ffi::CString;

use crate::client::{self, Session, alone, faults, noise, relu};

fn wanted(input: &[u8]) -> Vec<u8> {
    input.iter().map(|&q| q.max(128)).collect()
}

#[test]
fn one_graph_runs_from_many_threads() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (x, y) = (&x, &y);
            scope.spawn(move || {
                for round in 0..50 {
                    let input = noise(thread * 100 + round, 4);
                    let mut out = vec![0; 4];
                    assert_eq!(graph.run(x, &input, y, &mut out), 0);
                    assert_eq!(out, wanted(&input));
                }
            });
        }
    });
}

#[test]
fn each_thread_builds_runs_and_frees_its_own() {
    let _alone = alone();
    let before = client::live();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for round in 0..10 {
                    let session = Session::new(Some(30 + thread as u32));
                    let name = CString::new(format!("g{round}")).unwrap();
                    let (graph, x, y) = relu(&session, &name);
                    assert_eq!(graph.finalize(), 0);
                    let input = noise(thread + round, 4);
                    let mut out = vec![0; 4];
                    assert_eq!(graph.run(&x, &input, &y, &mut out), 0);
                    assert_eq!(out, wanted(&input));
                }
            });
        }
    });
    assert_eq!(client::live(), before);
}

#[test]
fn a_restart_is_seen_by_every_thread_and_never_as_a_wrong_answer() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = relu(&session, c"g");
    assert_eq!(graph.finalize(), 0);
    assert_eq!(faults("execute:60=ssr"), 1);
    let lost: usize = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|thread| {
                let (x, y) = (&x, &y);
                scope.spawn(move || {
                    let mut lost = 0;
                    for round in 0..50 {
                        let input = noise(thread * 100 + round, 4);
                        let mut out = vec![0; 4];
                        match graph.run(x, &input, y, &mut out) {
                            0 => assert_eq!(out, wanted(&input)),
                            code => {
                                assert_eq!(code, 1007);
                                lost += 1;
                            }
                        }
                    }
                    lost
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert!(lost > 0 && lost <= 200 - 59, "{lost}");
}
