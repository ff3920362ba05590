//! A device that is reset, and one that hangs: every run ends, buffers stay, parts loaded anew run again.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use polychip_graph::Graph;
use polychip_host::{Buffer, Device, ErrorKind, Executable, Host, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{buffers, floats, load, node, numbers, read, tensor, write};
use polychip_test_requirements::{Need, skipped};

const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    let arguments = Arguments::from_args();
    let host = Host::builder().linked(polychip_gpu::query).build();
    let missing = host.refusals().first().map(ToString::to_string);
    // a real GPU ends sooner than any limit
    let software = host.devices().iter().position(|device| device.info().emulated);
    let missing = missing.map(|why| (Need::Vulkan, why));
    let no_software = software
        .is_none()
        .then(|| (Need::SoftwareVulkan, "all GPUs here are real".to_owned()));
    let trial = |name: &str, missing: Option<(Need, String)>, test: fn()| match missing {
        Some((need, why)) => skipped(name, need, &why),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let trials = vec![
        trial("a_reset_voids_parts_and_keeps_buffers", missing.clone(), reset),
        trial(
            "a_run_beyond_the_limit_is_a_lost_device",
            missing.or(no_software),
            hang,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// `y = relu(x)` of `[4]`.
fn small() -> Graph {
    let mut graph = Graph::new("small");
    let (x, y) = (
        tensor(&mut graph, "x", DType::F32, &[4]),
        tensor(&mut graph, "y", DType::F32, &[4]),
    );
    node(&mut graph, Op::Relu, &[x], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// Products of squares, one after the other.
fn large(side: usize, count: usize) -> Graph {
    let mut graph = Graph::new("large");
    let x = tensor(&mut graph, "x", DType::F32, &[side, side]);
    let mut last = x;
    for index in 0..count {
        let next = tensor(&mut graph, &format!("t{index}"), DType::F32, &[side, side]);
        node(&mut graph, Op::MatMul, &[last, x], next);
        last = next;
    }
    graph.inputs = vec![x];
    graph.outputs = vec![last];
    graph
}

fn bound(device: &Device, executable: &Executable) -> (Submission, Vec<Arc<Buffer>>) {
    let mut submission = Submission::new(executable, 4);
    let buffers = buffers(device, executable, &mut submission);
    (submission, buffers)
}

fn run(executable: &Executable, submission: &mut Submission) -> Result<(), ErrorKind> {
    let fence = executable
        .execute(submission, &[])
        .map_err(|error| error.kind())?;
    fence.wait(PATIENCE).map_err(|error| error.kind())
}

fn reset() {
    let host = Host::builder().linked(polychip_gpu::query).build();
    let device = &host.devices()[0];
    let executable = load(device, &small());
    let (mut submission, buffers) = bound(device, &executable);
    write(&buffers[0], &floats(&[1.0, -2.0, 3.0, -4.0]));
    run(&executable, &mut submission).unwrap();
    device.reset().unwrap();
    assert_eq!(run(&executable, &mut submission), Err(ErrorKind::DeviceLost));
    // the same memory, with what was written to it before
    let again = load(device, &small());
    let mut submission = Submission::new(&again, 4);
    submission.bind(0, &buffers[0], 0).unwrap();
    submission.bind(1, &buffers[1], 0).unwrap();
    write(&buffers[1], &[7; 16]);
    run(&again, &mut submission).unwrap();
    assert_eq!(numbers(&read(&buffers[1], 16)), [1.0, 0.0, 3.0, 0.0]);
}

fn hang() {
    let host = Host::builder()
        .linked(polychip_gpu::query)
        .configure("gpu", "hang_ms", "100")
        .build();
    let device = host
        .devices()
        .iter()
        .find(|device| device.info().emulated)
        .expect("a software GPU was there before");
    let executable = load(device, &large(384, 16));
    let (mut submission, _buffers) = bound(device, &executable);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    let error = fence.wait(PATIENCE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert!(error.to_string().contains("hang_ms"), "{error}");
    device.reset().unwrap();
    // short runs end within the limit
    let again = load(device, &small());
    let (mut submission, _small) = bound(device, &again);
    run(&again, &mut submission).unwrap();
}
