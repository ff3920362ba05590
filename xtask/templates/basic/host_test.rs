//! Tests the xyz plugin through the host: refusals, runs, and blobs that are cached, torn or from
//! another build.

use polychip_host::{Device, Host};
use polychip_ops::{DType, Op};
use polychip_sdk::Reason;

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

#[test]
fn device_computes_again_after_a_reset() {
    let device = device();
    assert!(device.offers_reset());
    polychip_parts::runs_more_than_once(&device);
    device.reset().unwrap();
    polychip_parts::runs_more_than_once(&device);
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
