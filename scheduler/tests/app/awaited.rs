//! Runs as futures, on two unrelated executors.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use polychip::{ErrorKind, EventKind, Policy};

use crate::{PATIENCE, endless, filled, on_cpu, on_device, session, soon};

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn run_can_be_awaited_on_any_executor() {
    for session in [on_cpu(), on_device(5, "")] {
        let input = filled(&session, 2.0);
        let answer = async || {
            let outputs = session.submit(&[&input])?.await?;
            let a = outputs.get("a")?;
            Ok::<Vec<f32>, polychip::Error>(a.values::<f32>()?.to_vec())
        };
        for _ in 0..3 {
            assert_eq!(pollster::block_on(answer()).unwrap(), [-2.0; 6]);
            assert_eq!(tokio().block_on(answer()).unwrap(), [-2.0; 6]);
        }
        // and threads wait for the same session's runs as ever
        let outputs = session.submit(&[&input]).unwrap().wait(PATIENCE).unwrap();
        assert_eq!(outputs.get("b").unwrap().values::<f32>().unwrap()[..], [2.0; 6]);
    }
}

#[test]
fn awaited_run_does_not_block_the_executor() {
    let session = endless();
    let input = filled(&session, 1.0);
    // one thread, which would never come to the timer if the run had it
    let error = tokio().block_on(async {
        let mut run = session.submit(&[&input]).unwrap();
        tokio::select! {
            _ = &mut run => panic!("the model has no end"),
            () = tokio::time::sleep(Duration::from_millis(20)) => run.cancel(),
        }
        run.await.unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn one_thread_awaits_several_runs() {
    let sessions = [on_device(30, ""), on_device(10, ""), on_cpu()];
    let answers = tokio().block_on(async {
        let [first, second, third] = sessions.each_ref().map(|session| {
            let input = filled(session, 3.0);
            async move { session.submit(&[&input])?.await }
        });
        let (first, second, third) = tokio::join!(first, second, third);
        [first, second, third].map(|outputs| outputs.unwrap().get("a").unwrap().bytes().to_vec())
    });
    assert_eq!(answers, [(); 3].map(|()| (-3.0f32).to_le_bytes().repeat(6)));
}

#[test]
fn awaited_run_is_retried_after_device_loss() {
    let script = "[[device]]\nfault = [{ kind = \"lost\", at = 1 }]\ncost = { fixed_ns = 1 }\n";
    let session = session(script, Policy::latency().devices(["null"]).retry(1));
    let input = filled(&session, 4.0);
    for _ in 0..3 {
        let outputs = pollster::block_on(session.submit(&[&input]).unwrap()).unwrap();
        assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [-4.0; 6]);
    }
    assert_eq!(session.report().count(EventKind::Retried), 1);
}

#[test]
fn awaited_hung_run_returns_an_error() {
    let script = "[[device]]\nfault = [{ kind = \"hang\" }]\ncost = { fixed_ns = 1 }\n";
    let policy = Policy::latency().devices(["null"]).retry(0);
    let session = session(script, policy.hang_timeout(Duration::from_millis(50)));
    let input = filled(&session, 1.0);
    let error = pollster::block_on(session.submit(&[&input]).unwrap()).unwrap_err();
    assert_eq!(
        (error.kind(), error.device()),
        (ErrorKind::DeviceLost, Some("null:0")),
        "{error}"
    );
}

#[test]
fn run_that_is_no_longer_awaited_finishes() {
    let session = on_device(20, "");
    let mut input = filled(&session, 1.0);
    {
        let mut run = pin!(session.submit(&[&input]).unwrap());
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(run.as_mut().poll(&mut context), Poll::Pending));
    }
    soon(|| input.write(&[2.0f32; 6]));
    let outputs = pollster::block_on(session.submit(&[&input]).unwrap()).unwrap();
    assert_eq!(outputs.get("a").unwrap().values::<f32>().unwrap()[..], [-2.0; 6]);
}

#[test]
fn outputs_can_be_taken_once() {
    let session = on_cpu();
    let input = filled(&session, 1.0);
    let mut run = session.submit(&[&input]).unwrap();
    pollster::block_on(&mut run).unwrap();
    let error = pollster::block_on(run).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
}
