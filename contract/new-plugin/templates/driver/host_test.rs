//! Tests the xyz plugin through the host, on the driver of `driver/xyz_driver.c`, which they build with
//! the C compiler (`CC`, else `cc`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use polychip_graph::{Graph, Node};
use polychip_host::{CompileOptions, Device, ErrorKind, FlatGraph, Host, Submission};
use polychip_ops::{Attr, Attributes, DType, Op};
use polychip_parts::{buffers, floats, load, numbers, read, relu_of_sum, tensor, write};
use polychip_sdk::Reason;

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds a C source as the driver's library, in a folder of this name, which it returns.
fn built(name: &str, source: &Path, flags: &[&str]) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("xyz_drivers").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let library = folder.join(library_name());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(source)
        .output();
    let output = output.unwrap_or_else(|error| panic!("{compiler}: {error}; set CC to a C compiler"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.display().to_string()
}

/// The name of the driver's library.
fn library_name() -> String {
    format!("{}xyz_driver{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// The folder of the driver, built for one test.
fn driver(test: &str, flags: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver/xyz_driver.c");
    built(test, &source, flags)
}

fn host(settings: &[(&str, &str)]) -> Host {
    let mut builder = Host::builder().linked(polychip_xyz::query);
    for (key, value) in settings {
        builder = builder.configure("xyz", key, *value);
    }
    builder.build()
}

fn device(folder: &str, memory: &str) -> Device {
    let host = host(&[("lib_dir", folder), ("memory", memory)]);
    assert_eq!(host.refusals(), []);
    assert_eq!(host.devices().len(), 1);
    host.devices()[0].clone()
}

/// Why the plugin is refused with these settings.
fn refusal(settings: &[(&str, &str)]) -> String {
    let host = host(settings);
    assert!(host.devices().is_empty());
    host.refusals()[0].to_string()
}

/// A pool with a square kernel over one image.
fn max_pool([height, width]: [usize; 2], kernel: usize) -> Graph {
    let mut graph = Graph::new("pool");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 1, height, width]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 1, height + 1 - kernel, width + 1 - kernel]);
    let mut node = Node::new(Op::MaxPool, vec![Some(x)], vec![Some(y)]);
    node.attributes = Attributes::new().with_ints(Attr::KernelShape, &[kernel as i64; 2]);
    graph.add_node(node);
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    graph
}

#[test]
fn part_runs_in_shared_memory_and_in_memory_of_the_chip() {
    let folder = driver("runs", &[]);
    for memory in ["shared", "device"] {
        let device = device(&folder, memory);
        polychip_parts::runs_more_than_once(&device);
        polychip_parts::cached_bytes_load_and_changed_ones_are_refused(&device);
    }
}

#[test]
fn copies_are_counted_and_shared_memory_needs_none() {
    let folder = driver("copies", &[]);
    for (memory, copied) in [("shared", Some(0)), ("device", Some(16))] {
        let device = device(&folder, memory);
        let executable = load(&device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 4);
        let buffers = buffers(&device, &executable, &mut submission);
        write(&buffers[0], &floats(&[1.0, 2.0, 3.0, 4.0]));
        let fence = executable.execute(&mut submission, &[]).unwrap();
        fence.wait(PATIENCE).unwrap();
        assert_eq!(fence.timing().unwrap().copied_bytes, copied, "{memory}");
        assert_eq!(numbers(&read(&buffers[1], 16)), [2.0, 1.0, 3.5, 0.0]);
    }
}

#[test]
fn pool_is_computed_and_its_step_is_measured() {
    let device = device(&driver("pool", &[]), "shared");
    let graph = max_pool([2, 3], 2);
    let executable = load(&device, &graph);
    let mut submission = Submission::new(&executable, 4);
    submission.measures_steps = true;
    let buffers = buffers(&device, &executable, &mut submission);
    write(&buffers[0], &floats(&[1.0, 2.0, -3.0, -4.0, 0.5, 6.0]));
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(PATIENCE).unwrap();
    assert_eq!(numbers(&read(&buffers[1], 8)), [2.0, 6.0]);
    let steps = fence.steps().unwrap().unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!((&*steps[0].name, &steps[0].nodes[..]), ("max_pool", &[0u32][..]));
}

#[test]
fn sensors_are_reported() {
    let device = device(&driver("sensors", &[]), "shared");
    let before = device.telemetry().unwrap();
    polychip_parts::runs_more_than_once(&device);
    let after = device.telemetry().unwrap();
    assert!(after.temperature_mc.is_some() && after.power_mw.is_some());
    assert!(before.energy_uj.unwrap() <= after.energy_uj.unwrap());
}

#[test]
fn device_computes_again_after_a_run_that_hung() {
    let device = device(&driver("hang", &["-DXYZ_FIRST_SESSION_HANGS"]), "shared");
    assert!(device.offers_reset());
    let executable = load(&device, &relu_of_sum());
    let mut submission = Submission::new(&executable, 4);
    let _buffers = buffers(&device, &executable, &mut submission);
    let hung = executable.execute(&mut submission, &[]).unwrap();
    let kind = |ended: Result<(), polychip_host::Error>| ended.unwrap_err().kind();
    assert_eq!(kind(hung.wait(Duration::from_millis(50))), ErrorKind::Timeout);
    device.reset().unwrap();
    assert_eq!(kind(hung.wait(PATIENCE)), ErrorKind::DeviceLost);
    // what was loaded before is lost
    let stale = executable.execute(&mut submission, &[]).map(drop);
    assert_eq!(kind(stale), ErrorKind::DeviceLost);
    polychip_parts::runs_more_than_once(&device);
}

#[test]
fn missing_and_wrong_libraries_are_named_with_the_remedy() {
    let text = refusal(&[("lib_dir", "/nonexistent")]);
    assert!(text.contains("/nonexistent has no") && text.contains("set xyz.lib_dir"), "{text}");
    let text = refusal(&[("memory", "far")]);
    assert!(text.contains("xyz.memory is 'far'; expected shared or device"), "{text}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("xyz_drivers/text");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(library_name()), "no library").unwrap();
    let text = refusal(&[("lib_dir", &folder.display().to_string())]);
    assert!(text.contains("install the xyz driver") && !text.contains("dlopen failed"), "{text}");
    let stub = |name: &str, text: &str| {
        let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("xyz_{name}.c"));
        std::fs::write(&source, text).unwrap();
        refusal(&[("lib_dir", &built(name, &source, &[]))])
    };
    let text = stub("foreign", "int unrelated(void);\nint unrelated(void) { return 0; }\n");
    assert!(text.contains("no function xyz_version"), "{text}");
    let version = |major: u32| {
        format!("unsigned xyz_version(void);\nunsigned xyz_version(void) {{ return {major}u << 16; }}\n")
    };
    let text = stub("newer", &version(2));
    assert!(text.contains("it is version 2.0; install the xyz driver 1.0"), "{text}");
    let text = stub("torn", &version(1));
    assert!(text.contains("no function xyz_last_error, although it is version 1.0"), "{text}");
}

#[test]
fn each_refusal_has_its_reason() {
    let device = device(&driver("reasons", &[]), "shared");
    let reason = |op: Op, dtype: DType, shapes: [&[usize]; 2]| polychip_parts::reason(&device, op, dtype, shapes);
    assert_eq!(reason(Op::Add, DType::F32, [&[2, 3], &[2, 3]]), 0);
    assert_eq!(reason(Op::Mul, DType::F32, [&[2, 3], &[2, 3]]), Reason::Op as u32);
    assert_eq!(reason(Op::Add, DType::I64, [&[2, 3], &[2, 3]]), Reason::DType as u32);
    assert_eq!(reason(Op::Add, DType::F32, [&[2, 3], &[3]]), Reason::Shape as u32);
    let five: &[usize] = &[1, 1, 1, 2, 3];
    assert_eq!(reason(Op::Add, DType::F32, [five, five]), Reason::Rank as u32);
    let large: &[usize] = &[1 << 29];
    assert_eq!(reason(Op::Add, DType::F32, [large, large]), Reason::Memory as u32);
}

#[test]
fn refusal_of_the_vendors_compiler_is_quoted() {
    let device = device(&driver("vendor", &[]), "shared");
    let graph = max_pool([9, 9], 9);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let support = device.query_support(&flat).unwrap()[0].clone();
    assert_eq!(support.reason, Reason::Vendor as u32);
    assert!(support.detail.contains("pool of 9 x 9 elements; the limit is 64"), "{}", support.detail);
    assert!(device.compile(&flat, &CompileOptions::default()).is_err());
}
