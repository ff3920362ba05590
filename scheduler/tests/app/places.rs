//! Run slots: waiting, refusals and their messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use polychip::ErrorKind;

use crate::{PATIENCE, endless, filled, on_cpu, on_device};

#[test]
fn blocking_submit_gets_the_slot_of_a_finished_run() {
    let session = on_device(20, "");
    let input = filled(&session, 1.0);
    let has_ended = AtomicBool::new(false);
    let first = session.submit(&[&input]).unwrap();
    std::thread::scope(|scope| {
        let (waits, begun) = mpsc::channel();
        let (session, input, has_ended) = (&session, &input, &has_ended);
        let second = scope.spawn(move || {
            waits.send(()).unwrap();
            let run = session.submit_blocking(&[input]).unwrap();
            assert!(has_ended.load(Ordering::Acquire), "the first run has its place");
            assert_eq!(run.number(), 2);
            run.wait(PATIENCE).unwrap()
        });
        begun.recv().unwrap();
        has_ended.store(true, Ordering::Release);
        let outputs = first.wait(PATIENCE).unwrap();
        assert_eq!(outputs.run(), 1);
        let second = second.join().unwrap();
        assert_eq!(second.get("a").unwrap().values::<f32>().unwrap()[..], [-1.0; 6]);
    });
}

#[test]
fn blocking_submit_gets_the_slot_of_a_dropped_run() {
    let session = on_device(20, "");
    let input = filled(&session, 1.0);
    drop(session.submit(&[&input]).unwrap());
    let outputs = session
        .submit_blocking(&[&input])
        .unwrap()
        .wait(PATIENCE)
        .unwrap();
    assert_eq!(outputs.run(), 2);
}

#[test]
fn refused_submit_lists_the_runs_in_flight() {
    let session = endless();
    let input = filled(&session, 1.0);
    let first = session.submit(&[&input]).unwrap();
    let words = session.submit(&[&input]).unwrap_err().to_string();
    assert!(
        words.contains("1 run is in flight") && words.contains("run 1, submitted "),
        "{words}"
    );
    assert!(
        words.contains("Session::submit_blocking") && !words.contains("given up"),
        "{words}"
    );
    drop(first);
    let words = session.submit(&[&input]).unwrap_err().to_string();
    assert!(words.contains(" ms ago and given up"), "{words}");
}

#[test]
fn refused_submit_lists_the_runs_with_held_outputs() {
    let session = on_cpu();
    let input = filled(&session, 1.0);
    let run = || session.submit(&[&input])?.wait(PATIENCE);
    let mut kept: Vec<_> = (0..256).map(|_| run().unwrap()).collect();
    let error = run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    let words = error.to_string();
    assert!(
        words.contains("keeps the outputs of 256 (oldest first: runs 1, 2, 3, 4, 5, 6, 7, 8 and 248 more)"),
        "{words}"
    );
    // the one that was refused had a number too
    drop(kept.remove(1));
    kept.push(run().unwrap());
    assert_eq!(kept[255].run(), 258);
    let words = run().unwrap_err().to_string();
    assert!(words.contains("runs 1, 3, 4,"), "{words}");
}

#[test]
fn close_ends_waits_with_the_closed_error() {
    let session = endless();
    let input = filled(&session, 1.0);
    let first = session.submit(&[&input]).unwrap();
    let waits = std::thread::scope(|scope| {
        let waits = [(); 2].map(|()| scope.spawn(|| session.submit_blocking(&[&input]).unwrap_err()));
        session.clone().close();
        waits.map(|wait| wait.join().unwrap())
    });
    let later = session.submit(&[&input]).unwrap_err();
    for error in [&waits[0], &waits[1], &later] {
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(error.to_string(), "the session is closed: it starts no more runs");
    }
    // what is in flight is not touched
    first.cancel();
    assert_eq!(first.wait(PATIENCE).unwrap_err().kind(), ErrorKind::Cancelled);
}
