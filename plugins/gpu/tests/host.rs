//! The gpu plugin through the host: reasons of refusals, a run, blobs cached, torn and of another build.
//!
//! Skipped, with the reason, where no GPU's driver is installed.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use polychip_host::{CompileOptions, Device, ErrorKind, FlatGraph, Host, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{
    buffers, cached_bytes_load_and_changed_ones_are_refused, floats, load, numbers, read, reason,
    relu_of_sum, runs_more_than_once, write,
};
use polychip_test_requirements::{Need, skipped};

fn main() {
    let arguments = Arguments::from_args();
    let host = Host::builder().linked(polychip_gpu::query).build();
    let missing = host.refusals().first().map(ToString::to_string);
    let trial = |name: &str, test: fn()| match &missing {
        Some(why) => skipped(name, Need::Vulkan, why),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let trials = vec![
        trial("a_part_compiles_loads_and_runs_more_than_once", || {
            runs_more_than_once(&device());
        }),
        trial(
            "encoded_commands_match_recorded_commands",
            encoded_commands_match_recorded_commands,
        ),
        trial(
            "runs_over_the_same_memory_may_overlap",
            runs_over_the_same_memory_may_overlap,
        ),
        trial("cached_bytes_load_and_changed_ones_are_refused", || {
            cached_bytes_load_and_changed_ones_are_refused(&device());
        }),
        trial("each_refusal_has_its_reason", each_refusal_has_its_reason),
        trial(
            "a_quarantined_kernel_is_refused_with_its_reason",
            a_quarantined_kernel_is_refused_with_its_reason,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn device() -> Device {
    let host = Host::builder().linked(polychip_gpu::query).build();
    assert_eq!(host.refusals(), []);
    host.devices()[0].clone()
}

/// As on Metal and Direct3D, where nothing is recorded.
fn encoded_commands_match_recorded_commands() {
    let host = Host::builder()
        .linked(polychip_gpu::query)
        .configure("gpu", "record", "off")
        .build();
    runs_more_than_once(&host.devices()[0]);
}

fn runs_over_the_same_memory_may_overlap() {
    let device = device();
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let buffers = buffers(&device, &executable, &mut submission);
    let (x, y) = (&buffers[0], &buffers[1]);
    write(x, &floats(&[1.0, 2.0, 3.0, 4.0]));
    for _ in 0..3 {
        let mut fences = Vec::new();
        for _ in 0..12 {
            let mut submission = Submission::new(&executable, 4);
            submission.bind(0, x, 0).unwrap();
            submission.bind(1, y, 0).unwrap();
            fences.push(executable.execute(&mut submission, &[]).unwrap());
        }
        // what a run holds goes when it ends, and not before: the last ones are waited for first
        for fence in fences.iter().rev() {
            fence.wait(Duration::from_secs(60)).unwrap();
        }
        assert_eq!(numbers(&read(y, 16)), [2.0, 1.0, 3.5, 0.0]);
    }
    // the part goes while its run may be under way
    let fence = executable.execute(&mut submission, &[]).unwrap();
    drop(submission);
    drop(executable);
    fence.wait(Duration::from_secs(60)).unwrap();
}

fn each_refusal_has_its_reason() {
    let device = device();
    let (op, dtype, shape) = (
        polychip_abi::POLYCHIP_SUPPORT_OP,
        polychip_abi::POLYCHIP_SUPPORT_DTYPE,
        polychip_abi::POLYCHIP_SUPPORT_SHAPE,
    );
    assert_eq!(reason(&device, Op::Add, DType::F32, [&[2, 3], &[2, 3]]), 0);
    assert_eq!(reason(&device, Op::Einsum, DType::F32, [&[2, 3], &[2, 3]]), op);
    assert_eq!(reason(&device, Op::Add, DType::F64, [&[2, 3], &[2, 3]]), dtype);
    assert_eq!(reason(&device, Op::Add, DType::F32, [&[2, 3], &[2]]), shape);
}

/// A store in which every kernel was found wrong.
struct Wrong;

impl polychip_host::Store for Wrong {
    fn read(&self, _: &str, key: &str) -> Option<Vec<u8>> {
        key.starts_with("guard ").then(|| b"wrong by decree".to_vec())
    }

    fn write(&self, _: &str, _: &str, _: &[u8]) -> bool {
        true
    }
}

fn a_quarantined_kernel_is_refused_with_its_reason() {
    let host = Host::builder()
        .linked(polychip_gpu::query)
        .store(Arc::new(Wrong))
        .build();
    let device = &host.devices()[0];
    let flat = FlatGraph::new(&relu_of_sum(), &[]).unwrap();
    for support in device.query_support(&flat).unwrap() {
        assert_eq!(support.reason, polychip_abi::POLYCHIP_SUPPORT_QUARANTINED);
        assert!(support.detail.contains("by decree"), "{}", support.detail);
    }
    let compiled = device.compile(&flat, &CompileOptions::default());
    let error = compiled.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("is quarantined: "), "{error}");
}
