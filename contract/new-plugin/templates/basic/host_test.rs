//! Tests the xyz plugin through the host: refusals, runs, and blobs that are cached, torn or from
//! another build.

use std::time::Duration;

use polychip_host::{Device, ErrorKind, Host, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{binary, buffers, load, relu_of_sum};
use polychip_sdk::Reason;

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn device() -> Device {
    let host = Host::builder().linked(polychip_xyz::query).build();
    assert_eq!(host.refusals(), []);
    assert_eq!(host.devices().len(), 1);
    host.devices()[0].clone()
}

#[test]
fn a_part_compiles_loads_and_runs_more_than_once() {
    polychip_parts::runs_more_than_once(&device());
}

/// Whether a reset ended one of several runs in flight. On a busy machine, all may have ended before it.
fn reset_ends_runs(device: &Device) -> bool {
    let large: &[usize] = &[1 << 19];
    let executable = load(device, &binary(Op::Add, DType::F32, [large, large]));
    let mut submissions: Vec<Submission> = (0..8).map(|_| Submission::new(&executable, 3)).collect();
    let memory: Vec<_> = submissions
        .iter_mut()
        .map(|submission| buffers(device, &executable, submission))
        .collect();
    let runs: Vec<_> = submissions
        .iter_mut()
        .map(|submission| executable.execute(submission, &[]).unwrap())
        .collect();
    device.reset().unwrap();
    let ended: Vec<_> = runs.iter().map(|run| run.wait(PATIENCE)).collect();
    drop(memory);
    ended
        .iter()
        .any(|run| matches!(run, Err(error) if error.kind() == ErrorKind::DeviceLost))
}

#[test]
fn reset_ends_all_runs_and_the_device_computes_again() {
    let device = device();
    assert!(device.offers_reset());
    assert!((0..10).any(|_| reset_ends_runs(&device)), "no run ended as lost");
    polychip_parts::runs_more_than_once(&device);
}

#[test]
fn steps_are_reported_if_the_host_requests_them() {
    let device = device();
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 2);
    let _memory = buffers(&device, &executable, &mut submission);
    for requested in [true, false] {
        submission.measures_steps = requested;
        let run = executable.execute(&mut submission, &[]).unwrap();
        run.wait(PATIENCE).unwrap();
        let steps = run.steps().unwrap().unwrap_or_default();
        let found: Vec<_> = steps.iter().map(|step| (&*step.name, &step.nodes[..])).collect();
        if requested {
            assert_eq!(found, [("add", &[0u32][..]), ("relu", &[1u32][..])]);
        } else {
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

#[test]
fn cached_bytes_load_and_changed_ones_are_refused() {
    polychip_parts::cached_bytes_load_and_changed_ones_are_refused(&device());
}

#[test]
fn each_refusal_has_its_reason() {
    let device = device();
    let reason =
        |op: Op, dtype: DType, shapes: [&[usize]; 2]| polychip_parts::reason(&device, op, dtype, shapes);
    assert_eq!(reason(Op::Add, DType::F32, [&[2, 3], &[2, 3]]), 0);
    assert_eq!(reason(Op::Mul, DType::F32, [&[2, 3], &[2, 3]]), Reason::Op as u32);
    assert_eq!(
        reason(Op::Add, DType::I64, [&[2, 3], &[2, 3]]),
        Reason::DType as u32
    );
    assert_eq!(reason(Op::Add, DType::F32, [&[2, 3], &[3]]), Reason::Shape as u32);
}
