//! Checks of what every plugin does.

use std::time::Duration;

use polychip_host::{CompileOptions, Device, ErrorKind, Executable, FlatGraph, Submission};
use polychip_ops::{DType, Op};

use crate::graph::{binary, floats, numbers, relu_of_sum};
use crate::memory::{buffers, load, read, write};

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs [`relu_of_sum`], loaded, on `x`.
///
/// # Panics
/// The run fails, or its span is none.
#[must_use]
pub fn sum(device: &Device, executable: &Executable, x: [f32; 4]) -> Vec<f32> {
    let mut submission = Submission::new(executable, 4);
    let buffers = buffers(device, executable, &mut submission);
    write(&buffers[0], &floats(&x));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(PATIENCE).unwrap();
    let (start_ns, end_ns) = fence.timing().unwrap().span_ns.unwrap();
    assert!(start_ns <= end_ns);
    numbers(&read(&buffers[1], 16))
}

/// A part compiles, loads, and gives the right answers more than once.
///
/// # Panics
/// It does not.
pub fn runs_more_than_once(device: &Device) {
    let executable = load(device, &relu_of_sum());
    let y = sum(device, &executable, [1.0, 0.5, -0.25, 9.0]);
    assert_eq!(y, [2.0, 0.0, 0.25, 1.0]);
    let y = sum(device, &executable, [-2.0, 3.0, 0.0, 8.0]);
    assert_eq!(y, [0.0, 2.0, 0.5, 0.0]);
}

/// The bytes of a blob load again, and with one bit changed they are no blob.
///
/// # Panics
/// It is otherwise.
pub fn cached_bytes_load_and_changed_ones_are_refused(device: &Device) {
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let mut blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    let bytes = blob.bytes().unwrap().to_vec();
    let executable = device.load_bytes(bytes.clone().into(), &flat, 1).unwrap();
    assert_eq!(sum(device, &executable, [0.0; 4]), [1.0, 0.0, 0.5, 0.0]);
    for index in [0, 20, 40, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let refused = device.load_bytes(changed.into(), &flat, 1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadBlob, "byte {index}");
    }
}

/// The reason for which `y = op(x, c)` is refused; 0 where it is supported.
///
/// # Panics
/// `compile` says otherwise than `query_support`.
#[must_use]
pub fn reason(device: &Device, op: Op, dtype: DType, shapes: [&[usize]; 2]) -> u32 {
    let graph = binary(op, dtype, shapes);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device.query_support(&flat).unwrap()[0].clone();
    let compiled = device.compile(&flat, &CompileOptions::default());
    assert_eq!(compiled.is_ok(), support.reason == 0, "{}", support.detail);
    support.reason
}
