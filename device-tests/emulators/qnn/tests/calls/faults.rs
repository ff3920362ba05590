//! Injected faults: what they do, and that everything works again after.

use std::time::{Duration, Instant};

use crate::client::{F32, G, IN, OUT, Session, T, alone, backend, device, faults, relu};

const X: [u8; 4] = [10, 128, 130, 200];
const Y: [u8; 4] = [128, 128, 130, 200];

fn ready(session: &Session) -> (G, T, T) {
    let (graph, x, y) = relu(session, c"g");
    assert_eq!(graph.finalize(), 0);
    (graph, x, y)
}

#[test]
fn a_restart_loses_the_device_until_it_is_created_anew() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    let bystander = Session::new(Some(57));
    let (other, ox, oy) = ready(&bystander);
    assert_eq!(faults("execute:2=ssr"), 1);
    let mut out = [0; 4];
    assert_eq!(graph.run(&x, &X, &y, &mut out), 0);
    assert_eq!(out, Y);
    out = [7; 4];
    for _ in 0..3 {
        assert_eq!(graph.run(&x, &X, &y, &mut out), 1007);
        assert_eq!(out, [7; 4], "nothing is written");
    }
    assert_eq!(session.retrieve(c"g").err(), Some(1007));
    // a context of another device goes on
    assert_eq!(other.run(&ox, &X, &oy, &mut out), 0);
    assert_eq!(out, Y);
    drop(session);
    let session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    assert_eq!(graph.run(&x, &X, &y, &mut out), 0);
}

#[test]
fn calls_fail_with_the_code_that_was_asked_for() {
    let _alone = alone();
    assert_eq!(faults("nonsense"), -1);
    assert_eq!(faults("execute:*=error:6031;execute:1=ssr"), 2);
    let session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    let mut out = [0; 4];
    for _ in 0..3 {
        assert_eq!(graph.run(&x, &X, &y, &mut out), 6031);
    }
    assert_eq!(faults(""), 0);
    assert_eq!(graph.run(&x, &X, &y, &mut out), 0);

    assert_eq!(faults("finalize:op=Gelu=1002;finalize:2=1100"), 2);
    let finalize = |name: &std::ffi::CStr, op: &str| {
        let graph = session.graph(name);
        let (mut x, mut y) = (T::new("x", IN, F32, &[4]), T::new("y", OUT, F32, &[4]));
        assert_eq!(graph.tensor(&mut x) + graph.tensor(&mut y), 0);
        assert_eq!(graph.node(op, &mut [], &[&x], &[&y]), 0);
        (graph, graph.finalize())
    };
    assert_eq!(finalize(c"a", "Gelu").1, 1002);
    let (graph, code) = finalize(c"b", "Relu");
    assert_eq!(code, 1100);
    assert_eq!(
        graph.finalize(),
        0,
        "a graph that failed by chance can be finalized later"
    );

    assert_eq!(faults("deviceCreate:1=14001;backendCreate:1=4000"), 2);
    assert_eq!(device(None).err(), Some(14001));
    let device = device(None).unwrap();
    crate::call!(device_free, device);
    let mut handle = std::ptr::null_mut();
    let code = crate::call!(
        backend_create,
        std::ptr::null_mut(),
        std::ptr::null(),
        &raw mut handle
    );
    assert_eq!(code, 4000);
    crate::call!(backend_free, backend());
}

#[test]
fn hang_ends_on_request_and_slow_call_succeeds() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    assert_eq!(faults("execute:1=slow:30ms;execute:2=hang:30ms"), 2);
    for _ in 0..2 {
        let mut out = [0; 4];
        let start = Instant::now();
        assert_eq!(graph.run(&x, &X, &y, &mut out), 0);
        // a sleep never ends early
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(out, Y);
    }
    // of two threads, one hangs and the other runs meanwhile
    assert_eq!(faults("execute:1=hang"), 1);
    std::thread::scope(|scope| {
        let run = || {
            let mut out = [0; 4];
            (graph.run(&x, &X, &y, &mut out), out)
        };
        let threads = [scope.spawn(run), scope.spawn(run)];
        while !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::yield_now();
        }
        assert!(!threads.iter().all(|thread| thread.is_finished()));
        faults("");
        for thread in threads {
            assert_eq!(thread.join().unwrap(), (0, Y));
        }
    });
}

#[test]
fn an_execute_that_hangs_writes_nothing_once_its_context_is_freed() {
    let _alone = alone();
    let mut session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    assert_eq!(faults("execute:1=hang"), 1);
    std::thread::scope(|scope| {
        let run = || {
            let mut out = [7; 4];
            (graph.run(&x, &X, &y, &mut out), out)
        };
        let threads = [scope.spawn(run), scope.spawn(run)];
        // the one that ran through came second: the other hangs
        while !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(
            crate::call!(context_free, session.context, std::ptr::null_mut()),
            0
        );
        faults("");
        let mut results = threads.map(|thread| thread.join().unwrap());
        results.sort_unstable();
        assert_eq!(results[0], (0, Y));
        assert!(results[1].0 != 0 && results[1].1 == [7; 4], "{results:?}");
    });
    session.context = std::ptr::null_mut();
}

#[test]
fn a_wrong_size_writes_half() {
    let _alone = alone();
    let session = Session::new(Some(57));
    let (graph, x, y) = ready(&session);
    assert_eq!(faults("execute:1=wrong-size"), 1);
    let mut out = [7; 4];
    assert_eq!(graph.run(&x, &X, &y, &mut out), 0);
    assert_eq!(out, [128, 128, 7, 7]);
}
